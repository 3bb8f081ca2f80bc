"""Commands with very many arguments go through them in slices: what they reply and leave is as in one go, others have their turn between, and who asks for the key sees all or nothing."""

import re
import select

import pytest

from resp import Error, Nil, encode
from server import PATIENCE, long_slices, wait_for

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


def beside(slow, command, other, question, before, after, undo=None, tries=500):
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


FAR = 4102444800        # seconds: the year 2100


def fields(*words):
    return lambda of: (words[0], '{t}of', *words[1:], 'FIELDS', len(of), *of)


# Commands on fields: what they are, what is replied of those that are there and of those that are not; what is left of those that are there: a time, none, or nothing.
ON_FIELDS = {
    'HEXPIRE': (fields('HEXPIRE', 1000000), 1, -2, 'timed'),
    'HPEXPIRE': (fields('HPEXPIRE', 1000000000), 1, -2, 'timed'),
    'HEXPIREAT': (fields('HEXPIREAT', FAR, 'NX'), 1, -2, 'timed'),
    'HPEXPIREAT': (fields('HPEXPIREAT', FAR * 1000, 'LT'), 1, -2, 'timed'),
    'HEXPIREAT GT': (fields('HEXPIREAT', FAR, 'GT'), 0, -2, 'plain'),
    'HPEXPIREAT past': (fields('HPEXPIREAT', 1), 2, -2, 'gone'),
    'HPERSIST': (fields('HPERSIST'), -1, -2, 'plain'),
    'HTTL': (fields('HTTL'), -1, -2, 'plain'),
    'HPTTL': (fields('HPTTL'), -1, -2, 'plain'),
    'HEXPIRETIME': (fields('HEXPIRETIME'), -1, -2, 'plain'),
    'HPEXPIRETIME': (fields('HPEXPIRETIME'), -1, -2, 'plain'),
    'HGETEX': (fields('HGETEX'), b'v', Nil('$'), 'plain'),
    'HGETEX EXAT': (fields('HGETEX', 'EXAT', FAR), b'v', Nil('$'), 'timed'),
    'HGETEX PXAT past': (fields('HGETEX', 'PXAT', 1), b'v', Nil('$'), 'gone'),
    'HGETDEL': (fields('HGETDEL'), b'v', Nil('$'), 'gone'),
}


def left(slow, of, what):
    """What is left of fields is that; asked in parts that are not long."""
    count = slow.command('HLEN', '{t}of')
    assert count == (0 if what == 'gone' else len(of)) and slow.command('EXISTS', '{t}of') == bool(count)
    for at in range(0, len(of), 50):
        some = of[at:at + 50]
        times = slow.command('HEXPIRETIME', '{t}of', 'FIELDS', len(some), *some)
        assert what == 'timed' and min(times) > 1000000 or set(times) == {-1 if what == 'plain' else -2}


@pytest.mark.limit(300)
@pytest.mark.parametrize('command', ON_FIELDS)
def test_many_fields_are_gone_through_in_slices(server, slow, other, command):
    make, there, none, what = ON_FIELDS[command]
    asked = [x for name in NAMES for x in (name, b'none' + name)]
    expected = [x for _ in NAMES for x in (there, none)]
    if there == b'v':
        expected[::2] = [b'v%d' % i for i in range(N)]
    fill = ADDING['HSET'][0](NAMES)
    assert slow.command(*make(asked)) == [none] * (2 * N)
    slow.command(*fill)
    before, dirty = long_slices(server), int(server.info('persistence')['rdb_changes_since_last_save'])
    assert slow.command(*make(asked)) == expected
    assert long_slices(server) >= before + 30
    changes = 2 if what == 'gone' else what == 'timed'      # of a field, and of the key that goes with its last
    assert int(server.info('persistence')['rdb_changes_since_last_save']) == dirty + changes
    left(slow, NAMES, what)
    again = [('DEL', '{t}of'), fill]
    slow.pipeline(again)
    assert beside(slow, make(asked), other, ('HLEN', '{t}of'), N, 0 if what == 'gone' else N, again) == expected
    slow.pipeline([('MULTI',), *again, make(asked), make(NAMES[:3])])
    assert slow.command('EXEC')[2] == expected
    slow.pipeline(again)
    few = NAMES[:N // 2]
    assert slow.command(*make(few)) == expected[::2][:N // 2]
    assert slow.command('HLEN', '{t}of') == (N // 2 if what == 'gone' else N)
    slow.command('SET', '{t}of', 'text')
    assert slow.command(*make(asked)).startswith(b'WRONGTYPE')
    if command not in ('HTTL', 'HPTTL', 'HEXPIRETIME', 'HPEXPIRETIME'):
        slow.pipeline(again)
        for changed in (what != 'plain', False):
            other.pipeline([('WATCH', '{t}of'), ('MULTI',), ('HLEN', '{t}of')])
            slow.command(*make(few if changed else [b'none' + name for name in few]))
            assert isinstance(other.command('EXEC'), list) != changed
    for words in (('HEXPIRE', '{t}of', 'text', 'FIELDS', N, *NAMES), ('HEXPIRE', '{t}of', 1, 'FIELDS', N + 1, *NAMES), ('HGETDEL', '{t}of', 'FIELD', N, *NAMES)):
        slow.command('DEL', '{t}of')
        assert isinstance(slow.command(*words), Error)


def pairs_of(*words):
    return lambda of: ('HSETEX', '{t}of', *words, 'FIELDS', len(of), *pairs(of))


@pytest.mark.limit(300)
@pytest.mark.parametrize('words', [(), ('EXAT', FAR), ('FNX', 'EXAT', FAR), ('FXX', 'KEEPTTL'), ('FXX', 'PXAT', 1)])
def test_many_fields_are_set_with_times_in_slices(server, slow, other, words):
    make, fill = pairs_of(*words), ADDING['HSET'][0](NAMES)
    what = 'gone' if 1 in words else 'timed' if FAR in words else 'plain'
    begins = [('DEL', '{t}of'), fill] if 'FXX' in words else [('DEL', '{t}of')]
    slow.pipeline(begins)
    before = long_slices(server)
    assert slow.command(*make(NAMES)) == 1
    assert long_slices(server) >= before + 30
    left(slow, NAMES, what)
    slow.pipeline(begins)
    n = N if 'FXX' in words else 0
    assert beside(slow, make(NAMES), other, ('HLEN', '{t}of'), n, 0 if what == 'gone' else N, begins) == 1
    for condition, there in (('FNX', [NAMES[-1]]), ('FXX', NAMES[:-1])):     # the last field decides, and nothing is changed
        slow.pipeline([('DEL', '{t}of'), ADDING['HSET'][0](there)])
        assert slow.command(*pairs_of(condition, *(w for w in words if w not in ('FNX', 'FXX')))(NAMES)) == 0
        left(slow, there, 'plain')
    slow.pipeline(begins)
    slow.pipeline([('MULTI',), make(NAMES), ('HLEN', '{t}of')])
    assert slow.command('EXEC') == [1, 0 if what == 'gone' else N]
    slow.command('DEL', '{t}of')
    if 'FXX' not in words:
        used = int(server.info('memory')['used_memory'])
        slow.command('CONFIG', 'SET', 'maxmemory', used + 300000)
        assert slow.command(*make(NAMES)).startswith(b'OOM') and slow.command('EXISTS', '{t}of') == 0
        slow.command('CONFIG', 'SET', 'maxmemory', used + (16 << 20))
        assert slow.command(*make(NAMES)) == 1
        slow.command('CONFIG', 'SET', 'maxmemory', 0)
    if 'KEEPTTL' in words:
        slow.pipeline([('DEL', '{t}of'), fill, fields('HEXPIREAT', FAR)(NAMES), make(NAMES)])
        left(slow, NAMES, 'timed')
    slow.command('SET', '{t}of', 'text')
    assert slow.command(*make(NAMES)).startswith(b'WRONGTYPE')


@pytest.mark.limit(300)
def test_times_are_refused_before_one_is_set(server, slow):
    slow.command(*ADDING['HSET'][0](NAMES))
    used = int(server.info('memory')['used_memory'])
    slow.command('CONFIG', 'SET', 'maxmemory', used + 300000)
    for command in ('HEXPIRE', 'HGETEX EXAT'):
        assert slow.command(*ON_FIELDS[command][0](NAMES)).startswith(b'OOM')
    left(slow, NAMES, 'plain')
    slow.command('CONFIG', 'SET', 'maxmemory', used + (4 << 20))
    assert slow.command(*ON_FIELDS['HEXPIRE'][0](NAMES)) == [1] * N
    slow.command('CONFIG', 'SET', 'maxmemory', 0)


@pytest.mark.limit(300)
def test_many_elements_are_added_to_a_hyperloglog_in_slices(server, slow, other):
    for at in range(0, N, 50):
        slow.command('PFADD', '{t}same', *NAMES[at:at + 50])
    added = ('PFADD', '{t}of', *NAMES)
    before, dirty = long_slices(server), int(server.info('persistence')['rdb_changes_since_last_save'])
    assert slow.command(*added) == 1
    assert long_slices(server) >= before + 30
    assert int(server.info('persistence')['rdb_changes_since_last_save']) == dirty + 1
    assert slow.command('GETRANGE', '{t}of', 16, -1) == slow.command('GETRANGE', '{t}same', 16, -1)
    assert slow.command('PFCOUNT', '{t}of') == slow.command('PFCOUNT', '{t}same')
    assert slow.command(*added) == 0
    assert slow.command(*added, 'm:one', 'm:two', 'm:three', 'm:four', 'm:five', 'm:six', *(b'p:%d' % i for i in range(1000))) == 1
    slow.command('DEL', '{t}of')
    assert beside(slow, added, other, ('PFCOUNT', '{t}of'), 0, slow.command('PFCOUNT', '{t}same'), [('DEL', '{t}of')]) == 1
    slow.pipeline([('MULTI',), ('DEL', '{t}of'), added, added])
    assert slow.command('EXEC')[1:] == [1, 0]
    slow.command('SET', '{t}of', 'text')
    assert slow.command(*added).startswith(b'WRONGTYPE')


@pytest.mark.limit(300)
@pytest.mark.parametrize('tag', ['{t}', ''])
def test_very_many_hyperloglogs_are_merged_in_slices(server, slow, other, tag):
    keys = [b'%s%d' % (tag.encode(), i) for i in range(3000)]
    slow.pipeline([('PFADD', key, *(b'%d' % (i // 4 * 10 + j) for j in range(10))) for i, key in enumerate(keys)])
    slow.pipeline([('PFADD', tag + 'all', *(b'%d' % i for i in range(at, at + 50))) for at in range(0, 7500, 50)])
    expected = slow.command('PFCOUNT', tag + 'all')
    asked = [*keys, tag + 'none', *keys]
    before = long_slices(server)
    assert slow.command('PFCOUNT', *asked) == expected
    assert not tag or long_slices(server) >= before + 30
    assert slow.command('PFMERGE', tag + 'sum', *asked) == b'OK'
    assert slow.command('PFCOUNT', tag + 'sum') == expected == slow.command('PFCOUNT', tag + 'sum', *asked)
    if tag:
        assert beside(slow, ('PFMERGE', tag + 'of', *asked), other, ('PFCOUNT', tag + 'of'), 0, expected, [('DEL', tag + 'of')]) == b'OK'
    slow.pipeline([('MULTI',), ('PFMERGE', tag + 'of', *asked), ('PFCOUNT', *asked)])
    assert slow.command('EXEC') == [b'OK', expected]
    slow.pipeline([('DEL', tag + 'of'), ('SET', keys[2990], 'text')])
    assert slow.command('PFMERGE', tag + 'of', *asked).startswith(b'WRONGTYPE') and slow.command('EXISTS', tag + 'of') == 0
    assert slow.command('PFCOUNT', *asked).startswith(b'WRONGTYPE')


@pytest.mark.limit(300)
def test_a_command_of_very_many_keys_has_one_intent(start):
    """On the database as a whole; it waits for who writes anything in slices, and who writes waits for it."""
    server = start(options=[('enable-debug-command', 'local')])
    slow, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    keys = [b'{t}%d' % i for i in range(3000)]
    slow.pipeline([('PFADD', key, i) for i, key in enumerate(keys)])
    expected = slow.command('PFCOUNT', *keys)
    for question, intents in ((('PFCOUNT', *keys), 1), (('PFCOUNT', *keys[:400]), 401)):
        for _ in range(500):
            slow.send(encode(*question))
            seen = re.findall(rb'local=yes state="runs" intents=(\d+)', other.command('DEBUG', 'SCHEDULE'))
            slow.read()
            if seen:
                break
        assert seen == [b'%d' % intents]
    writer = server.client(timeout=PATIENCE)
    members = [b'm%d' % i for i in range(5000)]
    for n in range(30):
        writer.send(encode('SADD', '{t}set', *members) + encode('DEL', '{t}set'))
        slow.send(encode('PFCOUNT', *keys) + encode('PFMERGE', '{t}sum', *keys) + encode('PFCOUNT', *keys, '{t}sum'))
        other.send(encode('SREM', '{t}set', *members) + encode('PFMERGE', '{t}of', *keys[::-1]) + encode('PFCOUNT', '{t}of') + encode('SET', '{t}x', 'y'))
        assert [slow.read() for _ in range(3)] == [expected, b'OK', expected]
        assert [writer.read() for _ in range(2)] in ([5000, 1], [5000, 0])
        assert other.read() in (0, 5000) and [other.read() for _ in range(3)] == [b'OK', expected, b'OK']


@pytest.mark.limit(300)
def test_places_of_very_many_elements_are_told_in_slices(server, slow, other):
    for _ in range(5):
        slow.command('RPUSH', '{t}of', *[b'a'] * N, 'b')
    expected = [i for i in range(5 * (N + 1)) if i % (N + 1) != N]
    asked = ('LPOS', '{t}of', 'a', 'COUNT', 0)
    before = long_slices(server)
    assert slow.command(*asked) == expected
    assert long_slices(server) >= before + 20       # of which seven look
    assert slow.command(*asked, 'RANK', -3) == expected[::-1][2:]
    assert slow.command('LPOS', '{t}of', 'a', 'COUNT', 50000, 'RANK', 17) == expected[16:50016]
    for count in (1, 15, 16, 17, 1015, 1016, 1017, 4096, 4097):
        assert slow.command('LPOS', '{t}of', 'a', 'COUNT', count) == expected[:count]
    assert beside(slow, asked, other, ('LLEN', '{t}of'), 5 * (N + 1), 5 * (N + 1)) == expected
    slow.pipeline([('MULTI',), asked])
    assert slow.command('EXEC') == [expected]


@pytest.mark.limit(300)
def test_fields_past_their_time_go_while_many_are_set(slow):
    slow.command('HSET', '{t}of', *pairs(NAMES[:1000]))
    for at in range(0, 1000, 50):
        slow.command('HPEXPIRE', '{t}of', 1, 'FIELDS', 50, *NAMES[at:at + 50])
    while slow.command('HLEN', '{t}of'):
        pass
    assert slow.command('HSET', '{t}of', *pairs(NAMES)) == N == slow.command('HLEN', '{t}of')
    assert slow.command('HTTL', '{t}of', 'FIELDS', 1, NAMES[0]) == [-1]


def test_a_few_long_values_are_set_in_slices(server, slow):
    values = [x for i in range(100) for x in (b'f%d' % i, b'%d' % i * 20000)]
    before = long_slices(server)
    assert slow.command('HSET', '{t}of', *values) == 100
    assert long_slices(server) >= before + 20
    assert slow.command('HMGET', '{t}of', *values[::2], *NAMES[:500]) == values[1::2] + [Nil('$')] * 500


def test_a_server_ends_and_clients_leave_meanwhile(start):
    server = start()
    client = server.client(timeout=PATIENCE)
    commands = [make(NAMES) for make, *_ in [*ADDING.values(), *REMOVING.values(), *ASKING.values()]]
    on_a_hash = [make(NAMES) for make, *_ in ON_FIELDS.values()] + [pairs_of('FNX')(NAMES), pairs_of('EXAT', FAR)(NAMES)]
    commands += [(command[0], '{t}hash', *command[2:]) for command in on_a_hash]
    commands += [('PFADD', '{t}pf', *NAMES), ('LPOS', '{t}list', 'a', 'COUNT', 0), ('PFCOUNT', *(b'{t}' + name for name in NAMES))]
    refill = [('HSET', '{t}hash', *pairs(NAMES))]
    client.pipeline([('RPUSH', '{t}list', *[b'a'] * N)])
    for command in commands:
        client.pipeline(refill)
        gone = server.client()
        gone.send(encode(*command) * 2)
        gone.close()
    assert client.command('PING') == b'PONG'
    client.pipeline(refill)
    for command in commands:
        server.client().send(encode(*command) * 2)
    server.stop()


@pytest.mark.limit(300)
@pytest.mark.parametrize('words', [('HPEXPIRE', 1000), ('HGETEX', 'PX', 1000)])
def test_times_set_in_slices_are_kept_though_all_older_ones_pass(start, words):
    c = start(options=[('enable-debug-command', 'yes')]).client(timeout=PATIENCE)
    older = [b'd:%d' % i for i in range(200)]
    c.command('DEBUG', 'SET-ACTIVE-EXPIRE', 0)
    c.pipeline([('HSET', '{t}of', *pairs(NAMES)), ('HSET', '{t}of', *pairs(older))])
    c.pipeline([fields('HPEXPIRE', 1)(older), ('SET', '{t}later', 'x', 'PX', 20)])
    wait_for(lambda: c.command('EXISTS', '{t}later') == 0)  # whoever looked at a field would take out some
    c.command(*fields(*words)(NAMES))
    wait_for(lambda: c.command(*fields('HTTL')(NAMES[-1:])) == [-2])
    assert c.command('HGETALL', '{t}of') == [] and c.command('PING') == b'PONG'
    c.command('DEBUG', 'SET-ACTIVE-EXPIRE', 1)
    wait_for(lambda: c.command('EXISTS', '{t}of') == 0)


def test_an_error_is_one_reply(slow):
    slow.command('SADD', '{t}of', 'a')
    assert isinstance(slow.command('HSET', '{t}of', *NAMES[:2001]), Error)
    assert slow.command('PING') == b'PONG'


# A batch holds 256 hops and 768 arguments: whichever command of the pipeline is the one that no longer fits, the one in slices may be any of those that run then.
@pytest.mark.parametrize('before', [0, 100, 248, 254, 255, 256, 300])
@pytest.mark.parametrize('words', [ADDING['SADD'][0](NAMES[:2000]), ADDING['HSET'][0](NAMES[:2000]), ADDING['GEOADD'][0](NAMES[:2000])],
                         ids=lambda words: words[0])
def test_a_pipeline_is_answered_in_turn_behind_a_command_in_slices(slow, words, before):
    commands = [('INCR', '{t}n')] * before + [words] + [('INCR', '{t}n')] * 300 + [words] + [('ECHO', 'e'), ('INCR', '{t}n')] * 300
    n = iter(range(1, 2000))
    expected = [next(n) for _ in range(before)] + [2000] + [next(n) for _ in range(300)] + [0]
    expected += [x for _ in range(300) for x in (b'e', next(n))]
    assert slow.pipeline(commands) == expected


@pytest.mark.parametrize('before', [0, 100, 248, 254])
def test_a_transaction_is_answered_in_turn_behind_a_command_in_slices(slow, before):
    transaction = [('MULTI',), *[('INCR', '{t}n')] * 6, ('PING',), ('EXEC',)]
    replies = slow.pipeline([('GET', '{t}x')] * before + [('SADD', '{t}of', *NAMES[:2000])] + transaction * 40 + [('ECHO', 'end')])
    n = iter(range(1, 1000))
    expected = [b'y'] * before + [2000]
    for _ in range(40):
        expected += [b'OK'] + [b'QUEUED'] * 7 + [[*(next(n) for _ in range(6)), b'PONG']]
    assert replies == expected + [b'end']


@pytest.mark.parametrize('n', [42, 43, 63, 64, 65, 85, 86, 127, 128, 129, 200, 254, 255, 256, 257, 400])
def test_places_of_any_number_are_added(slow, other, n):
    def ask():
        return [(word, key) for key in (b'{t}of', b'{t}too') for word in ('ZCARD', 'TYPE')]

    for key in ('{t}of', '{t}too'):
        first, second = placed(NAMES[:n]), placed(NAMES[n // 2:n + n // 2])
        assert slow.pipeline([('GEOADD', key, *first), ('PING',), ('GEOADD', key, 'CH', *second), ('GEOADD', key, 'NX', *first)]) == [
            n, b'PONG', n // 2, 0]
    assert other.pipeline(ask()) == [n + n // 2, b'zset'] * 2
    assert slow.pipeline([('MULTI',), ('GEOADD', '{t}of', *placed(NAMES[:n])), ('ZCARD', '{t}of'), ('EXEC',)])[-1] == [0, n + n // 2]
