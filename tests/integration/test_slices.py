"""What takes long goes on in slices: other clients have their turn between them."""

import select
import socket

import pytest

from resp import Error, encode
from server import PATIENCE, long_slices, wait_for
from test_dump import compressed, sealed

LETTERS = b'abcab' * 2300, b'abcd' * 2870


def answered_first(slow, command, other, question, answer, tries=1000):
    """Whether, at least once, a question that was sent after the slow command is answered before it."""
    first = False
    for _ in range(tries):
        slow.send(command)
        assert other.command(*question) == answer
        first = not select.select([slow.socket], [], [], 0)[0]
        slow.read()
        if first:
            break
    return first


def test_lcs_of_one_shard_lets_others_in(server):
    slow, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    slow.pipeline([('SET', '{t}a', LETTERS[0]), ('SET', '{t}b', LETTERS[1]), ('SET', '{t}x', 'y')])
    before = long_slices(server)
    assert len(slow.command('LCS', '{t}a', '{t}b')) > 5000
    assert long_slices(server) >= before + 20
    assert answered_first(slow, encode('LCS', '{t}a', '{t}b', 'IDX'), other, ('GET', '{t}x'), b'y')


def test_lcs_of_two_shards_lets_others_in(server):
    slow, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    names = ['k%d' % n for n in range(8)]       # some two of them are on different shards
    for n, name in enumerate(names):
        assert slow.command('SET', name, LETTERS[n % 2]) == b'OK'
    expected = slow.command('LCS', 'k0', 'k1', 'LEN')
    for name in names[1::2]:
        before = long_slices(server)
        assert slow.command('LCS', 'k0', name, 'LEN') == expected
        assert long_slices(server) >= before + 20
        assert answered_first(slow, encode('LCS', 'k0', name), other, ('STRLEN', name), len(LETTERS[1]))
    assert slow.command('DEL', *names) == 8     # the values that were held are given back
    assert int(server.info('memory')['used_memory']) < 16 << 20


def test_a_client_that_leaves_during_lcs_leaves_nothing(server):
    slow = server.client()
    slow.pipeline([('SET', 'a', LETTERS[0]), ('SET', 'b', LETTERS[1])])
    for _ in range(3):
        gone = server.client()
        gone.send(encode('LCS', 'a', 'b') * 3)
        gone.close()
    assert len(slow.command('LCS', 'a', 'b')) > 5000


def test_a_server_ends_during_lcs(start):
    server = start()
    slow = server.client()
    slow.pipeline([('SET', 'a', LETTERS[0]), ('SET', 'b', LETTERS[1])])
    for _ in range(5):
        server.client().send(encode('LCS', 'a', 'b', 'IDX'))
    server.stop()


def test_patterns_have_a_bound(server):
    client = server.client()
    client.command('SET', 'a' * 100000, 'x')
    slow = '*' + 'a' * 50000 + 'b'
    assert client.command('KEYS', slow) == []
    assert client.command('SCAN', '0', 'MATCH', slow, 'COUNT', '1000')[1] == []
    assert client.command('CONFIG', 'GET', '*[' + '0' * 1000000) == []
    assert client.command('COMMAND', 'LIST', 'FILTERBY', 'PATTERN', '[' + '0' * 1000000) == []


@pytest.mark.limit(300)
def test_large_values_go_back_to_the_system(server):
    """Deleted, overwritten, expired, or sent and never taken over: the main thread unmaps them."""
    client = server.client(timeout=PATIENCE)
    client.command('PING')
    before = server.resident_bytes()
    large = b'x' * (64 << 20)
    commands = [('DEL', 'a'), ('SET', 'a', 'small'), ('PEXPIRE', 'a', '1'), ('UNLINK', 'a'), ('GETDEL', 'a'), ('SET', 'a', large, 'XX', 'NX'), ('FLUSHALL',)]
    for command in commands:
        assert client.command('SET', 'a', large) == b'OK'
        client.command(*command)
        client.command('DEL', 'a')
        wait_for(lambda: server.resident_bytes() <= before + (48 << 20))


def test_large_values_are_populated_one_a_slice(start):
    server = start(options=[('enable-debug-command', 'yes')])
    client = server.client(timeout=PATIENCE)
    before = long_slices(server)
    assert client.command('DEBUG', 'POPULATE', '60', 'k', 10 << 20) == b'OK'
    assert long_slices(server) >= before + 58       # a piece that is done in one slice is none
    assert client.command('STRLEN', 'k:59') == 10 << 20
    assert client.command('GETRANGE', 'k:59', 0, 9) == b'value:59\0\0'
    assert client.command('GETRANGE', 'k:59', -2, -1) == b'\0\0'
    assert server.resident_bytes() < 400 << 20      # 600 MB of zeros were not written


SETS = {'a': {b'm:%d' % i for i in range(0, 60000)}, 'b': {b'm:%d' % i for i in range(0, 90000, 2)}, 'c': {b'm:%d' % i for i in range(0, 60000, 3)}}


def fill_sets(client, tag):
    for name, members in SETS.items():
        members = sorted(members)
        client.pipeline([('SADD', tag + name, *members[at:at + 5000]) for at in range(0, len(members), 5000)])


@pytest.mark.limit(300)
@pytest.mark.parametrize('tag', ['{t}', ''])
def test_sets_are_combined_in_slices(server, tag):
    """Over one shard and over several; what is expected is what Python makes of them."""
    slow, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    fill_sets(slow, tag)
    x, y, z = (SETS[name] for name in 'abc')
    keys = [tag + name for name in 'abc']
    slow.command('SET', tag + 'x', 'y')
    for command, expected in (('SINTER', x & y & z), ('SUNION', x | y | z), ('SDIFF', x - y - z)):
        before = long_slices(server)
        got = slow.command(command, *keys)
        assert len(got) == len(expected) and set(got) == expected
        assert long_slices(server) >= before + 10 or not tag
        before = long_slices(server)
        assert slow.command(command + 'STORE', tag + 'to', *keys) == len(expected)
        assert long_slices(server) >= before + 10 or not tag
        assert set(slow.command('SMEMBERS', tag + 'to')) == expected
        slow.pipeline([('MULTI',), (command, *keys), (command + 'STORE', tag + 'to', *keys)])
        inside = slow.command('EXEC')
        assert set(inside[0]) == expected and inside[1] == len(expected)
        assert answered_first(slow, encode(command, *keys), other, ('GET', tag + 'x'), b'y')
        assert answered_first(slow, encode(command + 'STORE', tag + 'to', *keys), other, ('GET', tag + 'x'), b'y')
    few = tag + 'few'       # the others' members are taken out of a copy of the first, or the first's are looked for in them
    slow.command('SADD', few, *(b'm:%d' % i for i in range(5)))
    assert set(slow.command('SDIFF', keys[0], few)) == {m for m in x if int(m[2:]) >= 5}
    assert slow.command('SDIFF', few, *keys) == [] and set(slow.command('SUNION', keys[0])) == x
    assert slow.command('SINTERCARD', 3, *keys) == len(x & y & z) and slow.command('SINTERCARD', 3, *keys, 'LIMIT', 5000) == 5000
    assert slow.command('SDIFF', keys[0], keys[0]) == [] and slow.command('SINTER', keys[0], tag + 'none') == []
    assert slow.command('SUNIONSTORE', keys[0], *keys) == len(x | y | z) == slow.command('SCARD', keys[0])


def test_a_server_ends_and_clients_leave_while_sets_are_combined(start):
    server = start()
    slow = server.client(timeout=PATIENCE)
    fill_sets(slow, '{t}')
    fill_sets(slow, '')
    for tag in ('{t}', ''):
        for command in (('SUNION', tag + 'a', tag + 'b'), ('SINTERSTORE', tag + 'to', tag + 'a', tag + 'b'), ('SDIFF', tag + 'a', tag + 'c')):
            gone = server.client()
            gone.send(encode(*command) * 2)
            gone.close()
    assert slow.command('SINTERCARD', 2, '{t}a', '{t}b') == 30000
    for _ in range(3):
        server.client().send(encode('SUNION', '{t}a', '{t}b', '{t}c') * 3)
        server.client().send(encode('SUNIONSTORE', 'to', 'a', 'b', 'c') * 3)
    server.stop()


SCORES = {'a': {b'm:%d' % i: i % 1009 for i in range(0, 20000)}, 'b': {b'm:%d' % i: i % 503 for i in range(0, 30000, 2)}, 'c': {b'm:%d' % i: 1 for i in range(0, 20000, 3)}}


def fill_zsets(client, tag):
    """The third is a set: its members count as if their scores were 1."""
    for name in 'ab':
        items = list(SCORES[name].items())
        client.pipeline([('ZADD', tag + name, *(x for member, score in items[at:at + 5000] for x in (score, member))) for at in range(0, len(items), 5000)])
    client.command('SADD', tag + 'c', *SCORES['c'])


def in_order(scores):
    return [x for member, score in sorted(scores.items(), key=lambda item: (item[1], item[0])) for x in (member, b'%d' % score)]


@pytest.mark.limit(300)
@pytest.mark.parametrize('tag', ['{t}', ''])
def test_sorted_sets_are_combined_in_slices(server, tag):
    """Over one shard and over several; what is expected is what Python makes of them."""
    slow, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    fill_zsets(slow, tag)
    x, y, z = (SCORES[name] for name in 'abc')
    keys = [tag + name for name in 'abc']
    slow.command('SET', tag + 'x', 'y')
    weights = ('WEIGHTS', 1, 2, 3)
    for command, options, expected in (('ZINTER', weights, {m: s + 2 * y[m] + 3 for m, s in x.items() if m in y and m in z}), ('ZDIFF', (), {m: s for m, s in x.items() if m not in y and m not in z}),
                                       ('ZUNION', weights, {m: x.get(m, 0) + 2 * y.get(m, 0) + 3 * z.get(m, 0) for m in {*x, *y, *z}})):
        question, stored = (command, 3, *keys, *options, 'WITHSCORES'), (command + 'STORE', tag + 'to', 3, *keys, *options)
        before = long_slices(server)
        assert slow.command(*question) == in_order(expected)
        assert long_slices(server) >= before + 10 or not tag
        before = long_slices(server)
        assert slow.command(*stored) == len(expected)
        assert long_slices(server) >= before + 10 or not tag
        assert slow.command('ZRANGE', tag + 'to', 0, -1, 'WITHSCORES') == in_order(expected)
        slow.pipeline([('MULTI',), question, stored])
        assert slow.command('EXEC') == [in_order(expected), len(expected)]
        assert answered_first(slow, encode(*question), other, ('GET', tag + 'x'), b'y')
        assert answered_first(slow, encode(*stored), other, ('GET', tag + 'x'), b'y')
    both = len([m for m in x if m in y])
    assert slow.command('ZINTERCARD', 2, *keys[:2]) == both and slow.command('ZINTERCARD', 2, *keys[:2], 'LIMIT', 5000) == 5000
    assert slow.command('ZUNION', 2, keys[0], tag + 'none', 'WITHSCORES') == in_order(x) and slow.command('ZINTER', 2, keys[0], tag + 'none') == []
    assert slow.command('ZUNION', 2, keys[0], tag + 'x').startswith(b'WRONGTYPE')
    assert slow.command('ZUNIONSTORE', keys[0], 2, keys[0], keys[1], 'AGGREGATE', 'MAX') == len({*x, *y})
    assert slow.command('ZRANGE', keys[0], 0, -1, 'WITHSCORES') == in_order({m: max(x.get(m, 0), y.get(m, 0)) for m in {*x, *y}})


def test_a_server_ends_and_clients_leave_while_sorted_sets_are_combined(start):
    server = start()
    slow = server.client(timeout=PATIENCE)
    for tag in ('{t}', ''):
        fill_zsets(slow, tag)
        for command in (('ZUNION', 2, tag + 'a', tag + 'b'), ('ZINTERSTORE', tag + 'to', 2, tag + 'a', tag + 'b'), ('ZDIFF', 2, tag + 'a', tag + 'c')):
            gone = server.client()
            gone.send(encode(*command) * 2)
            gone.close()
    assert slow.command('ZINTERCARD', 2, '{t}a', '{t}b') == 10000
    for _ in range(3):
        server.client().send(encode('ZUNION', 3, '{t}a', '{t}b', '{t}c') * 3)
        server.client().send(encode('ZUNIONSTORE', 'to', 3, 'a', 'b', 'c') * 3)
    server.stop()


@pytest.mark.parametrize('command,fill', [('SRANDMEMBER', 'SADD'), ('HRANDFIELD', 'HSET')])
def test_members_that_may_be_drawn_again_are_drawn_in_slices(server, command, fill):
    slow, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    names = [b'%d' % i for i in range(1000)]
    slow.command(fill, '{t}of', *(x for name in names for x in ((name, name) if fill == 'HSET' else (name,))))
    slow.command('SET', '{t}x', 'y')
    before = long_slices(server)
    got = slow.command(command, '{t}of', -100000)
    assert len(got) == 100000 and set(got) == set(names)
    assert long_slices(server) >= before + 50
    assert answered_first(slow, encode(command, '{t}of', -100000), other, ('GET', '{t}x'), b'y')
    slow.pipeline([('MULTI',), (command, '{t}of', -3000), (command, 'none', -3000)])
    assert [len(x) for x in slow.command('EXEC')] == [3000, 0]


@pytest.mark.limit(300)
@pytest.mark.parametrize('command,fill', [('SRANDMEMBER', 'SADD'), ('HRANDFIELD', 'HSET')])
def test_different_members_are_drawn_in_slices(server, command, fill):
    """Few of many are drawn one by one, others on a walk through all."""
    slow, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    names = [b'm:%d' % i for i in range(60000)]
    slow.pipeline([(fill, '{t}of', *(x for name in names[at:at + 5000] for x in ((name, name) if fill == 'HSET' else (name,)))) for at in range(0, 60000, 5000)])
    slow.command('SET', '{t}x', 'y')
    for count in (6000, 15000, 25000, 59999, 60000, 70000, 1 << 40):
        before = long_slices(server)
        got = slow.command(command, '{t}of', count)
        assert len(got) == len(set(got)) == min(count, 60000) and set(got) <= set(names)
        assert long_slices(server) >= before + 4, count
        assert count < 25000 or answered_first(slow, encode(command, '{t}of', count), other, ('GET', '{t}x'), b'y')
    slow.pipeline([('MULTI',), (command, '{t}of', 6000), (command, '{t}of', 50000), (command, 'none', 3000)])
    inside = slow.command('EXEC')
    assert [len(x) for x in inside] == [6000, 50000, 0] and all(len(set(x)) == len(x) for x in inside)


@pytest.mark.limit(300)
def test_spop_with_a_count_goes_in_slices(server):
    """By whichever of its ways: what is replied and what is left are all there was, and who reads meanwhile sees all or nothing of it."""
    slow, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    names = [b'm:%d' % i for i in range(60000)]
    slow.command('SET', '{t}x', 'y')
    for count in (8000, 40000, 55000, 59999, 60000, 1 << 40):
        went_first = False
        for _ in range(50):
            slow.pipeline([('SADD', '{t}of', *names[at:at + 5000]) for at in range(0, 60000, 5000)])
            before = long_slices(server)
            slow.send(encode('SPOP', '{t}of', count))
            assert other.command('GET', '{t}x') == b'y'
            went_first = not select.select([slow.socket], [], [], 0)[0]
            seen = other.command('SCARD', '{t}of')
            got = slow.read()
            left = slow.command('SMEMBERS', '{t}of')
            assert len(got) == len(set(got)) == min(count, 60000)
            assert len(got) + len(left) == 60000 and set(got) | set(left) == set(names)
            assert seen in (60000, len(left))
            assert slow.command('EXISTS', '{t}of') == (len(left) > 0)
            assert long_slices(server) >= before + 4, count
            if went_first:
                break
        assert went_first, count
    slow.pipeline([('SADD', '{t}of', *names[at:at + 5000]) for at in range(0, 60000, 5000)])
    slow.pipeline([('MULTI',), ('SPOP', '{t}of', 7000), ('SPOP', '{t}of', 50000), ('SCARD', '{t}of'), ('SPOP', '{t}of', 50000)])
    a, b, n, c = slow.command('EXEC')
    assert [len(a), len(b), n, len(c)] == [7000, 50000, 3000, 3000] and set(a) | set(b) | set(c) == set(names)


def test_a_server_ends_and_clients_leave_while_members_are_drawn(start):
    server = start()
    slow = server.client(timeout=PATIENCE)
    names = [b'm:%d' % i for i in range(60000)]
    commands = [('SRANDMEMBER', 's', 9000), ('SRANDMEMBER', 's', 50000), ('SRANDMEMBER', 's', -50000), ('HRANDFIELD', 'h', 9000), ('HRANDFIELD', 'h', 50000), ('SPOP', 's', 1000), ('SPOP', 's', 50000)]
    for at in range(0, 60000, 5000):
        slow.command('SADD', 's', *names[at:at + 5000])
        slow.command('HSET', 'h', *(x for name in names[at:at + 5000] for x in (name, name)))
    for command in commands[:5]:
        gone = server.client()
        gone.send(encode(*command) * 2)
        gone.close()
    assert slow.command('SCARD', 's') == 60000 and slow.command('HLEN', 'h') == 60000
    for command in commands:
        server.client().send(encode(*command) * 3)
    server.stop()


def test_who_asks_for_too_much_in_slices_is_closed(server):
    client, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    client.command('HSET', 'h', b'f' * (1 << 20), 'v')
    client.command('CONFIG', 'SET', 'client-output-buffer-limit', 'normal 0 0 0')
    client.send(encode('HRANDFIELD', 'h', -1000000))
    assert client.read_to_end(timeout=PATIENCE)[1]
    assert other.command('HLEN', 'h') == 1


def hash_of(n):
    return {b'field:%d' % i: b'value:%d' % i if i % 100 else b'v' * 2000 for i in range(n)}


N_COPIED = 20000
KINDS = {
    'hash': (lambda client, key: client.pipeline([('HSET', key, *(x for item in list(hash_of(N_COPIED).items())[at:at + 2000] for x in item)) for at in range(0, N_COPIED, 2000)]),
             lambda client, key: dict(zip(*[iter(client.command('HGETALL', key))] * 2))),
    'set': (lambda client, key: client.pipeline([('SADD', key, *(b'member:%d' % i for i in range(at, at + 2000))) for at in range(0, N_COPIED, 2000)]),
            lambda client, key: set(client.command('SMEMBERS', key))),
    'list': (lambda client, key: client.pipeline([('RPUSH', key, *(b'element:%d' % i if i % 100 else b'e' * 2000 for i in range(at, at + 2000))) for at in range(0, N_COPIED, 2000)]),
             lambda client, key: client.command('LRANGE', key, 0, -1)),
    'zset': (lambda client, key: client.pipeline([('ZADD', key, *(x for i in range(at, at + 2000) for x in (i % 1009, b'member:%d' % i))) for at in range(0, N_COPIED, 2000)]),
             lambda client, key: client.command('ZRANGE', key, 0, -1, 'WITHSCORES')),
}


@pytest.mark.limit(300)
@pytest.mark.parametrize('kind', KINDS)
def test_containers_are_copied_in_slices(server, kind):
    """To a key of the same shard, and to keys of whatever shard they are on."""
    fill, read = KINDS[kind]
    slow, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    fill(slow, '{t}a')
    value = read(slow, '{t}a')
    slow.command('SET', '{t}x', 'y')
    for to in ('{t}b', 'c0', 'c1', 'c2', 'c3'):
        before = long_slices(server)
        assert slow.command('COPY', '{t}a', to) == 1
        assert long_slices(server) >= before + 3
        assert read(slow, to) == value
        assert slow.command('COPY', '{t}a', to) == 0
        assert slow.command('PEXPIRE', '{t}a', 10000000) == 1
        slow.command('SET', to, 'text')
        assert slow.command('COPY', '{t}a', to, 'REPLACE') == 1
        assert read(slow, to) == value and slow.command('PTTL', to) > 0 and slow.command('PERSIST', '{t}a') == 1
        assert answered_first(slow, encode('COPY', '{t}a', to, 'REPLACE'), other, ('GET', '{t}x'), b'y')
        slow.pipeline([('MULTI',), ('COPY', '{t}a', to, 'REPLACE'), ('DEL', '{t}a'), ('COPY', to, '{t}a')])
        assert slow.command('EXEC') == [1, 1, 1]
        assert read(slow, to) == value and read(slow, '{t}a') == value
    assert slow.command('COPY', '{t}a', '{t}a', 'DB', 1) == 1
    slow.pipeline([('SELECT', 1), ('DEL', '{t}x')])
    assert read(slow, '{t}a') == value


@pytest.mark.limit(300)
@pytest.mark.parametrize('kind', KINDS)
def test_containers_are_renamed_in_slices(server, kind):
    """Over two shards they are copied; who asks meanwhile for either of the keys waits, and finds one of them."""
    fill, read = KINDS[kind]
    slow, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    names = ['r%d' % n for n in range(6)]
    fill(slow, names[0])
    value = read(slow, names[0])
    slow.command('PEXPIRE', names[0], 10000000)
    used = int(server.info('memory')['used_memory'])
    first = False
    for n in range(600):
        at, to = names[n % 6], names[(n + 1) % 6]
        slow.send(encode(('RENAME', 'RENAMENX')[n % 2], at, to))
        other.send(encode('PING') + encode('EXISTS', at, to))
        assert other.read() == b'PONG'
        first |= not select.select([slow.socket], [], [], 0)[0]
        assert other.read() == 1
        assert slow.read() == (b'OK', 1)[n % 2]
        assert slow.command('EXISTS', at) == 0
        if n % 6 == 5:
            assert read(slow, to) == value and slow.command('PTTL', to) > 0
            assert slow.command('COPY', to, 'copy') == 1 and slow.command('RENAMENX', to, 'copy') == 0 and slow.command('DEL', 'copy') == 1
        if (first or server.threads == 1) and n > 12:
            break
    assert first or server.threads == 1        # where it only changes hands
    wait_for(lambda: int(server.info('memory')['used_memory']) < used + (1 << 20))     # what it was copied from is given back


@pytest.mark.limit(300)
@pytest.mark.parametrize('to', ['{t}b', 'c0', 'c1', 'c2'])
def test_a_copy_is_of_one_moment(server, to):
    """Two fields that are always changed together are the same in each copy."""
    slow, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    KINDS['hash'][0](slow, '{t}a')
    slow.command('HSET', '{t}a', 'left', 0, 'right', 0)
    for n in range(30):
        slow.send(encode('COPY', '{t}a', to, 'REPLACE'))
        other.send(b''.join(encode('HSET', '{t}a', *(('left', i, 'right', i), ('right', i, 'left', i))[i % 2]) for i in range(n, n + 20)))
        assert slow.read() == 1
        left, right = slow.command('HMGET', to, 'left', 'right')
        assert left == right
        for _ in range(20):
            assert other.read() == 0
        assert slow.command('HLEN', to) == N_COPIED + 2


def test_a_server_ends_and_clients_leave_while_containers_are_copied(start):
    server = start()
    slow = server.client(timeout=PATIENCE)
    for kind, (fill, read) in KINDS.items():
        fill(slow, '{t}' + kind)
        value = read(slow, '{t}' + kind)
        for to in ('{t}b', 'c0', 'c1', 'c2'):
            gone = server.client()
            gone.send(encode('COPY', '{t}' + kind, to) + encode('RENAME', to, to + 'x') * 2)
            gone.close()
        assert read(slow, '{t}' + kind) == value
    for to in ('{t}b', 'c0', 'c1', 'c2'):
        for kind in KINDS:
            server.client().send(encode('COPY', '{t}' + kind, to, 'REPLACE') + encode('RENAME', to, to + 'x') * 2)
    server.stop()


@pytest.mark.parametrize('to', ['{t}b', 'c0', 'c1', 'c2'])
def test_a_copy_that_is_refused_leaves_nothing(server, to):
    client = server.client(timeout=PATIENCE)
    KINDS['hash'][0](client, '{t}a')
    client.command('SET', to, 'text')
    used = int(server.info('memory')['used_memory'])
    client.command('CONFIG', 'SET', 'maxmemory', used + 500000)
    for _ in range(5):
        assert client.command('COPY', '{t}a', to, 'REPLACE').startswith(b'OOM')
    assert client.command('GET', to) == b'text'
    assert client.command('RENAME', '{t}a', to) == b'OK'        # which is never refused
    assert client.command('HLEN', to) == N_COPIED
    client.command('CONFIG', 'SET', 'maxmemory', 0)


@pytest.mark.limit(300)
@pytest.mark.parametrize('to', ['{t}to', 's0', 's1', 's2'])
def test_ranges_are_stored_in_slices(server, to):
    slow, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    KINDS['zset'][0](slow, '{t}a')
    slow.command('SET', '{t}x', 'y')
    for limits in ((0, -1), (100, 15000), (0, -1, 'REV'), ('-inf', '+inf', 'BYSCORE'), ('(900', '100', 'BYSCORE', 'REV', 'LIMIT', 10, 12000), (0, 100), (5, 3)):
        expected = sorted(slow.command('ZRANGE', '{t}a', *limits))
        question = ('ZRANGESTORE', to, '{t}a', *limits)
        before = long_slices(server)
        assert slow.command(*question) == len(expected)
        assert len(expected) < 1000 or long_slices(server) >= before + 20
        stored = KINDS['zset'][1](slow, to)
        assert sorted(stored[::2]) == expected and stored == [x for m in stored[::2] for x in (m, b'%d' % (int(m[7:]) % 1009))]
        assert slow.command('OBJECT', 'ENCODING', to) == b'skiplist' if len(expected) > 128 else True
        slow.pipeline([('MULTI',), ('DEL', to), question, ('ZCARD', to)])
        assert slow.command('EXEC')[1:] == [len(expected)] * 2
        if len(expected) > 1000:
            assert answered_first(slow, encode(*question), other, ('GET', '{t}x'), b'y')
    assert slow.command('ZRANGESTORE', to, '{t}x', 0, -1).startswith(b'WRONGTYPE')
    used = int(server.info('memory')['used_memory'])
    slow.command('ZRANGESTORE', to, '{t}a', 0, 3)
    slow.command('CONFIG', 'SET', 'maxmemory', used + 300000)
    assert slow.command('ZRANGESTORE', to, '{t}a', 0, -1).startswith(b'OOM')
    assert slow.command('ZCARD', to) == 4
    slow.command('CONFIG', 'SET', 'maxmemory', 0)
    assert slow.command('ZRANGESTORE', '{t}a', '{t}a', 1000, -1) == 19000 == slow.command('ZCARD', '{t}a')


def test_a_server_ends_and_clients_leave_while_ranges_are_stored(start):
    server = start()
    slow = server.client(timeout=PATIENCE)
    KINDS['zset'][0](slow, '{t}a')
    for to in ('{t}to', 's0', 's1', 's2'):
        gone = server.client()
        gone.send(encode('ZRANGESTORE', to, '{t}a', 0, -1) * 2)
        gone.close()
    assert slow.command('ZCARD', '{t}a') == N_COPIED
    for to in ('{t}to', 's0', 's1', 's2'):
        server.client().send(encode('ZRANGESTORE', to, '{t}a', 0, -1) * 3)
    server.stop()


@pytest.mark.limit(300)
def test_members_of_sorted_sets_are_drawn_in_slices(server):
    """Few of many are drawn one by one, others on a walk through all, and any as often as they come."""
    slow, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    KINDS['zset'][0](slow, '{t}of')
    scores = dict(zip(*[iter(slow.command('ZRANGE', '{t}of', 0, -1, 'WITHSCORES'))] * 2))
    slow.command('SET', '{t}x', 'y')
    for count in (3000, 6000, 9000, 19999, 20000, 30000, 1 << 40, -30000):
        before = long_slices(server)
        got = slow.command('ZRANDMEMBER', '{t}of', count)
        assert len(got) == (-count if count < 0 else min(count, 20000)) and set(got) <= set(scores)
        assert len(set(got)) == len(got) or count < 0
        assert long_slices(server) >= before + 4, count
        got = slow.command('ZRANDMEMBER', '{t}of', count, 'WITHSCORES')
        assert all(scores[member] == score for member, score in zip(*[iter(got)] * 2))
        if count > 9000 or count < 0:
            assert answered_first(slow, encode('ZRANDMEMBER', '{t}of', count), other, ('GET', '{t}x'), b'y')
    slow.pipeline([('MULTI',), ('ZRANDMEMBER', '{t}of', 3000), ('ZRANDMEMBER', '{t}of', 15000), ('ZRANDMEMBER', 'none', 3000)])
    inside = slow.command('EXEC')
    assert [len(x) for x in inside] == [3000, 15000, 0] and all(len(set(x)) == len(x) for x in inside)
    for count in (3000, 15000, -30000):
        gone = server.client()
        gone.send(encode('ZRANDMEMBER', '{t}of', count) * 2)
        gone.close()
    assert slow.command('ZCARD', '{t}of') == 20000
    for count in (3000, 15000, -30000):
        server.client().send(encode('ZRANDMEMBER', '{t}of', count) * 3)


@pytest.mark.parametrize('command,fill', [('HGETALL', 'HSET'), ('HKEYS', 'HSET'), ('SMEMBERS', 'SADD')])
def test_long_members_are_replied_few_a_slice(server, command, fill):
    """A slice of the reply is so many bytes, however few members they are."""
    client = server.client(timeout=PATIENCE)
    names = [b'%d' % i + b'm' * 2000 for i in range(1000)]
    client.command(fill, 'of', *(x for name in names for x in ((name, b'v') if fill == 'HSET' else (name,))))
    before = long_slices(server)
    got = client.command(command, 'of')
    assert set(names) <= set(got) and len(got) == (2000 if command == 'HGETALL' else 1000)
    assert long_slices(server) >= before + 20


@pytest.mark.limit(300)
@pytest.mark.parametrize('tag', ['{t}', ''])
@pytest.mark.parametrize('kind,command,words,single', [('list', ('LMPOP',), ('LEFT', 'RIGHT'), 'LRANGE'), ('list', ('BLMPOP', 0), ('LEFT', 'RIGHT'), 'LRANGE'),
                                                       ('zset', ('ZMPOP',), ('MIN', 'MAX'), 'ZRANGE'), ('zset', ('BZMPOP', 0), ('MIN', 'MAX'), 'ZRANGE')])
def test_many_are_popped_in_slices(server, kind, command, words, single, tag):
    """From either end, with keys on one shard or several. What is popped and what is left are all there was, in order."""
    slow, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    of, beside, none = tag + 'of', tag + 'x' if tag else '{of}x', [tag + 'none%d' % n for n in range(5)]
    slow.command('SET', beside, 'y')
    went_first = False
    for word in words:
        for count in (100, 12000, 20000, 1 << 40):
            for _ in range(500):
                slow.command('DEL', of)
                KINDS[kind][0](slow, of)
                all_of_it = slow.command(single, of, 0, -1)
                n, before = min(count, N_COPIED), long_slices(server)
                slow.send(encode(*command, 6, *none, of, word, 'COUNT', count))
                assert other.command('GET', beside) == b'y'
                went_first |= not select.select([slow.socket], [], [], 0)[0]
                seen = other.command('EXISTS', of)
                name, got = slow.read()
                got = [x[0] if kind == 'zset' else x for x in got]
                assert name == of.encode() and seen in (1, n < N_COPIED)
                assert got == (all_of_it[:n] if word == words[0] else all_of_it[::-1][:n])
                left = slow.command(single, of, 0, -1)
                assert left == (all_of_it[n:] if word == words[0] else all_of_it[:N_COPIED - n])
                assert count == 100 or long_slices(server) >= before + 10
                if went_first or count == 100:
                    break
    assert went_first
    a = tag + 'a'
    KINDS[kind][0](slow, a)
    slow.pipeline([('MULTI',), (*command, 1, a, words[0], 'COUNT', 15000), (*command, 2, a, none[0], words[1], 'COUNT', 15000), (*command, 2, none[1], a, words[0])])
    first, second, third = slow.command('EXEC')
    assert [len(first[1]), len(second[1])] == [15000, 5000] and third.how == '*'


WAITERS = {'list': ('BLMPOP', 'LEFT', 'LRANGE', 'LLEN'), 'zset': ('BZMPOP', 'MIN', 'ZRANGE', 'ZCARD')}


def parked(server, client, *command):
    """Who waits for that from now on."""
    number = client.command('CLIENT', 'ID')
    client.send(encode(*command))
    control = server.client()
    wait_for(lambda: b' flags=b ' in control.command('CLIENT', 'LIST', 'ID', number))


def popped_of(reply, kind):
    name, got = reply
    return [x[0] if kind == 'zset' else x for x in got]


@pytest.mark.limit(300)
@pytest.mark.parametrize('kind', WAITERS)
@pytest.mark.parametrize('tag', ['{t}', ''])
def test_who_waits_for_many_is_served_in_slices(server, kind, tag):
    """In the order of their coming; whoever asks for the key meanwhile sees what is left when all is done."""
    pop, end, read, count = WAITERS[kind]
    slow, second, other, c = (server.client(timeout=PATIENCE) for _ in range(4))
    key, source, beside, waited = tag + 'k', tag + 'source', tag + 'x' if tag else '{k}x', [tag + 'none%d' % n for n in range(4)] + [tag + 'k']
    c.command('SET', beside, 'y')
    first = False
    for n in (12000, 1 << 40):
        for _ in range(500):
            c.command('DEL', key)
            KINDS[kind][0](c, source)
            all_of_it = c.command(read, source, 0, -1)
            parked(server, slow, pop, 0, 5, *waited, end, 'COUNT', n)
            parked(server, second, pop, 0, 5, *waited, end, 'COUNT', 2)
            before = long_slices(server)
            assert c.command('RENAME', source, key) == b'OK'
            c.send(encode(count, key))
            assert other.command('GET', beside) == b'y'
            first |= not select.select([slow.socket], [], [], 0)[0]
            if n > N_COPIED:
                assert c.read() == 0 and popped_of(slow.read(), kind) == all_of_it
                c.command(*(('RPUSH', key, 'a', 'b') if kind == 'list' else ('ZADD', key, 1, 'a', 1, 'b')))
                assert popped_of(second.read(), kind) == [b'a', b'b']
            else:
                assert popped_of(slow.read(), kind) == all_of_it[:n] and popped_of(second.read(), kind) == all_of_it[n:n + 2]
                assert c.read() == N_COPIED - n - 2 and c.command(read, key, 0, -1) == all_of_it[n + 2:]
            assert long_slices(server) >= before + 10
            if first:
                break
        assert first


@pytest.mark.limit(300)
@pytest.mark.parametrize('kind', WAITERS)
@pytest.mark.parametrize('tag', ['{t}', ''])
def test_who_leaves_while_it_is_served_takes_all_or_nothing_along(server, kind, tag):
    """Nothing, as long as the reply is being made: then the next in the queue is served."""
    pop, end, read, _ = WAITERS[kind]
    c, second = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    key, source = tag + 'k', tag + 'source'
    nothing = False
    for _ in range(60):
        c.command('DEL', key)
        KINDS[kind][0](c, source)
        all_of_it = c.command(read, source, 0, -1)
        slow = server.client(timeout=PATIENCE)
        number = slow.command('CLIENT', 'ID')
        parked(server, slow, pop, 0, 2, tag + 'none', key, end, 'COUNT', 15000)
        parked(server, second, pop, 0, 2, tag + 'none', key, end, 'COUNT', 2)
        c.send(encode('RENAME', source, key))
        second.send(encode('PING'))     # behind what it waits for
        c.send(encode('CLIENT', 'KILL', 'ID', number))
        assert c.read() == b'OK' and c.read() in (0, 1)
        got, _ = popped_of(second.read(), kind), second.read()
        left = c.command(read, key, 0, -1)
        nothing = got == all_of_it[:2]
        assert got + left == all_of_it[0 if nothing else 15000:]
        if nothing:
            break
    assert nothing


@pytest.mark.several_threads
@pytest.mark.limit(300)
@pytest.mark.parametrize('kind', WAITERS)
def test_who_sends_no_more_while_it_is_served_gets_its_elements_or_no_reply(server, kind):
    """It is not parked yet when the key comes, perhaps, and has sent its last by then. If its elements stay, what it sent behind is not run: its reply would be taken for theirs."""
    pop, end, read, count = WAITERS[kind]
    c = server.client(timeout=PATIENCE)
    busy, tags = server.client(timeout=PATIENCE), ['{%d}' % i for i in range(4)]
    KINDS[kind][0](c, 'all')
    for tag in tags:
        c.command('SET', tag + 'long', b'x' * (128 << 10))
    seen = set()
    for n in range(300):
        keys, to, late = [tag + 'k' for tag in tags], tags[n % 4], tags[(n + 1 + n // 4 % 3) % 4]
        slow = server.client(timeout=PATIENCE)
        c.command('COPY', 'all', to + 'of')
        busy.send(encode('BITCOUNT', late + 'long') * (200 + n % 7 * 300))     # one shard is late to tell that it stands in its queue
        slow.send(encode(pop, 0, 4, *keys, end, 'COUNT', 1 << 40) + encode('ECHO', 'behind'))
        slow.socket.shutdown(socket.SHUT_WR)
        c.command('RENAME', to + 'of', to + 'k')
        replies, closed = slow.read_to_end()
        left = c.command(count, to + 'k')
        seen.add(left)
        assert closed and left in (0, N_COPIED)
        assert replies == b'' if left else replies.startswith(b'*2\r\n') and len(replies) > N_COPIED, (n, replies[:50])
        c.command('DEL', *keys)
        for _ in range(200 + n % 7 * 300):
            assert busy.read() == bin(ord('x')).count('1') * (128 << 10)
        slow.close()
    assert N_COPIED in seen


@pytest.mark.limit(300)
@pytest.mark.parametrize('kind', WAITERS)
def test_what_stops_everybody_finds_no_key_half_popped(start, kind):
    """Saving, SWAPDB, EXEC with a command over everything: who is served has its elements, and no other, whenever that comes."""
    server = start(options=[('enable-debug-command', 'yes')])
    pop, end, read, count = WAITERS[kind]
    c, slow, at_once = (server.client(timeout=PATIENCE) for _ in range(3))
    for what, reply in ((('DEBUG', 'RELOAD'), b'OK'), (('SWAPDB', 0, 1), b'OK'), (('MULTI',), b'OK')):
        for n in range(6):
            c.command('FLUSHALL')
            for key in ('{t}source', '{t}b'):
                KINDS[kind][0](c, key)
            assert c.command('COPY', '{t}b', '{t}b', 'DB', 1) == 1
            all_of_it = c.command(read, '{t}b', 0, -1)
            parked(server, slow, pop, 0, 1, '{t}k', end, 'COUNT', 15000)
            at_once.send(encode(pop, 0, 1, '{t}b', end, 'COUNT', 15000))
            c.send(encode('RENAME', '{t}source', '{t}k') + encode('PING') * (n * 7) + encode(*what))
            if what[0] == 'MULTI':
                c.send(encode('DBSIZE') + encode(count, '{t}k') + encode(count, '{t}b') + encode('EXEC'))
            assert popped_of(slow.read(), kind) == all_of_it[:15000]
            popped = at_once.read()
            assert popped.startswith(b'LOADING') if isinstance(popped, Error) else popped_of(popped, kind) == all_of_it[:15000]
            assert [c.read() for _ in range(2 + n * 7)] == [b'OK'] + [b'PONG'] * (n * 7) + [reply]
            if what[0] == 'MULTI':      # what is popped at once may have come later
                assert [c.read() for _ in range(3)] == [b'QUEUED'] * 3
                assert c.read() in ([2, N_COPIED - 15000, size] for size in (N_COPIED, N_COPIED - 15000))
            left = []
            for db in (0, 1):
                c.command('SELECT', db)
                left += [c.command(read, key, 0, -1) for key in ('{t}k', '{t}b')]
            c.command('SELECT', 0)
            b = [all_of_it if isinstance(popped, Error) else all_of_it[15000:], all_of_it]
            assert left[2 if what[0] == 'SWAPDB' else 0] == all_of_it[15000:] and left[0 if what[0] == 'SWAPDB' else 2] == []
            assert [left[1], left[3]] in (b, b[::-1])


def test_who_is_served_in_slices_can_not_be_unblocked(server):
    """And its time is over too late."""
    c, slow = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    number = slow.command('CLIENT', 'ID')
    KINDS['zset'][0](c, '{t}source')
    parked(server, slow, 'BZMPOP', 100, 1, '{t}k', 'MAX', 'COUNT', 15000)
    c.send(encode('RENAME', '{t}source', '{t}k') + encode('CLIENT', 'UNBLOCK', number))
    assert c.read() == b'OK' and c.read() == 0
    assert len(slow.read()[1]) == 15000 and c.command('ZCARD', '{t}k') == N_COPIED - 15000


@pytest.mark.parametrize('kind', WAITERS)
def test_who_stands_behind_what_brought_a_key_comes_after_who_waits_for_it(server, kind):
    """The key is the result of something long, and others wait for its intents to go: plain commands, and transactions."""
    pop, end, read, count = WAITERS[kind]
    c, slow, plain, many = (server.client(timeout=PATIENCE) for _ in range(4))
    names = ['n%d' % n for n in range(6)]
    KINDS[kind][0](c, 'source')
    all_of_it = c.command(read, 'source', 0, -1)
    for n in range(12):
        c.command('DEL', 'k')
        parked(server, slow, pop, 0, 2, 'k', 'none', end, 'COUNT', 15000)
        c.send(encode('COPY', 'source', 'k'))
        plain.send(encode('PING') * n + encode(*(('LPUSH', 'k', 'new') if kind == 'list' else ('ZADD', 'k', '-inf', 'new'))))
        many.send(encode('PING') * (11 - n) + encode('EXISTS', 'k', *names) + encode(count, 'k') + encode('DEL', 'k', *names))
        assert c.read() == 1
        got = popped_of(slow.read(), kind)
        assert [plain.read() for _ in range(n)] == [b'PONG'] * n
        added = plain.read()
        there, size, gone = [many.read() for _ in range(14 - n)][11 - n:]
        if got[0] == b'new':        # it was there before
            assert got == [b'new'] + ([] if len(got) == 1 else all_of_it[:14999])
        else:
            assert got == all_of_it[:15000]
            assert added in (1, N_COPIED - 15000 + 1)
            assert size in (0, 1, N_COPIED - 15000, N_COPIED - 15000 + 1, N_COPIED)
        assert gone in (0, 1) and there in (0, 1)
        slow.close()
        slow = server.client(timeout=PATIENCE)


def test_a_server_ends_while_who_waited_is_served(start):
    server = start()
    c = server.client(timeout=PATIENCE)
    for kind in WAITERS:
        for tag in ('{t}', ''):
            key = tag + kind
            KINDS[kind][0](c, key + 'source')
            parked(server, server.client(), WAITERS[kind][0], 0, 2, key, tag + 'none', WAITERS[kind][1], 'COUNT', 15000)
            KINDS[kind][0](c, key + 'b')
            server.client().send(encode(WAITERS[kind][0], 0, 2, tag + 'none', key + 'b', WAITERS[kind][1], 'COUNT', 15000))
            c.send(encode('RENAME', key + 'source', key))
            assert c.read() == b'OK'
    server.stop()


ELEMENTS, ELEMENT_BYTES = 40000, 500
ASIDE = ELEMENTS * ELEMENT_BYTES


def fill_aside(c, key):
    c.pipeline([('RPUSH', key, *(b'%0500d' % n for n in range(at, at + 2000))) for at in range(0, ELEMENTS, 2000)])


def fields_of(c, number):
    """What CLIENT LIST tells of one client, or nothing."""
    line = bytes(c.command('CLIENT', 'LIST', 'ID', number)).decode().strip()
    return dict(word.partition('=')[::2] for word in line.split(' ')) if line else {}


def most_aside(c, number, slow):
    """The most that a client held when all was received from it, before there was anything to be sent to it."""
    most = 0
    while not select.select([slow.socket], [], [], 0)[0]:
        fields = fields_of(c, number)
        if fields['omem'] == fields['obl'] == fields['qbuf'] == '0':
            most = max(most, int(fields['tot-mem']))
    return most


def ask_aside(c, slow, how):
    """Asks, in slices, for what is much; it is there already."""
    if how == 'served':
        parked_at = ['{k}%d' % n for n in range(3)] + ['{k}to']
        slow.send(encode('BLMPOP', 0, len(parked_at), *parked_at, 'LEFT', 'COUNT', ELEMENTS))
        wait_for(lambda: b'flags=b' in bytes(c.command('CLIENT', 'LIST')))
        c.command('RENAME', '{k}of', '{k}to')
        return
    if how == 'RESTORE':
        slow.send(encode('RESTORE', '{k}to', 0, sealed(b'\0' + compressed(1 + 264 * (ASIDE // 264))), 'REPLACE'))
        return
    slow.send(encode(*{'range': ('LRANGE', '{k}of', 0, -1), 'popped': ('LPOP', '{k}of', ELEMENTS), 'BLMPOP': ('BLMPOP', 0, 1, '{k}of', 'LEFT', 'COUNT', ELEMENTS), 'DUMP': ('DUMP', '{k}of')}[how]))


@pytest.mark.limit(300)
@pytest.mark.parametrize('how', ['range', 'popped', 'BLMPOP', 'served', 'DUMP', 'RESTORE'])
def test_what_is_being_made_for_a_client_counts_as_its_memory(server, how):
    c = server.client(timeout=PATIENCE)
    c.command('CONFIG', 'SET', 'rdbcompression', 'no')
    for _ in range(20):
        slow = server.client(timeout=PATIENCE)
        number = slow.command('CLIENT', 'ID')
        fill_aside(c, '{k}of')
        ask_aside(c, slow, how)
        most = most_aside(c, number, slow)
        assert not isinstance(slow.read(), Error)
        assert int(fields_of(c, number)['tot-mem']) < ASIDE / 4     # and counts no more
        slow.close()
        if most > ASIDE / 4:
            break
        c.command('FLUSHALL')
    assert most > ASIDE / 4


@pytest.mark.limit(300)
@pytest.mark.parametrize('limit,how', [('client-output-buffer-limit', 'range'), ('client-output-buffer-limit', 'served'), ('maxmemory-clients', 'range'), ('maxmemory-clients', 'served'),
                                       ('maxmemory-clients', 'DUMP')])
def test_a_reply_beyond_a_limit_of_its_client_is_not_made(server, limit, how):
    strict, none = (1 << 20, 0) if limit == 'maxmemory-clients' else ('normal 1mb 0 0', 'normal 0 0 0')
    c, slow = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    c.command('CONFIG', 'SET', 'rdbcompression', 'no')
    c.command('CLIENT', 'NO-EVICT', 'on')
    fill_aside(c, '{k}of')
    before = long_slices(server)
    ask_aside(c, slow, how)
    slow.read()
    made = in_all = long_slices(server) - before
    for _ in range(20):
        c.command('FLUSHALL')
        fill_aside(c, '{k}of')
        slow = server.client(timeout=PATIENCE)
        c.command('CONFIG', 'SET', limit, strict)
        before = long_slices(server)
        ask_aside(c, slow, how)
        assert slow.read_to_end() == (b'', True)
        made = long_slices(server) - before
        assert how != 'served' or c.command('LLEN', '{k}to') == ELEMENTS
        c.command('CONFIG', 'SET', limit, none)
        if made <= in_all / 2:
            break
    assert made <= in_all / 2
