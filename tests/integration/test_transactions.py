"""Commands over several shards happen at once: nobody sees half of one."""

import random
import re
import threading
import time

import pytest

from clock_steps import clock_steps
from configurations import LIGHT
from resp import encode
from server import PATIENCE
from workers import Workers

def keys_of(count):
    return [b'key:%d' % n for n in range(count)]


@pytest.mark.parametrize('count', [2, 5, 40, 3000 // (10 if LIGHT else 1)])
def test_who_reads_several_keys_sees_all_or_nothing_of_who_writes_them(server, count):
    keys = keys_of(count)
    with server.client() as c:
        assert c.command('MSET', *(x for k in keys for x in (k, b'0'))) == b'OK'
    numbers = iter(range(1, 1 << 30))

    def write(c, rng):
        order = rng.sample(keys, len(keys))
        value = b'%d' % next(numbers)
        assert c.command('MSET', *(x for k in order for x in (k, value))) == b'OK'

    def read(c, rng):
        values = c.command('MGET', *rng.sample(keys, len(keys)))
        assert len(set(values)) == 1, values[:10]

    Workers(server).run(write, write, read, read, read)


def test_plain_commands_take_their_place_between_transactions(server):
    """Two keys written together and read one after the other: the second never shows an older state than the first."""
    def write(c, rng):
        value = b'%d' % write.next
        write.next += 1
        assert c.command('MSET', 'a', value, 'b', value, 'c', value) == b'OK'
    write.next = 1

    def read(c, rng):
        first, second = rng.sample('abc', 2)
        x, y = int(c.command('GET', first) or 0), int(c.command('GET', second) or 0)
        assert x <= y, (first, x, second, y)

    def pipeline(c, rng):
        order = [rng.choice('abc') for _ in range(30)]
        values = [int(v or 0) for v in c.pipeline([('GET', k) for k in order])]
        for k in 'abc':
            seen = [v for key, v in zip(order, values) if key == k]
            assert seen == sorted(seen), (order, values)

    Workers(server).run(write, read, read, pipeline, pipeline)


def test_counts_of_keys_that_come_and_go_together(server):
    keys = keys_of(7)

    def write(c, rng):
        assert c.command('MSET', *(x for k in keys for x in (k, b'v'))) == b'OK'
        assert c.command(rng.choice(['DEL', 'UNLINK']), *rng.sample(keys, 7)) in (0, 7)

    def count(c, rng):
        assert c.command(rng.choice(['EXISTS', 'TOUCH']), *keys) in (0, 7)

    Workers(server).run(write, write, count, count)


def test_flushing_comes_between_and_not_into(server):
    keys = keys_of(5)

    def write(c, rng):
        assert c.command('MSET', *(x for k in keys for x in (k, b'v'))) == b'OK'

    def count(c, rng):
        assert c.command('EXISTS', *keys) in (0, 5)

    def flush(c, rng):
        assert c.command('FLUSHALL') == b'OK'

    Workers(server).run(write, write, count, count, flush)


def test_replies_of_a_pipeline_stay_in_order_while_some_wait(server):
    """Long pipelines of plain commands, of which some meet intents of others and come late."""
    def transact(c, rng):
        c.command('MSET', 'a', 'x', 'b', 'x', 'd', 'x')

    def pipeline(c, rng):
        commands, expected = [], []
        own = b'own:%d' % id(c)
        for number in range(100):
            if rng.random() < .5:
                commands.append(('SET', rng.choice('abd'), 'x'))
                expected.append(b'OK')
            elif rng.random() < .5:
                commands.append(('ECHO', str(number)))
                expected.append(b'%d' % number)
            else:
                commands += [('SET', own, str(number)), ('GET', own)]
                expected += [b'OK', b'%d' % number]
        assert c.pipeline(commands) == expected

    Workers(server).run(transact, transact, transact, pipeline, pipeline)


def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(server):
    keys = keys_of(20)

    def leave(c, rng):
        with server.client() as other:
            other.send(encode('MSET', *(x for k in keys for x in (k, b'v'))) * 5 + encode('MGET', *keys) * 5)

    def stay(c, rng):
        assert len(set(c.command('MGET', *keys))) == 1

    Workers(server).run(leave, leave, stay)
    with server.client() as c:
        while bytes(c.command('CLIENT', 'LIST')).count(b'\n') > 1:
            pass        # what those who left had asked for still runs
        assert c.command('MSET', *(x for k in keys for x in (k, b'w'))) == b'OK'
        assert c.command('MGET', *keys) == [b'w'] * 20


@pytest.mark.several_threads
def test_info_tells_what_was_scheduled_and_that_its_keys_were_prefetched_first(server):
    keys = keys_of(20)
    with server.client() as c:
        for _ in range(10):
            c.command('MSET', *(x for k in keys for x in (k, b'v')))
        c.command('CONFIG', 'SET', 'prefetch', 'none')
        lines = [v for name, v in server.info('threads').items() if name.endswith('_transactions')]
        fields = [dict(f.split('=') for f in line.split(',')) for line in lines]

        def total(name):
            return sum(int(f[name]) for f in fields)
        assert total('count') == 10
        assert total('scheduled') >= 20
        assert total('prefetched_keys') == 200
        assert total('withdrawn') <= 20


@pytest.mark.several_threads
def test_withdrawals_stay_few_under_contention(server):
    """Everybody wants the same two keys."""
    def write(c, rng):
        c.pipeline([('MSET', 'a', 'x', 'b', 'x')] * 20)

    def read(c, rng):
        c.pipeline([('MGET', 'b', 'a')] * 20)

    Workers(server).run(*[write, read] * 8)
    fields = [dict(f.split('=') for f in v.split(',')) for name, v in server.info('threads').items() if name.endswith('_transactions')]
    assert sum(int(f['withdrawn']) for f in fields) <= 2 * sum(int(f['count']) for f in fields)


def test_a_value_that_is_renamed_about_is_always_in_one_place(server):
    keys = keys_of(6)
    sizes = [10, 1000, 50000] + ([] if LIGHT else [9 << 20])
    with server.client() as c:
        for size in sizes:
            assert c.command('SET', b'%d:%s' % (size, keys[0]), b'x' * size) == b'OK'

    def rename(c, rng):
        size = rng.choice(sizes)
        source, target = rng.sample(keys, 2)
        how = rng.choice(['RENAME', 'RENAMENX'])
        reply = c.command(how, b'%d:%s' % (size, source), b'%d:%s' % (size, target))
        assert reply in (b'OK', 0, 1) or bytes(reply) == b'ERR no such key', reply

    def look(c, rng):
        size = rng.choice(sizes[:3])
        found = [v for v in c.command('MGET', *(b'%d:%s' % (size, k) for k in rng.sample(keys, 6))) if v]
        assert found == [b'x' * size]

    Workers(server).run(rename, rename, rename, look, look)
    with server.client() as c:
        for size in sizes:
            values = [c.command('GET', b'%d:%s' % (size, k)) for k in keys]
            assert [v for v in values if v] == [b'x' * size]


@pytest.mark.parametrize('size', [30, 11000, 50000])
def test_copies_and_comparisons_see_pairs_that_were_written_together(server, size):
    values = [b'a' * size, b'b' * size]

    def write(c, rng):
        value = rng.choice(values)
        assert c.command('MSET', 'one', value, 'two', value) == b'OK'

    def compare(c, rng):
        reply = c.command('LCS', *rng.sample(['one', 'two'], 2), 'LEN')
        assert reply in (0, size) or (size == 50000 and b'exceeds' in bytes(reply)), reply

    def copy(c, rng):
        c.command('COPY', 'one', 'two', 'REPLACE')

    def read(c, rng):
        assert len(set(c.command('MGET', 'two', 'one'))) == 1

    Workers(server).run(write, compare, copy, read, read)


def test_msetnx_sets_all_or_none(server):
    keys = keys_of(9)

    def take(c, rng):
        if c.command('MSETNX', *(x for k in rng.sample(keys, 9) for x in (k, b'%d' % id(c)))):
            assert set(c.command('MGET', *keys)) == {b'%d' % id(c)}
            assert c.command('DEL', *keys) == 9

    def look(c, rng):
        assert len(set(c.command('MGET', *rng.sample(keys, 9)))) == 1

    Workers(server).run(take, take, take, look)


@pytest.mark.several_threads
def test_commands_over_shards_make_nobody_stand_still(server):
    with server.client() as c:
        for n in range(50):
            c.command('SET', 'a%d' % n, 'x')
            c.command('RENAME', 'a%d' % n, 'b%d' % n)
            c.command('COPY', 'b%d' % n, 'c%d' % n)
            c.command('RENAMENX', 'c%d' % n, 'd%d' % n)
            c.command('LCS', 'b%d' % n, 'd%d' % n)
            c.command('MSETNX', 'e%d' % n, 'x', 'f%d' % n, 'x')
        assert c.command('DBSIZE') == 200
    assert sum(int(dict(f.split('=') for f in v.split(','))['exclusives']) for name, v in server.info('threads').items() if re.fullmatch(r'thread\d+', name)) == 0


ACCOUNTS = [b'account:%d' % n for n in range(8)]


def pour(c, rng):
    source, target = rng.sample(ACCOUNTS, 2)
    amount = rng.randrange(1, 5)
    replies = c.pipeline([('MULTI',), ('DECRBY', source, amount), ('MGET', *rng.sample(ACCOUNTS, 8)), ('INCRBY', target, amount), ('PING',), ('EXISTS', *ACCOUNTS), ('EXEC',)])
    got = replies[-1]
    assert len(got) == 5 and type(got[0]) is int and type(got[2]) is int and got[3:] == [b'PONG', 8], got
    assert sum(map(int, got[1])) == 800 - amount        # poured out, not yet in


def test_money_that_is_poured_about_in_exec_is_neither_made_nor_lost(server):
    with server.client() as c:
        c.command('MSET', *(x for a in ACCOUNTS for x in (a, b'100')))

    def read(c, rng):
        assert sum(map(int, c.command('MGET', *rng.sample(ACCOUNTS, 8)))) == 800

    def read_in_exec(c, rng):
        got = c.pipeline([('MULTI',), *(('GET', a) for a in ACCOUNTS), ('EXEC',)])[-1]
        assert sum(map(int, got)) == 800

    Workers(server).run(pour, pour, pour, read, read_in_exec)
    if len([n for n in server.info('threads') if re.fullmatch(r'thread\d+', n)]) > 1:
        assert sum(int(dict(f.split('=') for f in v.split(','))['exclusives']) for name, v in server.info('threads').items() if re.fullmatch(r'thread\d+', name)) == 0


def test_nothing_comes_between_what_was_watched_and_exec(server):
    """Read, compute, write: with WATCH no step is lost, over as many shards as there are."""
    names = [b'counter:%d' % n for n in range(6)]
    with server.client() as c:
        c.command('MSET', *(x for n in names for x in (n, b'0')))
    done = []

    def step(c, rng):
        some = rng.sample(names, rng.randrange(1, 4))
        assert c.command('WATCH', *some) == b'OK'
        values = [int(v) for v in c.pipeline([('GET', n) for n in some])]
        replies = c.pipeline([('MULTI',), *(('SET', n, v + 1) for n, v in zip(some, values)), ('EXEC',)])
        if replies[-1] == [b'OK'] * len(some):
            done.extend(some)
        else:
            assert repr(replies[-1]) == 'nil array' or replies[-1] is None or not isinstance(replies[-1], list), replies[-1]

    Workers(server).run(step, step, step, step)
    with server.client() as c:
        assert [int(v) for v in c.command('MGET', *names)] == [done.count(n) for n in names]
    assert done


def test_replies_of_exec_over_shards_are_those_of_the_same_commands_alone(server):
    rng = random.Random(5)
    keys = keys_of(12)
    big = b'x' * 30000      # replied by reference

    def draw():
        k = rng.choice(keys)
        return rng.choice([('SET', k, rng.choice([b'1', b'text', big])), ('GET', k), ('INCR', k), ('APPEND', k, 'y'), ('STRLEN', k), ('MGET', *rng.sample(keys, 5)), ('DEL', *rng.sample(keys, 3)),
                           ('MSET', *(x for n in rng.sample(keys, 4) for x in (n, big))), ('EXISTS', *rng.sample(keys, 4)), ('PING',), ('ECHO', 'e'), ('SETRANGE', k, 1, 'z'), ('GETDEL', k), ('TYPE', k)])

    for _ in range(60 // (4 if LIGHT else 1)):
        commands = [draw() for _ in range(rng.randrange(1, 30))]
        with server.client() as c:
            c.command('FLUSHALL')
            c.command('MSET', *(x for k in keys[:6] for x in (k, b'7')))
            alone = [c.command(*words) for words in commands]
            c.command('FLUSHALL')
            c.command('MSET', *(x for k in keys[:6] for x in (k, b'7')))
            together = c.pipeline([('MULTI',), *commands, ('EXEC',)])[-1]
        assert [repr(x) for x in together] == [repr(x) for x in alone]


POPS = {'LMPOP': ('LMPOP', 2, 'LEFT'), 'BLMPOP': ('BLMPOP', 0, 2, 'LEFT'), 'ZMPOP': ('ZMPOP', 2, 'MIN'), 'BZMPOP': ('BZMPOP', 0, 2, 'MIN')}


@pytest.mark.several_threads
@pytest.mark.limit(120)
@pytest.mark.parametrize('pop', POPS)
def test_a_key_is_there_for_all_steps_of_a_command_or_for_none(start, tmp_path, pop):
    """Its time is over in any of the turns that the command takes: then the other key, which stays, is popped from."""
    server = start(env=clock_steps(tmp_path, 10))
    *question, end = POPS[pop]
    is_list = end == 'LEFT'
    fill = (lambda key: ('RPUSH', key, 'x')) if is_list else (lambda key: ('ZADD', key, 0, 'x'))
    popped = {b'first': 0, b'second': 0}
    with server.client(timeout=PATIENCE) as c:
        for turns in range(1, 25):
            for n in range(12):
                first, second = 'first:%d' % n, 'second:%d' % (11 - n)
                c.pipeline([('DEL', first, second), fill(first), fill(second)])
                c.send(encode('PEXPIRE', first, turns * 10 - 9) + encode(*question, first, second, end))
                assert c.read() == 1
                name, elements = c.read()
                assert elements == [b'x'] if is_list else len(elements) == 1
                popped[name.partition(b':')[0]] += 1
        assert popped[b'first'] and popped[b'second']
