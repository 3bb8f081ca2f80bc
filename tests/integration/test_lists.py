"""Lists over a socket: against Python's; over several shards; large ones, in slices, and what others see meanwhile; what they take."""

import random
import threading

import pytest

from resp import NIL, NIL_ARRAY, Error
from server import wait_for

N = 50000


@pytest.fixture
def client(server):
    with server.client() as c:
        yield c


def fill(client, key, elements):
    elements = list(elements)
    for start in range(0, len(elements), 1000):
        client.command('RPUSH', key, *elements[start:start + 1000])


def whole(client, key):
    return client.command('LRANGE', key, 0, -1)


def used(client):
    return int(client.command('INFO', 'memory').decode().split('used_memory:')[1].split()[0])


def test_a_large_list_holds_what_was_pushed(client):
    elements = [b'element:%d' % i if i % 3 else b'%d' % (i * i) for i in range(N)]
    fill(client, 'l', elements)
    assert client.command('LLEN', 'l') == N and whole(client, 'l') == elements
    assert client.command('OBJECT', 'ENCODING', 'l') == b'quicklist' and client.command('TYPE', 'l') == b'list'
    for i in (0, 1, 999, N // 2, N - 1, -1, -N):
        assert client.command('LINDEX', 'l', i) == elements[i]
    assert client.command('LRANGE', 'l', 20000, 20099) == elements[20000:20100]
    assert client.command('LPOP', 'l', 20000) == elements[:20000]
    assert client.command('RPOP', 'l', 20000) == elements[:-20001:-1]
    assert whole(client, 'l') == elements[20000:30000]


def test_what_compares_elements_goes_through_a_large_list(client):
    elements = [b'%d' % (i % 1000) for i in range(N)]
    fill(client, 'l', elements)
    assert client.command('LPOS', 'l', '999', 'COUNT', 0) == list(range(999, N, 1000))
    assert client.command('LPOS', 'l', '7', 'RANK', -40, 'COUNT', 3) == [10007, 9007, 8007]
    assert client.command('LPOS', 'l', 'nothing') == NIL and client.command('LPOS', 'l', 'nothing', 'COUNT', 0) == []
    assert client.command('LPOS', 'l', '7', 'RANK', 40, 'MAXLEN', 39007) == NIL
    assert client.command('LINSERT', 'l', 'BEFORE', 'nothing', 'x') == -1
    client.command('LSET', 'l', 40000, 'pivot')
    elements[40000] = b'pivot'
    assert client.command('LINSERT', 'l', 'AFTER', 'pivot', 'behind') == N + 1
    elements.insert(40001, b'behind')
    assert client.command('LREM', 'l', -30, '5') == 30
    for _ in range(30):
        del elements[len(elements) - 1 - elements[::-1].index(b'5')]
    assert client.command('LREM', 'l', 0, '6') == 50 and client.command('LREM', 'l', 2, 'nothing') == 0
    elements = [e for e in elements if e != b'6']
    assert whole(client, 'l') == elements


def test_lists_are_as_pythons(client):
    rng = random.Random(11)
    model = {}
    for _ in range(4000):
        key, value = 'key:%d' % rng.randrange(6), b'%d' % rng.randrange(20) if rng.random() < .7 else b'x' * rng.randrange(2000)
        l = model.setdefault(key, [])
        kind = rng.randrange(9)
        if kind < 2:
            assert client.command('LPUSH', key, value, 'a') == len(l) + 2
            l[:0] = [b'a', value]
        elif kind < 4:
            assert client.command('RPUSH', key, value) == len(l) + 1
            l.append(value)
        elif kind == 4:
            n = rng.randrange(4)
            got = client.command(rng.choice(['LPOP', 'LPOP']), key, n)
            assert got == (l[:n] if l else NIL_ARRAY)
            del l[:n]
        elif kind == 5 and l:
            i = rng.randrange(-len(l), len(l))
            assert client.command('LSET', key, i, value) == b'OK'
            l[i] = value
        elif kind == 6:
            other = 'key:%d' % rng.randrange(6)
            ends = rng.choice(['LEFT', 'RIGHT']), rng.choice(['LEFT', 'RIGHT'])
            got = client.command('LMOVE', key, other, *ends)
            assert got == (l[0 if ends[0] == 'LEFT' else -1] if l else NIL)
            if l:
                element = l.pop(0 if ends[0] == 'LEFT' else -1)
                m = model.setdefault(other, [])
                m.insert(0 if ends[1] == 'LEFT' else len(m), element)
        elif kind == 7 and rng.random() < .3:
            first = rng.randrange(5)
            assert client.command('LTRIM', key, first, -2) == b'OK'
            model[key] = l[first:-1]
        elif kind == 8:
            keys, n = ['key:%d' % rng.randrange(6) for _ in range(3)], 1 + rng.randrange(3)
            got = client.command('LMPOP', 3, *keys, 'RIGHT', 'COUNT', n)
            chosen = next((k for k in keys if model.get(k)), None)
            assert got == ([chosen.encode(), model[chosen][:-n - 1:-1]] if chosen else NIL_ARRAY)
            if chosen:
                del model[chosen][-n:]
        assert client.command('EXISTS', key) == int(bool(model[key]))
    for key, l in model.items():
        assert whole(client, key) == l


def test_a_list_travels_to_other_keys_and_databases(client):
    elements = [b'e%d' % i for i in range(3000)] + [b'y' * 5000, b'12']
    fill(client, 'l', elements)
    fill(client, 'small', elements[-5:])
    for i in range(8):
        assert client.command('COPY', 'l', 'copy:%d' % i) == 1 and whole(client, 'copy:%d' % i) == elements
        assert client.command('COPY', 'small', 'copy:%d' % i, 'REPLACE') == 1 and whole(client, 'copy:%d' % i) == elements[-5:]
    for i in range(8):
        assert client.command('RENAME', 'l' if not i else 'name:%d' % (i - 1), 'name:%d' % i) == b'OK'
    assert whole(client, 'name:7') == elements
    assert client.command('MOVE', 'name:7', 1) == 1
    client.command('SELECT', 1)
    assert whole(client, 'name:7') == elements
    client.command('LPUSH', 'name:7', 'first')
    assert client.command('SCAN', 0, 'TYPE', 'list', 'COUNT', 1000)[1] == [b'name:7']


def test_memory_comes_back(client):
    empty = used(client)
    for round in range(3):
        fill(client, 'l', [b'some element %d' % i for i in range(N)])
        client.command('RPUSH', 'l', *[b'z' * 3000] * 50)
        assert client.command('MEMORY', 'USAGE', 'l') > N * 14
        assert used(client) > empty + N * 14
        if round == 0:
            client.command('DEL', 'l')
        elif round == 1:
            client.command('LTRIM', 'l', 40000, 40009)
            assert client.command('MEMORY', 'USAGE', 'l') < 1000
            client.command('LTRIM', 'l', 5, 4)
        else:
            client.command('RPOP', 'l', 2 * N)
        assert client.command('EXISTS', 'l') == 0
        wait_for(lambda: used(client) < empty + 300000)


def test_list_max_listpack_size_is_how_much_a_node_holds(client):
    """Of lists made from then on."""
    sizes = {}
    for size in (-2, 1, 16):
        client.command('CONFIG', 'SET', 'list-max-listpack-size', size)
        client.command('DEL', 'l')
        fill(client, 'l', range(4000))
        sizes[size] = client.command('MEMORY', 'USAGE', 'l', 'SAMPLES', 0)
        assert whole(client, 'l') == [b'%d' % i for i in range(4000)]
    assert sizes[1] > 4 * sizes[-2] and sizes[-2] < sizes[16] < sizes[1]


def test_nobody_sees_a_large_list_half_changed(server):
    """LREM and a large LPOP go in slices; who reads meanwhile sees all or nothing of it."""
    with server.client() as writer, server.client() as reader:
        for _ in range(3):
            fill(writer, 'l', [b'even', b'odd'] * (N // 2))
            lengths = []
            done = threading.Event()

            def read():
                while not done.is_set():
                    lengths.append(reader.command('LLEN', 'l'))

            thread = threading.Thread(target=read)
            thread.start()
            assert writer.command('LREM', 'l', 0, 'odd') == N // 2
            assert writer.command('LPOP', 'l', N // 4) == [b'even'] * (N // 4)
            done.set()
            thread.join()
            assert set(lengths) <= {N, N // 2, N // 4}
            writer.command('DEL', 'l')


def test_an_element_that_is_moved_between_two_lists_is_in_one_of_them(server):
    with server.client() as a, server.client() as b, server.client() as c:
        a.command('RPUSH', 'x', *range(10))
        done = threading.Event()
        wrong = []

        def move(client, source, target):
            while not done.is_set():
                client.command('LMOVE', source, target, 'LEFT', 'RIGHT')

        threads = [threading.Thread(target=move, args=args) for args in ((a, 'x', 'y'), (b, 'y', 'x'))]
        for t in threads:
            t.start()
        for _ in range(300):
            replies = c.pipeline([('MULTI',), ('LRANGE', 'x', 0, -1), ('LRANGE', 'y', 0, -1), ('EXEC',)])
            if sorted(sum(replies[3], [])) != [b'%d' % i for i in range(10)]:
                wrong.append(replies[3])
        done.set()
        for t in threads:
            t.join()
        assert not wrong


def test_refused_memory_leaves_lists_as_they_were(server):
    with server.client() as c:
        fill(c, 'l', [b'e%d' % i for i in range(2000)])
        c.command('RPUSH', 'm', 'a', 'b')
        before = whole(c, 'l')
        c.command('CONFIG', 'SET', 'maxmemory', used(c) + 100000)
        refused = 0
        for i in range(400):
            reply = c.command('RPUSH', 'big%d' % i, b'x' * 20000)
            refused += isinstance(reply, Error)
        assert refused > 300
        for args in (('LPUSH', 'l', b'y' * 200000, b'z'), ('LINSERT', 'l', 'BEFORE', 'e7', b'y' * 200000), ('LSET', 'l', 0, b'y' * 200000), ('LPUSH', 'new', b'y' * 200000)):
            reply = c.command(*args)
            assert isinstance(reply, Error) and reply.startswith(b'OOM')
        assert whole(c, 'l') == before and c.command('EXISTS', 'new') == 0
        c.command('CONFIG', 'SET', 'maxmemory', 0)
