"""Writing an experiment down: its tables to standard output, and into its block of docs/benchmarks.md with its pictures. BENCH_DOCS names another folder than docs/.

A block stands between two comments, "<!-- tools/bench NAME -->" and "<!-- end of NAME -->", and is rewritten as a whole; what a person has to say stands outside.
"""

import os
import platform
import re
import sys
import time

from subjects import ROOT

SERIES = ('#4c78a8', '#f58518', '#54a24b', '#b279a2', '#9d755d', '#72b7b2')


def directory():
    return os.environ.get('BENCH_DOCS') or os.path.join(ROOT, 'docs')


def cpu_model():
    with open('/proc/cpuinfo') as f:
        found = re.search(r'^model name\s*: (.*)$', f.read(), re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def load_average():
    return '%.1f' % os.getloadavg()[0]


class Record:
    """The block of an experiment: lines of markdown, shown as they come, written at the end."""

    def __init__(self, name):
        self.name, self.lines, self.load_before = name, [], load_average()
        settings = ' '.join('%s=%s' % (v, os.environ[v]) for v in ('KEYS', 'SIZE', 'REQUESTS', 'ROUNDS') if v in os.environ)
        self.command = (settings + ' ' if settings else '') + 'tools/bench ' + name

    def say(self, text=''):
        self.lines.append(text)
        print(text, flush=True)

    def progress(self, text):
        print('bench: ' + text, file=sys.stderr, flush=True)

    def table(self, head, rows):
        self.say('| ' + ' | '.join(head) + ' |')
        self.say('|' + '---|' * len(head))
        for row in rows:
            self.say('| ' + ' | '.join(row) + ' |')
        self.say()

    def picture(self, name, title, groups, series):
        """Bars: groups are texts, series {name: list of Spread}."""
        where = os.path.join(directory(), 'pictures')
        os.makedirs(where, exist_ok=True)
        with open(os.path.join(where, '%s.svg' % name), 'w') as f:
            f.write(bars(title, groups, series))
        self.say('![%s](pictures/%s.svg)' % (title, name))
        self.say()

    def write(self):
        path = os.path.join(directory(), 'benchmarks.md')
        text = ''
        if os.path.exists(path):
            with open(path) as f:
                text = f.read()
        taken = '`%s`; %s, %d CPUs, Linux %s, %s; load average %s before and %s after.' % (
            self.command, cpu_model(), os.cpu_count(), platform.release().split('-')[0], time.strftime('%Y-%m-%d %H:%M'), self.load_before, load_average())
        with open(path, 'w') as f:
            f.write(replaced(text, self.name, taken + '\n\n' + '\n'.join(self.lines).rstrip()))


def replaced(text, name, block):
    """The text with the block in its place: where it was, or at the end."""
    first, last = '<!-- tools/bench %s -->' % name, '<!-- end of %s -->' % name
    whole = '%s\n%s\n%s' % (first, block, last)
    before, found, rest = text.partition(first)
    if found:
        _, end, after = rest.partition(last)
        if not end:
            raise RuntimeError('docs/benchmarks.md: "%s" is missing' % last)
        return before + whole + after
    return (text.rstrip('\n') + '\n\n' if text.strip() else '') + whole + '\n'


def bars(title, groups, series):
    """An SVG: a bar a series in each group, its median's height, with a line from the least to the greatest."""
    width, height, left, top, bottom = 760, 300, 56, 56, 44
    most = max(s.high for row in series.values() for s in row) or 1
    group_width = (width - left - 12) / len(groups)
    bar = group_width * 0.8 / len(series)

    def y(value):
        return height - bottom - (height - top - bottom) * value / most

    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">' % (width, height),
           '<rect width="%d" height="%d" fill="#fff"/>' % (width, height), '<text x="%d" y="18" font-size="13">%s</text>' % (left, escaped(title))]
    for i in range(5):
        value = most * i / 4
        out.append('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.3g</text>' % (left, width - 12, y(value), y(value), left - 6, y(value) + 4, value))
    for k, (name, row) in enumerate(series.items()):
        colour = SERIES[k % len(SERIES)]
        out.append('<rect x="%d" y="28" width="10" height="10" fill="%s"/><text x="%d" y="37">%s</text>' % (left + 116 * k, colour, left + 116 * k + 14, escaped(name)))
        for g, s in enumerate(row):
            x = left + group_width * (g + 0.1) + bar * k
            out.append('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>' % (x, y(s.median), bar * 0.92, height - bottom - y(s.median), colour))
            out.append('<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#333"/>' % (x + bar * 0.46, x + bar * 0.46, y(s.low), y(s.high)))
    for g, text in enumerate(groups):
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%s</text>' % (left + group_width * (g + 0.5), height - bottom + 18, escaped(text)))
    return '\n'.join(out) + '\n</svg>\n'


def escaped(text):
    return text.replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;')
