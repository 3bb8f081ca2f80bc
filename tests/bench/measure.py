"""Measuring: a load by darter-bench, cells in turn over several rounds, medians with their spread.

A cell is one column of a comparison, measured once a round; within a round cells follow each other closely, in an order drawn for each round. So what else
the machine does falls on all alike, and cells are compared within rounds: a ratio is the median of the rounds' ratios, and its spread is the least and the greatest.
"""

import json
import os
import random
import statistics
import subprocess
import tempfile

from subjects import darter_binary, on

# Ratios nearer to 1 than this are no difference, whatever the spread.
NOTHING = 0.03


def setting(name, otherwise):
    return int(os.environ.get(name) or otherwise)


def rounds():
    return setting('ROUNDS', 5)


def load(subject, cpu_list, requests, *arguments, **named):
    """Runs a tenth of the load unmeasured, so that whatever ran before has left the caches, then all of it."""
    run_load(subject, cpu_list, requests // 10, *arguments, **named)
    return run_load(subject, cpu_list, requests, *arguments, **named)


def run_load(subject, cpu_list, requests, connections, pipeline=1, qps=0, **flags):
    """Runs the load once, from one thread. Returns server CPU and own CPU (us a request), the rate (requests a second), requests a server CPU second, p99 (us) and hits (share)."""
    with tempfile.NamedTemporaryFile(suffix='.json') as out:
        words = ['-p', subject.port, '-h', '127.0.0.1', '--proactor_threads=1', '-c', connections, '-n', max(requests // connections, pipeline), '--qps=%d' % qps,
                 '--pipeline=%d' % pipeline, '--json_out_file=' + out.name, *('--%s=%s' % pair if len(pair[0]) > 1 else '-%s=%s' % pair for pair in flags.items())]
        before = subject.cpu_s()
        done = subprocess.run([*on(cpu_list), os.path.join(os.path.dirname(os.path.abspath(darter_binary())), 'darter-bench'), *map(str, words)],
                              capture_output=True, text=True)
        used = subject.cpu_s() - before
        if done.returncode:
            raise RuntimeError('darter-bench failed: ' + done.stderr + done.stdout)
        said = json.load(out)
    counts, totals = said['counts'], said['ALL STATS']['Totals']
    if counts['errors'] or not counts['requests']:
        raise RuntimeError('error replies: %s' % counts)
    n = counts['requests']
    return {'cpu': used * 1e6 / n, 'own': said['own_cpu']['us_per_request'], 'rate': totals['Ops/sec'], 'per_cpu_s': n / used,
            'p99': totals['Percentile Latencies']['p99.00'] * 1e3, 'hits': counts['hits'] / n, 'requests': n}


def in_turn(cells, count=None):
    """cells: {name: function that measures once}. Returns {name: list of a figure for each round}."""
    found, order = {name: [] for name in cells}, random.Random(len(cells))
    for _ in range(count or rounds()):
        for name in order.sample(list(cells), len(cells)):
            found[name].append(cells[name]())
    return found


class Spread:
    """A median with the least and the greatest."""

    def __init__(self, values):
        self.values = list(values)
        self.median, self.low, self.high = statistics.median(self.values), min(self.values), max(self.values)

    def text(self, form='%.2f'):
        if len(self.values) == 1:
            return form % self.median
        return '%s (%s–%s)' % (form % self.median, form % self.low, form % self.high)

    def verdict(self):
        """Of a ratio: is it a difference? One that each round confirms, and no hair's breadth."""
        if len(self.values) == 1:
            return 'one round tells nothing'
        if abs(self.median - 1) < NOTHING or self.low <= 1 <= self.high:
            return 'null: no difference beyond noise'
        return '%+.0f %%' % (100 * (self.median - 1))


def pick(measured, key):
    """The spread of one figure of in_turn()'s measurements."""
    return Spread(m[key] for m in measured)


def ratio(measured, base, key):
    """Round by round."""
    return Spread(m[key] / b[key] for m, b in zip(measured, base))
