"""Commands that wait for a key: DEBUG BLOCKPOP, which is to strings what BLPOP is to lists."""

import itertools
import random
import select
import threading
import time

import pytest

from configurations import LIGHT, SOAK
from resp import Closed, Error, NIL, NIL_ARRAY, NULL, encode, same
from server import PATIENCE

KEYS = [b'key:%d' % n for n in range(12)]       # enough for every shard to have some
SECONDS = 60 if SOAK else 1.5


@pytest.fixture
def server(start):
    return start(options=[('enable-debug-command', 'yes')])


def blockpop(timeout, *keys):
    return encode('DEBUG', 'BLOCKPOP', timeout, *keys)


def blocked(server):
    return int(server.info('clients')['blocked_clients'])


def comes_to(what, expected):
    """Until what() is as expected; it has to become so, however long that takes."""
    until = time.monotonic() + PATIENCE
    while what() != expected:
        assert time.monotonic() < until, (what(), expected)
        time.sleep(.002)


def park(server, c, timeout, *keys, behind=b''):
    before = blocked(server)
    c.send(blockpop(timeout, *keys) + behind)
    comes_to(lambda: blocked(server), before + 1)


# ---- what is taken, and when ----

def test_takes_the_first_of_its_keys_that_is_there(server):
    with server.client() as c:
        for _ in range(20):
            there = random.sample(KEYS, 3)
            asked = random.sample(KEYS, len(KEYS))
            assert c.command('MSET', *(x for k in there for x in (k, b'value of ' + k))) == b'OK'
            for k in sorted(there, key=asked.index):
                assert c.command('DEBUG', 'BLOCKPOP', 0, *asked) == [k, b'value of ' + k]
            assert c.command('EXISTS', *KEYS) == 0


def test_one_key_serves_its_waiters_in_the_order_of_their_coming(server):
    clients = [server.client() for _ in range(40)]
    for c in clients:
        park(server, c, 0, 'queue')
    with server.client() as pusher:
        for number in range(len(clients)):
            assert pusher.pipeline([('SET', 'queue', number), ('GET', 'queue')]) == [b'OK', NIL]
            assert clients[number].read() == [b'queue', b'%d' % number]
    assert blocked(server) == 0


@pytest.mark.parametrize('keys', [KEYS[:1], KEYS], ids=['one key', 'several keys'])
def test_who_waits_is_served_before_the_next_command(server, keys):
    with server.client() as waiter, server.client() as pusher:
        for key in keys:
            park(server, waiter, 0, *keys)
            replies = pusher.pipeline([('SET', 'other', 'x'), ('SET', key, 'v'), ('GET', key), ('EXISTS', key), ('SET', key, 'w'), ('GETDEL', key)])
            assert replies == [b'OK', b'OK', NIL, 0, b'OK', b'w']
            assert waiter.read() == [key, b'v']


def test_many_waiters_over_many_keys_are_each_served_once(server):
    clients = [server.client() for _ in range(30)]
    for number, c in enumerate(clients):
        park(server, c, 0, *random.Random(number).sample(KEYS, 1 + number % len(KEYS)), 'last:%d' % number)
    with server.client() as pusher:
        left = 0
        for value in range(100):
            key = KEYS[value % len(KEYS)]
            if pusher.pipeline([('SET', key, value), ('GETDEL', key)])[1] != NIL:
                left += 1
        served = 100 - left
        for number in range(len(clients)):      # and who is left, in the end
            pusher.command('SET', 'last:%d' % number, 'end')
        got = [c.read() for c in clients]
        assert sum(value != b'end' for _, value in got) == served
        assert len({value for _, value in got if value != b'end'}) == served
    comes_to(lambda: blocked(server), 0)


def test_what_came_first_is_taken_wherever_it_came(server):
    """Pushes one after the other, each acknowledged before the next: the waiter gets the first."""
    with server.client() as waiter, server.client() as pusher:
        for number in range(100 // (5 if LIGHT else 1)):
            park(server, waiter, 0, *KEYS)
            first, second = random.sample(KEYS, 2)
            pusher.command('SET', first, 'first')
            pusher.command('SET', second, 'second')
            assert waiter.read() == [first, b'first']
            assert pusher.command('GETDEL', second) == b'second'


WAYS = {
    'SET': [('SET', 'to', 'v')], 'MSET': [('MSET', 'a', '1', 'to', 'v', 'b', '2')], 'MSETNX': [('MSETNX', 'a', '1', 'to', 'v', 'b', '2')],
    'APPEND': [('APPEND', 'to', 'v')], 'SETRANGE': [('SETRANGE', 'to', '0', 'v')], 'GETSET': [('GETSET', 'to', 'v')],
    'SETEX': [('SETEX', 'to', '100', 'v')], 'RENAME': [('SET', 'from', 'v'), ('RENAME', 'from', 'to')],
    'RENAMENX': [('SET', 'from', 'v'), ('RENAMENX', 'from', 'to')], 'COPY': [('SET', 'from', 'v'), ('COPY', 'from', 'to')],
    'MOVE': [('SELECT', '1'), ('SET', 'to', 'v'), ('MOVE', 'to', '0')], 'SWAPDB': [('SELECT', '1'), ('SET', 'to', 'v'), ('SWAPDB', '0', '1')],
    'COPY DB': [('SELECT', '1'), ('SET', 'from', 'v'), ('COPY', 'from', 'to', 'DB', '0')],
    'EXEC': [('MULTI',), ('SET', 'to', 'v'), ('EXEC',)], 'EXEC over several': [('MULTI',), ('SET', 'a', '1'), ('SET', 'to', 'v'), ('SET', 'b', '2'), ('EXEC',)],
    'EXEC of all': [('MULTI',), ('SET', 'to', 'v'), ('KEYS', '*'), ('EXEC',)], 'EXEC and RENAME': [('MULTI',), ('SET', 'from', 'v'), ('RENAME', 'from', 'to'), ('EXEC',)],
    'EXEC and SWAPDB': [('SELECT', '1'), ('MULTI',), ('SET', 'to', 'v'), ('SWAPDB', '0', '1'), ('EXEC',)],
    'large MSET': [('MSET', *itertools.chain(*((b'many:%d' % n, b'x') for n in range(3000))), 'to', 'v')],
    'large value': [('SET', 'to', 'v' * 100000)],
}


@pytest.mark.parametrize('way', WAYS)
@pytest.mark.parametrize('keys', [['to'], [*KEYS, 'to']], ids=['one key', 'several keys'])
def test_whatever_brings_the_key_serves(server, way, keys):
    with server.client() as waiter, server.client() as pusher:
        park(server, waiter, 0, *keys)
        replies = pusher.pipeline(WAYS[way])
        assert not any(isinstance(r, Error) for r in replies)
        key, value = waiter.read()
        assert key == b'to' and value.strip(b'v') == b''
        pusher.command('SELECT', '0')
        assert pusher.command('EXISTS', 'to') == 0


def test_what_is_gone_by_the_end_of_exec_serves_nobody(server):
    with server.client() as waiter, server.client() as pusher:
        for keys in (['a'], ['a', *KEYS]):
            park(server, waiter, 0, *keys)
            for extra in ([], [('SET', 'b', '1'), ('SET', 'c', '1')], [('DBSIZE',)]):
                replies = pusher.pipeline([('MULTI',), ('SET', 'a', 'v'), *extra, ('GET', 'a'), ('DEL', 'a'), ('EXEC',)])
                assert replies[-1][-2:] == [b'v', 1]
                assert blocked(server) == 1
            replies = pusher.pipeline([('MULTI',), ('SET', 'a', 'v'), ('GET', 'a'), ('APPEND', 'a', 'w'), ('EXEC',), ('GET', 'a')])
            assert replies[-2:] == [[b'OK', b'v', 2], NIL]
            assert waiter.read() == [b'a', b'vw']


def test_nobody_is_served_in_the_middle_of_a_command_of_many_keys(server):
    """It goes through them in waves, and comes to the key again in the last."""
    many = [x for n in range(5000) for x in (b'many:%d' % n, b'x')]
    with server.client() as waiter, server.client() as pusher:
        for keys in (['to'], [*KEYS, 'to']):
            park(server, waiter, 0, *keys)
            assert pusher.pipeline([('MSET', 'to', 'first', *many, 'to', 'second'), ('EXISTS', 'to')]) == [b'OK', 0]
            assert waiter.read() == [b'to', b'second']


def test_other_databases_flushes_and_swaps_of_nothing_serve_nobody(server):
    with server.client() as waiter, server.client() as pusher:
        park(server, waiter, 0, *KEYS)
        pusher.pipeline([('FLUSHALL',), ('FLUSHDB',), ('SWAPDB', '0', '2'), ('SELECT', '1'), ('SET', KEYS[0], 'elsewhere'), ('SELECT', '0'), ('SET', 'another', 'x')])
        assert blocked(server) == 1
        assert pusher.pipeline([('SET', KEYS[0], 'here'), ('FLUSHALL',)]) == [b'OK', b'OK']
        assert waiter.read() == [KEYS[0], b'here']


def test_a_key_that_expires_at_once_serves_or_is_gone(server):
    with server.client() as waiter, server.client() as pusher:
        park(server, waiter, 0, *KEYS)
        assert pusher.command('SET', KEYS[3], 'past', 'PXAT', '1') == b'OK'
        assert pusher.command('SET', KEYS[4], 'soon', 'PX', '1000') == b'OK'
        assert waiter.read() == [KEYS[4], b'soon']


def test_a_key_past_its_time_is_not_taken(server):
    with server.client() as c:
        c.command('DEBUG', 'SET-ACTIVE-EXPIRE', '0')
        for keys in (KEYS[:1], KEYS):
            assert c.command('SET', KEYS[0], 'v', 'PX', '1') == b'OK'
            time.sleep(.005)
            assert c.command('DEBUG', 'BLOCKPOP', '.01', *keys) == NIL_ARRAY


# ---- the end of waiting ----

@pytest.mark.parametrize('keys', [KEYS[:1], KEYS], ids=['one key', 'several keys'])
def test_time_is_never_over_too_early(server, keys):
    with server.client() as c:
        for ms in (1, 2, 7, 30, 130):
            start = time.monotonic()
            assert c.command('DEBUG', 'BLOCKPOP', ms / 1000, *keys) == NIL_ARRAY
            assert time.monotonic() - start >= ms / 1000
        assert c.command('HELLO', '3') and c.command('DEBUG', 'BLOCKPOP', '.001', *keys) == NULL


def test_none_of_many_times_ends_early(server):
    clients = [server.client() for _ in range(50)]
    order = random.sample(range(50), 50)
    start = time.monotonic()
    for c, place in zip(clients, order):
        c.send(blockpop(.2 + place * .005, 'never', *KEYS[:place % 3]))
    waiting = {c.socket: (c, place) for c, place in zip(clients, order)}
    while waiting:
        ended = select.select(list(waiting), [], [], PATIENCE)[0]
        assert ended
        for socket in ended:
            c, place = waiting.pop(socket)
            assert time.monotonic() - start >= .2 + place * .005
            assert c.read() == NIL_ARRAY
    assert blocked(server) == 0


def test_who_timed_out_takes_nothing(server):
    with server.client() as early, server.client() as late, server.client() as pusher:
        early.send(blockpop(.05, *KEYS))
        time.sleep(.01)
        late.send(blockpop(0, *KEYS))
        assert early.read() == NIL_ARRAY
        comes_to(lambda: blocked(server), 1)
        pusher.command('SET', KEYS[5], 'v')
        assert late.read() == [KEYS[5], b'v']


def test_what_follows_in_the_pipeline_waits(server):
    with server.client() as waiter, server.client() as pusher:
        behind = encode('SET', 'after', 'x') + encode('PING') + blockpop(0, *KEYS) + encode('RESET') + encode('ECHO', 'last') + encode('QUIT')
        park(server, waiter, 0, 'first', behind=behind)
        assert pusher.command('EXISTS', 'after') == 0
        pusher.command('SET', 'first', '1')
        comes_to(lambda: (blocked(server), pusher.command('EXISTS', 'after')), (1, 1))
        pusher.command('SET', KEYS[7], '2')
        assert [waiter.read() for _ in range(7)] == [[b'first', b'1'], b'OK', b'PONG', [KEYS[7], b'2'], b'RESET', b'last', b'OK']
        with pytest.raises(Closed):
            waiter.read()


@pytest.mark.parametrize('how', ['close', 'reset', 'shutdown'])
@pytest.mark.parametrize('keys', [KEYS[:1], KEYS], ids=['one key', 'several keys'])
def test_who_leaves_takes_nothing_along(server, how, keys):
    with server.client() as pusher:
        for key in keys:
            waiter = server.client()
            park(server, waiter, 0, *keys, behind=encode('SET', 'never', 'x'))
            if how == 'shutdown':
                waiter.socket.shutdown(1)
                assert waiter.read_to_end() == (b'', True)
            else:
                getattr(waiter, how)()
            comes_to(lambda: blocked(server), 0)
            assert pusher.pipeline([('SET', key, 'v'), ('GETDEL', key), ('EXISTS', 'never')]) == [b'OK', b'v', 0]


def test_who_leaves_with_much_unread_behind_it_is_noticed(server):
    """More than the server reads behind a command under way, as long as that is not parked."""
    with server.client() as waiter:
        park(server, waiter, 0, *KEYS)
        waiter.send(encode('ECHO', 'x' * 1000) * 1000)
    comes_to(lambda: blocked(server), 0)


def test_what_is_behind_is_run_when_it_is_much(server):
    with server.client() as waiter, server.client() as pusher:
        waiter.send(encode('SET', 'a', 'x') * 10 + blockpop(0, *KEYS) + encode('ECHO', 'x' * 1000) * 1000)
        comes_to(lambda: blocked(server), 1)
        pusher.command('SET', KEYS[0], 'v')
        assert [waiter.read() for _ in range(10)] == [b'OK'] * 10
        assert waiter.read() == [KEYS[0], b'v']
        assert all(waiter.read() == b'x' * 1000 for _ in range(1000))


def test_who_is_killed_takes_nothing_along(server):
    with server.client() as pusher:
        for number, key in enumerate(KEYS):
            with server.client() as waiter:
                ident = waiter.command('CLIENT', 'ID')
                park(server, waiter, 0, *KEYS[:1 + number])
                assert pusher.command('CLIENT', 'KILL', 'ID', ident) == 1
                assert pusher.pipeline([('SET', KEYS[0], 'v'), ('GETDEL', KEYS[0])]) == [b'OK', b'v']
                with pytest.raises((Closed, ConnectionResetError)):
                    waiter.read()
        assert blocked(server) == 0


def test_unblock(server):
    with server.client() as waiter, server.client() as c:
        ident = waiter.command('CLIENT', 'ID')
        assert c.command('CLIENT', 'UNBLOCK', ident) == 0
        for keys in (KEYS[:1], KEYS):
            for reason, reply in (((), NIL_ARRAY), (('TIMEOUT',), NIL_ARRAY), (('error',), b'UNBLOCKED client unblocked via CLIENT UNBLOCK')):
                park(server, waiter, 0, *keys, behind=encode('PING'))
                assert c.command('CLIENT', 'UNBLOCK', ident, *reason) == 1
                assert [waiter.read(), waiter.read()] == [reply, b'PONG']
                assert c.command('CLIENT', 'UNBLOCK', ident, *reason) == 0
                assert c.pipeline([('SET', keys[-1], 'v'), ('GETDEL', keys[-1])]) == [b'OK', b'v']
        park(server, waiter, 0, *KEYS)
        assert c.pipeline([('MULTI',), ('CLIENT', 'UNBLOCK', ident), ('EXEC',)])[-1] == [1]
        assert waiter.read() == NIL_ARRAY


# ---- what else is seen of it ----

def test_who_is_parked_is_shown(server):
    with server.client() as waiter, server.client() as c:
        ident = waiter.command('CLIENT', 'ID')

        def flags():
            line = next(x for x in bytes(c.command('CLIENT', 'LIST')).decode().splitlines() if x.startswith('id=%d ' % ident))
            return dict(f.split('=', 1) for f in line.split())['flags']

        assert flags() == 'N'
        for timeout in (0, 100):
            park(server, waiter, timeout, *KEYS)
            assert flags() == 'b'
            assert server.info('clients')['clients_in_timeout_table'] == str(int(timeout > 0))
            assert c.command('CONFIG', 'RESETSTAT') == b'OK' and blocked(server) == 1
            c.command('SET', KEYS[0], 'x')
            assert waiter.read() == [KEYS[0], b'x']
            assert flags() == 'N' and blocked(server) == 0
        assert server.info('commandstats')['cmdstat_debug|blockpop'].startswith('calls=1,')     # since the last CONFIG RESETSTAT


def test_inside_multi_nothing_parks(server):
    with server.client() as c:
        commands = [('MULTI',), ('DEBUG', 'BLOCKPOP', 0, *KEYS), ('SET', KEYS[1], 'v'), ('DEBUG', 'BLOCKPOP', 0, *KEYS),
                    ('DEBUG', 'BLOCKPOP', 0, KEYS[1]), ('DEBUG', 'BLOCKPOP', 'x', KEYS[1]), ('EXEC',)]
        reply = c.pipeline(commands)[-1]
        assert reply == [NIL_ARRAY, b'OK', [KEYS[1], b'v'], NIL_ARRAY, b'ERR timeout is not a float or out of range']
        one = [('MULTI',), ('DEBUG', 'BLOCKPOP', 0, 'k'), ('SET', 'k', 'v'), ('DEBUG', 'BLOCKPOP', 0, 'k'), ('EXEC',)]
        assert c.pipeline(one)[-1] == [NIL_ARRAY, b'OK', [b'k', b'v']]


def test_silent_clients_take_too(server):
    with server.client() as waiter, server.client() as c:
        assert waiter.command('CLIENT', 'ID') > 0
        waiter.send(encode('CLIENT', 'REPLY', 'SKIP'))
        for value in ('v', 'v' * 100000):
            park(server, waiter, 0, *KEYS, behind=encode('ECHO', 'x') + encode('CLIENT', 'REPLY', 'SKIP'))
            assert c.pipeline([('SET', KEYS[2], value), ('GET', KEYS[2])]) == [b'OK', NIL]
            assert waiter.read() == b'x'


def test_parked_clients_hold_no_receive_buffers(server):
    """There are 128 of them for a thread."""
    clients = [server.client() for _ in range(300)]
    for c in clients:
        c.send(blockpop(0, *KEYS, 'never'))
    comes_to(lambda: blocked(server), len(clients))
    with server.client() as c:
        assert c.pipeline([('SET', 'x', 'y'), ('GET', 'x')] * 100) == [b'OK', b'y'] * 100
    for c in clients:
        c.close()
    comes_to(lambda: blocked(server), 0)


def test_the_server_ends_with_parked_clients(server):
    clients = [server.client() for _ in range(20)]
    for number, c in enumerate(clients):
        park(server, c, number % 2 * 100, *KEYS[:1 + number % len(KEYS)])
    with server.client() as c:
        c.send(encode('SET', KEYS[0], 'v' * 50000) * 5 + encode('SHUTDOWN', 'NOSAVE'))
        c.read_to_end()
    assert server.wait_end() == 0


def test_watched_keys_are_touched_by_what_is_served(server):
    with server.client() as waiter, server.client() as c:
        c.command('WATCH', KEYS[0])
        with server.client() as pusher:
            park(server, waiter, 0, *KEYS)
            pusher.command('SET', KEYS[0], 'v')
            assert waiter.read() == [KEYS[0], b'v']
        assert c.pipeline([('MULTI',), ('PING',), ('EXEC',)])[-1] == NIL_ARRAY


# ---- as redis-server does ----

@pytest.mark.each_back_end
def test_timeouts_are_read_as_redis_reads_them(server, reference):
    with server.client() as ours, reference.client() as theirs:
        for timeout in ('abc', '', ' 1', '-1', '-0.5', '-inf', 'inf', 'nan', '1e30', '1x', '9223372036854775.9', '0x1p99'):
            expected = theirs.command('BLPOP', 'list', timeout)
            assert isinstance(expected, Error)
            assert same(ours.command('DEBUG', 'BLOCKPOP', timeout, 'list'), expected), timeout
        for timeout in ('0.001', '1e-3', '0x.01', '+0.01', '1e-9', '00.005'):
            assert theirs.command('BLPOP', 'list', timeout) == ours.command('DEBUG', 'BLOCKPOP', timeout, 'list') == NIL_ARRAY
        for args in (('1', 'foo'), ('x',), ('5', 'ERROR'), ('1', 'TIMEOUT', '3'), ()):
            assert same(ours.command('CLIENT', 'UNBLOCK', *args), theirs.command('CLIENT', 'UNBLOCK', *args)), args


def lock_step(server, pop, push, rng):
    """Clients that park, push, are unblocked, in an order drawn: who reads what. A push tells whether somebody took it: then the key is not there."""
    clients, parked, seen = [server.client() for _ in range(5)], set(), []
    idents = [c.command('CLIENT', 'ID') for c in clients]

    def reads(who):
        seen.append((who, clients[who].read()))
        parked.discard(who)

    def readable():
        return [w for w in sorted(parked) if select.select([clients[w].socket], [], [], 0)[0]]

    with server.client() as c:
        for number in range(80):
            what, who = rng.random(), rng.randrange(len(clients))
            keys, keep = rng.sample(['a', 'b', 'c', 'd'], rng.randint(1, 4)), rng.random() < .3
            if what < .45 and who not in parked:
                clients[who].send(pop(0, *keys))
                parked.add(who)
                comes_to(lambda: blocked(server) == len(parked) or who in readable(), True)
                if blocked(server) < len(parked):
                    reads(who)
            elif what < .9:
                if c.command('EXISTS', keys[0]):
                    continue
                if len(keys) > 2:
                    c.pipeline([('MULTI',), (push, keys[0], number), ('EXEC',)])
                else:
                    c.command(push, keys[0], number)
                if not c.command('EXISTS', keys[0]):
                    comes_to(lambda: len(readable()), 1)
                    reads(readable()[0])
                    comes_to(lambda: blocked(server), len(parked))
                elif not keep:
                    c.command('DEL', keys[0])
            else:
                seen.append(c.command('CLIENT', 'UNBLOCK', idents[who], rng.choice(['TIMEOUT', 'ERROR'])))
                if who in parked:
                    reads(who)
    for c in clients:
        c.close()
    comes_to(lambda: blocked(server), 0)
    return seen


@pytest.mark.each_back_end
def test_who_gets_what_is_as_with_lists_in_redis(server, reference):
    for seed in range(4):
        with reference.client() as theirs, server.client() as ours:
            theirs.command('FLUSHALL')
            ours.command('FLUSHALL')
        expected = lock_step(reference, lambda timeout, *keys: encode('BLPOP', *keys, timeout), 'RPUSH', random.Random(seed))
        assert lock_step(server, blockpop, 'SET', random.Random(seed)) == expected, seed
        assert sum(isinstance(x, tuple) and isinstance(x[1], list) for x in expected) > 10


# ---- under load ----

class Load:
    """Pushers and poppers; what was pushed and what was popped, each value once."""

    def __init__(self, server, keys, least=0):
        self.server, self.keys, self.end, self.least = server, keys, time.monotonic() + SECONDS, least
        self.pushed, self.popped, self.faults, self.numbers, self.kills = [], [], [], itertools.count(), 0
        self.idents = {}

    def goes_on(self):
        return not self.faults and (time.monotonic() < self.end or len(self.popped) < self.least)

    def run(self, *functions):
        threads = [threading.Thread(target=self.loop, args=(f, n)) for n, f in enumerate(functions)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not self.faults, self.faults[0]
        with self.server.client() as c:
            left = [v for v in c.command('MGET', *self.keys) if v != NIL]
        return sorted(self.popped + left), sorted(self.pushed)

    def loop(self, function, number):
        rng = random.Random(number)
        try:
            while self.goes_on():
                with self.server.client() as c:
                    function(c, rng)
        except Exception as fault:      # noqa: BLE001
            self.faults.append('%s: %s' % (type(fault).__name__, fault))

    def push(self, c, rng):
        while self.goes_on():
            values = [b'%d' % next(self.numbers) for _ in range(rng.randint(1, min(4, len(self.keys))))]
            keys = rng.sample(self.keys, len(values))
            pairs = list(zip(keys, values))
            if len(values) == 1:
                taken = c.command('SET', keys[0], values[0], 'NX') == b'OK'
                if taken:
                    self.pushed.append(values[0])
            elif rng.random() < .5:
                if c.command('MSETNX', *itertools.chain(*pairs)) == 1:
                    self.pushed += values
            else:
                replies = c.pipeline([('MULTI',), *(('SET', k, v, 'NX') for k, v in pairs), ('EXEC',)])[-1]
                self.pushed += [v for v, r in zip(values, replies) if r == b'OK']

    def keep(self, reply):
        if isinstance(reply, list):
            self.popped.append(reply[1])
        else:
            assert reply == NIL_ARRAY or reply.startswith(b'UNBLOCKED'), reply

    def pop(self, c, rng):
        self.idents[c] = c.command('CLIENT', 'ID')
        for _ in range(50):
            if not self.goes_on():
                break
            timeout = rng.choice([.001, .002, .01, .05])
            n = rng.randint(1, 3)
            c.send(b''.join(blockpop(timeout, *rng.sample(self.keys, rng.choice([1, 1, 2, len(self.keys)]))) for _ in range(n)))
            for _ in range(n):
                self.keep(c.read())
        del self.idents[c]

    def leave(self, c, rng):
        """Says that it leaves, and reads to the end what was taken for it until then."""
        c.send(blockpop(0, *rng.sample(self.keys, rng.choice([1, len(self.keys)]))))
        time.sleep(rng.random() * .01)
        c.socket.shutdown(1)
        try:
            self.keep(c.read())
        except Closed as rest:
            assert rest.args == (b'',)

    def be_killed(self, c, rng):
        self.idents[c] = c.command('CLIENT', 'ID')
        try:
            c.send(blockpop(1, *rng.sample(self.keys, rng.choice([1, len(self.keys)]))))
            self.keep(c.read())
        except (Closed, ConnectionError):
            pass
        del self.idents[c]

    def unblock(self, c, rng):
        while self.goes_on():
            for ident in list(self.idents.values()):
                c.command('CLIENT', 'UNBLOCK', ident, rng.choice(['TIMEOUT', 'ERROR']))
            time.sleep(.001)

    def kill(self, c, rng):
        while self.goes_on():
            for ident in list(self.idents.values()):
                self.kills += c.command('CLIENT', 'KILL', 'ID', ident)
            time.sleep(.002)

    def upset(self, c, rng):
        """What makes all shards stand still."""
        while self.goes_on():
            rng.choice([lambda: c.pipeline([('MULTI',), ('KEYS', '*'), ('EXEC',)]), lambda: c.command('CONFIG', 'SET', 'maxclients', '9000'),
                        lambda: c.pipeline([('SWAPDB', '5', '6')])])()
            time.sleep(.005)


@pytest.mark.parametrize('keys', [KEYS[:2], KEYS], ids=['few keys', 'many keys'])
def test_each_value_is_taken_once_or_still_there(server, keys):
    load = Load(server, keys, least=20)
    found, pushed = load.run(load.push, load.push, load.push, load.pop, load.pop, load.pop, load.leave, load.leave, load.unblock, load.upset)
    assert found == pushed
    comes_to(lambda: blocked(server), 0)


@pytest.mark.parametrize('keys', [KEYS[:1], KEYS[:3], KEYS], ids=['one key', 'three keys', 'many keys'])
def test_nobody_goes_on_waiting_for_what_is_there(server, keys):
    """Whoever waits has no time to be over, and all wait for all keys: if a push between looking and parking were missed, the last would never end."""
    rounds, poppers = 200 // (4 if LIGHT else 1), 4
    popped, faults = [[] for _ in range(poppers)], []

    def pop(number):
        rng = random.Random(number)
        try:
            with server.client() as c:
                for _ in range(rounds):
                    popped[number].append(c.command('DEBUG', 'BLOCKPOP', 0, *rng.sample(keys, len(keys)))[1])
        except Exception as fault:      # noqa: BLE001
            faults.append('%s: %s' % (type(fault).__name__, fault))

    threads = [threading.Thread(target=pop, args=(number,)) for number in range(poppers)]
    for t in threads:
        t.start()
    with server.client() as c:
        rng = random.Random(len(keys))
        for number in range(rounds * poppers):
            while not faults and c.command('SET', rng.choice(keys), number, 'NX') != b'OK':
                pass
    for t in threads:
        t.join()
    assert not faults, faults[0]
    assert sorted(int(v) for each in popped for v in each) == list(range(rounds * poppers))
    comes_to(lambda: blocked(server), 0)


def test_at_most_what_was_on_its_way_to_the_killed_is_lost(server):
    load = Load(server, KEYS)
    found, pushed = load.run(load.push, load.push, load.be_killed, load.be_killed, load.be_killed, load.kill)
    assert len(set(found)) == len(found) and set(found) <= set(pushed)
    assert len(pushed) - len(found) <= load.kills
    comes_to(lambda: blocked(server), 0)
