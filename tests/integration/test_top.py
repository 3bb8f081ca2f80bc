"""tools/top: one frame, and a live view in a terminal."""

import os
import pty
import select
import subprocess
import time

from server import PATIENCE, ROOT

TOP = os.path.join(ROOT, 'tools', 'top')


def once(server):
    return subprocess.run([TOP, '127.0.0.1:%d' % server.port, '--once'], capture_output=True, text=True, timeout=PATIENCE)


def test_one_frame(server):
    server.client().pipeline([('SET', 'k:%d' % n, n) for n in range(100)])
    out = once(server)
    assert out.returncode == 0 and not out.stderr, out.stderr
    lines = out.stdout.splitlines()
    assert lines[0].startswith('darter ') and any(x.startswith('requests/s') for x in lines) and any(x.startswith('thread ') for x in lines) and any(x.startswith('set ') for x in lines)
    assert any(x.startswith('keys       100 ') for x in lines)


def test_a_frame_of_redis_has_no_threads(reference):
    out = once(reference)
    assert out.returncode == 0 and out.stdout.startswith('redis ') and '\nthread ' not in out.stdout


def test_a_server_that_is_not_there(server):
    out = subprocess.run([TOP, '127.0.0.1:1', '--once'], capture_output=True, text=True, timeout=PATIENCE)
    assert out.returncode == 1 and 'refused' in out.stderr and 'Traceback' not in out.stderr


def test_live_view_redraws_in_place(server):
    pid, terminal = pty.fork()
    if not pid:
        os.environ['TERM'] = 'xterm'
        os.execv(TOP, [TOP, '127.0.0.1:%d' % server.port, '--every', '0.2'])
    text, deadline = b'', time.monotonic() + PATIENCE
    while text.count(b'\x1b[H') < 4 and time.monotonic() < deadline:
        if select.select([terminal], [], [], .1)[0]:
            text += os.read(terminal, 65536)
    os.write(terminal, b'q')
    while True:
        try:
            more = os.read(terminal, 65536)
        except OSError:
            break
        if not more:
            break
        text += more
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    # The screen is never cleared: frames are drawn over each other, and at the end the old screen is back.
    assert text.count(b'\x1b[H') >= 4 and b'\x1b[2J' not in text and text.endswith(b'\x1b[?25h\x1b[?1049l') and b'requests/s' in text
