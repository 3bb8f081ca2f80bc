"""The end: by signal and by command, idle and busy; with status 0, and leaving nothing behind."""

import os
import signal
import subprocess
import time

import pytest

from resp import Closed, Error, encode
from server import PATIENCE, wait_for


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
    for command in (('SHUTDOWN', 'x'), ('SHUTDOWN', 'SAVE', 'NOSAVE'), ('SHUTDOWN', 'ABORT'), ('SHUTDOWN', 'NOSAVE', 'ABORT'), ('SHUTDOWN', 'ABORT', 'abort'), ('SHUTDOWN', 'NOW', 'ABORT')):
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


FAILED = Error(b'ERR Errors trying to SHUTDOWN. Check logs.')
SAVING = 'Saving the final RDB snapshot before exiting.'


@pytest.fixture
def stuck(start, tmp_path):
    """Starts a server that can't go on once it saves: what it writes to is a pipe, and nobody opens the other end before release()."""
    def stuck(*options, **more):
        os.mkfifo(tmp_path / 'dump.rdb.part')
        server = start(options=[('dir', tmp_path), ('save', '3600 1'), *options], **more)
        assert server.client().command('SET', 'k', 'v') == b'OK'
        return server
    return stuck


def is_in_open(server):
    """The thread that writes the file waits for the pipe's other end: from here on its name is taken."""
    tasks = '/proc/%d/task' % server.process.pid
    for task in os.listdir(tasks):
        with open('%s/%s/comm' % (tasks, task)) as comm, open('%s/%s/syscall' % (tasks, task)) as call:
            if comm.read() == 'snapshot\n' and call.read().split()[0] in ('257', '56'):    # openat of x86-64, arm64
                return True
    return False


def release(folder):
    """The file can't be synced, as it is a pipe: that fails, and it goes."""
    fd = os.open(folder / 'dump.rdb.part', os.O_RDONLY | os.O_NONBLOCK)
    wait_for(lambda: not (folder / 'dump.rdb.part').exists())
    os.close(fd)


@pytest.mark.parametrize('how', ['command', 'signal'])
def test_an_end_may_be_aborted(stuck, tmp_path, how):
    server = stuck()
    a, b, waits, another, late = (server.client() for _ in range(5))
    assert b.command('SHUTDOWN', 'ABORT') == b'ERR No shutdown in progress.'
    if how == 'signal':
        server.process.send_signal(signal.SIGTERM)
    else:
        a.send(encode('SHUTDOWN'))
    wait_for(lambda: SAVING in server.log())
    waits.send(encode('GET', 'k'))          # no shard goes on
    another.send(encode('SHUTDOWN', 'NOSAVE'))
    assert late.command('ECHO', 'x') == b'x'    # but who needs none is served
    assert waits.quiet() and another.quiet()
    assert b.command('SHUTDOWN', 'ABORT') == b'OK'
    assert waits.read() == b'v' and another.read() == FAILED
    if how == 'command':
        assert a.read() == FAILED
    assert b.pipeline([('SHUTDOWN', 'ABORT'), ('SET', 'k', 'w')]) == [b'ERR No shutdown in progress.', b'OK']
    wait_for(lambda: 'Shutdown manually aborted.' in server.log())
    release(tmp_path)
    wait_for(lambda: b.command('SAVE') == b'OK')
    assert b.command('SET', 'k', 'x') == b'OK'  # what nobody wanted any more has not failed
    b.send(encode('SHUTDOWN'))
    assert server.wait_end() == 0
    assert sorted(os.listdir(tmp_path)) == ['dump.rdb']


def test_aborted_again_and_again(start, tmp_path):
    """At whatever moment: it ends, or it goes on, and says which."""
    server = start(options=[('dir', tmp_path), ('save', '3600 1'), ('enable-debug-command', 'yes')])
    c, b = server.client(), server.client()
    c.command('DEBUG', 'POPULATE', 20000, 'key', 100)
    for n in range(40):
        c.send(encode('SHUTDOWN'))
        try:
            for _ in range(n * 5):
                b.command('ECHO', 'x')
            aborted = b.command('SHUTDOWN', 'ABORT')
        except (OSError, Closed):
            break
        if aborted != b'OK':
            assert aborted == b'ERR No shutdown in progress.'
            break
        assert c.read() == FAILED and b.command('DBSIZE') == 20000
    else:
        c.send(encode('SHUTDOWN'))
    assert server.wait_end() == 0
    assert start(options=[('dir', tmp_path)]).client().command('DBSIZE') == 20000


@pytest.mark.parametrize('how', ['command', 'signal'])
def test_an_end_without_a_save_does_not_wait_for_a_disk_that_hangs(stuck, tmp_path, how):
    server = stuck()
    c = server.client()
    assert c.command('BGSAVE') == b'Background saving started'
    wait_for(lambda: is_in_open(server))
    if how == 'signal':
        assert c.command('CONFIG', 'SET', 'save', '') == b'OK'
        server.process.send_signal(signal.SIGTERM)
    else:
        c.send(encode('SHUTDOWN', 'NOSAVE'))
    assert server.wait_end() == 0
    assert 'The disk hangs' in server.log() and 'ready to exit' in server.log() and os.listdir(tmp_path) == []


def test_who_insists_does_not_wait(stuck, tmp_path):
    server = stuck(tolerate_faults=True)
    server.process.send_signal(signal.SIGINT)
    wait_for(lambda: SAVING in server.log() and is_in_open(server))
    server.process.send_signal(signal.SIGTERM)      # once more, politely
    assert server.client().command('ECHO', 'x') == b'x'
    server.process.send_signal(signal.SIGINT)
    assert server.wait_end() == 1
    assert 'You insist... exiting now.' in server.log() and os.listdir(tmp_path) == []


def test_who_insists_leaves_nothing_of_a_file_elsewhere(stuck, tmp_path):
    """It was begun before CONFIG SET dir."""
    server = stuck(('enable-protected-configs', 'yes'), tolerate_faults=True)
    c, elsewhere = server.client(), tmp_path / 'elsewhere'
    elsewhere.mkdir()
    assert c.command('BGSAVE') == b'Background saving started'
    wait_for(lambda: is_in_open(server))
    assert c.command('CONFIG', 'SET', 'dir', elsewhere, 'dbfilename', 'other.rdb') == b'OK'
    server.process.send_signal(signal.SIGINT)
    wait_for(lambda: 'Received SIGINT scheduling shutdown...' in server.log())
    server.process.send_signal(signal.SIGINT)
    assert server.wait_end() == 1
    assert os.listdir(tmp_path) == ['elsewhere'] and os.listdir(elsewhere) == []


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_signals_save_as_they_are_told(start, tmp_path, number):
    name = {signal.SIGTERM: 'shutdown-on-sigterm', signal.SIGINT: 'shutdown-on-sigint'}[number]
    for told, points, saves in (('default', '3600 1', True), ('default', '', False), ('nosave', '3600 1', False), ('save', '', True), ('now save', '', True), ('nosave force', '3600 1', False)):
        server = start(options=[('dir', tmp_path), ('save', points), (name, *told.split())])
        c = server.client()
        assert c.command('SET', 'k', 'v') == b'OK'
        server.process.send_signal(number)
        assert server.wait_end() == 0
        assert os.listdir(tmp_path) == (['dump.rdb'] if saves else []), told
        for file in os.listdir(tmp_path):
            os.unlink(tmp_path / file)


def test_force_ends_what_can_not_be_saved(start, tmp_path):
    for force in (('SHUTDOWN', 'SAVE', 'FORCE'), signal.SIGTERM):
        folder = tmp_path / ('data' + str(len(force) if isinstance(force, tuple) else 0))
        folder.mkdir()
        server = start(options=[('dir', folder), ('save', '3600 1')])
        c = server.client()
        c.command('SET', 'k', 'v')
        folder.rmdir()
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "Error trying to save the DB, can't exit." in server.log())
        assert c.command('GET', 'k') == b'v'
        assert c.command('SHUTDOWN') == FAILED and c.command('GET', 'k') == b'v'
        if isinstance(force, tuple):
            c.send(encode(*force))
        else:
            assert c.command('CONFIG', 'SET', 'shutdown-on-sigterm', 'FORCE') == b'OK'
            server.process.send_signal(force)
        assert server.wait_end() == 0
        assert 'Error trying to save the DB. Exit anyway.' in server.log()
