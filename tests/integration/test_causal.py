"""Causal order: whoever has seen the effect of a later command of a pipeline, and then asks, sees the effects of all earlier ones.

A pipeline's commands run at the same time on different shards, so this is where a thread-per-core store can go wrong: the worker that finds the
job announced, and then does not find the job.
"""

import os
import subprocess
import sys
import threading
import time

import pytest

from configurations import LIGHT, SOAK
from resp import Client, encode
from server import PATIENCE, ROOT

pytestmark = [pytest.mark.several_threads, pytest.mark.alone, pytest.mark.every_pair]

SECONDS = 60 if SOAK else 3


def test_the_worker_that_sees_the_announcement_finds_the_job(server):
    writers = [server.client() for _ in range(2)]
    readers = [server.client() for _ in range(4)]
    end, i, seen = time.monotonic() + SECONDS, 0, 0
    while time.monotonic() < end or seen <= 100:
        i += 1
        jobs = ['job:%d:%d' % (i, n) for n in range(4)]
        ready = 'ready:%d' % i
        data = b''.join(encode('SET', j, 'work') for j in jobs) + encode('SET', ready, 1)
        ask = encode('GET', ready)
        # The readers ask before, during and after the announcement.
        for r in readers[:2]:
            r.send(ask)
        writers[i % 2].send(data)
        for r in readers[2:]:
            r.send(ask)
        for r in readers:
            if r.read() == b'1':
                seen += 1
                r.send(encode('MGET', *jobs) if i % 2 else b''.join(encode('GET', j) for j in jobs))
                found = r.read() if i % 2 else [r.read() for _ in jobs]
                assert found == [b'work'] * 4, 'announced, but the jobs are %r (round %d)' % (found, i)
        for _ in range(5):
            assert writers[i % 2].read() == b'OK'
        if i % 1000 == 0:
            writers[0].command('FLUSHALL')
    print('%d rounds, seen in time %d times' % (i, seen))


WRITER = '''
import sys
sys.path.insert(0, %r)
from resp import Client, encode
c = Client(%d)
pairs = %r
data = b''.join(encode('INCR', a) + encode('INCR', b) for a, b in pairs) * 20
while True:
    c.send(data)
    for _ in range(40 * len(pairs)):
        c.read()
'''


def test_a_second_counter_never_overtakes_the_first(server):
    """Every pipeline is INCR a, INCR b: whoever reads b and then a must find a >= b."""
    pairs = [('a:%d' % n, 'b:%d' % n) for n in range(8)]
    script = WRITER % (os.path.join(ROOT, 'tests', 'lib'), server.port, pairs)
    writers = [subprocess.Popen([sys.executable, '-B', '-c', script], stderr=subprocess.DEVNULL) for _ in range(2)]
    try:
        c, d = server.client(), server.client()
        end, rounds, equal, second = time.monotonic() + SECONDS, 0, 0, 0
        while time.monotonic() < end or rounds <= 20 or second <= 20:
            for a, b in pairs:
                second = int(c.command('GET', b) or 0)
                first = int((d if rounds % 2 else c).command('GET', a) or 0)
                assert first >= second, '%s = %d was seen, then %s = %d' % (b, second, a, first)
                equal += first == second
            rounds += 1
        print('%d rounds; %d increments' % (rounds, int(c.command('GET', 'b:0'))))
    finally:
        for p in writers:
            p.kill()
            p.wait()


def test_commands_over_all_shards_stand_between_their_neighbours(server):
    """In one pipeline: what is before an MSET, MGET, DEL or DBSIZE has happened for it, what is after has not."""
    c = server.client()
    keys = ['w:%d' % n for n in range(20)]
    for i in range(20 if LIGHT else 200):
        commands = [('SET', k, i) for k in keys] + [('MGET', *keys), ('DBSIZE',), ('MSET', *[x for k in keys for x in (k, -i)])] + [('GET', k) for k in keys]
        commands += [('INCR', keys[0]), ('RENAME', keys[0], keys[1]), ('EXISTS', *keys), ('GET', keys[1]), ('COPY', keys[1], keys[0]), ('DEL', *keys), ('EXISTS', *keys)]
        replies = c.pipeline(commands)
        assert replies[20:23] == [[b'%d' % i] * 20, 20, b'OK'] and replies[23:43] == [b'%d' % -i] * 20
        assert replies[43:] == [1 - i, b'OK', 19, b'%d' % (1 - i), 1, 20, 0]


def test_concurrent_increments_are_all_counted(server):
    """No update is lost, whichever threads the clients are on."""
    count, clients = (200 if LIGHT else 2000), 8

    def work(number):
        with Client(server.address(), timeout=PATIENCE) as c:
            for _ in range(count // 100):
                c.pipeline([('INCR', 'n:%d' % (k % 5)) for k in range(100)])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert server.client().command('MGET', *['n:%d' % k for k in range(5)]) == [b'%d' % (clients * count // 5)] * 5


def test_commands_on_two_shards_are_whole(server):
    """RENAME, COPY, MSETNX on two shards beside other clients: a value is always in exactly one of two places."""
    stop = threading.Event()
    faults = []

    def move(n):
        with Client(server.address(), timeout=PATIENCE) as c:
            a, b = 'left:%d' % n, 'right:%d' % n
            c.command('SET', a, 'token')
            while not stop.is_set():
                for reply in c.pipeline([('RENAME', a, b), ('RENAME', b, a)] * 10):
                    if reply != b'OK':
                        faults.append(reply)
                        return

    threads = [threading.Thread(target=move, args=(n,)) for n in range(3)]
    for t in threads:
        t.start()
    try:
        c = server.client()
        end = time.monotonic() + SECONDS / 2
        while time.monotonic() < end and not faults:
            for n in range(3):
                c.pipeline([('EXISTS', 'left:%d' % n), ('SET', 'noise:%d' % n, 1), ('MSETNX', 'noise:%d' % n, 1, 'left:%d' % n, 1)])
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not faults, faults
    got = c.command('MGET', *['%s:%d' % (side, n) for n in range(3) for side in ('left', 'right')])
    assert got.count(b'token') == 3, got
