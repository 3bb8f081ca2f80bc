"""MONITOR: what others do, as they do it."""

import re
import time

import pytest

from resp import Closed, Simple
from server import PATIENCE

LINE = re.compile(rb'^(\d+)\.(\d{6}) \[(\d+) ([^\]]+)\] (.*)$', re.DOTALL)


def watch(server):
    c = server.client()
    assert c.command('MONITOR') == b'OK'
    return c


def lines_until(c, last):
    found = []
    while not found or last not in found[-1]:
        line = c.read()
        assert isinstance(line, Simple) and LINE.match(line), line
        found.append(bytes(LINE.match(line).group(5)))
    return found


def test_lines_are_those_of_redis(server, reference):
    seen = []
    for s in (reference, server):
        m, c = watch(s), s.client()
        for words in (('set', b'a\n\r\t\a\b\x00\x01"\\\xff', 'v'), ('GET', 'a b'), ('auth', 'nobody', 'sesame'), ('hello', '2', 'auth', 'default', 'sesame', 'setname', 'me'), ('CONFIG', 'GET', 'port'),
                      ('nonsense', 'x'), ('get',), ('select', 3), ('ping',), ('mset', 'a', 1, 'b', 2, 'c', 3), ('dbsize',), ('object', 'encoding', 'a'), ('slowlog', 'help'), ('echo', 'last')):
            c.command(*words)
        seen.append(lines_until(m, b'"last"'))
    assert seen[0] == seen[1]


def test_all_threads_are_seen_and_in_order(server):
    monitors = [watch(server) for _ in range(4)]
    clients = [server.client() for _ in range(8)]
    for n, c in enumerate(clients):
        c.pipeline([('SET', 'k:%d:%d' % (n, i), i) for i in range(300)])
    wanted = {n: [b'"SET" "k:%d:%d" "%d"' % (n, i, i) for i in range(300)] for n in range(8)}
    for m in monitors:
        got = {n: [] for n in range(8)}
        for _ in range(8 * 300):
            line = LINE.match(m.read()).group(5)
            got[int(line.split(b':')[1])].append(bytes(line))
        assert got == wanted


def test_reset_and_leaving_end_it(server):
    m, other, c = watch(server), watch(server), server.client()
    c.command('SET', 'a', 1)
    assert b'"SET" "a"' in m.read()
    assert m.command('RESET') == b'RESET'
    other.close()
    for n in range(200):
        c.command('SET', 'b', n)
    d = server.client()
    assert d.command('PING') == b'PONG'


@pytest.mark.alone
def test_one_that_does_not_read_is_closed(start):
    server = start(options=[('client-output-buffer-limit', 'replica', '1mb', '0', '0')])
    m, c = server.client(), server.client()
    number = m.command('CLIENT', 'ID')
    assert m.command('MONITOR') == b'OK'
    deadline = time.monotonic() + PATIENCE
    value = 'v' * 10000
    while c.command('CLIENT', 'LIST', 'ID', number):
        c.pipeline([('SET', 'k', value)] * 200)
        assert time.monotonic() < deadline
    with pytest.raises((Closed, OSError)):
        while True:
            m.read()
