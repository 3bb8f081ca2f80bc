"""MIGRATE: to redis-server and back, and between two Darters; options and errors; targets that fail in every way; who waits meanwhile, leaves, is killed."""
import random
import signal
import socket
import threading

import pytest
from clock_steps import clock_steps
from persistence import wait_saved
from resp import Error, encode
from server import free_port, wait_for
from test_dump import content, make

pytestmark = pytest.mark.every_pair

LONG_MS = 100000


class Target:
    """A server that does what a test says: for each connection, script(socket) on a thread."""

    def __init__(self, script):
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        self.script = script
        self.connections = []
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection):
        try:
            self.script(connection)
        except (OSError, ValueError):
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        for c in self.connections:
            try:
                c.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            c.close()


def arguments(connection):
    """The commands that come, as lists of arguments; ends with the connection."""
    stream = connection.makefile('rb')
    while True:
        head = stream.readline()
        if not head:
            return
        args = []
        for _ in range(int(head[1:])):
            size = int(stream.readline()[1:])
            args.append(stream.read(size))
            stream.read(2)
        yield args


def answering(*answers):
    """Answers the first commands so, and ends; None: is silent from there on, until the other side ends."""
    def script(connection):
        left = list(answers)
        for _ in arguments(connection):
            if left[0] is None:
                while connection.recv(65536):
                    pass
                return
            connection.sendall(left.pop(0))
            if not left:
                connection.shutdown(socket.SHUT_RDWR)
                return
    return script


def migrate(port, *keys, timeout=LONG_MS, options=(), db=0):
    return ['MIGRATE', '127.0.0.1', port, '', db, timeout, *options, 'KEYS', *keys]


@pytest.mark.parametrize('seed', range(2))
def test_all_types_go_to_redis_and_back(server, reference, seed):
    ours, theirs = server.client(), reference.client()
    rng = random.Random(seed)
    theirs.command('FLUSHALL')
    shows = []
    for i in range(40):
        key = b'key:%d' % i
        shows.append(make(ours, rng, key))
        if rng.randrange(3) == 0:
            ours.command('PEXPIRE', key, LONG_MS + i)
    before = [content(ours, show) for show in shows]
    times = [ours.command('PTTL', show[1]) for show in shows]
    keys = [show[1] for show in shows]
    for a, b, port in ((ours, theirs, reference.port), (theirs, ours, server.port)):
        assert a.command(*migrate(port, *keys[:20])) == b'OK'
        for key in keys[20:]:
            assert a.command('MIGRATE', '127.0.0.1', port, key, 0, LONG_MS) == b'OK'
        assert a.command('DBSIZE') == 0
        assert b.command('DBSIZE') == len(keys)
        assert [content(b, show) for show in shows] == before
        for show, was in zip(shows, times):
            now = b.command('PTTL', show[1])
            assert now == was if was < 0 else 0 < now <= was
    assert ours.command(*migrate(reference.port, *keys)) == b'OK'
    theirs.command('FLUSHALL')


@pytest.mark.each_back_end
def test_between_two_servers_many_keys_and_long_values(server, start):
    other = start()
    a, b = server.client(), other.client()
    keys = [b'key:%d' % i for i in range(3000)]
    for at in range(0, len(keys), 500):
        a.command('MSET', *(x for key in keys[at:at + 500] for x in (key, b'v' + key)))
    a.command('CONFIG', 'SET', 'rdbcompression', 'no')
    long = random.Random(1).randbytes(12 << 20)
    a.command('SET', 'long', long)
    a.command('SADD', 'set', *('member:%d' % i for i in range(30000)))
    members = sorted(bytes(x) for x in a.command('SMEMBERS', 'set'))
    assert a.command(*migrate(other.port, 'nobody', *keys, 'long', 'set', 'long')) == b'OK' or a.command('EXISTS', 'long') == 0
    assert a.command('DBSIZE') == 0
    assert b.command('DBSIZE') == len(keys) + 2
    assert bytes(b.command('GET', 'long')) == long
    assert sorted(bytes(x) for x in b.command('SMEMBERS', 'set')) == members
    assert b.command('MGET', *keys) == [b'v' + key for key in keys]


def test_options_and_errors_are_those_of_redis(server, reference):
    closed = free_port()
    told = []

    def collect(connection):
        for args in arguments(connection):
            told.append([args[0], *args[1:3], *args[4:]])
            connection.sendall(b'-BUSYKEY x\r\n' if args[0] == b'RESTORE' and args[1] == b'j' else b'+OK\r\n')

    with Target(collect) as target:
        def calls(port):
            return [
                ('MIGRATE',), ('MIGRATE', 'h', 1, 'k', 0), ('MIGRATE', 'h', 1, 'k', 0, 10, 'FOO'), ('MIGRATE', 'h', 1, 'k', 0, 10, 'AUTH'), ('MIGRATE', 'h', 1, 'k', 0, 10, 'AUTH2', 'u'),
                ('MIGRATE', 'h', 1, 'k', 0, 10, 'KEYS', 'k'), ('MIGRATE', 'h', 1, '', 'x', 10), ('MIGRATE', 'h', 1, 'k', 0, 'x'), ('MIGRATE', 'h', 1, 'k', '9' * 30, 10), ('MIGRATE', 'h', 1, 'none', 0, 10),
                ('MIGRATE', 'h', 1, '', 0, 10, 'KEYS'), ('MIGRATE', 'h', 1, '', 0, 10), ('MIGRATE', '127.0.0.1', closed, 'k', 0, LONG_MS), ('MIGRATE', '127.0.0.1', 'none', 'k', 0, LONG_MS), ('MIGRATE', '', 1, 'k', 0, -1),
                ('MIGRATE', '127.0.0.1', port, '', 0, LONG_MS, 'replace', 'auth', 'a', 'AUTH2', 'user', 'pass word', 'keys', 'k', 'j'), ('EXISTS', 'k', 'j'),
                ('SET', 'k', 'v'), ('MIGRATE', 'localhost', port, 'k', 7, LONG_MS, 'COPY', 'COPY'), ('EXISTS', 'k'),
                ('COMMAND', 'GETKEYS', 'MIGRATE', 'h', 1, 'k', 0, 10, 'COPY'), ('COMMAND', 'GETKEYS', 'MIGRATE', 'h', 1, '', 0, 10, 'AUTH', 'KEYS', 'KEYS', 'k', 'j'), ('COMMAND', 'GETKEYS', 'MIGRATE', 'h', 1, 'k', 0, 10, 'KEYS', 'j'),
                ('COMMAND', 'GETKEYSANDFLAGS', 'MIGRATE', 'h', 1, '', 0, 10, 'KEYS', 'k', 'j'), ('COMMAND', 'GETKEYS', 'MIGRATE', 'h', 1, '', 0, 10, 'KEYS')]
        seen = []
        for which in (server, reference):
            c = which.client()
            c.command('FLUSHALL')
            c.command('SET', 'k', 'v')
            c.command('SET', 'j', 'v', 'PX', LONG_MS)
            told.clear()
            replies = [c.command(*map(str, call)) for call in calls(target.port)]
            assert len(told) == 6, (which.kind, told, replies)
            times = [x for x in told if x[0] == b'RESTORE']
            assert len(times) == 3 and all(x[2] == b'0' or 0 < int(x[2]) <= LONG_MS for x in times)
            seen.append((replies, sorted([x[0], x[1], *x[3:]] for x in told)))
            c.command('FLUSHALL')
        ours, theirs = seen
        for call, a, b in zip(calls('PORT'), ours[0], theirs[0]):
            assert a == b, call
        assert ours[1] == theirs[1]


def test_a_password_of_the_target(server, start):
    other = start(options=[('requirepass', 'secret')])
    c = server.client()
    c.command('SET', 'k', 'v')
    refused = c.command('MIGRATE', '127.0.0.1', other.port, 'k', 0, LONG_MS)
    assert refused == Error(b'ERR Target instance replied with error: NOAUTH Authentication required.')
    assert b'WRONGPASS' in c.command('MIGRATE', '127.0.0.1', other.port, 'k', 0, LONG_MS, 'AUTH', 'wrong')
    assert c.command('EXISTS', 'k') == 1
    assert c.command('MIGRATE', '127.0.0.1', other.port, 'k', 0, LONG_MS, 'AUTH2', 'default', 'secret', 'COPY') == b'OK'
    assert c.command('MIGRATE', '127.0.0.1', other.port, 'k', 3, LONG_MS, 'AUTH', 'secret') == b'OK'
    assert c.command('EXISTS', 'k') == 0
    d = other.client()
    d.command('AUTH', 'secret')
    assert d.command('GET', 'k') == b'v'


def test_passwords_are_shown_to_nobody(server, reference):
    words = ['COPY', 'auth', 'sesame', 'AUTH2', 'sesame', 'sesame', 'REPLACE', 'KEYS', 'k', 'AUTH', 'seen']
    hidden = [b'COPY', b'auth', b'(redacted)', b'AUTH2', b'(redacted)', b'(redacted)', b'REPLACE', b'KEYS', b'k', b'AUTH', b'seen']
    for which in (server, reference):
        c, monitor = which.client(), which.client()
        c.command('SLOWLOG', 'RESET')
        c.command('CONFIG', 'SET', 'slowlog-log-slower-than', 0)
        assert monitor.command('MONITOR') == b'OK'
        assert c.command('MIGRATE', '127.0.0.1', '1', '', 0, 10, *words) == b'NOKEY'
        c.command('ECHO', 'end')
        seen = b''
        while b'"end"' not in seen:
            seen += bytes(monitor.read())
        assert b'sesame' not in seen and b'"AUTH" "seen"' in seen
        [shown] = [e[3] for e in c.command('SLOWLOG', 'GET', -1) if e[3][0] == b'MIGRATE']
        assert shown[6:] == hidden
        c.command('CONFIG', 'SET', 'slowlog-log-slower-than', 10000)


@pytest.mark.parametrize('said,deleted', [
    ([b'+OK\r\n', b'+OK\r\n', b'-ERR no\r\n', b'+OK\r\n', b'+OK\r\n'], 3),
    ([b'-ERR no\r\n', b'+OK\r\n', b'+OK\r\n', b'+OK\r\n', b'+OK\r\n'], 0)])
def test_what_the_target_has_is_deleted_and_what_it_refused_stays(server, said, deleted):
    c = server.client()
    keys = ['{tag}%d' % i for i in range(4)]
    c.command('MSET', *(x for key in keys for x in (key, 'v')))
    with Target(answering(*said)) as target:
        assert c.command(*migrate(target.port, *keys)) == Error(b'ERR Target instance replied with error: ERR no')
    assert c.command('EXISTS', *keys) == 4 - deleted


@pytest.mark.parametrize('said,shown', [(b'HTTP/1.1 400 Bad Request', b'HTTP/1.1 400 Bad Request'), (b':1', b':1'), (b'', b'an empty line')])
def test_a_target_that_is_no_such_server_gets_nothing(server, said, shown):
    c = server.client()
    c.command('SET', 'k', 'v')
    with Target(answering(*[said + b'\r\n'] * 2)) as target:
        reply = c.command(*migrate(target.port, 'k'))
    assert reply == Error(b'ERR Target instance replied with error: ' + shown)
    assert c.command('GET', 'k') == b'v'


FAULTS = {
    'says nothing': (answering(None), b'IOERR error or timeout reading to target instance', 0, 300),
    'ends at once': (answering(b'+OK\r\n'), b'IOERR error or timeout', 0, LONG_MS),
    'ends in the middle': (answering(b'+OK\r\n', b'+OK\r\n', b'+OK\r\n'), b'IOERR error or timeout', 2, LONG_MS),
    'is silent in the middle': (answering(b'+OK\r\n', b'+OK\r\n', b'+OK\r\n', None), b'IOERR error or timeout reading to target instance', 2, 300),
    'says too much': (answering(b'+OK\r\n' * 50), b'IOERR error or timeout', 4, LONG_MS),
    'has no end of a line': (answering(b'+' + b'x' * 5000), b'IOERR error or timeout', 0, LONG_MS),
    'ends in a line': (answering(b'+OK\r\n', b'+OK\r\n+O'), b'IOERR error or timeout', 1, LONG_MS)}


@pytest.mark.parametrize('how', FAULTS)
def test_a_target_that_fails(server, how):
    script, error, moved, timeout = FAULTS[how]
    c = server.client()
    keys = ['{tag}%d' % i for i in range(4)]
    c.command('MSET', *(x for key in keys for x in (key, 'v')))
    with Target(script) as target:
        reply = c.command(*migrate(target.port, *keys, timeout=timeout))
    if how == 'says too much':  # what was asked may have been answered by then
        assert reply == b'OK' or reply.startswith(error)
        return
    assert isinstance(reply, Error) and reply.startswith(error), reply
    assert c.command('EXISTS', *keys) == 4 - moved
    assert c.command('SET', keys[0], 'again') == b'OK'


def test_a_long_value_for_a_target_that_does_not_read(server):
    c = server.client()
    c.command('CONFIG', 'SET', 'rdbcompression', 'no')
    c.command('SET', 'long', random.Random(2).randbytes(32 << 20))

    def stuck(connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.recv(100)

    with Target(stuck) as target:
        assert c.command('MIGRATE', '127.0.0.1', target.port, 'long', 0, 500) == Error(b'IOERR error or timeout writing to target instance')
    assert c.command('STRLEN', 'long') == 32 << 20


def test_what_is_on_its_way_counts_as_the_clients_memory(server):
    d = server.client()
    size, extra = 32 << 20, 1 << 20
    d.command('CONFIG', 'SET', 'rdbcompression', 'no')
    d.command('SET', 'long', random.Random(2).randbytes(size))

    def stuck(connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.recv(100)

    def counted():
        lines = bytes(d.command('CLIENT', 'LIST')).decode().splitlines()
        return next(int(line.split('tot-mem=')[1].split()[0]) for line in lines if 'cmd=migrate ' in line)

    c, target = under_way(server, stuck, 'long')
    with target:
        wait_for(lambda: size <= counted() <= 2 * size + extra)
        assert d.command('CLIENT', 'KILL', 'ID', c_id(d, 'migrate')) == 1
    d.command('CONFIG', 'SET', 'maxmemory-clients', size // 2)
    c, target = server.client(), Target(stuck)
    with target:
        c.send(encode(*map(str, migrate(target.port, 'long'))))
        assert c.read_to_end() == (b'', True)       # the limit closes it
    assert d.command('STRLEN', 'long') == size


def test_to_itself_ends_with_the_timeout(server):
    c, d = server.client(), server.client()
    c.command('MSET', 'k', 'v', 'j', 'w')
    assert c.command(*migrate(server.port, 'k', 'j', timeout=300)) == Error(b'IOERR error or timeout reading to target instance')
    assert c.command('MGET', 'k', 'j') == [b'v', b'w']
    assert d.command('PING') == b'PONG'
    assert c.command('MIGRATE', '127.0.0.1', server.port, 'k', 1, 300) == Error(b'IOERR error or timeout reading to target instance')


def under_way(server, script, *keys, options=(), timeout=LONG_MS):
    """A MIGRATE that stands still at its target: (client, target)."""
    c = server.client()
    target = Target(script)
    c.send(encode(*map(str, migrate(target.port, *keys, options=options, timeout=timeout))))
    wait_for(lambda: target.connections)
    return c, target


def answering_after(event):
    """Says OK to everything, to RESTORE when the event has come."""
    def script(connection):
        for args in arguments(connection):
            if args[0] == b'RESTORE':
                event.wait()
            connection.sendall(b'+OK\r\n')
    return script


def test_keys_are_held_and_others_are_not(server):
    d = server.client()
    d.command('MSET', 'k', 'v', 'other', 'w')
    answer = threading.Event()
    c, target = under_way(server, answering_after(answer), 'k')
    with target:
        writer, reader = server.client(), server.client()
        writer.send(encode('APPEND', 'k', 'new'))
        for i in range(20):
            assert reader.command('SET', 'other', i) == b'OK'
        assert reader.command('PING') == b'PONG'
        assert writer.quiet()
        answer.set()
        assert c.read() == b'OK'
        assert writer.read() == 3  # behind it: the key was gone
    assert d.command('GET', 'k') == b'new'


def test_with_copy_others_may_read(server):
    d = server.client()
    d.command('SET', 'k', 'v')
    c, target = under_way(server, answering(b'+OK\r\n', None), 'k', options=['COPY'])
    with target:
        assert d.command('GET', 'k') == b'v'
        d.send(encode('APPEND', 'k', 'x'))
        assert d.quiet()
    assert c.read().startswith(b'IOERR ')
    assert d.read() == 2


def test_the_connection_is_killed_meanwhile(server):
    d = server.client()
    d.command('SET', 'k', 'v')
    c, target = under_way(server, answering(b'+OK\r\n', None), 'k')
    with target:
        assert d.command('CLIENT', 'KILL', 'ID', c_id(d, 'migrate')) == 1
        assert d.command('GET', 'k') == b'v'  # which waits no longer


def c_id(client, command):
    lines = bytes(client.command('CLIENT', 'LIST')).decode().splitlines()
    return next(line.split()[0][3:] for line in lines if 'cmd=%s ' % command in line)


def test_the_client_leaves_meanwhile(server):
    """What it began is done to its end, as in Redis."""
    d = server.client()
    d.command('SET', 'k', 'v')
    gone = threading.Event()
    c, target = under_way(server, answering_after(gone), 'k')
    with target:
        c.socket.shutdown(socket.SHUT_WR)
        assert d.command('PING') == b'PONG'
        gone.set()
        wait_for(lambda: d.command('EXISTS', 'k') == 0)


def test_the_server_ends_meanwhile(server):
    d = server.client()
    d.command('MSET', 'k', 'v', 'j', 'v')
    _, target = under_way(server, answering(b'+OK\r\n', None), 'k', 'j')
    with target:
        server.stop()


WAITS_FOR_NONE = [('BGSAVE',), ('SAVE',), ('CONFIG', 'SET', 'hash-max-listpack-entries', '100'), ('DEBUG', 'SLEEP', '0')]


@pytest.mark.parametrize('which', range(len(WAITS_FOR_NONE)))
def test_what_only_looks_on_does_not_wait_for_a_target(start, which):
    """Nor does it spoil anything: the key is held before, meanwhile and afterwards."""
    server = start(options=[('enable-debug-command', 'yes')])
    d = server.client()
    d.command('MSET', 'k', 'v', 'j', 'w')
    answer = threading.Event()
    c, target = under_way(server, answering_after(answer), 'k', 'j')
    with target:
        writer = server.client()
        writer.send(encode('APPEND', 'k', 'new'))
        for _ in range(3):
            assert not isinstance(d.command(*WAITS_FOR_NONE[which]), Error)
            wait_saved(d)
            assert d.command('SET', 'other', 'x') == b'OK' and writer.quiet()
        assert d.command('MSET', 'a', '1', 'b', '2', 'c', '3') == b'OK'
        answer.set()
        assert c.read() == b'OK' and writer.read() == 3
    assert d.command('MGET', 'k', 'other') == [b'new', b'x'] and d.command('EXISTS', 'j') == 0


@pytest.mark.several_threads
@pytest.mark.parametrize('what', ['MSET', 'MIGRATE'])
def test_who_waits_for_a_target_does_not_hold_what_looks_on(start, what):
    """A transaction behind the one that rests is under way; so that is given up, if need be."""
    server = start()
    d = server.client()
    d.command('MSET', *(x for i in range(20) for x in ('k%d' % i, 'v')))
    keys = ['k%d' % i for i in range(20)]
    c, target = under_way(server, answering(b'+OK\r\n', None), *keys[:10], timeout=10 * 3600 * 1000)
    with target:
        behind = server.client()
        behind.send(encode(*(map(str, migrate(free_port(), *keys[:10])) if what == 'MIGRATE' else ['MSET', *(x for key in keys for x in (key, 'w'))])))
        assert behind.quiet()
        assert d.command('SAVE') == b'OK' and d.command('CONFIG', 'SET', 'slowlog-max-len', 5) == b'OK'
        assert c.read().startswith(b'IOERR ')
        assert behind.read() == b'OK' if what == 'MSET' else behind.read().startswith(b'IOERR ')
    assert d.command('DBSIZE') == 20


@pytest.mark.parametrize('what', ['BGSAVE', 'CONFIG'])
def test_what_looks_on_waits_for_a_long_dump_and_ends_nothing(start, tmp_path, what):
    """Each turn takes 50 ms by the server's clock, so it has waited for a second long before the value is dumped. Neither that MIGRATE ends, nor one at whose keys nobody waits."""
    server = start(env=clock_steps(tmp_path, 0, 50))
    d = server.client()
    d.command('CONFIG', 'SET', 'rdbcompression', 'no')
    d.command('MSET', 'long', random.Random(4).randbytes(32 << 20), 'k', 'v', 'j', 'w')
    answer = threading.Event()
    resting, other = under_way(server, answering_after(answer), 'k', 'j', timeout=10 * 3600 * 1000)
    with other:
        looks_on = ('BGSAVE',) if what == 'BGSAVE' else ('CONFIG', 'SET', 'slowlog-max-len', 5)
        c = server.client()
        with Target(answering(b'+OK\r\n', b'+OK\r\n')) as target:
            c.send(encode(*map(str, migrate(target.port, 'long', timeout=10 * 3600 * 1000))))
            assert not isinstance(d.command(*looks_on), Error)
            wait_saved(d)
            assert c.read() == b'OK'
        answer.set()
        assert resting.read() == b'OK'
    assert d.command('DBSIZE') == 0


def test_a_target_answers_while_all_shards_stand_still(start):
    server = start(options=[('enable-debug-command', 'yes')])
    d, sleeper = server.client(), server.client()
    d.command('MSET', *(x for i in range(20) for x in ('k%d' % i, 'v')))
    answer = threading.Event()
    c, target = under_way(server, answering_after(answer), *('k%d' % i for i in range(20)))
    with target:
        sleeper.send(encode('DEBUG', 'SLEEP', '0.3'))
        answer.set()
        assert sleeper.read() == b'OK' and c.read() == b'OK'
    assert d.command('DBSIZE') == 0


TAKES_ALL = [[('FLUSHALL',)], [('SWAPDB', 0, 1)], [('MULTI',), ('SWAPDB', 0, 1), ('EXEC',)], [('CLIENT', 'PAUSE', '1', 'WRITE')], [('DEBUG', 'RELOAD')]]


@pytest.mark.parametrize('which', range(len(TAKES_ALL)))
def test_what_takes_all_shards_does_not_wait_as_long_as_a_client_likes(start, which):
    server = start(options=[('enable-debug-command', 'yes')])
    d = server.client()
    d.command('SET', 'k', 'v')
    c, target = under_way(server, answering(b'+OK\r\n', None), 'k', timeout=10 * 3600 * 1000)
    with target:
        writer = server.client()
        writer.send(encode('APPEND', 'k', 'new'))
        assert not any(isinstance(x, Error) for x in d.pipeline(TAKES_ALL[which]))
        assert c.read() == Error(b'IOERR error or timeout reading to target instance')
        assert writer.read() == 4       # which came first
        assert c.command('MSET', 'a', '1', 'b', '2', 'c', '3') == b'OK'
        if 'FLUSHALL' not in TAKES_ALL[which][0]:
            d.command('SELECT', 1 if any('SWAPDB' in x for x in TAKES_ALL[which]) else 0)
            assert d.command('GET', 'k') == b'vnew'


@pytest.mark.parametrize('how', ['command', 'signal'])
def test_the_end_with_a_snapshot_gives_up_what_waits_for_its_target(start, tmp_path, how):
    server = start(options=[('dir', tmp_path), ('save', '3600 1000000')])
    d = server.client()
    d.command('MSET', 'k', 'v', 'j', 'w')
    c, target = under_way(server, answering(b'+OK\r\n', None), 'k', 'j', timeout=10 * 3600 * 1000)
    with target:
        if how == 'signal':
            server.process.send_signal(signal.SIGTERM)
        else:
            d.send(encode('SHUTDOWN'))
        assert c.read() == Error(b'IOERR error or timeout reading to target instance')
        assert server.wait_end() == 0
    again = start(options=[('dir', tmp_path)])
    assert again.client().command('MGET', 'k', 'j') == [b'v', b'w']


@pytest.mark.limit(300)
def test_keys_go_to_and_fro_among_snapshots(start):
    """Each is on one of two servers at any end, and nothing of it is lost."""
    servers = [start(options=[('rdbcompression', 'no')]) for _ in range(2)]
    long = random.Random(3).randbytes(700000)
    groups = [['key:%d:%d' % (i, j) for j in range(30)] + ['long:%d' % i] for i in range(6)]
    for group in groups:
        servers[0].client().command('MSET', *(x for key in group for x in (key, long if key.startswith('long') else key)))
    for turn in range(6):
        at, to = servers[turn % 2], servers[1 - turn % 2]
        clients = [at.client() for _ in groups]
        for c, group in zip(clients, groups):
            c.send(encode(*map(str, migrate(to.port, *group))))
        d = at.client()
        while d.command('DBSIZE'):
            for command in (('SAVE',), ('CONFIG', 'SET', 'slowlog-max-len', turn), ('BGSAVE',)):
                d.command(*command)
            wait_saved(d)
        assert [c.read() for c in clients] == [b'OK'] * len(groups)
    found = servers[0].client()
    for group in groups:
        assert found.command('MGET', *group) == [long if key.startswith('long') else key.encode() for key in group]


@pytest.mark.limit(300)
def test_each_is_the_others_target_among_all_that_stands_still(start):
    """Keys under way in both directions wait for each other, and all shards are wanted again and again. Nothing hangs, and no key is lost."""
    servers = [start(options=[('enable-debug-command', 'yes')]) for _ in range(2)]
    keys = ['k%d' % i for i in range(120)]
    servers[0].client().command('MSET', *(x for key in keys for x in (key, key)))
    stand_still = [('SAVE',), ('BGSAVE',), ('CONFIG', 'SET', 'slowlog-max-len', 7), ('SWAPDB', 2, 3), ('DEBUG', 'RELOAD'), ('CLIENT', 'PAUSE', 1, 'WRITE'), ('MSET', 'a', 1, 'b', 2, 'c', 3)]
    rng, moving = random.Random(11), []
    clients = [(at, servers[at].client()) for at in (0, 1, 0, 1)]
    others = [s.client() for s in servers]
    for turn in range(28):
        for at, c in clients:
            some = [rng.choice(keys) for _ in range(rng.choice([1, 5, 40]))]
            c.send(encode(*map(str, migrate(servers[1 - at].port, *dict.fromkeys(some), timeout=rng.choice([20, 100, 300]), options=rng.choice([[], ['REPLACE']])))))
            moving.append(c)
        for c in others:
            c.send(encode(*stand_still[turn % len(stand_still)]))
        for c in moving + others:
            c.read()
        moving.clear()
    found = [set(map(bytes, c.command('KEYS', 'k*'))) for c in others]
    assert found[0] | found[1] == {key.encode() for key in keys}
    for c, there in zip(others, found):
        assert not there or c.command('MGET', *there) == list(there)


def test_not_inside_a_transaction(server):
    c = server.client()
    c.command('SET', 'k', 'v')
    c.command('MULTI')
    assert c.command('MIGRATE', '127.0.0.1', server.port, 'k', 0, 10) == Error(b'ERR Command not allowed inside a transaction')
    assert c.command('EXEC').startswith(b'EXECABORT')
    assert c.command('GET', 'k') == b'v'


def test_many_at_once_among_commands_over_several_shards(server, start):
    other = start()
    d = server.client()
    clients = [server.client() for _ in range(8)]
    for turn in range(10):
        keys = ['k%d' % i for i in range(160)]
        d.command('MSET', *(x for key in keys for x in (key, 'v%d' % turn)))
        for i, c in enumerate(clients):
            c.send(encode(*map(str, migrate(other.port, *keys[i * 20:i * 20 + 20], options=['REPLACE']))))
            c.send(encode('MSET', *(x for key in keys[:3] for x in (key, 'new'))))
        for c in clients:
            assert c.read() in (b'OK', b'NOKEY')
            assert c.read() == b'OK'
        assert sorted(bytes(x) for x in other.client().command('KEYS', 'k*')) == sorted(k.encode() for k in keys)
