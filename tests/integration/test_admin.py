"""COMMAND, INFO, CLIENT, DEBUG, OBJECT: what tools and libraries ask for."""

import socket
import time

import pytest

from configurations import LIGHT
from resp import Error, Map, Set, Simple, encode
from server import PATIENCE, wait_for

# Every command with a row of its own.
STRINGS = '''append decr decrby get getdel getex getrange getset incr incrby incrbyfloat lcs mget mset msetnx psetex set setex setnx setrange strlen substr'''.split()
KEYS = '''copy del dbsize exists expire expireat expiretime flushall flushdb keys move object persist pexpire pexpireat pexpiretime pttl randomkey rename renamenx scan swapdb
          touch ttl type unlink'''.split()
CONNECTION = 'auth client command config debug echo hello info ping quit reset select shutdown time'.split()
WITH_SUBCOMMANDS = {'object', 'client', 'command', 'config', 'debug'}


def plain(value):
    """A row with what has no order in order, and without subcommands."""
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return bytes(value) if isinstance(value, bytes) else value


def test_command_info_is_that_of_redis(server, reference):
    names = STRINGS + KEYS + CONNECTION
    wrong = []
    for protocol in (2, 3):
        a, b = reference.client(), server.client()
        a.command('HELLO', protocol), b.command('HELLO', protocol)
        expected, got = a.command('COMMAND', 'INFO', *names), b.command('COMMAND', 'INFO', *names)
        assert len(got) == len(names)
        for name, want, have in zip(names, expected, got):
            if not isinstance(have, list):
                wrong.append('%s: %r' % (name, have))
                continue
            # name, arity, flags, first key, last key, step, ACL categories, tips, key specifications, subcommands
            assert len(have) == 10 and type(have[2]) is type(want[2]), name
            for place, what in ((0, 'name'), (1, 'arity'), (3, 'first key'), (4, 'last key'), (5, 'step'), (8, 'key specifications')):
                if plain(want[place]) != plain(have[place]):
                    wrong.append('%s: %s\n   expected %r\n   got      %r' % (name, what, want[place], have[place]))
            for place, what in ((2, 'flags'), (6, 'categories'), (7, 'tips')):
                if sorted(plain(want[place])) != sorted(plain(have[place])):
                    wrong.append('%s: %s\n   expected %r\n   got      %r' % (name, what, sorted(want[place]), sorted(have[place])))
            if name in WITH_SUBCOMMANDS:
                theirs = {row[0]: row for row in want[9]}
                for row in have[9]:
                    # What Redis 7.0 does not know (CLIENT SETINFO, CLIENT NO-TOUCH, DEBUG's) has nothing to be compared with.
                    if row[0] in theirs and (row[1], sorted(plain(row[2])), row[3:6]) != (theirs[row[0]][1], sorted(plain(theirs[row[0]][2])), theirs[row[0]][3:6]):
                        wrong.append('%s\n   expected %r\n   got      %r' % (row[0], theirs[row[0]], row))
            elif have[9]:
                wrong.append('%s: subcommands %r' % (name, have[9]))
    assert not wrong, '\n'.join(wrong)


def test_command_and_its_subcommands(server, reference):
    c = server.client()
    everything = c.command('COMMAND')
    names = {bytes(row[0]) for row in everything}
    assert {n.encode() for n in STRINGS + KEYS + CONNECTION} <= names
    assert c.command('COMMAND', 'COUNT') == len(everything)
    assert names <= set(c.command('COMMAND', 'LIST'))
    assert set(c.command('COMMAND', 'LIST', 'FILTERBY', 'PATTERN', 'get*')) >= {b'get', b'getex', b'getdel', b'getrange', b'getset'}
    assert b'set' in c.command('COMMAND', 'LIST', 'FILTERBY', 'ACLCAT', 'write') and b'get' not in c.command('COMMAND', 'LIST', 'FILTERBY', 'ACLCAT', 'write')
    assert c.command('COMMAND', 'INFO', 'nothing', 'get')[1][0] == b'get' and not c.command('COMMAND', 'INFO', 'nothing')[0]
    docs = c.command('COMMAND', 'DOCS', 'get', 'set')
    assert docs[0] == b'get' and b'summary' in docs[1]
    c.command('HELLO', 3)
    docs = c.command('COMMAND', 'DOCS', 'get')
    assert isinstance(docs, Map) and isinstance(docs[0][1], Map) and {bytes(pair[0]) for pair in docs[0][1]} >= {b'summary', b'since', b'group', b'complexity'}
    assert isinstance(c.command('COMMAND', 'INFO', 'get')[0][2], Set)


def test_command_docs_say_what_redis_says(server, reference):
    a, b = reference.client(), server.client()
    a.command('HELLO', 3), b.command('HELLO', 3)
    wrong = []
    for name in STRINGS + [k for k in KEYS if k not in WITH_SUBCOMMANDS]:
        expected, got = ({bytes(k): v for k, v in c.command('COMMAND', 'DOCS', name)[0][1]} for c in (a, b))
        for field in (b'since', b'group'):
            if expected[field] != got.get(field):
                wrong.append('%s: %s: %r, not %r' % (name, field.decode(), got.get(field), expected[field]))
    assert not wrong, '\n'.join(wrong)


def test_help_subcommands(server):
    c = server.client()
    for name in ('OBJECT', 'CLIENT', 'COMMAND', 'CONFIG'):
        lines = c.command(name, 'HELP')
        assert isinstance(lines, list) and lines and all(isinstance(x, Simple) for x in lines) and lines[0].startswith(b'%s <subcommand>' % name.encode()), lines
        assert lines[-2] == b'HELP'


def test_info_sections(server):
    c = server.client()
    c.pipeline([('SET', 'a', 1), ('SET', 'b', 1, 'EX', 100), ('SELECT', 3), ('SET', 'c', 1)])
    everything = c.command('INFO').decode()
    for section in ('Server', 'Clients', 'Memory', 'Stats', 'CPU', 'Keyspace'):
        assert '# %s\r\n' % section in everything
        alone = c.command('INFO', section.lower()).decode()
        assert alone.startswith('# %s\r\n' % section) and alone.count('# ') == 1
    assert c.command('INFO', 'nonsense') == b''
    both = c.command('INFO', 'cpu', 'server').decode()
    assert '# CPU' in both and '# Server' in both and both.count('# ') == 2
    keyspace = server.info('keyspace')
    assert keyspace['db0'].startswith('keys=2,expires=1') and keyspace['db3'].startswith('keys=1,expires=0')
    assert len(c.command('INFO', 'everything')) >= len(everything) - 200


def test_memory_is_accounted(server):
    c = server.client()

    def used():
        return int(server.info('memory')['used_memory'])

    used()
    before = used()
    for value in ('v' * 100, 'v' * 5000, 'v' * 100000):
        c.pipeline([('SET', 'm:%d' % i, value) for i in range(200)])
        full = used()
        assert full - before > 200 * len(value)
        assert full - before < 200 * (len(value) * 1.3 + 300) + (1 << 20)
        c.command('FLUSHALL')
        wait_for(lambda: used() <= before + (1 << 18))


def test_client_subcommands(server):
    c, d = server.client(), server.client()
    first, second = c.command('CLIENT', 'ID'), d.command('CLIENT', 'ID')
    assert first != second and c.command('CLIENT', 'ID') == first
    assert not c.command('CLIENT', 'GETNAME') and c.command('CLIENT', 'SETNAME', 'me') == b'OK' and c.command('CLIENT', 'GETNAME') == b'me'
    if server.kind == 'darter':
        assert c.command('CLIENT', 'SETINFO', 'LIB-NAME', 'test') == b'OK' and c.command('CLIENT', 'SETINFO', 'lib-ver', '1.0') == b'OK'
        assert isinstance(c.command('CLIENT', 'SETINFO', 'nonsense', 'x'), Error) and isinstance(c.command('CLIENT', 'SETINFO', 'LIB-NAME', 'a b'), Error)
        assert c.command('CLIENT', 'NO-TOUCH', 'ON') == b'OK' and c.command('CLIENT', 'NO-TOUCH', 'OFF') == b'OK' and isinstance(c.command('CLIENT', 'NO-TOUCH', 'x'), Error)
    c.command('RESET')
    assert not c.command('CLIENT', 'GETNAME')


def test_debug_needs_permission(start, reference):
    server = start()
    reply = server.client().command('DEBUG', 'SLEEP', '0')
    assert isinstance(reply, Error) and reply.startswith(b'ERR DEBUG command not allowed. If the enable-debug-command option is set to "local"'), reply
    local = start(options=[('enable-debug-command', 'local')])
    assert local.client().command('DEBUG', 'SLEEP', '0') == b'OK'


def test_debug_sleep_and_object(start):
    server = start(options=[('enable-debug-command', 'yes')])
    c = server.client()
    begin = time.monotonic()
    assert c.command('DEBUG', 'SLEEP', '0.2') == b'OK' and .2 <= time.monotonic() - begin < PATIENCE / 2
    c.command('SET', 'k', 'v')
    assert b'encoding:embstr' in c.command('DEBUG', 'OBJECT', 'k')
    assert c.command('DEBUG', 'OBJECT', 'nothing') == b'ERR no such key'


@pytest.mark.alone
def test_debug_populate(start):
    server = start(options=[('enable-debug-command', 'yes')])
    c = server.client(timeout=PATIENCE)
    count = 20000 if LIGHT else 300000
    assert c.command('DEBUG', 'POPULATE', count) == b'OK' and c.command('DBSIZE') == count
    assert c.command('GET', 'key:0') == b'value:0' and c.command('GET', 'key:%d' % (count - 1)) == b'value:%d' % (count - 1)
    assert c.command('DEBUG', 'POPULATE', 1000, 'p', 100) == b'OK' and c.command('DBSIZE') == count + 1000
    value = c.command('GET', 'p:7')
    assert len(value) == 100 and value.startswith(b'value:7\0')
    # Keys that are there stay as they are.
    c.command('SET', 'p:7', 'mine')
    assert c.command('DEBUG', 'POPULATE', 1000, 'p', 100) == b'OK' and c.command('GET', 'p:7') == b'mine' and c.command('DBSIZE') == count + 1000
    found, cursor = set(), b'0'
    while True:
        cursor, keys = c.command('SCAN', cursor, 'COUNT', 1000)
        found.update(keys)
        if cursor == b'0':
            break
    assert found == {b'key:%d' % n for n in range(count)} | {b'p:%d' % n for n in range(1000)}
    several = [n for n in (0, 9, 10, 99, 100, 101, 767, 768, 999, 1000, 9999, 10000, 19999, 99999, 100000, 299999) if n < count]
    assert c.command('MGET', *('key:%d' % n for n in several)) == [b'value:%d' % n for n in several]
    for size in (1, 7, 8, 300):     # the text is cut, or zeros follow
        assert c.command('DEBUG', 'POPULATE', 120, 'of%d' % size, size) == b'OK'
        values = c.command('MGET', *('of%d:%d' % (size, n) for n in range(120)))
        assert values == [(b'value:%d' % n).ljust(size, b'\0')[:size] for n in range(120)]
    assert c.command('DEBUG', 'POPULATE', 20, '') == b'OK' and c.command('GET', ':19') == b'value:19'
    if server.kind == 'darter':
        assert b'segments' in c.command('DEBUG', 'HTSTATS', 0).lower()
    assert c.command('FLUSHALL') == b'OK' and c.command('DBSIZE') == 0


def test_a_digest_is_of_the_data_and_of_nothing_else(start):
    """Whatever order they came in, whichever shard has them; and each change is seen. The values are redis-server's."""
    server = start(options=[('enable-debug-command', 'yes')])
    c = server.client()
    assert c.command('FLUSHALL') == b'OK' and c.command('DEBUG', 'DIGEST') == b'0' * 40
    commands = [('SET', 'a', '1'), ('SET', 'b', 'x' * 100000), ('RPUSH', 'l', 'a', '2', 'a'), ('SADD', 's', 'x', 'y', '1'), ('SADD', 'i', '1', '2'), ('ZADD', 'z', '1.5', 'a', 'inf', 'b'),
                ('HSET', 'h', 'f', 'v', 'g', '12')]
    for command in commands:
        c.command(*command)
    first = c.command('DEBUG', 'DIGEST')
    assert first == b'065c2d036251b7935e41238fcb8e362bd978c3d7'
    assert c.command('DEBUG', 'DIGEST-VALUE', 'l', 'z', 'nothing') == [b'3722b7a364420fd4f65c705b76e7654e285f6c17', b'e59228f0b3b4ebae6975e3449a12b75db333f555', b'0' * 40]
    for change, undo in ((('LSET', 'l', 0, 'b'), ('LSET', 'l', 0, 'a')), (('HSET', 'h', 'f', 'w'), ('HSET', 'h', 'f', 'v')), (('EXPIRE', 'a', 1000), ('PERSIST', 'a')),
                         (('SADD', 'i', 3), ('SREM', 'i', 3)), (('ZADD', 'z', '1.6', 'a'), ('ZADD', 'z', '1.5', 'a')), (('RENAME', 'a', 'aa'), ('RENAME', 'aa', 'a')),
                         (('MOVE', 'a', 1), None)):
        c.command(*change)
        assert c.command('DEBUG', 'DIGEST') != first
        if undo:
            c.command(*undo)
            assert c.command('DEBUG', 'DIGEST') == first
    assert c.command('FLUSHALL') == b'OK'
    for command in reversed(commands):
        c.command(*command)
    assert c.command('DEBUG', 'DIGEST') == first and c.pipeline([('MULTI',), ('DEBUG', 'DIGEST'), ('DEBUG', 'DIGEST-VALUE', 'a', 'b'), ('EXEC',)])[3][0] == first
    assert c.command('FLUSHALL') == b'OK'
    if server.kind == 'darter':     # a field's time counts, and one that is over is none
        c.command('HSET', 'h', 'f', 'v', 'g', 'w')
        before = c.command('DEBUG', 'DIGEST-VALUE', 'h')
        c.command('HEXPIRE', 'h', 1000, 'FIELDS', 1, 'g')
        assert c.command('DEBUG', 'DIGEST-VALUE', 'h') != before


def test_scan_while_the_keys_change(server):
    """An element that is there during the whole scan is returned, whatever else comes and goes."""
    c, other = server.client(), server.client()
    stays = {b'stays:%d' % i for i in range(3000)}
    c.pipeline([('SET', k, 1) for k in stays])
    found, cursor, n = set(), b'0', 0
    while True:
        cursor, keys = c.command('SCAN', cursor, 'COUNT', 20)
        found.update(keys)
        n += 1
        other.pipeline([('SET', 'comes:%d:%d' % (n, i), 1) for i in range(60)] + [('DEL', 'comes:%d:%d' % (n - 3, i)) for i in range(60)])
        if n % 40 == 0:
            other.command('DEL', *['comes:%d:%d' % (m, i) for m in range(n) for i in range(60)])
        assert n < 5000
        if cursor == b'0':
            break
    assert stays <= found


def test_object_encoding_of_what_was_set(server):
    c = server.client()
    for value, encoding in ((b'1', b'int'), (b'-5', b'int'), (b'9223372036854775807', b'int'), (b'9223372036854775808', b'embstr'), (b'01', b'embstr'), (b'', b'embstr'), (b'a' * 44, b'embstr'),
                            (b'a' * 45, b'raw'), (b'1.5', b'embstr'), (b'x' * 20000, b'raw')):
        c.command('SET', 'k', value)
        assert c.command('OBJECT', 'ENCODING', 'k') == encoding, value[:50]


def test_swapdb_and_flush(server):
    c, d = server.client(), server.client()
    d.command('SELECT', 1)
    for n in range(200):
        c.command('SET', 'k:%d' % n, 'zero')
    d.command('SET', 'k:0', 'one')
    assert c.command('SWAPDB', 0, 1) == b'OK'
    assert c.command('DBSIZE') == 1 and d.command('DBSIZE') == 200 and c.command('GET', 'k:0') == b'one' and d.command('GET', 'k:199') == b'zero'
    assert d.command('FLUSHDB', 'ASYNC') == b'OK' and d.command('DBSIZE') == 0 and c.command('DBSIZE') == 1
    assert d.command('FLUSHALL') == b'OK' and c.command('DBSIZE') == 0


def clients_of(c):
    return {int(line.split()[0][3:]) for line in bytes(c.command('CLIENT', 'LIST')).decode().splitlines()}


@pytest.mark.parametrize('how', ['close', 'kill', 'half'])
def test_populate_stops_once_its_client_has_left(start, how):
    """What it was asked for would take all memory; it serves nobody but who asked."""
    server = start(options=[('enable-debug-command', 'yes')])
    c, populator = server.client(), server.client()
    number = populator.command('CLIENT', 'ID')
    populator.send(encode('DEBUG', 'POPULATE', 10 ** 12))
    while c.command('DBSIZE') < 1000:
        pass
    if how == 'kill':
        assert c.command('CLIENT', 'KILL', 'ID', number) == 1
    elif how == 'close':
        populator.close()
    else:
        populator.socket.shutdown(socket.SHUT_WR)
        assert populator.read().startswith(b'ERR stopped before all keys were made')
    wait_for(lambda: number not in clients_of(c))       # a client is there until its command has ended
    size = c.command('DBSIZE')
    time.sleep(.05)
    assert c.command('DBSIZE') == size < 10 ** 9
