"""Bitmaps over a socket: values of any size, over any shards. What each option and error is, the oracle compares."""

import random

import pytest

from configurations import LIGHT
from resp import encode
from server import PATIENCE
from test_slices import answered_first, long_slices

MIB = 1 << 20
LARGE = 2 * MIB if LIGHT else 12 * MIB          # from 8 MiB on a value has pages of its own
NAMES = ['k%d' % n for n in range(6)]           # of several shards, where there are several


def random_bytes(size, seed):
    return random.Random(seed).randbytes(size)


def combine(op, values):
    size = max(map(len, values))
    numbers = [int.from_bytes(v.ljust(size, b'\0'), 'big') for v in values]
    out = numbers[0]
    for n in numbers[1:]:
        out = out & n if op == 'AND' else out | n if op == 'OR' else out ^ n
    return out.to_bytes(size, 'big')


@pytest.mark.parametrize('size', [1, 255, 256, 5000, 20000, 300000, LARGE])
def test_bitop_over_all_shards(server, size):
    c = server.client(timeout=PATIENCE)
    values = [random_bytes(size - n * size // 10, n) for n in range(len(NAMES))]
    for name, value in zip(NAMES, values):
        assert c.command('SET', name, value) == b'OK'
    for op in ('AND', 'OR', 'XOR'):
        for n in (1, 2, 4, len(NAMES)):
            expected = combine(op, values[:n])
            for target in ('new' + op, 'again', 'again'):       # the second time over a value of the right size
                assert c.command('BITOP', op, target, *NAMES[:n]) == size
                assert c.command('GET', target) == expected
            assert c.command('BITCOUNT', 'again') == int.from_bytes(expected, 'big').bit_count()
    assert c.command('BITOP', 'NOT', 'again', 'k0') == size
    assert c.command('GET', 'again') == bytes(255 - b for b in values[0])
    assert [c.command('GET', name) for name in NAMES] == values


@pytest.mark.parametrize('size', [10, 100000, LARGE])
def test_the_result_may_take_the_place_of_a_source(server, size):
    c = server.client(timeout=PATIENCE)
    a, b = random_bytes(size, 1), random_bytes(size // 2, 2)
    c.pipeline([('SET', 'a', a), ('SET', 'b', b)])
    assert c.command('BITOP', 'OR', 'a', 'b', 'a') == size
    a = combine('OR', [a, b])
    assert c.command('GET', 'a') == a
    assert c.command('BITOP', 'XOR', 'b', 'a', 'b', 'b') == size
    assert c.command('GET', 'b') == a
    assert c.command('BITOP', 'NOT', 'a', 'a') == size
    assert c.command('BITOP', 'AND', 'a', 'a', 'b') == size
    assert c.command('BITPOS', 'a', 1) == -1


def test_bitop_takes_the_expiry_time_away_and_an_empty_result_the_key(server):
    c = server.client()
    for size in (10, 1000):
        c.pipeline([('SET', 'a', b'x' * size), ('SET', 't', b'y' * size, 'EX', 1000)])
        assert c.command('BITOP', 'AND', 't', 'a') == size
        assert c.command('TTL', 't') == -1
        assert c.command('BITOP', 'AND', 't', 'none', 'no', 'neither') == 0
        assert c.command('EXISTS', 't') == 0


def test_bitop_inside_exec_and_watched(server):
    c, other = server.client(), server.client()
    c.pipeline([('SET', name, random_bytes(400, name)) for name in NAMES])
    values = c.command('MGET', *NAMES)
    c.command('MULTI')
    c.pipeline([('BITOP', 'XOR', 't', *NAMES), ('BITCOUNT', 't'), ('GET', 't')])
    expected = combine('XOR', values)
    assert c.command('EXEC') == [400, int.from_bytes(expected, 'big').bit_count(), expected]
    for command, changes in ((('BITOP', 'NOT', 't', 't'), True), (('SETBIT', 't', 3999, 0), True), (('SETBIT', 't', 3999, 0), False), (('BITCOUNT', 't'), False), (('BITFIELD', 't', 'GET', 'u8', 0), False)):
        c.command('WATCH', 't')
        other.command(*command)
        c.command('MULTI')
        c.command('PING')
        assert (c.command('EXEC') != [b'PONG']) == changes, command


def transactions(server):
    return sum(int(value.split(',')[0].partition('=')[2]) for name, value in server.info('threads').items() if name.endswith('_transactions'))


@pytest.mark.parametrize('tag', ['{k}', ''])
def test_bitop_lets_others_in(server, tag):
    """On one shard, and over several."""
    slow, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    size, names, t = 8 * MIB, [tag + name for name in NAMES], tag + 't'
    slow.pipeline([('SETBIT', name, size * 8 - 1, 1) for name in names] + [('SET', tag + 'x', 'y')])
    before = long_slices(server)
    assert slow.command('BITOP', 'OR', t, *names) == size
    assert long_slices(server) >= before + 20
    assert answered_first(slow, encode('BITOP', 'XOR', t, *names), other, ('GET', tag + 'x'), b'y')
    expected = len(names) % 2
    assert slow.command('BITCOUNT', t) == expected
    assert slow.command('BITOP', 'NOT', t, t) == size and slow.command('BITCOUNT', t) == size * 8 - expected     # over itself
    slow.pipeline([('MULTI',), ('BITOP', 'NOT', t, t), ('BITCOUNT', t)])
    assert slow.command('EXEC') == [size, expected]
    slow.command('LPUSH', tag + 'list', 'x')
    assert slow.command('BITOP', 'AND', t, names[0], tag + 'list').startswith(b'WRONGTYPE') and slow.command('BITCOUNT', t) == expected


def test_small_bitop_on_one_shard_is_no_transaction(server):
    c = server.client()
    c.pipeline([('SET', '{k}a', 'abc'), ('SET', '{k}b', b'x' * 1000)])
    before = transactions(server)
    for _ in range(20):
        assert c.command('BITOP', 'OR', '{k}t', '{k}a', '{k}b') == 1000
    assert transactions(server) == before


@pytest.mark.parametrize('tag', ['{k}', ''])
def test_who_leaves_during_bitop_leaves_nothing(server, tag):
    slow = server.client(timeout=PATIENCE)
    names, t = [tag + name for name in NAMES], tag + 't'
    slow.pipeline([('SETBIT', name, 8 * MIB * 8 - 1, 1) for name in names])
    for _ in range(3):
        gone = server.client()
        gone.send(encode('BITOP', 'OR', t, *names) * 3)
        gone.close()
    assert slow.command('BITOP', 'OR', t, *names) == 8 * MIB
    assert slow.command('DEL', t, *names) == 1 + len(names)
    assert int(server.info('memory')['used_memory']) < 16 << 20


def test_a_value_that_is_being_sent_stays_as_it_was(server):
    """A large value is sent from where it lies; who changes it meanwhile changes a copy."""
    c, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    value = random_bytes(4 * MIB, 7)
    c.command('SET', 'k', value)
    c.send(encode('GET', 'k') * 4)
    assert other.command('SETBIT', 'k', 0, 1 - (value[0] >> 7)) == value[0] >> 7
    assert other.command('BITFIELD', 'k', 'SET', 'u8', '#1000000', 77) == [value[1000000]]
    assert other.command('BITOP', 'NOT', 'k', 'k') == len(value)
    for _ in range(4):
        assert len(c.read()) == len(value)
    changed = bytearray(value)
    changed[0] ^= 128
    changed[1000000] = 77
    assert other.command('GET', 'k') == bytes(255 - b for b in changed)


def test_bitcount_and_bitpos_of_large_values(server):
    c = server.client(timeout=PATIENCE)
    assert c.command('SETBIT', 'k', LARGE * 8 - 1, 1) == 0
    assert c.command('BITCOUNT', 'k') == 1
    assert c.command('BITPOS', 'k', 1) == LARGE * 8 - 1
    assert c.command('BITPOS', 'k', 1, 0, -2) == -1
    assert c.command('BITCOUNT', 'k', 1, -2, 'BIT') == 0
    assert c.command('BITOP', 'NOT', 'k', 'k') == LARGE
    assert c.command('BITPOS', 'k', 0) == LARGE * 8 - 1
    assert c.command('BITCOUNT', 'k') == LARGE * 8 - 1


def test_bitcount_and_bitpos_let_others_in(server):
    slow, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    size = 40 * MIB
    slow.pipeline([('SETBIT', '{k}', size * 8 - 1, 1), ('SETBIT', '{k}', MIB * 8, 1), ('SETBIT', '{k}', MIB * 8 - 1, 1), ('SET', '{k}x', 'y')])
    for command, reply in ((('BITCOUNT', '{k}'), 3), (('BITCOUNT', '{k}', 7, -2, 'BIT'), 2), (('BITPOS', '{k}', 1, MIB + 1), size * 8 - 1), (('BITPOS', '{k}', 1, MIB * 8 + 3, -2, 'BIT'), -1), (('BITPOS', '{k}', 1), MIB * 8 - 1)):
        before = long_slices(server)
        assert slow.command(*command) == reply
        assert command[-1] == 1 or long_slices(server) >= before + 30
    # Replies keep their order, and see what came before.
    assert slow.pipeline([('GETBIT', '{k}', 5), ('BITCOUNT', '{k}'), ('SETBIT', '{k}', 5, 1), ('BITCOUNT', '{k}'), ('GET', '{k}x')]) == [0, 3, 0, 4, b'y']
    assert answered_first(slow, encode('BITCOUNT', '{k}'), other, ('GET', '{k}x'), b'y')
    slow.command('MULTI')
    slow.pipeline([('BITCOUNT', '{k}'), ('BITPOS', '{k}', 1)])
    assert slow.command('EXEC') == [4, 5]


def test_memory_refused_changes_nothing(start):
    server = start(options=[('maxmemory', '20mb')])
    c = server.client(timeout=PATIENCE)
    assert c.command('SETBIT', 'k', 8 * MIB * 8, 1) == 0
    assert c.command('SETBIT', 'k', 100 * MIB * 8, 1).startswith(b'OOM')
    assert c.command('BITFIELD', 'k', 'SET', 'u8', 100 * MIB * 8, 1).startswith(b'OOM')
    assert c.command('STRLEN', 'k') == 8 * MIB + 1
    assert c.command('BITOP', 'NOT', 't', 'k') == 8 * MIB + 1
    assert c.command('BITOP', 'NOT', 'u', 'k').startswith(b'OOM')
    assert c.command('EXISTS', 'u') == 0
