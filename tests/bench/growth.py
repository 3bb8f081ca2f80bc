"""The growth of the table, beside redis-server: tools/bench growth, tools/bench steps.

growth   Instructions a SET, by callgrind (one thread, epoll), of random keys as redis-benchmark -P 100 -r 1000000000 makes them, against a server that holds KEYS keys:
         maxmemory off; large; between what is used and what the next growth needs, so that the growth is withheld. Then overwrites, and whether the growth
         resumes when the limit is raised. The next growth is a directory of twice the size (Darter: KEYS is brought near that point) or a table of twice the
         size (redis-server: KEYS is brought near a power of two). In Darter a withheld directory has so few bytes that new keys soon use them up, so the
         limit moves on in steps, each less than the directory needs.
steps    The longest steps of growth while KEYS keys come in, from inside (INFO threads, CPU time), and latencies as redis-benchmark sees them, beside
         redis-server and beside a Darter whose keys do not become more.

Variables: KEYS (growth: about 1500000; steps: 8000000), REQUESTS (growth: 300000), DARTER (build/darter).
"""

import os
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'lib'))
from server import Server  # noqa: E402

DEBUG = [('enable-debug-command', 'yes')]
SEGMENT_SLOTS = 476
DUE_AT = 0.72  # of the slots: soon the first of some thousand segments is full
RANDOM = 1000000000  # of so many keys hardly one comes twice
FEW = 1000


class Counted:
    """A server under callgrind, with one connection that sends 100 SETs at a time and one for everything else."""

    def __init__(self, kind, keys):
        self.prefix = os.path.join(tempfile.gettempdir(), 'growth-%d-callgrind' % os.getpid())
        command = ['valgrind', '--tool=callgrind', '--instr-atstart=no', '--callgrind-out-file=' + self.prefix]
        self.server = Server(kind=kind, threads=1, io='epoll', options=DEBUG, prefix=command, tolerate_faults=True, wait=False)
        try:
            self.fill(keys)
        except BaseException:
            self.end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def fill(self, keys):
        self.server.wait_ready(120)
        self.client, self.other = self.server.client(timeout=3600), self.server.client(timeout=3600)
        self.ask('DEBUG', 'POPULATE', keys)
        self.random = random.Random(7)
        for n in range(FEW):
            self.ask('SET', 'key:%012d' % n, 'xxx')
        self.sets(100, FEW)

    def ask(self, *words):
        return self.other.command(*words)

    def limit(self, bytes_max):
        assert self.ask('CONFIG', 'SET', 'maxmemory', bytes_max) == b'OK'

    def memory(self, field):
        return int(dict(line.split(':') for line in self.ask('INFO', 'memory').decode().split() if ':' in line)[field])

    def data_bytes(self):
        return self.memory('used_memory') - (self.memory('mem_not_counted_for_evict') if self.server.kind == 'darter' else 0)

    def statistics(self):
        return dict(line.strip().partition(': ')[::2] for line in self.ask('DEBUG', 'HTSTATS', 0).decode().splitlines()[1:])

    def sets(self, requests, keys):
        """Random keys, as redis-benchmark makes them. Returns how many were refused."""
        refused = 0
        for n in range(0, requests, 100):
            refused += sum(reply != b'OK' for reply in self.client.pipeline([('SET', 'key:%012d' % self.random.randrange(keys), 'xxx') for _ in range(100)]))
        return refused

    def control(self, *words):
        subprocess.run(['callgrind_control', *words, str(self.server.process.pid)], check=True, capture_output=True)

    def counted(self, what):
        """The instructions of a call."""
        self.control('-i', 'on')
        what()
        self.control('-i', 'off')
        self.control('-d')
        directory, name = os.path.split(self.prefix)
        newest = max((os.path.join(directory, f) for f in os.listdir(directory) if f.startswith(name + '.')), key=os.path.getmtime)
        with open(newest) as f:
            total = int(re.search(r'^totals: (\d+)', f.read(), re.MULTILINE).group(1))
        os.remove(newest)
        return total

    def end(self):
        self.server.kill()
        directory, name = os.path.split(self.prefix)
        for f in os.listdir(directory):
            if f.startswith(name):
                os.remove(os.path.join(directory, f))


def say(test, kind, instructions, requests, base=None, note=''):
    each = instructions / requests
    print('| %s | %s | %.0f | %s | %s |' % (test, kind, each, '%+.2f %%' % (100 * (each / base - 1)) if base else '', note), flush=True)
    return each


def directory_withheld(c, requests, base):
    """The limit moves on in steps that the next directory never fits into; what moving it costs is taken off."""
    words = int(re.search(r'(\d+) words', c.statistics()['directory']).group(1))
    step = words * 16 // 2 // 32 // 100 * 100  # half of that, with 32 bytes a key and its share of a chain
    steps, refused = -(-requests // step), []

    def move(n=0):
        c.limit(c.data_bytes() + words * 16 - 1)
        refused.append(c.sets(n, RANDOM))

    moving = c.counted(lambda: [move() for _ in range(50)]) / 50
    total = c.counted(lambda: [move(step) for _ in range(steps)]) - steps * moving
    t = c.statistics()
    say('new keys, directory withheld', 'Darter', total, steps * step, base, 'withheld %s times, %s keys in %s chain buckets, %d refused, directory %s' % (
        t['growth withheld'], t['chain'].split()[0], t['chain buckets'], sum(refused), t['directory']))


def growth_of_darter(keys, requests):
    words = 1 << max(9, round(keys / SEGMENT_SLOTS / DUE_AT).bit_length() - 1)
    keys = int(words * SEGMENT_SLOTS * DUE_AT)
    new = old = None
    for test, bytes_max in (('off', 0), ('large', 1 << 40)):
        with Counted('darter', keys) as c:
            c.limit(bytes_max)
            each = say('new keys, maxmemory ' + test, 'Darter', c.counted(lambda: c.sets(requests, RANDOM)), requests, new, '%d keys before, %s splits' % (keys, c.statistics()['splits']))
            over = say('overwrites, maxmemory ' + test, 'Darter', c.counted(lambda: c.sets(requests, FEW)), requests, old)
            new, old = new or each, old or over
    with Counted('darter', keys) as c:
        growth_withheld(c, requests, new, old)


def growth_withheld(c, requests, new, old):
    directory_withheld(c, requests, new)
    say('overwrites, directory withheld', 'Darter', c.counted(lambda: c.sets(requests, FEW)), requests, old)
    c.limit(c.data_bytes() + 3000)  # less than a segment
    refused = []
    total = c.counted(lambda: refused.append(c.sets(requests, RANDOM)))
    say('new keys, splits withheld', 'Darter', total, requests, new, '%d of %d refused, %d bytes below the limit' % (refused[0], requests, c.memory('maxmemory') - c.data_bytes()))
    say('overwrites, splits withheld', 'Darter', c.counted(lambda: c.sets(requests, FEW)), requests, old)
    before = c.statistics()
    c.limit(1 << 40)
    c.sets(requests // 4, RANDOM)
    t = c.statistics()
    print('| the limit is raised | Darter | | | directory %s, then %s; keys in chains %s, then %s |' % (
        before['directory'], t['directory'], before['chain'].split()[0], t['chain'].split()[0]), flush=True)


def growth_of_redis(keys, requests):
    power = 1 << (keys.bit_length() - 1)
    requests = min(requests, power // 20)
    keys = power - requests // 4
    base = None
    for test in ('off', 'large', 'between'):
        with Counted('redis', keys - FEW) as c:
            c.limit({'off': 0, 'large': 1 << 40, 'between': c.data_bytes() + power * 16 - 1}[test])
            refused = []
            total = c.counted(lambda: refused.append(c.sets(requests, RANDOM)))
            each = say('new keys, maxmemory ' + test, 'redis-server', total, requests, base, '%d keys before, %d of %d refused' % (keys, refused[0], requests))
            base = base or each


def growth():
    keys, requests = int(os.environ.get('KEYS', 1500000)), int(os.environ.get('REQUESTS', 300000))
    print('| test | server | instructions a SET | | |\n|---|---|---|---|---|', flush=True)
    growth_of_darter(keys, requests)
    growth_of_redis(keys, requests)


def percentiles(text):
    """99.9 %, 99.99 % (the next that redis-benchmark tells) and the longest, in ms."""
    found = [(float(p), float(ms)) for p, ms in re.findall(r'^([\d.]+)% <= ([\d.]+) milliseconds', text, re.MULTILINE)]
    return [min(ms for p, ms in found if p >= part) for part in (99.9, 99.98, 100)]


def steps():
    keys = int(os.environ.get('KEYS', 8000000))
    print('| SET, 10 connections, 16 deep | p99.9 | p99.99 | longest |\n|---|---|---|---|', flush=True)
    inside = []
    for name, kind, range_ in (('redis-server, %d new keys' % keys, 'redis', RANDOM), ('Darter, the same', 'darter', RANDOM), ('Darter, as many that are there', 'darter', 1000)):
        with Server(kind=kind, threads=1, options=DEBUG, prefix=['taskset', '-c', '0']) as server:
            text = subprocess.run(['taskset', '-c', '1', 'redis-benchmark', '-p', str(server.port), '-c', '10', '-P', '16', '-r', str(range_), '-t', 'set', '-n', str(keys)],
                                  check=True, capture_output=True, text=True).stdout
            print('| %s | %.2f ms | %.2f ms | %.2f ms |' % (name, *percentiles(text)), flush=True)
            if kind == 'darter':
                threads = server.info('threads')
                inside += ['| %s: %s | %s | %s us | %s us | %s us |' % (name, cause, s['slices'], s['p50_usec'], s['p99.9_usec'], s['longest_usec'])
                           for cause in ('growth', 'housekeeping') for s in [dict(f.split('=') for f in threads['thread0_' + cause].split(','))]]
    print('\n| CPU time, from inside | steps | p50 | p99.9 | longest |\n|---|---|---|---|---|\n' + '\n'.join(inside))


if __name__ == '__main__':
    {'growth': growth, 'steps': steps}[sys.argv[1]]()
