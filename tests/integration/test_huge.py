"""Huge values in containers: replies refer to them instead of copying them, and what is received becomes them; memory stays bounded and counted."""

import pytest

from resp import NIL, Closed, encode
from server import PATIENCE, SLOW, long_slices, wait_for

SIZE = 6 << 20
HUGE = bytes(range(256)) * (SIZE // 256)

# How a key comes to have one huge value; what replies it, and how often it is in that.
KINDS = {
    'hash': (('HSET', 'k', 'f', HUGE), [(('HGET', 'k', 'f'), 1), (('HMGET', 'k', 'f', 'f'), 2), (('HGETALL', 'k'), 1), (('HVALS', 'k'), 1), (('HRANDFIELD', 'k', 3, 'WITHVALUES'), 1), (('HSCAN', 'k', 0), 1), (('HGETEX', 'k', 'FIELDS', 1, 'f'), 1)]),
    'names': (('HSET', 'k', HUGE, 'v'), [(('HKEYS', 'k'), 1), (('HGETALL', 'k'), 1), (('HSCAN', 'k', 0), 1)]),
    'list': (('RPUSH', 'k', HUGE), [(('LINDEX', 'k', 0), 1), (('LRANGE', 'k', 0, -1), 1)]),
    'set': (('SADD', 'k', HUGE), [(('SMEMBERS', 'k'), 1), (('SRANDMEMBER', 'k', -2), 2), (('SSCAN', 'k', 0), 1), (('SUNION', 'k'), 1)]),
    'zset': (('ZADD', 'k', 1, HUGE), [(('ZRANGE', 'k', 0, -1), 1), (('ZRANDMEMBER', 'k'), 1), (('ZSCAN', 'k', 0), 1)]),
}


def huge_in(reply):
    """How often the value is in a reply."""
    if isinstance(reply, (list, tuple)):
        return sum(map(huge_in, reply))
    return int(reply == HUGE)


def output_of(server, client):
    return next(int(line.split(' omem=')[1].split()[0]) for line in client.command('CLIENT', 'LIST').decode().splitlines() if ' name=reader ' in line)


@pytest.mark.alone
@pytest.mark.limit(300)
@pytest.mark.parametrize('kind', KINDS)
def test_replies_refer_to_huge_values(server, kind):
    """Many of them wait for a client that does not read: they take no memory of their own, and are counted."""
    fill, questions = KINDS[kind]
    c, reader = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE, receive_buffer=262144)
    reader.command('CLIENT', 'SETNAME', 'reader')
    c.command(*fill)
    before = server.resident_bytes()
    for question, times in questions:
        n = 16 // times
        reader.send(encode(*question) * n)
        wait_for(lambda: output_of(server, c) >= 15 * SIZE)
        assert server.resident_bytes() < before + 8 * SIZE, question
        for _ in range(n):
            assert huge_in(reader.read()) == times, question
    assert c.command('DEL', 'k') == 1
    wait_for(lambda: int(server.info('memory')['used_memory']) < 2 * SIZE)


@pytest.mark.parametrize('kind', KINDS)
def test_a_huge_value_that_is_being_sent_stays_as_it_is(server, kind):
    """Whatever becomes of its key, and of the shard's memory, meanwhile."""
    fill, questions = KINDS[kind]
    c, reader = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE, receive_buffer=262144)
    other = b'x' * SIZE
    ends = [('DEL', 'k'), ('FLUSHALL',), ('SET', 'k', other), ('PEXPIRE', 'k', 1), ('RENAME', 'k', 'l')]
    if kind == 'hash':
        ends += [('HSET', 'k', 'f', other), ('HDEL', 'k', 'f'), ('HGETDEL', 'k', 'FIELDS', 1, 'f'), ('HPEXPIRE', 'k', 1, 'FIELDS', 1, 'f')]
    if kind == 'list':
        ends += [('LSET', 'k', 0, other), ('LPOP', 'k'), ('LTRIM', 'k', 1, 0), ('LREM', 'k', 0, HUGE)]
    if kind == 'set':
        ends += [('SPOP', 'k'), ('SMOVE', 'k', 'l', HUGE)]
    for n, end in enumerate(ends):
        question, times = questions[n % len(questions)]
        c.command('DEL', 'k')
        c.command(*fill)
        reader.send(encode(*question) + encode('PING'))
        wait_for(lambda: server.info('commandstats').get('cmdstat_' + question[0].lower(), 'calls=0').split(',')[0] != 'calls=0')
        c.command('CONFIG', 'RESETSTAT')
        c.command(*end)
        assert c.command('SET', 'another', other) == b'OK'
        assert huge_in(reader.read()) == times, end
        assert reader.read() == b'PONG'
    c.command('FLUSHALL')
    wait_for(lambda: int(server.info('memory')['used_memory']) < 2 * SIZE)


@pytest.mark.alone
@pytest.mark.limit(300)
def test_what_is_received_becomes_the_value(server):
    """A huge argument is not copied into a hash or a list."""
    c = server.client(timeout=PATIENCE)
    huge = HUGE * 8
    c.command('RPUSH', 'list', 'a', 'b')
    before = server.peak_bytes()
    for n, command in enumerate([('HSET', 'h', 'f'), ('HSETNX', 'g', 'f'), ('HSETEX', 'e', 'FIELDS', 1, 'f'), ('RPUSH', 'l'), ('LPUSHX', 'list'), ('LSET', 'list', 1), ('LINSERT', 'list', 'BEFORE', 'b')]):
        assert not isinstance(c.command(*command, huge), Exception)
        if SLOW == 1:
            assert server.peak_bytes() < before + (n + 1) * len(huge) + len(huge) // 2, command
    for question in [('HGET', 'h', 'f'), ('HGET', 'g', 'f'), ('HGET', 'e', 'f'), ('LINDEX', 'l', 0), ('LINDEX', 'list', 0), ('LINDEX', 'list', 1), ('LINDEX', 'list', 2)]:
        assert c.command(*question) == huge, question
    assert c.command('HSET', 'h', 'f', huge, 'f', huge[1:], 'g', huge) == 1      # one that is given up at once
    assert c.command('HMGET', 'h', 'f', 'g') == [huge[1:], huge]
    assert c.command('COPY', 'h', 'copy') == 1 and c.command('HGET', 'copy', 'f') == huge[1:]
    assert c.command('DEL', 'h', 'g', 'e', 'l', 'list', 'copy') == 6
    wait_for(lambda: int(server.info('memory')['used_memory']) < len(huge))


def test_huge_values_inside_exec_and_without_a_reply(server):
    c = server.client(timeout=PATIENCE)
    for kind, (fill, questions) in KINDS.items():
        c.command('DEL', 'k', 'l')
        c.command(*fill)
        c.command('MULTI')
        for question, _ in questions:
            c.command(*question)
        c.command('MGET', 'k', 'l', 'm')
        c.command('SET', 'l', HUGE)
        assert huge_in(c.command('EXEC')) == sum(times for _, times in questions), kind
        c.send(encode('CLIENT', 'REPLY', 'OFF') + b''.join(encode(*question) for question, _ in questions) + encode('CLIENT', 'REPLY', 'ON'))
        assert c.read() == b'OK'
    c.command('FLUSHALL')
    wait_for(lambda: int(server.info('memory')['used_memory']) < SIZE)


def test_huge_replies_count_for_the_limit_of_output(start):
    server = start(options=[('client-output-buffer-limit', 'normal', str(4 * SIZE), '0', '0')])
    c = server.client(timeout=PATIENCE)
    c.command('HSET', 'k', 'f', HUGE)
    greedy = server.client(receive_buffer=262144)
    with pytest.raises((Closed, ConnectionError)):
        greedy.command('HMGET', 'k', *['f'] * 8)
    assert huge_in(c.command('HMGET', 'k', *['f'] * 3)) == 3
    wait_for(lambda: int(server.info('clients')['connected_clients']) <= 2)


def test_clients_leave_and_the_server_ends_while_huge_values_are_sent(start):
    server = start()
    c = server.client(timeout=PATIENCE)
    for kind, (fill, questions) in KINDS.items():
        c.command('DEL', 'k')
        c.command(*fill)
        for question, _ in questions:
            gone = server.client(receive_buffer=262144)
            gone.send(encode(*question) * 3)
            gone.close()
            server.client(receive_buffer=262144).send(encode(*question) * 3)
    server.stop()


MOVES = {'LMOVE': lambda a, b: ('LMOVE', a, b, 'LEFT', 'RIGHT'), 'RPOPLPUSH': lambda a, b: ('RPOPLPUSH', a, b), 'BLMOVE': lambda a, b: ('BLMOVE', a, b, 'RIGHT', 'LEFT', 0),
         'BRPOPLPUSH': lambda a, b: ('BRPOPLPUSH', a, b, 0)}


def is_blocked(server):
    return server.info('clients')['blocked_clients'] == '1'


@pytest.mark.parametrize('move', MOVES)
def test_a_huge_element_moves_on_one_shard_without_being_copied(server, move):
    """There is no memory for another one; and it is replied by reference."""
    c = server.client(timeout=PATIENCE)
    c.command('RPUSH', '{k}a', HUGE)
    c.command('CONFIG', 'SET', 'maxmemory', int(server.info('memory')['used_memory']) + SIZE // 2)
    for a, b in (('{k}a', '{k}b'), ('{k}b', '{k}b'), ('{k}b', '{k}a')):
        assert c.command(*MOVES[move](a, b)) == HUGE
        assert c.command('LRANGE', b, 0, -1) == [HUGE] and c.command('EXISTS', a) == (a == b)
    inside = c.pipeline([('MULTI',), MOVES[move]('{k}a', '{k}b'), MOVES[move]('{k}b', '{k}b'), ('EXEC',)])[-1]
    assert inside == [HUGE, HUGE]
    if move.startswith('B'):
        waiter = server.client(timeout=PATIENCE)
        waiter.send(encode(*MOVES[move]('{k}a', '{k}c')))
        wait_for(lambda: is_blocked(server))
        assert c.command('RENAME', '{k}b', '{k}a') == b'OK' and waiter.read() == HUGE
        c.command('RENAME', '{k}c', '{k}b')
    c.send(encode('CLIENT', 'REPLY', 'OFF') + encode(*MOVES[move]('{k}b', '{k}a')) + encode('CLIENT', 'REPLY', 'ON'))
    assert c.read() == b'OK' and c.command('LRANGE', '{k}a', 0, -1) == [HUGE]
    assert c.command('DEL', '{k}a') == 1
    wait_for(lambda: int(server.info('memory')['used_memory']) < SIZE // 2)


@pytest.mark.several_threads
@pytest.mark.limit(300)
@pytest.mark.parametrize('move', MOVES)
def test_a_huge_element_moves_over_two_shards_in_slices(server, move):
    """Also as who waited has it, inside EXEC, and for nobody. Refused, it stays where it was."""
    c, reader = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE, receive_buffer=262144)
    sliced, n = 0, 0
    while n < 7 or not sliced and n < 64:       # names are spread by a secret: at least two neighbours are on two shards
        a, b, n = 'k%d' % n, 'k%d' % (n + 1), n + 1
        c.command('RPUSH', a, HUGE)
        before = long_slices(server)
        assert c.command(*MOVES[move](a, b)) == HUGE
        sliced += long_slices(server) >= before + SIZE // (512 << 10)
        assert c.command('EXISTS', a) == 0 and c.command('LRANGE', b, 0, -1) == [HUGE]
        reader.send(encode('LINDEX', b, 0))         # it is being sent while it moves back
        inside = c.pipeline([('MULTI',), MOVES[move](b, a), ('KEYS', 'none'), MOVES[move](a, b), ('EXEC',)])[-1]
        assert inside == [HUGE, [], HUGE] and reader.read() == HUGE
        c.command('CONFIG', 'SET', 'maxmemory', int(server.info('memory')['used_memory']) + SIZE // 2)
        moved = c.command(*MOVES[move](b, a))
        assert moved == HUGE or moved.startswith(b'OOM ')
        c.command('CONFIG', 'SET', 'maxmemory', 0)
        at = a if moved == HUGE else b
        assert c.command('LRANGE', at, 0, -1) == [HUGE] and c.command('EXISTS', a, b) == 1
        c.send(encode('CLIENT', 'REPLY', 'OFF') + encode(*MOVES[move](at, 'last')) + encode('CLIENT', 'REPLY', 'ON'))
        assert c.read() == b'OK' and c.command('LRANGE', 'last', 0, -1) == [HUGE]
        if move.startswith('B'):
            waiter = server.client(timeout=PATIENCE)
            waiter.send(encode(*MOVES[move](a, b)))
            wait_for(lambda: is_blocked(server))
            assert c.command('RENAME', 'last', a) == b'OK' and waiter.read() == HUGE
            assert c.command('LRANGE', b, 0, -1) == [HUGE] and c.command('EXISTS', a) == 0
        c.command('DEL', a, b, 'last')
    assert sliced
    wait_for(lambda: int(server.info('memory')['used_memory']) < SIZE // 2)


@pytest.mark.several_threads
@pytest.mark.limit(300)
def test_clients_leave_and_the_server_ends_while_huge_elements_move(start):
    server = start()
    c = server.client(timeout=PATIENCE)
    keys = ['k%d' % i for i in range(8)]
    for key in keys:
        c.command('RPUSH', key, HUGE)
    for n in range(12):
        gone = server.client()
        gone.send(encode('LMOVE', keys[n % 8], keys[(n + 1) % 8], 'LEFT', 'RIGHT') + encode('BLMOVE', keys[(n + 3) % 8], keys[n % 8], 'LEFT', 'RIGHT', 0))
        (gone.reset if n % 2 else gone.close)()
    assert sum(c.pipeline([('MULTI',), *(('LLEN', key) for key in keys), ('EXEC',)])[-1]) == 8       # at one moment: some may be on their way
    for n in range(8):
        server.client().send(encode('LMOVE', keys[n], keys[(n + 1) % 8], 'LEFT', 'RIGHT'))
    server.stop()


# Values that are copied, and together are much.
MIDDLING = [b'%03d' % n + b'm' * 16000 for n in range(120)]
MANY = {
    'MGET': ([('SET', '{t}%d' % n, value) for n, value in enumerate(MIDDLING)], ('MGET', *('{t}%d' % n for n in range(120))), MIDDLING),
    'MGET of many shards': ([('SET', '%d' % n, value) for n, value in enumerate(MIDDLING)], ('MGET', *range(120)), MIDDLING),
    'HMGET': ([('HSET', 'k', *(x for n, value in enumerate(MIDDLING) for x in (n, value)))], ('HMGET', 'k', *range(60)), MIDDLING[:60]),
    'HVALS': ([('HSET', 'k', *(x for n, value in enumerate(MIDDLING) for x in (n, value)))], ('HVALS', 'k'), MIDDLING),
    'HGETALL': ([('HSET', 'k', *(x for value in MIDDLING for x in (value, value)))], ('HGETALL', 'k'), [x for value in MIDDLING for x in (value, value)]),
    'LRANGE': ([('RPUSH', 'k', *MIDDLING)], ('LRANGE', 'k', 0, -1), MIDDLING),
    'LPOP': ([('RPUSH', 'k', *MIDDLING)], ('LPOP', 'k', 100), MIDDLING[:100]),
    'HRANDFIELD': ([('HSET', 'k', *(x for n, value in enumerate(MIDDLING) for x in (n, value)))], ('HRANDFIELD', 'k', 120, 'WITHVALUES'),
                   [x for n, value in enumerate(MIDDLING) for x in (b'%d' % n, value)]),
    'HRANDFIELD again': ([('HSET', 'k', MIDDLING[0], 'v')], ('HRANDFIELD', 'k', -60), MIDDLING[:1] * 60),
    'SRANDMEMBER': ([('SADD', 'k', *MIDDLING)], ('SRANDMEMBER', 'k', 120), MIDDLING),
    'ZRANDMEMBER': ([('ZADD', 'k', *(x for n, value in enumerate(MIDDLING) for x in (n, value)))], ('ZRANDMEMBER', 'k', 120), MIDDLING),
    'SMEMBERS': ([('SADD', 'k', *MIDDLING)], ('SMEMBERS', 'k'), MIDDLING),
    'ZRANGE': ([('ZADD', 'k', *(x for n, value in enumerate(MIDDLING) for x in (n, value)))], ('ZRANGE', 'k', 0, -1), MIDDLING),
}


def slices(server, what):
    """How many there were so far, on all threads; over several shards with the pieces, of INFO too."""
    causes = ('_long', '_task') if 'shards' in what else '_long'
    return sum(int(value.split(',')[0].partition('=')[2]) for name, value in server.info('threads').items() if name.endswith(causes))


@pytest.mark.parametrize('what', MANY)
def test_a_long_reply_is_made_in_slices(server, what):
    """Of a key that is small as a container goes, too; the hits are counted once."""
    fill, question, expected = MANY[what]
    c = server.client(timeout=PATIENCE)
    for command in fill:
        c.command(*command)
    c.command('CONFIG', 'RESETSTAT')
    before, asked = slices(server, what), slices(server, what)
    got = c.command(*question)
    assert got == expected or sorted(got) == sorted(expected)
    own = asked - before + ('shards' in what) * server.threads   # of INFO, and the pieces themselves
    assert slices(server, what) >= asked + own + 3
    assert what == 'LPOP' or int(server.info('stats')['keyspace_hits']) == (len(question) - 1 if 'MGET' in what and 'H' not in what else 1)
    if what == 'LPOP':
        c.command('DEL', 'k')
        c.command(*fill[0])
    c.command('MULTI')
    c.command('GET', 'none')
    c.command(*question)
    got = c.command('EXEC')[1]
    assert got == expected or sorted(got) == sorted(expected)


def test_a_long_reply_is_of_one_moment(server):
    """Who writes to its keys meanwhile waits until it is made."""
    c, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    c.pipeline(MANY['MGET'][0])
    new = [value[::-1] for value in MIDDLING]
    for n in range(20):
        old, new = new, old if n else MIDDLING
        c.pipeline([('MSET', *(x for i, value in enumerate(old) for x in ('{t}%d' % i, value)))])
        c.send(encode(*MANY['MGET'][1]))
        other.send(encode('MSET', *(x for i, value in enumerate(new) for x in ('{t}%d' % i, value))))
        got = c.read()
        assert got in (old, new)
        assert other.read() == b'OK'


@pytest.mark.several_threads
def test_the_last_of_a_chain_is_handed_over_with_all_that_was_its_list(start):
    """Its blob is another shard's at once, and its first one has nothing of it to free later."""
    server = start(options=[('list-max-listpack-size', 1)])
    c, other = server.client(timeout=PATIENCE), server.client(timeout=PATIENCE)
    for n in range(12):
        c.pipeline([('RPUSH', 'a%d' % n, 'x', HUGE), ('LPOP', 'a%d' % n)])
        other.send(encode('LINDEX', 'b%d' % n, 0) * 3)
        c.pipeline([('MULTI',), ('LMOVE', 'a%d' % n, 'b%d' % n, 'LEFT', 'RIGHT'), ('KEYS', 'none')])
        assert c.command('EXEC') == [HUGE, []]
        assert all(other.read() in (NIL, HUGE) for _ in range(3))
        assert c.command('LINDEX', 'b%d' % n, 0) == HUGE and c.command('DEL', 'b%d' % n) == 1
    wait_for(lambda: int(server.info('memory')['used_memory']) < 16 << 20)


# What several shards' pieces become: long values that are copied, and some that are referred to.
EACH = [b'%03d' % n + (b'h' * 40000 if n % 8 == 7 else b'm' * 16000) for n in range(400)]


def fill_each(c):
    c.pipeline([('MSET', *(x for n, value in enumerate(EACH) for x in (n, value)))])


@pytest.mark.several_threads
def test_values_of_several_shards_are_put_together_in_slices(server):
    c = server.client(timeout=PATIENCE)
    fill_each(c)
    before = long_slices(c)
    assert c.pipeline([('PING',), ('MGET', *range(400), 'none'), ('GET', 7)]) == [b'PONG', EACH + [NIL], EACH[7]]
    assert long_slices(c) >= before + 40
    c.pipeline([('MSET', *(x for n in range(4096) for x in ('k%d' % n, n)))])
    before = long_slices(c)
    assert c.command('MGET', *('k%d' % n for n in range(4096))) == [b'%d' % n for n in range(4096)]      # few bytes, but many values
    assert long_slices(c) >= before + 3


@pytest.mark.several_threads
def test_others_go_on_while_values_of_several_shards_are_put_together(server):
    """Who writes to its keys, needs all shards, or asks for as much, gets the right reply, and so does it."""
    c, others = server.client(timeout=PATIENCE), [server.client(timeout=PATIENCE) for _ in range(3)]
    fill_each(c)
    for n in range(10):
        c.send(encode('MGET', *range(400)))
        others[0].send(encode('MSET', 0, EACH[0], 399, EACH[399]))
        others[1].send(encode('CONFIG', 'SET', 'maxclients', 500 + n))
        others[2].send(encode('MGET', *range(399, -1, -1)))
        assert c.read() == EACH and [other.read() for other in others] == [b'OK', b'OK', EACH[::-1]]


@pytest.mark.several_threads
@pytest.mark.limit(300)
@pytest.mark.parametrize('how', ['close', 'reset', 'kill', 'limit', 'end'])
def test_clients_leave_while_values_of_several_shards_are_put_together(start, how):
    """What was not put together goes back to its shards, once."""
    server = start()
    c = server.client(timeout=PATIENCE)
    fill_each(c)
    if how == 'limit':
        c.command('CONFIG', 'SET', 'client-output-buffer-limit', 'normal 1mb 0 0')
    for n in range(3 if how == 'end' else 30):
        gone = server.client(timeout=PATIENCE)
        ident = gone.command('CLIENT', 'ID')
        gone.send(encode('MGET', *range(400)))
        if n % 3:
            c.pipeline([('PING',)] * n)
        if how == 'kill':
            c.command('CLIENT', 'KILL', 'ID', ident)
        elif how == 'close':
            gone.close()
        elif how == 'reset':
            gone.reset()
    if how == 'end':
        server.stop()
        return
    wait_for(lambda: c.command('CLIENT', 'LIST').count(b' addr=') == 1)     # 'limit': the server has closed them all
    c.command('CONFIG', 'SET', 'client-output-buffer-limit', 'normal 0 0 0')
    assert c.command('MGET', *range(400)) == EACH
    assert c.command('DEL', *range(400)) == 400
    wait_for(lambda: int(server.info('memory')['used_memory']) < 8 << 20)


def test_a_long_list_that_is_sent_in_parts_is_no_error(server):
    """Whatever its bytes are."""
    c = server.client(timeout=PATIENCE)
    keys = [b'-' * 1000 + b'%d' % n for n in range(1500)]
    c.pipeline([('MSET', *(x for key in keys for x in (key, key)))])
    c.command('CONFIG', 'RESETSTAT')
    for n in range(4):
        assert sorted(c.pipeline([('ECHO', 'x' * 10 * n), ('KEYS', '*')])[1]) == sorted(keys)
        assert c.pipeline([('ECHO', 'x' * 10 * n), ('MGET', *keys)])[1] == keys
    assert server.info('errorstats') == {} and int(server.info('stats')['total_error_replies']) == 0
