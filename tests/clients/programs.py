"""Programs that use a client library: builds or installs what they need, gives them servers, and reads how each of their scenarios went.

A program says each outcome as a line of JSON on its standard output: {"name": ..., "fault": null, or what went wrong}. With {"server": "stop"},
"kill" or "start" it has its server ended or started anew, and gets an empty line when that is done. Its environment says where the servers are.
"""

import contextlib
import fcntl
import functools
import json
import os
import re
import shutil
import subprocess
import tempfile

from server import ROOT, Server

HERE = os.path.dirname(os.path.abspath(__file__))
# Where npm puts the clients: beside the builds, not among the sources.
MODULES = os.path.join(ROOT, 'build-clients')
PASSWORD = 'as-secret-as-needed'


def read(path):
    with open(path) as f:
        return f.read()


def succeed(command, what, timeout, **options):
    """Runs a command, or fails the test with what it says."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, **options)
    except FileNotFoundError:
        raise AssertionError('%s: there is no %s' % (what, command[0])) from None
    except subprocess.TimeoutExpired:
        raise AssertionError('%s: it took longer than %d s' % (what, timeout)) from None
    assert done.returncode == 0, '%s: status %d\n%s' % (what, done.returncode, done.stdout[:800])
    return done.stdout


@functools.lru_cache(None)
def no_node_clients():
    """Installs the clients that package.json names, unless they are there. Returns None, or why that failed. It is tried once."""
    try:
        install_node_clients()
    except AssertionError as fault:
        return str(fault)
    return None


def install_node_clients():
    """Other test workers wait meanwhile."""
    wanted, installed = os.path.join(HERE, 'package.json'), os.path.join(MODULES, 'installed.json')
    os.makedirs(MODULES, exist_ok=True)
    with open(os.path.join(MODULES, 'lock'), 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(installed) and read(installed) == read(wanted):
            return
        shutil.rmtree(os.path.join(MODULES, 'node_modules'), ignore_errors=True)
        shutil.copy(wanted, os.path.join(MODULES, 'package.json'))
        succeed(['npm', 'install', '--no-package-lock', '--ignore-scripts', '--no-audit', '--no-fund', '--no-update-notifier', '--fetch-retries=3',
                 '--fetch-retry-mintimeout=1000', '--fetch-retry-maxtimeout=5000', '--fetch-timeout=30000', '--loglevel=error'],
                'npm cannot install the clients of tests/clients/package.json', 240, cwd=MODULES)
        shutil.copy(wanted, installed)


def compile_hiredis(program):
    """Compiles hiredis.c to the file program."""
    flags = succeed(['pkg-config', '--cflags', '--libs', 'hiredis', 'libevent'], 'hiredis or libevent is missing', 30).split()
    source = os.path.join(HERE, 'hiredis.c')
    succeed(['cc', '-std=gnu11', '-D_GNU_SOURCE', '-g', '-Wall', '-Wextra', '-Werror', '-o', program, source, *flags], 'hiredis.c cannot be compiled', 120)


def scenarios_of(source):
    """The names of a program's scenarios, in order."""
    text = read(os.path.join(HERE, source))
    return re.findall(r'\{"([^"]+)", \w+\}' if source.endswith('.c') else r"^(?:client)?[sS]cenario\('([^']+)'", text, re.M)


def run(command, kind, environment=()):
    """Runs a program against servers of a kind. Returns {scenario: None, or what went wrong}, and fails if the program or a server does."""
    io, threads = kind
    with contextlib.ExitStack() as held:
        directory = held.enter_context(tempfile.TemporaryDirectory(prefix='darter-test-'))
        socket = os.path.join(directory, 'socket')
        with_password = held.enter_context(Server(io=io, threads=threads, options=[('requirepass', PASSWORD)]))

        def start(port=None):
            return held.enter_context(Server(io=io, threads=threads, port=port, options=[('unixsocket', socket)]))

        server = start()
        errors = held.enter_context(open(os.path.join(directory, 'errors'), 'w+'))
        process = held.enter_context(subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0, cwd=directory,
            env=dict(os.environ, SERVER_PORT=str(server.port), SERVER_SOCKET=socket, SERVER_PORT_WITH_PASSWORD=str(with_password.port),
                     SERVER_PASSWORD=PASSWORD, **dict(environment))))
        held.callback(process.kill)
        outcomes = {}
        for line in process.stdout:
            message = json.loads(line)
            if 'server' in message:
                if message['server'] == 'start':
                    server = start(server.port)
                else:
                    server.kill() if message['server'] == 'kill' else server.stop()
                with contextlib.suppress(BrokenPipeError):      # a program that is over by now says why
                    process.stdin.write(b'\n')
            else:
                outcomes[message['name']] = message['fault']
        status = process.wait()
        errors.seek(0)
        assert status == 0, '%s ended with status %d:\n%s' % (' '.join(command), status, errors.read()[-4000:])
        return outcomes
