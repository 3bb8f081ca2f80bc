"""What can be seen of transactions under way: DEBUG SCHEDULE, and the counters of INFO."""

import re
import time

import pytest

from resp import encode

STALL = encode('CONFIG', 'GET', *('*a*b*c*%d*' % n for n in range(1000)))    # keeps its thread, and no other, busy for a tenth of a second


def total(server, name, threads=r'thread\d+_transactions'):
    """A figure of INFO threads, of all threads."""
    lines = [v for thread, v in server.info('threads').items() if re.fullmatch(threads, thread)]
    return sum(int(dict(f.split('=') for f in line.split(','))[name]) for line in lines)


def exclusives(server):
    return total(server, 'exclusives', r'thread\d+')


def members(text):
    """(number, local, state, intents, waiting) of all shards' members."""
    return [(int(m[0]), m[1] == 'yes', m[2], int(m[3]), int(m[4])) for m in re.findall(r'^ member number=(\d+) local=(\w+) state="([^"]+)" intents=(\d+) waiting=(\d+)$', text, re.M)]


def test_an_idle_schedule_is_empty(start):
    server = start(options=[('enable-debug-command', 'yes')])
    with server.client() as c:
        assert c.command('MSET', *(x for n in range(20) for x in (n, 'v'))) == b'OK'
        text = bytes(c.command('DEBUG', 'SCHEDULE')).decode()
        threads = len(re.findall(r'^\[thread \d+\]$', text, re.M))
        assert threads == len(re.findall(r'^\[shard \d+\]$', text, re.M)) == int(server.info('server')['threads'])
        assert not members(text) and text.count(' members=0 places=0 ') == threads and text.count(' under_way=0 waiting_for_a_coordinator=0 ') == threads
        assert 'last_number=%d\n' % (threads > 1) in text
        assert any(b'SCHEDULE' in bytes(line) for line in c.command('DEBUG', 'HELP'))


@pytest.mark.several_threads
def test_who_waits_for_an_open_transaction_is_shown_and_its_waiting_is_not_its_time(start):
    """A thread that coordinates RENAMEs is kept busy in the middle of one; a plain command meets its intents meanwhile."""
    server = start(options=[('enable-debug-command', 'yes')])
    clients = [server.client() for _ in range(8)]
    admin = server.client()
    admin.command('CONFIG', 'SET', 'slowlog-log-slower-than', 0, 'slowlog-max-len', 1000)
    pairs = [('s:%d' % n, 't:%d' % n) for n in range(60)]
    met = shown = False
    for attempt in range(400):
        coordinator, staller, writer = clients[attempt % 8], clients[(attempt + 4) % 8], clients[(attempt + 1 + attempt // 8 % 3) % 8]
        admin.command('MSET', *(x for s, _ in pairs for x in (s, 'v')))
        deferred = total(server, 'deferred')
        admin.command('SLOWLOG', 'RESET')
        start_time = time.monotonic()
        coordinator.send(b''.join(encode('RENAME', s, t) for s, t in pairs))
        time.sleep(attempt % 6 / 4000)
        staller.send(STALL)
        writer.send(b''.join(encode('SET', k, 'w') for pair in pairs for k in pair))
        text = bytes(admin.command('DEBUG', 'SCHEDULE')).decode()
        assert [writer.read() for _ in range(120)] == [b'OK'] * 120
        took_us = (time.monotonic() - start_time) * 1e6
        assert [coordinator.read() for _ in pairs] and isinstance(staller.read(), list)
        shown |= bool(re.search(r'^ transaction client=\d+ cmd=rename number=\d+ state="\w+" out=\d+ standing=\d+ withdrawals=\d+$', text, re.M))
        waiting = [m for m in members(text) if m[1] and m[4]]
        if waiting:
            met = True
            number, _, state, _, _ = waiting[0]
            assert state == 'told to run' and [m for m in members(text) if not m[1] and m[0] == number], text
            assert re.search(r'^  key [0-9a-f]{16}: writes, waits$', text, re.M) and re.search(r'^  database: writes within$', text, re.M), text
            assert total(server, 'deferred') > deferred
            times = [e[2] for e in admin.command('SLOWLOG', 'GET', -1) if e[3][0] == b'SET']
            assert sum(times) < took_us / 2, (times, took_us)     # of cheap commands a sample
        if met and shown:
            break
    assert met and shown


@pytest.mark.several_threads
def test_counters_of_transactions_count(server):
    keys = ['k:%d' % n for n in range(20)]
    with server.client() as c:
        for n in range(10):
            c.command('MSET', *(x for k in keys for x in (k, 'v')))
            c.pipeline([('MULTI',), *(('GET', k) for k in keys), ('EXEC',)])
        c.command('RENAME', keys[0], keys[0])
        # Alone nobody waits for anybody, and nothing is late.
        shards = total(server, 'scheduled') // 20
        assert total(server, 'count') == 20 and total(server, 'scheduled') == total(server, 'immediate') == 20 * shards > 20
        assert total(server, 'late') == total(server, 'withdrawn') == total(server, 'given_up') == total(server, 'deferred') == total(server, 'out_of_order') == 0
        assert exclusives(server) == 0
        assert c.command('FLUSHALL') == b'OK' and c.command('SWAPDB', 0, 1) == b'OK'
        assert exclusives(server) == 2
