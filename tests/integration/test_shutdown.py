"""The end: by signal and by command, idle and busy; with status 0, and leaving nothing behind."""

import signal
import subprocess
import time

import pytest

from resp import Error, encode
from server import PATIENCE


@pytest.mark.parametrize('end', [signal.SIGTERM, signal.SIGINT])
def test_signals(server, end):
    clients = [server.client() for _ in range(10)]
    assert all(c.command('SET', 'k', 'v') == b'OK' for c in clients)
    server.process.send_signal(end)
    assert server.wait_end() == 0
    for c in clients:
        assert c.read_to_end() == (b'', True)


@pytest.mark.alone
def test_signal_during_load(server):
    load = subprocess.Popen(['redis-benchmark', '-p', str(server.port), '-q', '-t', 'set,get,mset', '-n', '100000000', '-c', '30', '-P', '16', '-r', '100000'],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(.5)
        server.process.send_signal(signal.SIGTERM)
        assert server.wait_end() == 0
    finally:
        load.kill()
        load.wait()


def test_signal_with_clients_in_all_states(server):
    """Half a command, replies unread (each thread has some, of values of each other's shards), a value half sent."""
    half, large = server.client(), server.client()
    half.send(b'*2\r\n$3\r\nGET')
    for n in range(8):
        unread = server.client(receive_buffer=4096)
        assert unread.command('SET', 'k%d' % n, 'v' * 100000) == b'OK'
        unread.send(b''.join(encode('GET', 'k%d' % m) for m in range(n + 1)) * 20)
    large.send(b'*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$10000000\r\n' + b'x' * 100000)
    time.sleep(.05)
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_end() == 0


@pytest.mark.parametrize('arguments', [(), ('NOSAVE',), ('SAVE',), ('nosave', 'NOW', 'FORCE')])
def test_shutdown_command(server, arguments):
    c, other = server.client(), server.client()
    assert other.command('PING') == b'PONG'
    assert c.command('SET', 'k', 'v') == b'OK'
    c.send(encode('SHUTDOWN', *arguments) + encode('PING'))
    assert c.read_to_end() == (b'', True)
    assert server.wait_end() == 0
    assert other.read_to_end() == (b'', True)


def test_shutdown_with_wrong_arguments(server, reference):
    a, b = reference.client(), server.client()
    for command in (('SHUTDOWN', 'x'), ('SHUTDOWN', 'SAVE', 'NOSAVE'), ('SHUTDOWN', 'ABORT'), ('SHUTDOWN', 'NOSAVE', 'ABORT')):
        expected, got = a.command(*command), b.command(*command)
        assert isinstance(got, Error) and expected == got
    assert b.command('PING') == b'PONG'


def test_redis_cli_shutdown(server):
    done = subprocess.run(['redis-cli', '-p', str(server.port), 'shutdown', 'nosave'], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0 and server.wait_end() == 0


def test_the_port_is_free_again(start, server):
    port = server.port
    c = server.client()
    c.command('SET', 'k', 'v')
    server.stop()
    again = start(port=port)
    assert again.client().command('EXISTS', 'k') == 0


@pytest.mark.parametrize('end', ['orderly', 'killed'])
def test_the_port_is_free_at_once_every_time(start, end):
    """A ring holds its listening socket beyond the end of the process that it belonged to."""
    server = start()
    for _ in range(12):
        port = server.port
        clients = [server.client() for _ in range(20)]
        assert clients[-1].command('PING') == b'PONG'
        if end == 'orderly':
            server.stop()
        else:
            server.kill()
        server = start(port=port)


def test_signal_right_at_start(start):
    for _ in range(5):
        server = start(wait=False, tolerate_faults=True)
        time.sleep(.001)
        server.process.send_signal(signal.SIGTERM)
        assert server.wait_end() in (0, -signal.SIGTERM)
