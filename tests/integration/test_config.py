"""Directives: from the command line, from a file, by CONFIG; and what is said about wrong ones."""

import re
import subprocess

import pytest

from resp import Error
from server import darter_binary


def get(c, name):
    reply = c.command('CONFIG', 'GET', name)
    return dict(zip(reply[::2], reply[1::2]))


def test_command_line(start):
    server = start(options=[('maxclients', 123), ('timeout', 7), ('tcp-keepalive', 60), ('client-query-buffer-limit', '2mb'), ('databases', 4), ('requirepass', 'a b')])
    c = server.client()
    assert c.command('AUTH', 'a b') == b'OK'
    for name, value in ((b'maxclients', b'123'), (b'timeout', b'7'), (b'tcp-keepalive', b'60'), (b'client-query-buffer-limit', b'2097152'), (b'databases', b'4'), (b'requirepass', b'a b'),
                        (b'port', b'%d' % server.port)):
        assert get(c, name) == {name: value}
    assert c.command('SELECT', 3) == b'OK' and isinstance(c.command('SELECT', 4), Error)


CONFIG = '''
# A remark, and an empty line:

port {port}
DIR {dir}
   timeout   11
maxclients 500
requirepass "se\\x41cret"
client-output-buffer-limit normal 100mb 50mb 10
save ""
'''


def test_configuration_file(start):
    server = start(config=CONFIG)
    c = server.client()
    assert c.command('AUTH', 'seAcret') == b'OK'
    assert get(c, 'timeout') == {b'timeout': b'11'} and get(c, 'maxclients') == {b'maxclients': b'500'}
    assert get(c, 'client-output-buffer-limit')[b'client-output-buffer-limit'].startswith(b'normal 104857600 52428800 10')
    assert b'config_file:%s/test.conf\r\n' % server.directory.encode() in c.command('INFO', 'server')


def test_arguments_win_over_the_file(start):
    server = start(config=CONFIG, options=[('timeout', 5), ('requirepass', 'other')])
    c = server.client()
    assert c.command('AUTH', 'other') == b'OK'
    assert get(c, 'timeout') == {b'timeout': b'5'} and get(c, 'maxclients') == {b'maxclients': b'500'}


@pytest.mark.each_back_end
@pytest.mark.parametrize('wrong', ['nonsense 1', 'port', 'timeout abc', 'timeout 1 2', 'maxclients 0', 'timeout "1', 'client-output-buffer-limit normal 1', 'enable-debug-command perhaps',
                                   'port 70000'])
def test_a_wrong_line_is_named(start, wrong):
    server = start(config='timeout 3\n%s\n' % wrong, wait=False, tolerate_faults=True)
    assert server.wait_end() != 0
    log = server.log()
    assert re.search('line 2|:2', log) and wrong.split()[0] in log, log


@pytest.mark.each_back_end
@pytest.mark.parametrize('wrong', [('nonsense', '1'), ('timeout', 'abc'), ('timeout',), ('io', 'magic'), ('threads', '-1'), ('maxclients', '0')])
def test_a_wrong_argument_is_named(start, wrong):
    server = start(options=[wrong], wait=False, tolerate_faults=True)
    if server.kind == 'redis' and wrong[0] in ('io', 'threads', 'timeout') and len(wrong) > 1:
        server.wait_end()
        return
    assert server.wait_end() != 0
    assert wrong[0] in server.log()


def test_a_missing_file_is_named():
    done = subprocess.run([darter_binary(), '/nonexistent/darter.conf'], capture_output=True, text=True, timeout=20)
    assert done.returncode != 0 and '/nonexistent/darter.conf' in done.stdout + done.stderr


def test_version_and_help():
    for argument, wanted in (('--version', 'arter'), ('-v', 'arter'), ('--help', '--port')):
        done = subprocess.run([darter_binary(), argument], capture_output=True, text=True, timeout=20)
        assert done.returncode == 0 and wanted in done.stdout, done


def test_config_get_patterns(server):
    c = server.client()
    assert get(c, 'nothing-of-this-name') == {}
    several = get(c, 'tcp-*')
    assert {b'tcp-backlog', b'tcp-keepalive'} <= several.keys()
    assert {name.lower() for name in get(c, 'TIMEOUT')} == {b'timeout'}
    both = c.command('CONFIG', 'GET', 'timeout', 'maxclients', 'time*')
    assert sorted(both[::2]) == [b'maxclients', b'timeout']
    everything = get(c, '*')
    assert {b'bind', b'port', b'maxclients', b'timeout', b'requirepass', b'databases', b'proto-max-bulk-len', b'client-output-buffer-limit', b'save', b'appendonly', b'maxmemory'} <= everything.keys()


def test_config_set_takes_hold(server):
    c = server.client()
    assert c.command('CONFIG', 'SET', 'timeout', '100', 'maxclients', '200') == b'OK'
    assert get(c, 'timeout') == {b'timeout': b'100'} and get(c, 'maxclients') == {b'maxclients': b'200'}
    assert c.command('CONFIG', 'SET', 'proto-max-bulk-len', '1mb') == b'OK'
    c.send(b'*2\r\n$4\r\nECHO\r\n$1048577\r\n')
    assert c.read_to_end() == (b'-ERR Protocol error: invalid bulk length\r\n', True)
    for value in ('1k', '1kb', '2G', '100', '3mb'):
        assert server.client().command('CONFIG', 'SET', 'maxmemory', value) == b'OK'
    assert get(server.client(), 'maxmemory') == {b'maxmemory': b'3145728'}


def test_config_set_is_all_or_nothing(server):
    c = server.client()
    reply = c.command('CONFIG', 'SET', 'timeout', '55', 'maxclients', 'abc')
    assert isinstance(reply, Error)
    assert get(c, 'timeout') == {b'timeout': b'0'}


# What is said about wrong arguments, compared with redis-server. (Not where a bound is named: the bounds are each server's own.)
WRONG = [('CONFIG',), ('CONFIG', 'SET'), ('CONFIG', 'SET', 'timeout'), ('CONFIG', 'SET', 'nonsense', '1'), ('CONFIG', 'SET', 'timeout', 'abc'), ('CONFIG', 'SET', 'timeout', '-1'),
         ('CONFIG', 'SET', 'timeout', ''), ('CONFIG', 'SET', 'timeout', '1', 'timeout', '2'), ('CONFIG', 'SET', 'timeout', '1', 'nonsense', '2'), ('CONFIG', 'SET', 'appendfsync', 'sometimes'),
         ('CONFIG', 'SET', 'maxmemory', 'abc'), ('CONFIG', 'SET', 'maxmemory', '10xb'), ('CONFIG', 'SET', 'databases', '3'), ('CONFIG', 'SET', 'enable-debug-command', 'yes'),
         ('CONFIG', 'SET', 'client-output-buffer-limit', 'normal 1'), ('CONFIG', 'SET', 'client-output-buffer-limit', 'nobody 1 1 1'), ('CONFIG', 'SET', 'lazyfree-lazy-expire', 'perhaps'),
         ('CONFIG', 'GET'), ('CONFIG', 'NONSENSE'), ('CONFIG', 'RESETSTAT', 'x'), ('CONFIG', 'SET', 'timeout', '99999999999999999999')]


def test_errors_are_those_of_redis(server, reference):
    a, b = reference.client(), server.client()
    wrong = []
    for command in WRONG:
        expected, got = a.command(*command), b.command(*command)
        # A refused value is told, behind Redis' text.
        if type(expected) is not type(got) or got[:len(expected)] != expected or (got != expected and not got[len(expected):].startswith(b' (got "')):
            wrong.append('%s\n   expected %r\n   got      %r' % (' '.join(command), expected, got))
    assert not wrong, '\n'.join(wrong)


def test_config_resetstat(server):
    c = server.client()
    c.pipeline([('SET', 'a', 1), ('GET', 'a'), ('GET', 'b')])
    assert int(server.info('stats')['keyspace_hits']) == 1
    assert c.command('CONFIG', 'RESETSTAT') == b'OK'
    stats = server.info('stats')
    assert stats['keyspace_hits'] == '0' and stats['keyspace_misses'] == '0' and int(stats['total_commands_processed']) <= 2
