"""Hashes over a socket: large ones, which the oracle's random commands seldom make."""

import pytest

from resp import Error
from server import long_slices, wait_for

N = 30000


@pytest.fixture
def client(server):
    with server.client() as c:
        yield c


def fill(client, key, n=N, value=b'v%d'):
    for start in range(0, n, 1000):
        client.command('HSET', key, *(x for i in range(start, min(start + 1000, n)) for x in (b'f%d' % i, value % i)))


def whole(client, key):
    flat = client.command('HGETALL', key)
    return dict(zip(flat[::2], flat[1::2]))


def expected(n=N):
    return {b'f%d' % i: b'v%d' % i for i in range(n)}


def test_a_large_hash_holds_what_was_set(client):
    fill(client, 'h')
    assert client.command('HLEN', 'h') == N
    assert whole(client, 'h') == expected()
    assert client.command('HMGET', 'h', *(b'f%d' % i for i in range(0, N, 7))) == [b'v%d' % i for i in range(0, N, 7)]
    assert client.command('OBJECT', 'ENCODING', 'h') == b'hashtable'


def test_a_small_hash_keeps_the_order_of_its_fields(client):
    fields = [b'z', b'1', b'a', b'-7', b'b' * 60]
    client.command('HSET', 'h', *(x for f in fields for x in (f, b'1')))
    client.command('HSET', 'h', 'a', 'x' * 60)
    client.command('HDEL', 'h', '1')
    assert client.command('HKEYS', 'h') == [b'z', b'a', b'-7', b'b' * 60]
    assert client.command('OBJECT', 'ENCODING', 'h') == b'listpack'


def test_hscan_meets_all_that_stays_while_others_come_and_go(client):
    fill(client, 'h', 2000)
    cursor, seen, step = b'0', set(), 0
    while True:
        cursor, found = client.command('HSCAN', 'h', cursor, 'COUNT', 20)
        seen.update(found[::2])
        step += 1
        if step % 10 == 0:
            names = [b'x%d' % (step * 1000 + i) for i in range(500)]
            client.command('HSET', 'h', *(x for f in names for x in (f, b'')))
            client.command('HDEL', 'h', *names[:step % 500])
        if step % 40 == 0:
            client.command('HDEL', 'h', *(b'x%d' % i for i in range(step * 1000)))
        if cursor == b'0':
            break
    assert seen >= {b'f%d' % i for i in range(2000)}


def test_a_large_hash_moves_and_is_copied(client):
    fill(client, 'h')
    for i in range(6):      # to other shards and back
        client.command('RENAME', 'h' if i == 0 else 'moved%d' % (i - 1), 'moved%d' % i)
    assert whole(client, 'moved5') == expected()
    assert [client.command('COPY', 'moved5', 'copy%d' % i) for i in range(6)] == [1] * 6
    client.command('HSET', 'moved5', 'f0', 'changed')
    for i in range(6):
        assert whole(client, 'copy%d' % i) == expected()
        assert client.command('OBJECT', 'ENCODING', 'copy%d' % i) == b'hashtable'
    assert client.command('COPY', 'copy0', 'copy0', 'DB', 3) == 1
    client.command('EXPIRE', 'copy1', 1000)
    assert client.command('MOVE', 'copy1', 5) == 1
    client.command('SELECT', 5)
    assert whole(client, 'copy1') == expected()
    assert 0 < client.command('TTL', 'copy1') <= 1000


def used(client):
    text = client.command('INFO', 'memory').decode()
    return int(text.split('used_memory:')[1].split()[0])


@pytest.mark.parametrize('end', ['DEL', 'UNLINK', 'FLUSHALL', 'SET', 'PEXPIRE', 'HDEL'])
def test_the_memory_of_a_large_hash_comes_back(client, end):
    client.command('SET', 'h', 'x')
    before = used(client)
    client.command('DEL', 'h')
    fill(client, 'h', 100000, b'value:%d')
    held = used(client) - before
    assert held > 2000000
    if end == 'HDEL':
        for start in range(0, 100000, 1000):
            client.command('HDEL', 'h', *(b'f%d' % i for i in range(start, start + 1000)))
        assert client.command('EXISTS', 'h') == 0
    else:
        client.command(*{'SET': ['SET', 'h', 'x'], 'FLUSHALL': ['FLUSHALL'], 'PEXPIRE': ['PEXPIRE', 'h', '1']}.get(end, [end, 'h']))
    wait_for(lambda: used(client) - before < held / 20)


def test_refused_memory_changes_nothing(start):
    with start(options=[('maxmemory', '8mb')]) as server, server.client() as c:
        set_up = 0
        while set_up < 100:
            reply = c.command('HSET', 'h%d' % set_up, *(x for i in range(10000) for x in (b'f%d' % i, b'v%d' % i)))
            if isinstance(reply, Error):
                break
            set_up += 1
        assert isinstance(reply, Error) and reply.startswith(b'OOM')
        assert c.command('EXISTS', 'h%d' % set_up) == 0
        assert c.command('HLEN', 'h0') == 10000
        assert c.command('HDEL', 'h0', 'f1') == 1
        assert c.command('HGET', 'h0', 'f2') == b'v2'


def test_a_reply_without_end_closes_its_client_only(server):
    with server.client() as c, server.client() as other:
        c.command('HSET', 'h', 'f', 'x' * 60)
        c.send(b'*3\r\n$10\r\nHRANDFIELD\r\n$1\r\nh\r\n$20\r\n-9223372036854775807\r\n')
        with pytest.raises(Exception):
            c.read()
        assert other.command('HGET', 'h', 'f') == b'x' * 60


# Long reads go in slices, with the key locked.

BIG = 30000


def test_a_long_read_goes_in_slices(client):
    fill(client, 'h', BIG)
    before = long_slices(client)
    assert whole(client, 'h') == expected(BIG)
    assert long_slices(client) - before >= BIG / 12 / 128 / 2
    before = long_slices(client)
    assert len(client.command('HMGET', 'h', *(b'f%d' % i for i in range(100)))) == 100
    assert long_slices(client) - before < BIG / 12 / 128 / 2        # INFO's own


def test_a_pipeline_keeps_its_order_around_a_long_read(client):
    fill(client, 'h', BIG)
    replies = client.pipeline([('SET', 'x', '1'), ('HKEYS', 'h'), ('HSET', 'h', 'f0', 'new'), ('GET', 'x'), ('SET', 'x', '2'), ('HGETALL', 'h'), ('HLEN', 'h'), ('DEL', 'h'), ('HVALS', 'h'),
                               ('GET', 'x'), ('PING',), ('MGET', 'x', 'x'), ('HSET', 'h', 'a', 'b'), ('FLUSHALL',), ('HKEYS', 'h')])
    assert set(replies[1]) == {b'f%d' % i for i in range(BIG)}
    assert replies[2:5] == [0, b'1', b'OK'] and dict(zip(replies[5][::2], replies[5][1::2])) == {**expected(BIG), b'f0': b'new'}
    assert replies[6:] == [BIG, 1, [], b'2', b'PONG', [b'2', b'2'], 1, b'OK', []]


@pytest.mark.parametrize('change', [('DEL', 'h'), ('FLUSHALL',), ('RENAME', 'h', 'elsewhere'), ('SWAPDB', '0', '1'), ('SET', 'h', 'x'), ('HDEL', 'h', *('f%d' % i for i in range(BIG))), ('EXPIRE', 'h', '0'),
                                    ('EXPIRE', 'h', '100'), ('PEXPIRE', 'h', '1'), ('MOVE', 'h', '1'), ('COPY', 'small', 'h', 'REPLACE')], ids=lambda c: c[0])
def test_a_long_read_sees_all_or_nothing_of_a_change(server, change):
    with server.client() as c:
        fill(c, 'h', BIG)
        c.command('HSET', 'small', 'f', 'v')
        readers = [server.client() for _ in range(4)]
        for r in readers:
            r.send(b'*2\r\n$7\r\nHGETALL\r\n$1\r\nh\r\n')
        c.command(*change)
        for r in readers:
            got = r.read()
            if isinstance(got, Error):
                assert change[0] == 'SET' and got.startswith(b'WRONGTYPE')
            else:
                assert dict(zip(got[::2], got[1::2])) in (expected(BIG), {}, {b'f': b'v'})
            r.close()


def test_clients_that_leave_during_a_long_read(server):
    with server.client() as c:
        fill(c, 'h', BIG)
        for i in range(8):
            r = server.client()
            assert r.command('PING') == b'PONG'               # else it may be killed before it is there
            r.send(b'*2\r\n$7\r\nHGETALL\r\n$1\r\nh\r\n' * 3)
            if i % 2:
                r.close()
            else:
                c.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
        assert c.command('HLEN', 'h') == BIG
        assert c.command('HSET', 'h', 'new', '1') == 1        # no intent was left behind
        wait_for(lambda: c.command('INFO', 'clients').decode().split('connected_clients:')[1].split()[0] == '1')


def test_a_long_read_inside_exec_and_without_reply(client):
    fill(client, 'h', BIG)
    client.command('MULTI')
    client.command('HKEYS', 'h')
    client.command('HLEN', 'h')
    keys, n = client.command('EXEC')
    assert set(keys) == {b'f%d' % i for i in range(BIG)} and n == BIG
    client.send(b'*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$4\r\nSKIP\r\n*2\r\n$5\r\nHKEYS\r\n$1\r\nh\r\n')
    assert client.command('HLEN', 'h') == BIG


def test_a_hash_beyond_a_limit_is_shown_as_large_for_good(client):
    for directive, more in [('hash-max-listpack-entries', ('f6', 'v')), ('hash-max-listpack-value', ('f1', 'longer'))]:
        client.command('CONFIG', 'SET', 'hash-max-listpack-entries', '100', 'hash-max-listpack-value', '100')
        client.command('CONFIG', 'SET', directive, '5')
        client.command('DEL', 'h')
        client.pipeline([('HSET', 'h', 'f%d' % i, 'v') for i in range(5)])
        assert client.command('OBJECT', 'ENCODING', 'h') == b'listpack'
        client.command('HSET', 'h', *more)
        assert client.command('OBJECT', 'ENCODING', 'h') == b'hashtable'
        client.command('HDEL', 'h', 'f1', 'f2', 'f3', 'f4', 'f6')
        assert client.command('HKEYS', 'h') == [b'f0'] and client.command('OBJECT', 'ENCODING', 'h') == b'hashtable'
