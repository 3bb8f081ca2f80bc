"""Sorted sets over a socket: large ones, long replies, several shards; what the oracle's random commands seldom make."""

import pytest

from resp import Error, NIL, encode
from server import long_slices, wait_for

N = 30000


@pytest.fixture
def client(server):
    with server.client() as c:
        yield c


def name(i):
    return b'm%05d' % i


def fill(client, key, n=N, score=lambda i: i * 7919 % 10007):
    for start in range(0, n, 1000):
        client.command('ZADD', key, *(x for i in range(start, min(start + 1000, n)) for x in (score(i), name(i))))


def in_order(n=N, score=lambda i: i * 7919 % 10007):
    return [name(i) for i in sorted(range(n), key=lambda i: (score(i), name(i)))]


def used(client):
    text = client.command('INFO', 'memory').decode()
    return int(text.split('used_memory:')[1].split()[0])


def test_a_large_one_is_in_order_from_any_place(client):
    fill(client, 'z')
    order = in_order()
    assert client.command('ZCARD', 'z') == N
    assert client.command('ZRANGE', 'z', 0, -1) == order
    assert client.command('ZRANGE', 'z', 0, -1, 'REV') == order[::-1]
    for i in range(0, N, 997):
        assert client.command('ZRANGE', 'z', i, i + 9) == order[i:i + 10]
        assert client.command('ZRANK', 'z', order[i]) == i
        assert client.command('ZREVRANK', 'z', order[i]) == N - 1 - i
    scores = client.command('ZRANGE', 'z', 0, -1, 'WITHSCORES')[1::2]
    assert scores == sorted(scores, key=int)
    assert client.command('ZCOUNT', 'z', 100, '(200') == sum(100 <= int(s) < 200 for s in scores)
    assert client.command('ZRANGE', 'z', '(5000', '+inf', 'BYSCORE', 'LIMIT', 3, 2) == [m for m, s in zip(order, scores) if int(s) > 5000][3:5]
    assert client.command('ZMSCORE', 'z', *order[::100], 'none') == scores[::100] + [NIL]


def test_members_of_one_score_are_in_the_order_of_their_bytes(client):
    fill(client, 'z', score=lambda i: 0)
    assert client.command('ZRANGE', 'z', '[m00100', '(m00105', 'BYLEX') == [name(i) for i in range(100, 105)]
    assert client.command('ZLEXCOUNT', 'z', '-', '(m20000') == 20000
    assert client.command('ZREVRANGEBYLEX', 'z', '+', '-', 'LIMIT', 0, 2) == [name(N - 1), name(N - 2)]
    assert client.command('ZREMRANGEBYLEX', 'z', '[m00010', '[m29989') == N - 20
    assert client.command('ZRANGE', 'z', 0, -1) == [name(i) for i in (*range(10), *range(N - 10, N))]


def test_scores_that_change_move_their_members(client):
    fill(client, 'z')
    for i in range(0, N, 10):
        client.command('ZADD', 'z', 20000 + i, name(i))
    moved = [name(i) for i in range(0, N, 10)]
    assert client.command('ZRANGE', 'z', -len(moved), -1) == moved
    assert client.command('ZRANGE', 'z', 0, -len(moved) - 1) == [m for m in in_order() if m not in set(moved)]
    assert client.command('ZINCRBY', 'z', '-inf', name(0)) == b'-inf'
    assert client.command('ZRANK', 'z', name(0)) == 0
    assert client.command('ZINCRBY', 'z', '+inf', name(0)).startswith(b'ERR resulting score')


def test_one_beyond_a_limit_is_shown_as_large_for_good(server):
    with server.client() as c:
        for directive, limit in (('zset-max-listpack-entries', 3), ('zset-max-listpack-value', 5)):
            c.command('FLUSHALL')
            c.command('CONFIG', 'SET', directive, limit)
            c.command('ZADD', 'z', 1, 'a', 2, 'b', 3, 'ccccc')
            assert c.command('OBJECT', 'ENCODING', 'z') == b'listpack'
            c.command('ZADD', 'z', 1, 'd' * (6 if directive.endswith('value') else 1))
            assert c.command('OBJECT', 'ENCODING', 'z') == b'skiplist'
            c.command('ZREMRANGEBYRANK', 'z', 0, 2)
            assert c.command('OBJECT', 'ENCODING', 'z') == b'skiplist'
            c.command('CONFIG', 'SET', directive, 128)


def test_many_are_popped_and_removed(client):
    fill(client, 'z')
    order = in_order()
    assert client.command('ZPOPMIN', 'z', 5000)[::2] == order[:5000]
    assert client.command('ZPOPMAX', 'z', 5000)[::2] == order[:-5001:-1]
    assert client.command('ZREMRANGEBYRANK', 'z', 10, 9999) == 9990
    order = order[5000:5010] + order[15000:-5000]
    assert client.command('ZRANGE', 'z', 0, -1) == order
    low, high = (client.command('ZSCORE', 'z', order[i]) for i in (100, 5000))
    gone = client.command('ZCOUNT', 'z', low, high)
    assert gone > 2000
    assert client.command('ZREMRANGEBYSCORE', 'z', low, high) == gone
    assert client.command('ZCARD', 'z') == len(order) - gone
    assert client.command('ZREMRANGEBYSCORE', 'z', '-inf', 'inf') == len(order) - gone
    assert client.command('EXISTS', 'z') == 0
    fill(client, 'z', 3000)
    client.command('ZADD', 'other', 1, 'x')
    assert client.command('ZMPOP', 2, 'none', 'z', 'MAX', 'COUNT', 5000) == [b'z', [[m, b'%d' % (int(m[1:]) * 7919 % 10007)] for m in in_order(3000)[::-1]]]
    assert client.command('EXISTS', 'z') == 0


@pytest.mark.parametrize('to', ['{z}to', 'to', 'too', 'tooo'])
def test_a_stored_range_is_made_in_its_order(client, to):
    """Redis keeps no -0 in a small sorted set; a long member makes it a large one from then on."""
    client.command('ZADD', 'z', 5, 'x' * 65, '-0', 'zero')
    for rev, score in (([], b'0'), (['REV'], b'-0')):
        assert client.command('ZRANGESTORE', to, 'z', 0, -1, *rev) == 2
        assert client.command('ZRANGE', to, 0, -1, 'WITHSCORES') == [b'zero', score, b'x' * 65, b'5']


@pytest.mark.parametrize('command, least', [(['ZRANGE', 'z', '0', '-1'], N // 1024), (['ZRANGE', 'z', '0', '+inf', 'BYSCORE', 'WITHSCORES'], N // 1024), (['ZREVRANGE', 'z', '5', '-1'], N // 1024),
                                            (['ZREMRANGEBYSCORE', 'z', '-inf', '5000'], N // 512), (['ZREMRANGEBYRANK', 'z', '10', '-1'], N // 256 - 1), (['ZPOPMIN', 'z', str(N)], N // 512 - 1),
                                            (['ZPOPMAX', 'z', str(N - 10)], N // 512 + N // 256 - 2)])
def test_long_commands_go_on_in_slices(client, command, least):
    fill(client, 'z')
    before = long_slices(client)
    client.command(*command)
    assert long_slices(client) - before >= least - 5
    client.command('ZREMRANGEBYRANK', 'z', '200', '-1')
    before = long_slices(client)
    client.command(*command)
    assert long_slices(client) - before < 5       # INFO's own


def test_who_writes_waits_for_the_end_of_a_long_read(server):
    with server.client() as c, server.client() as other:
        fill(c, 'z')
        for _ in range(20):
            c.send(encode('ZRANGE', 'z', '0', '-1'))
            other.command('ZADD', 'z', '-1', 'first')
            other.command('ZREM', 'z', 'first', name(0))
            assert len(c.read()) in (N - 1, N, N + 1)
            other.command('ZADD', 'z', '0', name(0))
        c.send(encode('ZRANGE', 'z', '0', '-1'))        # who leaves leaves nothing behind
    with server.client() as c:
        assert c.command('ZRANGE', 'z', 0, -1) == in_order()


def test_inside_a_transaction_nothing_is_sliced(client):
    fill(client, 'z', 5000)
    client.command('MULTI')
    for command in (['ZRANGE', 'z', 0, -1], ['ZREMRANGEBYRANK', 'z', 1, 3000], ['ZPOPMIN', 'z', 1000], ['ZCARD', 'z']):
        assert client.command(*command) == b'QUEUED'
    everything, removed, popped, left = client.command('EXEC')
    order = in_order(5000)
    assert (everything, removed, popped[::2], left) == (order, 3000, order[:1] + order[3001:4000], 1000)


def test_a_large_one_moves_and_is_copied(client):
    fill(client, 'z', 5000)
    client.command('ZADD', 'z', '-0', 'zero', '1.1', 'x' * 300)
    want = client.command('ZRANGE', 'z', 0, -1, 'WITHSCORES')
    for i in range(6):      # to other shards and back
        client.command('RENAME', 'z' if i == 0 else 'moved%d' % (i - 1), 'moved%d' % i)
    assert client.command('ZRANGE', 'moved5', 0, -1, 'WITHSCORES') == want
    assert [client.command('COPY', 'moved5', 'copy%d' % i) for i in range(6)] == [1] * 6
    client.command('ZREM', 'moved5', 'zero')
    for i in range(6):
        assert client.command('ZRANGE', 'copy%d' % i, 0, -1, 'WITHSCORES') == want
        assert client.command('OBJECT', 'ENCODING', 'copy%d' % i) == b'skiplist'


def test_zscan_meets_all_that_stays_while_others_come_and_go(client):
    fill(client, 'z', 2000)
    cursor, seen, step = b'0', set(), 0
    while True:
        cursor, found = client.command('ZSCAN', 'z', cursor, 'COUNT', 20)
        seen.update(found[::2])
        step += 1
        if step % 10 == 0:
            names = [b'x%d' % (step * 1000 + i) for i in range(500)]
            client.command('ZADD', 'z', *(x for f in names for x in (1, f)))
            client.command('ZREM', 'z', *names[:step % 500])
        if cursor == b'0':
            break
    assert seen >= {name(i) for i in range(2000)}


def test_several_over_any_shards(client):
    keys = ['a', 'b', 'c', 'd', 'e']
    for n, key in enumerate(keys):
        client.command('ZADD', key, *(x for i in range(n, 400) for x in (i % 7 + n, name(i))))
    client.command('SADD', 'set', *(name(i) for i in range(0, 400, 2)))
    total = {name(i): sum(i % 7 + n for n in range(5) if i >= n) + (i % 2 == 0) for i in range(400)}
    union = [x for m, s in sorted(total.items(), key=lambda x: (x[1], x[0])) for x in (m, b'%d' % s)]
    assert client.command('ZUNION', 6, *keys, 'set', 'WITHSCORES') == union
    assert client.command('ZUNIONSTORE', 'to', 6, *keys, 'set') == 400
    assert client.command('ZRANGE', 'to', 0, -1, 'WITHSCORES') == union
    assert client.command('ZINTERCARD', 6, *keys, 'set') == 198
    assert client.command('ZINTERSTORE', 'to', 2, 'e', 'set', 'WEIGHTS', 2, 3, 'AGGREGATE', 'MAX') == 198
    assert client.command('ZSCORE', 'to', name(4)) == b'%d' % (2 * (4 % 7 + 4))
    assert client.command('ZDIFF', 2, 'a', 'e') == sorted((name(i) for i in range(4)), key=lambda m: (int(m[1:]) % 7, m))
    assert client.command('ZDIFFSTORE', 'to', 2, 'e', 'a') == 0
    assert client.command('EXISTS', 'to') == 0
    for to in ('to', 'too', 'tooo'):
        assert client.command('ZRANGESTORE', to, 'a', 0, 99) == 100
        assert client.command('ZRANGE', to, 0, -1) == client.command('ZRANGE', 'a', 0, 99)
    assert client.command('COMMAND', 'GETKEYS', 'ZUNIONSTORE', 'to', 2, 'a', 'b', 'WEIGHTS', 1, 2) == [b'to', b'a', b'b']


@pytest.mark.parametrize('end', ['DEL', 'UNLINK', 'FLUSHALL', 'SET', 'PEXPIRE', 'ZREM', 'ZREMRANGEBYRANK'])
def test_the_memory_of_a_large_one_comes_back(client, end):
    client.command('SET', 'z', 'x')
    before = used(client)
    client.command('DEL', 'z')
    fill(client, 'z', 100000)
    held = used(client) - before
    assert held > 2000000
    if end == 'ZREM':
        for start in range(0, 100000, 1000):
            client.command('ZREM', 'z', *map(name, range(start, start + 1000)))
        assert client.command('EXISTS', 'z') == 0
    else:
        client.command(*{'SET': ['SET', 'z', 'x'], 'FLUSHALL': ['FLUSHALL'], 'PEXPIRE': ['PEXPIRE', 'z', '1'], 'ZREMRANGEBYRANK': ['ZREMRANGEBYRANK', 'z', '0', '-1']}.get(end, [end, 'z']))
    wait_for(lambda: used(client) - before < held / 20)


def test_refused_memory_changes_nothing(start):
    with start(options=[('maxmemory', '8mb')]) as server, server.client() as c:
        set_up = 0
        while set_up < 100:
            reply = c.command('ZADD', 'z%d' % set_up, *(x for i in range(10000) for x in (i, b'm%d' % i)))
            if isinstance(reply, Error):
                break
            set_up += 1
        assert isinstance(reply, Error) and reply.startswith(b'OOM')
        assert c.command('EXISTS', 'z%d' % set_up) == 0
        assert c.command('ZCARD', 'z0') == 10000
        assert c.command('ZREM', 'z0', 'm1') == 1
        assert c.command('ZSCORE', 'z0', 'm2') == b'2'
