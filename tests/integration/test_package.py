"""The Debian package: builds, is clean by lintian, has its files where Debian expects them, installs, and serves with its own configuration.

Slow, and it installs a package on this machine (and removes it): run by `tools/test package`.
"""

import glob
import os
import re
import shutil
import socket
import subprocess
import time

import pytest

from resp import Client
from server import PATIENCE, ROOT, free_port
from test_service import dead_links, documents

pytestmark = [pytest.mark.skipif(os.environ.get('DARTER_TEST_PACKAGE') != '1', reason='only by tools/test package'), pytest.mark.alone]

EXPECTED = {
    '/etc/darter/darter.conf', '/etc/logrotate.d/darter', '/usr/bin/darter', '/usr/bin/darter-bench', '/usr/lib/sysusers.d/darter.conf', '/usr/lib/tmpfiles.d/darter.conf',
    '/usr/share/man/man1/darter.1.gz', '/usr/share/man/man1/darter-bench.1.gz', '/usr/share/man/man5/darter.conf.5.gz', '/usr/share/doc/darter/copyright',
}


def run(*command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    assert done.returncode == 0, '%s: status %d\n%s' % (' '.join(command), done.returncode, done.stdout[-8000:])
    return done.stdout


@pytest.fixture(scope='module')
def package(tmp_path_factory):
    """The package, built from what git knows of the tree as it is, in a folder of its own."""
    directory = tmp_path_factory.mktemp('package')
    source = directory / 'source'
    for name in run('git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard', cwd=ROOT).split('\0'):
        if name and os.path.isfile(os.path.join(ROOT, name)):
            os.makedirs(os.path.dirname(source / name), exist_ok=True)
            shutil.copy2(os.path.join(ROOT, name), source / name)
    env = dict(os.environ, DEB_BUILD_OPTIONS='parallel=%d' % len(os.sched_getaffinity(0)))
    for name in ('CC', 'CFLAGS', 'LDFLAGS'):
        env.pop(name, None)
    run('dpkg-buildpackage', '-us', '-uc', '-b', cwd=source, env=env)
    [deb] = [f for f in glob.glob(str(directory / 'darter_*.deb'))]
    return deb


@pytest.mark.limit(900)
def test_it_builds_and_lintian_has_nothing_to_say(package):
    [changes] = glob.glob(os.path.join(os.path.dirname(package), '*.changes'))
    said = run('lintian', '--allow-root', '--fail-on', 'error,warning', changes)
    assert not re.search('^[EW]:', said, re.M), said


def test_files_are_where_debian_expects_them(package):
    files = {line.split()[-1].lstrip('.') for line in run('dpkg-deb', '-c', package).splitlines() if not line.endswith('/')}
    assert EXPECTED <= files, EXPECTED - files
    for unit in ('darter.service', 'darter.socket'):
        assert {'/lib/systemd/system/' + unit, '/usr/lib/systemd/system/' + unit} & files
    assert not [f for f in files if f.startswith('/usr/local')]
    assert '/etc/darter/darter.conf' in run('dpkg-deb', '--info', package, 'conffiles')


def test_documents_lead_to_one_another(package, tmp_path):
    run('dpkg-deb', '-x', package, str(tmp_path))
    docs = tmp_path / 'usr/share/doc/darter'
    assert {'README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'LICENSE', 'copyright', 'docs/operations.md', 'docs/commands.md'} <= documents(docs)
    assert dead_links(docs) == []


def ping(port):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with Client(port) as c:
                return c.command('PING')
        except OSError:
            assert time.monotonic() < end, 'no server on port %d' % port
            time.sleep(.05)


def in_use(port):
    with socket.socket() as s:
        return s.connect_ex(('127.0.0.1', port)) == 0


@pytest.mark.limit(300)
@pytest.mark.skipif(os.getuid() != 0, reason='installs, so it needs root')
@pytest.mark.skipif(os.path.exists('/usr/bin/darter') or in_use(6379), reason='a server is installed here, or runs, that this test must not touch')
def test_it_installs_and_serves(package, tmp_path):
    run('dpkg', '-i', package)
    try:
        # As the service starts it, with the configuration that was installed.
        command = re.search(r'^ExecStart=(.+)$', run('cat', *glob.glob('/lib/systemd/system/darter.service')), re.M)[1].split()
        assert run('id', '-un', 'darter').strip() == 'darter'
        run('systemd-analyze', 'verify', '--man=no', '/lib/systemd/system/darter.service')
        if os.path.isdir('/run/systemd/system'):
            assert ping(6379) == b'PONG'
            assert run('systemctl', 'is-active', 'darter').strip() == 'active'
        port = free_port()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            path = '/run/darter/test-notify'
            s.bind(path)
            os.chmod(path, 0o777)
            s.settimeout(PATIENCE)
            process = subprocess.Popen(['setpriv', '--reuid=darter', '--regid=darter', '--clear-groups', *command, '--port', str(port)],
                                       env={'PATH': os.environ['PATH'], 'NOTIFY_SOCKET': path}, cwd='/')
            try:
                while b'READY=1' not in s.recv(4096):
                    pass
                assert ping(port) == b'PONG'
                assert os.readlink('/proc/%d/cwd' % process.pid) == '/var/lib/darter'
                process.terminate()
                assert process.wait(PATIENCE) == 0
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
                os.unlink(path)
    finally:
        run('dpkg', '--purge', 'darter')
    assert not os.path.exists('/usr/bin/darter') and not os.path.exists('/etc/darter/darter.conf')
