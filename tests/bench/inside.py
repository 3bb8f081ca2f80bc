"""Prefetch inside values and of walks, beside redis-server: tools/bench inside.

CPU of the server a request, 16 deep: HGET of one of 100 fields, over KEYS hashes; ZRANGE of 100 members, over KEYS sorted sets; CPU of a SINTERCARD of two sets of MEMBERS that share half, ms; and of walks
by SCAN with COUNT 10, 100 and 1000 through SCANNED keys, for CALLS calls or a fifth of the keys, ns a key. Each with Darter's prefetch on and off. Each server has CPU 0 and one thread.

Variables: KEYS (300000), MEMBERS (1000000), SCANNED (10000000), CALLS (10000), REQUESTS (1000000), ROUNDS (3), DARTER (build/darter).
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from beside import HEAD, cells, load, row  # noqa: E402
from measure import setting  # noqa: E402
from subjects import Subject, cpus  # noqa: E402

KEYS, MEMBERS, SCANNED, CALLS, REQUESTS = (setting('KEYS', 300000), setting('MEMBERS', 1000000), setting('SCANNED', 10000000), setting('CALLS', 10000), setting('REQUESTS', 1000000))
FIELDS = 100


def fill_each(subject, command, name, rest):
    """Each key with the same elements, as redis-benchmark names keys."""
    with subject.client() as c:
        for start in range(0, KEYS, 100):
            c.pipeline([(command, '%s:%012d' % (name, i), *rest) for i in range(start, min(start + 100, KEYS))])


def fill_set(subject, key, first):
    with subject.client() as c:
        for start in range(first, first + MEMBERS, 1000):
            c.command('SADD', key, *(b'member:%09d' % i for i in range(start, min(start + 1000, first + MEMBERS))))


def a_request(*command):
    return lambda subject: load(subject, KEYS, REQUESTS, list(command))


def intersection(subject):
    before = subject.cpu_s()
    subject.ask('SINTERCARD', 2, '{t}one', '{t}two')
    return (subject.cpu_s() - before) * 1e3


def walk(count):
    def measure(subject):
        cursor, keys, before = b'0', 0, subject.cpu_s()
        with subject.client() as c:
            for _ in range(CALLS):
                cursor, found = c.command('SCAN', cursor, 'COUNT', count)
                keys += len(found)
                if cursor == b'0' or 5 * keys > SCANNED:        # the client takes most of the time
                    break
        return (subject.cpu_s() - before) * 1e9 / keys
    return measure


def empty(both):
    for subject in both:
        subject.ask('FLUSHALL')


def main():
    with Subject('redis-server', cpu_list=cpus()[0]) as redis, Subject('darter', cpu_list=cpus()[0]) as darter:
        both = (redis, darter)
        print(HEAD)
        for command, name, rest, asked in (
                ('HSET', 'hash', [w for i in range(FIELDS) for w in ('field:%d' % i, 'value:%d' % i)], ('hget', 'hash:__rand_int__', 'field:57')),
                ('ZADD', 'zset', [w for i in range(FIELDS) for w in (7 * i, 'member:%d' % i)], ('zrange', 'zset:__rand_int__', '0', '99'))):
            for subject in both:
                fill_each(subject, command, name, rest)
            row('%s, %d keys of %d, us' % (asked[0].upper(), KEYS, FIELDS), *cells(redis, darter, a_request(*asked)))
            empty(both)
        for subject in both:
            fill_set(subject, '{t}one', 0)
            fill_set(subject, '{t}two', MEMBERS // 2)
        row('SINTERCARD of two sets of %d, ms' % MEMBERS, *cells(redis, darter, intersection), form='%.0f')
        empty(both)
        for subject in both:
            subject.fill(SCANNED, 16)
        for count in (10, 100, 1000):
            row('SCAN COUNT %d of %d keys, ns a key' % (count, SCANNED), *cells(redis, darter, walk(count)), form='%.0f')


main()
