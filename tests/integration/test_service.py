"""The process in its system: background, pidfile, supervisors, sockets handed over, OOM score, advice, the unit."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

import configurations
from resp import Client
from server import PATIENCE, ROOT, SLOW, Server, darter_binary, free_port, wait_for

UNIT = os.path.join(ROOT, 'tools', 'systemd', 'darter.service')


def read(path):
    with open(path) as f:
        return f.read()


def gone(pid):
    try:
        return read('/proc/%d/stat' % pid).rpartition(')')[2].split()[0] == 'Z'
    except FileNotFoundError:
        return True


# Pidfile, background

@pytest.mark.each_back_end
def test_the_pidfile_is_written_and_removed(start):
    server = start(options=[('pidfile', 'server.pid')])     # relative to dir
    path = os.path.join(server.directory, 'server.pid')
    assert read(path) == '%d\n' % server.process.pid
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_end() == 0
    assert not os.path.exists(path)
    assert 'Removing the pid file.' in server.log()


def test_a_start_that_fails_leaves_the_pidfile_of_another_alone():
    with Server(io='epoll', threads=1, options=[('pidfile', 'server.pid')]) as server:
        path = os.path.join(server.directory, 'server.pid')
        second = Server(io='epoll', threads=1, port=server.port, options=[('pidfile', path)], wait=False)
        assert second.wait_end() == 1
        second.kill()
        assert read(path) == '%d\n' % server.process.pid


def test_a_pidfile_that_cannot_be_written_is_logged():
    with Server(io='epoll', threads=1, options=[('pidfile', '/nowhere/server.pid')]) as server:
        assert 'Failed to write PID file /nowhere/server.pid' in server.log()


def background(directory, port, *options):
    return subprocess.run([darter_binary(), '--port', str(port), '--threads', '2', '--dir', str(directory), '--daemonize', 'yes', *options],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)


def test_background(tmp_path):
    port = free_port()
    pidfile, logfile = tmp_path / 'pid', tmp_path / 'log'
    done = background(tmp_path, port, '--pidfile', str(pidfile), '--logfile', str(logfile))
    assert done.returncode == 0 and done.stdout == done.stderr == ''
    pid = int(read(pidfile))
    try:
        # Connections are accepted as soon as the command has returned.
        with Client(port, timeout=PATIENCE) as c:
            assert c.command('PING') == b'PONG'
            assert int(dict(line.split(':', 1) for line in c.command('INFO', 'server').decode().split('\r\n') if ':' in line)['process_id']) == pid
        assert os.getsid(pid) == pid
        for fd in range(3):
            assert os.readlink('/proc/%d/fd/%d' % (pid, fd)) == '/dev/null'
        # A second one cannot listen, and its status tells.
        second = background(tmp_path, port, '--pidfile', str(tmp_path / 'other'))
        assert second.returncode == 1 and 'Could not listen' in second.stderr
        assert not os.path.exists(tmp_path / 'other')
    finally:
        os.kill(pid, signal.SIGTERM)
    wait_for(lambda: gone(pid))
    assert not pidfile.exists() and 'bye bye' in read(logfile)


# The title

def title_of(server):
    return read('/proc/%d/cmdline' % server.process.pid).rstrip('\0').replace(server.command_line[0], 'PROGRAM')


TITLES = [[], [('bind', '127.0.0.1', '-::1')], [('port', '0'), ('unixsocket', 'socket')], [('set-proc-title', 'no')], [('proc-title-template', '{title}.')],
          [('proc-title-template', ' x {port} {tls-port} {unixsocket}|{server-mode}|{config-file} {listen-addr}{listen-addr} y  ')], [('proc-title-template', '{title} ' * 5 + '{port}')]]


@pytest.mark.parametrize('options', TITLES)
def test_the_title_is_that_of_redis(options):
    """Of both servers, started with the same options."""
    titles = []
    for kind in ('redis', 'darter'):
        with Server(kind=kind, io='epoll', threads=1, options=options, wait=False) as server:
            if dict((o[0], o[1]) for o in options).get('port') == '0':
                server.port = 0
                wait_for(lambda: os.path.exists(os.path.join(server.directory, 'socket')))
                server.options[1] = ('unixsocket', os.path.join(server.directory, 'socket'))
            server.wait_ready()
            assert read('/proc/%d/comm' % server.process.pid) == os.path.basename(server.command_line[0])[:15] + '\n'
            title = title_of(server)
            if options == [('set-proc-title', 'no')]:
                assert title.split('\0') == ['PROGRAM', *server.command_line[1:]]
                continue
            titles.append(title.replace(str(server.port), 'PORT'))
    assert not titles or titles[0] == titles[1]


@pytest.mark.each_back_end
def test_the_title_follows_the_configuration(start):
    server = start(env={'LAST': 'of the environment' * 100})
    c = server.client()
    assert title_of(server) == 'PROGRAM *:%d' % server.port
    new = free_port()
    assert c.command('CONFIG', 'SET', 'port', new, 'bind', '127.0.0.1') == b'OK' and title_of(server) == 'PROGRAM 127.0.0.1:%d' % new
    assert c.command('CONFIG', 'SET', 'proc-title-template', '{title} ' + 'long ' * 20 + '{port}') == b'OK'
    assert title_of(server) == 'PROGRAM ' + 'long ' * 20 + '%d' % new
    refused = c.command('CONFIG', 'SET', 'proc-title-template', 'x', 'maxclients', '4294967295')
    assert b"argument 'maxclients'" in refused and title_of(server).startswith('PROGRAM long')
    assert c.command('CONFIG', 'SET', 'proc-title-template', 'short') == b'OK' and title_of(server) == 'short'


# systemd

def listener(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(path)
    s.settimeout(PATIENCE)
    return s


def told(s, wanted):
    """What comes until a message has the line that is wanted."""
    lines = []
    while wanted not in lines:
        lines += s.recv(4096).decode().split('\n')
    return lines


@pytest.mark.each_back_end
@pytest.mark.parametrize('supervised', ['systemd', 'auto'])
@pytest.mark.parametrize('abstract', [False, True])
def test_systemd_is_told(start, tmp_path, supervised, abstract):
    path = '\0darter-test-%d' % os.getpid() if abstract else str(tmp_path / 'notify')
    with listener(path) as s:
        # Who is supervised stays in the foreground, whatever daemonize says.
        server = start(options=[('supervised', supervised), ('daemonize', 'yes')], env={'NOTIFY_SOCKET': path.replace('\0', '@')})
        assert 'STATUS=Ready to accept connections' in told(s, 'READY=1')
        assert server.alive()
        server.process.send_signal(signal.SIGTERM)
        told(s, 'STOPPING=1')
        assert server.wait_end() == 0


def test_systemd_is_told_of_loading(start, tmp_path):
    first = start()
    assert first.client().pipeline([('SET', 'k', 'v'), ('SAVE',)]) == [b'OK', b'OK']
    path = str(tmp_path / 'notify')
    with listener(path) as s:
        start(options=[('supervised', 'systemd'), ('dir', first.directory)], env={'NOTIFY_SOCKET': path})
        lines = told(s, 'READY=1')
        assert lines.index('STATUS=Loading') < lines.index('STATUS=Ready to accept connections')


def test_ready_means_ready(tmp_path):
    path = str(tmp_path / 'notify')
    with listener(path) as s:
        server = Server(io='epoll', threads=2, options=[('supervised', 'systemd')], env={'NOTIFY_SOCKET': path}, wait=False)
        told(s, 'READY=1')
        with server.client() as c:      # no second try
            assert c.command('PING') == b'PONG'
        server.stop()


def test_systemd_asked_for_and_absent():
    env = {'NOTIFY_SOCKET': ''}
    with Server(io='epoll', threads=1, options=[('supervised', 'systemd')], env=env) as server:
        assert 'NOTIFY_SOCKET not found' in server.log()
    with Server(io='epoll', threads=1, options=[('supervised', 'upstart')], env=env) as server:
        assert 'UPSTART_JOB not found' in server.log()


def test_info_tells_who_supervises(tmp_path):
    path = str(tmp_path / 'notify')
    for supervised, env, told in (('systemd', path, 'systemd'), ('auto', path, 'systemd'), ('no', path, 'no'), ('auto', '', 'no'), ('systemd', '', 'no'), ('upstart', '', 'no'),
                                  ('systemd', str(tmp_path / 'nobody'), 'no')):
        with listener(path):
            with Server(io='epoll', threads=1, options=[('supervised', supervised)], env={'NOTIFY_SOCKET': env}) as server:
                assert server.info('server')['process_supervised'] == told, (supervised, env)
        os.unlink(path)


def test_upstart_sees_it_stop():
    server = Server(io='epoll', threads=1, options=[('supervised', 'upstart')], env={'UPSTART_JOB': 'darter'}, wait=False)
    wait_for(lambda: read('/proc/%d/stat' % server.process.pid).rpartition(')')[2].split()[0] == 'T')
    server.process.send_signal(signal.SIGCONT)
    server.wait_ready()
    assert server.info('server')['process_supervised'] == 'upstart'
    server.stop()


def seconds_for(something):
    begin = time.monotonic()
    something()
    return time.monotonic() - begin


def messages(s):
    """All that have come."""
    found = []
    s.setblocking(False)
    while True:
        try:
            found.append(s.recv(4096))
        except BlockingIOError:
            s.settimeout(PATIENCE)
            return found


@pytest.mark.alone
@pytest.mark.each_back_end
def test_the_watchdog_of_systemd_hears_of_us_while_ticks_go_on(start, tmp_path):
    period = .8 * SLOW      # it is told of four times a period
    path = str(tmp_path / 'notify')
    with listener(path) as s:
        server = start(options=[('supervised', 'systemd'), ('enable-debug-command', 'yes')],
                       env={'NOTIFY_SOCKET': path, 'WATCHDOG_USEC': str(int(period * 1e6))})
        told(s, 'READY=1')
        # A machine that takes the CPU away delays what is told: what is systematic is there every time.
        assert any(seconds_for(lambda: [told(s, 'WATCHDOG=1') for _ in range(4)]) < 4 * period for _ in range(10))
        c = server.client()
        for span in (period, 4 * period, 16 * period):
            c.send(b'DEBUG SLEEP %f\r\n' % (3 * span))
            time.sleep(span)                # by now it has been found out
            messages(s)
            time.sleep(span)
            silent = not messages(s)
            told(s, 'WATCHDOG=1')           # it goes on, and so it is told
            assert c.read() == b'OK'
            if silent:
                return
        pytest.fail('it is told while a thread hangs')


# Sockets handed over

LAUNCHER = '''
import os, socket, sys
port, path, n = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
sockets = [socket.socket(), socket.socket(socket.AF_UNIX), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)][:n]
sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
sockets[0].bind(('127.0.0.1', port))
sockets[1].bind(path)
for s in sockets[:2]:
    s.listen()
high = [os.dup(s.fileno()) for s in sockets]
high = [os.dup2(fd, 50 + i) for i, fd in enumerate(high)]
for i, fd in enumerate(high):
    os.dup2(fd, 3 + i, inheritable=True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(n))
os.execv(sys.argv[4], sys.argv[4:])
'''


@pytest.mark.each_back_end
@pytest.mark.parametrize('handed', [2, 3])
def test_sockets_are_taken_over(start, tmp_path, handed):
    port, path = free_port(), str(tmp_path / 'socket')
    server = start(port=port, options=[('unixsocket', str(tmp_path / 'not-made'))],
                   prefix=[sys.executable, '-c', LAUNCHER, str(port), path, str(handed)], wait=False)
    server.wait_ready()
    for address in (port, path):
        for _ in range(4):
            with Client(address, timeout=PATIENCE) as c:
                assert c.command('PING') == b'PONG'
    log = server.log()
    assert 'Listening on 2 sockets of the service manager' in log
    assert ('is no listening stream socket' in log) == (handed == 3)
    assert not os.path.exists(tmp_path / 'not-made')
    server.stop()
    assert os.path.exists(path)         # it is the manager's


def test_sockets_for_another_process_are_left_alone():
    with Server(io='epoll', threads=1, env={'LISTEN_PID': '1', 'LISTEN_FDS': '1'}) as server:
        assert server.client().command('PING') == b'PONG'
        assert 'service manager' not in server.log()


# OOM score, advice, idleness

@pytest.mark.each_back_end
def test_oom_score(start):
    with open('/proc/self/oom_score_adj') as f:
        base = int(f.read())
    server = start(options=[('oom-score-adj', 'relative'), ('oom-score-adj-values', '30 200 800')])
    path = '/proc/%d/oom_score_adj' % server.process.pid
    assert int(read(path)) == min(base + 30, 1000)
    c = server.client()
    assert c.command('CONFIG', 'SET', 'oom-score-adj', 'absolute', 'oom-score-adj-values', '900 910 920') == b'OK'
    wait_for(lambda: int(read(path)) == 900)
    if os.getuid() == 0:
        assert c.command('CONFIG', 'SET', 'oom-score-adj', 'no') == b'OK'
        wait_for(lambda: int(read(path)) == base)


def test_advice():
    somaxconn = int(read('/proc/sys/net/core/somaxconn'))
    with Server(io='epoll', threads=1, options=[('tcp-backlog', somaxconn + 1)]) as server:
        [line] = [x for x in server.log().splitlines() if 'somaxconn' in x]
        assert "'sysctl net.core.somaxconn=%d'" % (somaxconn + 1) in line
    with Server(io='epoll', threads=1, options=[('tcp-backlog', min(somaxconn, 511))]) as server:
        assert 'somaxconn' not in server.log()
        pages = read('/sys/kernel/mm/transparent_hugepage/enabled') if os.path.exists('/sys/kernel/mm/transparent_hugepage/enabled') else ''
        assert ('Transparent huge pages' in server.log()) == ('[always]' in pages or '[never]' in pages)
        assert 'CPU' not in server.log()
    usable = len(os.sched_getaffinity(0))
    with Server(io='epoll', threads=usable + 1) as server:
        assert 'WARNING %d threads share %d CPU' % (usable + 1, usable) in server.log()


def switches(pid):
    total = 0
    for task in os.listdir('/proc/%d/task' % pid):
        total += int(re.search(r'^voluntary_ctxt_switches:\s+(\d+)', read('/proc/%d/task/%s/status' % (pid, task)), re.M)[1])
    return total


@pytest.mark.skipif(configurations.LIGHT, reason="a sanitizer's own thread wakes up")
def test_an_idle_server_never_wakes_up(server):
    """Also after the log, signals and the watchdog have been used."""
    c = server.client()
    assert c.command('CONFIG', 'SET', 'watchdog-period', '100') == b'OK'
    server.process.send_signal(signal.SIGHUP)
    time.sleep(.3)
    assert c.command('CONFIG', 'SET', 'watchdog-period', '0') == b'OK'
    for _ in range(10):     # on a busy machine what came before may take its time
        before = switches(server.process.pid)
        time.sleep(2)
        if switches(server.process.pid) == before:
            return
    pytest.fail('it wakes up all the time')


# The unit

@pytest.mark.skipif(not shutil.which('systemd-analyze'), reason='systemd-analyze is not installed')
def test_the_unit_is_tight():
    done = subprocess.run(['systemd-analyze', 'security', '--offline=true', '--no-pager', UNIT], capture_output=True, text=True)
    exposure = re.search(r'Overall exposure level for \S+: ([0-9.]+)', done.stdout)
    assert exposure and float(exposure[1]) <= 2.5, done.stdout[-2000:] + done.stderr
    assert not re.search(r'^MemoryDenyWriteExecute', read(UNIT), re.M)


@pytest.mark.skipif(not shutil.which('meson'), reason='meson is not installed')
def test_an_installation_keeps_the_configuration_that_is_there(tmp_path):
    build = os.path.dirname(darter_binary())
    if not os.path.exists(os.path.join(build, 'meson-info')):
        pytest.skip('the binary stands in no build folder')

    def install():
        subprocess.run(['meson', 'install', '-C', build, '--no-rebuild', '--quiet', '--destdir', str(tmp_path)], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)
        found = [os.path.join(at, 'darter.conf') for at, _, files in os.walk(tmp_path) if 'darter.conf' in files]
        return ([f for f in found if f.endswith('/etc/darter/darter.conf')][0], [f for f in found if '/examples/' in f][0])

    ours, example = install()
    shipped = read(os.path.join(ROOT, 'tools', 'systemd', 'darter.conf'))
    assert read(ours) == read(example) == shipped
    with open(ours, 'w') as f:
        f.write('port 7\n')
    assert install() == (ours, example) and read(ours) == 'port 7\n' and read(example) == shipped


LINK = re.compile(r'\]\(([^)\s#]+)')


def dead_links(directory):
    """(document, link) of each relative link below a directory that leads nowhere."""
    dead = []
    for at, _, files in os.walk(directory):
        for name in files:
            if name.endswith('.md'):
                links = LINK.findall(read(os.path.join(at, name)))
                dead += [(name, link) for link in links if '://' not in link and not os.path.exists(os.path.join(at, link))]
    return dead


def documents(directory):
    return {os.path.relpath(os.path.join(at, name), directory) for at, _, files in os.walk(directory) for name in files}


@pytest.mark.skipif(not shutil.which('meson'), reason='meson is not installed')
def test_documents_are_installed_and_lead_to_one_another(tmp_path):
    build = os.path.dirname(darter_binary())
    if not os.path.exists(os.path.join(build, 'meson-info')):
        pytest.skip('the binary stands in no build folder')
    subprocess.run(['meson', 'install', '-C', build, '--no-rebuild', '--quiet', '--destdir', str(tmp_path)], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)
    [docs] = [os.path.join(at, 'darter') for at, names, _ in os.walk(tmp_path) if at.endswith('/share/doc') and 'darter' in names]
    written = {'docs/' + name for name in os.listdir(os.path.join(ROOT, 'docs')) if name.endswith('.md')}
    assert {'README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'LICENSE', *written} <= documents(docs)
    assert dead_links(docs) == []
    assert read(UNIT).count('file:/usr/share/doc/darter/docs/operations.md') == 1 and os.path.exists(os.path.join(docs, 'docs', 'operations.md'))


def test_the_manual_tells_every_directive():
    page = os.path.join(os.path.dirname(darter_binary()), 'man', 'darter.1')
    if not os.path.exists(page):
        pytest.skip('this build has no manual pages')
    told_by_help = set(re.findall(r'^ +--([a-z0-9-]+) \(', subprocess.run([darter_binary(), '--help'], capture_output=True, text=True).stdout, re.M))
    for name in ('darter.1', 'darter.conf.5'):
        text = read(os.path.join(os.path.dirname(page), name)).replace('\\-', '-')
        assert set(re.findall(r'^\.BR ([a-z0-9-]+) " \(default: ', text, re.M)) == told_by_help
        if shutil.which('groff'):
            done = subprocess.run(['groff', '-man', '-Tutf8', '-ww', '-z', os.path.join(os.path.dirname(page), name)], capture_output=True, text=True)
            assert done.stderr == ''
