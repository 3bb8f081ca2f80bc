"""MULTI, EXEC, DISCARD, WATCH, UNWATCH: the same as redis-server, whatever shards the keys lie on."""

import shlex
import threading
import time

import pytest

from resp import Closed, Error, NIL_ARRAY, encode, same
from server import PATIENCE


class Play:
    """Runs lines "[connection] COMMAND ..." against a server."""

    def __init__(self, server, protocol=2):
        self.server, self.protocol, self.clients = server, protocol, {}

    def __getitem__(self, number):
        if number not in self.clients:
            self.clients[number] = self.server.client()
            if self.protocol == 3:
                self.clients[number].command('HELLO', 3)
        return self.clients[number]

    def run(self, text):
        replies = []
        for line in text.strip().splitlines():
            words = shlex.split(line)
            number = int(words.pop(0)) if words[0].isdigit() else 1
            if words[0] == 'sleep':
                time.sleep(float(words[1]))
                continue
            try:
                replies.append((line.strip(), self[number].command(*words)))
            except Closed:
                replies.append((line.strip(), 'closed'))
        return replies

    def close(self):
        for c in self.clients.values():
            c.close()


def both(server, reference, text, protocol=2):
    """The same lines to both, and the same replies."""
    plays = [Play(reference, protocol), Play(server, protocol)]
    for play in plays:
        play[99].command('FLUSHALL')
    expected, got = [play.run(text) for play in plays]
    for play in plays:
        play.close()
    for (line, a), (_, b) in zip(expected, got):
        assert same(a, b), '%s: expected %r, got %r, in\n%s' % (line, a, b, text)


@pytest.fixture
def debug_server(start):
    return start(options=[('enable-debug-command', 'yes')])


QUEUE = {
    'without MULTI': 'EXEC\nDISCARD\nUNWATCH\nEXEC x\nMULTI x\nWATCH',
    'empty': 'MULTI\nEXEC\nEXEC',
    'simple': 'MULTI\nSET a 1\nINCR a\nGET a\nEXEC\nGET a',
    'nested': 'MULTI\nMULTI\nSET a 1\nEXEC\nGET a',
    'WATCH inside': 'MULTI\nWATCH a\nSET a b\nEXEC',
    'unknown command': 'MULTI\nSET a 1\nNOSUCH x y\nSET b 1\nEXEC\nEXISTS a b\nEXEC',
    'unknown subcommand': 'MULTI\nCLIENT FOO\nEXEC\nMULTI\nCLIENT\nEXEC\nMULTI\nOBJECT ENCODING\nEXEC',
    'arity': 'MULTI\nGET\nEXEC\nMULTI\nSET a\nSET a 1\nDISCARD\nGET a',
    'arity of EXEC': 'MULTI\nSET a 1\nEXEC x\nGET a\nEXEC',
    'arity of DISCARD': 'MULTI\nDISCARD x\nEXEC',
    'arity of MULTI': 'MULTI\nMULTI x\nEXEC',
    'not inside': 'MULTI\nSHUTDOWN\nEXEC',
    'errors of a run': 'SET s x\nMULTI\nINCR a\nINCR s\nMSET a\nMSET a 1 b\nSETEX a 0 x\nINCR a\nEXEC\nGET a',
    'odd pairs': 'MULTI\nMSET a 1 b\nMSETNX a 1 b\nSET c 1\nEXEC\nEXISTS a b c',
    'discard': 'SET a 1\nMULTI\nINCR a\nDISCARD\nGET a\nDISCARD',
    'reset': 'MULTI\nSET a 1\nRESET\nEXEC\nGET a',
    'quit': 'MULTI\nSET a 1\nQUIT\n2 GET a',
    'select': 'SET k zero\nMULTI\nGET k\nSELECT 3\nSET k three\nGET k\nSELECT 99\nSELECT x\nGET k\nSELECT 0\nGET k\nSELECT 3\nEXEC\nGET k\n2 GET k',
    'connection only': 'MULTI\nPING\nECHO x\nCLIENT SETNAME me\nCLIENT GETNAME\nSELECT 2\nEXEC\nCLIENT GETNAME\nDBSIZE',
    'several keys': 'MULTI\nMSET a 1 b 2 c 3 d 4\nMGET a b c d nokey a\nEXISTS a b a nokey\nDEL a nokey b\nTOUCH c d\nUNLINK c x\nEXEC\nKEYS *',
    'keys that belong together': 'MULTI\nSET a 1\nRENAME a b\nCOPY b c\nRENAMENX b c\nMSETNX x 1 y 2\nMSETNX x 2 z 3\nRENAME nokey a\nLCS b c\nEXEC\nMGET a b c x y z',
    'all shards': 'MULTI\nDBSIZE\nSET a 1\nDBSIZE\nKEYS a*\nRANDOMKEY\nSCAN 0 COUNT 100\nSWAPDB 0 1\nGET a\nSELECT 1\nGET a\nFLUSHDB\nDBSIZE\nFLUSHALL\nEXEC\nDBSIZE',
    'cursor errors': 'MULTI\nSCAN x\nSCAN 0 COUNT 0\nSET a 1\nEXEC',
    'configuration': 'MULTI\nCONFIG SET hz 12\nCONFIG GET hz\nCONFIG SET hz x y\nCONFIG SET hz 10\nCONFIG GET hz\nEXEC',
    'monitor': 'MULTI\nMONITOR\nPING\nEXEC\nMULTI\nMONITOR\nDBSIZE\nEXEC\nPING',
    'help': 'MULTI\nOBJECT HELP\nSET a 1\nEXEC',
    'unwatch inside': 'WATCH a\nMULTI\nUNWATCH\nSET a 1\nEXEC',
    'expired while it waits': 'MULTI\nSET a b PX 1\nEXEC\nsleep 0.02\nMULTI\nGET a\nEXISTS a\nSET a c\nTTL a\nEXEC',
    'own name of a subcommand': 'MULTI\nOBJECT ENCODING a\nMEMORY USAGE nokey\nCOMMAND GETKEYS GET a\nEXEC',
}


@pytest.mark.parametrize('what', QUEUE)
@pytest.mark.parametrize('protocol', [2, 3])
def test_transactions_are_those_of_redis(server, reference, what, protocol):
    both(server, reference, QUEUE[what], protocol)


WATCHES = {
    'untouched': 'SET a 1\nWATCH a\n2 GET a\nMULTI\nINCR a\nEXEC\nGET a',
    'touched': 'SET a 1\nWATCH a\n2 SET a 5\nMULTI\nINCR a\nEXEC\nGET a',
    'touched to the same value': 'SET a 1\nWATCH a\n2 SET a 1\nMULTI\nINCR a\nEXEC',
    'touched inside MULTI': 'SET a 1\nWATCH a\nMULTI\nINCR a\n2 INCR a\nINCR a\nEXEC\nGET a',
    'touched by oneself': 'WATCH a\nSET a 1\nMULTI\nPING\nEXEC',
    'made': 'WATCH a\n2 SET a 1\nMULTI\nPING\nEXEC',
    'made and gone': 'WATCH a\n2 SET a 1\n2 DEL a\nMULTI\nPING\nEXEC',
    'deleting nothing': 'WATCH a\n2 DEL a\nMULTI\nPING\nEXEC',
    'no change': 'SET a 1\nWATCH a b\n2 PERSIST a\n2 SETNX a 2\n2 GETEX a\n2 EXPIRE b 10\n2 COPY b a\n2 RENAMENX b a\nMULTI\nPING\nEXEC',
    'unwatch': 'WATCH a\n2 SET a 1\nUNWATCH\nMULTI\nPING\nEXEC',
    'discard': 'WATCH a\n2 SET a 1\nMULTI\nDISCARD\nMULTI\nPING\nEXEC',
    'reset': 'WATCH a\n2 SET a 1\nRESET\nMULTI\nPING\nEXEC',
    'once': 'WATCH a\nMULTI\nEXEC\n2 SET a 1\nMULTI\nPING\nEXEC',
    'after an abort': 'WATCH a\n2 SET a 1\nMULTI\nEXEC\n2 SET a 2\nMULTI\nPING\nEXEC',
    'broken and touched': 'WATCH a\nMULTI\nNOSUCH\n2 SET a 1\nEXEC\nMULTI\nPING\nEXEC',
    'twice': 'WATCH a a\nWATCH a b\n2 SET b 1\nMULTI\nPING\nEXEC\nMULTI\nPING\nEXEC',
    'several': 'WATCH a b c d e f g\n2 SET g 1\nMULTI\nSET a 1\nEXEC\nEXISTS a\nWATCH a b c d e f g\n2 GET g\nMULTI\nSET a 1\nEXEC',
    'databases': 'WATCH a\n2 SELECT 1\n2 SET a 1\nMULTI\nPING\nEXEC\nSELECT 1\nWATCH a\nSELECT 0\n2 SET a 2\nMULTI\nPING\nEXEC',
    'move': 'SET a 1\nWATCH a\n2 MOVE a 1\nMULTI\nPING\nEXEC\nSELECT 1\nWATCH b\n2 SET b 1\n2 MOVE b 1\nMULTI\nPING\nEXEC',
    'rename from': 'SET a 1\nWATCH a\n2 RENAME a b\nMULTI\nPING\nEXEC',
    'rename to': 'SET a 1\nWATCH b\n2 RENAME a b\nMULTI\nPING\nEXEC',
    'copy from': 'SET a 1\nWATCH a\n2 COPY a b\nMULTI\nPING\nEXEC',
    'copy to': 'SET a 1\nWATCH b\n2 COPY a b\nMULTI\nPING\nEXEC\nWATCH b\n2 COPY a b\nMULTI\nPING\nEXEC\nWATCH b\n2 COPY a b REPLACE\nMULTI\nPING\nEXEC',
    'expire': 'SET a 1\nWATCH a\n2 EXPIRE a 100\nMULTI\nPING\nEXEC\nWATCH a\n2 PERSIST a\nMULTI\nPING\nEXEC',
    'expire now': 'SET a 1\nWATCH a\n2 EXPIRE a -1\nMULTI\nPING\nEXEC',
    'append': 'SET a 1\nWATCH a\n2 APPEND a x\nMULTI\nPING\nEXEC\nWATCH a\n2 SETRANGE a 0 y\nMULTI\nPING\nEXEC\nWATCH a\n2 SETRANGE a 0 ""\nMULTI\nPING\nEXEC',
    'flushall': 'SET a 1\nWATCH a\n2 FLUSHALL\nMULTI\nPING\nEXEC',
    'flushall of nothing': 'WATCH a\n2 FLUSHALL\nMULTI\nPING\nEXEC\nSET b 1\nWATCH a\n2 FLUSHALL\nMULTI\nPING\nEXEC',
    'flushdb': 'SET a 1\nWATCH a\n2 FLUSHDB\nMULTI\nPING\nEXEC\nSET a 1\nWATCH a\n2 SELECT 1\n2 FLUSHDB\nMULTI\nPING\nEXEC',
    'swapdb of nothing': 'WATCH a\n2 SWAPDB 0 1\nMULTI\nPING\nEXEC',
    'swapdb of one': 'SET a 1\nWATCH a\n2 SWAPDB 0 1\nMULTI\nPING\nEXEC\nWATCH a\n2 SWAPDB 0 1\nMULTI\nPING\nEXEC',
    'swapdb of both': 'SET a 1\n2 SELECT 1\n2 SET a 2\nWATCH a\n2 SWAPDB 0 1\nMULTI\nGET a\nEXEC',
    'swapdb of itself': 'SET a 1\nWATCH a\n2 SWAPDB 0 0\nMULTI\nGET a\nEXEC',
    'swapdb of others': 'SET a 1\nWATCH a\n2 SWAPDB 2 3\nMULTI\nGET a\nEXEC',
    'swapdb, then a change': 'SET a 1\n2 SELECT 1\nWATCH nokey\n2 SWAPDB 0 1\n2 SET nokey 1\nMULTI\nGET a\nEXEC\nWATCH a\n2 SELECT 0\n2 SET a 2\nMULTI\nGET a\nEXEC',
    'selecting while watched': 'WATCH a\n2 SET a 1\nMULTI\nSELECT 4\nEXEC\nSET b 1\nSELECT 0\nEXISTS b',
    'session while watched': 'WATCH a\nMULTI\nSELECT 4\nCLIENT SETNAME x\nSET b 1\nEXEC\nCLIENT GETNAME\nWATCH b\n2 SELECT 4\n2 SET b 2\nMULTI\nCLIENT SETNAME y\nSELECT 5\nGET c\nEXEC\nCLIENT GETNAME\nGET b',
    'a transaction touches': 'WATCH a\n2 MULTI\n2 SET a 1\n2 DBSIZE\n2 EXEC\nMULTI\nPING\nEXEC\nWATCH a\n2 MULTI\n2 SET a 1\n2 EXEC\nMULTI\nPING\nEXEC',
    'a transaction touches what it watches': 'WATCH a\nMULTI\nSET a 1\nSET a 2\nEXEC\nMULTI\nGET a\nEXEC',
    'two watch': 'WATCH a\n2 WATCH a\nMULTI\nINCR a\nEXEC\n2 MULTI\n2 INCR a\n2 EXEC\nGET a',
}


@pytest.mark.parametrize('what', WATCHES)
def test_watched_keys_are_those_of_redis(server, reference, what):
    both(server, reference, WATCHES[what])


OVER = {    # a key that is past its time, and that nobody has met yet
    'watched': 'WATCH a\nMULTI\nPING\nEXEC',
    'met by a reader': 'WATCH a\n2 GET a\nMULTI\nPING\nEXEC',
    'deleted': 'WATCH a\n2 DEL a\nMULTI\nPING\nEXEC',
    'flushed': 'WATCH a\n2 FLUSHALL\nMULTI\nPING\nEXEC',
    'written': 'WATCH a\n2 SET a c\nMULTI\nPING\nEXEC',
    'met, then written': 'WATCH a\n2 GET a\n2 SET a c\nMULTI\nPING\nEXEC',
    'swapped for nothing': 'WATCH a\n2 SWAPDB 0 1\nMULTI\nPING\nEXEC',
    'swapped for something': '2 SELECT 1\n2 SET a 1\nWATCH a\n2 SWAPDB 0 1\nMULTI\nPING\nEXEC',
    'swapped for the like': '2 SELECT 1\n2 SET a 1 PX 1\nsleep 0.02\nWATCH a\n2 SWAPDB 0 1\nMULTI\nPING\nEXEC',
    'nothing swapped for it': 'SELECT 1\nWATCH a\n2 SWAPDB 0 1\nMULTI\nPING\nEXEC',
}


@pytest.mark.parametrize('what', OVER)
def test_a_key_past_its_time_counts_as_not_there(debug_server, reference, what):
    both(debug_server, reference, '3 DEBUG SET-ACTIVE-EXPIRE 0\n3 SET a b PX 1\nsleep 0.02\n' + OVER[what])
    debug_server.client().command('DEBUG', 'SET-ACTIVE-EXPIRE', 1)
    reference.client().command('DEBUG', 'SET-ACTIVE-EXPIRE', 1)


@pytest.mark.parametrize('active', [0, 1])
def test_a_key_that_expires_while_watched_is_touched(debug_server, active):
    c = debug_server.client()
    assert c.command('DEBUG', 'SET-ACTIVE-EXPIRE', active) == b'OK'
    for other in (b'', b'b'):       # the watched key alone, and beside one that may be elsewhere
        while True:
            start = time.monotonic()
            c.command('SET', 'a', 1, 'PX', 200)
            c.command('WATCH', 'a', *other.split())
            if time.monotonic() - start < .15:
                break
            c.command('UNWATCH')
        time.sleep(.25)
        c.command('MULTI')
        c.command('SET', 'done', 1)
        assert c.command('EXEC') == NIL_ARRAY
        assert c.command('EXISTS', 'done') == 0


def test_muted_replies_inside_a_transaction(server, reference):
    for before in ('', 'WATCH k\n', 'WATCH k\nSET k 1\n'):
        for first in ('PING', 'GET k', 'DBSIZE'):
            for text in ('MULTI\nCLIENT REPLY OFF\n%s\nCLIENT REPLY ON\nGET j\nEXEC\nPING', 'MULTI\nCLIENT REPLY SKIP\n%s\nPING\nEXEC\nPING\nECHO x',
                         'MULTI\n%s\nCLIENT REPLY OFF\nEXEC\nPING\nCLIENT REPLY ON', 'CLIENT REPLY SKIP\nMULTI\n%s\nEXEC\nPING\nPING',
                         'CLIENT REPLY OFF\nMULTI\n%s\nCLIENT REPLY ON\nGET j\nEXEC\nPING'):
                streams = []
                for s in (reference, server):
                    s.client().command('FLUSHALL')
                    c = s.client()
                    c.send(b''.join(line.encode() + b'\r\n' for line in (before + text % first).splitlines()) + b'CLIENT REPLY ON\r\nECHO the-end\r\n')
                    data = b''
                    while not data.endswith(b'the-end\r\n'):
                        got = c.socket.recv(65536)
                        assert got, 'closed after %r' % data
                        data += got
                    streams.append(data)
                    c.close()
                assert streams[0] == streams[1], before + text % first


def test_hello_inside_a_transaction(server):
    c = server.client()
    c.command('MULTI')
    for words in (['GET', 'nokey'], ['HELLO', 3], ['GET', 'nokey'], ['DBSIZE'], ['GET', 'nokey']):
        c.command(*words)
    got = c.command('EXEC')
    assert [repr(x) for x in (got[0], got[2], got[3], got[4])] == ['nil', 'null', '0', 'null']
    assert repr(c.command('GET', 'nokey')) == 'null'


# What CLIENT LIST, INFO, MONITOR and SLOWLOG tell.

def fields(line):
    return dict(f.split(b'=', 1) for f in bytes(line).strip().split(b' '))


def seen(server, number):
    return fields(server.client().command('CLIENT', 'LIST', 'ID', number))


def test_client_list_shows_transactions(server, reference):
    for s in (reference, server):
        a, b = s.client(), s.client()
        number = a.command('CLIENT', 'ID')

        def look():
            f = seen(s, number)
            return f[b'flags'], f[b'multi'], f[b'multi-mem']
        shown = [look()]
        a.command('WATCH', 'k', 'l')
        shown.append(look())
        a.command('MULTI')
        shown.append(look())
        a.command('SET', 'a', 'x' * 100)
        a.command('GET', 'a')
        shown.append(look())
        b.command('SET', 'l', 1)
        shown.append(look())
        a.command('GET', 'a')           # is not kept any more
        shown.append(look())
        a.command('EXEC')
        shown.append(look())
        if s is reference:
            expected = shown
    assert shown == expected


def test_what_is_queued_counts_as_the_clients_memory(start):
    server = start(options=[('maxmemory-clients', '8mb')])
    watcher, c = server.client(), server.client()
    number = c.command('CLIENT', 'ID')
    c.command('MULTI')
    before = int(seen(server, number)[b'tot-mem'])
    for _ in range(10):
        assert c.command('SET', 'a', 'x' * 100000) == b'QUEUED'
    assert int(seen(server, number)[b'tot-mem']) - before >= 1000000
    assert c.command('DISCARD') == b'OK'
    assert int(seen(server, number)[b'tot-mem']) - before < 100000
    c.command('MULTI')
    with pytest.raises((Closed, ConnectionError)):
        for _ in range(200):
            c.command('SET', 'a', 'x' * 100000)
    assert watcher.command('PING') == b'PONG'


def test_watched_keys_count_as_the_clients_memory(server):
    c = server.client()
    number = c.command('CLIENT', 'ID')
    before = int(seen(server, number)[b'tot-mem'])
    c.command('WATCH', *['some-longer-name-%d' % i for i in range(1000)])
    assert int(seen(server, number)[b'tot-mem']) - before > 50000
    once = int(seen(server, number)[b'tot-mem'])
    c.command('WATCH', *['some-longer-name-%d' % i for i in range(1000)])
    assert int(seen(server, number)[b'tot-mem']) <= once + 100000       # the command's own bytes
    c.command('UNWATCH')
    assert int(seen(server, number)[b'tot-mem']) - before < 100000


def test_monitors_see_the_commands_and_then_exec(server, reference):
    for s in (reference, server):
        told = []
        m, c = s.client(), s.client()
        m.command('MONITOR')
        for words in (['MULTI'], ['SET', 'a', 'b'], ['SELECT', '2'], ['GET', 'a'], ['EXEC'], ['MULTI'], ['NOSUCH'], ['EXEC'], ['MULTI'], ['GET', 'a'], ['DISCARD'], ['WATCH', 'z'],
                      ['SET', 'z', '1'], ['MULTI'], ['GET', 'z'], ['EXEC'], ['EXEC'], ['MULTI'], ['DBSIZE'], ['SET', 'b', 'x' * 20000], ['EXEC'], ['SELECT', '0'], ['ECHO', 'last']):
            c.command(*words)
        while not told or not told[-1].endswith(b'"last"'):
            told.append(bytes(m.read()))
        lines = [line.partition(b'[')[2] for line in told]
        lines = [line[:2] + line.partition(b']')[2] for line in lines]
        if s is reference:
            expected = lines
        c.close()
        m.close()
    assert lines == expected


def test_statistics_and_the_slow_log_tell_of_the_commands_inside(server, reference):
    for s in (reference, server):
        c = s.client()
        c.command('FLUSHALL')
        c.command('CONFIG', 'SET', 'slowlog-log-slower-than', 0)
        for keys in (('a', 'a'), ('a', 'b'), ('a', 'c')):
            c.command('CONFIG', 'RESETSTAT')
            c.command('SLOWLOG', 'RESET')
            c.command('MULTI')
            c.command('SET', keys[0], 'x')
            c.command('INCR', keys[1])
            c.command('SET', keys[1], 'x')
            c.command('INCR', keys[0])
            c.command('GET')
            c.command('EXEC')
            c.command('MULTI')
            c.command('SET', keys[0], 'x')
            c.command('INCR', keys[0])
            c.command('MGET', *keys)
            c.command('EXEC')
        stats = {line.partition(b':')[0]: [f.partition(b'=')[2] for f in line.partition(b':')[2].split(b',') if not f.startswith(b'usec')]
                 for line in bytes(c.command('INFO', 'commandstats')).splitlines() if line.startswith(b'cmdstat') and b'info' not in line}
        slow = sorted(bytes(e[3][0]) for e in c.command('SLOWLOG', 'GET', 100))
        errors = [line for line in bytes(c.command('INFO', 'errorstats')).splitlines() if line.startswith(b'errorstat')]
        c.command('CONFIG', 'SET', 'slowlog-log-slower-than', 10000)
        if s is reference:
            expected = stats, slow, errors
    assert (stats, slow, errors) == expected


# Limits and pauses.

def test_memory_that_is_refused(start):
    server = start(options=[('maxmemory', '0')])
    c, other = server.client(), server.client()
    c.command('SET', 'k', 1)
    c.command('MULTI')
    c.command('SET', 'a', 1)
    other.command('CONFIG', 'SET', 'maxmemory', 1)
    assert c.command('GET', 'k').startswith(b'OOM ')
    assert c.command('WATCH', 'k').startswith(b'OOM ')
    other.command('CONFIG', 'SET', 'maxmemory', 0)
    assert c.command('EXEC') == b'EXECABORT Transaction discarded because of previous errors.'
    c.command('MULTI')
    c.command('SET', 'a', 1)
    other.command('CONFIG', 'SET', 'maxmemory', 1)
    assert c.command('EXEC') == b"EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'."
    assert c.command('EXEC') == b'ERR EXEC without MULTI'
    other.command('CONFIG', 'SET', 'maxmemory', 0)
    c.command('MULTI')
    c.command('GET', 'k')
    other.command('CONFIG', 'SET', 'maxmemory', 1)
    assert c.command('EXEC') == [b'1']
    other.command('CONFIG', 'SET', 'maxmemory', 0)
    assert c.command('EXISTS', 'a') == 0


def test_a_pause_of_writes_holds_a_transaction_that_writes(server, reference):
    for s in (reference, server):
        c, reader, writer = s.client(), s.client(), s.client()
        c.command('SET', 'k', 1)
        writer.command('MULTI')
        writer.command('SET', 'k', 2)
        c.command('CLIENT', 'PAUSE', 600000, 'WRITE')
        reader.command('MULTI')
        reader.command('GET', 'k')
        assert reader.command('EXEC') == [b'1']
        writer.send(b'EXEC\r\n')
        writer.socket.settimeout(.3)
        with pytest.raises(TimeoutError):
            writer.read()
        c.command('CLIENT', 'UNPAUSE')
        writer.socket.settimeout(PATIENCE)
        assert writer.read() == [b'OK']


def test_a_password_is_asked_before_anything_is_queued(start):
    server = start(options=[('requirepass', 'secret')])
    c = server.client()
    assert c.command('MULTI') == b'NOAUTH Authentication required.'
    assert c.command('EXEC') == b'EXECABORT Transaction discarded because of: NOAUTH Authentication required.'
    c.command('AUTH', 'secret')
    c.command('MULTI')
    c.command('AUTH', 'wrong')
    c.command('AUTH', 'secret')
    replies = c.command('EXEC')
    assert replies[0].startswith(b'WRONGPASS') and replies[1] == b'OK'


# Size, and what happens at once.

def test_long_arguments_and_long_replies(server):
    other = server.client()
    values = [(b'%d' % i) * (70000 if i % 2 else 20000) for i in range(8)]
    for keys in (['{t}%d' % i for i in range(8)], ['k%d' % i for i in range(8)]):
        c = server.client()
        c.command('MULTI')
        for key, value in zip(keys, values):
            assert c.command('SET', key, value) == b'QUEUED'
        for key in keys:
            c.command('GET', key)
        c.command('MGET', *keys)
        c.command('MSET', *(x for key in keys for x in (key, b'y' * 30000)))
        c.command('MGET', *keys)
        got = c.command('EXEC')
        assert got[8:16] == values and got[16] == values and got[18] == [b'y' * 30000] * 8
        assert other.command('MGET', *keys) == [b'y' * 30000] * 8
        c.command('MULTI')
        c.command('SET', keys[0], b'z' * 100000)
        c.command('DISCARD')
        c.command('MULTI')
        c.command('SET', keys[0], b'z' * 100000)
        c.close()


def test_long_strings_compared_inside_a_transaction(server):
    c = server.client()
    for keys in (['{t}a', '{t}b'], ['a', 'b'], ['a', 'c']):
        c.command('MSET', keys[0], b'ab' * 2000, keys[1], b'ba' * 2000)
        c.command('MULTI')
        c.command('LCS', *keys)
        c.command('APPEND', keys[0], 'x')
        c.command('LCS', *keys, 'LEN')
        c.command('GET', keys[1])
        c.command('GETRANGE', keys[1], 0, 3)
        assert c.command('EXEC') == [b'ba' * 1999 + b'b', 4001, 3999, b'ba' * 2000, b'baba']
        assert c.command('MGET', *keys) == [b'ab' * 2000 + b'x', b'ba' * 2000]


def test_thousands_of_commands_in_one_transaction(server):
    c = server.client()
    for key in (lambda i: 'k%d' % (i % 3000), lambda i: '{t}%d' % (i % 3000)):
        c.command('FLUSHALL')
        c.command('MULTI')
        c.send(b''.join(b'INCR %s\r\n' % key(i).encode() for i in range(9000)))
        assert all(c.read() == b'QUEUED' for _ in range(9000))
        assert c.command('EXEC') == [1] * 3000 + [2] * 3000 + [3] * 3000
        assert c.command('DBSIZE') == 3000


@pytest.mark.limit(300)
def test_very_many_watched_keys(server):
    """Registering, touching and forgetting 100,000 keys is no work that grows with their square."""
    c, other = server.client(), server.client()
    names = ['watched-%d' % i for i in range(100000)]
    for _ in range(3):
        assert c.command('WATCH', *names) == b'OK'
        assert c.command('WATCH', *names) == b'OK'
        c.command('MULTI')
        assert c.command('EXEC') == []
        c.command('WATCH', *names)
        other.command('SET', names[77777], 1)
        c.command('MULTI')
        assert c.command('EXEC') == NIL_ARRAY
        c.command('WATCH', *names)
        c.command('UNWATCH')
    c.command('WATCH', *names)
    c.close()
    assert other.command('MSET', *(x for name in names[:1000] for x in (name, 1))) == b'OK'


def test_connections_that_end_in_the_middle(server):
    """Whatever was queued or watched goes with them; what others watch stays."""
    keeper, other = server.client(), server.client()
    keeper.command('WATCH', 'kept', 'other')
    for i in range(60):
        c = server.client()
        lines = [b'WATCH kept a%d b%d c' % (i % 3, i), b'MULTI', b'SET a%d 1' % i, b'SET b x', b'GET c', b'DBSIZE', b'EXEC']
        c.send(b'\r\n'.join(lines[:i % 8]) + b'\r\n' + (b'WATCH x' if i % 5 == 4 else b''))
        if i % 2:
            c.command('PING') if i % 8 == 0 else c.read()
        c.close()
    keeper.command('MULTI')
    keeper.command('PING')
    assert keeper.command('EXEC') == [b'PONG']
    keeper.command('WATCH', 'kept')
    other.command('SET', 'kept', 1)
    keeper.command('MULTI')
    assert keeper.command('EXEC') == NIL_ARRAY


def in_threads(*functions):
    faults = []

    def guarded(f):
        try:
            f()
        except BaseException as fault:       # told by the test's own thread
            faults.append(fault)
    threads = [threading.Thread(target=guarded, args=(f,)) for f in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if faults:
        raise faults[0]


@pytest.mark.parametrize('keys', [['x', 'y', 'z', 'w'], ['{t}x', '{t}y', '{t}z', '{t}w']], ids=['anywhere', 'together'])
def test_nobody_sees_half_a_transaction(server, keys):
    """Money moves between accounts; whoever looks at all of them in a transaction sees the same sum."""
    setup = server.client()
    setup.command('MSET', *(x for k in keys for x in (k, 100)))

    def move(a, b):
        c = server.client()
        for i in range(100):
            c.send(b'MULTI\r\nDECRBY %s %d\r\nINCRBY %s %d\r\nEXEC\r\n' % (a.encode(), i % 7, b.encode(), i % 7))
            assert [c.read() for _ in range(3)] == [b'OK', b'QUEUED', b'QUEUED'] and len(c.read()) == 2

    def look():
        c = server.client()
        for i in range(100):
            c.send(b'MULTI\r\nMGET %s\r\n' % ' '.join(keys).encode() + b''.join(b'GET %s\r\n' % k.encode() for k in keys) + b'EXEC\r\n')
            for _ in range(6):
                assert not isinstance(c.read(), Error)
            got = c.read()
            assert got[0] == got[1:] and sum(map(int, got[0])) == 400, got
    in_threads(lambda: move(keys[0], keys[1]), lambda: move(keys[1], keys[2]), lambda: move(keys[3], keys[0]), look, look)


@pytest.mark.parametrize('others', [[], ['b', 'c', 'd']], ids=['one key', 'several'])
def test_a_counter_kept_with_watch_loses_nothing(server, others):
    """Optimistic locking: read, think, write if nobody else did."""
    done = []

    def count():
        c = server.client()
        for _ in range(40):
            while True:
                c.command('WATCH', 'n', *others)
                n = int(c.command('GET', 'n') or 0)
                c.command('MULTI')
                c.command('SET', 'n', n + 1)
                for k in others:
                    c.command('SET', k, n + 1)
                if c.command('EXEC') != NIL_ARRAY:
                    done.append(1)
                    break
    in_threads(count, count, count)
    assert server.client().command('MGET', 'n', *others) == [b'120'] * (1 + len(others)) and len(done) == 120


def pipelined(c, *transactions):
    """Sends transactions in one piece; the replies of each, but for OK and QUEUED."""
    c.send(b''.join(encode(*words) for commands in transactions for words in (['MULTI'], *commands, ['EXEC'])))
    got = []
    for commands in transactions:
        assert [c.read() for _ in range(len(commands) + 1)] == [b'OK'] + [b'QUEUED'] * len(commands)
        got.append(c.read())
    return got


def test_pipelined_transactions_of_one_shard_take_no_turn_each(server):
    c = server.client()
    before = server.turns(c)
    for _ in range(20):
        got = pipelined(c, *[[['SET', 'k', i], ['GET', 'k'], ['PING'], ['APPEND', 'k', 'x']] for i in range(100)])
        assert got == [[b'OK', b'%d' % i, b'PONG', len(str(i)) + 1] for i in range(100)]
    assert server.turns(c) - before < 1000


def test_what_stands_around_transactions_in_a_pipeline_keeps_its_order(server):
    """Plain commands on any shard, replies that need none, the state of the connection, and transactions that do not go through."""
    c = server.client()
    c.send(b''.join(encode(*words) for words in (
        ['SET', 'a', 1], ['SET', 'b', 2], ['MULTI'], ['INCR', 'a'], ['SELECT', 3], ['SET', 'a', 'three'], ['ECHO', 'x'], ['EXEC'], ['GET', 'a'], ['SELECT', 0], ['GET', 'a'],
        ['MULTI'], ['MSET', 'a', 1, 'b'], ['GET', 'a'], ['MONITOR'], ['EXEC'], ['PING'], ['MULTI'], ['NOSUCH'], ['EXEC'], ['MULTI'], ['EXEC'], ['INCR', 'b'], ['MULTI'], ['INCR', 'b'], ['DISCARD'],
        ['CLIENT', 'REPLY', 'SKIP'], ['MULTI'], ['INCR', 'b'], ['EXEC'], ['GET', 'b'])))
    wanted = [b'OK', b'OK', b'OK', *[b'QUEUED'] * 4, [2, b'OK', b'OK', b'x'], b'three', b'OK', b'2', b'OK', *[b'QUEUED'] * 3, None, b'PONG', b'OK', None, None, b'OK', [], 3, b'OK', b'QUEUED', b'OK',
              b'QUEUED', [4], b'4']
    for want in wanted:
        got = c.read()
        if want is not None:
            assert got == want
        elif isinstance(got, list):
            assert [isinstance(one, Error) for one in got] == [True, False, True] and got[1] == b'2'
        else:
            assert isinstance(got, Error)


def test_a_watched_key_stops_its_transaction_and_not_its_neighbours(server):
    """The look at what is watched and the commands are one: what a pipeline wrote before counts, what comes behind runs."""
    c = server.client()
    for keys in (['{t}w', '{t}a', '{t}b'], ['w', 'a', 'b']):
        w, a, b = keys
        c.command('FLUSHALL')
        c.command('WATCH', w)
        assert pipelined(c, [['SET', a, 1], ['SET', b, 'x' * 30000]], [['SET', a, 2], ['INCR', a]]) == [[b'OK', b'OK'], [b'OK', 3]]
        c.command('WATCH', w)
        c.send(b''.join(encode(*words) for words in (['SET', w, 1], ['MULTI'], ['SET', a, 9], ['SET', b, 'y' * 30000], ['EXEC'], ['MULTI'], ['INCR', a], ['STRLEN', b], ['EXEC'], ['GET', w])))
        assert [c.read() for _ in range(10)] == [b'OK', b'OK', b'QUEUED', b'QUEUED', NIL_ARRAY, b'OK', b'QUEUED', b'QUEUED', [4, 30000], b'1']
        assert c.command('GET', b) == b'x' * 30000


@pytest.mark.parametrize('n', [254, 255, 256, 300, 3000])
def test_a_transaction_of_any_size_is_one(server, n):
    """What fits into a batch of hops, just so, and what does not."""
    c = server.client()
    for key in ('{t}%d', 'k%d'):
        c.command('FLUSHALL')
        got = pipelined(c, [['INCR', key % (i % 7)] for i in range(n)], [['ECHO', i] for i in range(n)])
        assert got == [[i // 7 + 1 for i in range(n)], [b'%d' % i for i in range(n)]]


def test_what_is_sliced_alone_is_not_inside_a_transaction(server):
    c, other = server.client(), server.client()
    for n in range(0, 20000, 1000):
        c.command('HSET', 'h', *(x for i in range(n, n + 1000) for x in (i, 'v')))
    other.send(encode('HGETALL', 'h') * 5)
    got = pipelined(c, [['HSET', 'h', 'first', 1], ['HGETALL', 'h'], ['HDEL', 'h', 'first'], ['HLEN', 'h'], ['HKEYS', 'h'], ['EXISTS', 'none']], [['HLEN', 'h']])
    assert got[0][0] == 1 and len(got[0][1]) == 40002 and got[0][2:4] == [1, 20000] and len(got[0][4]) == 20000 and got[0][5] == 0 and got[1] == [20000]
    for _ in range(5):
        assert len(other.read()) in (40000, 40002)


def test_transactions_of_one_shard_wait_as_a_whole(server):
    """Beside transactions over several shards, whose intents they meet: with pipelines, values that are referred to, and commands that wait for keys."""
    large = ['x' * 20000, 'y' * 20000]

    def over_shards():
        c = server.client()
        for i in range(150):
            c.command('MSET', *(x for j in range(6) for x in ('k%d' % j, large[i % 2])))

    def on_one(key, other):
        c = server.client()
        for i in range(60):
            got = pipelined(c, *[[['GET', key], ['ECHO', i], ['SET', key, 'mine'], ['GET', other], ['GET', key], ['PING']]] * 3)
            for one in got:
                assert one[0] in (*map(str.encode, large), b'mine', None) and one[1:3] == [b'%d' % i, b'OK'] and one[4:] == [b'mine', b'PONG']

    def watching(key):
        c = server.client()
        for i in range(60):
            c.command('WATCH', key)
            got = pipelined(c, [['SET', key, 'mine'], ['GET', key]], [['STRLEN', key]])
            assert got[0] in ([b'OK', b'mine'], NIL_ARRAY) and got[1][0] in (4, 20000)
    server.client().command('MSET', *(x for j in range(6) for x in ('k%d' % j, large[0])))
    in_threads(over_shards, over_shards, lambda: on_one('k0', '{k0}z'), lambda: on_one('k1', '{k1}z'), lambda: watching('k2'), lambda: watching('k3'))


def test_transactions_beside_everything_else(server):
    """Transactions of every kind, commands over all shards and watches, at the same time, and nothing hangs."""
    def transactions(kind):
        c = server.client()
        for i in range(60):
            c.command('WATCH', 'w%d' % (i % 5))
            c.command('MULTI')
            for words in kind:
                c.command(*words)
            got = c.command('EXEC')
            assert got == NIL_ARRAY or len(got) == len(kind)

    def other():
        c = server.client()
        for i in range(60):
            c.command('MSET', *(x for j in range(20) for x in ('k%d' % j, i)))
            c.command('SWAPDB', 0, 1)
            c.command('SET', 'w%d' % (i % 5), i)
            c.command('DBSIZE')
            c.command('CLIENT', 'LIST')
            c.command('RENAME', 'k1', 'k2')
            c.command('FLUSHDB')
    in_threads(other, lambda: transactions([['GET', 'k1'], ['SET', 'k2', 'x']]), lambda: transactions([['DBSIZE'], ['INFO'], ['CLIENT', 'LIST'], ['CONFIG', 'SET', 'hz', '10']]),
               lambda: transactions([['KEYS', '*'], ['CLIENT', 'SETNAME', 'x'], ['MGET', 'k1', 'k2', 'k3'], ['CLIENT', 'KILL', 'ID', '999999']]), lambda: transactions([['PING']]))


def test_writing_the_configuration_inside_a_transaction(start, tmp_path):
    server = start(config='port {port}\ndir {dir}\n')
    c, other = server.client(), server.client()
    c.command('MULTI')
    c.command('SET', 'a', 1)
    c.command('CONFIG', 'SET', 'hz', 13)
    c.command('CONFIG', 'REWRITE')
    c.command('GET', 'a')
    assert c.command('EXEC') == [b'OK', b'OK', b'OK', b'1']
    assert other.command('GET', 'a') == b'1'


def test_the_server_may_end_in_the_middle_of_transactions(start):
    """Over one shard and several, some of them watched."""
    for _ in range(5):
        server = start()
        clients = [server.client() for _ in range(4)]
        for c in clients:
            c.send(encode('WATCH', 'a', 'b') + (encode('MULTI') + encode('SET', 'a', '1') + encode('SET', 'b', '2') + encode('SET', 'c', '3') + encode('EXEC')) * 5000)
        for c in clients:
            for _ in range(5):
                c.read()
        server.stop()
