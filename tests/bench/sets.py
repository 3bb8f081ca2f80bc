"""Sets, beside redis-server: tools/bench sets.

Bytes of one set of MEMBERS members of 16 bytes, a member; CPU of the server a request, 16 deep, over KEYS sets of a few members; and CPU of one command on two
sets of MEMBERS members each, of which half are in both, with Darter's prefetch on and off. Each server has CPU 0 and one thread.

Variables: KEYS (1000000), MEMBERS (1000000), REQUESTS (2000000), ROUNDS (3), DARTER (build/darter).
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from beside import HEAD, cells, load, row, used  # noqa: E402
from subjects import Subject, cpus  # noqa: E402

KEYS, MEMBERS, REQUESTS = (int(os.environ.get(name, otherwise)) for name, otherwise in (('KEYS', 1000000), ('MEMBERS', 1000000), ('REQUESTS', 2000000)))
SMALL = {'SADD': ['sadd', 'set:__rand_int__', 'member:__rand_int__'], 'SISMEMBER': ['sismember', 'set:__rand_int__', 'member:__rand_int__']}
LARGE = {'SINTERCARD': ['SINTERCARD', 2, 'one', 'two'], 'SINTER': ['SINTER', 'one', 'two'], 'SUNIONSTORE': ['SUNIONSTORE', 'to', 'one', 'two'], 'SDIFF': ['SDIFF', 'one', 'two']}


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


def once(subject, command):
    with subject.client() as c:
        before = subject.cpu_s()
        c.command(*command)
        return (subject.cpu_s() - before) * 1e3


def main():
    with Subject('redis-server', cpu_list=cpus()[0]) as redis, Subject('darter', cpu_list=cpus()[0]) as darter:
        both = {'redis': redis, 'darter': darter}
        found = {name: [bytes_a_member(subject)] for name, subject in both.items()}
        for subject in both.values():
            fill(subject, 'two', MEMBERS // 2)
        print(HEAD)
        row('bytes a member of a set of %d' % MEMBERS, found['redis'], found['darter'], found['darter'], form='%.1f')
        for name, command in LARGE.items():
            row('%s, two sets of %d, ms' % (name, MEMBERS), *cells(redis, darter, lambda s, c=command: once(s, c)), form='%.0f')
        for subject in both.values():
            load(subject, KEYS, 2 * KEYS, SMALL['SADD'])
        for name, command in SMALL.items():
            row('%s, 16 deep, %d sets, us' % (name, KEYS), *cells(redis, darter, lambda s, c=command: load(s, KEYS, REQUESTS, c)))


if __name__ == '__main__':
    main()
