"""port and bind while the server runs: new sockets first, and the old ones stay if those cannot be opened."""

import os
import signal
import socket
import sys

import pytest

import test_service
from resp import Client
from server import PATIENCE, free_port, wait_for

pytestmark = pytest.mark.every_pair

HUGE = '4294967295'     # clients: more than any limit on open files


def get(c, name):
    return c.command('CONFIG', 'GET', name)[1].decode()


def answers(address):
    """Whether somebody answers there; False: nobody listens."""
    try:
        with Client(address, timeout=PATIENCE) as c:
            return c.command('PING') == b'PONG'
    except ConnectionRefusedError:
        return False


def listens_at(port, *addresses):
    return [a for a in ('127.0.0.1', '127.0.0.2', '::1') if answers((a, port))] == list(addresses)


def test_a_new_port_takes_the_place_of_the_old_one(start):
    server = start()
    old, clients = server.port, [server.client() for _ in range(4)]
    for turn in range(3):
        new = free_port()
        assert clients[turn].command('CONFIG', 'SET', 'port', new) == b'OK'
        for _ in range(4):
            assert answers(new)
        assert not answers(old)
        # It is free for others at once.
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(('127.0.0.1', old))
            s.listen()
        assert [c.command('PING') for c in clients] == [b'PONG'] * 4
        server.port = old = new
        assert get(clients[0], 'port') == server.info('server')['tcp_port'] == str(new)
    assert 'Accepting client connection' not in server.log()


def test_a_port_that_is_taken_changes_nothing(start):
    server = start()
    c, old, taken = server.client(), server.port, free_port()
    with socket.socket() as s:
        s.bind(('127.0.0.1', taken))
        s.listen()
        assert c.command('CONFIG', 'SET', 'timeout', '7', 'port', taken) == b"ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this port. Check server logs."
    assert get(c, 'port') == str(old) and get(c, 'timeout') == '0'
    assert answers(old) and server.client().command('PING') == b'PONG'
    wait_for(lambda: 'port %d: Address already in use' % taken in server.log())
    assert c.command('CONFIG', 'SET', 'timeout', '7', 'port', taken) == b'OK' and answers(taken) and not answers(old)


def test_a_later_fault_of_the_same_command_keeps_the_old_sockets(start):
    server = start()
    c, old, new = server.client(), server.port, free_port()
    reply = c.command('CONFIG', 'SET', 'port', new, 'bind', '127.0.0.2', 'maxclients', HUGE)
    assert b"argument 'maxclients'" in reply
    assert answers(old) and not answers(new) and not answers(('127.0.0.2', new))
    assert (get(c, 'port'), get(c, 'bind')) == (str(old), '* -::*')


def test_port_and_bind_in_one_command(start):
    server = start(options=[('bind', '127.0.0.1')])
    c, old, new = server.client(), server.port, free_port()
    assert c.command('CONFIG', 'SET', 'bind', '127.0.0.2 -192.0.2.1', 'port', new) == b'OK'
    assert listens_at(new, '127.0.0.2') and listens_at(old)
    # Redis names the first that failed.
    reply = c.command('CONFIG', 'SET', 'bind', '192.0.2.1', 'port', old)
    assert reply == b"ERR CONFIG SET failed (possibly related to argument 'bind') - Failed to bind to specified addresses."
    assert listens_at(new, '127.0.0.2') and listens_at(old)


def test_addresses_that_overlap(start):
    server = start(options=[('bind', '127.0.0.1')])
    c, port = server.client(), server.port
    for bind, addresses in (('* ::1', ['127.0.0.1', '127.0.0.2', '::1']), ('127.0.0.1', ['127.0.0.1']), ('0.0.0.0', ['127.0.0.1', '127.0.0.2']), ('*', ['127.0.0.1', '127.0.0.2']),
                            ('127.0.0.2 127.0.0.1', ['127.0.0.1', '127.0.0.2']), ('-127.0.0.1', ['127.0.0.1']), ('127.0.0.2 ::*', ['127.0.0.2', '::1']), ('127.0.0.1', ['127.0.0.1'])):
        assert c.command('CONFIG', 'SET', 'bind', bind) == b'OK', bind
        assert get(c, 'bind') == bind and listens_at(port, *addresses), bind
    # What is open is not shared with anybody.
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError):
            s.bind(('127.0.0.1', port))
            s.listen()


def test_no_port_and_no_address(start, tmp_path):
    path = str(tmp_path / 'socket')
    server = start(options=[('unixsocket', path)])
    c, old = server.client(), server.port
    for off, on in (('port', str(old)), ('bind', '127.0.0.1')):
        assert c.command('CONFIG', 'SET', off, '0' if off == 'port' else '') == b'OK'
        assert not answers(old) and answers(path) and c.command('PING') == b'PONG'
        assert c.command('CONFIG', 'SET', off, on) == b'OK'
        assert answers(old) and answers(path)
    server.stop()
    assert not os.path.exists(path)


def test_the_unix_socket_is_removed_though_dir_has_changed(start):
    server = start(options=[('unixsocket', 'socket'), ('enable-protected-configs', 'yes')])
    path = os.path.join(server.directory, 'socket')
    c = server.client()
    assert answers(path) and c.command('CONFIG', 'SET', 'dir', '/') == b'OK'
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_end() == 0 and not os.path.exists(path)


def test_many_changes_while_clients_come(start):
    server = start(options=[('unixsocket', 'socket')])
    path = os.path.join(server.directory, 'socket')
    with Client(path, timeout=PATIENCE) as c:
        ports = [server.port, free_port()]
        for i in range(60):
            assert c.command('CONFIG', 'SET', 'port', ports[i % 2], 'bind', ' '.join('127.0.0.%d' % (i % 3 * 20 + n) for n in range(1, 17))) == b'OK'
            assert answers(('127.0.0.%d' % (i % 3 * 20 + 16), ports[i % 2])) and answers(path)


@pytest.mark.each_back_end
def test_sockets_of_a_service_manager_stay(start, tmp_path):
    port, path = free_port(), str(tmp_path / 'socket')
    server = start(port=port, prefix=[sys.executable, '-c', test_service.LAUNCHER, str(port), path, '2'], wait=False)
    server.wait_ready()
    c = server.client()
    assert c.command('CONFIG', 'SET', 'port', free_port()) == b"ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this port. Check server logs."
    wait_for(lambda: 'those of the service manager' in server.log())
    assert answers(port) and answers(path)


def test_errors_are_those_of_redis(server, reference):
    a, b = reference.client(), server.client()
    for words in (('port', 'x'), ('port', '65536'), ('port', '-1'), ('bind', '192.0.2.1'), ('port', '1', 'bind', '192.0.2.1'), ('bind', '192.0.2.1', 'port', '1'), ('port', '1', 'port', '2'),
                  ('bind', ' '.join(['127.0.0.1'] * 17))):
        expected, got = a.command('CONFIG', 'SET', *words), b.command('CONFIG', 'SET', *words)
        assert got.partition(b' (got ')[0] == expected, words


@pytest.mark.each_back_end
def test_host_names_are_looked_up_at_start(start):
    """As in redis-server: a name is its first IPv4 address, and CONFIG GET and REWRITE keep the name."""
    for bind in ('localhost', '-LocalHost ::1', '::1 localhost'):
        server = start(options=[('bind', *bind.split())])
        c, port = server.client(), server.port
        assert get(c, 'bind') == bind and listens_at(port, *['127.0.0.1', '::1'][:len(bind.split())])
        new = free_port()
        assert c.command('CONFIG', 'SET', 'port', new) == b'OK' and listens_at(new, *['127.0.0.1', '::1'][:len(bind.split())])


def test_the_own_name_of_the_machine_can_be_bound(start):
    name = socket.gethostname()
    try:
        address = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
    except socket.gaierror:
        pytest.skip('this machine cannot find its own name')
    server = start(options=[('bind', '127.0.0.2', name)])
    c, port = Client(('127.0.0.2', server.port)), server.port
    with c:
        assert answers((address, port))
        # It is known from here on.
        assert c.command('CONFIG', 'SET', 'bind', '127.0.0.2') == b'OK' and not answers((address, port))
        assert c.command('CONFIG', 'SET', 'bind', '127.0.0.2 ' + name) == b'OK' and answers((address, port))


@pytest.mark.each_back_end
@pytest.mark.parametrize('dash', ['', '-'])
def test_a_name_that_nobody_knows_ends_the_start(start, dash):
    server = start(options=[('bind', '127.0.0.1', dash + 'no-such-host.invalid')], wait=False, tolerate_faults=True)
    assert server.wait_end() == 1
    assert 'Could not listen on no-such-host.invalid port %d: ' % server.port in server.log()
    assert 'not known' in server.log() or 'failure in name resolution' in server.log()


def test_while_it_runs_a_new_name_is_refused(server):
    """To look it up might hold every shard for as long as a name server likes."""
    c = server.client()
    for name in ('no-such-host.invalid', '-example.invalid'):
        assert c.command('CONFIG', 'SET', 'timeout', 3, 'bind', '127.0.0.1 ' + name) == (
            b"ERR CONFIG SET failed (possibly related to argument 'bind') - host names are looked up at start only, and %b was not: give its address" % name.lstrip('-').encode())
        assert get(c, 'bind') == '* -::*' and get(c, 'timeout') == '0' and answers(server.port)
    assert c.command('CONFIG', 'SET', 'bind', 'localhost') == b'OK' and get(c, 'bind') == 'localhost' and listens_at(server.port, '127.0.0.1')


def test_many_changes_in_one_transaction(start):
    """Thread 0 may come to accept on none, some or all of what an EXEC opens and shuts again, wherever its connection lives."""
    server = start()
    old, ports = server.port, [free_port() for _ in range(3)]
    addresses = [' '.join('127.0.0.%d' % (turn * 20 + n) for n in range(1, 17)) for turn in range(3)]
    clients = [server.client() for _ in range(5)]
    for c in clients:
        changes = [('CONFIG', 'SET', 'port', port, 'bind', addresses[turn]) for port in ports for turn in range(3)]
        refused = ('CONFIG', 'SET', 'port', ports[0], 'bind', addresses[0], 'maxclients', HUGE)
        replies = c.pipeline([('MULTI',), *changes, refused, *changes, refused, ('EXEC',)])[-1]
        assert replies[:9] == replies[10:19] == [b'OK'] * 9 and b"argument 'maxclients'" in replies[9] and b"argument 'maxclients'" in replies[19]
        assert [[answers(('127.0.0.%d' % (turn * 20 + 1), port)) for turn in range(3)] for port in ports] == [
            [False] * 3, [False] * 3, [False, False, True]]
        assert not answers(old) and get(c, 'port') == str(ports[2])
        assert c.command('CONFIG', 'SET', 'port', old, 'bind', '*') == b'OK' and answers(old)
    assert 'Accepting client connection' not in server.log()
