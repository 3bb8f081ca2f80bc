"""LATENCY: the monitor's events, and histograms of commands."""

import time

from resp import Error, Map


def spiky(start):
    server = start(options=[('enable-debug-command', 'yes'), ('latency-monitor-threshold', '20')])
    c = server.client()
    c.command('DEBUG', 'SLEEP', '0.03')
    c.command('DEBUG', 'SLEEP', '0.06')
    c.command('CONFIG', 'SET', 'latency-monitor-threshold', 10 ** 6)
    return server, c


def test_events_and_their_history(start):
    for _ in range(10):     # on a machine that takes the CPU away other commands are slow as well
        server, c = spiky(start)
        if len(c.command('LATENCY', 'LATEST')) == 1 and len(c.command('LATENCY', 'HISTORY', 'command')) <= 2:
            break
    [[name, at, latest, worst]] = c.command('LATENCY', 'LATEST')
    assert name == b'command' and abs(at - time.time()) < 100 and 20 <= latest <= worst and 50 <= worst < 30000
    history = c.command('LATENCY', 'HISTORY', 'command')
    assert 1 <= len(history) <= 2 and max(ms for _, ms in history) == worst
    assert c.command('LATENCY', 'HISTORY', 'fast-command') == [] and c.command('LATENCY', 'HISTORY', 'nonsense') == []
    assert c.command('LATENCY', 'GRAPH', 'command').startswith(b'command - high %d ms, low ' % worst)
    assert c.command('LATENCY', 'GRAPH', 'nonsense') == b"ERR No samples available for event 'nonsense'"
    assert b'command: ' in c.command('LATENCY', 'DOCTOR')
    assert c.command('LATENCY', 'RESET', 'nonsense') == 0 and c.command('LATENCY', 'RESET') == 1 and c.command('LATENCY', 'LATEST') == []


def test_nothing_is_kept_below_the_threshold(start):
    server = start(options=[('enable-debug-command', 'yes')])
    c = server.client()
    c.command('DEBUG', 'SLEEP', '0.03')
    assert c.command('LATENCY', 'LATEST') == [] and b'disabled' in c.command('LATENCY', 'DOCTOR')
    c.command('CONFIG', 'SET', 'latency-monitor-threshold', 10000)
    c.command('DEBUG', 'SLEEP', '0.03')
    assert c.command('LATENCY', 'LATEST') == []


def test_histograms_count_every_call(server):
    c = server.client()
    c.pipeline([('SET', 'k:%d' % n, n) for n in range(2000)])
    c.command('CONFIG', 'GET', 'port')
    c.command('HELLO', 3)
    reply = c.command('LATENCY', 'HISTOGRAM', 'set', 'config', 'nonsense')
    assert isinstance(reply, Map)
    found = {bytes(k): {bytes(f): v for f, v in fields} for k, fields in reply}
    assert set(found) == {b'set', b'config|get'}
    assert found[b'set'][b'calls'] == 2000
    buckets = found[b'set'][b'histogram_usec']
    assert [k for k, _ in buckets] == sorted(k for k, _ in buckets) and [v for _, v in buckets] == sorted(v for _, v in buckets)
    assert buckets[-1][1] == 2000 and found[b'config|get'][b'histogram_usec'][-1][1] == 1
    assert {bytes(k) for k, _ in c.command('LATENCY', 'HISTOGRAM')} >= {b'set', b'hello'}


def test_help_and_errors_are_those_of_redis(server, reference):
    a, b = reference.client(), server.client()
    for words in (('HELP',), ('nonsense',), ('GRAPH',), ('GRAPH', 'x')):
        assert a.command('LATENCY', *words) == b.command('LATENCY', *words), words
    assert isinstance(b.command('LATENCY', 'LATEST', 'x'), Error)
