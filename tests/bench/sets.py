"""Sets, beside redis-server: tools/bench sets.

Bytes of one set of MEMBERS members of 16 bytes, a member; CPU of the server a request, 16 deep, over KEYS sets of a few members; and CPU of one command on two
sets of MEMBERS members each, of which half are in both, with Darter's prefetch on and off. Each server has CPU 0 and one thread.

Variables: KEYS (1000000), MEMBERS (1000000), REQUESTS (2000000), ROUNDS (3), DARTER (build/darter).
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from measure import Spread, in_turn, rounds  # noqa: E402
from subjects import Subject, cpus, on  # noqa: E402

KEYS, MEMBERS, REQUESTS = (int(os.environ.get(name, otherwise)) for name, otherwise in (('KEYS', 1000000), ('MEMBERS', 1000000), ('REQUESTS', 2000000)))
SMALL = {'SADD': ['sadd', 'set:__rand_int__', 'member:__rand_int__'], 'SISMEMBER': ['sismember', 'set:__rand_int__', 'member:__rand_int__']}
LARGE = {'SINTERCARD': ['SINTERCARD', 2, 'one', 'two'], 'SINTER': ['SINTER', 'one', 'two'], 'SUNIONSTORE': ['SUNIONSTORE', 'to', 'one', 'two'], 'SDIFF': ['SDIFF', 'one', 'two']}


def used(subject):
    return int(subject.ask('INFO', 'memory').decode().split('used_memory:')[1].split()[0])


def fill(subject, key, first):
    with subject.client() as c:
        for start in range(first, first + MEMBERS, 1000):
            c.command('SADD', key, *(b'member:%09d' % i for i in range(start, min(start + 1000, first + MEMBERS))))
        for _ in range(MEMBERS // 50):      # of redis-server the end of its rehashing
            c.command('SISMEMBER', key, 'x')


def bytes_a_member(subject):
    before = used(subject)
    fill(subject, 'one', 0)
    return (used(subject) - before) / MEMBERS


def load(subject, command, requests):
    before = subject.cpu_s()
    subprocess.run([*on(cpus()[1]), 'redis-benchmark', '-p', str(subject.port), '-q', '-P', '16', '-r', str(KEYS), '-n', str(requests), *command], check=True, stdout=subprocess.DEVNULL)
    return (subject.cpu_s() - before) * 1e6 / requests


def once(subject, command):
    with subject.client() as c:
        before = subject.cpu_s()
        c.command(*command)
        return (subject.cpu_s() - before) * 1e3


def row(name, redis, *ours, form='%.2f'):
    redis, ours = Spread(redis), [Spread(o) for o in ours]
    print('| %s | %s | %s | %.2f |' % (name, redis.text(form), ' | '.join(o.text(form) for o in ours), ours[0].median / redis.median))


def main():
    with Subject('redis-server', cpu_list=cpus()[0]) as redis, Subject('darter', cpu_list=cpus()[0]) as darter:
        both = {'redis': redis, 'darter': darter}
        found = {name: [bytes_a_member(subject)] for name, subject in both.items()}
        for subject in both.values():
            fill(subject, 'two', MEMBERS // 2)
        print('| what | redis-server | Darter | Darter, prefetch none | ratio |\n|---|---|---|---|---|')
        row('bytes a member of a set of %d' % MEMBERS, found['redis'], found['darter'], found['darter'], form='%.1f')

        def without(measure):
            darter.ask('CONFIG', 'SET', 'prefetch', 'none')
            try:
                return measure(darter)
            finally:
                darter.ask('CONFIG', 'SET', 'prefetch', 'full')

        def cells(measure):
            measured = in_turn({'redis': lambda: measure(redis), 'darter': lambda: measure(darter), 'none': lambda: without(measure)}, rounds())
            return measured['redis'], measured['darter'], measured['none']
        for name, command in LARGE.items():
            row('%s, two sets of %d, ms' % (name, MEMBERS), *cells(lambda s, c=command: once(s, c)), form='%.0f')
        for subject in both.values():
            load(subject, SMALL['SADD'], 2 * KEYS)
        for name, command in SMALL.items():
            row('%s, 16 deep, %d sets, us' % (name, KEYS), *cells(lambda s, c=command: load(s, c, REQUESTS)))


if __name__ == '__main__':
    main()
