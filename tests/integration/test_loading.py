"""While data are loaded: what is answered, what is shown, what ends it; and that the file stays what it is."""

import os
import random
import signal
import subprocess

import pytest

from persistence import persistence
from resp import Client, Error, encode
from server import Server, darter_binary, wait_for

RANDOM = random.Random(20261203)
LOADING = b'LOADING Redis is loading the dataset in memory'
KEYS = 3000
DELAY_US = 20000     # in all longer than any of the tests, however busy the machine is


@pytest.fixture(scope='module')
def file():
    """A snapshot of some keys in two databases."""
    with Server(threads=1) as maker:
        c = maker.client()
        c.pipeline([('SET', 'k%d' % i, RANDOM.randbytes(100)) for i in range(KEYS)])
        c.pipeline([('SELECT', 2), *(('SET', 't%d' % i, i, 'EX', 100000) for i in range(300)), ('SELECT', 0)])
        assert c.command('SAVE') == b'OK'
        with open(os.path.join(maker.directory, 'dump.rdb'), 'rb') as f:
            return f.read()


@pytest.fixture
def loads(start, tmp_path, file):
    """Starts a server that takes its time to load that file; and returns as soon as it can be asked."""
    def loads(*options, save='', delay=DELAY_US, **more):
        with open(tmp_path / 'dump.rdb', 'wb') as f:
            f.write(file)
        server = start(options=[('dir', tmp_path), ('save', save), ('key-load-delay', delay), *options], wait=False, tolerate_faults=True, **more)
        wait_for(lambda: asked(server))
        return server
    return loads


def asked(server):
    assert server.alive(), server.log()
    try:
        with Client(server.address(), timeout=5) as c:
            return c.command('ECHO', 'x') == b'x'
    except OSError:
        return False


def wait_loaded(client):
    client.command('CONFIG', 'SET', 'key-load-delay', 0)
    wait_for(lambda: persistence(client)['loading'] == '0')


def test_info_shows_how_far_it_is(loads, file):
    c = loads().client()
    first = persistence(c)
    assert first['loading'] == '1' and int(first['loading_total_bytes']) == len(file)
    assert abs(int(first['loading_start_time']) - int(c.command('TIME')[0])) < 600
    seen = 0
    for _ in range(3):
        now = wait_for(lambda: next((p for p in [persistence(c)] if int(p['loading_loaded_bytes']) > seen), None))
        seen = int(now['loading_loaded_bytes'])
        assert now['loading'] == '1' and 0 < seen < len(file)
        assert now['loading_loaded_perc'] == '%.2f' % (seen / len(file) * 100) and now['loading_eta_seconds'].isdigit() and int(now['loading_rdb_used_mem']) > KEYS * 100
    keyspace = bytes(c.command('INFO', 'keyspace'))
    assert 0 < int(keyspace.split(b'db0:keys=')[1].split(b',')[0]) < KEYS
    assert int(bytes(c.command('INFO', 'memory')).split(b'used_memory:')[1].split(b'\r')[0]) > 0
    for section in ('all', 'everything', 'threads', 'stats'):
        assert len(c.command('INFO', section)) > 300
    wait_loaded(c)
    last = persistence(c)
    assert 'loading_loaded_bytes' not in last and last['rdb_last_load_keys_loaded'] == str(KEYS + 300)
    assert c.command('DBSIZE') == KEYS and b'db2:keys=300,expires=300' in bytes(c.command('INFO', 'keyspace'))


ASKED = [
    ('PING',), ('ECHO', 'x'), ('GET', 'k1'), ('SET', 'a', 1), ('DEL', 'k1'), ('DBSIZE',), ('KEYS', '*'), ('SCAN', 0), ('FLUSHALL',), ('SWAPDB', 0, 1), ('SELECT', 1), ('SELECT', 0), ('SAVE',), ('BGSAVE',),
    ('LASTSAVE',), ('TIME',), ('INFO',), ('INFO', 'memory'), ('CONFIG', 'GET', 'maxclients'), ('CONFIG', 'SET', 'maxmemory-samples', 6), ('CONFIG', 'RESETSTAT'), ('CLIENT', 'ID'), ('CLIENT', 'GETNAME'),
    ('CLIENT', 'SETNAME', 'me'), ('CLIENT', 'LIST'), ('CLIENT', 'INFO'), ('CLIENT', 'KILL', 'ID', 999999), ('CLIENT', 'UNBLOCK', 999999), ('SLOWLOG', 'LEN'), ('SLOWLOG', 'GET'), ('SLOWLOG', 'RESET'),
    ('LATENCY', 'LATEST'), ('LATENCY', 'HISTORY', 'command'), ('LATENCY', 'RESET'), ('LATENCY', 'HISTOGRAM'), ('COMMAND', 'COUNT'), ('MEMORY', 'DOCTOR'), ('MEMORY', 'USAGE', 'k1'), ('OBJECT', 'ENCODING', 'k1'),
    ('ROLE',), ('DUMP', 'k1'), ('RESTORE', 'x', 0, 'y'), ('EXPIRE', 'k1', 5), ('RANDOMKEY',), ('TYPE', 'k1'), ('MGET', 'k1', 'k2'), ('MSET', 'a', 1, 'b', 2), ('BLPOP', 'l', 0), ('LPUSH', 'l', 1), ('WAIT', 0, 0),
    ('LOLWUT',), ('MULTI',), ('DISCARD',), ('SHUTDOWN', 'ABORT'), ('SHUTDOWN', 'x'), ('RESET',), ('AUTH', 'x'), ('HELLO', 2), ('NOSUCH',), ('GET',),
]


def kind(reply):
    return bytes(reply)[:25] if isinstance(reply, Error) else type(reply)


def test_the_same_is_answered_as_by_redis(loads, tmp_path, file):
    """At once, all of it: nothing waits for the end."""
    folder = tmp_path / 'redis'
    folder.mkdir()
    (folder / 'dump.rdb').write_bytes(file)
    redis = Server(kind='redis', options=[('dir', folder), ('key-load-delay', 3000), ('loading-process-events-interval-bytes', 1024)], wait=False)
    try:
        wait_for(lambda: asked(redis))
        a, b = redis.client(), loads().client()
        for command in ASKED:
            expected, got = a.command(*command), b.command(*command)
            assert kind(got) == kind(expected), (command, expected, got)
        assert persistence(b)['loading'] == '1' and a.command('GET', 'x') == LOADING
        wait_loaded(b)
        assert b.command('CONFIG', 'GET', 'maxmemory-samples') == [b'maxmemory-samples', b'6']
    finally:
        redis.kill()


def test_the_end_leaves_the_file_as_it_is(loads, tmp_path, file):
    """With save points, which make an end save otherwise."""
    for end in (('SHUTDOWN',), ('SHUTDOWN', 'SAVE'), ('SHUTDOWN', 'NOSAVE'), signal.SIGTERM, signal.SIGINT):
        server = loads(save='3600 1', delay=20000)
        c = server.client()
        assert c.command('GET', 'k1') == LOADING
        if isinstance(end, tuple):
            c.send(encode(*end))
        else:
            server.process.send_signal(end)
        assert server.wait_end() == 0
        assert (tmp_path / 'dump.rdb').read_bytes() == file


def test_a_signal_for_the_log_ends_nothing(loads, tmp_path):
    server = loads(('logfile', str(tmp_path / 'log')))
    os.rename(tmp_path / 'log', tmp_path / 'log.1')
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: (tmp_path / 'log').exists())
    wait_loaded(server.client())
    assert server.client().command('DBSIZE') == KEYS


def test_the_configuration_may_be_set_again_and_again(loads):
    server = loads()
    clients = [server.client() for _ in range(8)]
    for i in range(100):
        assert clients[i % 8].command('CONFIG', 'SET', 'maxmemory-samples', i + 1, 'maxmemory', (i + 1) * 1000000000) == b'OK'
        assert clients[(i + 1) % 8].command('CONFIG', 'GET', 'maxmemory-samples') == [b'maxmemory-samples', b'%d' % (i + 1)]
        assert persistence(clients[(i + 2) % 8])['loading'] == '1'
    for c in clients:       # those beside the end
        c.send(b''.join(encode('CONFIG', 'SET', 'key-load-delay', 0) + encode('CONFIG', 'GET', 'key-load-delay') for _ in range(100)))
    for c in clients:
        for _ in range(100):
            assert c.read() == b'OK' and c.read() == [b'key-load-delay', b'0']
    wait_loaded(clients[0])
    assert clients[1].pipeline([('SET', 'new', 1), ('GET', 'new'), ('DBSIZE',)]) == [b'OK', b'1', KEYS + 1]
    assert clients[2].command('CONFIG', 'GET', 'maxmemory') == [b'maxmemory', b'100000000000']


def test_what_needs_the_shards_waits_for_them(loads):
    server = loads(delay=2000)      # what sets it to 0 waits for them, too
    c, d = server.client(), server.client()
    c.send(encode('MULTI') + encode('CONFIG', 'SET', 'maxmemory-samples', 9) + encode('SELECT', 0) + encode('EXEC'))
    d.send(encode('WATCH', 'k1') + encode('MULTI') + encode('ECHO', 'x') + encode('EXEC'))
    assert [c.read() for _ in range(3)] == [b'OK', b'QUEUED', b'QUEUED']
    wait_loaded(server.client())
    assert c.read() == [b'OK', b'OK'] and [d.read() for _ in range(4)] == [b'OK', b'OK', b'QUEUED', [b'x']]


def test_more_than_maxmemory_is_loaded(loads):
    c = loads(('maxmemory', 100000), delay=0).client()
    wait_loaded(c)
    assert c.command('DBSIZE') == KEYS
    assert c.command('SET', 'new', 'x' * 1000).startswith(b'OOM') and c.command('DEL', 'k1') == 1


def string(text):
    assert len(text) < 64
    return bytes([len(text)]) + text


def of_redis(commands, key):
    """A key with its value as redis-server 7.0 writes it: type, name, value."""
    with Server(kind='redis') as redis:
        c = redis.client()
        assert not any(isinstance(reply, Error) for reply in c.pipeline(commands))
        dumped = c.command('DUMP', key)
    return dumped[:1] + string(key.encode()) + dumped[1:-10]


def test_what_is_not_known_is_refused_or_skipped(start, tmp_path):
    stream = of_redis([('XADD', 's', '1-1', 'a', 'b'), ('XADD', 's', '2-1', 'a', 'x' * 300), ('XDEL', 's', '1-1'), ('XADD', 's', '3-1', 'c', 'd'), ('XGROUP', 'CREATE', 's', 'g', 0),
                       ('XGROUP', 'CREATE', 's', 'h', '$'), ('XREADGROUP', 'GROUP', 'g', 'me', 'STREAMS', 's', '>'), ('XACK', 's', 'g', '2-1'), ('XGROUP', 'CREATECONSUMER', 's', 'g', 'idle')], 's')
    data = b'\x02\x07\x04\0\0\0\0\0\0\0\0\x05\x03abc\0'     # a number, a double, a string
    module = b'\x07' + string(b'm') + b'\x09' + data
    aux = b'\xf7\x09\x02\x01' + data
    function = b'\xf5' + string(b'#!lua name=l\nx = 1')
    known = b'\x00' + string(b'known') + string(b'v')
    last = b'\x00' + string(b'last') + string(b'w')

    def file(*parts):
        return b'REDIS0010' + b''.join(parts) + b'\xff' + bytes(8)

    def begin(*options, **more):
        return start(options=[('dir', tmp_path), ('save', ''), ('enable-debug-command', 'yes'), *options], **more)
    for unknown, why in ((stream, "in key 's'"), (module, "in key 'm'"), (aux, 'auxiliary')):
        (tmp_path / 'dump.rdb').write_bytes(file(b'\xfe\0', known, unknown, last))
        refused = Server(options=[('dir', tmp_path), ('save', '')], wait=False)
        assert refused.wait_end() == 1 and why in refused.log(), refused.log()
        refused.kill()
    (tmp_path / 'dump.rdb').write_bytes(file(aux, function, b'\xfe\0', known, stream, module, last, b'\xfe\x02', b'\xfc' + bytes(7) + b'\x40', stream))
    for options, status, told in (((), 1, 'auxiliary'), (('no',), 1, 'auxiliary'), (('yes',), 0, '2 keys, 0 with a time'), (('maybe',), 1, 'usage')):
        said = subprocess.run([darter_binary(), '--check-rdb', tmp_path / 'dump.rdb', *(('--rdb-skip-unknown', *options) if options else ())], capture_output=True, text=True)
        assert said.returncode == status and told in said.stdout + said.stderr
        assert status or ('skipped, of unknown types: 3\n' in said.stdout and "modules' auxiliary data, skipped: 1\n" in said.stdout)
    server = begin(('rdb-skip-unknown', 'yes'))
    c = server.client()
    assert sorted(c.command('KEYS', '*')) == [b'known', b'last'] and c.command('GET', 'last') == b'w'
    for line in ("Skipping key 's' of database 0: a stream", "Skipping key 'm' of database 0: a module's value", "Skipping key 's' of database 2", 'were skipped (rdb-skip-unknown): 3',
                 'Libraries of functions that were passed over, as there are no functions yet: 1', 'Auxiliary data of modules were skipped 1 times'):
        assert line in server.log()
    assert c.pipeline([('CONFIG', 'SET', 'rdb-skip-unknown', 'no'), ('SET', 'last', 'x')]) == [b'OK', b'OK']
    assert isinstance(c.command('DEBUG', 'RELOAD', 'NOSAVE'), Error) and c.command('GET', 'last') == b'x'
    assert c.command('CONFIG', 'SET', 'rdb-skip-unknown', 'yes') == b'OK'
    assert c.command('DEBUG', 'RELOAD', 'NOSAVE') == b'OK' and c.command('GET', 'last') == b'w'
    (tmp_path / 'dump.rdb').write_bytes(file(b'\xfe\0', known, stream))
    assert c.command('CONFIG', 'SET', 'rdb-skip-unknown', 'no') == b'OK'
    assert isinstance(c.command('DEBUG', 'RELOAD', 'NOSAVE'), Error) and c.command('GET', 'last') == b'w'
    assert c.command('DEBUG', 'RELOAD') == b'OK' and c.command('DBSIZE') == 2


def test_idle_times_in_a_file_are_read_past(start, tmp_path):
    """As redis-server writes them while it evicts by them."""
    for policy in ('allkeys-lru', 'allkeys-lfu'):
        folder = tmp_path / policy
        folder.mkdir()
        with Server(kind='redis', options=[('dir', folder), ('maxmemory-policy', policy)]) as redis:
            redis.client().pipeline([('SET', 'a', 1), ('RPUSH', 'l', 1, 2), ('SET', 'e', 1, 'EX', 1000), ('SAVE',)])
        c = start(options=[('dir', folder)]).client()
        assert c.command('MGET', 'a', 'e') == [b'1', b'1'] and c.command('LRANGE', 'l', 0, -1) == [b'1', b'2'] and c.command('TTL', 'e') > 900
