"""kill -9 at any moment of a BGSAVE, while clients write: after a restart the data are those of a cut that was complete, and nothing piles up beside the file.

    DARTER_KILLS=50   rounds (6; in a soak 200)

Every connection writes a history of its own: its nth transaction is known, and so is all that its keys hold after it. What is loaded must be, for each connection, what it
had after some n, and one that lay between what was acknowledged before the cut and what was sent before it was over. The cut says which it is: its number is
written in the same breath.
"""

import os
import random
import threading
import time

import pytest

from configurations import LIGHT, SOAK, seed
from contents import contents, difference
from persistence import persistence
from resp import Closed, Error
from server import Server

ROUNDS = int(os.environ.get('DARTER_KILLS') or (200 if SOAK else 6))
CONNECTIONS = 4
BATCH = 8           # transactions that a connection has under way
FILLING = 5000 if LIGHT else 60000
LATER_MS = 4000000000000


def transaction(c, n):
    """The nth of connection c: two counters, on whatever shards they lie, and a key of some type."""
    slot = n % 40
    key = 'c%d:%d' % (c, slot)
    change = [
        [('SET', key, '%d:' % n + 'x' * (n * 37 % 3000))],
        [('DEL', key), ('RPUSH', key, *range(n, n + 1 + n % 60))],
        [('HSET', key, 'f%d' % (n % 200), n)],
        [('ZADD', key, n, 'm%d' % (n % 150))],
        [('SADD', key, n % 300)],
        [('SET', key, n), ('PEXPIREAT', key, LATER_MS + n)],
        [('RENAME', 'c%d:%d' % (c, slot - 1), key)],
        [('DEL', key), ('DEL', 'c%d:%d' % (c, slot - 5))],
    ][slot % 8]
    return [('MULTI',), ('INCR', 'left:%d' % c), *change, ('INCR', 'right:%d' % c), ('EXEC',)]


class Writer(threading.Thread):
    """Goes on with a connection's history from n on, until the server is gone."""

    def __init__(self, server, c, n):
        super().__init__(daemon=True)
        self.client, self.c = server.client(), c
        self.sent = self.acknowledged = n
        self.fault = None

    def run(self):
        try:
            while True:
                first = self.sent + 1
                self.sent += BATCH
                commands = [command for n in range(first, first + BATCH) for command in transaction(self.c, n)]
                replies = self.client.pipeline(commands)
                if any(isinstance(reply, Error) for reply in replies):
                    self.fault = [reply for reply in replies if isinstance(reply, Error)][0]
                    return
                self.acknowledged += BATCH
        except (OSError, Closed):
            pass


class Cut:
    """A BGSAVE: how far each connection was at least, and at most."""

    def __init__(self, number, client, writers):
        self.number, self.complete = number, False
        self.least = [w.acknowledged for w in writers]
        replies = client.pipeline([('SELECT', 2), ('SET', 'cut', number), ('BGSAVE',), ('SET', 'cut', 'none'), ('SELECT', 0)])
        assert replies[2] == b'Background saving started', replies
        self.most = [w.sent for w in writers]


def save_and_kill(server, writers, cuts, after_s):
    """One snapshot after the other, until the time is over; then the server is killed. What was seen to be complete is marked so. How long a snapshot took."""
    client, end, took_s = server.client(), time.monotonic() + after_s, None
    while time.monotonic() < end:
        begun = time.monotonic()
        cuts.append(Cut(len(cuts), client, writers))
        while time.monotonic() < end:
            found = persistence(client)
            if found['rdb_bgsave_in_progress'] == '0':
                assert found['rdb_last_bgsave_status'] == 'ok', server.log()
                cuts[-1].complete = True
                took_s = time.monotonic() - begun
                break
            time.sleep(.002)
    server.process.kill()
    server.process.wait()
    for w in writers:
        w.join()
        assert not w.fault, w.fault
    return took_s


def advance(reference, loaded, n):
    """The reference goes on to where the loaded one is: each connection's history, up to what its counter says. Where that is, by connection."""
    for c in range(CONNECTIONS):
        counter = int(loaded.command('GET', 'left:%d' % c) or 0)
        for first in range(n[c] + 1, counter + 1, 500):
            reference.pipeline([command for i in range(first, min(first + 500, counter + 1)) for command in transaction(c, i)])
        assert counter >= n[c], 'connection %d is at %d, and was at %d before' % (c, counter, n[c])
        n[c] = counter


@pytest.mark.each_back_end
@pytest.mark.limit(120 + 10 * ROUNDS)
def test_a_killed_server_comes_back_with_a_cut_that_was_complete(start, tmp_path, request):
    began = seed('DARTER_KILLS_SEED', request.node.callspec.id)
    print('DARTER_KILLS_SEED=%s' % began)
    rng = random.Random(began)
    with Server(kind='redis') as redis:
        reference, n, cuts, took_s, in_flight = redis.client(), [0] * CONNECTIONS, [], .2, 0
        server = start(options=[('dir', tmp_path), ('enable-debug-command', 'yes')])
        server.client().pipeline([('SELECT', 1), ('DEBUG', 'POPULATE', FILLING, 'key', 100), ('SAVE',)])
        for _ in range(ROUNDS):
            writers = [Writer(server, c, n[c]) for c in range(CONNECTIONS)]
            for w in writers:
                w.start()
            begun = len(cuts)
            # Of the moments drawn the longer ones see more of how long a snapshot takes.
            took_s = max(.95 * took_s, save_and_kill(server, writers, cuts, rng.uniform(0, 2.2) * took_s) or 0)
            server.kill()
            assert {name for name in os.listdir(tmp_path) if name != 'redis'} <= {'dump.rdb', 'dump.rdb.part'}
            server = start(options=[('dir', tmp_path), ('enable-debug-command', 'yes')], threads=rng.choice([1, 2, 4]))
            client = server.client()
            which = int(client.pipeline([('SELECT', 2), ('GET', 'cut'), ('SELECT', 0)])[1] or -1)
            complete = [cut.number for cut in cuts if cut.complete]
            allowed = set(complete[-1:]) | {cut.number for cut in cuts[begun:][-1:]} or {-1}
            if not complete:
                allowed.add(-1)
            assert which in allowed, (which, allowed)
            if which >= 0:
                in_flight += not cuts[which].complete
                cuts[which].complete = True
                advance(reference, client, n)
                assert all(a <= b <= c for a, b, c in zip(cuts[which].least, n, cuts[which].most)), (cuts[which].least, n, cuts[which].most)
            assert not difference(contents(reference, dbs=[0]), contents(client, dbs=[0]))
            assert client.pipeline([('SELECT', 1), ('DBSIZE',), ('SELECT', 0)])[1] == FILLING
        print('%d rounds, %d snapshots, %d complete, %d found that nobody had been told of' % (ROUNDS, len(cuts), sum(cut.complete for cut in cuts), in_flight))
        assert server.client().command('SAVE') == b'OK'
        assert [name for name in os.listdir(tmp_path)] == ['dump.rdb']
