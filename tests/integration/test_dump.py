"""DUMP and RESTORE: to redis-server and back, every type in every encoding; errors; options; what is damaged; long values beside other clients."""
import random
import struct
import time

import pytest
from persistence import crc64
from resp import NIL_ARRAY, Error, encode
from server import long_slices, wait_for

NODE_SIZES = [3, 128, -1, -2, -5]


def sealed(p, version=10):
    p += struct.pack('<H', version)
    return p + struct.pack('<Q', crc64(p))


def draw(rng):
    kind = rng.randrange(5)
    if kind == 0:
        return b'%d' % rng.randrange(-2 ** rng.randrange(1, 64), 2 ** rng.randrange(1, 63))
    if kind == 1:
        return rng.randbytes(rng.randrange(300))
    if kind == 2:
        return b'ab' * rng.randrange(200) + b'x'
    return b'member:%d' % rng.randrange(10 ** 6)


def make(c, rng, key):
    """A key of any type and size; the command that shows all of it, in an order of its own."""
    n = rng.choice([1, 2, 20, 200, 700])
    kind = rng.randrange(7)
    c.command('DEL', key)
    if kind == 0:
        c.command('SET', key, rng.choice([draw(rng), b'12345', b'-1', b'x' * 20000, rng.randbytes(100000), b'ab' * 60000]))
        return 'GET', key
    if kind == 1:
        c.command('RPUSH', key, *(draw(rng) for _ in range(n)))
        return 'LRANGE', key, '0', '-1'
    if kind == 2:
        c.command('SADD', key, *(b'%d' % rng.randrange(-2 ** 40, 2 ** 40) for _ in range(n)))
        return 'SMEMBERS', key
    if kind == 3:
        c.command('SADD', key, *(draw(rng) for _ in range(n)))
        return 'SMEMBERS', key
    if kind == 4:
        c.command('ZADD', key, *(x for _ in range(n) for x in (rng.choice([b'inf', b'-inf', b'1.5', b'-0', b'%d' % rng.randrange(-9, 9), repr(rng.random()).encode()]), draw(rng))))
        return 'ZRANGE', key, '0', '-1', 'WITHSCORES'
    if kind == 5:
        c.command('SETBIT', key, rng.randrange(400, 5000), 1)
        return 'GET', key
    c.command('HSET', key, *(draw(rng) for _ in range(2 * n)))
    return 'HGETALL', key


def content(c, show):
    reply = c.command(*show)
    if show[0] == 'SMEMBERS':
        return sorted(bytes(x) for x in reply)
    if show[0] == 'HGETALL':
        return sorted((bytes(reply[i]), bytes(reply[i + 1])) for i in range(0, len(reply), 2))
    return reply


@pytest.mark.parametrize('seed', range(2))
def test_all_types_go_to_redis_and_back(server, reference, seed):
    ours, theirs = server.client(), reference.client()
    rng = random.Random(seed)
    theirs.command('CONFIG', 'SET', 'sanitize-dump-payload', 'yes')
    for i in range(60):
        for a, b in ((ours, theirs), (theirs, ours)):
            theirs.command('CONFIG', 'SET', 'list-max-listpack-size', rng.choice(NODE_SIZES))
            ours.command('CONFIG', 'SET', 'rdbcompression', rng.choice(['yes', 'no']))
            show = make(a, rng, b'from')
            dumped = a.command('DUMP', 'from')
            assert b.command('RESTORE', 'to', 0, dumped, 'REPLACE') == b'OK', show
            assert content(a, show) == content(b, (show[0], b'to', *show[2:]))
            assert a.command('OBJECT', 'ENCODING', 'from') == b.command('OBJECT', 'ENCODING', 'to')
            # And home again.
            assert a.command('RESTORE', 'home', 0, b.command('DUMP', 'to'), 'REPLACE') == b'OK'
            assert content(a, show) == content(a, (show[0], b'home', *show[2:]))


def test_replies_are_those_of_redis(server, reference):
    good, text = sealed(b'\0\x03abc'), sealed(b'\0\x03abc')
    calls = [('DUMP', 'none'), ('DUMP',), ('SET', 'k', 'abc'), ('DUMP', 'k'), ('RESTORE', 'k', '0', good), ('RESTORE', 'k', 'x', good), ('RESTORE', 'new', 'x', good),
             ('RESTORE', 'new', '-1', good), ('RESTORE', 'new', '0', good, 'FOO'), ('RESTORE', 'new', '0', good, 'IDLETIME'), ('RESTORE', 'new', '0', good, 'IDLETIME', '-1'),
             ('RESTORE', 'new', '0', good, 'IDLETIME', 'x'), ('RESTORE', 'new', '0', good, 'FREQ', '256'), ('RESTORE', 'new', '0', good, 'FREQ', '-1'),
             ('RESTORE', 'new', '0', good, 'FREQ', '1', 'IDLETIME', '1'), ('RESTORE', 'new', '0', good, 'IDLETIME', '1', 'FREQ', '1'), ('RESTORE', 'new', '0', 'short'),
             ('RESTORE', 'new', '0', good[:-1] + b'x'), ('RESTORE', 'new', '0', sealed(b'\0\x03abc', 99)), ('RESTORE', 'new', '0', sealed(b'')), ('RESTORE', 'new', '0', sealed(b'\x63abc')),
             ('RESTORE', 'new', '0', ''), ('EXISTS', 'new'), ('RESTORE', 'new', '0', text, 'replace', 'idletime', '1000'), ('GET', 'new'),
             ('RESTORE', 'new', '100000', text, 'replace'), ('GET', 'new'), ('PERSIST', 'new'), ('RESTORE', 'new', '1', text, 'ABSTTL', 'REPLACE'), ('EXISTS', 'new'),
             ('RESTORE', 'new', '1', text, 'ABSTTL'), ('EXISTS', 'new'), ('RESTORE', 'new', '0', text, 'ABSTTL'), ('TTL', 'new'), ('RESTORE', 'l', '0', sealed(b'\x01\x01\x01a')), ('LRANGE', 'l', '0', '-1'),
             ('RESTORE', 'new', '0', text, 'FREQ', '7', 'REPLACE'), ('GET', 'new'), ('MULTI',), ('RESTORE', 'l', '0', text, 'REPLACE'), ('DUMP', 'l'), ('EXEC',)]
    a, b = server.client(), reference.client()
    b.command('FLUSHALL')
    for call in calls:
        mine, theirs = a.command(*call), b.command(*call)
        if isinstance(theirs, (bytes, bytearray)) and call[0] == 'DUMP':
            assert mine[:-10] == theirs[:-10]
        else:
            assert str(mine) == str(theirs), call


def test_idletime_and_times_are_kept(server):
    c = server.client()
    payload = sealed(b'\0\x03abc')
    assert c.command('RESTORE', 'k', 0, payload, 'IDLETIME', 1600) == b'OK'
    assert 1580 <= c.command('OBJECT', 'IDLETIME', 'k') <= 1620
    at = int(time.time() * 1000) + 500000
    for value in (b'\0\x03abc', b'\x01\x01\x01a', b'\x02\x01\x01a', b'\x04\x01\x01a\x01b'):
        assert c.command('RESTORE', 'k', at, sealed(value), 'REPLACE', 'ABSTTL') == b'OK'
        assert c.command('PEXPIRETIME', 'k') == at


def test_fields_with_times_are_kept(server):
    a = server.client()
    a.command('HSET', 'h', 'f', 'v', 'g', 'w', 'h', 'x')
    a.command('HPEXPIREAT', 'h', 4102444800123, 'FIELDS', 1, 'f')
    a.command('HPEXPIREAT', 'h', 4102444800789, 'FIELDS', 1, 'g')
    dumped = bytes(a.command('DUMP', 'h'))
    assert dumped[0] == 24 and dumped[-10:-8] == b'\x0c\0'
    assert a.command('RESTORE', 'copy', 0, dumped) == b'OK'
    assert a.command('HPEXPIRETIME', 'copy', 'FIELDS', 3, 'f', 'g', 'h') == [4102444800123, 4102444800789, -1]


def test_a_restore_is_seen_by_watch_and_by_who_waits(server):
    a, b = server.client(), server.client()
    a.command('WATCH', 'w')
    b.command('RESTORE', 'w', 0, sealed(b'\0\x01x'))
    a.command('MULTI'), a.command('PING')
    assert a.command('EXEC') == NIL_ARRAY
    a.send(encode('BLPOP', 'list', 0))
    wait_for(lambda: b'cmd=blpop' in b.command('CLIENT', 'LIST'))
    b.command('RESTORE', 'list', 0, sealed(b'\x01\x01\x01a'))
    assert a.read() == [b'list', b'a']


def test_what_is_damaged_is_refused_and_changes_nothing(server):
    c = server.client()
    rng = random.Random(7)
    c.command('SET', 'k', 'stays')
    used = 0
    for i in range(300):
        make(c, rng, b'from')
        body = bytearray(bytes(c.command('DUMP', 'from'))[:-10][:3000])
        for _ in range(1 + rng.randrange(3)):
            body[rng.randrange(len(body))] = rng.randrange(256)
        reply = c.command('RESTORE', 'k', 0, sealed(bytes(body)), 'REPLACE')
        if isinstance(reply, Error):
            used += 1
            assert reply.startswith(b'ERR Bad data format'), reply
            assert c.command('GET', 'k') == b'stays'
        else:
            c.command('SET', 'k', 'stays')
    assert used > 50
    for body in (b'\x02\x02\x01a\x01a', b'\x05\x01\x01a\0\0\0\0\0\0\xf8\x7f', b'\x01\0', b'\0\x03abcd', b'\x04\x02\x01a\x01b\x01a\x01c',
                 b'\x09\x07\x02\x01a\x01\0b\xff', b'\x09\x07\xff\x01a\x01\0b\xff', b'\x03\x01\x01a\x021\0', b'\x11\x0e\x0e\0\0\0\x02\0\x81a\x02\x821\0\x03\xff'):
        assert c.command('RESTORE', 'k', 0, sealed(body), 'REPLACE') == Error(b'ERR Bad data format')
    assert b'streams' in c.command('RESTORE', 's', 0, sealed(b'\x13\0'))
    assert c.command('GET', 'k') == b'stays'


def test_what_is_damaged_is_refused_though_its_time_is_past(server, reference):
    """As in redis-server: nobody would see the value, but the key that it was to replace stays."""
    bodies = [b'\x02\x02\x01a\x01a', b'\x05\x01\x01a\0\0\0\0\0\0\xf8\x7f', b'\x01\0', b'\x10\x07\x07\0\0\0\0\0\xff']
    for c in (server.client(), reference.client()):
        for body in bodies:
            c.command('SET', 'k', 'stays')
            for options in (['ABSTTL', 'REPLACE'], ['REPLACE', 'ABSTTL', 'IDLETIME', '7']):
                assert c.command('RESTORE', 'k', 1, sealed(body), *options) == Error(b'ERR Bad data format')
            assert c.command('RESTORE', 'nobody', 1, sealed(body), 'ABSTTL') == Error(b'ERR Bad data format')
            assert c.command('GET', 'k') == b'stays'
        for body in (b'\0\x03abc', b'\x02\x02\x01a\x01b', b'\x05\x01\x01a' + b'\0' * 8, b'\x04\x01\x01a\x01b'):
            c.command('SET', 'k', 'goes')
            assert c.command('RESTORE', 'k', 1, sealed(body), 'ABSTTL', 'REPLACE', 'IDLETIME', '7') == b'OK'
            assert c.command('EXISTS', 'k') == 0


def test_members_can_be_copied_as_a_scan_gives_them(server):
    """In the order of their hashes, which fills one page after the other."""
    c = server.client()
    n = 20000
    names = ['member:%d' % i for i in range(n)]
    for i in range(0, n, 1000):
        c.pipeline([('SADD', 's', *names[i:i + 1000]), ('HSET', 'h', *(x for name in names[i:i + 1000] for x in (name, 'v'))),
                    ('ZADD', 'z', *(x for name in names[i:i + 1000] for x in (1, name)))])
    for scan, key, add, pick in (('SSCAN', 's', 'SADD', lambda x: x), ('HSCAN', 'h', 'HSET', lambda x: x), ('ZSCAN', 'z', 'ZADD', lambda x: [y for i in range(0, len(x), 2) for y in (x[i + 1], x[i])])):
        cursor = b'0'
        while True:
            cursor, found = c.command(scan, key, cursor, 'COUNT', 500)
            reply = c.command(add, key + 'copy{' + key + '}', *pick(found))
            assert not isinstance(reply, Error), reply
            if cursor == b'0':
                break
    assert [c.command('SCARD', 'scopy{s}'), c.command('HLEN', 'hcopy{h}'), c.command('ZCARD', 'zcopy{z}')] == [n] * 3


def test_the_budget_refuses_a_value(start):
    server = start(options=[('maxmemory', '64mb')])
    c = server.client()
    c.command('RPUSH', 'l', *(b'%050d' % i for i in range(2000)))
    dumped = c.command('DUMP', 'l')
    n = 0
    while c.command('RESTORE', '{one shard}%d' % n, 0, dumped) == b'OK':
        n += 1
        assert n < 2000
    assert c.command('RESTORE', '{one shard}', 0, dumped).startswith(b'OOM ')
    assert c.command('EXISTS', '{one shard}%d' % n, '{one shard}') == 0
    assert c.command('LLEN', '{one shard}%d' % (n - 1)) == 2000


def test_a_long_dump_goes_on_in_slices(server):
    a, b = server.client(), server.client()
    for i in range(0, 200000, 5000):
        a.command('ZADD', 'z', *(x for j in range(i, i + 5000) for x in (j, 'member:%d' % j)))
    a.send(encode('DUMP', 'z'))
    a.send(encode('ZADD', 'z', 1, 'later'))
    for i in range(50):
        assert b.command('INCR', 'n') == i + 1
    dumped = a.read()
    assert a.read() == 1
    assert a.command('RESTORE', 'copy', 0, dumped) == b'OK'
    assert a.command('ZCARD', 'copy') == 200000
    assert a.command('ZRANGE', 'copy', 199998, 199999, 'WITHSCORES') == [b'member:199998', b'199998', b'member:199999', b'199999']
    a.command('SET', 'long', b'x' * 3000000)
    assert a.command('RESTORE', 'other', 0, a.command('DUMP', 'long')) == b'OK'
    assert a.command('GET', 'other') == b'x' * 3000000


LONG = {
    'SMEMBERS': lambda c, n: [c.command('SADD', 'from', *('member:%d' % j for j in range(i, i + 500))) for i in range(0, n, 500)],
    'HGETALL': lambda c, n: [c.command('HSET', 'from', *(x for j in range(i, i + 500) for x in ('field:%d' % j, j))) for i in range(0, n, 500)],
    'ZRANGE': lambda c, n: [c.command('ZADD', 'from', *(x for j in range(i, i + 500) for x in (j * 7 % 1000, 'member:%d' % j))) for i in range(0, n, 500)],
    'LRANGE': lambda c, n: [c.command('RPUSH', 'from', *('element:%d' % j for j in range(i, i + 500))) for i in range(0, n, 500)]}


@pytest.mark.parametrize('show', LONG)
def test_a_long_payload_is_restored_in_slices(server, reference, show):
    c, theirs = server.client(), reference.client()
    whole = (show, b'from', *([] if show in ('SMEMBERS', 'HGETALL') else ['0', '-1']))
    for from_ in (c, theirs):
        from_.command('DEL', 'from')
        LONG[show](from_, 40000)
        dumped, before = bytes(from_.command('DUMP', 'from')), content(from_, whole)
        from_.command('DEL', 'from')
        slices = long_slices(c)
        assert c.command('RESTORE', 'from', 100000, dumped) == b'OK'
        assert long_slices(c) - slices >= 10
        assert content(c, whole) == before
        assert 0 < c.command('PTTL', 'from') <= 100000
        assert c.command('RESTORE', 'from', 0, dumped) == Error(b'BUSYKEY Target key name already exists.')
        assert c.command('RESTORE', 'from', 0, dumped, 'REPLACE', 'IDLETIME', 1600) == b'OK'
        assert c.command('PTTL', 'from') == -1
        assert c.command('MULTI') == b'OK'
        c.command('RESTORE', 'from', 0, dumped, 'REPLACE')
        assert c.command('EXEC') == [b'OK']
        assert content(c, whole) == before
        assert c.command('RESTORE', 'from', 1, dumped, 'REPLACE', 'ABSTTL') == b'OK'
        assert c.command('EXISTS', 'from') == 0


PACKED = {
    'SMEMBERS': ('set-max-intset-entries', lambda c, n: c.command('SADD', 'from', *range(0, 7 * n, 7))),
    'HGETALL': ('hash-max-listpack-entries', LONG['HGETALL']),
    'ZRANGE': ('zset-max-listpack-entries', LONG['ZRANGE']),
    'LRANGE': ('list-max-listpack-size', LONG['LRANGE'])}


@pytest.mark.parametrize('compress', ['yes', 'no'])
@pytest.mark.parametrize('show', PACKED)
def test_a_long_packed_payload_is_restored_in_slices(server, reference, show, compress):
    """All in one block, as redis-server has it if it is told so, compressed or not."""
    c, theirs = server.client(), reference.client()
    directive, make_it = PACKED[show]
    before = theirs.command('CONFIG', 'GET', directive)[1]
    whole = (show, b'from', *([] if show in ('SMEMBERS', 'HGETALL') else ['0', '-1']))
    theirs.command('CONFIG', 'SET', directive, 100000 if show != 'LRANGE' else 32000, 'rdbcompression', compress)
    theirs.command('DEL', 'from')
    make_it(theirs, 9000)
    dumped, there = bytes(theirs.command('DUMP', 'from')), content(theirs, whole)
    theirs.command('CONFIG', 'SET', directive, before, 'rdbcompression', 'yes')
    slices = long_slices(c)
    assert c.command('RESTORE', 'from', 0, dumped) == b'OK'
    assert long_slices(c) - slices >= 8
    assert content(c, whole) == there
    assert c.pipeline([('MULTI',), ('RESTORE', 'from', 0, dumped, 'REPLACE'), ('EXEC',)])[-1] == [b'OK']
    assert content(c, whole) == there


STRINGS = {'random': random.Random(5).randbytes(12 << 20), 'repeats': b'ab' * (6 << 20), 'mixed': (random.Random(6).randbytes(5000) + b'x' * 9000) * 800}


@pytest.mark.parametrize('name', STRINGS)
def test_a_long_string_is_dumped_and_restored_in_slices(server, reference, name):
    c, theirs, value = server.client(), reference.client(), STRINGS[name]
    for from_ in (c, theirs):       # redis-server compresses it as a whole
        from_.command('SET', 'from', value)
        slices = long_slices(c)
        dumped = bytes(from_.command('DUMP', 'from'))
        assert from_ is theirs or long_slices(c) - slices >= len(value) // (48 << 10)      # 64 KiB written, then 128 KiB copied to the reply
        assert c.command('RESTORE', 'from', 0, dumped, 'REPLACE') == b'OK'
        c.command('DEL', 'from')
        slices = long_slices(c)
        assert c.command('RESTORE', 'from', 100000, dumped) == b'OK'
        assert long_slices(c) - slices >= 20
        assert bytes(c.command('GET', 'from')) == value and 0 < c.command('PTTL', 'from') <= 100000
        assert c.command('RESTORE', 'from', 0, dumped) == Error(b'BUSYKEY Target key name already exists.')
        assert c.command('RESTORE', 'from', 1, dumped, 'REPLACE', 'ABSTTL') == b'OK'
        assert c.command('EXISTS', 'from') == 0
        assert c.pipeline([('MULTI',), ('RESTORE', 'from', 0, dumped), ('APPEND', 'from', 'end'), ('EXEC',)])[-1] == [b'OK', len(value) + 3]
        assert bytes(c.command('GET', 'from')) == value + b'end'
        theirs.command('DEL', 'from')


NOISE = STRINGS['random'][:8 << 20]
REPEATS = STRINGS['repeats'][:8 << 20]
LONG_ELEMENTS = {
    'list': [('RPUSH', 'from', 'a', NOISE, REPEATS, 'b')], 'set': [('SADD', 'from', 'a', NOISE, 'b', REPEATS)], 'zset': [('ZADD', 'from', 1, 'a', 2, NOISE, 3, REPEATS)],
    'hash': [('HSET', 'from', 'f', NOISE, 'g', REPEATS, NOISE[:9 << 18], 'value', 'h', 'short')],
    'hash with times': [('HSET', 'from', 'f', NOISE, 'g', 'short', NOISE[:9 << 18], REPEATS), ('HEXPIRE', 'from', 1000, 'FIELDS', 1, 'f')]}


@pytest.mark.parametrize('name', LONG_ELEMENTS)
def test_a_long_element_is_dumped_and_restored_in_slices(server, reference, name):
    """However few elements there are beside it; and from what redis-server has compressed as a whole."""
    c, theirs, show = server.client(), reference.client(), {'list': ('LRANGE', 'from', 0, -1), 'set': ('SMEMBERS', 'from'), 'zset': ('ZRANGE', 'from', 0, -1, 'WITHSCORES')}.get(name, ('HGETALL', 'from'))
    for from_ in (c, theirs)[:1 if 'times' in name else 2]:
        from_.pipeline(LONG_ELEMENTS[name])
        whole = sorted(map(bytes, c.command(*show))) if from_ is c else whole
        slices = long_slices(c)
        dumped = bytes(from_.command('DUMP', 'from'))
        assert from_ is theirs or long_slices(c) - slices >= len(dumped) // (48 << 10)
        c.command('DEL', 'from')
        slices = long_slices(c)
        assert c.command('RESTORE', 'from', 0, dumped) == b'OK'
        # summed 512 KiB a slice, and moved 128 KiB, or unpacked 256 KiB
        assert long_slices(c) - slices >= len(dumped) // (512 << 10) + (sum(map(len, whole)) // (288 << 10))
        assert sorted(map(bytes, c.command(*show))) == whole
        assert 'times' not in name or c.command('HTTL', 'from', 'FIELDS', 2, 'f', 'g')[0] > 900
        assert c.pipeline([('MULTI',), ('RESTORE', 'from', 0, dumped, 'REPLACE'), ('EXEC',)])[-1] == [b'OK']
        assert sorted(map(bytes, c.command(*show))) == whole
        theirs.command('DEL', 'from')
    c.command('FLUSHALL')
    wait_for(lambda: int(server.info('memory')['used_memory']) < 8 << 20)


@pytest.mark.parametrize('name', ['list', 'set', 'zset', 'hash'])
def test_a_long_element_beyond_the_limit_is_refused(server, name):
    c = server.client()
    c.pipeline(LONG_ELEMENTS[name])
    dumped = bytes(c.command('DUMP', 'from'))
    c.command('FLUSHALL')
    c.command('CONFIG', 'SET', 'maxmemory', 12 << 20)       # the first long one has room
    for _ in range(3):
        assert c.command('RESTORE', 'from', 0, dumped).startswith(b'OOM ')
    assert c.command('EXISTS', 'from') == 0
    c.command('CONFIG', 'SET', 'maxmemory', 0)
    assert c.command('RESTORE', 'from', 0, dumped) == b'OK'


@pytest.mark.parametrize('name', STRINGS)
def test_a_long_string_that_is_damaged_changes_nothing(server, reference, name):
    c, theirs = server.client(), reference.client()
    theirs.command('SET', 'from', STRINGS[name][:400000] if name == 'random' else STRINGS[name])
    body = bytes(theirs.command('DUMP', 'from'))[:-10]
    theirs.command('DEL', 'from')
    if len(body) > 500000:
        theirs.command('SET', 'from', STRINGS[name][:400000])
        body = bytes(theirs.command('DUMP', 'from'))[:-10]
    c.command('SET', 'k', 'stays')
    damages = [body[:-1], body[:len(body) // 2], body + b'x', body[:1] + b'\xc3' + body[2:] if name == 'random' else body[:-40] + b'\xff' * 40]
    for damaged in map(sealed, damages):
        for options in ([0, 'REPLACE'], [1, 'REPLACE', 'ABSTTL']):
            assert c.command('RESTORE', 'k', options[0], damaged, *options[1:]) == Error(b'ERR Bad data format')
    whole = sealed(body)
    assert c.command('RESTORE', 'k', 0, whole[:-1] + bytes([whole[-1] ^ 1]), 'REPLACE') == Error(b'ERR DUMP payload version or checksum are wrong')
    assert c.command('GET', 'k') == b'stays'
    assert c.command('RESTORE', 'k', 0, whole, 'REPLACE') == b'OK'


def test_a_long_string_beyond_the_limit_is_refused(server):
    c = server.client()
    c.command('SET', 'from', STRINGS['random'])
    dumped = bytes(c.command('DUMP', 'from'))
    c.command('DEL', 'from')
    c.command('CONFIG', 'SET', 'maxmemory', 8 << 20)
    for _ in range(3):
        assert c.command('RESTORE', 'from', 0, dumped).startswith(b'OOM ')
    assert c.command('EXISTS', 'from') == 0
    c.command('CONFIG', 'SET', 'maxmemory', 0)
    assert c.command('RESTORE', 'from', 0, dumped) == b'OK'
    assert bytes(c.command('GET', 'from')) == STRINGS['random']


def length(n):
    return b'\x80' + struct.pack('>I', n)


def compressed(size):
    """So many bytes of x, as LZF has them in few, but for the last of them, which are missing."""
    packed = b'\0x' + b'\xe0\xff\0' * ((size - 1) // 264)
    return b'\xc3' + length(len(packed)) + length(size) + packed


UNPACKED = 48 << 20
SWELLING = {
    'string': b'\0' + compressed(UNPACKED),
    'packed set': b'\x14' + compressed(UNPACKED),
    'packed hash': b'\x10' + compressed(UNPACKED),
    'packed list': b'\x12\x01\x02' + compressed(UNPACKED),
    'field': b'\x04\x01' + compressed(UNPACKED) + b'\x01v'}


@pytest.mark.parametrize('kind', SWELLING)
def test_what_a_payload_would_become_is_asked_of_the_budget_before(server, kind):
    """It is damaged, which one finds at its end only: so it was not even unpacked."""
    c = server.client()
    c.command('CONFIG', 'SET', 'maxmemory', 16 << 20)
    c.command('SET', 'from', 'v')
    for _ in range(2):
        assert c.command('RESTORE', 'from', 0, sealed(SWELLING[kind]), 'REPLACE').startswith(b'OOM ')
        assert c.command('GET', 'from') == b'v'
    c.command('CONFIG', 'SET', 'maxmemory', 160 << 20)
    for _ in range(4):      # and what was asked for is given back
        assert c.command('RESTORE', 'from', 0, sealed(SWELLING[kind]), 'REPLACE') == Error(b'ERR Bad data format')
    assert c.command('GET', 'from') == b'v'


@pytest.mark.parametrize('show', LONG)
def test_a_long_payload_that_is_damaged_changes_nothing(server, show):
    c = server.client()
    LONG[show](c, 20000)
    body = bytes(c.command('DUMP', 'from'))[:-10]
    assert len(body) > 1 << 17
    c.command('DEL', 'from')
    c.command('SET', 'k', 'stays')
    for damaged in map(sealed, (body[:-1], body[:len(body) // 2], body + b'x', body[:-100] + b'\xff' * 100)):
        for options in ([0, 'REPLACE'], [1, 'REPLACE', 'ABSTTL']):
            assert c.command('RESTORE', 'k', options[0], damaged, *options[1:]) == Error(b'ERR Bad data format')
    whole = sealed(body)
    assert c.command('RESTORE', 'k', 0, whole[:-1] + bytes([whole[-1] ^ 1]), 'REPLACE') == Error(b'ERR DUMP payload version or checksum are wrong')
    assert c.command('RESTORE', 'k', 0, sealed(body, 99), 'REPLACE') == Error(b'ERR DUMP payload version or checksum are wrong')
    assert c.command('GET', 'k') == b'stays'
    assert c.command('RESTORE', 'k', 0, whole, 'REPLACE') == b'OK'


def test_who_wants_a_key_that_is_restored_waits_and_others_do_not(server):
    c, d, e = server.client(), server.client(), server.client()
    LONG['ZRANGE'](c, 60000)
    dumped = c.command('DUMP', 'from')
    for i in range(5):
        c.command('DEL', 'from')
        c.send(encode('RESTORE', 'from', 0, dumped))
        d.send(encode('ZADD', 'from', 1, 'one more'))
        for _ in range(20):
            assert e.command('INCR', 'other') > 0
        restored, added = c.read(), d.read()
        # Whichever came first: nobody sees a part of it.
        assert added == 1
        assert (restored, c.command('ZCARD', 'from')) in ((b'OK', 60001), (Error(b'BUSYKEY Target key name already exists.'), 1))
