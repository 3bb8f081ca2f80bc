"""Loading a snapshot, beside redis-server: tools/bench loading.

A start with a file of KEYS keys that Darter has written with two threads: seconds as the log tells them, and CPU seconds of the process; redis-server, and Darter with each number
of THREADS; in every round each once. The file lies where temporary files do: TMPDIR=/dev/shm measures no disk. BESIDE names another build of Darter, which is measured in turn with this
one, on the same file.

Variables: KEYS (3000000), SIZES (100), THREADS (1 2 4), COMPRESSION (no), ROUNDS (5), BESIDE, DARTER (build/darter).
"""

import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from measure import Spread, in_turn, setting  # noqa: E402
from subjects import Subject, darter_binary  # noqa: E402

KEYS = setting('KEYS', 3000000)
SIZES = [int(n) for n in (os.environ.get('SIZES') or '100').split()]
THREADS = [int(n) for n in (os.environ.get('THREADS') or '1 2 4').split()]


def cpu_s(subject):
    """With threads that have ended, as the loaders have."""
    with open('/proc/%d/stat' % subject.pid) as f:
        fields = f.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def write_file(folder, size):
    with Subject('darter', threads=2, options=['--dir', folder]) as subject:
        subject.fill(KEYS, size)
        subject.ask('CONFIG', 'SET', 'rdbcompression', os.environ.get('COMPRESSION') or 'no')
        subject.ask('SAVE')


def load(folder, kind, threads, binary):
    """Seconds and CPU seconds of a start."""
    before = os.environ.get('DARTER')
    os.environ['DARTER'] = binary
    try:
        subject = Subject(kind, threads=threads, options=['--dir', folder])
    finally:
        if before is None:
            del os.environ['DARTER']
        else:
            os.environ['DARTER'] = before
    with subject:
        used = cpu_s(subject)
        found = subject.ask('DBSIZE')
        with open(subject.log_path, errors='replace') as f:
            said = re.search(r'DB loaded from disk: ([0-9.]+) seconds', f.read())
        if found != KEYS or not said:
            raise RuntimeError('%s has loaded %d keys of %d' % (kind, found, KEYS))
        return float(said[1]), used


def columns():
    """(name, kind, threads, binary)."""
    yield 'redis-server', 'redis-server', 1, darter_binary()
    for threads in THREADS:
        name = 'Darter, %d thread%s' % (threads, '' if threads == 1 else 's')
        if os.environ.get('BESIDE'):
            yield name + ', beside', 'darter', threads, os.environ['BESIDE']
        yield name, 'darter', threads, darter_binary()


def main():
    print('| start with %d keys, s, and CPU s | %s |' % (KEYS, ' | '.join(name for name, *_ in columns())))
    print('|---' * (1 + len(list(columns()))) + '|')
    for size in SIZES:
        folder = tempfile.mkdtemp(prefix='darter-bench-')
        try:
            write_file(folder, size)
            found = in_turn({name: lambda c=(kind, threads, binary): load(folder, *c) for name, kind, threads, binary in columns()})
        finally:
            shutil.rmtree(folder)
        cells = [[Spread(figures).text() for figures in zip(*found[name])] for name, *_ in columns()]
        print('| %d B | %s |' % (size, ' | '.join('%s and %s' % tuple(cell) for cell in cells)), flush=True)


main()
