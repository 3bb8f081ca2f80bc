"""maxmemory without eviction: what is refused, and when; that nothing gets above it; how the table grows within it."""

import pytest

from resp import Error
from server import wait_for

OOM = b"OOM command not allowed when used memory > 'maxmemory'."
CHUNK = 64 << 10  # of bytes that each shard may hold without using them
SEGMENT = 4416


def data_bytes(server):
    """What is held against maxmemory."""
    memory = server.info('memory')
    return int(memory['used_memory']) - int(memory['mem_not_counted_for_evict'])


def limit(server, more):
    """Sets maxmemory to what is used, and so much more. Returns it."""
    bytes_max = data_bytes(server) + more
    assert server.client().command('CONFIG', 'SET', 'maxmemory', bytes_max) == b'OK'
    return bytes_max


def refused(reply):
    return isinstance(reply, Error) and reply == OOM


def fill(client, first=0, size=100, name='key', most=1000000):
    """New keys until one is refused. Returns its number."""
    for n in range(first, most, 100):
        for i, reply in enumerate(client.pipeline([('SET', '%s:%d' % (name, k), 'v' * size) for k in range(n, n + 100)])):
            if reply != b'OK':
                assert refused(reply), reply
                return n + i
    raise AssertionError('nothing was refused')


def table(client, *words):
    """DEBUG HTSTATS of database 0: the names and values of the first block, or of shard n."""
    text = client.command('DEBUG', 'HTSTATS', 0, *words).decode()
    blocks = [dict(line.strip().partition(': ')[::2] for line in block.splitlines()[1:]) for block in text.split('[')[1:]]
    return blocks if words else blocks[0]


def first(value):
    return float(value.split()[0])


COMMANDS = [('SET', 's', 'v'), ('SET', 's', 'v', 'GET'), ('SETNX', 'new', 'v'), ('SETEX', 's', 100, 'v'), ('PSETEX', 's', 100000, 'v'), ('APPEND', 's', 'x'), ('SETRANGE', 's', 1, 'x'), ('INCR', 'i'), ('DECR', 'i'),
            ('INCRBY', 'i', 2), ('DECRBY', 'i', 2), ('INCRBYFLOAT', 'i', 2), ('GETSET', 's', 'v'), ('MSET', 's', 'v', 'i', '1'), ('MSETNX', 's', 'v', 'j', '1'), ('COPY', 's', 'c'), ('GET', 's'), ('GETEX', 's', 'EX', 100),
            ('GETEX', 's', 'PERSIST'), ('STRLEN', 's'), ('GETRANGE', 's', 0, 1), ('MGET', 's', 'i'), ('EXISTS', 's', 'i', 'c'), ('EXPIRE', 's', 1000), ('PERSIST', 's'), ('TYPE', 's'), ('RENAME', 's', 't'),
            ('RENAMENX', 't', 's'), ('MOVE', 'i', 3), ('TOUCH', 's'), ('DBSIZE',), ('PING',), ('OBJECT', 'ENCODING', 's'), ('LCS', 's', 'i'), ('GETDEL', 's'), ('DEL', 's', 'i'), ('UNLINK', 'c'), ('SET', 's'), ('INCR',),
            ('SET', 's', 'v', 'NONSENSE'), ('SWAPDB', 0, 1), ('FLUSHDB',), ('FLUSHALL',)]


def test_what_is_refused_above_the_limit_is_what_redis_refuses(server, reference):
    a, b = reference.client(), server.client()
    for c in (a, b):
        c.pipeline([('FLUSHALL',), ('SET', 's', 'value'), ('SET', 'i', 10), ('CONFIG', 'SET', 'maxmemory', 1)])
    try:
        for words in COMMANDS:
            assert a.command(*words) == b.command(*words), words
    finally:
        a.pipeline([('CONFIG', 'SET', 'maxmemory', 0), ('FLUSHALL',)])
    assert b.command('SET', 's', 'v') == OOM
    assert b.command('CONFIG', 'SET', 'maxmemory', 0) == b'OK' and b.command('SET', 's', 'v') == b'OK'
    stats = server.info('everything')
    assert 'rejected_calls=' in stats['cmdstat_set'] and int(stats['cmdstat_set'].split('rejected_calls=')[1].split(',')[0]) >= 3
    assert int(stats['errorstat_OOM'].partition('=')[2]) > 10


def test_the_limit_of_the_start_holds(start):
    server = start(options=[('maxmemory', '6mb')])
    memory = server.info('memory')
    assert memory['maxmemory'] == '6291456' and memory['maxmemory_human'] == '6.00M' and memory['maxmemory_policy'] == 'noeviction'
    n = fill(server.client())
    assert n > 20000 and data_bytes(server) <= 6 << 20
    below = start(options=[('maxmemory', '1kb')])
    assert refused(below.client().command('SET', 'k', 'v')) and below.client().command('GET', 'k') is not None


def test_nothing_gets_above_the_limit(server, configuration):
    c = server.client()
    bytes_max = limit(server, 1 << 20)
    fill(c)
    assert bytes_max - configuration[1] * (CHUNK + SEGMENT) - 1000 <= data_bytes(server) <= bytes_max
    # Of every size, over and over, and by all that may take memory.
    for size, times in ((1, 300), (30, 300), (200, 300), (1000, 300), (20000, 20), (1000000, 3)):
        c.pipeline([('SET', 'more:%d:%d' % (size, i), 'v' * size) for i in range(times)])
        c.pipeline([('APPEND', 'key:%d' % i, 'v' * size) for i in range(times)])
        c.pipeline([('COPY', 'key:%d' % i, 'copy:%d' % i) for i in range(times)])
        c.pipeline([('SET', 'time:%d:%d' % (size, i), 'v', 'EX', 1000 + i) for i in range(300)])
        c.pipeline([('MSET', *['m:%d:%d' % (size, i) for i in range(400)])])
        assert data_bytes(server) <= bytes_max, size


def test_overwrites_reads_and_deletes_go_on_at_the_limit(server):
    c = server.client()
    limit(server, 1 << 20)
    n = fill(c)
    assert refused(c.command('SET', 'new', 'v' * 100000)) and c.command('EXISTS', 'new') == 0
    assert c.pipeline([('SET', 'key:%d' % i, 'w' * 100) for i in range(n)]) == [b'OK'] * n
    assert c.pipeline([('GET', 'key:%d' % i) for i in range(n)]) == [b'w' * 100] * n
    assert c.command('DEL', *['key:%d' % i for i in range(n // 2)]) == n // 2
    assert c.pipeline([('SET', 'again:%d' % i, 'w' * 100) for i in range(n // 4)]) == [b'OK'] * (n // 4)


def test_a_refused_command_changes_nothing(server):
    c = server.client()
    c.command('SET', '{t}:a', 'v' * 100), c.command('SET', '{t}:b', 'v' * 30000)
    limit(server, 200)
    for words in (('SET', '{t}:a', 'v' * 1000), ('APPEND', '{t}:a', 'v' * 1000), ('SETRANGE', '{t}:a', 5000, 'v'), ('SET', '{t}:b', 'v' * 40000), ('APPEND', '{t}:b', 'v' * 40000), ('GETSET', '{t}:a', 'v' * 100000),
                  ('MSET', '{t}:a', 'w', '{t}:new', 'v' * 5000), ('MSETNX', '{t}:n', 'w', '{t}:new', 'v' * 5000)):
        assert refused(c.command(*words)), words
    assert c.command('GET', '{t}:a') == b'v' * 100 and c.command('GET', '{t}:b') == b'v' * 30000
    assert c.command('EXISTS', '{t}:new', '{t}:n') == 0 and c.command('DBSIZE') == 2


def random_pairs(n, size):
    return [x for i in range(n) for x in ('n%d' % i, ('%d' % i).rjust(size, 'v'))]


@pytest.mark.parametrize('keys, size', ((7, 2000), (300, 300), (5000, 30)))
@pytest.mark.parametrize('way', ('alone', 'EXEC', 'EXEC of everything'))
def test_mset_sets_all_or_nothing(server, keys, size, way):
    """Whatever shards its keys are on, and whichever of them has memory left."""
    c = server.client()

    def mset(pairs):
        if way == 'alone':
            return c.command('MSET', *pairs)
        return c.pipeline([('MULTI',), ('MSET', *pairs), *([('DBSIZE',), ('KEYS', 'x')] if way != 'EXEC' else [])] + [('EXEC',)])[-1][0]
    pairs = random_pairs(keys, size)
    seen = set()
    for more in range(0, 2 * keys * (size + 100) + 400000, max(5000, keys * size // 3)):
        limit(server, more)
        reply = mset(pairs)
        there = c.command('EXISTS', *pairs[::2])
        seen.add(reply == b'OK')
        assert there == keys if reply == b'OK' else refused(reply) and there == 0, (more, reply, there)
        c.command('CONFIG', 'SET', 'maxmemory', 0)
        c.command('DEL', *pairs[::2])
    assert seen == {False, True}
    c.command('MSET', *pairs)
    limit(server, 400000)
    if way == 'alone':   # what takes no more than it gives is not refused
        for _ in range(3):
            assert mset(pairs) == b'OK'
    assert data_bytes(server) <= int(c.command('CONFIG', 'GET', 'maxmemory')[1])


def test_the_limit_may_be_lowered_and_raised(server):
    c = server.client()
    c.pipeline([('SET', 'key:%d' % i, 'v' * 100) for i in range(20000)])
    c.command('CONFIG', 'SET', 'maxmemory', data_bytes(server) // 2)
    assert refused(c.command('SET', 'key:1', 'w' * 100)) and refused(c.command('APPEND', 'key:1', 'w'))
    assert c.command('GET', 'key:1') == b'v' * 100 and c.command('EXPIRE', 'key:1', 1000) == 1 and c.command('RENAME', 'key:1', 'key:0') == b'OK'
    limit(server, 1 << 20)
    assert c.command('SET', 'key:1', 'w' * 100) == b'OK'
    n = fill(c, 20000)
    limit(server, 1 << 20)
    assert c.command('SET', 'key:%d' % n, 'v' * 100) == b'OK' and fill(c, n) > n + 1000
    assert c.command('CONFIG', 'SET', 'maxmemory', 0) == b'OK'
    assert c.pipeline([('SET', 'key:%d' % i, 'v' * 100) for i in range(60000)]) == [b'OK'] * 60000


def test_deleting_makes_room_below_a_lowered_limit(server):
    c = server.client()
    c.pipeline([('SET', 'key:%d' % i, 'v' * 100) for i in range(20000)])
    c.command('CONFIG', 'SET', 'maxmemory', data_bytes(server) * 3 // 4)
    assert refused(c.command('SET', 'key:19999', 'w' * 100))
    for i in range(0, 10000, 100):
        c.command('DEL', *['key:%d' % k for k in range(i, i + 100)])
    assert c.command('SET', 'key:19999', 'w' * 100) == b'OK'


def test_the_buffers_of_clients_are_not_data(server):
    c, sender = server.client(), server.client()
    c.command('SET', 'large', 'v' * (4 << 20))
    readers = [server.client() for _ in range(10)]
    limit(server, 1 << 20)
    sender.send(b'*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8000000\r\n' + b'x' * 7000000)
    for r in readers:
        r.send(b'*2\r\n$3\r\nGET\r\n$5\r\nlarge\r\n' * 3)
    assert c.command('SET', 'small', 'v' * 1000) == b'OK' and c.command('SET', 'medium', 'v' * 100000) == b'OK'
    sender.send(b'x' * 1000000 + b'\r\n')
    assert refused(sender.read())
    for r in readers:
        assert len(r.read()) == 4 << 20


@pytest.mark.several_threads
def test_one_shard_may_take_what_the_others_leave(server, configuration):
    c = server.client()
    bytes_max = limit(server, 4 << 20)
    for n in range(0, 100000, 100):
        if not all(reply == b'OK' for reply in c.pipeline([('SET', '{t}:%d' % k, 'v' * 100) for k in range(n, n + 100)])):
            break
    assert bytes_max - configuration[1] * CHUNK - SEGMENT - 1000 <= data_bytes(server) <= bytes_max


# The table's statistics


def test_statistics_of_the_table(start, configuration):
    server = start(options=[('enable-debug-command', 'yes')])
    c = server.client()
    empty = table(c)
    assert first(empty['keys']) == first(empty['segments']) == first(empty['bytes a key']) == 0
    assert c.command('DEBUG', 'POPULATE', 60000) == b'OK'
    t = table(c)
    assert first(t['keys']) == 60000 and t['directory'].startswith('depth ') and 60000 / 476 < first(t['segments']) < 60000 / 100
    assert abs(first(t['load']) - 60000 / first(t['slots'])) < 0.001 and 9 < first(t['bytes a key']) < 25
    assert sum(first(t[where]) for where in ('home', 'neighbour', 'stash', 'chain')) == 60000
    assert abs(sum(float(t[where].split('(')[1].split()[0]) for where in ('home', 'neighbour', 'stash', 'chain')) - 100) < 0.1
    assert sum(map(int, t['fill of segments, by sixteenths'].split())) == first(t['segments'])
    assert first(t['splits']) == first(t['segments']) - configuration[1] and first(t['growth withheld']) == 0
    blocks = table(c, 'full')
    assert len(blocks) == 1 + configuration[1] and sum(first(b['keys']) for b in blocks[1:]) == first(blocks[0]['keys']) == 60000
    c.pipeline([('DEL', *['key:%d' % k for k in range(n, n + 100)]) for n in range(0, 54000, 100)])
    wait_for(lambda: first(table(c)['segments']) < first(t['segments']) / 3)
    assert first(table(c)['merges']) > 0 and c.command('DBSIZE') == 6000
    assert [c.command('GET', 'key:%d' % k) for k in (0, 53999, 54000, 59999)][2:] == [b'value:54000', b'value:59999']


def test_errors_of_the_statistics(start, reference):
    server = start(options=[('enable-debug-command', 'yes')])
    a, b = reference.client(), server.client()
    for c in (a, b):
        c.pipeline([('FLUSHALL',), ('SET', 's', 'v')])
    for words in (('HTSTATS', 99), ('HTSTATS', -1), ('HTSTATS', 'x'), ('HTSTATS-KEY', 's'), ('HTSTATS-KEY', 'nothing')):
        assert a.command('DEBUG', *words) == b.command('DEBUG', *words), words
    assert isinstance(b.command('DEBUG', 'HTSTATS', 0, 'nonsense'), Error) and isinstance(b.command('DEBUG', 'HTSTATS-KEY', 's', 'nonsense'), Error)
    assert b.command('DEBUG', 'HTSTATS', 15).startswith(b'[database 15]')


def test_withheld_splits_are_told_and_made_up_for(start):
    server = start(options=[('enable-debug-command', 'yes')])
    c = server.client()
    c.command('DEBUG', 'POPULATE', 60000)
    before = table(c)
    n = 0
    for _ in range(200):
        limit(server, SEGMENT - 500)  # less than a split needs
        n = fill(c, n, 1, 'new')
        if first(table(c)['growth withheld']):
            break
    t = table(c)
    assert first(t['growth withheld']) > 0 and first(t['splits']) == first(before['splits'])
    assert c.pipeline([('SET', 'key:%d' % k, 'w') for k in range(min(n, 20000))]) == [b'OK'] * min(n, 20000)
    limit(server, 8 << 20)
    assert c.pipeline([('SET', 'more:%d' % k, 'v') for k in range(60000)]) == [b'OK'] * 60000
    assert first(table(c)['splits']) > first(before['splits'])


def test_a_withheld_directory_chains_and_grows_later(start):
    """One shard, since one directory is watched; limits in steps that a directory of twice the size never fits in."""
    server = start(threads=1, options=[('enable-debug-command', 'yes')])
    c = server.client()
    c.command('DEBUG', 'POPULATE', 2 ** 12 * 476 * 70 // 100)  # the first of 2^12 segments that is full will want a directory of 64 KiB
    before = table(c)
    assert before['directory'].startswith('depth 12, '), before
    n = 0
    for _ in range(80):
        bytes_max = limit(server, 65536 - 1000)
        n = fill(c, n, 1, 'new')
        assert data_bytes(server) <= bytes_max
        if first(table(c)['chain']):
            break
    t = table(c)
    assert first(t['chain']) > 0 and first(t['growth withheld']) > 0 and 'doubling is due' in t['directory'] and t['directory'].startswith('depth 12, ')
    assert c.command('GET', 'key:0') and c.command('DBSIZE') == first(t['keys'])
    limit(server, 4 << 20)
    wait_for(lambda: table(c)['directory'].startswith('depth 13, ') and first(table(c)['chain']) == 0)
    assert c.pipeline([('SET', 'more:%d' % k, 'v') for k in range(1000)]) == [b'OK'] * 1000


def test_steps_of_growth_are_timed(start):
    server = start(options=[('enable-debug-command', 'yes')])
    c = server.client()
    c.command('DEBUG', 'POPULATE', 60000)
    slices = [dict(field.split('=') for field in value.split(',')) for name, value in server.info('threads').items() if name.endswith('_growth')]
    assert sum(int(s['slices']) for s in slices) >= first(table(c)['splits']) > 100
    assert all(0 < float(s['p50_usec']) <= float(s['longest_usec']) for s in slices)
