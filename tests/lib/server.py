"""Starts a server for a test and ends it again.

    with Server(threads=2, io='epoll') as server:
        server.client().command('PING')

Darter is the binary named by DARTER, or build/darter. The reference is redis-server 7 (Server(kind='redis')). Each server gets a
free loopback port and a directory of its own. Ending it is part of the test: a server that had to be killed, that ended with
another status than 0, or whose output shows a crash, a failed assertion or a sanitizer's report, raises ServerFault.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from resp import Client, Closed, Error

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# A sanitizer makes everything slower: waits are this many times longer.
SLOW = float(os.environ.get('DARTER_TEST_SLOW', '1'))
# Seconds: who has waited so long waits for what does not come. A bound for what hangs, none for what is slow: a machine may take the CPU away for
# seconds at any moment.
PATIENCE = 60 * SLOW

FAULTS = re.compile(
    r'ERROR: \w*Sanitizer|WARNING: ThreadSanitizer|runtime error:|Assertion .* failed|assertion failed|SUMMARY: \w+Sanitizer|'
    r'Segmentation fault|stack smashing|panic:', re.IGNORECASE)


class ServerFault(AssertionError):
    pass


def darter_binary():
    return os.environ.get('DARTER') or os.path.join(ROOT, 'build', 'darter')


def redis_binary():
    """redis-server; or, where only redis-tools is installed, its other name, which runs as the server if it is called so."""
    found = os.environ.get('REDIS_SERVER') or shutil.which('redis-server')
    if found:
        return [found]
    check = shutil.which('redis-check-rdb')
    if not check:
        raise ServerFault('redis-server is not installed (package redis-tools)')
    return [check, 'redis-server']


def long_slices(of):
    """How many slices of long commands there were so far, on all threads of a server; of: it, or a client of it."""
    if isinstance(of, Server):
        with Client(of.address(), timeout=PATIENCE) as c:
            return long_slices(c)
    return sum(map(int, re.findall(rb'^thread\d+_long:slices=(\d+)', of.command('INFO', 'threads'), re.M)))


def wait_for(happened):
    """Asks until it is true; returns what it was."""
    end = time.monotonic() + PATIENCE
    while not (is_so := happened()):
        assert time.monotonic() < end, 'it did not happen'
        time.sleep(.01)
    return is_so


_next_port = None


def free_port():
    """A port that nobody listens on, below the range that the kernel gives to outgoing connections; parallel test workers do not collide."""
    global _next_port
    worker = int((os.environ.get('PYTEST_XDIST_WORKER') or 'gw0')[2:] or 0)
    low = 10000 + (worker % 8) * 2000
    if _next_port is None:
        _next_port = low + (os.getpid() * 37) % 2000
    for _ in range(2000):
        port = _next_port
        _next_port = low + (_next_port + 1 - low) % 2000
        try:
            for family, host in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
                with socket.socket(family) as s:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    s.bind((host, port))
        except OSError as e:
            if e.errno == 98:
                continue
        return port
    raise ServerFault('no free port')


class Server:
    def __init__(self, kind='darter', threads=None, io=None, options=(), config=None, port=None, wait=True, tolerate_faults=False,
                 prefix=(), env=None):
        """options: pairs (name, value) or (name, value, value ...) of directives; config: text of a configuration file."""
        # For trying the suites themselves: DARTER_TEST_SUBJECT=redis lets them test redis-server instead.
        if kind == 'darter':
            kind = os.environ.get('DARTER_TEST_SUBJECT', kind)
        self.kind, self.threads, self.io = kind, threads, io
        self.options = list(options)
        self.tolerate_faults = tolerate_faults
        self.directory = tempfile.mkdtemp(prefix='darter-test-')
        self.port = free_port() if port is None else port
        self.log_path = os.path.join(self.directory, 'log')
        self.process = None
        self.clients = []
        self.checked = False
        command = list(prefix)
        self.has_prefix = bool(prefix)      # then the process is not the server's, perhaps
        executable = None
        if kind == 'darter':
            command.append(darter_binary())
        else:
            binary = redis_binary()
            if len(binary) == 2 and not prefix:
                executable, command = binary[0], ['redis-server']
            else:
                command.append(binary[0])
        if config is not None:
            path = os.path.join(self.directory, 'test.conf')
            with open(path, 'w') as f:
                f.write(config.format(port=self.port, dir=self.directory))
            command.append(path)
        if config is None or '{port}' not in config:
            command += ['--port', str(self.port)]
        if config is None or '{dir}' not in config:
            command += ['--dir', self.directory]
        if kind == 'darter':
            if threads is not None:
                command += ['--threads', str(threads)]
            if io is not None:
                command += ['--io', io]
            if config is None and all(name != 'save' for name, *_ in self.options):
                command += ['--save', '']       # no snapshot at its end
        else:
            command += ['--save', '', '--appendonly', 'no', '--loglevel', 'warning', '--daemonize', 'no']
        for name, *values in self.options:
            command += ['--' + name, *map(str, values)]
        self.command_line = command
        environment = dict(os.environ)
        environment.update(env or {})
        if 'LD_PRELOAD' in environment:     # the address sanitizer's library is not the first then
            environment['ASAN_OPTIONS'] = environment.get('ASAN_OPTIONS', '') + ':verify_asan_link_order=0'
        with open(self.log_path, 'wb') as log:
            self.process = subprocess.Popen(command, executable=executable, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            cwd=self.directory, env=environment)
        if wait:
            try:
                self.wait_ready()
            except BaseException:
                self.kill()
                raise

    # Life

    def wait_ready(self, timeout=PATIENCE):
        deadline = time.monotonic() + timeout
        address = self.address()
        while True:
            if self.process.poll() is not None:
                raise ServerFault('the server ended at start with status %d: %s\n%s' %
                                  (self.process.returncode, ' '.join(self.command_line), self.log()))
            try:
                with Client(address, timeout=2.0 * SLOW) as c:
                    reply = c.command('PING')
                    if not (isinstance(reply, Error) and reply.startswith(b'LOADING')) and self.is_ours(c):
                        return
            except (OSError, Closed):
                pass
            if time.monotonic() > deadline:
                raise ServerFault('the server did not answer within %g s: %s\n%s' %
                                  (timeout, ' '.join(self.command_line), self.log()))
            time.sleep(0.01)

    def is_ours(self, client):
        """Another program's server may still be on the port, while this one waits for it."""
        info = client.command('INFO', 'server')
        if isinstance(info, Error) or self.has_prefix:
            return True
        return b'process_id:%d\r\n' % self.process.pid in bytes(info)

    def address(self):
        """What a client connects to: the port, or the Unix socket if there is no port."""
        if self.port:
            for name, *values in self.options:
                if name == 'bind':
                    host = str(values[0]).split()[0].lstrip('-')
                    return (host if host not in ('*', '0.0.0.0') else '127.0.0.1', self.port)
            return self.port
        for name, *values in self.options:
            if name == 'unixsocket':
                return values[0]
        raise ServerFault('the server listens nowhere')

    def log(self):
        with open(self.log_path, 'rb') as f:
            text = f.read().decode('utf-8', 'backslashreplace')
        return text if len(text) < 20000 else text[:10000] + '\n[...]\n' + text[-10000:]

    def alive(self):
        return self.process.poll() is None

    def kill(self):
        """Ends it at once, without judging it."""
        self.checked = True
        self.close_clients()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def wait_end(self):
        """Waits until the server ends by itself; returns its exit status."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            fault = 'the server did not end within %g s:\n%s' % (PATIENCE, self.log())
            self.kill()
            raise ServerFault(fault) from None

    def stop(self, with_signal=signal.SIGTERM):
        """Ends it in order and raises ServerFault if anything was wrong with it."""
        if self.checked:
            return
        self.checked = True
        try:
            died = self.process.poll()
            self.close_clients()
            if died is None:
                self.process.send_signal(with_signal)
                try:
                    self.process.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
                    raise ServerFault('the server did not end on signal %d:\n%s' % (with_signal, self.log())) from None
            log = self.log()
            if self.tolerate_faults:
                return
            if FAULTS.search(log):
                raise ServerFault('the server reports a fault (%s):\n%s' % (' '.join(self.command_line), log))
            if self.process.returncode != 0:
                raise ServerFault('the server ended with status %d%s (%s):\n%s' % (
                    self.process.returncode, '' if died is None else ' in the middle of the test', ' '.join(self.command_line), log))
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            shutil.rmtree(self.directory, ignore_errors=True)

    def close_clients(self):
        for c in self.clients:
            c.close()
        self.clients = []

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.stop()
            return
        # The test failed already: what the server said is the likelier cause, so it is told too.
        try:
            self.stop()
        except ServerFault as fault:
            print(fault)

    # Talk

    def client(self, **options):
        """A raw client that is closed together with the server."""
        c = Client(self.address(), **{'timeout': PATIENCE, **options})
        self.clients.append(c)
        return c

    def redis(self, **options):
        """A redis-py client."""
        import redis
        return redis.Redis(host='127.0.0.1', port=self.port, socket_timeout=PATIENCE, **options)

    def info(self, section=None):
        """INFO as a dictionary of strings."""
        with Client(self.address(), timeout=PATIENCE) as c:
            reply = c.command('INFO', *([section] if section else []))
        assert isinstance(reply, bytes) and not isinstance(reply, Error), reply
        lines = (line.partition(':') for line in reply.decode().splitlines() if line and not line.startswith('#'))
        return {name: value for name, _, value in lines}

    def cpu_seconds(self):
        """User and system time that the server has used so far."""
        with open('/proc/%d/stat' % self.process.pid) as f:
            fields = f.read().rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def turns(self, client):
        """How many turns all threads have made so far: one that sleeps makes none, but a few for each time that somebody asks for this."""
        return sum(map(int, re.findall(rb'^thread\d+:.*\bticks=(\d+)', bytes(client.command('INFO', 'threads')), re.M)))

    def peak_bytes(self):
        """The most that was ever resident."""
        with open('/proc/%d/status' % self.process.pid) as f:
            return int(re.search(r'VmHWM:\s+(\d+) kB', f.read())[1]) * 1024

    def resident_bytes(self):
        with open('/proc/%d/statm' % self.process.pid) as f:
            return int(f.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')
