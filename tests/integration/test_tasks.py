"""Commands over several shards beside each other: what a coordinator interrupts goes on afterwards, by itself."""

import random
import threading
import time

import pytest

from configurations import LIGHT, SOAK
from resp import Client, encode
from server import PATIENCE, wait_for

pytestmark = [pytest.mark.several_threads, pytest.mark.alone, pytest.mark.every_pair]


def test_a_sliced_command_goes_on_after_an_exclusive_one(start):
    server = start(options=[('enable-debug-command', 'yes')])
    walker, coordinator = server.client(), server.client()
    assert walker.command('DEBUG', 'POPULATE', 100000 if LIGHT else 1000000) == b'OK'
    for _ in range(10):
        walker.send(b'KEYS no-such-key*\r\n')
        time.sleep(random.random() * 0.01)
        assert coordinator.command('CONFIG', 'SET', 'hz', '10') == b'OK'
        assert walker.read() == []      # nobody else asks for anything: nothing else would wake the shards


def test_a_silent_client_is_the_first_that_asks_another_shard(start):
    """The batch's buffer of replies and the connection's are both still empty when nothing is taken from the one to the other."""
    client = start().client()
    client.send(b'CLIENT REPLY OFF\r\n' + b''.join(b'SET key:%d v\r\n' % n for n in range(64)) + b'CLIENT REPLY ON\r\n')
    assert client.read() == b'OK'
    assert client.command('DBSIZE') == 64


def test_pipelines_are_answered_beside_exclusive_commands(server):
    """While a shard stands still, its thread's own commands wait over several ticks, and others are queued behind them."""
    faults, end = [], time.monotonic() + (60 if SOAK else 4)

    def pipelines(n):
        try:
            with Client(server.address(), timeout=PATIENCE) as c:
                while time.monotonic() < end and not faults:
                    sent = [('ECHO' if i % 50 == 0 else 'SET', 'k%d:%d' % (n, i), 'v')[:2 if i % 50 == 0 else 3] for i in range(500)]
                    for command, reply in zip(sent, c.pipeline(sent)):
                        if reply != (command[1].encode() if command[0] == 'ECHO' else b'OK'):
                            raise AssertionError((command, reply))
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=pipelines, args=(n,)) for n in range(3)]
    for t in threads:
        t.start()
    coordinators = [server.client() for _ in range(2)]
    while time.monotonic() < end and not faults:
        for c in coordinators:
            c.send(b'CONFIG SET hz 10\r\n')
        for c in coordinators:
            assert c.read() == b'OK'
    for t in threads:
        t.join()
    assert not faults, faults


def test_values_that_a_silent_client_asked_for_are_given_back(server):
    client = server.client()
    before = int(server.info('memory')['used_memory'])
    names = ['big:%d' % n for n in range(50)]
    for byte in 'xy':
        assert client.command('MSET', *(part for name in names for part in (name, byte * 20000))) == b'OK'
        for _ in range(5):
            client.send(encode('CLIENT', 'REPLY', 'SKIP') + encode('MGET', *names))
    assert client.command('FLUSHALL') == b'OK'
    wait_for(lambda: int(server.info('memory')['used_memory']) <= before + 100000)
