"""A thread that sleeps lends its shard to those that have work for it: nothing may come out differently, and nobody is woken."""

import threading
import time

import pytest

from configurations import LIGHT
from resp import Client, Error, encode
from server import PATIENCE, SLOW

pytestmark = [pytest.mark.several_threads, pytest.mark.alone, pytest.mark.every_pair]


def counters(server):
    """Sums over all threads."""
    total = {}
    for name, text in server.info('threads').items():
        for field in text.split(',') if name.removeprefix('thread').isdigit() else ():
            key, value = field.split('=')
            total[key] = total.get(key, 0) + float(value)
    return total


def test_batches_for_sleepers_run_on_borrowed_shards(server):
    c = server.client()
    before = counters(server)
    for i in range(2000):
        assert c.command('INCR', 'n:%d' % (i % 100)) == i // 100 + 1
    after = counters(server)
    lent, wakes = after['lends'] - before['lends'], after['wakes'] - before['wakes']
    threads = server.threads
    # On a busy machine an owner that would like to sleep may have to wait for a CPU first.
    assert lent > 2000 * (threads - 1) / threads * .5, 'lent only %d' % lent
    assert wakes < 500, 'woken %d times' % wakes


def test_nothing_is_lent_if_so_configured(start):
    server = start(options=[('lend', 'no')])
    c = server.client()
    assert c.pipeline([('INCR', 'n:%d' % (i % 100)) for i in range(2000)]) == [i // 100 + 1 for i in range(2000)]
    assert counters(server)['lends'] == 0


def test_the_owner_wakes_for_a_deadline_that_a_borrower_brought(server):
    """Keys that end soon, set on shards whose owners sleep and would sleep on."""
    c = server.client()
    for pause in (.5, 4, 16):       # a machine that is busy needs more
        assert c.command('CONFIG', 'RESETSTAT') == b'OK'
        time.sleep(.05)
        for i in range(200):
            assert c.command('SET', 'k:%d' % i, 'v', 'PX', 60) == b'OK'
        time.sleep(pause * SLOW)
        # The first look, and by no new connection: both wake everybody.
        stats = c.command('INFO', 'stats').decode()
        if 'expired_keys_active:200\r\n' in stats:
            return
    pytest.fail(stats)


def test_counts_stay_right_while_lending_is_switched(server):
    """Clients that add up, others that need all shards, and a setting that changes under them."""
    seconds, sums, faults = 2 if LIGHT else 5, [], []
    end = time.monotonic() + seconds

    def add(number):
        added = 0
        try:
            with Client(server.address(), timeout=PATIENCE) as c:
                while time.monotonic() < end or not added:
                    depth = 1 + (added + number) % 30
                    c.send(b''.join(encode('INCR', 'n:%d' % ((added + i) % 16)) for i in range(depth)))
                    values = [c.read() for _ in range(depth)]
                    assert all(type(v) is int for v in values), values
                    added += depth
        except BaseException as fault:
            faults.append(fault)
        sums.append(added)

    threads = [threading.Thread(target=add, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    with Client(server.address(), timeout=PATIENCE) as c:
        i = 0
        while time.monotonic() < end:
            i += 1
            assert c.command('CONFIG', 'SET', 'lend', 'no' if i % 2 else 'yes') == b'OK'
            assert c.command('SWAPDB', 1, 2) == b'OK'
            assert len(c.command('MGET', *('n:%d' % n for n in range(16)))) == 16
            assert c.command('DBSIZE') <= 16
    for t in threads:
        t.join()
    assert not faults, faults[0]
    assert sum(int(v) for v in server.client().command('MGET', *('n:%d' % n for n in range(16))) if v) == sum(sums)


def test_keys_can_stay_with_the_thread_of_their_client_for_measuring(start):
    server = start(options=[('enable-debug-command', 'yes')])
    c = server.client()
    assert isinstance(c.command('DEBUG', 'ROUTE', 'x'), Error) and isinstance(c.command('DEBUG', 'BATCH', 'x'), Error)
    assert c.command('DEBUG', 'ROUTE', 'LOCAL') == b'OK'
    clients = [server.client() for _ in range(server.threads)]
    before = counters(server)
    for i, one in enumerate(clients):
        assert one.pipeline([('SET', 'k:%d' % n, i) for n in range(50)]) == [b'OK'] * 50
    for i, one in enumerate(clients):
        assert one.pipeline([('GET', 'k:%d' % n) for n in range(50)]) == [b'%d' % i] * 50
    after = counters(server)
    assert after['hops_sent'] - before['hops_sent'] + after['lent_hops'] - before['lent_hops'] < 20
    assert c.command('DEBUG', 'BATCH', 'CONNECTION') == b'OK' and c.command('DEBUG', 'ROUTE', 'HASH') == b'OK'
    assert c.command('FLUSHALL') == b'OK'
    assert c.pipeline([('INCR', 'n')] * 50) == list(range(1, 51))
