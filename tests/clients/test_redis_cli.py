"""redis-cli in its modes, and with its options. What it does most is in tests/integration/test_basics.py."""

import contextlib
import csv
import json
import os
import pty
import re
import subprocess

import pytest

from resp import encode
from server import PATIENCE


def command_line(server, *arguments):
    return ['redis-cli', '-p', str(server.port), *arguments]


def finish(arguments, text=b'', status=0, env=None):
    """Runs redis-cli to its end with this on its standard input. Returns its output; what it says of errors must be nothing if all went well."""
    done = subprocess.run(arguments, input=text, capture_output=True, timeout=PATIENCE, env=dict(os.environ, **(env or {})))
    assert done.returncode == status and (status or not done.stderr), (done.returncode, done.stdout[-1000:], done.stderr[-1000:])
    return done.stdout + done.stderr


def cli(server, *arguments, **options):
    return finish(command_line(server, *arguments), **options).decode()


@contextlib.contextmanager
def endless(server, *arguments):
    """A mode that goes on until it is ended: gives its standard output."""
    with subprocess.Popen(command_line(server, *arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            yield process.stdout
        finally:
            process.kill()


@pytest.fixture
def filled(server):
    """1000 small keys and a big one in database 0, three in database 2."""
    c = server.client()
    c.command('MSET', *[word for i in range(1000) for word in ('key:%d' % i, 'v' * (i % 50))])
    c.command('SET', 'big', 'x' * 300000)
    c.command('SELECT', 2)
    c.command('MSET', 'a', 1, 'b', 2, 'c d', 3)
    return server


def test_stat(filled):
    # Only a full buffer is written where no terminal is: rounds without a pause fill one soon.
    with endless(filled, '--stat', '-i', '0.001') as out:
        lines = [out.readline().decode() for _ in range(12)]
    assert lines[0].startswith('------- data ------') and re.match(r'keys\s+mem\s+clients\s+blocked\s+requests\s+connections', lines[1])
    shown = [re.fullmatch(r'1004\s+[\d.]+[KM]\s+2\s+0\s+(\d+) \(\+(\d+)\)\s+(\d+)\s*', line) for line in lines[2:]]
    assert all(shown), lines
    requests = [int(line[1]) for line in shown]
    assert requests == list(range(requests[0], requests[0] + len(requests))) and all(int(line[2]) == 1 for line in shown[1:])


def test_bigkeys(filled):
    said = cli(filled, '--bigkeys')
    assert 'Sampled 1001 keys in the keyspace!' in said and '''Biggest string found '"big"' has 300000 bytes''' in said
    size = sum(i % 50 for i in range(1000)) + 300000
    assert '1001 strings with %d bytes' % size in said
    assert 'Sampled 3 keys in the keyspace!' in cli(filled, '-n', '2', '--bigkeys')


def test_memkeys(filled):
    for options in ((), ('--memkeys-samples', '5')):
        said = cli(filled, '--memkeys', *options)
        biggest = re.search(r'''Biggest string found '"big"' has (\d+) bytes''', said)
        assert 'Sampled 1001 keys in the keyspace!' in said and 300000 < int(biggest[1]) < 600000


def test_scan(filled):
    assert sorted(cli(filled, '--scan').split()) == sorted(['big'] + ['key:%d' % i for i in range(1000)])
    assert sorted(cli(filled, '--scan', '--pattern', 'key:99?').split()) == ['key:99%d' % i for i in range(10)]
    assert sorted(cli(filled, '-n', '2', '--scan').splitlines()) == ['a', 'b', 'c d']
    assert cli(filled, '-n', '2', '--scan', '--quoted-pattern', r'"*\x20*"') == 'c d\n'
    assert cli(filled, '--scan', '--pattern', 'nothing*') == ''


def test_pipe_counts_replies_and_errors(server):
    big = os.urandom(5 << 20)
    data = (b''.join(encode('SET', 'mass:%d' % i, i) for i in range(5000)) + encode('SET', 'text', 'abc') + encode('INCR', 'text') + encode('NONSENSE') +
            encode('SET', 'big', big) + b'set inline 1\r\n')
    done = subprocess.run(command_line(server, '--pipe'), input=data, capture_output=True, timeout=PATIENCE)
    assert b'errors: 2, replies: 5005' in done.stdout and done.returncode == 1, done
    assert b'ERR value is not an integer' in done.stderr and b"ERR unknown command 'NONSENSE'" in done.stderr
    c = server.client()
    assert c.command('DBSIZE') == 5003 and c.command('GET', 'big') == big and c.command('GET', 'inline') == b'1'


def test_latency(server):
    least, most, average, samples = map(float, cli(server, '--latency', '-i', '0.2').split())
    assert 0 <= least <= average <= most and samples >= 1
    assert len(cli(server, '--latency', '-i', '0.1', '--csv').split(',')) == 4
    assert len(cli(server, '--latency', '-i', '0.1', '--raw').split()) == 4


def test_latency_history(server):
    with endless(server, '--latency-history', '-i', '0.1', '--no-raw') as out:
        said = b''
        while said.count(b'seconds range\n') < 2:
            said += out.read1()
    assert re.search(rb'min: \d+, max: \d+, avg: [\d.]+ \(\d+ samples\) -- [\d.]+ seconds range', said), said


def test_latency_dist(server):
    with endless(server, '--latency-dist', '-i', '0.1') as out:
        said = b''
        while said.count(b'\x1b[0m\n') < 4:
            said += out.read1()
    assert b'milliseconds' in said


def test_hotkeys_without_lfu_is_a_clear_error(filled):
    assert 'ERR An LFU maxmemory policy is not selected, access frequency not tracked.' in cli(filled, '--hotkeys', status=1)


@pytest.mark.skipif(os.environ.get('DARTER_TEST_SUBJECT') == 'redis', reason='redis-server has them')
def test_what_is_not_there_is_a_clear_error(server, tmp_path):
    path = tmp_path / 'x.rdb'
    said = cli(server, '--rdb', str(path), status=1)
    assert "SYNC with master failed: -ERR unknown command 'SYNC'" in said and not path.exists()
    script = tmp_path / 'script.lua'
    script.write_text('return 1')
    assert cli(server, '--eval', str(script)).startswith("ERR unknown command 'EVAL'")
    for words in (('subscribe', 'x'), ('xadd', 'x', 'y')):
        assert cli(server, *words).startswith("ERR unknown command '%s', with args beginning with: 'x' " % words[0])
    assert cli(server, 'ping') == 'PONG\n'


def test_shapes_of_output(server):
    cli(server, 'mset', 'a', 'x "y"\n', 'b', '2')
    assert next(csv.reader([cli(server, '--csv', 'mget', 'b', 'nothing', 'b').strip()])) == ['2', 'NULL', '2']
    assert json.loads(cli(server, '--json', 'mget', 'a', 'b', 'nothing')) == ['x "y"\n', '2', None]
    assert json.loads(cli(server, '--json', 'config', 'get', 'maxclients')) == {'maxclients': '10000'}
    assert json.loads(cli(server, '-2', '--json', 'config', 'get', 'maxclients')) == ['maxclients', '10000']
    assert json.loads(cli(server, '--quoted-json', 'mget', 'b', 'nothing')) == ['2', None]
    assert json.loads(cli(server, '--json', 'command', 'docs', 'get'))['get']['group'] == 'string'
    assert cli(server, '--no-raw', 'mget', 'a', 'b', 'nothing') == '1) "x \\"y\\"\\n"\n2) "2"\n3) (nil)\n'
    assert cli(server, '-3', '--no-raw', 'config', 'get', 'maxclients') == '1# "maxclients" => "10000"\n'
    assert cli(server, '-d', '|', 'mget', 'b', 'b') == '2|2\n'
    assert cli(server, '--quoted-input', 'set', '"\\x00key"', '"\\xff"') == 'OK\n'
    assert finish(command_line(server, '--quoted-input', 'get', '"\\x00key"')) == b'\xff\n'


def test_sources_of_arguments_and_ways_to_repeat(server):
    assert cli(server, '-x', 'set', 'from-stdin', text=b'bytes\0\r\n') == 'OK\n'
    assert server.client().command('GET', 'from-stdin') == b'bytes\0\r\n'
    assert cli(server, '-X', 'here', 'set', 'named', 'here', 'keepttl', text=b'value') == 'OK\n'
    assert cli(server, 'get', 'named') == 'value\n'
    assert cli(server, '-r', '3', '-i', '0.01', 'incr', 'n').split() == ['1', '2', '3']
    assert cli(server, '-e', 'incr', 'named', status=1).startswith('ERR value is not an integer')
    assert cli(server, text=b'select 3\nset k v\n3 incr n\nselect 0\nexists k\nincr named\n').splitlines() == [
        'OK', 'OK', '1', '2', '3', 'OK', '0', 'ERR value is not an integer or out of range', '']


def test_interactive(server):
    """On a terminal: redis-cli asks for COMMAND DOCS, draws its prompt, and shows hints."""
    parent, child = pty.openpty()
    with subprocess.Popen(command_line(server), stdin=child, stdout=child, stderr=child, env=dict(os.environ, TERM='dumb', HOME=server.directory)) as process:
        os.close(child)
        said = b''

        def until(text):
            nonlocal said
            while text not in said:
                said += os.read(parent, 4096)
            said = said[said.index(text) + len(text):]

        prompt = b'127.0.0.1:%d' % server.port
        try:
            for line, answer in ((b'set greeting "hello world"', b'OK'), (b'get greeting', b'"hello world"'), (b'get nothing', b'(nil)'),
                                 (b'incr greeting', b'(error) ERR value is not an integer'), (b'hello 3', b'"proto" => (integer) 3'),
                                 (b'help strlen', b'Get the length of the value'), (b'select 5', b'OK')):
                until(prompt)
                os.write(parent, line + b'\n')
                until(answer)
            until(prompt + b'[5]> ')
            os.write(parent, b'quit\n')
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            os.close(parent)


def test_ways_to_connect(start, tmp_path):
    path = str(tmp_path / 'socket')
    server = start(options=[('unixsocket', path), ('requirepass', 'secret-1')])
    assert finish(['redis-cli', '-s', path, '-a', 'secret-1', '--no-auth-warning', 'ping']) == b'PONG\n'
    assert finish(['redis-cli', '-s', path, 'ping']) == b'NOAUTH Authentication required.\n\n'
    assert cli(server, 'ping', env={'REDISCLI_AUTH': 'secret-1'}) == 'PONG\n'
    assert cli(server, '--user', 'default', '--pass', 'secret-1', '--no-auth-warning', 'ping') == 'PONG\n'
    assert finish(['redis-cli', '-u', 'redis://default:secret-1@127.0.0.1:%d/3' % server.port, '--no-auth-warning', 'set', 'k', 'v']) == b'OK\n'
    assert cli(server, '-n', '3', '-3', '-a', 'secret-1', '--no-auth-warning', 'get', 'k') == 'v\n'
    assert 'AUTH failed: WRONGPASS' in cli(server, '-a', 'wrong', '--no-auth-warning', '-e', 'ping', status=1)
    assert cli(server, 'auth', 'secret-1') == 'OK\n'
    assert cli(server, text=b'ping\nauth secret-1\nping\n').splitlines() == ['NOAUTH Authentication required.', '', 'OK', 'PONG']


def test_monitor(server):
    with endless(server, 'monitor') as out:
        assert out.readline() == b'OK\n'
        cli(server, 'set', 'watched', 'a "b"')
        line = out.readline()
        while b'"set"' not in line:
            line = out.readline()
    assert re.fullmatch(rb'\d+\.\d{6} \[0 127\.0\.0\.1:\d+\] "set" "watched" "a \\"b\\""\n', line), line
