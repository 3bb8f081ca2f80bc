"""Which kinds of server the suites run against, narrowed by DARTER_TEST_IO=uring,epoll and DARTER_TEST_THREADS=1,2,4."""

import os
import random


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


SOAK = os.environ.get('DARTER_SOAK') == '1'


def seed(variable, usual):
    """The seed of what is drawn at random: the variable's value, or the usual one, so that a run can be repeated; a soak draws a new one each time."""
    return os.environ.get(variable) or ('%08x' % random.SystemRandom().randrange(1 << 32) if SOAK else usual)


# Sanitizers: the sizes of heavy tests are divided by this.
LIGHT = os.environ.get('DARTER_TEST_LIGHT') == '1'
