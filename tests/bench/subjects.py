"""The servers that an experiment measures: Darter, and the peers that are found on the PATH.

Each is started on a free loopback port, on the CPUs that it is told (taskset), and without persistence. fill() gives it the keys key:0, key:1 ...
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'lib'))
from resp import Client, Closed, Error  # noqa: E402
from server import darter_binary, free_port  # noqa: E402

READY_S = 60
REDIS = ['--port', '{port}', '--dir', '{dir}', '--save', '', '--appendonly', 'no', '--enable-debug-command', 'yes']
# Their arguments; with one thread those of Redis' family have all their work in one.
PEERS = {
    'redis-server': REDIS,
    'valkey-server': REDIS,
    'dragonfly': ['--port={port}', '--dir={dir}', '--dbfilename=', '--proactor_threads={threads}', '--logtostderr'],
    'pogocache': ['-p', '{port}', '-t', '{threads}'],
}
DARTER = ['--port', '{port}', '--dir', '{dir}', '--save', '', '--threads', '{threads}', '--pin', 'no', '--enable-debug-command', 'yes']


def cpus():
    """(those of the server, those of the load): apart where there are two."""
    available = sorted(os.sched_getaffinity(0))
    return available[:1], available[1:2] or available[:1]


def everything():
    return sorted(os.sched_getaffinity(0))


def on(cpu_list):
    return ['taskset', '-c', ','.join(map(str, cpu_list))]


def peers():
    return [name for name in PEERS if shutil.which(name)]


class Subject:
    """A running server."""

    def __init__(self, name='darter', threads=1, cpu_list=None, options=(), prefix=()):
        self.name, self.port, self.directory = name, free_port(), tempfile.mkdtemp(prefix='darter-bench-')
        binary, arguments = (darter_binary(), DARTER) if name == 'darter' else (name, PEERS[name])
        words = [a.format(port=self.port, dir=self.directory, threads=threads) for a in arguments]
        self.log_path = os.path.join(self.directory, 'log')
        with open(self.log_path, 'wb') as log:
            self.process = subprocess.Popen([*on(cpu_list or everything()), *prefix, binary, *words, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory)
        try:
            self.wait_ready()
        except BaseException:
            self.stop()
            raise

    def wait_ready(self):
        deadline = time.monotonic() + READY_S
        while True:
            try:
                with Client(self.port, timeout=2) as c:
                    if not isinstance(c.command('PING'), Error):
                        return
            except (OSError, Closed):
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                with open(self.log_path, errors='replace') as log:
                    raise RuntimeError('%s did not start: %s' % (self.name, log.read()[-1000:]))
            time.sleep(0.02)

    @property
    def pid(self):
        return self.process.pid

    def client(self):
        return Client(self.port, timeout=3600)

    def ask(self, *words):
        """One command on a connection of its own; an error ends the experiment."""
        with self.client() as c:
            reply = c.command(*words)
        if isinstance(reply, Error):
            raise RuntimeError('%s, %s: %s' % (self.name, ' '.join(map(str, words)), reply.decode()))
        return reply

    def fill(self, keys, size):
        try:
            self.ask('DEBUG', 'POPULATE', keys, 'key', size)
        except RuntimeError:
            self.fill_by_mset(self.client(), keys, size)

    @staticmethod
    def fill_by_mset(client, keys, size):
        value = b'x' * size
        with client:
            for start in range(0, keys, 100):
                reply = client.command('MSET', *(word for n in range(start, min(start + 100, keys)) for word in (b'key:%d' % n, value)))
                if isinstance(reply, Error):
                    raise RuntimeError(reply.decode())

    def cpu_s(self):
        """CPU time of all threads, in seconds, to the nanosecond."""
        total, tasks = 0, '/proc/%d/task' % self.pid
        for task in os.listdir(tasks):
            with open('%s/%s/schedstat' % (tasks, task)) as f:
                total += int(f.read().split()[0])
        return total / 1e9

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
