"""Hashes, beside redis-server: tools/bench hashes.

Bytes of small hashes and of a large one, a field; CPU of the server a request, 16 deep, over KEYS hashes of a few fields, over HASHES hashes of 100 fields, and on one hash of
FIELDS fields; each with Darter's prefetch on and off. Each server has CPU 0 and one thread.

Variables: KEYS (1000000), HASHES (100000), FIELDS (5000000), REQUESTS (1000000), ROUNDS (3), DARTER (build/darter).
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from beside import HEAD, cells, load, row, used  # noqa: E402
from subjects import Subject, cpus  # noqa: E402

KEYS, HASHES, FIELDS, REQUESTS = (int(os.environ.get(name, otherwise)) for name, otherwise in (('KEYS', 1000000), ('HASHES', 100000), ('FIELDS', 5000000), ('REQUESTS', 1000000)))
LARGE = 10000       # fields of the hash whose bytes are counted


def fill(subject, key, fields):
    with subject.client() as c:
        for start in range(0, fields, 1000):
            c.command('HSET', key, *(x for i in range(start, min(start + 1000, fields)) for x in (b'field:%d' % i, b'value:%d' % i)))
        for _ in range(fields // 50):      # of redis-server the end of its rehashing
            c.command('HEXISTS', key, 'x')


def bytes_of_small(subject):
    """A hash of 10 fields, a field."""
    n = max(HASHES // 10, 10)
    before = used(subject)
    with subject.client() as c:
        for start in range(0, n, 100):
            c.pipeline([('HSET', 'small:%09d' % i, *(x for f in range(10) for x in (b'field:%d' % f, b'value:%d' % (i * f)))) for i in range(start, min(start + 100, n))])
    return (used(subject) - before) / n / 10


def bytes_of_large(subject):
    before = used(subject)
    fill(subject, 'large', LARGE)
    return (used(subject) - before) / LARGE


def fill_hashes(subject):
    """HASHES hashes of 100 fields, named as redis-benchmark draws them."""
    with subject.client() as c:
        for start in range(0, HASHES, 100):
            c.pipeline([('HSET', 'h:%012d' % i, *(x for f in range(100) for x in (b'f:%012d' % f, b'value:%d' % f))) for i in range(start, min(start + 100, HASHES))])


TESTS = [
    ('HSET, %d hashes of a few fields' % KEYS, KEYS, ['hset', 'few:__rand_int__', 'field:__rand_int__', 'value']),
    ('HGET, the same', KEYS, ['hget', 'few:__rand_int__', 'field:__rand_int__']),
    ('HGET, %d hashes of 100 fields' % HASHES, HASHES, ['hget', 'h:__rand_int__', 'f:000000000042']),
    ('HSET, one hash of %d fields' % FIELDS, FIELDS, ['hset', 'one', '__rand_int__', 'value']),
    ('HGET, the same', FIELDS, ['hget', 'one', '__rand_int__']),
]


def main():
    with Subject('redis-server', cpu_list=cpus()[0]) as redis, Subject('darter', cpu_list=cpus()[0]) as darter:
        both = {'redis': redis, 'darter': darter}
        print(HEAD)
        for name, measure in ('bytes a field, hashes of 10', bytes_of_small), ('bytes a field, a hash of %d' % LARGE, bytes_of_large):
            found = {which: [measure(subject)] for which, subject in both.items()}
            row(name, found['redis'], found['darter'], found['darter'], form='%.1f')
        for subject in both.values():
            load(subject, KEYS, 2 * KEYS, TESTS[0][2])
            fill_hashes(subject)
            load(subject, FIELDS, 2 * FIELDS, TESTS[3][2])
        for name, of, command in TESTS:
            row('%s, 16 deep, us' % name, *cells(redis, darter, lambda s, of=of, c=command: load(s, of, REQUESTS, c)))


if __name__ == '__main__':
    main()
