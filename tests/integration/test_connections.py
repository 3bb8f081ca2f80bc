"""Many connections, dying connections, and all the ways to listen."""

import os
import random
import resource
import signal
import socket
import stat
import subprocess
import sys
import time

import pytest

from configurations import LIGHT
from resp import Client, Closed, Error, encode
from server import PATIENCE, ROOT, SLOW, free_port, wait_for

pytestmark = pytest.mark.every_pair


def wait_for_clients(server, most):
    """Waits until at most this many are connected (the one that asks counted in)."""
    wait_for(lambda: int(server.info('clients')['connected_clients']) <= most)


def let_in(server):
    """A client that is served, as soon as there is room for one more."""
    def come():
        c = server.client()
        try:
            return c if c.command('PING') == b'PONG' else None
        except (Closed, ConnectionError):
            return None
    return wait_for(come)


@pytest.fixture
def descriptors():
    """How many descriptors this process may have, as many as it is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield hard if hard != resource.RLIM_INFINITY else 1 << 20
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.alone
@pytest.mark.each_back_end
@pytest.mark.limit(180)
def test_ten_thousand_idle_connections(start, descriptors):
    count = min(1000 if LIGHT else 10000, descriptors - 500)
    server = start(options=[('maxclients', count + 100)])
    before = server.resident_bytes()
    clients = [server.client() for _ in range(count)]
    assert all(c.command('PING') == b'PONG' for c in clients)
    assert int(server.info('clients')['connected_clients']) == count + 1
    each = (server.resident_bytes() - before) / count
    assert each < 16384 * (4 if SLOW > 1 else 1), '%d bytes for an idle connection' % each
    worker = server.client()
    turns = server.turns(worker)
    time.sleep(1)
    assert server.turns(worker) - turns < 100
    took = []
    for i in range(1000):
        started = time.monotonic()
        assert worker.command('INCR', 'n') == i + 1
        took.append(time.monotonic() - started)
    print('an INCR beside %d idle connections: %.0f us' % (count, sorted(took)[500] * 1e6))
    assert sorted(took)[500] < .1 * SLOW
    for c in random.Random(1).sample(clients, 500):
        assert c.command('GET', 'n') == b'1000'
    for c in clients:
        c.close()
    wait_for_clients(server, 2)
    assert worker.command('PING') == b'PONG'


@pytest.mark.alone
def test_connections_that_come_and_go_during_load(server):
    load = [subprocess.Popen(['redis-benchmark', '-p', str(server.port), '-q', '-t', 'set,get', '-n', '100000000', '-c', '20', '-P', '8', '-r', '1000'],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
    try:
        rng = random.Random(2)
        for i in range(200 if LIGHT else 1000):
            c = Client(server.address(), timeout=PATIENCE)
            how = rng.randrange(5)
            if how == 1:
                assert c.command('PING') == b'PONG'
            elif how == 2:
                c.send(encode('SET', 'x', 'y' * rng.choice([1, 100, 50000])) * 5)
            elif how == 3:
                c.send(b'*2\r\n$3\r\nGE')
            elif how == 4:
                c.send(encode('MGET', *['key:%012d' % n for n in range(100)]) * 10)
            c.reset() if rng.random() < .4 else c.close()
        assert load[0].poll() is None
    finally:
        for p in load:
            p.kill()
            p.wait()
    wait_for_clients(server, 1)
    assert server.client().command('PING') == b'PONG'


@pytest.mark.alone
def test_clients_that_are_killed(server):
    for _ in range(5):
        clients = [subprocess.Popen(['redis-benchmark', '-p', str(server.port), '-q', '-t', t, '-n', '100000000', '-c', '30', '-P', '50', '-r', '100000', '-d', '500'],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for t in ('set', 'get', 'mset')]
        time.sleep(.3)
        for p in clients:
            p.send_signal(signal.SIGKILL)
        for p in clients:
            p.wait()
    wait_for_clients(server, 1)
    c = server.client()
    assert c.command('SET', 'after', 'x') == b'OK' and c.command('GET', 'after') == b'x'


def test_maxclients(start):
    server = start(options=[('maxclients', 10)])
    clients = [let_in(server) for _ in range(10)]
    for _ in range(3):
        assert server.client().read_to_end() == (b'-ERR max number of clients reached\r\n', True)
    clients[3].close()
    c = let_in(server)
    assert all(x.command('PING') == b'PONG' for x in clients[:3] + clients[4:])
    assert int(c.command('INFO', 'stats').decode().partition('rejected_connections:')[2].split()[0]) >= 3


def test_few_descriptors(start):
    """The descriptors end before maxclients does: nobody is served badly, nothing spins, and it goes on when some are free again."""
    server = start(prefix=['prlimit', '--nofile=80:80'], options=[('maxclients', 30)])
    clients = []
    for _ in range(150):
        c = server.client()
        try:
            c.send(encode('PING'))
        except ConnectionError:
            pass
        clients.append(c)
    time.sleep(.3)
    first = clients[0]
    assert first.read() == b'PONG'
    turns, begin, cpu = server.turns(first), time.monotonic(), server.cpu_seconds()
    time.sleep(1)
    passed = time.monotonic() - begin
    assert server.turns(first) - turns < 1000 * passed and server.cpu_seconds() - cpu < .9 * passed
    assert first.command('PING') == b'PONG'
    for c in clients[1:]:
        c.close()
    let_in(server)


def test_timeout_closes_who_is_idle_and_nobody_else(start):
    server = start()
    for timeout in (1, 3, 9):
        with server.client() as c:
            assert c.command('CONFIG', 'SET', 'timeout', timeout) == b'OK'
        begin = last = time.monotonic()
        idle, half, busy = server.client(), server.client(), server.client()
        half.send(b'*1\r\n$4\r\nPI')
        closed_at, held_up = None, False
        while not held_up and (closed_at is None or time.monotonic() - begin < 2.5 * timeout):
            assert closed_at is not None or time.monotonic() - begin < PATIENCE, 'it is not closed'
            try:
                assert busy.command('PING') == b'PONG'
            except (Closed, ConnectionError):
                assert time.monotonic() - last > .9 * timeout, 'closed, though it was busy'
                held_up = True      # it was idle, as nobody had the CPU: again, with more time
            last = time.monotonic()
            try:
                if closed_at is None:
                    idle.quiet(.05)
            except (Closed, ConnectionError):
                closed_at = time.monotonic() - begin
            time.sleep(.05)
        if not held_up:
            break
    assert not held_up and closed_at >= .9 * timeout
    assert half.read_to_end()[1]
    assert let_in(server).command('CONFIG', 'SET', 'timeout', 0) == b'OK'


def test_unix_socket_with_permissions(start, tmp_path):
    path = str(tmp_path / 'darter.sock')
    server = start(options=[('unixsocket', path), ('unixsocketperm', 700)])
    assert stat.S_ISSOCK(os.stat(path).st_mode) and stat.S_IMODE(os.stat(path).st_mode) == 0o700
    with Client(path) as by_path, Client(server.port) as by_port:
        assert by_path.command('SET', 'k', 'v' * 100000) == b'OK'
        assert by_port.command('GET', 'k') == b'v' * 100000
        assert by_path.pipeline([('INCR', 'n')] * 1000) == list(range(1, 1001))
    server.stop()
    assert not os.path.exists(path)


def test_unix_socket_alone(start, tmp_path):
    path = str(tmp_path / 'only.sock')
    server = start(port=0, options=[('unixsocket', path)])
    assert server.client().command('PING') == b'PONG'
    done = subprocess.run(['redis-cli', '-s', path, 'incr', 'n'], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == '1\n'


@pytest.mark.each_back_end
def test_nowhere_to_listen_is_no_start(start):
    server = start(port=0, options=[], wait=False, tolerate_faults=True)
    assert server.wait_end() == 1
    assert 'Configured to not listen anywhere' in server.log()


def test_a_stale_unix_socket_is_taken_over(start, tmp_path):
    path = str(tmp_path / 'stale.sock')
    first = start(port=0, options=[('unixsocket', path)], tolerate_faults=True)
    first.kill()
    assert os.path.exists(path)
    second = start(port=0, options=[('unixsocket', path)])
    assert second.client().command('PING') == b'PONG'


@pytest.mark.each_back_end
@pytest.mark.parametrize('kind', ['tcp', 'unix'])
def test_a_killed_server_is_started_again_at_once(start, tmp_path, kind):
    """The kernel ends a killed server's ring when it finds the time, and its listening sockets with it: a start does not give up before."""
    port, path = (free_port(), None) if kind == 'tcp' else (0, str(tmp_path / 'again.sock'))
    server = None
    for _ in range(30):
        if server:
            server.process.kill()
        following = start(port=port, options=[('unixsocket', path)] if path else [], tolerate_faults=True, wait=False)
        if server:
            server.kill()
        server = following
        server.wait_ready()


@pytest.mark.each_back_end
@pytest.mark.parametrize('kind', ['tcp', 'unix'])
def test_what_stops_listening_while_the_server_starts_is_taken_over(start, tmp_path, kind):
    path = str(tmp_path / 'ending.sock')
    for _ in range(5):
        port = free_port() if kind == 'tcp' else 0
        with socket.socket(socket.AF_INET if port else socket.AF_UNIX) as ending:
            ending.bind(('127.0.0.1', port) if port else path)
            ending.listen()
            begin = time.monotonic()
            server = start(port=port, options=[] if port else [('unixsocket', path)], tolerate_faults=True, wait=False)
            if port:
                time.sleep(.2)
            else:
                ending.accept()[0].close()      # it looked whether somebody lives there
        if time.monotonic() - begin < 1:
            break
        server.kill()       # we were held up for longer, perhaps, than it waits: again
        if os.path.exists(path):
            os.unlink(path)
    server.wait_ready()
    assert server.client().command('PING') == b'PONG'


@pytest.mark.each_back_end
def test_a_unix_socket_of_a_living_server_is_a_clear_error(start, tmp_path):
    path = str(tmp_path / 'taken.sock')
    first = start(port=0, options=[('unixsocket', path)])
    second = start(port=0, options=[('unixsocket', path)], wait=False, tolerate_faults=True)
    assert second.wait_end() == 1
    assert 'Could not listen on the Unix socket %s: Address already in use' % path in second.log()
    assert first.client().command('PING') == b'PONG'


def test_the_end_of_a_connection_that_comes_with_its_last_bytes_is_not_missed(start, tmp_path):
    """Both reach a thread that is busy, as one wake-up."""
    path = str(tmp_path / 'end.sock')
    server = start(port=0, options=[('unixsocket', path), ('enable-debug-command', 'yes')], threads=1)
    busy, ends = server.client(), [server.client() for _ in range(20)]
    assert [c.command('PING') for c in ends] == [b'PONG'] * len(ends)
    busy.send(encode('DEBUG', 'SLEEP', '.5'))
    time.sleep(.1)
    for c in ends:
        c.send(b'*1\r\n')  # no whole command: a reply that is read would be another wake-up
        c.socket.shutdown(socket.SHUT_WR)
    for c in ends:
        c.socket.settimeout(10 * SLOW)
        assert c.socket.recv(1) == b''


def test_the_unix_socket_goes_with_the_server_whatever_was_set(start, tmp_path):
    path = str(tmp_path / 'darter.sock')
    server = start(port=0, options=[('unixsocket', path)])
    client = server.client()
    for n in range(5):
        assert client.command('CONFIG', 'SET', 'hz', 10 + n) == b'OK'
    server.stop()
    assert not os.path.exists(path)


def has_ipv6():
    return os.path.exists('/proc/net/if_inet6') and '00000000000000000000000000000001' in open('/proc/net/if_inet6').read()


@pytest.mark.skipif(not has_ipv6(), reason='this machine has no IPv6')
def test_ipv6(start):
    server = start(options=[('bind', '::1')])
    assert Client(('::1', server.port)).command('PING') == b'PONG'
    with pytest.raises(ConnectionRefusedError):
        Client(('127.0.0.1', server.port))


def test_several_addresses(start):
    server = start(options=[('bind', '127.0.0.1 127.0.0.2 -::1')])
    for host in ['127.0.0.1', '127.0.0.2'] + ['::1'] * has_ipv6():
        with Client((host, server.port)) as c:
            assert c.command('INCR', 'n') > 0
    with pytest.raises(ConnectionRefusedError):
        Client(('127.0.0.3', server.port))


def test_all_addresses(start):
    server = start(options=[('bind', '0.0.0.0'), ('protected-mode', 'no')])
    for host in ('127.0.0.1', '127.0.0.9'):
        with Client((host, server.port)) as c:
            assert c.command('PING') == b'PONG'


def test_an_address_that_is_not_there(start):
    # 192.0.2.0/24 is for documentation: no machine has it, and binding to it sends nothing.
    wrong = start(options=[('bind', '192.0.2.1')], wait=False, tolerate_faults=True)
    assert wrong.wait_end() != 0
    assert '192.0.2.1' in wrong.log()
    optional = start(options=[('bind', '127.0.0.1 -192.0.2.1')])
    assert optional.client().command('PING') == b'PONG'


def test_requirepass(start):
    server = start(options=[('requirepass', 'secret')])
    c = server.client()
    refused = c.command('GET', 'a')
    assert isinstance(refused, Error) and refused == b'NOAUTH Authentication required.'
    assert c.command('AUTH', 'wrong') == b'WRONGPASS invalid username-password pair or user is disabled.'
    assert c.command('AUTH', 'secret') == b'OK' and c.command('SET', 'a', 1) == b'OK'
    assert server.redis(password='secret').get('a') == b'1'
    assert c.command('CONFIG', 'SET', 'requirepass', '') == b'OK'
    assert server.client().command('GET', 'a') == b'1'


def test_io_back_end_is_the_one_that_was_asked_for(start, configuration):
    server = start()
    if server.kind == 'redis':
        return
    io, threads = configuration
    info = server.info('server')
    assert info['multiplexing_api'] == {'uring': 'io_uring', 'epoll': 'epoll'}[io] and info['threads'] == str(threads)


@pytest.mark.each_back_end
def test_many_connections_at_the_same_moment(server):
    """More at once than the backlog is long."""
    script = ('import sys; sys.path.insert(0, %r)\n'
              'from resp import Client\n'
              'clients = [Client(%d) for _ in range(200)]\n'
              'assert all(c.command("PING") == b"PONG" for c in clients)\n') % (os.path.join(ROOT, 'tests', 'lib'), server.port)
    processes = [subprocess.Popen([sys.executable, '-B', '-c', script], stderr=subprocess.PIPE) for _ in range(5)]
    for p in processes:
        _, errors = p.communicate(timeout=PATIENCE)
        assert p.returncode == 0, errors.decode()
    wait_for_clients(server, 1)


def test_two_servers_beside_each_other(start):
    first, second = start(), start()
    first.client().command('SET', 'k', 1)
    assert second.client().command('EXISTS', 'k') == 0
