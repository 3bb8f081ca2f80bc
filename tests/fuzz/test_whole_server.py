"""Fuzzes a whole server over its sockets: valid scripts, spoiled byte by byte, on many connections at once that come, stall and go. The server must
stay alive, keep answering, keep its memory within bounds, and end in order, without a leak (under the address sanitizer).

The libFuzzer targets beside this file are guided by coverage; this one has concurrency, both back ends, and the real end of a process.
"""

import os
import random
import sys
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'oracle'))

from configurations import back_ends, seed
from generate import Generator, HOLD, SCAN
from resp import Client, encode
from server import PATIENCE, Server

SECONDS = float(os.environ.get('DARTER_FUZZ_SECONDS', '60'))


def spoil(data, rng):
    """A few random faults."""
    data = bytearray(data)
    for _ in range(rng.choice([0, 0, 1, 1, 2, 5, 20])):
        if not data:
            break
        at = rng.randrange(len(data))
        how = rng.randrange(8)
        if how == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            data[at] = rng.randrange(256)
        elif how == 2:
            del data[at:at + rng.choice([1, 2, 10, 1000])]
        elif how == 3:
            data[at:at] = rng.choice([b'\r\n', b'*', b'$', b'\0', b'-', b'*1\r\n', b'$-1\r\n', b'*-1\r\n', b'*1000000\r\n', b'$1000000\r\n', b'"', b"'", b'\xff'])
        elif how == 4:
            other = rng.randrange(len(data))
            data[at:at] = data[other:other + rng.randrange(200)]
        elif how == 5:
            data[at:at + 1] = b'%d' % rng.choice([0, 1, -1, 9, 10, 255, 65536, 1 << 20, (1 << 20) + 1, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63])
        elif how == 6:
            del data[at:]
        else:
            data[at:at] = rng.randbytes(rng.choice([1, 10, 100]))
    # What would end or fill the server by design.
    lowered = bytes(data).lower()
    return b'' if any(word in lowered for word in (b'shutdown', b'sleep', b'populate', b'pause', b'segfault', b'panic')) else bytes(data)


def stream(generator):
    out = []
    for kind, _, commands in generator.script(generator.rng.choice([1, 5, 30, 200])):
        if kind not in (HOLD, SCAN):
            out += [encode(*c) for c in commands]
    return b''.join(out)


@pytest.mark.parametrize('io', back_ends())
@pytest.mark.limit(SECONDS * 2 + 100)
def test_spoiled_scripts_on_many_connections(io):
    start = seed('DARTER_FUZZ_SEED', '1')
    print('DARTER_FUZZ_SEED=%s' % start)
    rng = random.Random(start)
    options = [('proto-max-bulk-len', '1mb'), ('client-query-buffer-limit', '4mb'), ('client-output-buffer-limit', 'normal', '16mb', '0', '0'), ('enable-debug-command', 'yes'), ('loglevel', 'warning')]
    with Server(threads=2, io=io, options=options) as server:
        generator = Generator(rng)
        end = time.monotonic() + SECONDS / len(back_ends())
        clients, rounds, sent = [], 0, 0
        try:
            while time.monotonic() < end:
                rounds += 1
                while len(clients) < 30:
                    c = Client(server.address(), timeout=PATIENCE)
                    c.socket.setblocking(False)
                    clients.append([c, b''])
                number = rng.randrange(len(clients))
                c, waiting = clients[number]
                if not waiting:
                    waiting = spoil(stream(generator), rng)
                piece = rng.choice([1, 10, 100, 5000, 1 << 20])
                gone = False
                try:
                    n = c.socket.send(waiting[:piece]) if waiting else 0
                    waiting = waiting[n:]
                    sent += n
                except BlockingIOError:
                    pass
                except ConnectionError:
                    gone = True
                # Most read what comes; some let it wait for a while.
                if not gone and rng.random() < .8:
                    try:
                        while True:
                            if not c.socket.recv(1 << 18):
                                gone = True
                                break
                    except BlockingIOError:
                        pass
                    except ConnectionError:
                        gone = True
                clients[number][1] = waiting
                if gone or rng.random() < .03:
                    c.reset() if rng.random() < .5 else c.close()
                    del clients[number]
                if rounds % 500 == 0:
                    # Somebody may have said CONFIG SET requirepass or AUTH: any answer is one.
                    with Client(server.address(), timeout=PATIENCE) as probe:
                        probe.command('PING')
                        if rounds % 5000 == 0:
                            probe.command('FLUSHALL')
                            assert server.resident_bytes() < (3 << 30), 'the server has grown to %d bytes' % server.resident_bytes()
        finally:
            for c, _ in clients:
                c.close()
        print('%d rounds, %d bytes' % (rounds, sent))
        assert server.alive()
        assert rounds > 10
