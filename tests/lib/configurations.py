"""Which kinds of server the suites run against, narrowed by DARTER_TEST_IO=uring,epoll and DARTER_TEST_THREADS=1,2,4.

An integration test runs with the half of the pairs that share() gives it; with all of them with DARTER_TEST_FULL=1, in a soak, and where DARTER_TEST_IO
names the back ends."""

import os
import random
import zlib


def back_ends():
    return os.environ.get('DARTER_TEST_IO', 'uring,epoll').split(',')


def thread_counts():
    return [int(n) for n in os.environ.get('DARTER_TEST_THREADS', '1,2,4').split(',')]


def configurations():
    """Pairs (back end, threads)."""
    return [(io, threads) for io in back_ends() for threads in thread_counts()]


def one_of_each():
    """Each back end once, with the most threads: for tests whose subject is not the number of threads."""
    return [(io, max(thread_counts())) for io in back_ends()]


def share(name):
    """The pairs that a test of this name runs with: every number of threads once, and the back ends take turns. Which of them comes first is drawn from
    the name, the same in each run and each process, so that of many tests half run with one half of the pairs, half with the other."""
    if FULL:
        return configurations()
    ends, first = back_ends(), zlib.crc32(name.encode())
    return [(ends[(first + i) % len(ends)], threads) for i, threads in enumerate(thread_counts())]


SOAK = os.environ.get('DARTER_SOAK') == '1'


def seed(variable, usual):
    """The seed of what is drawn at random: the variable's value, or the usual one, so that a run can be repeated; a soak draws a new one each time."""
    return os.environ.get(variable) or ('%08x' % random.SystemRandom().randrange(1 << 32) if SOAK else usual)


# Sanitizers: the sizes of heavy tests are divided by this.
LIGHT = os.environ.get('DARTER_TEST_LIGHT') == '1'

# Every test with every pair.
FULL = SOAK or os.environ.get('DARTER_TEST_FULL') == '1' or 'DARTER_TEST_IO' in os.environ
