"""Lists, beside redis-server: tools/bench lists.

Bytes of small lists and of a large one, an element; CPU of the server a request, 16 deep, over KEYS lists of a few elements, at the ends of one list of ELEMENTS, and of ranges as
redis-benchmark asks for them; each with Darter's prefetch on and off. Each server has CPU 0 and one thread.

Variables: KEYS (1000000), ELEMENTS (1000000), REQUESTS (1000000), ROUNDS (3), DARTER (build/darter).
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from beside import HEAD, cells, load, row, used  # noqa: E402
from subjects import Subject, cpus  # noqa: E402

KEYS, ELEMENTS, REQUESTS = (int(os.environ.get(name, 1000000)) for name in ('KEYS', 'ELEMENTS', 'REQUESTS'))


def fill(subject, key, elements, form=b'element:%d'):
    with subject.client() as c:
        for start in range(0, elements, 1000):
            c.command('RPUSH', key, *(form % i for i in range(start, min(start + 1000, elements))))


def bytes_of_small(subject):
    """A list of 10 elements, an element."""
    n = max(KEYS // 100, 10)
    before = used(subject)
    with subject.client() as c:
        for start in range(0, n, 100):
            c.pipeline([('RPUSH', 'small:%09d' % i, *(b'element:%d' % f for f in range(10))) for i in range(start, min(start + 100, n))])
    return (used(subject) - before) / n / 10


def bytes_of_large(form):
    def measure(subject):
        before = used(subject)
        fill(subject, 'large' + form.decode(), ELEMENTS, form)
        return (used(subject) - before) / ELEMENTS
    return measure


BYTES = [('bytes an element, lists of 10', bytes_of_small), *(('bytes an element, a list of %d like %s' % (ELEMENTS, (form % 4711).decode()), bytes_of_large(form)) for form in (b'e%d', b'%d', b'job:%0200d'))]

# The name, the command, its requests as a part of REQUESTS.
TESTS = [
    ('LPUSH, %d lists' % KEYS, ['lpush', 'few:__rand_int__', 'element'], 1),
    ('RPOP, the same', ['rpop', 'few:__rand_int__'], 1),
    ('RPUSH, one list', ['rpush', 'one', 'element:__rand_int__'], 1),
    ('LPOP, the same', ['lpop', 'one'], 1),
    ('LINDEX %d, a list of %d' % (ELEMENTS // 3, ELEMENTS), ['lindex', 'largee%d', str(ELEMENTS // 3)], .02),
    *(('LRANGE 0 %d' % (n - 1), ['lrange', 'largee%d', '0', str(n - 1)], 10 / n) for n in (100, 300, 500, 600)),
]


def main():
    with Subject('redis-server', cpu_list=cpus()[0]) as redis, Subject('darter', cpu_list=cpus()[0]) as darter:
        both = {'redis': redis, 'darter': darter}
        print(HEAD)
        for name, measure in BYTES:
            found = {which: [measure(subject)] for which, subject in both.items()}
            row(name, found['redis'], found['darter'], found['darter'], form='%.1f')
        for subject in both.values():
            load(subject, KEYS, 3 * KEYS, TESTS[0][1])
        for name, command, part in TESTS:
            def measure(subject, command=command, part=part):
                return load(subject, KEYS, max(int(REQUESTS * part), 100), command)
            row('%s, 16 deep, us' % name, *cells(redis, darter, measure))


if __name__ == '__main__':
    main()
