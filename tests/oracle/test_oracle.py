"""The oracle: the same commands to redis-server 7 and to Darter; every reply must be the same.

    DARTER_ORACLE_COMMANDS=1000000   commands for each configuration (20000)
    DARTER_ORACLE_SEED=...           another run (each configuration has its own seed; DARTER_SOAK=1 draws new ones; that of a failing run is printed)
    DARTER_TEST_THREADS=1,2,4  DARTER_TEST_IO=uring,epoll   narrow the configurations
"""

import os
import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

import compare
from compare import Difference, Pair, describe, shrink
from configurations import SOAK, configurations, seed
from generate import EXPIRE, HOLD, RUN, Generator
from resp import Client
from server import Server

COMMANDS = int(os.environ.get('DARTER_ORACLE_COMMANDS', '20000'))
SCRIPT = 2000       # commands between two clean starts


OPTIONS = [('enable-debug-command', 'yes'), ('save', ''), ('loglevel', 'warning')]


def start_redis():
    return Server(kind='redis', options=OPTIONS)


def start_darter(threads, io):
    return Server(threads=threads, io=io, options=OPTIONS)


def random_run(pair, commands, start, longest_pipeline=40, most=4):
    """commands random commands in scripts of SCRIPT. Differences are shrunk and told, up to so many, each command's once."""
    done, number, faults, seen = 0, 0, [], set()
    while done < commands and len(faults) < most:
        rng = random.Random('%s/%d' % (start, number))
        script = Generator(rng, pair.protocol, longest_pipeline=longest_pipeline).script(min(SCRIPT, commands - done))
        pair.fresh()
        before = pair.commands
        try:
            pair.run(script)
        except Difference as difference:
            words = 2 if difference.command and difference.command[0].upper() in (b'OBJECT', b'CLIENT', b'COMMAND', b'CONFIG', b'SLOWLOG', b'LATENCY', b'MEMORY', b'DEBUG') else 1
            kind = tuple(a.upper() for a in difference.command[:words]) if difference.command else 'no reply'
            if kind not in seen:
                seen.add(kind)
                faults.append('%s\n\n(seed: DARTER_ORACLE_SEED=%s, script %d)' % (tell(pair, script, difference), start, number))
        done += max(pair.commands - before, 1)
        number += 1
    if faults:
        raise AssertionError(('\n\n' + '=' * 60 + '\n').join(faults))


def tell(pair, script, difference):
    log = '' if pair.subject.alive() else '\n\nThe server has ended. Its log:\n' + pair.subject.log()
    small, again = shrink(pair, script, difference)
    if again is None:
        small = script[max(difference.step - 2, 0):difference.step + 1] if difference.step is not None else script[-5:]
        return 'A difference that was not seen a second time%s:\n%s\n\nThe last steps before it (RESP%d):\n\n%s%s' % (
            ' in ' + repr(difference.command)[:300] if difference.command else '', difference, pair.protocol, describe(small, 60), log)
    return 'A difference%s:\n%s\n\nThe shortest way to it that was found (RESP%d, after FLUSHALL):\n\n%s%s' % (
        ' in ' + repr(again.command)[:300] if again.command else '', again, pair.protocol, describe(small), log)


@pytest.fixture(scope='module', params=configurations(), ids=lambda c: '%s-%d' % c)
def configuration(request):
    return request.param


@pytest.fixture(scope='module', params=[2, 3], ids=['resp2', 'resp3'])
def pair(request, configuration):
    io, threads = configuration
    p = Pair(start_redis, lambda: start_darter(threads, io), protocol=request.param)
    yield p
    p.stop()


@pytest.mark.limit(max(300, COMMANDS / 1000))
def test_random_commands_get_the_same_replies(pair, request):
    random_run(pair, COMMANDS, seed('DARTER_ORACLE_SEED', request.node.callspec.id))


@settings(max_examples=int(os.environ.get('DARTER_ORACLE_EXAMPLES', '60')), deadline=None, print_blob=True, derandomize=not SOAK, suppress_health_check=list(HealthCheck),
          phases=[Phase.explicit, Phase.generate], database=None)
@given(rng=st.randoms(use_true_random=False), size=st.integers(1, 25), longest=st.sampled_from([1, 8]))
def test_short_sequences_get_the_same_replies(pair, rng, size, longest):
    script = Generator(rng, pair.protocol, connections=1, longest_pipeline=longest).script(size)
    pair.fresh()
    try:
        pair.run(script)
    except Difference as difference:
        # Shrunk by the comparator: hypothesis would take minutes, since every attempt asks two servers.
        raise AssertionError(tell(pair, script, difference)) from None


# The comparator itself.

def test_two_reference_servers_never_differ():
    for protocol in (2, 3):
        pair = Pair(start_redis, start_redis, protocol=protocol)
        try:
            random_run(pair, 10000, seed('DARTER_ORACLE_SEED', 'reference'))
        finally:
            pair.stop()


class Liar(Client):
    """Gives a wrong STRLEN for long values."""

    def read(self):
        reply = super().read()
        return reply + 1 if type(reply) is int and reply == 256 else reply


@pytest.mark.limit(300)
def test_a_wrong_reply_is_found_and_shrunk(monkeypatch):
    monkeypatch.setattr(compare, 'SHRINK_SECONDS', 100)         # what is asked is how far it gets, not how fast
    pair = Pair(start_redis, start_redis, client=lambda server: Liar(server.address()))
    try:
        with pytest.raises(AssertionError) as caught:
            random_run(pair, 100000, 'liar', most=1)
    finally:
        pair.stop()
    text = str(caught.value)
    assert 'expected 256\n     got 257' in text
    shortest = text.partition('after FLUSHALL):\n\n')[2].partition('\n\n(seed')[0].splitlines()
    assert 1 <= len(shortest) <= 2, text


def test_shrinking_leaves_pauses_and_expiring_keys_whole():
    whole = [(HOLD, 0, [[b'CLIENT', b'PAUSE', b'100000', b'WRITE'], [b'GET', b'a'], [b'CLIENT', b'UNPAUSE'], [b'SET', b'a', b'1']]), (EXPIRE, 0, [[b'PEXPIRE', b'key', b'1'], [b'GET', b'key']])]
    script, tried = [*whole, (RUN, 0, [[b'GETRANGE', b'a', b'0', b'100000000'], [b'GET', b'b']])], []

    def attempt(candidate):
        tried.append(candidate)
        return False

    for smaller in (compare._drop_steps, compare._drop_commands, compare._simplify):
        smaller(attempt, lambda: script)
    assert len(tried) > 5
    assert all(step in whole for candidate in tried for step in candidate if step[0] != RUN)


class Changer(Client):
    """Sends another value than was meant, so that only the state differs."""

    def send(self, data):
        super().send(data.replace(b'$5\r\nworld\r\n', b'$5\r\nWorld\r\n'))


def test_a_wrong_state_is_found_even_if_no_reply_shows_it():
    pair = Pair(start_redis, start_redis, client=lambda server: Changer(server.address()))
    try:
        pair.fresh()
        with pytest.raises(Difference, match='at the end'):
            pair.run([('run', 0, [[b'SET', b'a', b'world']])])
    finally:
        pair.stop()
