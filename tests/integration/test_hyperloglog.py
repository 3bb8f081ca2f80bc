"""HyperLogLogs over a socket. What each error is and every byte, the oracle compares."""

import hashlib

import pytest

from resp import Error

# Elements 0 to n - 1, 500 at a time, then PFCOUNT: n, a digest of the value, its size.
BYTES = [(1, '22bf730fee121a20', 21), (10, '0ebf84842d7d96cc', 48), (100, '2473556c4cfaa6e0', 287), (500, '7317e35b59590b5b', 1061), (1000, '7aba7a1e51e42bb6', 1923), (1500, 'b796c098765ea93b', 2766), (3000, '45e129bd25c2acb1', 12304), (20000, 'a6e72e9a6cbb19d9', 12304)]
NAMES = ['h%d' % n for n in range(8)]       # of several shards, where there are several


def digest(value):
    return hashlib.sha256(value).hexdigest()[:16]


def test_bytes_are_those_of_redis(server):
    """What redis-server 7.0.15 has after the same commands, sparse and dense, with the estimate that it keeps."""
    c = server.client()
    for n, expected, size in BYTES:
        c.command('DEL', 'h')
        for start in range(0, n, 500):
            c.command('PFADD', 'h', *range(start, min(n, start + 500)))
        c.command('PFCOUNT', 'h')
        value = c.command('GET', 'h')
        assert (len(value), digest(value)) == (size, expected), n


def test_sparse_values_grow_up_to_the_limit(server):
    """hll-sparse-max-bytes"""
    c = server.client()
    for limit in (0, 18, 100, 3000, 20000):
        assert c.command('CONFIG', 'SET', 'hll-sparse-max-bytes', limit) == b'OK'
        c.command('DEL', 'h')
        sizes = []
        for n in range(4000):
            c.command('PFADD', 'h', n)
            sizes.append(c.command('STRLEN', 'h'))
            if sizes[-1] == 12304:
                break
        sparse = [s for s in sizes if s != 12304]
        assert all(s <= max(limit, 18) for s in sparse)
        assert (c.command('PFDEBUG', 'ENCODING', 'h') == b'dense') == (limit <= 3000)
        assert not sparse or max(sparse) >= min(limit, 5000) - 3


def test_the_union_of_keys_on_all_shards(server):
    c = server.client()
    for n, name in enumerate(NAMES):
        for start in range(n * 1000, n * 1000 + 2000, 500):
            c.command('PFADD', name, *range(start, start + 500))
    c.command('PFADD', 'all', *range(9000))
    whole = c.command('PFCOUNT', 'all')
    assert abs(whole - 9000) < 500
    assert c.command('PFCOUNT', *NAMES) == whole
    assert c.command('PFCOUNT', 'none', *NAMES, 'nothing') == whole
    assert c.command('PFMERGE', 'm', *NAMES) == b'OK'
    assert c.command('PFCOUNT', 'm') == whole
    assert c.command('PFDEBUG', 'GETREG', 'm') == c.command('PFDEBUG', 'GETREG', 'all')
    assert c.command('PFMERGE', 'h0', 'm') == b'OK'
    assert c.command('PFCOUNT', 'h0') == whole
    c.command('MULTI')
    c.pipeline([('PFCOUNT', *NAMES), ('PFMERGE', 'n', *NAMES), ('PFCOUNT', 'n'), ('PFADD', 'n', *range(20000, 20500))])
    assert c.command('EXEC') == [whole, b'OK', whole, 1]


def test_very_many_keys(server):
    c = server.client()
    names = ['n%d' % n for n in range(3000)]
    c.pipeline([('PFADD', name, name) for name in names[::3]])
    got = c.command('PFCOUNT', *names)
    assert abs(got - 1000) < 60
    assert c.command('PFMERGE', 't', *names) == b'OK'
    assert c.command('PFCOUNT', 't') == got
    assert all(',exclusives=0,' in line for name, line in server.info('threads').items() if 'exclusives=' in line), 'the shards stood still for it'
    c.command('SET', 'n2000', 'x' * 30)
    assert c.command('PFCOUNT', *names) == Error(b'WRONGTYPE Key is not a valid HyperLogLog string value.')
    assert c.command('PFMERGE', 't', *names) == Error(b'WRONGTYPE Key is not a valid HyperLogLog string value.')
    assert c.command('PFCOUNT', 't') == got


def test_the_first_key_that_is_wrong_is_told(server):
    c = server.client()
    c.pipeline([('PFADD', name, name) for name in NAMES])
    text, corrupt = b'WRONGTYPE Key is not a valid HyperLogLog string value.', b'INVALIDOBJ Corrupted HLL object detected'
    for i in range(len(NAMES)):
        for j in range(len(NAMES)):
            if i == j:
                continue
            c.pipeline([('SET', NAMES[i], 'x' * 30), ('SET', NAMES[j], b'HYLL\x01' + bytes(11) + b'\x7f')])
            expected = text if i < j else corrupt
            for command in (('PFCOUNT', *NAMES), ('PFMERGE', 't', *NAMES), ('PFMERGE', *NAMES)):
                got = c.command(*command)
                assert type(got) is Error and got == expected, command
            assert c.command('EXISTS', 't') == 0
            c.pipeline([('DEL', NAMES[i], NAMES[j]), ('PFADD', NAMES[i], 'a'), ('PFADD', NAMES[j], 'b')])


def test_an_estimate_that_is_kept_anew_touches_who_watches(server):
    c, other = server.client(), server.client()

    def touched(*command):
        c.command('WATCH', 'h')
        other.command(*command)
        c.command('MULTI')
        c.command('PING')
        return c.command('EXEC') != [b'PONG']
    assert touched('PFADD', 'h', 'a')
    assert not touched('PFADD', 'h', 'a')
    assert touched('PFCOUNT', 'h')
    assert not touched('PFCOUNT', 'h')
    assert not touched('PFCOUNT', 'h', 'none')
    assert touched('PFMERGE', 'h')


def test_a_pause_of_writes_holds_pfcount(server):
    c, other = server.client(), server.client()
    c.command('PFADD', 'h', 'a')
    assert c.command('CLIENT', 'PAUSE', 100000, 'WRITE') == b'OK'
    other.send(b'PFCOUNT h\r\n')
    assert c.command('GET', 'h')[:4] == b'HYLL'
    assert c.command('CLIENT', 'UNPAUSE') == b'OK'
    assert other.read() == 1


def test_the_server_tests_itself(server):
    assert server.client().command('PFSELFTEST') == b'OK'


@pytest.mark.parametrize('value', [b'HYLL\x01' + bytes(11), b'HYLL\x01' + bytes(11) + b'\xff' * 5000, b'HYLL\x01' + bytes(11) + b'\x40' * 60000, b'HYLL\0' + b'\xff' * 12299, b'HYLL\x01' + bytes(11) + b'\x7f\xff' * 9],
                         ids=['no run', 'too many registers', 'very long', 'dense, all set', 'runs of zeros'])
def test_values_that_clients_made_up_break_nothing(server, value):
    c = server.client()
    for command in (('PFADD', 'h', 'a', 'b', 'c'), ('PFCOUNT', 'h'), ('PFCOUNT', 'h', 'g'), ('PFMERGE', 'g', 'h'), ('PFMERGE', 'h', 'g'), ('PFDEBUG', 'GETREG', 'h'), ('PFDEBUG', 'DECODE', 'h'), ('PFDEBUG', 'TODENSE', 'h')):
        assert c.command('SET', 'h', value) == b'OK'
        c.command('PFADD', 'g', 'x')
        c.command(*command)
        assert c.command('PING') == b'PONG'
        c.command('DEL', 'g')
