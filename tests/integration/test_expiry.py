"""Keys that end: at once for readers, soon for memory, whoever does or does not look."""

import random
import time

import pytest

from configurations import LIGHT
from resp import NIL
from server import SLOW, wait_for

DEBUG = [('enable-debug-command', 'yes')]


def now_ms():
    return time.time_ns() // 1000000


def fill(client, count, deadline_ms, prefix=b'e'):
    """count keys prefix:0000000 ... that all end at the same millisecond."""
    command = b'*5\r\n$3\r\nSET\r\n$9\r\n' + prefix + b':%07d\r\n$16\r\nvvvvvvvvvvvvvvvv\r\n$4\r\nPXAT\r\n$13\r\n' + b'%d' % deadline_ms + b'\r\n'
    for first in range(0, count, 5000):
        numbers = range(first, min(first + 5000, count))
        client.send(b''.join([command % i for i in numbers]))
        replies = b''
        while len(replies) < 5 * len(numbers):
            replies += client.socket.recv(1 << 16)
        assert replies == b'+OK\r\n' * len(numbers)


def stat(server, name):
    return int(server.info('stats')[name])


@pytest.mark.alone
@pytest.mark.measures
def test_keys_due_over_one_second_are_gone_at_once(server):
    """No reply shows a key later than its time, nor misses it before; nothing is left 100 ms after the last."""
    c = server.client()
    count = 3000
    for lead_ms, pause in ((700, .1), (4000, 2), (16000, 8)):       # a machine that is busy needs more
        c.command('FLUSHALL'), c.command('CONFIG', 'RESETSTAT')
        begin = now_ms() + lead_ms
        due = {i: begin + i * 1000 // count for i in range(count)}
        assert set(c.pipeline([('SET', 'd:%d' % i, i, 'PXAT', at) for i, at in due.items()])) == {b'OK'}
        in_time = now_ms() < begin
        rng = random.Random(1)
        late = early = looked = 0
        while now_ms() < begin + 1000:
            i = rng.randrange(count)
            before = now_ms()
            reply = c.command('GET', 'd:%d' % i)
            after = now_ms()
            looked += 1
            late += reply != NIL and before > due[i]
            early += reply == NIL and after < due[i]
        assert (late, early) == (0, 0)
        time.sleep(max(begin + 1000 - now_ms(), 0) / 1000 + pause)
        if in_time and looked > 100 and (server.kind != 'darter' or 'db0' not in server.info('keyspace')):
            break
    assert in_time and looked > 100
    if server.kind == 'darter':
        assert 'db0' not in server.info('keyspace')
        assert stat(server, 'expired_keys') == count
        assert stat(server, 'expired_keys_active') + stat(server, 'expired_keys_lazy') == count
        assert stat(server, 'expired_keys_active') > count / 2


def housekeeping(server):
    """Its slices so far, by thread."""
    return [dict(f.split('=') for f in text.split(',')) for name, text in server.info('threads').items() if name.endswith('_housekeeping')]


def fill_in_time(server, client, count):
    """So many keys that end at the same moment, which is yet to come, and one that stays. Returns the moment, and housekeeping's slices before it."""
    begin = now_ms()
    fill(client, count // 20, begin + 1000000, b't')
    estimate = (now_ms() - begin) * 20
    for factor in (1.5, 4, 12, 36):     # how fast this machine will be, nobody knows
        client.command('FLUSHALL'), client.command('SET', 'stays', 'x')
        deadline = now_ms() + int(estimate * factor) + 300
        fill(client, count, deadline)
        stored = client.command('DBSIZE')
        slices = sum(int(s['slices']) for s in housekeeping(server))
        if now_ms() < deadline:
            assert stored == count + 1
            return deadline, slices
    pytest.fail('it took %d times as long as a twentieth did' % (20 * 36))


@pytest.mark.alone
@pytest.mark.limit(300)
def test_a_million_keys_due_in_the_same_millisecond(server):
    """Readers see none of them from then on; their memory comes back; and it is done in many slices, of which each ends in time."""
    count = 50000 if LIGHT else 1000000
    c = server.client()
    deadline, before = fill_in_time(server, c, count)
    while now_ms() <= deadline:
        time.sleep(.0005)
    rng = random.Random(3)
    at_once = c.pipeline([('EXISTS', 'e:%07d' % rng.randrange(count)) for _ in range(1000)] + [('GET', 'e:%07d' % rng.randrange(count)) for _ in range(1000)])
    assert at_once == [0] * 1000 + [NIL] * 1000
    if server.kind != 'darter':
        return
    wait_for(lambda: c.command('DBSIZE') == 1)
    print('%d keys freed after %d ms (the aim is %.0f)' % (count, now_ms() - deadline, 100 + count * .5e-3))
    assert stat(server, 'expired_keys') >= count
    assert c.command('GET', 'stays') == b'x'
    memory = int(server.info('memory')['used_memory'])
    assert memory < 64 << 20, 'used_memory is still %d' % memory
    # A slice frees what it can in 80 us, some hundred keys: in one go they would be a shard's. What the machine takes away counts as CPU time,
    # too, so the middle is judged, and the longest only told.
    slices = housekeeping(server)
    print('%s slices, %d of them before; the longest took %d us of CPU (the aim is 200)' % (' + '.join(s['slices'] for s in slices), before, stat(server, 'longest_expire_slice_usec')))
    assert sum(int(s['slices']) for s in slices) - before > count / 20000
    assert all(float(s['p50_usec']) < 2000 * SLOW for s in slices if int(s['slices']) > 10)


@pytest.mark.alone
@pytest.mark.each_back_end
def test_others_are_served_while_very_many_keys_are_freed(start):
    """Commands of one pipeline, of which each takes a turn of the thread, and a slice of housekeeping has its place between two turns."""
    server = start(threads=1, options=DEBUG)
    c = server.client()
    count, asked = 20000 if LIGHT else 300000, 50
    assert c.command('DEBUG', 'SET-ACTIVE-EXPIRE', 0) == b'OK'
    fill(c, count, now_ms() + 1)
    wait_for(lambda: c.command('GET', 'e:%07d' % (count - 1)) is NIL)
    enabled, *left = c.pipeline([('DEBUG', 'SET-ACTIVE-EXPIRE', 1)] + [('DBSIZE',)] * asked)
    print('left after each turn: %s' % left)
    assert enabled == b'OK' and left == sorted(left, reverse=True)
    assert left[0] > count / 2, 'it was held up until %d of %d keys were freed' % (count - left[0], count)
    assert all(a - b < count / 2 for a, b in zip(left, left[1:]))
    wait_for(lambda: c.command('DBSIZE') == 0)


def test_who_looks_first_frees_the_key(start):
    """Without active expiry a key is gone to readers all the same, and what they meet is counted as lazy."""
    server = start(options=DEBUG)
    c = server.client()
    assert c.command('DEBUG', 'SET-ACTIVE-EXPIRE', 0) == b'OK'
    assert c.pipeline([('SET', 'a', 1, 'PX', 1), ('SET', 'b', 1, 'PX', 1), ('SET', 'c', 1)]) == [b'OK'] * 3
    time.sleep(.02)
    assert c.pipeline([('GET', 'a'), ('EXISTS', 'b'), ('TTL', 'a'), ('TYPE', 'b'), ('RANDOMKEY',), ('KEYS', '*')]) == [NIL, 0, -2, b'none', b'c', [b'c']]
    assert stat(server, 'expired_keys') == 2
    if server.kind == 'darter':
        assert stat(server, 'expired_keys_lazy') == 2 and stat(server, 'expired_keys_active') == 0
    assert c.command('DEBUG', 'SET-ACTIVE-EXPIRE', 1) == b'OK'


def test_nobody_needs_to_look(server):
    c = server.client()
    for pause in (.3, 3, 15):       # a machine that is busy needs more
        assert c.command('CONFIG', 'RESETSTAT') == b'OK'
        assert c.pipeline([('SET', 'n:%d' % i, 'x' * 100, 'PX', 30 + i % 50) for i in range(5000)]) == [b'OK'] * 5000
        time.sleep(pause * SLOW if server.kind == 'darter' else 1.5)
        if 'db0' not in server.info('keyspace'):        # the first look
            break
        wait_for(lambda: c.command('DBSIZE') == 0)
    else:
        pytest.fail('some are there until somebody looks')
    if server.kind == 'darter':
        assert stat(server, 'expired_keys_active') == 5000
    assert c.command('DBSIZE') == 0


def test_times_that_are_moved(server):
    """Later, sooner, away, to another key, to another value: the last word counts."""
    c = server.client()
    for span_ms in (250, 1000, 4000, 16000, 64000):
        base = now_ms() + span_ms
        move_times(c, base)
        if now_ms() < base:
            break       # else a key went before it was moved: again, with more time
        c.command('FLUSHALL')
    time.sleep(max(base - now_ms(), 0) / 1000 + .05)
    stays = {0: 'm:%d', 1: 'm:%d', 2: 'm:%d', 4: 'm:%d'}
    keys = {(stays[i % 8] % i).encode() for i in range(200) if i % 8 in stays}
    assert set(c.command('KEYS', '*')) == keys
    if server.kind == 'darter':
        wait_for(lambda: c.command('DBSIZE') == len(keys))


def move_times(client, base):
    commands = []
    for i in range(200):
        kind, key = i % 8, 'm:%d' % i
        commands.append(('SET', key, i, 'PXAT', base))
        commands.append([('PEXPIREAT', key, base + 100000), ('PERSIST', key), ('SET', key, 'new'), ('SET', key, 'new', 'KEEPTTL'), ('GETEX', key, 'PX', 100000),
                         ('RENAME', key, key + ':moved'), ('COPY', key, key + ':copy'), ('APPEND', key, 'x')][kind])
    client.pipeline(commands)


def test_expiry_in_all_databases(server):
    c = server.client()
    for database in range(16):
        c.command('SELECT', database)
        c.command('SET', 'k', 'v', 'PX', 40)
        c.command('SET', 'stays', 'v', 'EX', 1000)
    time.sleep(.25)
    for database in range(16):
        c.command('SELECT', database)
        assert c.command('GET', 'k') == NIL and c.command('GET', 'stays') == b'v'
    keyspace = server.info('keyspace')
    assert len(keyspace) == 16 and all(v.startswith('keys=1,expires=1') for v in keyspace.values()), keyspace


def test_expired_keys_make_room_for_new_ones(server):
    """SET NX, INCR, RENAMENX, COPY, MSETNX onto a key whose time is over."""
    c = server.client()
    for key in 'abcde':
        c.command('SET', key, 'old', 'PX', 1)
    c.command('SET', 'source', 'new')
    time.sleep(.005)
    assert c.command('SET', 'a', 'new', 'NX') == b'OK'
    assert c.command('INCR', 'b') == 1
    assert c.command('COPY', 'source', 'c') == 1
    assert c.command('MSETNX', 'd', 'new', 'd2', 'x') == 1
    assert c.command('RENAMENX', 'source', 'e') == 1
    assert c.command('MGET', *'abcde') == [b'new', b'1', b'new', b'new', b'new']
    assert c.pipeline([('TTL', k) for k in 'abcde']) == [-1] * 5
