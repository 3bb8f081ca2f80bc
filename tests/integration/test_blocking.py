"""List commands that wait: BLPOP, BRPOP, BLMPOP, BLMOVE, BRPOPLPUSH. How waiting itself works is asked in test_waiting.py."""

import threading

import pytest

from configurations import LIGHT
from resp import Error, NIL, NIL_ARRAY, NULL, encode
from test_waiting import KEYS, blocked, comes_to


def wait(server, c, *command, behind=b''):
    before = blocked(server)
    c.send(encode(*command) + behind)
    comes_to(lambda: blocked(server), before + 1)


def test_the_first_of_the_keys_that_has_something_gives_it(server):
    with server.client() as c:
        for key in (KEYS[7], KEYS[2]):
            c.command('RPUSH', key, 'a', 'b', 'c')
        assert c.command('BLPOP', *KEYS, 0) == [KEYS[2], b'a']
        assert c.command('BRPOP', *reversed(KEYS), 0) == [KEYS[7], b'c']
        assert c.command('BLMPOP', 0, len(KEYS), *KEYS, 'RIGHT', 'COUNT', 5) == [KEYS[2], [b'c', b'b']]
        assert c.command('BLMPOP', 0, len(KEYS), *KEYS, 'LEFT') == [KEYS[7], [b'a']]
        assert c.command('EXISTS', KEYS[2]) == 0


def test_one_push_serves_many_in_the_order_of_their_coming(server):
    """As many as it brought; the others wait on; who waits for more takes more."""
    clients = [server.client() for _ in range(6)]
    commands = [('BLPOP', 'q', 0), ('BRPOP', 'q', 0), ('BLMPOP', 0, 1, 'q', 'LEFT', 'COUNT', 2), ('BLPOP', 'other', 'q', 0), ('BLMPOP', 0, 2, 'other', 'q', 'RIGHT', 'COUNT', 10), ('BLPOP', 'q', 0)]
    for c, command in zip(clients, commands):
        wait(server, c, *command)
    with server.client() as pusher:
        assert pusher.pipeline([('RPUSH', 'q', *'abcdefg'), ('LLEN', 'q')]) == [7, 0]
        assert [c.read() for c in clients[:5]] == [[b'q', b'a'], [b'q', b'g'], [b'q', [b'b', b'c']], [b'q', b'd'], [b'q', [b'f', b'e']]]
        assert blocked(server) == 1
        assert pusher.command('LPUSH', 'q', 'x', 'y') == 2
        assert clients[5].read() == [b'q', b'y'] and pusher.command('LRANGE', 'q', 0, -1) == [b'x']


BRINGS = {
    'LPUSH': [('LPUSH', 'to', 'v')], 'RPUSH': [('RPUSH', 'to', 'v')], 'LMOVE': [('RPUSH', 'from', 'v'), ('LMOVE', 'from', 'to', 'LEFT', 'RIGHT')],
    'RPOPLPUSH': [('RPUSH', 'from', 'v', 'w'), ('LPOP', 'from'), ('LPUSH', 'from', 'x'), ('LSET', 'from', 1, 'v'), ('RPOPLPUSH', 'from', 'to')],
    'RENAME': [('RPUSH', 'from', 'v'), ('RENAME', 'from', 'to')], 'COPY': [('RPUSH', 'from', 'v'), ('COPY', 'from', 'to')],
    'RENAME over a string': [('SET', 'to', 's'), ('RPUSH', 'from', 'v'), ('RENAME', 'from', 'to')],
    'MOVE': [('SELECT', 1), ('RPUSH', 'to', 'v'), ('MOVE', 'to', 0)], 'SWAPDB': [('SELECT', 1), ('RPUSH', 'to', 'v'), ('SWAPDB', 0, 1)],
    'EXEC': [('MULTI',), ('RPUSH', 'to', 'v'), ('EXEC',)], 'EXEC over several': [('MULTI',), ('RPUSH', 'a', '1'), ('RPUSH', 'to', 'v'), ('RPUSH', 'b', '2'), ('EXEC',)],
    'EXEC and RENAME': [('MULTI',), ('RPUSH', 'from', 'v'), ('RENAME', 'from', 'to'), ('EXEC',)],
    'EXEC that changes its mind': [('MULTI',), ('SET', 'to', 'v'), ('DEL', 'to'), ('RPUSH', 'to', 'u'), ('LPUSH', 'to', 'v'), ('RPOP', 'to'), ('EXEC',)],
    'a long list': [('RPUSH', 'to', 'v' * 100000)],
}


@pytest.mark.parametrize('way', BRINGS)
@pytest.mark.parametrize('keys', [['to'], [*KEYS, 'to']], ids=['one key', 'several keys'])
def test_whatever_brings_a_list_serves(server, way, keys):
    with server.client() as waiter, server.client() as pusher:
        wait(server, waiter, 'BLPOP', *keys, 0)
        replies = pusher.pipeline(BRINGS[way])
        assert not any(isinstance(r, Error) for r in replies)
        key, value = waiter.read()
        assert key == b'to' and value and value.strip(b'v') == b''
        pusher.command('SELECT', 0)
        assert pusher.command('EXISTS', 'to') == 0


def test_keys_of_other_types_serve_nobody(server):
    with server.client() as waiter, server.client() as c:
        wait(server, waiter, 'BRPOP', 'k', KEYS[0], 0)
        for command in (('SET', 'k', 'v'), ('DEL', 'k'), ('SADD', 'k', 'm'), ('DEL', 'k'), ('HSET', 'k', 'f', 'v'), ('RPUSHX', 'none', 'x')):
            c.command(*command)
        assert blocked(server) == 1
        c.pipeline([('DEL', 'k'), ('RPUSH', 'k', 'a', 'b')])
        assert waiter.read() == [b'k', b'b']
        c.command('SET', 's', 'v')
        for command in (('BLPOP', 's', 0), ('BLPOP', 'none', 's', 'k', 0), ('BLMPOP', 0, 2, 'none', 's', 'LEFT')):
            reply = waiter.command(*command)
            assert isinstance(reply, Error) and reply.startswith(b'WRONGTYPE')
        assert waiter.command('BLPOP', 'k', 's', 0) == [b'k', b'a']


def test_inside_multi_and_when_time_is_over_there_is_nothing(server):
    with server.client() as c:
        for protocol, nothing in ((2, NIL_ARRAY), (3, NULL)):
            c.command('HELLO', protocol)
            for command in (('BLPOP', *KEYS, 0.01), ('BRPOP', 'k', 0.01), ('BLMPOP', 0.01, len(KEYS), *KEYS, 'LEFT'), ('BLMPOP', 0.01, 1, 'k', 'LEFT', 'COUNT', 3)):
                assert c.command(*command) == nothing
            for keys in (['k'], KEYS):
                multi = [('MULTI',), ('BLPOP', *keys, 0), ('RPUSH', keys[-1], 'a', 'b', 'c'), ('BRPOP', *keys, 0), ('BLMPOP', 0, len(keys), *keys, 'LEFT', 'COUNT', 5), ('BLMPOP', 0, len(keys), *keys, 'LEFT'), ('EXEC',)]
                last = keys[-1] if keys is KEYS else b'k'
                assert c.pipeline(multi)[-1] == [nothing, 3, [last, b'c'], [last, [b'a', b'b']], nothing]


@pytest.mark.parametrize('keys', [['k'], [*KEYS, 'k']], ids=['one key', 'several keys'])
def test_who_wants_no_reply_gets_none(server, keys):
    with server.client() as c:
        c.command('RPUSH', 'k', 'a', 'b')
        c.send(encode('CLIENT', 'REPLY', 'OFF') + encode('BLPOP', *keys, 0) + encode('BLMPOP', 0, len(keys), *keys, 'LEFT') + encode('BLPOP', *keys, 0.01) + encode('CLIENT', 'REPLY', 'ON') + encode('LLEN', 'k'))
        assert c.read() == b'OK' and c.read() == 0


def test_no_element_is_lost_or_given_twice(server):
    """Some push, some wait, some take at once, over keys on all shards."""
    n, lock, got = 2000 // (4 if LIGHT else 1), threading.Lock(), []

    def push(part):
        with server.client() as c:
            for i in range(part, n, 2):
                c.command('RPUSH' if i % 3 else 'LPUSH', KEYS[i % len(KEYS)], i)

    def take(part):
        with server.client() as c:
            while True:
                reply = c.command('BLPOP', *KEYS[part % 3:], 'end', 0) if part < 4 else c.command('BLMPOP', 0, 3, KEYS[part], KEYS[0], 'end', 'RIGHT', 'COUNT', 3)
                if reply[0] == b'end':
                    return
                with lock:
                    got.extend(reply[1] if isinstance(reply[1], list) else [reply[1]])

    takers = [threading.Thread(target=take, args=(i,)) for i in range(6)]
    pushers = [threading.Thread(target=push, args=(i,)) for i in range(2)]
    for t in takers + pushers:
        t.start()
    for t in pushers:
        t.join()
    with server.client() as c:
        c.command('RPUSH', 'end', *range(100))
        for t in takers:
            t.join()
        rest = [e for key in KEYS for e in c.command('LRANGE', key, 0, -1)]
    assert sorted(got + rest, key=int) == [b'%d' % i for i in range(n)]


def test_a_timeout_and_unblock_leave_the_list_alone(server):
    with server.client() as waiter, server.client() as c:
        number = waiter.command('CLIENT', 'ID')
        wait(server, waiter, 'BLPOP', 'k', *KEYS, 0)
        assert c.command('CLIENT', 'UNBLOCK', number) == 1 and waiter.read() == NIL_ARRAY
        wait(server, waiter, 'BLMPOP', 0, 1, 'k', 'LEFT')
        assert c.command('CLIENT', 'UNBLOCK', number, 'ERROR') == 1 and waiter.read().startswith(b'UNBLOCKED')
        assert waiter.command('BRPOP', 'k', 0.02) == NIL_ARRAY
        c.command('RPUSH', 'k', 'a')
        assert c.command('LRANGE', 'k', 0, -1) == [b'a'] and c.command('GET', 'none') == NIL


# ---- BLMOVE, BRPOPLPUSH: between keys of one shard, and of two ----

def test_what_is_moved_goes_from_any_key_to_any(server):
    with server.client() as waiter, server.client() as c:
        for i, source in enumerate(KEYS):
            for target in KEYS[i % 3::3]:
                c.pipeline([('DEL', *KEYS), ('RPUSH', target, 'x')] if source != target else [('DEL', *KEYS)])
                there = [b'x'] if source != target else []
                wait(server, waiter, *(('BLMOVE', source, target, 'LEFT', 'RIGHT', 0) if source != target else ('BLPOP', source, 0)))
                c.command('RPUSH', source, 'a', 'b')
                assert waiter.read() == (b'a' if source != target else [source, b'a'])
                assert waiter.command('BLMOVE', source, target, 'RIGHT', 'LEFT', 0) == b'b'
                assert c.command('LRANGE', target, 0, -1) == ([b'b'] + there + [b'a'] if source != target else [b'b'])
                assert source == target or c.command('EXISTS', source) == 0
        assert waiter.command('BRPOPLPUSH', KEYS[0], KEYS[1], 0.01) == NIL_ARRAY


@pytest.mark.parametrize('way', BRINGS)
def test_whatever_brings_a_list_has_it_moved(server, way):
    for target in KEYS[:5]:
        with server.client() as waiter, server.client() as pusher:
            pusher.command('FLUSHALL')
            wait(server, waiter, 'BRPOPLPUSH', 'to', target, 0)
            assert not any(isinstance(r, Error) for r in pusher.pipeline(BRINGS[way]))
            value = waiter.read()
            pusher.command('SELECT', 0)
            assert value.strip(b'v') == b'' and pusher.command('LRANGE', target, 0, -1) == [value] and pusher.command('EXISTS', 'to') == 0


@pytest.mark.parametrize('targets', [['{q}a', '{q}b'], KEYS], ids=['one shard', 'several shards'])
def test_who_moves_keeps_its_place_among_who_waits(server, targets):
    clients = [server.client() for _ in range(12)]
    for round in range(4 if LIGHT else 12):
        for i, c in enumerate(clients):
            wait(server, c, *(('BLMOVE', '{q}', targets[i % len(targets)], 'LEFT', 'RIGHT', 0) if i % 3 else ('BLPOP', '{q}', 0)))
        with server.client() as pusher:
            if round % 2:
                pusher.command('RPUSH', '{q}', *range(len(clients)))
            else:
                pusher.pipeline([('RPUSH', '{q}', i) for i in range(len(clients))])
            assert [c.read() for c in clients] == [b'%d' % i if i % 3 else [b'{q}', b'%d' % i] for i in range(len(clients))]
            assert pusher.command('EXISTS', '{q}') == 0 and blocked(server) == 0
            moved = sorted((e for target in targets for e in pusher.command('LRANGE', target, 0, -1)), key=int)
            assert moved == [b'%d' % i for i in range(len(clients)) if i % 3]
            pusher.command('DEL', *targets)


def test_what_can_not_be_put_stays_and_the_next_gets_it(server):
    for target in KEYS[:6]:
        with server.client() as mover, server.client() as waiter, server.client() as c:
            c.pipeline([('FLUSHALL',), ('SET', target, 's')])
            wait(server, mover, 'BLMOVE', 'source', target, 'LEFT', 'LEFT', 0)
            wait(server, waiter, 'BLPOP', 'source', 0)
            c.command('RPUSH', 'source', 'a')
            reply = mover.read()
            assert isinstance(reply, Error) and reply.startswith(b'WRONGTYPE') and waiter.read() == [b'source', b'a']
            assert c.command('GET', target) == b's' and blocked(server) == 0
            c.command('RPUSH', 'source', 'b')
            assert mover.command('BLMOVE', 'source', target, 'LEFT', 'LEFT', 0).startswith(b'WRONGTYPE') and c.command('LLEN', 'source') == 1


def test_movers_in_a_chain(server):
    clients = [server.client() for _ in KEYS]
    for c, source, target in zip(clients, KEYS, KEYS[1:]):
        wait(server, c, 'BLMOVE', source, target, 'RIGHT', 'LEFT', 0)
    with server.client() as last, server.client() as c:
        wait(server, last, 'BRPOP', KEYS[-1], 0)
        c.command('LPUSH', KEYS[0], 'x')
        assert [m.read() for m in clients[:-1]] == [b'x'] * (len(KEYS) - 1) and last.read() == [KEYS[-1], b'x']
        assert c.command('EXISTS', *KEYS) == 0


def test_a_moving_waiter_may_leave_and_time_out(server):
    with server.client() as c:
        for target in KEYS[:6]:
            leaver, other = server.client(), server.client()
            number = other.command('CLIENT', 'ID')
            wait(server, leaver, 'BLMOVE', 'source', target, 'LEFT', 'LEFT', 0)
            wait(server, other, 'BLMOVE', 'source', target, 'LEFT', 'LEFT', 0)
            leaver.close()
            comes_to(lambda: blocked(server), 1)
            c.command('RPUSH', 'source', 'a')
            assert other.read() == b'a' and c.command('LRANGE', target, 0, -1) == [b'a']
            assert other.command('BLMOVE', 'source', target, 'LEFT', 'LEFT', 0.01) == NIL_ARRAY
            wait(server, other, 'BRPOPLPUSH', 'source', target, 0)
            assert c.command('CLIENT', 'UNBLOCK', number) == 1
            assert other.read() == NIL_ARRAY
            other.close()
            c.command('DEL', target)


def test_no_element_is_lost_by_who_moves(server):
    """Movers over all keys in a ring, while others push, pop, and move at once; timeouts end some."""
    n, lock, got, done = 600 // (4 if LIGHT else 1), threading.Lock(), [], threading.Event()

    def mover(i):
        with server.client() as c:
            while not done.is_set():
                c.command('BLMOVE', KEYS[i], KEYS[(i + 1) % 6], 'LEFT', 'RIGHT', 0.02 if i % 2 else 0.003)

    def taker(i):
        with server.client() as c:
            while not done.is_set():
                reply = c.command('BLPOP', KEYS[i], KEYS[i + 3], 0.05) if i else c.command('LPOP', KEYS[0])
                if reply:
                    with lock:
                        got.append(reply[1] if i else reply)

    threads = [threading.Thread(target=mover, args=(i % 6,)) for i in range(8)] + [threading.Thread(target=taker, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    with server.client() as c:
        for i in range(n):
            c.command('RPUSH', KEYS[i % 6], i)
        comes_to(lambda: len(got), n)
        done.set()
        for t in threads:
            t.join()
        assert sorted(got, key=int) == [b'%d' % i for i in range(n)]
        assert c.command('EXISTS', *KEYS) == 0
        comes_to(lambda: blocked(server), 0)
