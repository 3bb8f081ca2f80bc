"""redis-py beyond tests/integration/test_basics.py: its other ways to connect, asyncio, and what becomes of it when a server goes."""

import asyncio
import os
import threading

import pytest
import redis
import redis.asyncio

from server import PATIENCE, Server

BIG = os.urandom(5 << 20)


def test_ways_to_connect(start, tmp_path):
    path = str(tmp_path / 'socket')
    server = start(options=[('unixsocket', path), ('requirepass', 'secret-1')])
    with redis.Redis(unix_socket_path=path, password='secret-1', db=4) as r:
        assert r.set('k', 'v')
    with redis.Redis.from_url('redis://default:secret-1@127.0.0.1:%d/4' % server.port, client_name='named', decode_responses=True) as r:
        assert r.get('k') == 'v' and r.client_getname() == 'named'
        assert [(c['db'], c['addr'].split(':')[0]) for c in r.client_list() if c['name'] == 'named'] == [('4', '127.0.0.1')]
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(port=server.port).ping()
    with pytest.raises((redis.AuthenticationError, redis.ResponseError), match='WRONGPASS|invalid username-password'):
        redis.Redis(port=server.port, password='wrong').ping()


def test_errors(server):
    r = server.redis()
    r.set('text', 'abc')
    with pytest.raises(redis.ResponseError, match='^value is not an integer or out of range$'):
        r.incr('text')
    with pytest.raises(redis.ResponseError, match=r"^unknown command 'NONSENSE', with args beginning with: 'x' "):
        r.execute_command('NONSENSE', 'x')
    with r.pipeline(transaction=False) as p:
        replies = p.set('a', 1).incr('text').get('a').execute(raise_on_error=False)
    assert replies[0] is True and isinstance(replies[1], redis.ResponseError) and replies[2] == b'1'


def test_values_of_all_sizes(server):
    r = server.redis()
    values = {'big:%d' % size: BIG[:size] for size in (0, 1, 255, 256, 4095, 16383, 16384, 16385, 65536, 1 << 20, 5 << 20)}
    for _ in range(2):
        assert r.mset(values)
        assert r.mget(values) == list(values.values())
        assert all(r.get(key) == value for key, value in values.items())


def test_threads_share_a_pool(server):
    r = server.redis()
    counts = []

    def work():
        counts.extend([r.incr('n') for _ in range(100)])

    threads = [threading.Thread(target=work) for _ in range(10)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(counts) == list(range(1, 1001))


def test_asyncio(server):
    async def work():
        async with redis.asyncio.Redis(port=server.port, socket_timeout=PATIENCE) as r:
            await asyncio.gather(*[r.set('key:%d' % i, i) for i in range(300)])
            assert await asyncio.gather(*[r.get('key:%d' % i) for i in range(300)]) == [b'%d' % i for i in range(300)]
            assert {key async for key in r.scan_iter('key:1?')} == {b'key:1%d' % i for i in range(10)}
            async with r.pipeline(transaction=False) as p:
                assert await p.set('big', BIG).get('big').strlen('big').execute() == [True, BIG, len(BIG)]

    asyncio.run(work())


def test_connections_are_opened_again(kind):
    io, threads = kind
    with Server(io=io, threads=threads) as first:
        port = first.port
        r = redis.Redis(port=port, client_name='steady', db=3, socket_timeout=PATIENCE)
        assert r.set('k', 'v')
        killer = first.redis()
        assert killer.client_kill_filter(_id=r.client_id()) == 1
        assert r.get('k') == b'v' and r.client_getname() == 'steady'
    with pytest.raises(redis.ConnectionError):
        r.get('k')
    with Server(io=io, threads=threads, port=port):
        assert r.get('k') is None and r.set('k', 'v') and r.client_getname() == 'steady'
