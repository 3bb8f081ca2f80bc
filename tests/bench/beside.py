"""What the experiments beside redis-server share: load by redis-benchmark, one server's prefetch on and off, rows of a table."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from measure import Spread, in_turn, rounds  # noqa: E402
from subjects import cpus, on  # noqa: E402

HEAD = '| what | redis-server | Darter | Darter, prefetch none | ratio |\n|---|---|---|---|---|'


def used(subject):
    return int(subject.ask('INFO', 'memory').decode().split('used_memory:')[1].split()[0])


def load(subject, of, requests, command):
    """CPU of the server a request, us, 16 deep. of: what __rand_int__ is drawn from."""
    before = subject.cpu_s()
    subprocess.run([*on(cpus()[1]), 'redis-benchmark', '-p', str(subject.port), '-q', '-P', '16', '-r', str(of), '-n', str(requests), *command], check=True, stdout=subprocess.DEVNULL)
    return (subject.cpu_s() - before) * 1e6 / requests


def without_prefetch(darter, measure):
    darter.ask('CONFIG', 'SET', 'prefetch', 'none')
    try:
        return measure(darter)
    finally:
        darter.ask('CONFIG', 'SET', 'prefetch', 'full')


def cells(redis, darter, measure):
    """measure(subject), in turn: redis-server, Darter, Darter without prefetch."""
    measured = in_turn({'redis': lambda: measure(redis), 'darter': lambda: measure(darter), 'none': lambda: without_prefetch(darter, measure)}, rounds())
    return measured['redis'], measured['darter'], measured['none']


def row(name, redis, *ours, form='%.2f'):
    redis, ours = Spread(redis), [Spread(o) for o in ours]
    print('| %s | %s | %s | %.2f |' % (name, redis.text(form), ' | '.join(o.text(form) for o in ours), ours[0].median / redis.median))
