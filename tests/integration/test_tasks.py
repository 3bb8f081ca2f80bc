"""Commands over several shards beside each other: what a coordinator interrupts goes on afterwards, by itself."""

import random
import time

import pytest

from configurations import LIGHT
from server import SLOW

pytestmark = [pytest.mark.several_threads, pytest.mark.alone]


def test_a_sliced_command_goes_on_after_an_exclusive_one(start):
    server = start(options=[('enable-debug-command', 'yes')])
    walker, coordinator = server.client(timeout=10 * SLOW), server.client()
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
