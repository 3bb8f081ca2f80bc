"""Commands with very many arguments go through them in slices: what they reply and leave is as in one go, others have their turn between, and who asks for the key sees all or nothing."""

import select

import pytest

from resp import Error, Nil, encode
from server import PATIENCE

N = 20000
NAMES = [b'm:%d' % i for i in range(N)]


def pairs(of):
    return [x for name in of for x in (name, b'v%s' % name[2:])]


def scored(of):
    return [x for name in of for x in (b'%d' % (int(name[2:]) % 1009), name)]


def placed(of):
    return [x for name in of for x in (b'%d' % (90 * (int(name[2:]) % 4 // 2)), b'0', name)]


# Words of the command; its arguments; how many are new, or what is replied, of none, of half; the command that counts; the kind of value.
ADDING = {
    'SADD': (lambda of: ('SADD', '{t}of', *of), 'SCARD', 'SADD'),
    'HSET': (lambda of: ('HSET', '{t}of', *pairs(of)), 'HLEN', 'HSET'),
    'ZADD': (lambda of: ('ZADD', '{t}of', *scored(of)), 'ZCARD', 'ZADD'),
    'GEOADD': (lambda of: ('GEOADD', '{t}of', *placed(of)), 'ZCARD', 'GEOADD'),
}
REMOVING = {
    'SREM': (lambda of: ('SREM', '{t}of', *of), 'SCARD', 'SADD'),
    'HDEL': (lambda of: ('HDEL', '{t}of', *of), 'HLEN', 'HSET'),
    'ZREM': (lambda of: ('ZREM', '{t}of', *of), 'ZCARD', 'ZADD'),
}
# What is replied of names that are there, and of one that is not.
ASKING = {
    'SMISMEMBER': (lambda of: ('SMISMEMBER', '{t}of', *of), 'SADD', lambda i: 1, 0),
    'HMGET': (lambda of: ('HMGET', '{t}of', *of), 'HSET', lambda i: b'v%d' % i, Nil('$')),
    'ZMSCORE': (lambda of: ('ZMSCORE', '{t}of', *of), 'ZADD', lambda i: b'%d' % (i % 1009), Nil('$')),
    'GEOHASH': (lambda of: ('GEOHASH', '{t}of', *of), 'GEOADD', lambda i: (b's0000000000', b'w0000000000')[i % 4 // 2], Nil('$')),
}


def long_slices(server):
    return sum(int(value.split(',')[0].partition('=')[2]) for name, value in server.info('threads').items() if name.endswith('_long'))


@pytest.fixture
def slow(server):
    client = server.client(timeout=PATIENCE)
    client.command('SET', '{t}x', 'y')
    yield client
    client.close()


@pytest.fixture
def other(server):
    client = server.client(timeout=PATIENCE)
    yield client
    client.close()


def beside(slow, command, other, question, before, after, undo=None, tries=50):
    """A command on another key of the shard goes in between, and one on the key sees what was before or what is after it. What the command replied."""
    first = False
    for _ in range(tries):
        slow.send(encode(*command))
        assert other.command('GET', '{t}x') == b'y'
        first = not select.select([slow.socket], [], [], 0)[0]
        assert other.command(*question) in (before, after)
        replied = slow.read()
        if first:
            break
        if undo:
            slow.pipeline(undo)
    assert first
    return replied


@pytest.mark.limit(300)
@pytest.mark.parametrize('command', ADDING)
def test_many_are_added_in_slices(server, slow, other, command):
    make, count, _ = ADDING[command]
    before = long_slices(server)
    assert slow.command(*make(NAMES)) == N == slow.command(count, '{t}of')
    assert long_slices(server) >= before + 30
    assert slow.command(*make(NAMES)) == 0
    slow.command('DEL', '{t}of')
    assert beside(slow, make(NAMES), other, (count, '{t}of'), 0, N, [('DEL', '{t}of')]) == N
    assert slow.command(*make(NAMES[N // 2:] + [b'o:%d' % i for i in range(N // 2)])) == N // 2
    slow.pipeline([('MULTI',), ('DEL', '{t}of'), make(NAMES), make(NAMES + [b'o:1']), (count, '{t}of')])
    assert slow.command('EXEC') == [1, N, 1, N + 1]
    slow.command('SET', '{t}of', 'text')
    assert slow.command(*make(NAMES)).startswith(b'WRONGTYPE')
    slow.command('SET', '{t}of', 'text', 'PX', 1)
    while slow.command('EXISTS', '{t}of'):
        pass
    assert slow.command(*make(NAMES)) == N


@pytest.mark.limit(300)
@pytest.mark.parametrize('command', ADDING)
def test_what_is_refused_is_refused_before_anything_is_added(server, slow, command):
    make, count, _ = ADDING[command]
    slow.command(*make(NAMES[:3]))
    used = int(server.info('memory')['used_memory'])
    slow.command('CONFIG', 'SET', 'maxmemory', used + 300000)
    try:
        for _ in range(5):
            assert slow.command(*make(NAMES)).startswith(b'OOM')
            assert slow.command(count, '{t}of') == 3
            assert slow.command(*make([b'o:1'])) in (0, 1) and slow.command(REMOVING_OF[command], '{t}of', 'o:1') == 1
        slow.command('CONFIG', 'SET', 'maxmemory', used + (16 << 20))
        assert slow.command(*make(NAMES)) == N - 3
        assert slow.command(*make(NAMES)) == 0
        assert int(server.info('memory')['used_memory']) < used + (16 << 20)
    finally:
        slow.command('CONFIG', 'SET', 'maxmemory', 0)


REMOVING_OF = {'SADD': 'SREM', 'ZADD': 'ZREM', 'HSET': 'HDEL', 'GEOADD': 'ZREM'}


@pytest.mark.limit(300)
@pytest.mark.parametrize('command', REMOVING)
def test_many_are_removed_in_slices(server, slow, other, command):
    make, count, fill = REMOVING[command]
    fill = ADDING[fill][0]
    some = NAMES[:N - 10] + [b'none']
    slow.command(*fill(NAMES))
    before = long_slices(server)
    assert slow.command(*make(some)) == N - 10 and slow.command(count, '{t}of') == 10
    assert long_slices(server) >= before + 30
    slow.command(*fill(NAMES))
    assert beside(slow, make(some), other, (count, '{t}of'), N, 10, [fill(NAMES)]) == N - 10
    assert slow.command(*make(some)) == 0 and slow.command(count, '{t}of') == 10
    slow.command(*fill(NAMES))
    assert slow.command(*make(some + NAMES[-10:] + NAMES)) == N and slow.command('EXISTS', '{t}of') == 0
    assert slow.command(*make(NAMES)) == 0
    slow.pipeline([('MULTI',), fill(NAMES), make(some), (count, '{t}of'), make(NAMES), ('EXISTS', '{t}of')])
    assert slow.command('EXEC') == [N, N - 10, 10, 10, 0]
    slow.command('SET', '{t}of', 'text')
    assert slow.command(*make(NAMES)).startswith(b'WRONGTYPE')


@pytest.mark.limit(300)
@pytest.mark.parametrize('command', ASKING)
def test_many_are_asked_for_in_slices(server, slow, other, command):
    make, fill, there, none = ASKING[command]
    expected = [x for i in range(0, N, 2) for x in (there(i), none)]
    asked = [x for name in NAMES[::2] for x in (name, name + b'none')]
    assert slow.command(*make(asked)) == [none] * N
    slow.command(*ADDING[fill][0](NAMES))
    before, stats = long_slices(server), server.info('stats')
    assert slow.command(*make(asked)) == expected
    assert long_slices(server) >= before + 15
    assert int(server.info('stats')['keyspace_hits']) == int(stats['keyspace_hits']) + 1      # not one for each slice
    assert beside(slow, make(asked), other, ('EXISTS', '{t}of'), 1, 1) == expected
    slow.pipeline([('MULTI',), make(asked), make(NAMES[:3])])
    assert slow.command('EXEC') == [expected, [there(i) for i in range(3)]]
    slow.command('SET', '{t}of', 'text')
    assert slow.command(*make(asked)).startswith(b'WRONGTYPE')


@pytest.mark.limit(300)
@pytest.mark.parametrize('command', [*ADDING, *REMOVING])
def test_a_watched_key_counts_as_changed_once_all_is_done(server, slow, other, command):
    make, count, fill = {**ADDING, **REMOVING}[command]
    slow.command(*ADDING[fill][0](NAMES[:N // 2] if command in ADDING else NAMES))
    for changes in (True, False):
        other.pipeline([('WATCH', '{t}of'), ('MULTI',), (count, '{t}of')])
        dirty = int(server.info('persistence')['rdb_changes_since_last_save'])
        assert slow.command(*make(NAMES[:N - 10])) > 0 if changes else slow.command(*make(NAMES[:N - 10])) == 0
        assert int(server.info('persistence')['rdb_changes_since_last_save']) - dirty in (changes, changes or command == 'HSET')
        if command != 'HSET':
            assert isinstance(other.command('EXEC'), list) != changes
        else:
            other.command('EXEC')


@pytest.mark.limit(300)
@pytest.mark.parametrize('command,at', [('LPUSH', 0), ('RPUSH', -1), ('LPUSHX', 0), ('RPUSHX', -1)])
def test_many_are_pushed_in_slices(server, slow, other, command, at):
    pushed = (command, '{t}of', *NAMES, *NAMES)
    if command.endswith('X'):
        assert slow.command(*pushed) == 0 == slow.command('EXISTS', '{t}of')
    fill = [('DEL', '{t}of'), ('RPUSH', '{t}of', 'a', 'b')]
    expected = ([*NAMES, *NAMES][::-1] if at == 0 else []) + [b'a', b'b'] + ([*NAMES, *NAMES] if at else [])
    slow.pipeline(fill)
    before = long_slices(server)
    assert slow.command(*pushed) == 2 * N + 2 and slow.command('LRANGE', '{t}of', 0, -1) == expected
    assert long_slices(server) >= before + 30
    slow.pipeline(fill)
    assert beside(slow, pushed, other, ('LLEN', '{t}of'), 2, 2 * N + 2, fill) == 2 * N + 2
    slow.pipeline([('MULTI',), *fill, pushed, ('LLEN', '{t}of')])
    assert slow.command('EXEC') == [1, 2, 2 * N + 2, 2 * N + 2] and slow.command('LRANGE', '{t}of', 0, -1) == expected
    slow.pipeline(fill)
    used = int(server.info('memory')['used_memory'])
    slow.command('CONFIG', 'SET', 'maxmemory', used + 200000)
    assert slow.command(*pushed).startswith(b'OOM') == (not command.endswith('X')) or slow.command('LLEN', '{t}of') == 2
    assert slow.command('LRANGE', '{t}of', 0, -1) == [b'a', b'b']
    slow.command('CONFIG', 'SET', 'maxmemory', used + (16 << 20))
    assert slow.command(*pushed) == 2 * N + 2 and slow.command('LRANGE', '{t}of', 0, -1) == expected
    slow.command('CONFIG', 'SET', 'maxmemory', 0)
    slow.command('SET', '{t}of', 'text')
    assert slow.command(*pushed).startswith(b'WRONGTYPE')
    slow.pipeline([('DEL', '{t}of'), ('SET', '{t}other', 'z')])
    if not command.endswith('X'):       # who waits for the key is served when all is done
        other.send(encode('BLPOP', '{t}of', 0))
        while int(server.info('clients')['blocked_clients']) == 0:
            pass
        assert slow.command(*pushed) == 2 * N
        assert other.read() == [b'{t}of', NAMES[0] if at else NAMES[-1]] and slow.command('LLEN', '{t}of') == 2 * N - 1


@pytest.mark.limit(300)
def test_fields_past_their_time_go_while_many_are_set(slow):
    slow.command('HSET', '{t}of', *pairs(NAMES[:1000]))
    for at in range(0, 1000, 50):
        slow.command('HPEXPIRE', '{t}of', 1, 'FIELDS', 50, *NAMES[at:at + 50])
    while slow.command('HLEN', '{t}of'):
        pass
    assert slow.command('HSET', '{t}of', *pairs(NAMES)) == N == slow.command('HLEN', '{t}of')
    assert slow.command('HTTL', '{t}of', 'FIELDS', 1, NAMES[0]) == [-1]


def test_a_few_long_values_are_set_and_read_in_slices(server, slow):
    values = [x for i in range(100) for x in (b'f%d' % i, b'%d' % i * 20000)]
    before = long_slices(server)
    assert slow.command('HSET', '{t}of', *values) == 100
    assert long_slices(server) >= before + 20
    before = long_slices(server)
    assert slow.command('HMGET', '{t}of', *values[::2], *NAMES[:500]) == values[1::2] + [Nil('$')] * 500
    assert long_slices(server) >= before + 20


def test_a_server_ends_and_clients_leave_meanwhile(start):
    server = start()
    client = server.client(timeout=PATIENCE)
    commands = [(make, ()) for make, _, _ in ADDING.values()] + [(make, ()) for make, _, _ in REMOVING.values()] + [(make, ()) for make, *_ in ASKING.values()]
    for make, _ in commands:
        gone = server.client()
        gone.send(encode(*make(NAMES)) * 2)
        gone.close()
    assert client.command('PING') == b'PONG'
    for make, _ in commands:
        server.client().send(encode(*make(NAMES)) * 2)
    server.stop()


def test_an_error_is_one_reply(slow):
    slow.command('SADD', '{t}of', 'a')
    assert isinstance(slow.command('HSET', '{t}of', *NAMES[:2001]), Error)
    assert slow.command('PING') == b'PONG'
