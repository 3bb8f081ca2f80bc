"""The log: levels, files, rotation, syslog, a reader that does not read; crash reports; the watchdog."""

import ctypes
import fcntl
import os
import re
import signal
import socket
import subprocess
import time

import pytest

import configurations
from server import PATIENCE, SLOW, Server, darter_binary, free_port, wait_for

LINE = re.compile(r'^\d+:M \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d\.\d{3} [.*#-] .+$')

reports = pytest.mark.skipif(configurations.LIGHT, reason='in builds with sanitizers, their own reports come instead')


def lines(text):
    return text.splitlines()


def read(path):
    with open(path) as f:
        return f.read()


def offend(server):
    """A protocol error, which is logged as verbose."""
    with server.client() as c:
        c.send(b'*1\r\n$x\r\n')
        c.read_to_end()


@pytest.mark.each_back_end
@pytest.mark.parametrize('level, marks', [('debug', '.-*#'), ('verbose', '-*#'), ('notice', '*#'), ('warning', '#')])
def test_levels(start, level, marks):
    server = start(options=[('loglevel', level)])
    offend(server)
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_end() == 0
    log = lines(server.log())
    assert log and all(LINE.match(line) for line in log), log
    assert {line.split()[5] for line in log} <= set(marks)
    assert any('Protocol error' in line for line in log) == (level in ('debug', 'verbose'))
    assert any('Ready to accept' in line for line in log) == (level != 'warning')


@pytest.mark.each_back_end
def test_the_level_is_changed_while_it_runs(server):
    offend(server)
    assert server.client().command('CONFIG', 'SET', 'loglevel', 'verbose') == b'OK'
    offend(server)
    wait_for(lambda: 'Protocol error' in server.log())
    assert server.client().command('CONFIG', 'SET', 'loglevel', 'notice') == b'OK'
    offend(server)
    time.sleep(.1)
    assert server.log().count('Protocol error') == 1


@pytest.mark.each_back_end
def test_a_file_is_opened_anew_on_sighup(start):
    server = start(options=[('logfile', 'server.log'), ('loglevel', 'verbose')])      # relative to dir
    path = os.path.join(server.directory, 'server.log')
    wait_for(lambda: 'Ready to accept' in read(path))
    assert server.log() == ''
    os.rename(path, path + '.1')
    offend(server)
    wait_for(lambda: 'Protocol error' in read(path + '.1'))
    assert not os.path.exists(path)
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: os.path.exists(path))
    offend(server)
    wait_for(lambda: 'Protocol error' in read(path))
    assert read(path + '.1').count('Protocol error') == 1
    assert all(LINE.match(line) for line in lines(read(path) + read(path + '.1')))


def test_sighup_without_a_file_harms_nobody():
    with Server(io='epoll', threads=2) as server:
        server.process.send_signal(signal.SIGHUP)
        assert server.client().command('PING') == b'PONG'


def test_a_file_that_cannot_be_opened_ends_the_start():
    server = Server(io='epoll', threads=1, options=[('logfile', '/nowhere/at/all.log')], wait=False)
    assert server.wait_end() == 1
    assert "Can't open the log file /nowhere/at/all.log" in server.log()
    server.kill()


@pytest.mark.each_back_end
def test_lines_of_many_threads_do_not_mix(start):
    server = start(options=[('loglevel', 'verbose')])
    for _ in range(20):
        clients = [server.client() for _ in range(20)]
        for c in clients:
            c.send(b'*1\r\n$x\r\n')
        for c in clients:
            c.read_to_end()
            c.close()
    wait_for(lambda: read(server.log_path).count('Protocol error') == 400)
    assert all(LINE.match(line) for line in lines(read(server.log_path)))


def test_a_reader_that_does_not_read_holds_up_nobody():
    taken, given = os.pipe()
    fcntl.fcntl(given, fcntl.F_SETPIPE_SZ, 4096)
    port = free_port()
    process = subprocess.Popen([darter_binary(), '--port', str(port), '--threads', '2', '--save', '', '--loglevel', 'verbose'], stderr=given, stdin=subprocess.DEVNULL)
    os.close(given)
    try:
        def connect():
            try:
                return socket.create_connection(('127.0.0.1', port), timeout=PATIENCE)
            except OSError:
                return None
        wait_for(connect)
        for _ in range(600):        # more than the pipe and the queue hold together
            with connect() as s:
                s.sendall(b'*1\r\n$x\r\n')
                while s.recv(4096):
                    pass
        with connect() as s:
            s.sendall(b'PING\r\n')
            assert s.recv(100) == b'+PONG\r\n'
        # It reads again: what was queued comes, and how many were lost.
        text = b''
        os.set_blocking(taken, False)
        end = time.monotonic() + PATIENCE
        while b'lines of the log were lost' not in text and time.monotonic() < end:
            try:
                text += os.read(taken, 65536)
            except BlockingIOError:
                time.sleep(.01)
        kept = text.count(b'Protocol error')
        lost = int(re.search(rb'# (\d+) lines of the log were lost', text)[1])
        assert kept and lost and kept + lost == 600, (kept, lost)
        assert all(LINE.match(line) for line in lines(text.decode()))
        # And it ends although nobody reads.
        for _ in range(100):
            with connect() as s:
                s.sendall(b'*1\r\n$x\r\n')
                while s.recv(4096):
                    pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(taken)


@pytest.mark.skipif(os.getuid() != 0 or os.path.exists('/dev/log'), reason='needs /dev/log for itself')
def test_syslog():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind('/dev/log')
        try:
            s.settimeout(PATIENCE)
            with Server(io='epoll', threads=1, options=[('syslog-enabled', 'yes'), ('syslog-ident', 'tester'), ('syslog-facility', 'local3')]) as server:
                text = b''
                while b'Ready to accept' not in text:
                    text = s.recv(4096)
                assert b'tester[%d]: Ready to accept connections' % server.process.pid in text
                assert text.startswith(b'<%d>' % (19 * 8 + 5))        # local3, notice
                assert 'Ready to accept' in server.log()
        finally:
            os.unlink('/dev/log')


# Crashes

def kill_thread(pid, tid, number):
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.syscall(234 if os.uname().machine == 'x86_64' else 131, pid, tid, number) == 0


def thread_named(pid, name):
    """A thread gives itself its name, a moment after it began."""
    found = []
    wait_for(lambda: found.extend(t for t in os.listdir('/proc/%d/task' % pid) if read('/proc/%d/task/%s/comm' % (pid, t)) == name + '\n') or found)
    return int(found[0])


@reports
@pytest.mark.each_back_end
@pytest.mark.parametrize('name', ['SIGSEGV', 'SIGBUS', 'SIGFPE', 'SIGILL', 'SIGABRT'])
def test_a_crash_is_reported(start, name):
    server = start(options=[('logfile', 'server.log'), ('pidfile', 'server.pid')], tolerate_faults=True)
    number = getattr(signal, name)
    wait_for(lambda: 'Ready to accept' in read(os.path.join(server.directory, 'server.log')))
    assert os.path.exists(os.path.join(server.directory, 'server.pid'))
    server.process.send_signal(number)
    assert server.wait_end() == -number
    assert not os.path.exists(os.path.join(server.directory, 'server.pid'))
    version = subprocess.run([darter_binary(), '--version'], capture_output=True, text=True).stdout
    report = server.log()
    for text in ('DARTER CRASH REPORT', 'signal: %d %s' % (number, name), 'thread: main', 'sent by pid %d' % os.getpid(), 'END OF CRASH REPORT'):
        assert text in report, report
    assert re.search(r'version: darter (\S+)', report)[1] in version
    assert len(re.findall(r'^\S+\(.*\)\[0x[0-9a-f]+\]$', report, re.M)) >= 3, report
    in_file = read(os.path.join(server.directory, 'server.log'))
    assert report.strip() in in_file and 'Ready to accept' in in_file


@reports
@pytest.mark.each_back_end
def test_a_crash_names_the_command_and_no_argument(start):
    for pause in (.3, 2, 10):
        server = start(threads=1, options=[('enable-debug-command', 'yes')], tolerate_faults=True)
        c = server.client()
        assert c.command('SET', 'secret-key', 'secret-value') == b'OK'
        c.send(b'SET other-secret secret-value\r\nDEBUG SLEEP 600.0918273\r\n')
        time.sleep(pause)
        tid = thread_named(server.process.pid, 'shard-0')
        kill_thread(server.process.pid, tid, signal.SIGSEGV)
        assert server.wait_end() == -signal.SIGSEGV
        report = server.log()
        if 'command: none' not in report:       # the machine let it begin in time
            break
    assert 'thread: 0 of 1\ncommand: debug|sleep\n' in report, report
    assert 'secret' not in report and '0918273' not in report


FAULTY = r'''
#include <assert.h>
#include <signal.h>
static void fault(int s) { *(volatile int *)0x10 = s; }
static void failure(int s) { assert(s == 1); }
static void deeper(volatile char *p) { volatile char more[4096]; more[0] = p ? p[0] : 0; deeper(more); more[1] = 0; }
static void overflow(int s) { (void)s; deeper(0); }
__attribute__((constructor)) static void start(void) { signal(SIGUSR1, fault); signal(SIGUSR2, failure); signal(SIGWINCH, overflow); }
'''


@pytest.fixture(scope='module')
def faulty(tmp_path_factory):
    """A library that lets a server crash by itself when a signal comes."""
    directory = tmp_path_factory.mktemp('faulty')
    source, library = directory / 'faulty.c', directory / 'faulty.so'
    source.write_text(FAULTY)
    subprocess.run(['cc', '-O0', '-shared', '-fPIC', '-o', library, source], check=True)
    return str(library)


@reports
@pytest.mark.parametrize('with_signal, died_by, text', [
    (signal.SIGUSR1, signal.SIGSEGV, 'code 1, address 0x10\n'),
    (signal.SIGUSR2, signal.SIGABRT, "failure: Assertion `s == 1' failed."),
    (signal.SIGWINCH, signal.SIGSEGV, 'thread: 0 of 1'),        # the stack is full: the report needs one of its own
])
def test_a_fault_of_its_own(faulty, with_signal, died_by, text):
    server = Server(io='epoll', threads=1, options=[('logfile', 'server.log')], env={'LD_PRELOAD': faulty}, tolerate_faults=True)
    try:
        tid = thread_named(server.process.pid, 'shard-0')
        kill_thread(server.process.pid, tid, with_signal)
        assert server.wait_end() == -died_by
        report = read(os.path.join(server.directory, 'server.log'))
        assert text in report and 'thread: 0 of 1' in report and 'END OF CRASH REPORT' in report, report
        assert text in server.log()
    finally:
        server.kill()


@reports
@pytest.mark.parametrize('with_signal, died_by', [(signal.SIGUSR1, signal.SIGSEGV), (signal.SIGWINCH, signal.SIGSEGV)])  # the second fills its stack
def test_a_fault_of_the_disk_thread_names_it(faulty, with_signal, died_by):
    with Server(io='epoll', threads=1, env={'LD_PRELOAD': faulty}, tolerate_faults=True) as server:
        kill_thread(server.process.pid, thread_named(server.process.pid, 'disk'), with_signal)
        assert server.wait_end() == -died_by
        report = server.log()
        assert 'thread: disk\n' in report and 'END OF CRASH REPORT' in report and 'other threads: 0=none' in report, report


@reports
def test_the_report_can_be_left_out():
    server = Server(io='epoll', threads=1, options=[('crash-log-enabled', 'no')], tolerate_faults=True)
    server.process.send_signal(signal.SIGSEGV)
    assert server.wait_end() == -signal.SIGSEGV
    assert 'CRASH' not in server.log()
    server.kill()


# The watchdog

@pytest.mark.each_back_end
def test_the_watchdog_names_a_thread_that_hangs(start):
    server = start(options=[('enable-debug-command', 'yes')])
    c = server.client()
    assert c.command('DEBUG', 'SLEEP', '0.3') == b'OK'
    assert 'WATCHDOG' not in server.log()
    assert c.command('CONFIG', 'SET', 'watchdog-period', '100') == b'OK'
    # On a busy machine others may be named too, which were not given a CPU for so long; and who watches may not be given one in time.
    hung = r'WATCHDOG: thread (\d+) hangs: its tick has taken (\d+) ms so far, in the command debug\|sleep'
    for _ in range(10):
        assert c.command('DEBUG', 'SLEEP', .5 * SLOW) == b'OK'
        if re.search(hung, server.log()):
            break
    wait_for(lambda: 'asks where it is' in server.log())
    found = re.findall(hung, server.log())
    assert len(found) == 1 and int(found[0][0]) < server.threads and int(found[0][1]) >= 100, server.log()
    assert c.command('CONFIG', 'SET', 'watchdog-period', '0') == b'OK'
    assert c.command('DEBUG', 'SLEEP', '0.3') == b'OK'
    assert len(re.findall(hung, server.log())) == 1


@pytest.mark.each_back_end
def test_the_watchdog_keeps_quiet_while_all_is_well(start):
    server = start(options=[('watchdog-period', str(int(500 * SLOW)))])
    c = server.client()
    for _ in range(10):     # a machine that takes the CPU away is told of; what is systematic is there every time
        before = server.log().count('WATCHDOG')
        end = time.monotonic() + 1 * SLOW
        while time.monotonic() < end:
            assert c.command('PING') == b'PONG'
            time.sleep(.01)
        time.sleep(1 * SLOW)        # nobody asks for anything
        if server.log().count('WATCHDOG') == before:
            return
    pytest.fail(server.log())
