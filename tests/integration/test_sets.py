"""Sets over a socket: several of them, whose keys lie anywhere, against Python's; large ones; what others see meanwhile."""

import random
import threading

import pytest

from resp import Error
from server import long_slices, wait_for

N = 20000


@pytest.fixture
def client(server):
    with server.client() as c:
        yield c


def fill(client, key, members):
    members = list(members)
    for start in range(0, len(members), 1000):
        client.command('SADD', key, *members[start:start + 1000])


def text(client, key):
    return set(client.command('SMEMBERS', key))


def used(client):
    return int(client.command('INFO', 'memory').decode().split('used_memory:')[1].split()[0])


def test_a_large_set_holds_what_was_added(client):
    members = {b'member:%d' % i for i in range(N)} | {b'%d' % i for i in range(N)}
    fill(client, 's', members)
    assert client.command('SCARD', 's') == 2 * N
    assert text(client, 's') == members
    asked = [b'member:%d' % i for i in range(0, 2 * N, 9)]
    assert client.command('SMISMEMBER', 's', *asked) == [int(m in members) for m in asked]


def test_sets_whose_keys_lie_anywhere_combine_as_sets_do(client):
    rng = random.Random(7)
    model = {}
    operations = {'SINTER': lambda a, b: a & b, 'SUNION': lambda a, b: a | b, 'SDIFF': lambda a, b: a - b}
    for round in range(400):
        key = 'key:%d' % rng.randrange(12)
        if round < 12 or rng.random() < .2:
            form, size = rng.choice(['%d', 'm%d']), rng.choice([0, 1, 5, 100, 700])
            model[key] = {(form % rng.randrange(800)).encode() for _ in range(size)}
            client.command('DEL', key)
            if model[key]:
                client.command('SADD', key, *model[key])
            continue
        name, keys = rng.choice(list(operations)), ['key:%d' % rng.randrange(12) for _ in range(1 + rng.randrange(5))]
        expected = model.get(keys[0], set())
        for other in keys[1:]:
            expected = operations[name](expected, model.get(other, set()))
        if rng.random() < .4:
            assert client.command(name + 'STORE', key, *keys) == len(expected)
            model[key] = expected
            assert text(client, key) == expected
            assert client.command('EXISTS', key) == int(bool(expected))
        else:
            reply = client.command(name, *keys)
            assert len(reply) == len(expected) and set(reply) == expected
        common = set.intersection(*(model.get(k, set()) for k in keys))
        limit = rng.randrange(10)
        assert client.command('SINTERCARD', len(keys), *keys, 'LIMIT', limit) == (min(limit, len(common)) if limit else len(common))


def test_large_sets_combine_over_shards(client):
    for i in range(4):
        fill(client, 'big%d' % i, (b'm%d' % j for j in range(i * 1000, i * 1000 + N)))
    names = ['big%d' % i for i in range(4)]
    assert client.command('SINTERSTORE', 'inter', *names) == N - 3000
    assert client.command('SUNIONSTORE', 'union', *names) == N + 3000
    assert client.command('SDIFFSTORE', 'diff', *names) == 1000
    assert text(client, 'diff') == {b'm%d' % j for j in range(1000)}
    assert text(client, 'inter') == {b'm%d' % j for j in range(3000, N)}
    assert len(set(client.command('SUNION', *names))) == N + 3000


def test_a_wrong_type_anywhere_changes_nothing(client):
    client.command('SET', 'text', 'x')
    client.command('SADD', 'to', 'kept')
    for i in range(8):
        client.command('SADD', 'k%d' % i, 'a')
        for command in (['SINTERSTORE', 'to', 'k%d' % i, 'text'], ['SUNIONSTORE', 'to', 'text', 'k%d' % i], ['SDIFFSTORE', 'to', 'none', 'text', 'k%d' % i], ['SMOVE', 'k%d' % i, 'text', 'a'],
                        ['SMOVE', 'text', 'k%d' % i, 'a'], ['SINTERCARD', '2', 'k%d' % i, 'text']):
            reply = client.command(*command)
            assert isinstance(reply, Error) and reply.startswith(b'WRONGTYPE')
        assert client.command('SMEMBERS', 'k%d' % i) == [b'a']
    assert client.command('SMEMBERS', 'to') == [b'kept']


def test_a_member_that_moves_is_always_in_one_of_the_sets(server):
    keys = ['a', 'b', 'c', 'd']
    with server.client() as c:
        c.command('SADD', keys[0], 'm')
    stop, faults = threading.Event(), []

    def move():
        rng = random.Random(3)
        with server.client() as c:
            while not stop.is_set():
                c.command('SMOVE', rng.choice(keys), rng.choice(keys), 'm')

    def look():
        with server.client() as c:
            for _ in range(300):
                if c.command('SUNION', *keys) != [b'm']:
                    faults.append('nowhere')
                if c.command('SINTERCARD', 2, 'a', 'b') != 0:
                    faults.append('in two')
    mover, lookers = threading.Thread(target=move), [threading.Thread(target=look) for _ in range(2)]
    for t in (mover, *lookers):
        t.start()
    for t in lookers:
        t.join()
    stop.set()
    mover.join()
    assert not faults


def test_a_stored_result_is_seen_whole(server):
    with server.client() as c:
        fill(c, 'one', (b'1:%d' % i for i in range(500)))
        fill(c, 'two', (b'2:%d' % i for i in range(500)))
        c.command('SUNIONSTORE', 'to', 'one')
    stop = threading.Event()

    def change():
        with server.client() as c:
            while not stop.is_set():
                c.command('SUNIONSTORE', 'to', 'one')
                c.command('SUNIONSTORE', 'to', 'two', 'none')
    changer = threading.Thread(target=change)
    changer.start()
    try:
        with server.client() as c:
            for _ in range(200):
                kinds = {m[:2] for m in c.command('SMEMBERS', 'to')}
                assert kinds in ({b'1:'}, {b'2:'})
    finally:
        stop.set()
        changer.join()


def test_watched_sources_and_results_are_told(server):
    with server.client() as c, server.client() as other:
        c.command('SADD', 'a', '1')
        c.command('SADD', 'b', '2')
        for change, aborts in ((['SMOVE', 'a', 'b', '9'], False), (['SADD', 'a', '1'], False), (['SREM', 'a', '9'], False), (['SUNIONSTORE', 'x', 'a', 'b'], False), (['SINTERSTORE', 'a', 'a', 'a'], True),
                               (['SADD', 'a', '5'], True), (['SMOVE', 'b', 'a', '2'], True), (['SPOP', 'a'], True), (['SDIFFSTORE', 'a', 'none'], True)):
            c.command('WATCH', 'a')
            other.command(*change)
            c.command('MULTI')
            c.command('PING')
            assert (c.command('EXEC') != [b'PONG']) == aborts, change


def test_sscan_meets_all_that_stays_while_others_come_and_go(client):
    stay = {b'm%d' % i for i in range(2000)}
    fill(client, 's', stay)
    cursor, seen, step = b'0', set(), 0
    while True:
        cursor, found = client.command('SSCAN', 's', cursor, 'COUNT', 20)
        seen.update(found)
        step += 1
        if step % 10 == 0:
            client.command('SADD', 's', *(b'x%d' % (step * 1000 + i) for i in range(500)))
        if step % 40 == 0:
            client.command('SREM', 's', *(b'x%d' % (i * 1000 + j) for i in range(step + 1) for j in range(0, 500, 3)))
        if cursor == b'0':
            break
    assert seen >= stay


def test_a_set_moves_and_is_copied(client):
    for name, members in (('ints', {b'%d' % (i * 7) for i in range(300)}), ('text', {b'm%d' % i for i in range(N)})):
        fill(client, name, members)
        encoding = client.command('OBJECT', 'ENCODING', name)
        assert encoding == (b'intset' if name == 'ints' else b'hashtable')
        for i in range(6):      # to other shards and back
            client.command('RENAME', name if i == 0 else 'moved%d' % (i - 1), 'moved%d' % i)
        assert [client.command('COPY', 'moved5', 'copy%d' % i, 'REPLACE') for i in range(6)] == [1] * 6
        for key in ['moved5'] + ['copy%d' % i for i in range(6)]:
            assert text(client, key) == members
            assert client.command('OBJECT', 'ENCODING', key) == encoding


def test_the_limit_of_integers_follows_the_configuration(client):
    client.command('CONFIG', 'SET', 'set-max-intset-entries', 3)
    client.command('SADD', 's', 1, 2, 3)
    assert client.command('OBJECT', 'ENCODING', 's') == b'intset'
    client.command('SADD', 's', 4)
    assert client.command('OBJECT', 'ENCODING', 's') == b'hashtable'
    client.command('SINTERSTORE', 't', 's', 's')
    assert client.command('OBJECT', 'ENCODING', 't') == b'hashtable'


@pytest.mark.parametrize('end', ['DEL', 'SPOP', 'SREM', 'SDIFFSTORE', 'SUNION'])
def test_the_memory_of_a_large_set_comes_back(client, end):
    client.command('SET', 's', 'x')
    before = used(client)
    client.command('DEL', 's')
    fill(client, 's', (b'member:%d' % i for i in range(100000)))
    held = used(client) - before
    if end == 'SREM':
        for start in range(0, 100000, 1000):
            client.command('SREM', 's', *(b'member:%d' % i for i in range(start, start + 1000)))
    elif end == 'SUNION':       # through a set that nobody keeps
        assert len(client.command('SUNION', 's', 'none')) == 100000
        wait_for(lambda: used(client) - before < held * 11 // 10)
        client.command('DEL', 's')
    else:
        client.command(*{'DEL': ['DEL', 's'], 'SPOP': ['SPOP', 's', 99990], 'SDIFFSTORE': ['SDIFFSTORE', 's', 'none']}[end])
    wait_for(lambda: used(client) - before < held / 20)


def test_refused_memory_changes_nothing(start):
    with start(options=[('maxmemory', '8mb')]) as server, server.client() as c:
        made = 0
        while made < 100:
            reply = c.command('SADD', 's%d' % made, *(b'set %d member %d' % (made, i) for i in range(10000)))
            if isinstance(reply, Error):
                break
            made += 1
        assert 4 < made < 100 and reply.startswith(b'OOM')
        assert c.command('EXISTS', 's%d' % made) == 0
        reply = c.command('SUNIONSTORE', 'to', *('s%d' % i for i in range(made)))
        assert isinstance(reply, Error) and reply.startswith(b'OOM')
        assert c.command('EXISTS', 'to') == 0
        assert c.command('SREM', 's0', 'set 0 member 1') == 1
        assert [c.command('SCARD', 's%d' % i) for i in range(made)] == [9999] + [10000] * (made - 1)


def test_smembers_of_a_large_set_goes_in_slices(client):
    members = {b'member:%d' % i for i in range(30000)}
    fill(client, 's', members)
    before = long_slices(client)
    assert text(client, 's') == members
    assert long_slices(client) - before >= 30000 / 12 / 128 / 2
    replies = client.pipeline([('SMEMBERS', 's'), ('SADD', 's', 'new'), ('SMEMBERS', 's'), ('DEL', 's'), ('SMEMBERS', 's')])
    assert set(replies[0]) == members and replies[1] == 1 and set(replies[2]) == members | {b'new'} and replies[3:] == [1, []]
    fill(client, 's', members)
    client.command('MULTI')
    client.command('SMEMBERS', 's')
    client.command('SPOP', 's', 29990)
    whole, popped = client.command('EXEC')
    assert set(whole) == members and len(set(popped)) == 29990
