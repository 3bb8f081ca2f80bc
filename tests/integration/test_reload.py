"""DEBUG RELOAD: the same is there afterwards; what goes wrong is told, and loses nothing that redis-server would keep."""

import os
import random
import signal
import threading

import pytest

from persistence import crc64
from resp import NIL_ARRAY, Client, Error
from server import wait_for
from test_snapshots import everything, fill

RANDOM = random.Random(20261204)
FAILED = Error(b'ERR Error trying to load the RDB dump, check server logs.')


@pytest.fixture
def on_folder(start, tmp_path):
    def on_folder(*options, **more):
        return start(options=[('dir', tmp_path), ('save', ''), ('enable-debug-command', 'yes'), *options], **more)
    return on_folder


def test_everything_is_there_again(on_folder):
    c = on_folder().client()
    fill(c, 800)
    fill(c, 80, 9)
    before = everything(c, (0, 9))
    for options in ((), ('NOSAVE',), ('merge',), ('NOFLUSH', 'MERGE'), ('NOSAVE', 'NOFLUSH', 'MERGE')):
        assert c.command('DEBUG', 'RELOAD', *options) == b'OK'
        assert everything(c, (0, 9)) == before
    c.pipeline([('SET', 'new', 1), ('DEL', 's0')])
    assert c.command('DEBUG', 'RELOAD') == b'OK' and c.pipeline([('GET', 'new'), ('EXISTS', 's0')]) == [b'1', 0]
    assert c.command('INCR', 'new') == 2


def test_as_redis_does(on_folder, start, tmp_path):
    """Which keys are there with each of the options."""
    folder = tmp_path / 'redis'
    folder.mkdir()
    a, b = start(kind='redis', options=[('dir', folder), ('enable-debug-command', 'yes')]).client(), on_folder().client()
    for options in (('NOSAVE',), ('NOSAVE', 'NOFLUSH', 'MERGE'), ('MERGE', 'NOFLUSH'), (), ('x',), ('NOSAVE', 'x')):
        said = []
        for c in (a, b):
            c.pipeline([('FLUSHALL',), ('MSET', 'both', 'file', 'file', 1), ('SAVE',), ('MSET', 'both', 'memory', 'memory', 1), ('DEL', 'file')])
            said.append((c.command('DEBUG', 'RELOAD', *options), c.command('MGET', 'both', 'file', 'memory')))
        assert said[0] == said[1], options
    assert isinstance(b.command('DEBUG', 'LOADAOF'), Error)


def test_who_comes_meanwhile_is_told(on_folder):
    server = on_folder()
    c, other, waits = server.client(), server.client(), server.client()
    c.pipeline([('SET', 'k%d' % i, i) for i in range(300)] + [('WATCH', 'k1')])
    assert other.pipeline([('WATCH', 'k2'), ('CONFIG', 'SET', 'key-load-delay', 5000)]) == [b'OK', b'OK']
    done = []

    def reload():
        with Client(server.address()) as d:
            done.append(d.command('DEBUG', 'RELOAD'))
    thread = threading.Thread(target=reload)
    thread.start()
    wait_for(lambda: 'Loading the DB' in server.log())      # who asks before that waits for the shards
    assert b'loading:1' in bytes(c.command('INFO', 'persistence'))
    assert c.command('GET', 'k1') == b'LOADING Redis is loading the dataset in memory' and c.command('ECHO', 'x') == b'x'
    assert c.command('CONFIG', 'SET', 'key-load-delay', 0) == b'OK'
    thread.join()
    assert done == [b'OK'] and waits.command('DBSIZE') == 300
    assert b'loading:0' in bytes(c.command('INFO', 'persistence'))
    assert other.pipeline([('MULTI',), ('GET', 'k2'), ('EXEC',)])[2] == NIL_ARRAY     # it was gone, for a moment


def test_what_goes_wrong_before_anything_is_dropped_loses_nothing(on_folder, tmp_path):
    c = on_folder(('enable-protected-configs', 'yes')).client()
    fill(c, 200)
    before = everything(c)
    assert c.command('DEBUG', 'RELOAD', 'NOSAVE') == FAILED        # there is no file yet
    assert c.command('SAVE') == b'OK'
    good = (tmp_path / 'dump.rdb').read_bytes()
    for bad in (good[:-1], good[:200], b'', b'REDIS9999' + good[9:], good[:-3] + b'xyz'):
        (tmp_path / 'dump.rdb').write_bytes(bad)
        assert c.command('DEBUG', 'RELOAD', 'NOSAVE') == FAILED
        assert everything(c) == before
    folder = tmp_path / 'data'
    folder.mkdir()
    c.command('CONFIG', 'SET', 'dir', folder)
    folder.rmdir()
    failed = c.command('DEBUG', 'RELOAD')
    assert isinstance(failed, Error) and failed == b'ERR'
    assert everything(c) == before
    folder.mkdir()
    wait_for(lambda: c.command('DEBUG', 'RELOAD') == b'OK')
    assert everything(c) == before
    assert c.command('DEBUG', 'RELOAD', 'NOFLUSH') == FAILED and everything(c) == before    # all keys twice


def test_a_snapshot_under_way_is_given_up_for_it(on_folder):
    c = on_folder().client()
    c.pipeline([('SET', 'k%d' % i, RANDOM.randbytes(100)) for i in range(50000)])
    for options in ((), ('NOSAVE',), ('NOSAVE', 'NOFLUSH', 'MERGE')):
        wait_for(lambda: c.command('BGSAVE') == b'Background saving started')
        assert c.command('DEBUG', 'RELOAD', *options) in (b'OK', FAILED)
        assert c.command('DBSIZE') == 50000
    wait_for(lambda: b'rdb_bgsave_in_progress:0' in bytes(c.command('INFO', 'persistence')))
    assert b'rdb_last_bgsave_status:ok' in bytes(c.command('INFO', 'persistence'))
    wait_for(lambda: c.command('SAVE') == b'OK')


def test_again_and_again_under_load(on_folder):
    server = on_folder()
    c = server.client()
    c.pipeline([('SET', 'a%d' % i, 1000) for i in range(200)])
    end, wrong = threading.Event(), []

    def transfers(seed):
        r = random.Random(seed)
        with Client(server.address()) as d:
            while not end.is_set():
                n = r.randrange(100)
                for reply in d.pipeline([('MULTI',), ('DECRBY', 'a%d' % r.randrange(200), n), ('INCRBY', 'a%d' % r.randrange(200), n), ('EXEC',)]):
                    if isinstance(reply, Error) and not reply.startswith((b'LOADING', b'EXECABORT')):
                        wrong.append(reply)
    threads = [threading.Thread(target=transfers, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for _ in range(10):
        assert c.command('DEBUG', 'RELOAD') == b'OK'
        assert sum(int(v) for v in c.command('MGET', *('a%d' % i for i in range(200)))) == 200000
    end.set()
    for t in threads:
        t.join()
    assert not wrong, wrong[:3]


def test_an_end_meanwhile_leaves_the_file(on_folder, tmp_path):
    server = on_folder(tolerate_faults=True)
    c = server.client()
    c.pipeline([('SET', 'k%d' % i, i) for i in range(300)] + [('SAVE',), ('CONFIG', 'SET', 'save', '3600 1'), ('CONFIG', 'SET', 'key-load-delay', 20000)])
    file = (tmp_path / 'dump.rdb').read_bytes()
    c.send(b'DEBUG RELOAD NOSAVE\r\n')
    d = server.client()
    wait_for(lambda: 'Loading the DB' in server.log())
    assert b'loading:1' in bytes(d.command('INFO', 'persistence'))
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_end() == 0 and (tmp_path / 'dump.rdb').read_bytes() == file
    assert sorted(os.listdir(tmp_path)) == ['dump.rdb']


def test_of_a_key_twice_in_a_file_the_later_one_stays(on_folder, tmp_path):
    """With MERGE, as in Redis; which dies of it without."""
    c = on_folder().client()
    entries = [(b'k', b'first'), (b'x', b'theirs'), (b'k', b'second'), (b'y', b'v'), (b'k', b'last')]
    body = b'REDIS0010\xfe\0' + b''.join(b'\0%c%s%c%s' % (len(k), k, len(v), v) for k, v in entries) + b'\xff'
    c.pipeline([('SET', 'x', 'mine'), ('SET', 'z', 'stays')])
    (tmp_path / 'dump.rdb').write_bytes(body + crc64(body).to_bytes(8, 'little'))
    assert c.command('DEBUG', 'RELOAD', 'NOSAVE', 'NOFLUSH', 'MERGE') == b'OK'
    assert c.command('MGET', 'k', 'x', 'y', 'z') == [b'last', b'theirs', b'v', b'stays']
