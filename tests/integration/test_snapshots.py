"""Snapshots: what was saved is there after a restart, whatever went on meanwhile and with however many threads; and what goes wrong is told, and loses nothing."""

import os
import random
import signal
import subprocess
import threading

import pytest

from configurations import LIGHT
from persistence import persistence, wait_saved
from resp import Error, encode
from server import Server, darter_binary, wait_for

RANDOM = random.Random(20261202)


def words(n):
    return [b'%x' % RANDOM.getrandbits(RANDOM.randrange(1, 200)) if RANDOM.random() < .7 else b'%d' % RANDOM.randrange(-10**18, 10**18) for _ in range(n)]


def fill(client, keys, db=0):
    """Keys of all types, small and large, some with times."""
    todo = [('SELECT', db)]
    for i in range(keys):
        n = RANDOM.choice((1, 3, 20, 150))
        commands = {
            0: [('SET', 's%d' % i, RANDOM.choice((b'', b'%d' % i, b'x' * RANDOM.randrange(2000), RANDOM.randbytes(40))))],
            1: [('RPUSH', 'l%d' % i, *words(n))],
            2: [('SADD', 'S%d' % i, *words(n))],
            3: [('SADD', 'I%d' % i, *range(i, i + n))],
            4: [('HSET', 'h%d' % i, *words(2 * n))],
            5: [('ZADD', 'z%d' % i, *(x for w in words(n) for x in (RANDOM.choice((1, -2.5, RANDOM.random(), 'inf')), w)))],
            6: [('SET', 'e%d' % i, 'v', 'PXAT', 4000000000000 + i)],
            7: [('HSET', 'ht%d' % i, 'a', 1, 'b', 2, 'c', 3), ('HPEXPIREAT', 'ht%d' % i, 4000000000000 + i, 'FIELDS', 2, 'a', 'b')],
        }[i % 8]
        todo += commands
    assert not any(isinstance(reply, Error) for reply in client.pipeline(todo))
    client.command('SELECT', 0)


def value(client, key):
    kind = client.command('TYPE', key)
    if kind == b'string':
        return client.command('GET', key)
    if kind == b'list':
        return client.command('LRANGE', key, 0, -1)
    if kind == b'set':
        return sorted(client.command('SMEMBERS', key))
    if kind == b'zset':
        return client.command('ZRANGE', key, 0, -1, 'WITHSCORES')
    fields = client.command('HGETALL', key)
    names = fields[::2]
    times = client.command('HPEXPIRETIME', key, 'FIELDS', len(names), *names)
    return sorted(zip(names, fields[1::2], times if isinstance(times, list) else [-1] * len(names)))


def everything(client, dbs=(0,)):
    found = {}
    for db in dbs:
        client.command('SELECT', db)
        for key in client.command('KEYS', '*'):
            found[db, key] = (value(client, key), client.command('PEXPIRETIME', key), client.command('OBJECT', 'ENCODING', key))
    client.command('SELECT', 0)
    return found


def contents(found):
    """Without encodings."""
    return {key: what[:2] for key, what in found.items()}


@pytest.fixture
def on_folder(start, tmp_path):
    """Starts a server whose file is in the test's folder, one after the other."""
    def on_folder(*options, save='', **more):
        return start(options=[('dir', tmp_path), ('save', save), *options], **more)
    return on_folder


def test_round_trip(on_folder):
    first = on_folder()
    c = first.client()
    fill(c, 2000)
    fill(c, 80, 9)
    before = everything(c, (0, 9))
    assert c.command('SAVE') == b'OK'
    first.stop()
    for threads in (1, 3, 4):
        second = on_folder(threads=threads)
        assert everything(second.client(), (0, 9)) == before
        second.stop()


def test_bgsave_shows_one_moment(on_folder):
    """Everything is changed in the same breath as BGSAVE, in every way that there is; the file knows nothing of that."""
    server = on_folder()
    c = server.client()
    fill(c, 4000)
    fill(c, 100, 1)
    fill(c, 100, 2)
    before = contents(everything(c, (0, 1, 2)))
    changes = []
    for n, (db, key) in enumerate(sorted(before)):
        if db:
            continue
        more = [('DEL', key), ('UNLINK', key), ('SET', key, 'new'), ('RENAME', key, b'renamed%d' % n), ('PEXPIRE', key, 1), ('PERSIST', key), ('COPY', 'other', key, 'REPLACE'),
                ('MOVE', key, 5), ('PEXPIREAT', key, 4100000000000)]
        of_type = {
            b's': [('APPEND', key, 'x'), ('SETRANGE', key, 3, 'y'), ('INCR', key), ('SETBIT', key, 7, 1), ('GETDEL', key), ('BITFIELD', key, 'SET', 'u8', 0, 200)],
            b'l': [('LPUSH', key, 'a'), ('RPOP', key), ('LSET', key, 0, 'b'), ('LTRIM', key, 1, 1), ('LREM', key, 0, 'e1'), ('LINSERT', key, 'BEFORE', 'e1', 'x'),
                   ('LMOVE', key, key, 'LEFT', 'RIGHT'), ('LMOVE', key, 'otherlist', 'LEFT', 'RIGHT'), ('SORT', key, 'ALPHA', 'STORE', key)],
            b'S': [('SADD', key, 'new'), ('SPOP', key), ('SPOP', key, 100), ('SINTERSTORE', key, key, 'other'), ('SUNIONSTORE', key, key, key)],
            b'I': [('SADD', key, 'text'), ('SADD', key, 10**12), ('SPOP', key), ('SMOVE', key, 'otherset', 3)],
            b'h': [('HSET', key, 'new', 1), ('HINCRBY', key, 'n', 2), ('HSETEX', key, 'EX', 100, 'FIELDS', 1, 'q', 1), ('HSETNX', key, 'x', 'y')],
            b'z': [('ZADD', key, 5, 'new'), ('ZPOPMIN', key), ('ZREMRANGEBYRANK', key, 0, 5), ('ZINCRBY', key, 1, 'm'), ('ZUNIONSTORE', key, 1, key, 'WEIGHTS', 2), ('ZREMRANGEBYSCORE', key, 0, 1)],
            b'e': [('GETEX', key, 'PERSIST'), ('SET', key, 'x', 'KEEPTTL')],
        }[key[:1]]
        if key.startswith(b'ht'):
            of_type = [('HDEL', key, 'a'), ('HPERSIST', key, 'FIELDS', 1, 'a'), ('HGETDEL', key, 'FIELDS', 3, 'a', 'b', 'c'), ('HPEXPIRE', key, 1, 'FIELDS', 1, 'b'), ('HSET', key, 'a', 'z')]
        changes.append(RANDOM.choice(more + 3 * of_type))
    RANDOM.shuffle(changes)
    replies = c.pipeline([('BGSAVE',), *changes, ('SELECT', 1), ('FLUSHDB',), ('SELECT', 0), ('SWAPDB', 2, 3), *(('SET', 'later%d' % i, i) for i in range(3000))])
    assert replies[0] == b'Background saving started'
    wait_saved(c)
    assert persistence(c)['rdb_last_bgsave_status'] == 'ok'
    server.stop()
    assert contents(everything(on_folder().client(), (0, 1, 2, 3, 5))) == before


def test_many_snapshots_with_writers(on_folder):
    """One after the other, while keys come, go and grow; every transfer keeps the sum of the accounts, so each file has that sum."""
    accounts, c = 500, on_folder().client()
    c.pipeline([('SET', 'a%d' % i, 1000) for i in range(accounts)])
    for _ in range(5):
        commands = []
        for _ in range(3000):
            n = RANDOM.randrange(100)
            commands += [('MULTI',), ('DECRBY', 'a%d' % RANDOM.randrange(accounts), n), ('INCRBY', 'a%d' % RANDOM.randrange(accounts), n), ('EXEC',),
                         RANDOM.choice((('SET', 'fill%d' % RANDOM.randrange(5000), 'x' * RANDOM.randrange(300)), ('DEL', 'fill%d' % RANDOM.randrange(5000))))]
        commands.insert(5 * RANDOM.randrange(3000), ('BGSAVE',))
        assert b'Background saving started' in c.pipeline(commands)
        wait_saved(c)
        copy = on_folder(threads=2)
        assert sum(int(v) for v in copy.client().command('MGET', *('a%d' % i for i in range(accounts)))) == 1000 * accounts
        copy.stop()


def test_redis_reads_it_and_we_read_its(on_folder, tmp_path):
    server = on_folder()
    c = server.client()
    fill(c, 1600)
    for key in c.command('KEYS', 'ht*'):
        c.command('DEL', key)               # Redis 7.0 knows no times of fields
    before = contents(everything(c))
    c.command('SAVE')
    with Server(kind='redis', options=[('dir', tmp_path), ('list-max-listpack-size', 5), ('hash-max-listpack-entries', 10)]) as redis:
        r = redis.client()
        assert contents(everything(r)) == before
        r.command('DEBUG', 'RELOAD')
        r.command('SAVE')
    server.stop()
    assert contents(everything(on_folder().client())) == before


def test_the_end_saves_if_there_are_save_points(on_folder):
    server = on_folder(save='3600 1')
    server.client().command('SET', 'k', 'v')
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_end() == 0
    second = on_folder(save='3600 1')
    c = second.client()
    assert c.command('GET', 'k') == b'v'
    c.command('SET', 'k', 'lost')
    c.send(encode('SHUTDOWN', 'NOSAVE'))
    assert second.wait_end() == 0
    third = on_folder()
    c = third.client()
    assert c.command('GET', 'k') == b'v'
    c.command('SET', 'k', 'saved')
    c.send(encode('SHUTDOWN', 'SAVE'))
    assert third.wait_end() == 0
    assert on_folder().client().command('GET', 'k') == b'saved'


def test_a_save_point(on_folder):
    c = on_folder(save='1 10').client()
    c.pipeline([('SET', 'k%d' % i, i) for i in range(10)])
    wait_for(lambda: persistence(c)['rdb_saves'] == '1')
    found = persistence(c)
    assert found['rdb_changes_since_last_save'] == '0' and found['rdb_last_bgsave_status'] == 'ok'
    assert c.command('LASTSAVE') == int(found['rdb_last_save_time'])


def test_what_can_not_be_written_is_told(on_folder, tmp_path):
    """The folder is gone; then it is back."""
    c = on_folder(('enable-protected-configs', 'yes'), save='3600 1000000').client()
    folder = str(tmp_path / 'data')
    os.mkdir(folder)
    assert c.command('CONFIG', 'SET', 'dir', folder) == b'OK'
    c.command('SET', 'k', 'v')
    os.rmdir(folder)
    failed = c.command('SAVE')
    assert isinstance(failed, Error) and b'No such file' in failed
    assert persistence(c)['rdb_last_bgsave_status'] == 'err'
    wait_for(lambda: isinstance(c.command('SET', 'k', 'w'), Error))
    assert c.command('SET', 'k', 'w').startswith(b'MISCONF Redis is configured to save RDB snapshots') and c.command('GET', 'k') == b'v'
    assert isinstance(c.command('SHUTDOWN', 'SAVE'), Error)
    os.mkdir(folder)
    assert c.command('SAVE') == b'OK'
    wait_for(lambda: c.command('SET', 'k', 'w') == b'OK')
    assert os.listdir(folder) == ['dump.rdb']


def test_an_end_that_fails_gives_up_what_was_being_written(on_folder, tmp_path):
    c = on_folder(('enable-protected-configs', 'yes'), ('enable-debug-command', 'yes')).client()
    folder = str(tmp_path / 'data')
    os.mkdir(folder)
    c.command('CONFIG', 'SET', 'dir', folder)
    c.command('DEBUG', 'POPULATE', 300000, 'key', 100)
    for _ in range(3):
        wait_for(lambda: c.command('BGSAVE') == b'Background saving started')    # the one before may not be cleared away yet
        os.rename(folder, folder + '.away')
        assert c.command('SHUTDOWN', 'SAVE') == Error(b'ERR Errors trying to SHUTDOWN. Check logs.')
        os.rename(folder + '.away', folder)
        assert c.command('PING') == b'PONG' and persistence(c)['rdb_bgsave_in_progress'] == '0'
    wait_for(lambda: c.command('SAVE') == b'OK')
    assert c.command('DBSIZE') == 300000


@pytest.mark.parametrize('aborted', (False, True))
def test_a_disk_that_hangs_holds_no_thread_up_at_an_end(on_folder, tmp_path, aborted):
    """The file of a snapshot, which the end gives up, can't even be opened. Clients are answered meanwhile, the end may be aborted, and comes once the disk is well."""
    part = str(tmp_path / 'dump.rdb.part')
    os.mkfifo(part)
    server = on_folder()
    a, *others = [server.client() for _ in range(6)]
    a.pipeline([('SET', 'k%d' % i, i) for i in range(1000)])
    assert a.command('BGSAVE') == b'Background saving started'
    a.send(encode('SHUTDOWN', 'SAVE'))
    wait_for(lambda: 'Saving the final RDB snapshot before exiting' in server.log())
    for _ in range(3):
        assert [c.command('PING') for c in others] == [b'PONG'] * 5
    if aborted:
        assert others[0].command('SHUTDOWN', 'ABORT') == b'OK'
        assert a.read() == Error(b'ERR Errors trying to SHUTDOWN. Check logs.')
        assert [c.command('SET', 'new%d' % i, 'x') for i, c in enumerate(others)] == [b'OK'] * 5
        assert a.command('BGSAVE').startswith(b'ERR Background save already in progress')
    with open(part, 'rb') as f:
        assert f.read() == b''
    if aborted:
        wait_saved(a)
        wait_for(lambda: a.command('SAVE') == b'OK')
        server.stop()
    else:
        assert server.wait_end() == 0
    assert not os.path.exists(part)
    assert on_folder().client().command('DBSIZE') == 1000 + 5 * aborted


def test_a_file_that_may_not_grow(on_folder, tmp_path):
    """The disk is full in the middle: the old file stays, and no other is left."""
    c = on_folder(prefix=('prlimit', '--fsize=300000')).client()
    c.command('SET', 'small', 1)
    assert c.command('SAVE') == b'OK'
    with open(tmp_path / 'dump.rdb', 'rb') as f:
        old = f.read()
    c.pipeline([('SET', 'k%d' % i, RANDOM.randbytes(100)) for i in range(10000)])
    failed = c.command('SAVE')
    assert isinstance(failed, Error) and b'File too large' in failed
    with open(tmp_path / 'dump.rdb', 'rb') as f:
        assert f.read() == old
    assert [n for n in os.listdir(tmp_path) if 'rdb' in n] == ['dump.rdb']
    wait_for(lambda: c.command('BGSAVE') == b'Background saving started')
    wait_saved(c)
    assert persistence(c)['rdb_last_bgsave_status'] == 'err'


def test_killed_in_the_middle(on_folder, tmp_path):
    server = on_folder()
    c = server.client()
    c.command('SET', 'k', 'old')
    c.command('SAVE')
    for _ in range(3):
        c.pipeline([('SET', 'x%d' % i, RANDOM.randbytes(200)) for i in range(30000)] + [('SET', 'k', 'new')])
        c.command('BGSAVE')
        server.kill()
        server = on_folder()
        c = server.client()
        assert c.command('GET', 'k') in (b'old', b'new')
        assert len([n for n in os.listdir(tmp_path) if 'rdb' in n]) <= 2


@pytest.mark.each_back_end
def test_a_file_that_is_not_right_ends_the_start(on_folder, tmp_path):
    server = on_folder()
    c = server.client()
    fill(c, 300)
    c.command('SAVE')
    with open(tmp_path / 'dump.rdb', 'rb') as f:
        good = f.read()
    server.stop()
    changed = bytearray(good)
    changed[len(good) // 2] ^= 0x55
    for bad in (good[:-1], good[:len(good) // 2], good[:4], b'', b'REDIS9999' + good[9:], b'hello' * 20, good + b'x', bytes(changed), good[:-3] + b'xyz'):
        with open(tmp_path / 'dump.rdb', 'wb') as f:
            f.write(bad)
        broken = Server(options=[('dir', tmp_path), ('save', '3600 1')], wait=False)
        assert broken.wait_end() == 1
        assert 'Fatal error loading the DB' in broken.log() and 'offset' in broken.log(), broken.log()
        broken.kill()
        with open(tmp_path / 'dump.rdb', 'rb') as f:
            assert f.read() == bad


def test_a_file_can_be_looked_at(on_folder, tmp_path):
    c = on_folder().client()
    c.pipeline([('SET', 'a', 1), ('SET', 'b', 2, 'EX', 1000), ('RPUSH', 'l', 'x'), ('SELECT', 3), ('SADD', 's', 'y'), ('SAVE',)])
    path = str(tmp_path / 'dump.rdb')

    def check(*arguments):
        return subprocess.run([darter_binary(), '--check-rdb', *arguments], capture_output=True, text=True)
    said = check(path)
    lines = [line.strip() for line in said.stdout.splitlines()]
    assert said.returncode == 0 and {'4 keys, 1 with a time, 0 of these past it', 'strings: 2', 'lists: 1', 'sets: 1', 'database 0: 3', 'database 3: 1', 'redis-ver: 7.0.15', path + ': good'} <= set(lines)
    assert 'times of fields' not in said.stdout
    c.pipeline([('HSET', 'h', 'f', 'v', 'g', 'w'), ('HSET', 'plain', 'f', 'v'), ('HEXPIRE', 'h', 1000, 'FIELDS', 1, 'f'), ('SAVE',)])
    assert '  hashes: 2\n  hashes with times of fields, which Redis reads from 7.4 on: 1\n' in check(path).stdout
    with open(path, 'r+b') as f:
        f.truncate(os.path.getsize(path) - 3)
    said = check(path)
    assert said.returncode == 1 and 'at offset' in said.stderr and 'good' not in said.stdout
    assert check().returncode == 1 and check('/nonexistent').returncode == 1


def test_the_log_names_the_file_that_is_loaded(on_folder, tmp_path):
    server = on_folder()
    assert 'No snapshot at %s/dump.rdb: there are no keys' % tmp_path in server.log()
    server.client().pipeline([('SET', 'a', 1), ('SAVE',)])
    server.stop()
    again = on_folder().log()
    assert 'Loading %s/dump.rdb\n' % tmp_path in again and 'No snapshot' not in again


def test_who_comes_while_it_loads(on_folder):
    server = on_folder()
    c = server.client()
    c.pipeline([('SET', 'k%d' % i, i) for i in range(400)])
    c.command('SAVE')
    server.stop()
    slow = on_folder(('key-load-delay', 20000), wait=False, tolerate_faults=True)

    def answer():
        try:
            return slow.client().command('GET', 'k1')
        except OSError:
            return None

    said = wait_for(answer)
    assert said == b'LOADING Redis is loading the dataset in memory' and isinstance(said, Error)
    slow.process.send_signal(signal.SIGTERM)
    assert slow.wait_end() == 0


def test_one_at_a_time(on_folder):
    c = on_folder(('snapshot-buffer-limit', '1mb')).client()
    c.pipeline([('SET', 'k%d' % i, RANDOM.randbytes(100)) for i in range(100000)])
    replies = c.pipeline([('BGSAVE',), ('BGSAVE',), ('BGSAVE', 'SCHEDULE'), ('BGSAVE', 'x'), ('SAVE',)])
    assert replies[0] == b'Background saving started'
    busy = b'ERR Background save already in progress'
    assert replies[1] == busy and replies[2] == busy and replies[3] == b'ERR syntax error' and replies[4] == busy
    wait_saved(c)
    assert c.command('SAVE') == b'OK'
    assert c.pipeline([('MULTI',), ('SET', 'a', 1), ('BGSAVE',), ('SAVE',), ('EXEC',)])[3].startswith(b"ERR Command not allowed inside a transaction")


def test_compression_and_checksum(on_folder, tmp_path):
    for compression, checksum in (('yes', 'yes'), ('no', 'yes'), ('no', 'no')):
        server = on_folder(('rdbcompression', compression), ('rdbchecksum', checksum))
        c = server.client()
        c.pipeline([('SET', 'k%d' % i, b'abc' * 100) for i in range(1000)])
        c.command('SAVE')
        with open(tmp_path / 'dump.rdb', 'rb') as f:
            file = f.read()
        assert (len(file) < 100000) == (compression == 'yes')
        assert (file[-8:] == bytes(8)) == (checksum == 'no')
        server.stop()
        check = subprocess.run(['redis-check-rdb', tmp_path / 'dump.rdb'], capture_output=True, text=True)
        assert check.returncode == 0, check.stdout
        assert on_folder().client().command('GET', 'k77') == b'abc' * 100


def fill_large(client, names, size):
    """A value of each type for each name, none of which is written in one go."""
    for name in names:
        client.command('SET', 's' + name, RANDOM.randbytes(100) * (size // 2))
        for i in range(0, size, 5000):
            items = [b'item:%d' % j for j in range(i, min(i + 5000, size))]
            client.pipeline([('RPUSH', 'l' + name, *items), ('SADD', 'S' + name, *items), ('HSET', 'h' + name, *(x for y in items for x in (y, y))),
                             ('ZADD', 'z' + name, *(x for n, y in enumerate(items) for x in (i + n, y)))])


LARGE_CHANGES = [
    lambda key: [('DEL', key)], lambda key: [('UNLINK', key)], lambda key: [('SET', key, 'new')], lambda key: [('SET', key, 'y' * 400000), ('APPEND', key, 'z')],
    lambda key: [('RENAME', key, 'renamed' + key)], lambda key: [('COPY', 'other', key, 'REPLACE')], lambda key: [('PEXPIRE', key, 1), ('GET', 'n')], lambda key: [('MOVE', key, 5)],
    lambda key: [('MULTI',), ('INCR', 'n'), ('DEL', key), ('SET', key, 'again'), ('EXEC',)], lambda key: [('MULTI',), ('INCR', 'n'), ('INCR', 'm'), ('TYPE', key), ('EXPIRE', key, 1000), ('EXEC',)],
    lambda key: {'s': [('APPEND', key, 'x'), ('SETRANGE', key, 3, 'y'), ('GETDEL', key)], 'l': [('LPUSH', key, 'a'), ('RPOP', key, 5), ('LMOVE', key, 'otherlist', 'LEFT', 'RIGHT'), ('LTRIM', key, 9, 99)],
                 'S': [('SREM', key, 'item:5'), ('SADD', key, 'new'), ('SPOP', key, 50), ('SUNIONSTORE', key, key, 'other')], 'h': [('HSET', key, 'new', 1), ('HDEL', key, 'item:7'), ('HPEXPIRE', key, 1, 'FIELDS', 1, 'item:9')],
                 'z': [('ZINCRBY', key, 1, 'item:3'), ('ZPOPMIN', key, 10), ('ZUNIONSTORE', key, 1, key, 'WEIGHTS', 2), ('ZREMRANGEBYRANK', key, 0, 500)]}[key[0]],
]


def test_large_values_are_written_as_they_were(on_folder):
    """While they are written in slices somebody changes, replaces or deletes each of them."""
    size = 3000 if LIGHT else 8000
    server = on_folder()
    c = server.client()
    names = [str(i) for i in range(6 if LIGHT else 9)]
    fill_large(c, names, size)
    c.command('SELECT', 1)
    fill_large(c, ['in1'], size)
    c.command('SELECT', 0)
    before = contents(everything(c, (0, 1)))
    changes = [change for name in names for kind in 'slShz' for change in RANDOM.choice(LARGE_CHANGES + LARGE_CHANGES[-1:] * 5)(kind + name)]
    replies = c.pipeline([('BGSAVE',), *changes, ('SELECT', 1), ('FLUSHDB',), ('SELECT', 0), ('SWAPDB', 0, 1)])
    assert replies[0] == b'Background saving started'
    wait_saved(c)
    assert persistence(c)['rdb_last_bgsave_status'] == 'ok'
    server.stop()
    assert contents(everything(on_folder().client(), (0, 1, 5))) == before


@pytest.mark.parametrize('make', [lambda v: ('RPUSH', 'k', 'a', v, 'b'), lambda v: ('HSET', 'k', 'f', v, 'g', 'short'), lambda v: ('HSET', 'k', v, 'value'), lambda v: ('SADD', 'k', v, 'b'), lambda v: ('ZADD', 'k', 1, v)],
                         ids=['list', 'hash', 'name', 'set', 'zset'])
def test_a_long_element_is_written_in_pieces(on_folder, make):
    """While it is not, more of it waits for the disk than what was asked for at once. Somebody changes its key in the middle."""
    size = 24 << 20
    server = on_folder(('snapshot-buffer-limit', '1mb'), ('rdbcompression', 'no'))
    c = server.client()
    c.command(*make(RANDOM.randbytes(size)))
    shown = {b'list': ('LRANGE', 'k', 0, -1), b'hash': ('HGETALL', 'k'), b'set': ('SMEMBERS', 'k'), b'zset': ('ZRANGE', 'k', 0, -1)}[c.command('TYPE', 'k')]
    before = c.command(*shown)
    change = {'list': ('LSET', 'k', 1, 'x'), 'hash': ('HSET', 'k', 'f', 'x'), 'set': ('SADD', 'k', 'new'), 'zset': ('ZADD', 'k', 2, 'new')}[c.command('TYPE', 'k').decode()]
    assert c.pipeline([('BGSAVE',), change])[0] == b'Background saving started'
    wait_saved(c)
    told = persistence(c)
    assert told['rdb_last_bgsave_status'] == 'ok' and int(told['rdb_last_cow_size']) < size // 2
    assert c.command(*shown) != before
    server.stop()
    assert on_folder().client().command(*shown) == before


class SlowDisk:
    """The snapshot's file is a pipe that nobody reads until it is asked to. At the end it can't be synced, so the snapshot fails then; but what was written is here."""

    def __init__(self, folder):
        self.folder, self.name, self.bytes = folder, str(folder / 'dump.rdb.part'), b''
        os.mkfifo(self.name)

    def read(self):
        with open(self.name, 'rb') as f:
            self.bytes = f.read()

    def load(self, on_folder):
        with open(self.folder / 'dump.rdb', 'wb') as f:
            f.write(self.bytes)
        return on_folder()


@pytest.mark.parametrize('large', (False, True))
def test_writers_wait_for_a_slow_disk(on_folder, tmp_path, large):
    """Who changes what is not written yet waits; who reads what nobody changes, or changes what is new, does not. Then everything goes on, and the file has nothing of it."""
    disk = SlowDisk(tmp_path)
    server = on_folder(('snapshot-buffer-limit', '4mb' if large else '1mb'))
    a, b = server.client(), server.client()
    if large:
        fill_large(a, ['1', '2', '3'], 5000 if LIGHT else 20000)
    else:
        a.pipeline([('SET', 'k%d' % i, RANDOM.randbytes(1000)) for i in range(5000)])
    before = contents(everything(b))
    assert a.command('BGSAVE') == b'Background saving started'
    if large:
        assert b.command('DEL', 'l3') == 1   # which the snapshot keeps
    changes = [('APPEND', key, 'x') if key[:1] in b'ks' else {b'l': ('LPUSH', key, 'x'), b'S': ('SADD', key, 'x'), b'h': ('HSET', key, 'x', 'y'), b'z': ('ZADD', key, 1, 'x')}[key[:1]]
               for _, key in before if not key.endswith(b'3')]
    RANDOM.shuffle(changes)
    a.send(b''.join(encode(*change) for change in changes))
    for i in range(50):
        assert b.command('INCR', 'new') == i + 1
        assert contents({(0, key): (value(b, key), -1) for _, key in RANDOM.sample(sorted(k for k in before if k[1].endswith(b'3') and k[1] != b'l3'), 3)})
    assert 0 < int(persistence(b)['current_cow_size']) <= int(persistence(b)['current_cow_peak']) < 8 << 20
    reader = threading.Thread(target=disk.read)
    reader.start()
    replies = [a.read() for _ in changes]
    assert not any(isinstance(reply, Error) for reply in replies)
    wait_saved(b)
    reader.join()
    assert persistence(b)['rdb_last_bgsave_status'] == 'err'
    changed = contents(everything(b))
    assert all((changed[key] == before[key]) == key[1].endswith(b'3') for key in before if key[1] != b'l3')
    server.stop()
    assert contents(everything(disk.load(on_folder).client())) == before


def test_a_slow_disk_ends_a_snapshot_that_may_not_slow_down_writers(on_folder, tmp_path):
    disk = SlowDisk(tmp_path)
    c = on_folder(('snapshot-buffer-limit', '1mb'), ('snapshot-overrun', 'abort')).client()
    c.pipeline([('SET', 'k%d' % i, RANDOM.randbytes(1000)) for i in range(5000)])
    assert c.command('BGSAVE') == b'Background saving started'
    assert c.pipeline([('APPEND', 'k%d' % i, 'x') for i in range(5000)]) == [1001] * 5000
    disk.read()
    wait_saved(c)
    assert persistence(c)['rdb_last_bgsave_status'] == 'err'
    assert sorted(os.listdir(tmp_path)) == []
    assert c.command('BGSAVE') == b'Background saving started'
    wait_saved(c)
    assert persistence(c)['rdb_last_bgsave_status'] == 'ok'


@pytest.mark.skipif(LIGHT, reason='many keys')
def test_a_table_grows_while_it_is_loaded(on_folder, configuration):
    """Beyond some two million keys its directory doubles in slices, which somebody must do."""
    if configuration[1] != 1:
        pytest.skip('of one thread')
    server = on_folder(('enable-debug-command', 'yes'))
    assert server.client().command('DEBUG', 'POPULATE', 2500000, 'k', 1) == b'OK'
    server.client().command('SAVE')
    server.stop()
    statistics = on_folder(('enable-debug-command', 'yes')).client().command('DEBUG', 'HTSTATS', 0).decode()
    assert ' keys: 2500000' in statistics
    chain = next(line for line in statistics.split('\n') if line.startswith(' chain:'))
    assert int(chain.split()[1]) < 25000, statistics
