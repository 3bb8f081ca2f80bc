"""Which pairs of back end and number of threads these tests run with: half of them each, unless the whole product is asked for."""

import collections
import os
import re
import subprocess
import sys

import pytest

from server import ROOT

TAKING_TURNS, EVERY_PAIR, EACH_BACK_END = 'test_hashes', 'test_migrate', 'test_exporter'
BOTH, ALL = {'uring', 'epoll'}, {1, 2, 4}


@pytest.fixture(scope='module', autouse=True)
def apart():
    """What this run itself was asked for is nothing to the runs below."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(('DARTER_TEST_', 'DARTER_SOAK', 'PYTEST_'))]:
            patch.delenv(name)
        yield


def collected(file, **variables):
    """By test, the pairs."""
    command = [sys.executable, '-B', '-m', 'pytest', '-q', '--collect-only', '-p', 'no:xdist', '-c', 'tests/pytest.ini', 'tests/integration/%s.py' % file]
    said = subprocess.run(command, cwd=ROOT, env=dict(os.environ, **variables), capture_output=True, text=True).stdout
    found = collections.defaultdict(list)
    for name, io, threads in re.findall(r'::(\w+)\[(?:\S*-)?(uring|epoll)-(\d+)(?:-\S*)?\]$', said, re.M):
        found[name].append((io, int(threads)))
    assert found, said
    return {name: set(pairs) for name, pairs in found.items()}


def product(ends, counts):
    return {(io, threads) for io in ends for threads in counts}


def test_back_ends_take_turns_over_the_numbers_of_threads():
    halves = [{('uring', 1), ('epoll', 2), ('uring', 4)}, {('epoll', 1), ('uring', 2), ('epoll', 4)}]
    found = collected(TAKING_TURNS)
    assert len(found) > 10 and all(pairs in halves for pairs in found.values()), found
    assert all(list(found.values()).count(half) * 4 > len(found) for half in halves), found
    assert collected(TAKING_TURNS) == found


def test_one_number_of_threads_has_one_back_end_but_not_always_the_same():
    found = collected(TAKING_TURNS, DARTER_TEST_THREADS='2')
    assert all(len(pairs) == 1 for pairs in found.values()) and set().union(*found.values()) == product(BOTH, {2}), found


def test_what_goes_through_sockets_or_between_threads_has_every_pair():
    found = collected(EVERY_PAIR)
    assert any(pairs == product(BOTH, ALL) for pairs in found.values()), found
    assert all(pairs in (product(BOTH, ALL), product(BOTH, ALL - {1}), product(BOTH, {4})) for pairs in found.values()), found


def test_each_back_end_stays_one_run_for_each():
    assert set(map(frozenset, collected(EACH_BACK_END).values())) == {frozenset(product(BOTH, {4}))}


@pytest.mark.parametrize('variables, pairs', [
    ({'DARTER_TEST_FULL': '1'}, product(BOTH, ALL)),
    ({'DARTER_TEST_FULL': '1', 'DARTER_TEST_THREADS': '2,4'}, product(BOTH, {2, 4})),
    ({'DARTER_SOAK': '1'}, product(BOTH, ALL)),
    ({'DARTER_TEST_IO': 'epoll'}, product({'epoll'}, ALL)),
    ({'DARTER_TEST_IO': 'uring,epoll', 'DARTER_TEST_THREADS': '1,2'}, product(BOTH, {1, 2})),
    ({'DARTER_TEST_IO': 'uring', 'DARTER_TEST_THREADS': '2'}, {('uring', 2)}),
], ids=lambda value: ' '.join('%s=%s' % pair for pair in value.items()) if isinstance(value, dict) else '')
def test_what_is_asked_for_is_run(variables, pairs):
    assert set(map(frozenset, collected(TAKING_TURNS, **variables).values())) == {frozenset(pairs)}
