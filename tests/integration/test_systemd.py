"""The package under a systemd of its own: started, notified of, restarted with its data, started again after a kill and by the watchdog, and by its socket.

That systemd is process 1 of new namespaces, over a copy-on-write view of this machine's root; nothing outside is touched. Run by `tools/test package`, as root.
"""

import os
import re
import signal
import subprocess
import time

import pytest

from server import PATIENCE
from test_package import package, run  # noqa: F401  (a fixture)

pytestmark = [pytest.mark.skipif(os.environ.get('DARTER_TEST_PACKAGE') != '1', reason='only by tools/test package'), pytest.mark.alone,
              pytest.mark.skipif(os.getuid() != 0, reason='makes namespaces, so it needs root'), pytest.mark.limit(600)]

# Process 1 of the new namespaces becomes systemd.
BEGIN = r'''
set -e
mount -t tmpfs tmpfs "$1"; mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cp "$2" "$1/root/root/darter.deb"
cd "$1/root"
mount -t proc proc proc; mount --rbind /sys sys; mount --rbind /dev dev; mount -t tmpfs tmpfs run; mount -t tmpfs tmpfs tmp
# /dev is the machine's own: nothing is made there.
for unit in systemd-journald-dev-log.socket systemd-initctl.socket systemd-tmpfiles-setup-dev.service; do ln -s /dev/null etc/systemd/system/$unit; done
echo ready >&3; exec 3>&-
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot . /lib/systemd/systemd --system --unit=multi-user.target
'''
DROP_IN = r'mkdir -p /run/systemd/system/darter.service.d && printf "[Service]\nWatchdogSec=3\n" > /run/systemd/system/darter.service.d/watchdog.conf && systemctl daemon-reload'


def happens(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(.1)
    return True


def eventually(what, condition):
    assert happens(condition), what


class System:
    def __init__(self, directory, deb):
        told, tell = os.pipe()
        self.process = subprocess.Popen(['unshare', '--mount', '--pid', '--fork', '--kill-child', '--cgroup', '--net', '--uts', 'bash', '-c', 'exec 3>&%d %d>&-; %s' % (tell, tell, BEGIN), 'bash', str(directory), deb],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=[tell])
        os.close(tell)
        with os.fdopen(told) as f:
            self.up = f.readline() == 'ready\n'
        if not self.up:
            self.why = self.process.stderr.read().decode()
            self.process.wait()
            return
        with open('/proc/%d/task/%d/children' % (self.process.pid, self.process.pid)) as f:
            self.first = int(f.read().split()[0])

    def try_run(self, command):
        return subprocess.run(['nsenter', '-t', str(self.first), '--mount', '--pid', '--cgroup', '--net', '--uts', '--root', '--wd', 'bash', '-c', command],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, command):
        done = self.try_run(command)
        assert done.returncode == 0, '%s: %s' % (command, done.stdout)
        return done.stdout.strip()

    def redis(self, words):
        return self.try_run('redis-cli ' + words).stdout.strip()

    def property(self, name):
        return self.run('systemctl show darter -p %s --value' % name)

    def end(self):
        if self.process.poll() is None:
            os.kill(self.first, signal.SIGKILL)
        self.process.wait()
        self.process.stderr.close()


@pytest.fixture
def system(package, tmp_path):  # noqa: F811
    s = System(tmp_path, package)
    if not s.up:
        pytest.skip('no namespaces here: ' + s.why[-200:])
    try:
        if not happens(lambda: s.try_run('systemctl is-active multi-user.target').stdout.strip() == 'active'):
            pytest.skip('systemd does not come up in namespaces here')
        s.run('dpkg -i /root/darter.deb')
        yield s
    finally:
        s.end()


def restarted(s, times):
    eventually('restart %d' % times, lambda: s.property('NRestarts') == str(times) and s.property('ActiveState') == 'active')
    eventually('an answer', lambda: s.redis('ping') == 'PONG')


def test_systemd_runs_it(system):
    s = system
    assert s.run('systemctl is-enabled darter') == 'enabled'
    s.run('systemctl start darter')  # returns when the server has said that it is ready
    assert s.redis('ping') == 'PONG'
    assert s.property('StatusText') == 'Ready to accept connections'
    assert s.run('stat -c "%U %a" /var/lib/darter /run/darter /var/log/darter') == 'darter 750\ndarter 755\ndarter 750'

    assert [s.redis('set kept 1'), s.redis('rpush list a b')] == ['OK', '2']
    s.run('systemctl restart darter')
    assert [s.redis('get kept'), s.redis('lrange list 0 -1')] == ['1', 'a\nb']
    s.run('systemctl reload darter')
    assert s.redis('get kept') == '1'
    assert s.run('ls /var/lib/darter') == 'dump.rdb'

    s.run('kill -9 ' + s.property('MainPID'))
    restarted(s, 1)
    assert s.redis('get kept') == '1'

    s.run(DROP_IN)
    s.run('systemctl restart darter')
    time.sleep(4)  # longer than the watchdog's time: a server that ticks is let alone
    assert s.property('NRestarts') == '0' and s.redis('get kept') == '1'
    s.run('kill -STOP ' + s.property('MainPID'))
    restarted(s, 1)
    assert s.redis('get kept') == '1'

    s.run('systemctl stop darter && systemctl start darter.socket')
    assert s.try_run('systemctl is-active darter').stdout.strip() == 'inactive'
    eventually('the socket starts it', lambda: s.redis('get kept') == '1')
    assert s.run('systemctl is-active darter') == 'active'
    assert re.search('Overall exposure level.*: [01][.]', s.run('systemd-analyze security darter --no-pager'))


def test_a_server_that_cannot_start_is_a_failed_unit(system):
    s = system
    s.run('echo "port many" >> /etc/darter/darter.conf')
    assert s.try_run('systemctl start darter').returncode
    eventually('systemd gives it up', lambda: s.property('ActiveState') == 'failed')
    assert 'port many' in s.run('journalctl -u darter --no-pager')
