"""CLIENT PAUSE over several threads: once it is answered nothing is written anywhere, whatever was under way."""

import threading
import time

import pytest

from configurations import LIGHT, SOAK
from resp import NIL, encode

ROUNDS = (300 if SOAK else 40) // (4 if LIGHT else 1)
KEYS = ['n:%d' % n for n in range(8)]
MANY = ['m:%d' % n for n in range(3000 // (4 if LIGHT else 1))]


def writers():
    """What a writer sends again and again, by kind: plain commands, transactions in one and in several waves, EXEC, what is exclusive."""
    return {
        'plain': [('INCR', k) for k in KEYS] * 5,
        'mset': [('MSET', *(x for k in KEYS for x in (k, 1)))] * 10,
        'rename': [('SET', 'from', 1), ('RENAME', 'from', 'n:0'), ('COPY', 'n:0', 'n:1', 'REPLACE'), ('MSETNX', 'x', 1, 'n:2', 2)] * 5,
        'exec': [('MULTI',), *(('INCR', k) for k in KEYS), ('MGET', *KEYS), ('EXEC',)] * 3,
        'exec, one shard': [('MULTI',), ('INCR', '{n:3}x'), ('INCR', 'n:3'), ('EXEC',)] * 5,
        'exec, exclusive': [('MULTI',), ('INCR', 'n:4'), ('RENAME', 'n:4', 'n:5'), ('EXEC',)] * 2,
        'many': [('MSET', *(x for k in MANY for x in (k, 1))), ('DEL', *MANY[:-1])],
        'swap': [('SWAPDB', 0, 1)] * 3,
    }


class Writers:
    """Writers in threads of their own, until the end."""

    def __init__(self, server, commands):
        self.server, self.over = server, False
        self.threads = [threading.Thread(target=self.loop, args=(c,)) for c in commands]
        for t in self.threads:
            t.start()

    def loop(self, commands):
        with self.server.client() as c:
            while not self.over:
                c.pipeline(commands)

    def end(self):
        self.over = True
        for t in self.threads:
            t.join()


def snapshot(c):
    shown = []
    for db in (0, 1):
        c.command('SELECT', db)
        shown += [c.command('MGET', *KEYS, '{n:3}x', MANY[0], MANY[-1]), c.command('DBSIZE')]
    return shown


@pytest.mark.parametrize('kind', [*writers(), 'all'])
def test_nothing_is_written_anywhere_once_a_pause_is_answered(server, kind):
    commands = [v for k, v in writers().items() if kind in (k, 'all')]
    running = Writers(server, commands * (1 if kind == 'all' else 4))
    try:
        admins, readers = [server.client() for _ in range(2)], [server.client() for _ in range(4)]
        for n in range(ROUNDS // (1 if kind == 'all' else 2)):
            admin = admins[n % 2]
            assert admin.command('CLIENT', 'PAUSE', 1000000, 'WRITE') == b'OK'
            shown = [snapshot(r) for r in readers * 2]
            assert all(s == shown[0] for s in shown), shown
            assert admin.command('CLIENT', 'UNPAUSE') == b'OK'
    finally:
        with server.client() as c:
            c.command('CLIENT', 'UNPAUSE')
        running.end()


def test_exec_is_held_if_something_in_it_writes_whenever_it_was_queued(server):
    admin, writer, reader = (server.client() for _ in range(3))
    assert writer.pipeline([('MULTI',), *(('SET', k, 'new') for k in KEYS)]) == [b'OK'] + [b'QUEUED'] * len(KEYS)
    assert reader.pipeline([('MULTI',), ('MGET', *KEYS)]) == [b'OK', b'QUEUED']
    assert admin.command('CLIENT', 'PAUSE', 1000000, 'WRITE') == b'OK'
    writer.send(encode('EXEC'))
    assert reader.command('EXEC') == [[NIL] * len(KEYS)]
    assert reader.command('MGET', *KEYS) == [NIL] * len(KEYS)
    assert admin.command('CLIENT', 'UNPAUSE') == b'OK'
    assert writer.read() == [b'OK'] * len(KEYS)


def test_a_pause_of_all_holds_everybody_until_its_end(server):
    admin, clients = server.client(), [server.client() for _ in range(8)]
    start = time.monotonic()
    assert admin.command('CLIENT', 'PAUSE', 500) == b'OK'
    asked = [('GET', 'k'), ('PING',), ('MGET', *KEYS), ('SET', 'k', 'v'), ('DBSIZE',), ('CLIENT', 'UNPAUSE'), ('MULTI',), ('FLUSHALL',)]
    for c, words in zip(clients, asked):
        c.send(encode(*words))
    for c in clients:
        c.read()
        assert time.monotonic() - start > .4


def test_what_waits_for_the_end_of_a_pause_is_not_slow(server):
    """Statistics and the slow log tell how long commands ran, not how long they were held."""
    admin, clients = server.client(), [server.client() for _ in range(6)]
    admin.command('CONFIG', 'SET', 'slowlog-log-slower-than', 0)
    admin.command('CONFIG', 'RESETSTAT')
    assert admin.command('CLIENT', 'PAUSE', 1000000, 'WRITE') == b'OK'
    start = time.monotonic()
    for n, c in enumerate(clients):
        c.send(encode('SET', 'k:%d' % n, 'v') if n % 3 == 0 else encode('MSET', *(x for k in KEYS for x in (k, 'v'))) if n % 3 == 1 else
               encode('MULTI') + encode('SET', 'x', 1) + encode('SET', 'y', 1) + encode('EXEC'))
    time.sleep(2)
    held_us = (time.monotonic() - start) * 1e6
    assert admin.command('CLIENT', 'UNPAUSE') == b'OK'
    for n, c in enumerate(clients):
        assert [c.read() for _ in range(1 if n % 3 < 2 else 4)][0] == b'OK'
    log = admin.command('SLOWLOG', 'GET', -1)
    assert sum(e[3][0] in (b'SET', b'MSET') for e in log) == 8
    assert not [e for e in log if e[2] > held_us / 2]
    usec = {name: int(dict(f.split('=') for f in v.split(','))['usec']) for name, v in server.info('commandstats').items()}
    assert usec['cmdstat_set'] < held_us / 2 and usec['cmdstat_mset'] < held_us / 2, usec


def test_a_key_past_its_time_stays_one_key_however_a_pause_ends(server):
    """The threads' pauses don't end at the same moment: a write of one that goes on meets shards that still hide."""
    admin, writers = server.client(), [server.client() for _ in range(4)]
    for _ in range(20 // (4 if LIGHT else 1)):
        names = ['e:%d' % n for n in range(100)]
        admin.pipeline([('SET', n, 'v', 'PX', 20) for n in names] + [('CLIENT', 'PAUSE', 1000000, 'WRITE')])
        while any(admin.command('MGET', *names)):
            pass
        for w in writers:
            w.send(b''.join(encode('SET', n, 'w') for n in names))
        assert admin.command('CLIENT', 'UNPAUSE') == b'OK'
        for w in writers:
            assert [w.read() for _ in names] == [b'OK'] * 100
        assert admin.command('DBSIZE') == 100 and len(set(admin.command('KEYS', '*'))) == 100 == len(admin.command('KEYS', '*'))
        assert admin.command('DEL', *names) == 100 and admin.command('DBSIZE') == 0
