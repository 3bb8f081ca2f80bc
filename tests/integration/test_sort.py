"""SORT over a socket: large values, keys on every shard, what others see meanwhile. What single replies look like is compared with redis-server (tests/oracle)."""

import random
import shutil
import subprocess

import pytest

from configurations import LIGHT
from resp import NIL, Error
from workers import Workers

N = 3000 if LIGHT else 30000


@pytest.fixture
def client(server):
    with server.client() as c:
        yield c


def fill(client, key, elements):
    elements = list(elements)
    for start in range(0, len(elements), 1000):
        client.command('RPUSH', key, *elements[start:start + 1000])


def shuffled(n, seed=1):
    numbers = list(range(n))
    random.Random(seed).shuffle(numbers)
    return numbers


def text(numbers):
    return [b'%d' % n for n in numbers]


def test_a_large_list_is_sorted_by_number_and_by_text(client):
    numbers = shuffled(N)
    fill(client, 'l', numbers)
    assert client.command('SORT', 'l') == text(range(N))
    assert client.command('SORT', 'l', 'DESC', 'LIMIT', 10, 50) == text(range(N - 11, N - 61, -1))
    assert client.command('SORT_RO', 'l', 'ALPHA') == sorted(text(numbers))
    assert client.command('SORT', 'l', 'BY', 'nosort', 'LIMIT', 5, N) == text(numbers[5:])
    assert client.command('SORT', 'l', 'BY', 'nosort', 'DESC', 'LIMIT', 5, N) == text(numbers[::-1][5:])


def test_large_sets_and_sorted_sets(client):
    numbers = shuffled(N)
    for start in range(0, N, 1000):
        client.command('SADD', 's', *('m%d' % n for n in numbers[start:start + 1000]))
        client.command('ZADD', 'z', *(x for n in numbers[start:start + 1000] for x in (n, 'm%d' % n)))
    names = [b'm%d' % n for n in range(N)]
    assert client.command('SORT', 's', 'ALPHA') == client.command('SORT', 'z', 'ALPHA') == sorted(names)
    assert sorted(client.command('SORT', 's', 'BY', 'nosort')) == sorted(names)
    assert client.command('SORT', 'z', 'BY', 'nosort') == names
    assert client.command('SORT', 'z', 'BY', 'nosort', 'DESC', 'LIMIT', 3, 1000) == names[::-1][3:1003]
    assert client.command('SORT', 's', 'BY', 'nosort', 'STORE', 'l') == N
    assert client.command('LRANGE', 'l', 0, -1) == sorted(names)


def test_weights_and_values_may_lie_on_any_shard(client):
    numbers = shuffled(N, 2)
    for start in range(0, N, 1000):
        client.command('MSET', *(x for n in range(start, min(start + 1000, N)) for x in ('w:%d' % n, numbers[n], 'v:%d:x' % n, 'value %d' % n)))
    fill(client, 'l', range(N))
    order = sorted(range(N), key=lambda n: numbers[n])
    assert client.command('SORT', 'l', 'BY', 'w:*') == text(order)
    assert client.command('SORT', 'l', 'BY', 'w:*', 'GET', 'v:*:x', 'GET', '#', 'GET', 'none:*', 'LIMIT', 7, 100) == \
        [x for n in order[7:107] for x in (b'value %d' % n, b'%d' % n, NIL)]
    client.command('DEL', 'w:5')
    client.command('SET', 'w:6', 'x')
    assert client.command('SORT', 'l', 'BY', 'w:*') == Error(b"ERR One or more scores can't be converted into double")
    client.command('DEL', 'w:6')        # without a weight they count as 0
    order = sorted(range(N), key=lambda n: (0 if n in (5, 6) else numbers[n], b'%d' % n))
    assert client.command('SORT', 'l', 'BY', 'w:*') == text(order)
    for n in range(5):
        client.command('HSET', 'h:%d' % n, 'f', 10 - n)
    fill(client, 'few', range(5))
    assert client.command('SORT', 'few', 'BY', 'h:*->f', 'GET', 'h:*->f', 'GET', 'h:*->g', 'GET', 'h:*') == \
        [x for n in range(4, -1, -1) for x in (b'%d' % (10 - n), NIL, NIL)]


def test_a_result_may_be_stored_anywhere(client):
    numbers = shuffled(N, 3)
    fill(client, 'l', numbers)
    for target in ['t%d' % n for n in range(8)] + ['l']:
        client.command('SET', 't0', 'was a string', 'EX', 100)
        assert client.command('SORT', 'l', 'LIMIT', 0, 2000, 'STORE', target) == 2000
        assert client.command('LRANGE', target, 0, -1) == text(range(2000))
        assert client.command('TTL', target) == -1
    assert client.command('SORT', 'none', 'STORE', 't1') == 0 and client.command('EXISTS', 't1') == 0
    assert client.command('SORT', 'l', 'GET', 'none:*', 'LIMIT', 0, 3, 'STORE', 't2') == 3
    assert client.command('LRANGE', 't2', 0, -1) == [b''] * 3
    many = [x for n in range(200) for x in ('GET', '#')]
    assert client.command('SORT', 'l', 'LIMIT', 0, 2, *many, 'STORE', 't3') == 400
    assert client.command('LRANGE', 't3', 0, -1) == [b'0'] * 200 + [b'1'] * 200


def test_what_is_refused_changes_nothing(client):
    client.command('RPUSH', 'l', 'a', 'b')
    client.command('SET', 'string', 'x')
    for command in (['SORT', 'l', 'STORE', 'string'], ['SORT', 'string', 'STORE', 'string'], ['SORT', 'l', 'LIMIT', 0, 'x', 'STORE', 'string'],
                    ['SORT', 'l', 'ALPHA', 'STORE', 'string', 'BY']):
        assert isinstance(client.command(*command), Error), command
    assert client.command('GET', 'string') == b'x'


def test_a_refused_result_leaves_the_target_as_it_was(client):
    fill(client, 'l', ('x' * 1000 + str(n) for n in range(2000)))
    client.command('SET', 't', 'x')
    used = int(client.command('INFO', 'memory').decode().split('used_memory:')[1].split()[0])
    client.command('CONFIG', 'SET', 'maxmemory', used + 500000, 'maxmemory-policy', 'noeviction')
    assert str(client.command('SORT', 'l', 'ALPHA', 'STORE', 't')).startswith('-OOM')
    assert client.command('GET', 't') == b'x'
    client.command('CONFIG', 'SET', 'maxmemory', 0)
    assert client.command('SORT', 'l', 'ALPHA', 'STORE', 't') == 2000


def test_inside_exec(client):
    client.command('MSET', 'w:1', 3, 'w:2', 2, 'w:3', 1)
    client.command('MULTI')
    for command in (['RPUSH', 'l', 1, 2, 3], ['SORT', 'l', 'BY', 'w:*', 'GET', 'w:*'], ['SORT', 'l', 'DESC', 'STORE', 't'], ['LRANGE', 't', 0, -1]):
        client.command(*command)
    assert client.command('EXEC') == [3, [b'1', b'2', b'3'], 3, [b'3', b'2', b'1']]


def test_weights_are_seen_as_they_are_at_one_moment(server):
    keys = ['w:%d' % n for n in range(2000)]
    with server.client() as c:
        fill(c, 'l', range(2000))
        c.command('MSET', *(x for k in keys for x in (k, 0)))

    def write(c, rng):
        value = rng.randrange(1000)
        c.command('MSET', *(x for k in keys for x in (k, value)))

    def sort(c, rng):
        values = c.command('SORT', 'l', 'BY', 'w:*', 'GET', 'w:*')
        assert len(values) == 2000 and len(set(values)) == 1

    Workers(server).run(write, write, sort, sort)


def test_clients_that_leave_leave_nothing(server):
    with server.client() as c:
        fill(c, 'l', shuffled(N))
        c.command('MSET', *(x for n in range(1000) for x in ('w:%d' % n, n)))
        for i in range(6):
            r = server.client()
            r.send(b'SORT l BY w:* GET w:* STORE t\r\n' * 2 if i % 2 else b'SORT l ALPHA\r\n' * 3)
            r.close()
        assert c.command('RPUSH', 'l', 0) == N + 1
        assert c.command('SET', 'w:1', 5) == b'OK'


UPSIDE_DOWN = """comment_char %
escape_char /
LC_COLLATE
order_start forward
<U0063>
<U0062>
<U0061>
order_end
END LC_COLLATE
"""


@pytest.mark.skipif(not shutil.which('localedef'), reason='localedef is not installed (package libc-bin)')
def test_alpha_follows_the_locale(start, tmp_path):
    """Of its environment, as redis-server does; what is stored is sorted by bytes."""
    source = tmp_path / 'upside'
    source.write_text(UPSIDE_DOWN)
    subprocess.run(['localedef', '-c', '-i', str(source), str(tmp_path / 'locales.upside')], capture_output=True)   # it warns of all that is not there
    (tmp_path / 'locales').mkdir()
    (tmp_path / 'locales.upside').rename(tmp_path / 'locales' / 'upside')
    c = start(env={'LOCPATH': str(tmp_path / 'locales'), 'LC_ALL': '', 'LC_COLLATE': 'upside'}).client()
    assert c.command('RPUSH', 'l', 'a', 'c', 'b') == 3
    assert c.command('SORT', 'l', 'ALPHA') == [b'c', b'b', b'a']
    assert c.command('SORT', 'l', 'ALPHA', 'STORE', 'to') == 3 and c.command('LRANGE', 'to', 0, -1) == [b'a', b'b', b'c']
