"""Sorted sets, beside redis-server: tools/bench zsets.

Bytes of small sorted sets and of large ones, a member; CPU of the server a request, 16 deep, over KEYS sorted sets of a few members, and on one of MEMBERS members whose
scores are drawn from as many; each with Darter's prefetch on and off. Each server has CPU 0 and one thread.

Variables: KEYS (1000000), MEMBERS (5000000), REQUESTS (1000000), ROUNDS (3), DARTER (build/darter).
"""

import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from beside import HEAD, cells, load, row, used  # noqa: E402
from subjects import Subject, cpus  # noqa: E402

KEYS, MEMBERS, REQUESTS = (int(os.environ.get(name, otherwise)) for name, otherwise in (('KEYS', 1000000), ('MEMBERS', 5000000), ('REQUESTS', 1000000)))
BYTES_MEMBERS = min(MEMBERS, 1000000)


def fill(subject, key, members, form, score):
    rng = random.Random(1)
    with subject.client() as c:
        for start in range(0, members, 1000):
            c.command('ZADD', key, *(a for i in range(start, min(start + 1000, members)) for a in (score(rng, i), form % i)))
        for _ in range(members // 50):      # of redis-server the end of its rehashing
            c.command('ZSCORE', key, 'x')


def bytes_of_small(score):
    """Sorted sets of 10 members, a member."""
    def measure(subject):
        n = max(KEYS // 100, 10)
        rng = random.Random(2)
        before = used(subject)
        with subject.client() as c:
            for start in range(0, n, 100):
                c.pipeline([('ZADD', 'small:%s:%09d' % (score.__name__, i), *(a for m in range(10) for a in (score(rng, m), b'member:%d' % m))) for i in range(start, min(start + 100, n))])
        return (used(subject) - before) / n / 10
    return measure


def bytes_of_large(key, form, score):
    def measure(subject):
        before = used(subject)
        fill(subject, key, BYTES_MEMBERS, form, score)
        found = (used(subject) - before) / BYTES_MEMBERS
        subject.ask('DEL', key)
        return found
    return measure


def whole(rng, _i):
    return rng.randrange(MEMBERS)


def fraction(rng, _i):
    return repr(rng.random())


def rising(_rng, i):
    return 1700000000 + i


BYTES = [('bytes a member, of 10, scores whole', bytes_of_small(whole)), ('bytes a member, of 10, scores fractions', bytes_of_small(fraction)),
         ('bytes a member, one of %d, scores whole' % BYTES_MEMBERS, bytes_of_large('l1', b'member:%09d', whole)), ('the same, fractions', bytes_of_large('l2', b'member:%09d', fraction)),
         ('the same, rising', bytes_of_large('l3', b'member:%09d', rising))]

SMALL = [['zadd', 'zset:__rand_int__', '__rand_int__', 'm'], ['zscore', 'zset:__rand_int__', 'm'], ['zrank', 'zset:__rand_int__', 'm'], ['zrange', 'zset:__rand_int__', '0', '10']]
LARGE = [['zadd', 'one', '__rand_int__', 'member:__rand_int__'], ['zscore', 'one', 'member:__rand_int__'], ['zrank', 'one', 'member:__rand_int__'], ['zrange', 'one', '0', '10'],
         ['zrangebyscore', 'one', '__rand_int__', '+inf', 'LIMIT', '0', '10']]


def at_random_ranks(subject):
    """CPU of the server for a ZRANGE of 11 at a random rank of the large one, us, 16 deep on one connection."""
    rng = random.Random(3)
    n = max(REQUESTS // 10, 16)
    with subject.client() as c:
        before = subject.cpu_s()
        for _ in range(0, n, 16):
            c.pipeline([('ZRANGE', 'one', rank, rank + 10) for rank in (rng.randrange(MEMBERS) for _ in range(16))])
        return (subject.cpu_s() - before) * 1e6 / n


def main():
    with Subject('redis-server', cpu_list=cpus()[0]) as redis, Subject('darter', cpu_list=cpus()[0]) as darter:
        both = {'redis': redis, 'darter': darter}
        print(HEAD)
        for name, measure in BYTES:
            found = {which: [measure(subject)] for which, subject in both.items()}
            row(name, found['redis'], found['darter'], found['darter'], form='%.1f')
        for subject in both.values():
            load(subject, KEYS, 2 * KEYS, SMALL[0])
            load(subject, KEYS, 2 * KEYS, ['zadd', 'zset:__rand_int__', '__rand_int__', 'n'])
            fill(subject, 'one', MEMBERS, b'member:%012d', whole)
        for what, among, commands in (('%d of a few members' % KEYS, KEYS, SMALL), ('one of %d' % MEMBERS, MEMBERS, LARGE)):
            for command in commands:
                def measure(subject, command=command, among=among):
                    return load(subject, among, REQUESTS, command)
                row('%s, %s, 16 deep, us' % (command[0].upper(), what), *cells(redis, darter, measure))
        row('ZRANGE of 11 at a random rank, one of %d, one client, 16 deep, us' % MEMBERS, *cells(redis, darter, at_random_ranks))


if __name__ == '__main__':
    main()
