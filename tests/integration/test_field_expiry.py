"""Times of a hash's fields: HEXPIRE and its kin, HGETEX, HSETEX, HGETDEL. redis-server 7.0 has none of them, so what is expected stands here."""

import time

import pytest

from resp import Error, NIL
from server import wait_for
from test_slices import long_slices


@pytest.fixture
def client(server):
    with server.client() as c:
        yield c


def fields(client, key='h'):
    flat = client.command('HGETALL', key)
    return dict(zip(flat[::2], flat[1::2]))


def test_a_field_gets_a_time_and_loses_it(client):
    client.command('HSET', 'h', 'a', 1, 'b', 2, 'c', 3)
    assert client.command('HEXPIRE', 'h', 100, 'FIELDS', 3, 'a', 'b', 'x') == [1, 1, -2]
    assert client.command('HTTL', 'h', 'FIELDS', 4, 'a', 'b', 'c', 'x') == [100, 100, -1, -2]
    assert 99000 < client.command('HPTTL', 'h', 'FIELDS', 1, 'a')[0] <= 100000
    at = client.command('HPEXPIRETIME', 'h', 'FIELDS', 1, 'a')[0]
    assert abs(at - (time.time() + 100) * 1000) < 60000
    assert client.command('HEXPIRETIME', 'h', 'FIELDS', 1, 'a')[0] == (at + 999) // 1000
    assert client.command('HPERSIST', 'h', 'FIELDS', 3, 'a', 'c', 'x') == [1, -1, -2]
    assert client.command('HTTL', 'h', 'FIELDS', 1, 'a') == [-1]
    assert fields(client) == {b'a': b'1', b'b': b'2', b'c': b'3'}


def test_conditions(client):
    client.command('HSET', 'h', 'a', 1, 'b', 2)
    far, near = 4102444800, 4102444700
    assert client.command('HEXPIREAT', 'h', far, 'XX', 'FIELDS', 1, 'a') == [0]
    assert client.command('HEXPIREAT', 'h', far, 'GT', 'FIELDS', 1, 'a') == [0]
    assert client.command('HEXPIREAT', 'h', far, 'NX', 'FIELDS', 1, 'a') == [1]
    assert client.command('HEXPIREAT', 'h', far, 'nx', 'fields', 1, 'a') == [0]
    assert client.command('HEXPIREAT', 'h', far, 'LT', 'FIELDS', 2, 'a', 'b') == [0, 1]
    assert client.command('HEXPIREAT', 'h', near, 'GT', 'FIELDS', 1, 'a') == [0]
    assert client.command('HPEXPIREAT', 'h', near * 1000, 'LT', 'FIELDS', 1, 'a') == [1]
    assert client.command('HEXPIREAT', 'h', far, 'XX', 'FIELDS', 1, 'a') == [1]


def test_setting_anew_takes_the_time_away_and_counting_does_not(client):
    client.command('HSETEX', 'h', 'EX', 100, 'FIELDS', 3, 'a', 1, 'b', 2, 'c', 3)
    client.command('HSET', 'h', 'a', 5)
    client.command('HINCRBY', 'h', 'b', 5)
    client.command('HINCRBYFLOAT', 'h', 'c', '0.5')
    assert client.command('HTTL', 'h', 'FIELDS', 3, 'a', 'b', 'c') == [-1, 100, 100]


@pytest.mark.parametrize('n', [3, 500])
def test_fields_vanish_unread_and_the_hash_with_the_last(client, n):
    names = [b'f%d' % i for i in range(n)]
    client.command('HSET', 'h', *(x for f in names for x in (f, b'v')))
    client.command('HSET', 'h', 'stays', 'v')
    assert client.command('HPEXPIRE', 'h', 50, 'FIELDS', n, *names) == [1] * n
    wait_for(lambda: client.command('HLEN', 'h') == 1)
    assert client.command('HKEYS', 'h') == [b'stays']
    assert client.command('HPEXPIRE', 'h', 1, 'FIELDS', 1, 'stays') == [1]
    wait_for(lambda: client.command('DBSIZE') == 0)


def test_fields_of_many_times_go_one_by_one(client):
    n = 2000
    client.command('HSET', 'h', *(x for i in range(n) for x in (b'f%d' % i, b'v')))
    now = int(time.time() * 1000)
    for i in range(n):
        client.send(b''.join(b'$%d\r\n%b\r\n' % (len(a), a) if k else b'*%d\r\n' % 6 + b'$%d\r\n%b\r\n' % (len(a), a)
                             for k, a in enumerate([b'HPEXPIREAT', b'h', b'%d' % (now + 300 + i), b'FIELDS', b'1', b'f%d' % i])))
    got = [client.read() for _ in range(n)]
    assert all(r in ([1], [2], [-2]) for r in got)
    last = n
    while last:
        before = int(time.time() * 1000)
        left = client.command('HKEYS', 'h')
        after = int(time.time() * 1000)
        assert len(left) <= last
        # What is due by the server's clock, which lies between these, is gone, and nothing else is.
        assert {b'f%d' % i for i in range(n) if now + 300 + i > after + 1} <= set(left)
        assert not {b'f%d' % i for i in range(n) if now + 300 + i < before - 50} & set(left)
        last = len(left)
    assert client.command('EXISTS', 'h') == 0


def test_a_time_that_is_past_deletes(client):
    client.command('HSET', 'h', 'a', 1, 'b', 2, 'c', 3)
    assert client.command('HEXPIRE', 'h', 0, 'FIELDS', 2, 'a', 'x') == [2, -2]
    assert client.command('HEXPIREAT', 'h', 1, 'FIELDS', 1, 'b') == [2]
    assert client.command('HGETEX', 'h', 'PXAT', 1, 'FIELDS', 1, 'c') == [b'3']
    assert client.command('EXISTS', 'h') == 0
    assert client.command('HEXPIRE', 'h', 10, 'FIELDS', 2, 'a', 'b') == [-2, -2]
    assert client.command('HSETEX', 'h', 'PXAT', 1, 'FIELDS', 1, 'c', 1) == 1 and client.command('EXISTS', 'h') == 0


def test_hgetex_hsetex_and_hgetdel(client):
    assert client.command('HSETEX', 'h', 'FXX', 'FIELDS', 1, 'a', 1) == 0
    assert client.command('HSETEX', 'h', 'FNX', 'EX', 100, 'FIELDS', 2, 'a', 1, 'b', 2) == 1
    assert client.command('HSETEX', 'h', 'FNX', 'FIELDS', 2, 'b', 5, 'c', 3) == 0
    assert client.command('HSETEX', 'h', 'KEEPTTL', 'FXX', 'FIELDS', 1, 'a', 7) == 1
    assert client.command('HTTL', 'h', 'FIELDS', 2, 'a', 'b') == [100, 100]
    assert client.command('HGETEX', 'h', 'FIELDS', 3, 'a', 'b', 'x') == [b'7', b'2', NIL]
    assert client.command('HGETEX', 'h', 'PERSIST', 'FIELDS', 1, 'a') == [b'7']
    assert client.command('HGETEX', 'h', 'PX', 200000, 'FIELDS', 1, 'b') == [b'2']
    assert client.command('HTTL', 'h', 'FIELDS', 2, 'a', 'b') == [-1, 200]
    assert client.command('HGETDEL', 'h', 'FIELDS', 3, 'a', 'x', 'a') == [b'7', NIL, NIL]
    assert client.command('HGETDEL', 'h', 'FIELDS', 1, 'b') == [b'2'] and client.command('EXISTS', 'h') == 0


@pytest.mark.parametrize('command', [
    ['HEXPIRE', 'h', 'x', 'FIELDS', 1, 'a'], ['HEXPIRE', 'h', -1, 'FIELDS', 1, 'a'], ['HEXPIRE', 'h', 2 ** 46, 'FIELDS', 1, 'a'], ['HPEXPIREAT', 'h', 2 ** 46 + 1, 'FIELDS', 1, 'a'],
    ['HEXPIRE', 'h', 9, 'FIELDS', 2, 'a'], ['HEXPIRE', 'h', 9, 'FIELDS', 0, 'a'], ['HEXPIRE', 'h', 9, 'FIELDS', 'x', 'a'], ['HEXPIRE', 'h', 9, 'NX', 'XX', 'FIELDS', 1, 'a'], ['HEXPIRE', 'h', 9, 'FOO', 1, 'a'],
    ['HTTL', 'h', 'FIELDS', 2, 'a'], ['HPERSIST', 'h', 'FOO', 1, 'a'], ['HGETDEL', 'h', 'FIELDS', -1, 'a'], ['HGETEX', 'h', 'EX', 1, 'PX', 1, 'FIELDS', 1, 'a'], ['HGETEX', 'h', 'EX', 'FIELDS', 1, 'a'],
    ['HGETEX', 'h', 'EX', 1, 'a', 'b'], ['HSETEX', 'h', 'FNX', 'FXX', 'FIELDS', 1, 'a', 2], ['HSETEX', 'h', 'FIELDS', 1, 'a', 2, 3], ['HSETEX', 'h', 'EX', -5, 'FIELDS', 1, 'a', 2], ['HSETEX', 'h', 'PERSIST', 'FIELDS', 1, 'a', 2]],
    ids=lambda c: ' '.join(map(str, c)))
def test_wrong_input_changes_nothing(client, command):
    client.command('HSET', 'h', 'a', 1)
    assert isinstance(client.command(*command), Error)
    assert fields(client) == {b'a': b'1'} and client.command('HTTL', 'h', 'FIELDS', 1, 'a') == [-1]
    client.command('SET', 's', 1)
    good = ['HEXPIRE', 's', 9, 'FIELDS', 1, 'a']
    assert client.command(*good).startswith(b'WRONGTYPE')


@pytest.mark.parametrize('n', [5, 1000])
def test_times_go_with_the_hash(client, n):
    client.command('HSETEX', 'h', 'EX', 1000, 'FIELDS', n, *(x for i in range(n) for x in (b'f%d' % i, b'v')))
    for i in range(6):
        client.command('RENAME', 'h' if i == 0 else 'moved%d' % (i - 1), 'moved%d' % i)
        client.command('COPY', 'moved%d' % i, 'copy%d' % i)
    for key in ['moved5'] + ['copy%d' % i for i in range(6)]:
        assert client.command('HTTL', key, 'FIELDS', 2, 'f0', b'f%d' % (n - 1)) == [1000, 1000]
        assert client.command('HPEXPIRE', key, 1, 'FIELDS', n, *(b'f%d' % i for i in range(n))) == [1] * n
    wait_for(lambda: client.command('DBSIZE') == 0)


def test_during_a_pause_fields_are_hidden_and_stay(server):
    with server.client() as c, server.client() as other:
        c.command('HSET', 'h', 'a', 1, 'b', 2)
        c.command('CLIENT', 'PAUSE', 100000, 'WRITE')
        other.command('PING')
        c.command('CLIENT', 'UNPAUSE')
        c.command('HPEXPIRE', 'h', 300, 'FIELDS', 1, 'a')
        other.command('CLIENT', 'PAUSE', 100000, 'WRITE')
        wait_for(lambda: c.command('HLEN', 'h') == 1)
        assert fields(c) == {b'b': b'2'} and c.command('HEXISTS', 'h', 'a') == 0 and c.command('HRANDFIELD', 'h', 5) == [b'b']
        assert c.command('HSCAN', 'h', 0) == [b'0', [b'b', b'2']]
        other.command('CLIENT', 'UNPAUSE')
        assert c.command('HSETNX', 'h', 'a', 9) == 1
        assert fields(c) == {b'a': b'9', b'b': b'2'}


def test_random_fields_of_a_large_hash_with_fields_past_their_time_are_drawn_in_slices(server):
    """While a pause keeps these in their place, so that all of them are still there to be passed over."""
    n = 20000
    with server.client() as c, server.client() as other:
        for at in range(0, 2 * n, 2000):
            c.command('HSET', '{t}h', *(x for i in range(at, at + 2000) for x in (b'f%d' % i, b'v')))
        other.command('CLIENT', 'PAUSE', 100000, 'WRITE')
        other.command('CLIENT', 'UNPAUSE')
        soon = int(time.time() * 1000) + 2000
        for at in range(n, 2 * n, 2000):
            assert c.command('HPEXPIREAT', '{t}h', soon, 'FIELDS', 2000, *(b'f%d' % i for i in range(at, at + 2000))) == [1] * 2000
        other.command('CLIENT', 'PAUSE', 100000, 'WRITE')
        wait_for(lambda: time.time() * 1000 > soon + 5)
        live = {b'f%d' % i for i in range(n)}
        assert c.command('HLEN', '{t}h') == n
        for count in (100, 3000, 15000, n, 2 * n, -3000):
            before = long_slices(server)
            got = c.command('HRANDFIELD', '{t}h', count)
            assert set(got) <= live and len(got) == (3000 if count < 0 else min(count, n)) and (count < 0 or len(set(got)) == len(got))
            assert long_slices(server) >= before + 20, count
        assert c.command('HRANDFIELD', '{t}h') in live
        got = c.command('HRANDFIELD', '{t}h', 10, 'WITHVALUES')
        assert set(got[::2]) <= live and len(set(got[::2])) == 10 and set(got[1::2]) == {b'v'}
        other.command('CLIENT', 'UNPAUSE')


def test_expired_fields_are_counted(server):
    with server.client() as c:
        c.command('HSETEX', 'h', 'PX', 1, 'FIELDS', 3, 'a', 1, 'b', 2, 'c', 3)
        c.command('HSET', 'h', 'd', 4)
        wait_for(lambda: server.info('stats')['expired_subkeys'] == '3')
        assert server.info('stats')['expired_keys'] == '0' and fields(c) == {b'd': b'4'}


def test_a_large_hash_is_replied_as_it_was_when_it_was_asked_for(server):
    """While its reply goes on in slices, fields fall due: it shows as many as its head says."""
    n = 40000
    with server.client() as c, server.client() as other:
        for i in range(0, n, 1000):
            c.command('HSETEX', 'h', 'PX', 60000, 'FIELDS', 1000, *(x for j in range(i, i + 1000) for x in (b'f%d' % j, b'v')))
        c.command('HSET', 'h', 'stays', 'v')
        soon = int(time.time() * 1000) + 300
        for i in range(0, n, 1000):
            c.command('HPEXPIREAT', 'h', soon + i // 200, 'FIELDS', 1000, *(b'f%d' % j for j in range(i, i + 1000)))
        left = n + 1
        while left > 1:
            other.send(b'*2\r\n$4\r\nHLEN\r\n$1\r\nh\r\n')
            got = c.command('HGETALL', 'h')
            names = set(got[::2])
            assert len(names) * 2 == len(got) and b'stays' in names and set(got[1::2]) == {b'v'} and len(names) <= left
            left = len(names)
            assert 1 <= other.read() <= n + 1
        wait_for(lambda: server.info('stats')['expired_subkeys'] == str(n))


def test_a_transaction_sees_no_field_that_is_past_its_time(client):
    client.command('HSET', 'h', 'a', 1, 'b', 2)
    client.command('MULTI')
    client.command('HPEXPIRE', 'h', 1, 'FIELDS', 1, 'a')
    client.command('HLEN', 'h')
    assert client.command('EXEC')[0] == [1]
    wait_for(lambda: client.command('HEXISTS', 'h', 'a') == 0)
    for c in (['MULTI'], ['HLEN', 'h'], ['HGETALL', 'h'], ['HRANDFIELD', 'h', 9], ['HSET', 'h', 'a', 3], ['HTTL', 'h', 'FIELDS', 1, 'a']):
        client.command(*c)
    assert client.command('EXEC') == [1, [b'b', b'2'], [b'b'], 1, [-1]]


def test_a_watched_hash_whose_field_gets_a_time_has_changed(server):
    with server.client() as c, server.client() as other:
        c.command('HSET', 'h', 'a', 1)
        c.command('WATCH', 'h')
        other.command('HEXPIRE', 'h', 100, 'FIELDS', 1, 'a')
        c.command('MULTI')
        c.command('PING')
        assert not c.command('EXEC')
        c.command('WATCH', 'h')
        other.command('HGETEX', 'h', 'FIELDS', 1, 'a')
        c.command('MULTI')
        c.command('PING')
        assert c.command('EXEC') == [b'PONG']
