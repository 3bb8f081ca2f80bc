"""Memory that the system refuses while an answer is put together: an error, and the server goes on."""

import os
import resource

import configurations
import pytest
from resp import Error

ROOM = 40 << 20     # beside what the process has mapped already: less than the answer needs


def mapped(pid):
    with open('/proc/%d/statm' % pid) as f:
        return int(f.read().split()[0]) * os.sysconf('SC_PAGE_SIZE')


@pytest.mark.skipif(configurations.LIGHT, reason='a sanitizer maps more than any limit allows')
def test_keys_whose_text_is_refused(start):
    server = start(options=[('enable-debug-command', 'yes')])
    c = server.client()
    assert c.command('DEBUG', 'POPULATE', 200000, 'p' * 480) == b'OK'
    limits = resource.prlimit(server.process.pid, resource.RLIMIT_AS)
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (mapped(server.process.pid) + ROOM, limits[1]))
    reply = c.command('KEYS', '*')
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, limits)
    assert isinstance(reply, Error) and reply.startswith(b'OOM')
    assert c.command('PING') == b'PONG' and c.command('KEYS', 'p*:199999') == [b'p' * 480 + b':199999']
