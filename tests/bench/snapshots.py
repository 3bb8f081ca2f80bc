"""Snapshots, beside redis-server: tools/bench snapshots.

SAVE of KEYS keys for values of several sizes, with compression and without: seconds, and CPU of the server with all its threads; Darter with one thread and each of the walk's
prefetches, and with two. The file lies where temporary files do: TMPDIR=/dev/shm measures no disk. Each server has the CPUs that its threads ask for, and the thread that
writes the file whatever is free. What a start takes tells tools/bench loading.

Variables: KEYS (3000000), SIZES (10 20 40 100 1000), ROUNDS (3), DARTER (build/darter).
"""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from measure import Spread, rounds, setting  # noqa: E402
from subjects import Subject  # noqa: E402

KEYS = setting('KEYS', 3000000)
SIZES = [int(n) for n in (os.environ.get('SIZES') or '10 20 40 100 1000').split()]
# The name, and what is asked of Darter.
COLUMNS = [('redis-server', None), ('Darter, no prefetch', 'none'), ('entries', 'entries'), ('entries and values', 'values'), ('two threads', 'values')]


def cpu_s(subject):
    """With threads that have ended, as the one that writes a file has."""
    with open('/proc/%d/stat' % subject.pid) as f:
        fields = f.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def save(subject, compression, ahead):
    subject.ask('CONFIG', 'SET', 'rdbcompression', compression)
    if ahead:
        subject.ask('CONFIG', 'SET', 'snapshot-prefetch', ahead)
    cpu, start = cpu_s(subject), time.monotonic()
    subject.ask('SAVE')
    return time.monotonic() - start, cpu_s(subject) - cpu


def measure(size):
    """By compression and column: seconds and CPU of each round."""
    found = {}
    for kind, threads, columns in (('redis-server', 1, COLUMNS[:1]), ('darter', 1, COLUMNS[1:4]), ('darter', 2, COLUMNS[4:])):
        with Subject(kind, threads=threads) as subject:
            subject.fill(KEYS, size)
            for _ in range(rounds()):
                for compression in ('no', 'yes'):
                    for name, ahead in columns:
                        found.setdefault((compression, name), []).append(save(subject, compression, ahead))
    return found


def main():
    print('| SAVE of %d keys, s (CPU s) | %s |' % (KEYS, ' | '.join(name for name, _ in COLUMNS)))
    print('|---' * (1 + len(COLUMNS)) + '|')
    for size in SIZES:
        found = measure(size)
        for compression in ('no', 'yes'):
            cells = [found[compression, name] for name, _ in COLUMNS]
            print('| %d B, compression %s | %s |' % (size, compression, ' | '.join(
                '%.2f (%.2f)' % (Spread([wall for wall, _ in c]).median, Spread([cpu for _, cpu in c]).median) for c in cells)), flush=True)


main()
