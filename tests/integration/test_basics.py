"""Ordinary clients do ordinary things: redis-py, redis-cli, redis-benchmark, pipelines as hiredis sends them."""

import re
import subprocess
import time

import pytest
import redis

from configurations import LIGHT
from resp import encode
from server import PATIENCE


def cli(server, *arguments, lines=None):
    """What redis-cli prints for a command, or for lines on its standard input."""
    text = None if lines is None else '\n'.join(lines) + '\n'
    done = subprocess.run(['redis-cli', '-p', str(server.port), *arguments], input=text, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip('\n')


def test_redis_py_strings_and_keys(server):
    r = server.redis()
    assert r.ping()
    assert r.set('name', 'darter') and r.get('name') == b'darter'
    assert r.set('name', 'other', nx=True) is None
    assert r.set('name', 'other', xx=True, ex=100, get=True) == b'darter'
    assert 98 <= r.ttl('name') <= 100
    assert r.mset({'k%d' % i: i for i in range(100)})
    assert r.mget(['k%d' % i for i in range(100)]) == [b'%d' % i for i in range(100)]
    assert r.incr('k1') == 2 and r.decr('k2', 5) == -3 and r.incrbyfloat('k3', 0.5) == 3.5
    assert r.append('k4', 'xyz') == 4 and r.strlen('k4') == 4 and r.getrange('k4', 1, -1) == b'xyz' and r.setrange('k4', 6, '!') == 7
    assert r.get('k4') == b'4xyz\0\0!'
    assert r.exists('k1', 'k2', 'nothing') == 2 and r.delete('k1', 'k2', 'nothing') == 2 and r.unlink('k3') == 1
    assert r.type('k4') == b'string' and r.object('encoding', 'k5') == b'int'
    assert r.rename('k4', 'k5') and r.copy('k5', 'k6', replace=True) and r.get('k6') == b'4xyz\0\0!'
    assert r.expire('k6', 1000) and r.persist('k6') and r.ttl('k6') == -1 and r.ttl('nothing') == -2
    assert r.getdel('k6') == b'4xyz\0\0!' and r.getex('k7', ex=10) == b'7' and r.msetnx({'x1': 1, 'x2': 2}) is True
    keys = {b'k%d' % i for i in range(7, 100)} | {b'k0', b'k5', b'name', b'x1', b'x2'}
    assert set(r.keys('*')) == keys and set(r.scan_iter(count=10)) == keys and r.dbsize() == len(keys)
    assert r.randomkey() in keys
    with pytest.raises(redis.ResponseError, match='value is not an integer'):
        r.incr('name')
    assert r.flushdb() and r.dbsize() == 0


def test_redis_py_pipeline_of_many_kinds(server):
    r = server.redis(decode_responses=True)
    with r.pipeline(transaction=False) as p:
        for i in range(1000):
            p.set('key:%d' % i, i).incr('key:%d' % i).get('key:%d' % i).mget('key:%d' % i, 'key:%d' % (i // 2), 'nothing').exists('key:%d' % i, 'key:0')
        replies = p.execute()
    for i in range(1000):
        assert replies[5 * i:5 * i + 5] == [True, i + 1, str(i + 1), [str(i + 1), str(i // 2 + 1), None], 2 if i else 2], i


def test_redis_py_databases_and_names(server):
    first, ninth = server.redis(db=0, client_name='first'), server.redis(db=9)
    first.set('k', 'zero')
    ninth.set('k', 'nine')
    assert first.get('k') == b'zero' and ninth.get('k') == b'nine' and first.client_getname() == 'first'
    assert first.move('k', 3) and first.exists('k') == 0
    assert first.swapdb(3, 9) and ninth.get('k') == b'zero'
    assert first.info('keyspace').keys() == {'db3', 'db9'}
    assert first.flushall() and ninth.dbsize() == 0


def test_redis_py_info_config_time(server):
    r = server.redis()
    info = r.info()
    assert info['tcp_port'] == server.port and info['connected_clients'] >= 1 and info['used_memory'] > 0 and info['process_id'] == server.process.pid
    assert {'redis_version', 'uptime_in_seconds', 'total_commands_processed', 'expired_keys', 'keyspace_hits', 'used_cpu_user'} <= info.keys()
    assert r.config_get('maxclients') == {'maxclients': '10000'}
    assert r.config_set('timeout', 100) and r.config_get('timeout')['timeout'] == '100'
    assert abs(r.time()[0] - time.time()) < 5
    r.set('hit', 1), r.get('hit'), r.get('miss')
    after = r.info('stats')
    assert after['keyspace_hits'] == info['keyspace_hits'] + 1 and after['keyspace_misses'] == info['keyspace_misses'] + 1


def test_redis_cli(server):
    assert cli(server, 'set', 'greeting', 'hello world') == 'OK'
    assert cli(server, 'get', 'greeting') == 'hello world'
    assert cli(server, '--no-raw', 'get', 'nothing') == '(nil)'
    assert cli(server, '-3', '--no-raw', 'incr', 'n') == '(integer) 1'
    assert cli(server, '-n', '5', 'set', 'n', '7') == 'OK'
    assert cli(server, lines=['select 5', 'incr n', 'get "n"', 'ping', 'nonsense']).splitlines()[:4] == ['OK', '8', '8', 'PONG']
    assert cli(server, '-r', '5', 'incr', 'n').splitlines() == ['2', '3', '4', '5', '6']
    assert 'redis_version' in cli(server, 'info', 'server')
    assert sorted(cli(server, '--scan').splitlines()) == ['greeting', 'n']
    assert cli(server, '-x', 'set', 'from-stdin', lines=['text']) == 'OK'


def test_redis_cli_mass_insertion(server):
    count = 2000 if LIGHT else 50000
    done = subprocess.run(['redis-cli', '-p', str(server.port), '--pipe'], input=b''.join(encode('SET', 'mass:%d' % i, i) for i in range(count)),
                          capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0 and b'errors: 0, replies: %d' % count in done.stdout, done.stdout + done.stderr
    assert server.client().command('DBSIZE') == count


def test_redis_cli_help_and_big_keys(server):
    """redis-cli asks for COMMAND DOCS when it is interactive, and for much else in its modes."""
    r = server.redis()
    r.mset({'k:%d' % i: 'x' * i for i in range(100)})
    assert 'Sampled 100 keys' in cli(server, '--bigkeys')
    assert cli(server, 'command', 'count').isdigit()


@pytest.mark.alone
@pytest.mark.parametrize('depth', [1, 16])
def test_redis_benchmark(server, depth):
    if server.threads > 2:
        depth *= 4      # one more depth instead of one more run of the same
    requests = 2000 if LIGHT else 10000 * (1 if depth == 1 else 4)
    done = subprocess.run(['redis-benchmark', '-p', str(server.port), '-q', '-t', 'ping,set,get,incr,mset', '-P', str(depth), '-n', str(requests), '-r', '10000'],
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr and 'WARN' not in done.stdout and 'Error' not in done.stdout, done.stdout + done.stderr
    rates = re.findall(r'^(?:.*\r)*([A-Z_ ()0-9a-z]+): ([\d.]+) requests per second', done.stdout, re.M)
    names = [name for name, rate in rates if float(rate) > 0]
    assert names == ['PING_INLINE', 'PING_MBULK', 'SET', 'GET', 'INCR', 'MSET (10 keys)'], done.stdout


def test_pipelines_from_many_connections_keep_their_order(server):
    """As hiredis sends them: commands appended, written at once, replies taken one by one; keys of all shards mixed."""
    clients = [server.client() for _ in range(20)]
    rounds = 5
    for number, c in enumerate(clients):
        c.send(b''.join(encode('SET', 'o:%d:%d' % (number, i), i) + encode('INCRBY', 'o:%d:%d' % (number, i), 1000) + encode('ECHO', i) +
                        encode('MGET', 'o:%d:%d' % (number, i), 'o:%d:%d' % (number, i // 2)) for i in range(rounds * 100)))
    for number, c in enumerate(clients):
        for i in range(rounds * 100):
            assert c.read() == b'OK'
            assert c.read() == 1000 + i
            assert c.read() == b'%d' % i
            assert c.read() == [b'%d' % (1000 + i), b'%d' % (1000 + i // 2)]


def test_all_connections_see_the_same_keys(server):
    """Whatever thread a connection was dealt to."""
    clients = [server.client() for _ in range(12)]
    for number, c in enumerate(clients):
        assert c.command('SET', 'shared:%d' % number, number) == b'OK'
        assert c.command('INCR', 'counter') == number + 1
    for c in clients:
        assert c.command('MGET', *['shared:%d' % n for n in range(12)]) == [b'%d' % n for n in range(12)]
        assert c.command('DBSIZE') == 13


def test_multi_key_commands_over_all_shards(server):
    c = server.client()
    pairs = [x for i in range(500) for x in ('m:%d' % i, 'v%d' % i)]
    assert c.command('MSET', *pairs) == b'OK'
    assert c.command('MGET', *pairs[::2]) == [v.encode() for v in pairs[1::2]]
    assert c.command('MSETNX', 'm:499', 'x', 'new', 'y') == 0 and c.command('EXISTS', 'new') == 0
    assert c.command('EXISTS', *pairs[::2], 'm:0', 'm:0') == 502 and c.command('TOUCH', *pairs[::2]) == 500
    assert c.command('UNLINK', *pairs[:500:2]) == 250 and c.command('DEL', *pairs[::2]) == 250 and c.command('DBSIZE') == 0
    # The same key more than once: the last value counts.
    assert c.command('MSET', 'd', 1, 'e', 2, 'd', 3) == b'OK' and c.command('MGET', 'd', 'e', 'd') == [b'3', b'2', b'3']
    assert c.command('DEL', 'd', 'd', 'e') == 2


@pytest.mark.measures
@pytest.mark.each_back_end
def test_an_idle_server_uses_no_cpu(server):
    clients = [server.client() for _ in range(10)]
    for c in clients:
        c.command('SET', 'k', 'v', 'EX', 1000)
    time.sleep(1)
    before = server.cpu_seconds()
    turns = server.turns(clients[0])
    time.sleep(3)
    if server.kind == 'darter':
        assert server.turns(clients[0]) - turns < 100
    assert server.cpu_seconds() - before < 1        # who never sleeps uses more, on a busy machine too


def test_a_taken_port_is_a_clear_error(start, server):
    second = start(port=server.port, wait=False, tolerate_faults=True)
    assert second.wait_end() != 0
    assert str(server.port) in second.log() and re.search('in use', second.log(), re.I)
    assert server.client().command('PING') == b'PONG'


def test_values_that_grow_in_place_behind_long_keys_stay_within_their_blocks(server):
    """Blocks of more than a KiB are the allocator's own; an address sanitizer would see a byte beyond."""
    c = server.client()
    for size in range(1000, 1100, 7):
        key = b'k' * size
        for value in range(18):
            assert c.command('SET', key, b'v' * value) == b'OK'
        assert c.command('APPEND', key, b'w' * 9) == 26
        assert c.command('GET', key) == b'v' * 17 + b'w' * 9
