"""redis-benchmark's default run, as far as there are commands for it; whether it ends and reports, not how fast it is."""

import csv
import subprocess

import pytest

from server import PATIENCE

# The names that -t takes, and those that the reports have.
TESTS = 'ping_inline,ping_mbulk,set,get,incr,mset'
NAMES = ['PING_INLINE', 'PING_MBULK', 'SET', 'GET', 'INCR', 'MSET (10 keys)']


def benchmark(arguments):
    done = subprocess.run(['redis-benchmark', *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    said = done.stdout + done.stderr
    expected = 'WARNING: Keepalive disabled.' in done.stderr and '-k' in arguments
    assert done.returncode == 0 and 'Error' not in said and ('WARN' not in said or expected), said[-2000:]
    return done.stdout


@pytest.mark.parametrize('options', [(), ('-P', '16'), ('-P', '16', '--threads', '2'), ('-P', '4', '-3', '-d', '20000', '-r', '100'), ('-k', '0', '-c', '10')], ids=' '.join)
def test_default_run(server, options):
    requests = 300 if '-k' in options or '-d' in options else 2000
    said = benchmark(['-p', str(server.port), '-t', TESTS, '-n', str(requests), '--csv', *options])
    rows = list(csv.DictReader(said.splitlines()))
    assert [row['test'] for row in rows] == NAMES and all(float(row['rps']) > 0 for row in rows)
    assert int(server.client().command('GET', 'counter:__rand_int__') if '-r' not in options else requests) >= requests


def test_report_names_the_configuration(server):
    """It asks for CONFIG GET save and appendonly, and shows them."""
    said = benchmark(['-p', str(server.port), '-t', 'set', '-n', '1000'])
    assert 'host configuration "save": ' in said and 'host configuration "appendonly": no' in said and 'throughput summary' in said


def test_a_command_of_ones_own(start, tmp_path):
    path = str(tmp_path / 'socket')
    server = start(options=[('unixsocket', path), ('requirepass', 'secret')])
    said = benchmark(['-s', path, '-a', 'secret', '-n', '2000', '-r', '1000000', '-q', 'set', 'key:__rand_int__', 'value'])
    assert 'requests per second' in said
    c = server.client()
    c.command('AUTH', 'secret')
    assert 1900 < c.command('DBSIZE') <= 2000
