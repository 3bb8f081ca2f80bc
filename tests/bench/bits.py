"""tools/bench bits: bitmaps and HyperLogLogs beside redis-server, one thread each, in turn.

Variables: MIB of the large bitmaps (100), REQUESTS a measurement of the small commands (200000), KEYS (1000), ROUNDS (5), DARTER (build/darter).
"""

import random
import shutil

from measure import in_turn, pick, ratio, rounds, setting
from record import Record
from resp import encode
from subjects import Subject, cpus

CONNECTIONS, DEPTH = 50, 16
LARGE = ['BITCOUNT', 'BITPOS', 'BITOP AND', 'BITOP OR', 'BITOP NOT']


class Side:
    def __init__(self, name):
        self.subject = Subject(name, cpu_list=cpus()[0])
        self.client = self.subject.client()
        self.sockets = [self.subject.client().socket for _ in range(CONNECTIONS)]

    def ask(self, *command):
        """The server's CPU of one command, us."""
        before = self.subject.cpu_s()
        reply = self.client.command(*command)
        used = self.subject.cpu_s() - before
        if isinstance(reply, Exception):
            raise RuntimeError(reply)
        return {'cpu': used * 1e6, 'reply': reply}

    def pipelines(self, commands):
        """The server's CPU a request of these, DEPTH at a time on each connection; each reply is one line."""
        before = self.subject.cpu_s()
        for start in range(0, len(commands), DEPTH * CONNECTIONS):
            waits = []
            for n, socket in enumerate(self.sockets):
                batch = commands[start + n * DEPTH:start + (n + 1) * DEPTH]
                if batch:
                    socket.sendall(b''.join(batch))
                    waits.append((socket, len(batch)))
            for socket, count in waits:
                while count:
                    count -= socket.recv(65536).count(b'\n')
        return {'cpu': (self.subject.cpu_s() - before) * 1e6 / len(commands)}

    def fill(self, mib, keys):
        size = mib << 20
        for name, seed in ((b'a', 1), (b'b', 2)):
            part = random.Random(seed).randbytes(1 << 20)
            for at in range(mib):
                self.client.command('SETRANGE', name, at << 20, part)
        self.client.command('SETBIT', 'zeros', size * 8 - 1, 1)
        rng = random.Random(3)
        for n in range(keys):
            self.client.command('PFADD', 'dense:%d' % n, *(rng.randrange(1 << 40) for _ in range(3000)))
            self.client.command('PFADD', 'sparse:%d' % n, *(rng.randrange(1 << 40) for _ in range(200)))
            self.client.command('SETBIT', 'bits:%d' % n, 8000, 1)


def large(side, name):
    if name == 'BITCOUNT':
        return side.ask('BITCOUNT', 'a')
    if name == 'BITPOS':
        return side.ask('BITPOS', 'zeros', 1)
    op = name.split()[1]
    return side.ask('BITOP', op, 'target', 'a', *([] if op == 'NOT' else ['b']))


def small(requests, keys):
    """Name, and the commands of one measurement: the same for both servers."""
    rng = random.Random(4)

    def some(make, count=requests):
        return [encode(*make(rng.randrange(keys), rng.randrange(1 << 40))) for _ in range(count)]
    counted = [word for pair in zip(some(lambda n, x: ('PFADD', 'dense:0', x), requests // 20), some(lambda n, x: ('PFCOUNT', 'dense:0'), requests // 20)) for word in pair]
    return {
        'SETBIT': some(lambda n, x: ('SETBIT', 'bits:%d' % n, x % 8000, x % 2)),
        'GETBIT': some(lambda n, x: ('GETBIT', 'bits:%d' % n, x % 8000)),
        'BITCOUNT of 1 KB': some(lambda n, x: ('BITCOUNT', 'bits:%d' % n)),
        'BITOP AND of two of 1 KB': some(lambda n, x: ('BITOP', 'AND', 'to', 'bits:%d' % n, 'bits:%d' % (x % keys)), requests // 4),
        'PFADD, dense': some(lambda n, x: ('PFADD', 'dense:%d' % n, x)),
        'PFADD, sparse, an element that is there or changes nothing': some(lambda n, x: ('PFADD', 'sparse:%d' % n, x % 100), requests // 2),
        'PFADD to a new key': some(lambda n, x: ('PFADD', 'new:%d' % x, x), requests // 2),
        'PFCOUNT, its estimate kept': some(lambda n, x: ('PFCOUNT', 'sparse:%d' % n)),
        'PFADD and PFCOUNT in turn, dense': counted,
        'PFCOUNT of two, dense': some(lambda n, x: ('PFCOUNT', 'dense:%d' % n, 'dense:%d' % (x % keys)), requests // 20),
        'PFMERGE of two, dense': some(lambda n, x: ('PFMERGE', 'to:%d' % n, 'dense:%d' % n, 'dense:%d' % (x % keys)), requests // 20),
    }


def table(record, title, unit, measured, divide):
    record.say('| %s | redis-server, %s | Darter, %s | ratio |' % (title, unit, unit))
    record.say('|---|---|---|---|')
    for name, found in measured.items():
        a, b = ([{'cpu': one['cpu'] / divide} for one in found[side]] for side in ('redis-server', 'darter'))
        record.say('| %s | %s | %s | %s |' % (name, pick(a, 'cpu').text(), pick(b, 'cpu').text(), ratio(b, a, 'cpu').text()))
    record.say()


def main():
    mib, keys, requests = setting('MIB', 100), setting('KEYS', 1000), setting('REQUESTS', 200000)
    if not shutil.which('redis-server'):
        raise SystemExit('bench: redis-server is missing')
    record = Record('bits')
    sides = {name: Side(name) for name in ('redis-server', 'darter')}
    try:
        for side in sides.values():
            side.fill(mib, keys)
        record.say('CPU of the server, one thread; medians of %d rounds in turn (least–greatest), ratios round by round.' % rounds())
        record.say()
        found = {}
        for name in LARGE:
            found[name] = in_turn({key: lambda side=side, name=name: large(side, name) for key, side in sides.items()}, rounds() + 1)
            replies = {one['reply'] for measured in found[name].values() for one in measured}
            if len(replies) != 1:
                raise RuntimeError('%s: the servers differ: %s' % (name, replies))
            found[name] = {key: measured[1:] for key, measured in found[name].items()}      # the first makes the target
        table(record, 'bitmaps of %d MiB' % mib, 'ms', found, 1000)
        found = {}
        for name, commands in small(requests, keys).items():
            found[name] = in_turn({key: lambda side=side, commands=commands: side.pipelines(commands) for key, side in sides.items()})
        table(record, '%d connections, %d deep, %d keys' % (CONNECTIONS, DEPTH, keys), 'us a request', found, 1)
        record.write()
    finally:
        for side in sides.values():
            side.subject.stop()


if __name__ == '__main__':
    main()
