"""Directives: from the command line, from a file, by CONFIG; and what is said about wrong ones."""

import os
import re
import signal
import socket
import subprocess
import time

import pytest

from resp import NIL, NIL_ARRAY, Error, Map, encode
from server import PATIENCE, ROOT, Server, darter_binary


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
    done = subprocess.run([darter_binary(), '/nonexistent/darter.conf'], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode != 0 and '/nonexistent/darter.conf' in done.stdout + done.stderr


def test_version_and_help():
    for argument, wanted in (('--version', 'arter'), ('-v', 'arter'), ('--help', '--port')):
        done = subprocess.run([darter_binary(), argument], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0 and wanted in done.stdout, done
    assert '--io (auto): auto, uring, epoll\n' in done.stdout and '`' not in done.stdout
    assert 'key-load-delay' not in done.stdout  # hidden ones are for tests and for measuring


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


def test_config_set_is_in_force_for_the_rest_of_its_pipeline(server):
    c = server.client()
    for n in range(1, 50):
        assert c.pipeline([('SET', 'a', n), ('CONFIG', 'SET', 'timeout', 100 + n), ('CONFIG', 'GET', 'timeout'), ('GET', 'a')]) == [b'OK', b'OK', [b'timeout', b'%d' % (100 + n)], b'%d' % n]


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
         ('CONFIG', 'GET'), ('CONFIG', 'NONSENSE'), ('CONFIG', 'RESETSTAT', 'x'), ('CONFIG', 'SET', 'timeout', '99999999999999999999'),
         ('CONFIG', 'SET', 'timeout', '1', 'maxclients'), ('CONFIG', 'SET', 'timeout', 'abc', 'nonsense', '1'), ('CONFIG', 'SET', 'databases', '1', 'nonsense', '1'), ('CONFIG', 'SET', 'timeout', '007'),
         ('CONFIG', 'SET', 'timeout', '+1'), ('CONFIG', 'SET', 'slave-priority', 'x'), ('CONFIG', 'SET', 'Slave-Priority', 'x'), ('CONFIG', 'SET', 'maxmemory-clients', '101%'),
         ('CONFIG', 'SET', 'maxmemory-clients', 'x'), ('CONFIG', 'SET', 'save', '1'), ('CONFIG', 'SET', 'notify-keyspace-events', 'W'), ('CONFIG', 'SET', 'dir', 'x'),
         ('CONFIG', 'SET', 'latency-tracking-info-percentiles', 'x'), ('CONFIG', 'SET', 'latency-tracking-info-percentiles', '101'), ('CONFIG', 'SET', 'oom-score-adj-values', '1 2'),
         ('CONFIG', 'SET', 'oom-score-adj-values', '1 2 x'), ('CONFIG', 'SET', 'proc-title-template', '{x}'), ('CONFIG', 'SET', 'proc-title-template', ' {title} '), ('CONFIG', 'SET', 'cluster-announce-hostname', 'a_b'),
         ('CONFIG', 'SET', 'replicaof', 'a 1'), ('CONFIG', 'SET', 'propagation-error-behavior', 'x'), ('CONFIG', 'SET', 'acl-pubsub-default', 'x'), ('CONFIG', 'SET', 'oom-score-adj', 'x'),
         ('CONFIG', 'SET', 'sanitize-dump-payload', 'x'), ('CONFIG', 'SET', 'repl-diskless-load', 'x'), ('CONFIG', 'SET', 'cluster-preferred-endpoint-type', 'x'),
         ('CONFIG', 'SET', 'hll-sparse-max-bytes', '99999999999999999999'), ('CONFIG', 'SET', 'hll-sparse-max-bytes', '9999999999999999gb'), ('CONFIG', 'SET', 'hll-sparse-max-bytes', '-1'),
         ('CONFIG', 'SET', 'tls-auth-clients', 'x'), ('CONFIG', 'SET', 'shutdown-on-sigint', 'x'), ('CONFIG', 'SET', 'maxmemory-policy', 'x'), ('CONFIG', 'REWRITE')]


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


# ---- the table: what docs/configuration.md says of each directive ----

DOCUMENT = os.path.join(ROOT, 'docs', 'configuration.md')


def documented():
    """{name: (alias, default, values, settable)}, from the document that is made from the table."""
    rows = {}
    with open(DOCUMENT) as f:
        for line in f:
            found = re.match(r'\| `([^`]+)`(?: \(also `([^`]+)`\))? \| `([^`]*)` \| (.*?) \| (yes|if allowed|) \| ', line)
            if found:
                rows[found[1]] = found.groups()[1:]
    return rows


@pytest.mark.parametrize('option, name', [('--dump-config-docs', 'configuration.md'), ('--dump-command-docs', 'commands.md')])
def test_the_documents_are_made_from_the_tables(option, name):
    made = subprocess.run([darter_binary(), option], capture_output=True, text=True, timeout=PATIENCE).stdout
    with open(os.path.join(ROOT, 'docs', name)) as f:
        assert f.read() == made, 'docs/%s is out of date: run tools/gen-docs' % name


@pytest.mark.each_back_end
def test_every_command_is_in_the_document(server):
    """A group that the page does not have would be left out without a word."""
    names = [bytes(name).decode() for name in server.client().command('COMMAND', 'LIST')]
    with open(os.path.join(ROOT, 'docs', 'commands.md')) as f:
        text = f.read()
    # A container is there by its subcommands.
    assert [name for name in names if not re.search(r'^\| `%s[` ]' % re.escape(name.replace('|', ' ').upper()), text, re.M)] == []


UNITS = {'': 1, 'kb': 1 << 10, 'mb': 1 << 20, 'gb': 1 << 30}
# Values that no range or list describes: (given, shown), and refused ones.
SPECIAL = {
    'oom-score-adj': ([('no', 'no'), ('yes', 'yes'), ('relative', 'yes'), ('ABSOLUTE', 'absolute'), ('no', 'no')], ['perhaps', '']),
    'port': ([('0', '0')], ['-1', '65536', 'abc', '']),      # what it does: test_listening.py
    'bind': ([('127.0.0.1', '127.0.0.1'), ('127.0.0.1  -::1', '127.0.0.1 -::1'), ('', '')], [' '.join(['127.0.0.1'] * 17), 'x' * 256]),
    'reported-redis-version': ([('7.2.4', '7.2.4')], ['7', '7.2', 'seven', '7.2.4-rc1', '7..2.4']),
    'client-output-buffer-limit': ([('normal 1kb 2k 3', 'normal 1024 2000 3 slave 268435456 67108864 60 pubsub 33554432 8388608 60'),
                                    ('normal 0 0 0 replica 1 2 3', 'normal 0 0 0 slave 1 2 3 pubsub 33554432 8388608 60')],
                                   ['normal 1', 'nobody 1 1 1', 'normal -1 0 0', 'normal 1 1 x', 'normal 1 1 -1']),
    'save': ([('900 1 300 10', '900 1 300 10'), ('', '')], ['900', 'a b', '-1 1', '0 1', '10 -1', '10 5 20 x', '100  1']),
    'notify-keyspace-events': ([('KA', 'AK'), ('Kg$z', 'g$zK'), ('zz', 'z'), ('g$lshzxetdKE', 'AKE'), ('', '')], ['KE?', 'W']),
    'latency-tracking-info-percentiles': ([('1 100.0 55.5', '1 100 55.5'), ('', '')], ['1 a', '101', '-1', 'nan']),
    'oom-score-adj-values': ([('1 2 3', '1 2 3')], ['1 2', '1 2 a', '1 2 3001', '1 2 3 4']),
    'shutdown-on-sigint': ([('now save', 'save now'), ('default', 'default')], ['perhaps', 'save nosave', '']),
    'shutdown-on-sigterm': ([('NOSAVE', 'nosave')], ['perhaps', 'now perhaps']),
    'proc-title-template': ([('{title} x {port}', '{title} x {port}')], ['{foo}', '{title', '{title}', '', ' ']),
    'cluster-announce-hostname': ([('a-b.example', 'a-b.example')], ['a_b', 'a b']),
    'hz': ([('0', '1'), ('1000', '500'), ('77', '77')], ['-1', 'abc', '2147483648']),
    'repl-backlog-size': ([('1', '16384'), ('2mb', '2097152')], ['0', 'abc', '-1', '1tb']),
    'maxmemory-clients': ([('5%', '5%'), ('100mb', '104857600'), ('0', '0')], ['101%', '-5%', '-5', 'abc', '5%%']),
    'maxclients': ([('200', '200')], ['0', '-1', 'abc', '4294967296']),
    'dbfilename': ([('other.rdb', 'other.rdb')], ['a/b']),
    'dir': ([('/', '/')], ['/nonexistent']),
}
# What the error says beside the name and the value.
EXPECTED = re.compile(rb'addresses|too long|between|memory|percent|integer|yes|one of|Wrong number|wrong number|Invalid|less or equal|version|format|Hostnames|parameters|class|path|No such|Error in|simultaneously')


def values_of(name, values):
    """(good ones with how they are shown, bad ones) of a directive."""
    if name in SPECIAL:
        return SPECIAL[name]
    choices = re.findall('`([^`]+)`', values)
    if choices:
        return [(v, v) for v in choices] + [(choices[0].upper(), choices[0])], ['perhaps', '']
    found = re.fullmatch(r'(-?\d+)([kmg]b|)(?: to (-?\d+)([kmg]b|)| or more)( \(bytes\)|)', values)
    if found:
        low = int(found[1]) * UNITS[found[2]]
        high = int(found[3]) * UNITS[found[4]] if found[3] else 2 ** 63 - 1
        bad = [str(low - 1), str(high + 1), 'abc', '', '1x', ' 1', '99999999999999999999']
        good = [(str(v), str(v)) for v in (low, min(high, low + 7), high)]
        if found[5]:
            good += [(given, str(n)) for given, n in (('3mb', 3 << 20), ('4M', 4000000)) if low <= n <= high]
            bad.append('1.5mb')
        return good, bad
    assert values.startswith('text'), values
    return [('some "text"', 'some "text"'), ('', '')], []


@pytest.mark.each_back_end
def test_every_directive_that_can_be_set_is_read_back(start):
    server = start(options=[('enable-protected-configs', 'yes')])
    c = server.client()
    wrong = []
    for name, (alias, _, values, settable) in documented().items():
        before = get(c, name)[name.encode()]
        if not settable:
            reply = c.command('CONFIG', 'SET', name, before)
            if reply != b"ERR CONFIG SET failed (possibly related to argument '%s') - can't set immutable config" % name.encode():
                wrong.append('%s: %r' % (name, reply))
            continue
        good, bad = values_of(name, values)
        for given, shown in good:
            for spelled in [name.upper()] + ([alias] if alias else []):
                reply, after = c.command('CONFIG', 'SET', spelled, given), get(c, name)[name.encode()]
                if reply != b'OK' or after != shown.encode():
                    wrong.append('%s %s: %r, shown as %r' % (spelled, given, reply, after))
        if alias and get(c, alias) != {alias.encode(): get(c, name)[name.encode()]}:
            wrong.append('%s: %r' % (alias, get(c, alias)))
        kept = get(c, name)
        for given in bad:
            reply = c.command('CONFIG', 'SET', name, given)
            told = re.search(rb' \(got "%s"%s(, expected .+)?\)$' % (re.escape(given[:64].encode()), rb'\.\.\.' * (len(given) > 64)), reply.replace(b'\\"', b'"')) or (name, given) == ('dir', '/nonexistent')
            if not isinstance(reply, Error) or b"argument '%s'" % name.encode() not in reply or not told or not EXPECTED.search(reply):
                wrong.append('%s %r: %r' % (name, given, reply))
            if get(c, name) != kept:
                wrong.append('%s %r changed something' % (name, given))
        if name == 'requirepass':
            c.command('CONFIG', 'SET', name, '')
        else:
            c.command('CONFIG', 'SET', name, before)
    assert not wrong, '\n'.join(wrong)


@pytest.mark.each_back_end
def test_bad_values_of_fixed_directives_end_the_start(start):
    for name, (_, _, values, settable) in documented().items():
        if settable or name in ('bind', 'replicaof', 'appendfilename', 'appenddirname', 'aclfile') or values.startswith('text'):
            continue
        bad = '8' if values.endswith('(octal)') else values_of(name, values)[1][0]
        done = subprocess.run([darter_binary(), '--port', '0', '--' + name, bad], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 1 and '--%s %s' % (name, bad) in done.stderr and re.search('between|octal|one of|yes', done.stderr), (name, bad, done)


@pytest.mark.each_back_end
@pytest.mark.parametrize('wrong', [('appendfilename', 'a/b'), ('appenddirname', 'a/b'), ('dbfilename', 'a/b'), ('aclfile', '/tmp/users'), ('replicaof', 'host'), ('replicaof', 'host', 'port'),
                                   ('user', 'alice', 'on'), ('loadmodule', 'x.so'), ('rename-command', 'nope', 'x'), ('rename-command', 'get', 'SET'), ('dir', '/nonexistent'), ('save', '60'),
                                   ('sentinel', 'x'), ('a.b', '1')])
def test_what_else_ends_the_start(start, wrong):
    server = start(options=[wrong], wait=False, tolerate_faults=True)
    assert server.wait_end() != 0
    assert '*** FATAL CONFIG FILE ERROR' in server.log() and wrong[0] in server.log()


# What differs from redis-server's defaults, and why.
OTHER_DEFAULTS = {
    b'port', b'dir', b'save', b'loglevel', b'logfile', b'enable-debug-command', b'daemonize',  # how the tests start the two
    b'syslog-ident',    # the program's own name
}


@pytest.mark.each_back_end
def test_all_names_and_defaults_of_redis(start):
    server = start(options=[('enable-protected-configs', 'no')])
    with Server(kind='redis') as redis:
        theirs, ours = get(redis.client(), '*'), get(server.client(), '*')
    assert not theirs.keys() - ours.keys()
    assert {n: (theirs[n], ours[n]) for n in theirs if theirs[n] != ours[n] and n not in OTHER_DEFAULTS} == {}


@pytest.mark.each_back_end
def test_help_is_that_of_redis(server, reference):
    assert server.client().command('CONFIG', 'HELP') == reference.client().command('CONFIG', 'HELP')


def test_get_shows_a_plain_name_as_it_was_written(server):
    c = server.client()
    assert c.command('CONFIG', 'GET', 'TimeOut', 'timeout', 'tim*') == [b'TimeOut', b'0']
    assert get(c, 'rdb-key-save-delay') == {b'rdb-key-save-delay': b'0'} and get(c, 'rdb-key*') == {}
    assert get(c, '*-max-ziplist-size') == {b'list-max-ziplist-size': b'-2'}
    three = server.client()
    three.command('HELLO', 3)
    assert three.command('CONFIG', 'GET', 'timeout') == Map([[b'timeout', b'0']])


# ---- CONFIG SET: all or nothing, with what is applied ----

def test_what_was_applied_is_undone(start):
    server = start(options=[('enable-protected-configs', 'yes')])
    c = server.client()
    where = get(c, 'dir')
    assert where == {b'dir': os.path.realpath(server.directory).encode()}
    reply = c.command('CONFIG', 'SET', 'dir', '/', 'timeout', '77', 'maxclients', '4294967295')
    assert re.match(rb"ERR CONFIG SET failed \(possibly related to argument 'maxclients'\) - The operating system is not able to handle the specified number of clients, try with \d+", reply)
    assert get(c, 'dir') == where and get(c, 'timeout') == {b'timeout': b'0'} and get(c, 'maxclients') == {b'maxclients': b'10000'}
    assert os.path.realpath('/proc/%d/cwd' % server.process.pid) == os.path.realpath(server.directory)
    reply = c.command('CONFIG', 'SET', 'loglevel', 'debug', 'dir', '/nonexistent')
    assert reply == b"ERR CONFIG SET failed (possibly related to argument 'dir') - No such file or directory"
    assert get(c, 'loglevel') == {b'loglevel': b'notice'}
    assert c.command('CONFIG', 'SET', 'dir', '..') == b'OK'
    assert get(c, 'dir') == {b'dir': os.path.dirname(os.path.realpath(server.directory)).encode()}


def test_maxclients_raises_the_limit_on_open_files(start):
    server = start(options=[('maxclients', '100')], prefix=['prlimit', '--nofile=300:4000'])
    c = server.client()
    def limit():
        with open('/proc/%d/limits' % server.process.pid) as f:
            return int(re.search(r'Max open files\s+(\d+)', f.read())[1])
    assert limit() == 300
    assert c.command('CONFIG', 'SET', 'maxclients', '2000') == b'OK'
    assert limit() >= 2000


def test_protected_directives(start):
    server = start()
    c = server.client()
    for name in ('dir', 'dbfilename'):
        assert c.command('CONFIG', 'SET', name, 'x') == b"ERR CONFIG SET failed (possibly related to argument '%s') - can't set protected config" % name.encode()
    local = start(options=[('enable-protected-configs', 'local')])
    assert local.client().command('CONFIG', 'SET', 'dir', '/') == b'OK'


def test_a_secret_is_not_told(server):
    reply = server.client().command('CONFIG', 'SET', 'requirepass', 'secret' * 100)
    assert reply == b"ERR CONFIG SET failed (possibly related to argument 'requirepass') - argument too long"


def test_requirepass_takes_hold_for_new_clients(server):
    old = server.client()
    for _ in range(30):     # whichever thread it comes to
        assert old.command('CONFIG', 'SET', 'requirepass', 'x') == b'OK' and old.command('PING') == b'PONG'
        new = server.client()
        assert new.command('PING') == b'NOAUTH Authentication required.'
        assert new.command('AUTH', 'x') == b'OK'
        assert old.command('CONFIG', 'SET', 'requirepass', '') == b'OK'
        assert server.client().command('PING') == b'PONG'


def test_without_a_password_nobody_has_to_authenticate(start):
    """Also who came while there was one, and until there is one again; compared with redis-server."""
    told = []
    with Server(kind='redis', options=[('requirepass', 'x')]) as redis:
        for server in (redis, start(options=[('requirepass', 'x')])):
            clients = [server.client() for _ in range(4)]       # on each thread
            admin = server.client()
            lines = [admin.command('AUTH', 'x')] + [c.command('PING') for c in clients]
            lines.append(admin.command('CONFIG', 'SET', 'requirepass', ''))
            lines += [c.command('PING') for c in clients] + [clients[0].command('MSET', *map(str, range(40))), clients[0].command('SET', 'a', 'x' * 20000), clients[1].command('HELLO', 3),
                                                             clients[2].command('AUTH', 'y'), clients[3].command('AUTH', 'default', 'whatever')]
            later = server.client()
            lines.append(admin.command('CONFIG', 'SET', 'requirepass', 'z'))
            told.append(lines + [c.command('PING') for c in (*clients, later, server.client())])
    assert told[0] == told[1]


def test_the_reported_version(start):
    server = start(options=[('reported-redis-version', '6.2.14')])
    c = server.client()
    assert server.info('server')['redis_version'] == '6.2.14' and 'darter_version' in server.info('server')
    assert dict(c.command('HELLO', 3))[b'version'] == b'6.2.14'
    assert c.command('CONFIG', 'SET', 'reported-redis-version', '7.2.0') == b'OK'
    assert dict(c.command('HELLO', 3))[b'version'] == b'7.2.0'


# ---- files, standard input, arguments ----

def write(server_or_dir, name, text):
    path = os.path.join(server_or_dir, name)
    with open(path, 'w') as f:
        f.write(text)
    return path


@pytest.mark.each_back_end
def test_include(start, tmp_path):
    write(tmp_path, 'one.conf', 'timeout 1\nmaxclients 501\n')
    os.mkdir(tmp_path / 'conf.d')
    write(tmp_path / 'conf.d', 'a.conf', 'timeout 2\n')
    write(tmp_path / 'conf.d', 'b.conf', 'timeout 3\ntcp-keepalive 33\n')
    server = start(config='timeout 9\ninclude %s/one.conf\ninclude "%s/conf.d/*.conf"\ninclude %s/none/*.conf\nmaxclients 502\n' % (tmp_path, tmp_path, tmp_path))
    c = server.client()
    assert [get(c, n)[n.encode()] for n in ('timeout', 'maxclients', 'tcp-keepalive')] == [b'3', b'502', b'33']


@pytest.mark.each_back_end
def test_a_fault_in_an_included_file_is_named_there(start, tmp_path):
    path = write(tmp_path, 'one.conf', '\n\ntimeout x\n')
    server = start(config='include %s\n' % path, wait=False, tolerate_faults=True)
    assert server.wait_end() == 1
    assert "at line 3 of %s\n>>> 'timeout x'\nargument couldn't be parsed into an integer" % path in server.log()


@pytest.mark.each_back_end
def test_a_file_that_includes_itself(start, tmp_path):
    path = write(tmp_path, 'one.conf', 'include %s/one.conf\n' % tmp_path)
    server = start(config='include %s\n' % path, wait=False, tolerate_faults=True)
    assert server.wait_end() == 1 and 'deeper than 16' in server.log()
    missing = start(config='include %s/none.conf\n' % tmp_path, wait=False, tolerate_faults=True)
    assert missing.wait_end() == 1 and "can't open config file '%s/none.conf': No such file or directory" % tmp_path in missing.log()


@pytest.mark.each_back_end
@pytest.mark.parametrize('line, value', [
    (r'requirepass "a b"', b'a b'), (r'requirepass "\x41\n\t\"\\q"', b'A\n\t"\\q'), (r"requirepass 'it\'s \n'", b"it's \\n"), (r'requirepass a"b c"', b'ab c'), (r'requirepass ""', b''),
    ('requirepass\t"x"\t  ', b'x'), ('REQUIREPASS x#y', b'x#y'), (r'requirepass "caf\xc3\xa9"', 'caf\u00e9'.encode()), (r'requirepass \x41', b'\\x41')])
def test_quotes(start, line, value):
    server = start(config=line + '\n')
    c = server.client()
    if value:
        assert c.command('AUTH', value) == b'OK'
    assert get(c, 'requirepass') == {b'requirepass': value}


@pytest.mark.each_back_end
@pytest.mark.parametrize('line', ['requirepass "x', "requirepass 'x", 'requirepass "a"b', 'requirepass "x\\"'])
def test_unbalanced_quotes(start, line):
    server = start(config=line + '\n', wait=False, tolerate_faults=True)
    assert server.wait_end() == 1 and 'Unbalanced quotes in configuration line' in server.log()


@pytest.mark.each_back_end
def test_the_file_then_standard_input_then_arguments(start):
    server = start(config='timeout 1\nmaxclients 501\ntcp-keepalive 31\nport {port}\n', options=[('timeout', 3, '-')],
                   prefix=['bash', '-c', 'exec "$@" <<< $\'timeout 2\\nmaxclients 502\'', 'bash'])
    c = server.client()
    assert [get(c, n)[n.encode()] for n in ('timeout', 'maxclients', 'tcp-keepalive')] == [b'3', b'502', b'31']


@pytest.mark.each_back_end
def test_a_fault_in_standard_input(start):
    server = start(options=[('timeout', 3, '-')], prefix=['bash', '-c', 'exec "$@" <<< $\'\\ntimeout x\'', 'bash'], wait=False, tolerate_faults=True)
    assert server.wait_end() == 1 and 'at line 2 of the standard input' in server.log()


@pytest.mark.each_back_end
@pytest.mark.parametrize('options, shown', [
    ([('save', '60', '1'), ('save', '30', '2')], b'60 1 30 2'), ([('save', '60 1')], b'60 1'), ([('save', '60 1 30 2'), ('timeout', '1')], b'60 1 30 2'), ([('save', '60')], None), ([('save', '')], b''), ([('save',), ('timeout', '1')], b''), ([('timeout', '1'), ('save',)], b''),
    ([('save', '60', '1', '30', '2'), ('save', '')], b'')])
def test_save_arguments(start, options, shown):
    server = start(options=options, wait=shown is not None, tolerate_faults=shown is None)
    if shown is None:
        assert server.wait_end() == 1 and 'Invalid save parameters' in server.log()
    else:
        assert get(server.client(), 'save') == {b'save': shown}


@pytest.mark.each_back_end
def test_several_words_in_quotes_are_several(start):
    c = start(config='save "60 1 30 2"\nclient-output-buffer-limit "normal 1mb 0 0"\noom-score-adj-values "0 1 2"\n').client()
    assert get(c, 'save') == {b'save': b'60 1 30 2'} and get(c, 'oom-score-adj-values') == {b'oom-score-adj-values': b'0 1 2'}
    assert get(c, 'client-output-buffer-limit')[b'client-output-buffer-limit'].startswith(b'normal 1048576 0 0 ')


@pytest.mark.each_back_end
def test_save_lines_add_up(start):
    assert get(start(config='save 60 1\nsave 30 2 20 3\n').client(), 'save') == {b'save': b'60 1 30 2 20 3'}
    assert get(start(config='timeout 1\n').client(), 'save') == {b'save': b'3600 1 300 100 60 10000'}


@pytest.mark.each_back_end
def test_arguments_in_one_word_and_values_that_look_like_options(start):
    server = start(options=[('timeout 5',), ('requirepass', '--x')])
    c = server.client()
    assert c.command('AUTH', '--x') == b'OK' and get(c, 'timeout') == {b'timeout': b'5'}


@pytest.mark.each_back_end
def test_what_has_no_effect_is_told_once(start):
    server = start(config='# a remark\nappendfsync always\nactiverehashing no\nappendfsync no\nslave-priority 7\nlua-replicate-commands yes\ntimeout 3\n')
    log = server.log()
    assert log.count('appendfsync') == 1 and 'test.conf:2: appendfsync is accepted, but has no effect yet' in log
    assert 'test.conf:3: activerehashing is accepted, but nothing here needs it' in log
    assert 'test.conf:5: replica-priority is accepted' in log and 'test.conf:6: lua-replicate-commands is obsolete' in log
    assert 'timeout' not in log
    assert get(server.client(), 'slave-priority') == {b'slave-priority': b'7'}


DEBIAN = '/etc/redis/redis.conf'


@pytest.mark.each_back_end
@pytest.mark.skipif(not os.access(DEBIAN, os.R_OK), reason='package redis-server is not installed')
def test_the_configuration_of_debian_starts_it_unchanged(start):
    with open(DEBIAN) as f:
        text = f.read()
    server = start(options=[('logfile', ''), ('pidfile', ''), ('daemonize', 'no')], prefix=['bash', '-c', 'binary=$1; shift; exec "$binary" %s "$@"' % DEBIAN, 'bash'])
    c = server.client()
    values = get(c, '*')
    assert values[b'maxmemory-policy'] == b'noeviction' and values[b'bind'] == b'127.0.0.1 -::1' and values[b'client-output-buffer-limit'].startswith(b'normal 0 0 0 slave 268435456')
    assert len(re.findall(r'redis\.conf:\d+: ', server.log())) > 30
    for line in text.splitlines():
        words = line.split('#')[0].split()
        assert not words or words[0].encode() in values


# ---- REWRITE ----

def rewritten(start, config, sets=(), **options):
    """Starts with a file, sets, rewrites; returns (the file, the server)."""
    server = start(config=config, **options)
    c = server.client()
    for pair in sets:
        assert c.command('CONFIG', 'SET', *pair) == b'OK'
    assert c.command('CONFIG', 'REWRITE') == b'OK'
    with open(os.path.join(server.directory, 'test.conf')) as f:
        return f.read(), server


REWRITE = '''# A remark, and an empty line:

port {port}
dir {dir}

   # indented
TIMEOUT 11
rename-command debug ""
include {dir}/*.more
slave-priority 7
save 5 6
save 7 8
maxmemory 100mb
timeout 12
# the end
'''


@pytest.mark.each_back_end
def test_rewrite_keeps_remarks_order_and_other_lines(start):
    text, server = rewritten(start, REWRITE, [('timeout', '20', 'save', '9 10', 'tcp-keepalive', '55', 'appendfsync', 'always')])
    head, _, tail = text.partition('\n# Generated by CONFIG REWRITE\n')
    assert head == '''# A remark, and an empty line:

port %d
dir %s

   # indented
timeout 20
rename-command debug ""
include %s/*.more
replica-priority 7
save 9 10
maxmemory 100mb
# the end
''' % (server.port, server.directory, server.directory)
    added = dict(line.split(' ', 1) for line in tail.splitlines())
    assert added.pop('threads', None) and added.pop('io', None)
    assert added == {'tcp-keepalive': '55', 'appendfsync': 'always'}


@pytest.mark.each_back_end
def test_what_was_rewritten_starts_with_the_same_values(start):
    sets = [('requirepass', 'a"b\n c\\', 'client-output-buffer-limit', 'normal 10mb 5 3 pubsub 1 2 3', 'save', '', 'maxmemory-clients', '5%', 'latency-tracking-info-percentiles', '', 'notify-keyspace-events', 'KA',
             'proto-max-bulk-len', '1048577', 'oom-score-adj-values', '1 2 3', 'shutdown-on-sigterm', 'nosave now')]
    text, server = rewritten(start, 'port {port}\ndir {dir}\nunixsocketperm 700\nbind 127.0.0.1\n', sets)
    c = server.clients[0]
    before = get(c, '*')
    assert c.command('CONFIG', 'REWRITE') == b'OK'
    with open(os.path.join(server.directory, 'test.conf')) as f:
        again = f.read()
    assert again == text and again.count('# Generated') == 1
    other = start(config=again.replace('{', '{{').replace('}', '}}').replace('port %d' % server.port, 'port {port}'))
    d = other.client()
    assert d.command('AUTH', 'a"b\n c\\') == b'OK'
    after = get(d, '*')
    assert {n: (before[n], after[n]) for n in before if before[n] != after[n]}.keys() <= {b'port', b'dir'}


@pytest.mark.each_back_end
def test_rewrite_comments_out_what_it_does_not_know(start):
    server = start(config='port {port}\n')
    path = os.path.join(server.directory, 'test.conf')
    with open(path, 'a') as f:
        f.write('nonsense 1\ntimeout "3\n')
    os.chmod(path, 0o640)
    assert server.client().command('CONFIG', 'REWRITE') == b'OK'
    with open(path) as f:
        assert '\n# ??? nonsense 1\n# ??? timeout "3\n' in f.read()
    assert os.stat(path).st_mode & 0o777 == 0o640
    assert sorted(n for n in os.listdir(server.directory) if n.startswith('test.conf')) == ['test.conf']


@pytest.mark.each_back_end
def test_rewrite_follows_a_link_and_makes_a_file_that_is_gone(start):
    server = start(config='port {port}\n')
    path = os.path.join(server.directory, 'test.conf')
    real = path + '.real'
    os.rename(path, real)
    os.symlink(real, path)
    c = server.client()
    assert c.command('CONFIG', 'SET', 'timeout', '5') == b'OK' and c.command('CONFIG', 'REWRITE') == b'OK'
    assert os.path.islink(path)
    with open(real) as f:
        assert 'timeout 5' in f.read()
    os.unlink(path)
    assert c.command('CONFIG', 'REWRITE') == b'OK'
    with open(path) as f:
        assert 'timeout 5' in f.read()


def test_rewrite_errors(start):
    assert start().client().command('CONFIG', 'REWRITE') == b'ERR The server is running without a config file'
    server = start(config='port {port}\n')
    path = os.path.join(server.directory, 'test.conf')
    os.unlink(path)
    os.mkdir(path)
    assert server.client().command('CONFIG', 'REWRITE') == b'ERR Rewriting config file: Is a directory'


class Held:
    """A configuration file that nobody can read until let_go(): who opens it waits, as for a disk that does not answer."""

    def __init__(self, server):
        self.path = os.path.join(server.directory, 'test.conf')
        with open(self.path) as f:
            self.text = f.read()
        os.unlink(self.path)
        os.mkfifo(self.path)

    def wait_for_reader(self):
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self.fd = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)   # fails while nobody reads
                return
            except OSError:
                assert time.monotonic() < end
                time.sleep(.01)

    def let_go(self):
        os.write(self.fd, self.text.encode())
        os.close(self.fd)


def test_nobody_waits_for_the_disk_but_who_rewrites(start):
    server = start(config='port {port}\n')
    asking, gone, other = server.client(), server.client(), [server.client() for _ in range(4)]
    held = Held(server)
    asking.send(b'CONFIG REWRITE\r\nPING\r\n')
    held.wait_for_reader()
    gone.send(b'CONFIG REWRITE\r\n')
    gone.close()
    for i, c in enumerate(other):
        assert c.command('SET', 'a', i) == b'OK' and c.command('CONFIG', 'SET', 'timeout', 10 + i) == b'OK'
    late = server.client()
    late.send(b'CONFIG REWRITE\r\n')
    held.let_go()
    assert asking.read() == b'OK' and asking.read() == b'PONG' and late.read() == b'OK'
    assert server.client().command('CONFIG', 'REWRITE') == b'OK'
    with open(held.path) as f:
        assert 'timeout 13' in f.read()


def test_rewrite_after_set_in_one_pipeline_writes_what_was_set(start):
    server = start(config='port {port}\n')
    clients = [server.client() for _ in range(4)]
    for n in range(20):
        for i, c in enumerate(clients):
            assert c.pipeline([('CONFIG', 'SET', 'timeout', 1000 + n * 4 + i), ('CONFIG', 'REWRITE')]) == [b'OK', b'OK']
            with open(os.path.join(server.directory, 'test.conf')) as f:
                assert 'timeout %d\n' % (1000 + n * 4 + i) in f.read()
    # All at once: whatever order they come in, the last that was set is what stands there.
    for n in range(10):
        for i, c in enumerate(clients):
            c.send(b'CONFIG SET timeout %d\r\nCONFIG REWRITE\r\n' % (5000 + n * 4 + i))
        assert [c.read() for c in clients for _ in range(2)] == [b'OK'] * 8
        with open(os.path.join(server.directory, 'test.conf')) as f:
            assert 'timeout %s\n' % get(clients[0], 'timeout')[b'timeout'].decode() in f.read()


def test_the_end_waits_for_what_is_being_written(start):
    server = start(config='port {port}\ntimeout 3\n')
    c = server.client()
    held = Held(server)
    c.send(b'CONFIG REWRITE\r\n')
    held.wait_for_reader()
    server.process.send_signal(signal.SIGTERM)
    held.let_go()
    assert server.wait_end() == 0
    with open(held.path) as f:
        assert 'timeout 3' in f.read()
    assert os.path.isfile(held.path)


# ---- rename-command, --check-config ----

@pytest.mark.each_back_end
def test_rename_command(start):
    long = 'b840fc02d524045429941cc15f59e41cb7be6c52b840fc02d524045429941cc15f59e41cb7be6c52'
    server = start(config='rename-command FLUSHALL ""\nrename-command config %s\nrename-command get fetch\nrename-command set get\n' % long)
    c = server.client()
    assert c.command('FLUSHALL') == b"ERR unknown command 'FLUSHALL', with args beginning with: "
    assert isinstance(c.command('CONFIG', 'GET', 'timeout'), Error)
    assert c.command(long.upper(), 'GET', 'timeout') == [b'timeout', b'0']
    assert c.command('GET', 'a', '1') == b'OK' and c.command('fetch', 'a') == b'1' and c.command('fetch') == b"ERR wrong number of arguments for 'get' command"
    assert c.command('COMMAND', 'INFO', 'flushall', 'fetch')[0] in (None, NIL, NIL_ARRAY)
    names = [row[0] for row in c.command('COMMAND')]
    assert b'flushall' not in names and len(names) == c.command('COMMAND', 'COUNT')


def test_files_that_include_each_other_end_at_once(tmp_path):
    """Six files that each read all six are 6^16 files deep: the first limit that is reached ends it, and is told once."""
    for i in range(6):
        path = write(tmp_path, '%d.conf' % i, 'include %s/*.conf\nport x\n' % tmp_path)
    done = subprocess.run([darter_binary(), '--check-config', path], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and done.stderr.count('include goes deeper than 16 files') == 1 and 'port x' in done.stderr
    shallow = tmp_path / 'shallow'
    shallow.mkdir()
    for depth in range(4):
        for i in range(8):
            write(shallow, '%d.%d' % (depth, i), 'include %s/%d.*\n' % (shallow, depth + 1))
    done = subprocess.run([darter_binary(), '--check-config', str(shallow / '0.0')], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0 and 'with 584 included files' in done.stdout
    for depth in range(4, 15):
        write(shallow, '%d.0' % depth, 'include %s/%d.*\n' % (shallow, depth + 1))
        write(shallow, '%d.1' % depth, 'include %s/%d.*\n' % (shallow, depth + 1))
    done = subprocess.run([darter_binary(), '--check-config', str(shallow / '0.0')], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and done.stderr.count('include reads more than 1000 files') == 1


def test_check_config(tmp_path):
    def check(text, *arguments):
        path = write(tmp_path, 'x.conf', text)
        return path, subprocess.run([darter_binary(), '--check-config', path, *arguments], capture_output=True, text=True, timeout=PATIENCE)
    path, done = check('timeout 3\nappendonly yes\n')
    assert done.returncode == 0 and done.stdout.splitlines() == [
        '%s:2: appendonly is accepted, but has no effect yet' % path, '%s: good' % path, '1 directive in effect, 1 accepted without effect: appendonly']
    assert check('', '--timeout', '3', '--port', '1', '--timeout', '4')[1].stdout.splitlines()[-1] == '2 directives in effect, 0 accepted without effect'
    first, second = write(tmp_path, 'one.conf', 'hz 5\nappendonly no\nsave 1 1\n'), write(tmp_path, 'two.conf', 'include %s\nHZ 6\nport 1\n' % (tmp_path / 'one.*'))
    path, done = check('include %s\nappendonly no\n' % second)
    assert done.returncode == 0 and done.stdout.splitlines()[-2:] == [
        '%s: good, with 2 included files: %s, %s' % (path, second, first), '2 directives in effect, 2 accepted without effect: hz, appendonly'], done.stdout
    path, done = check('include %s\n' % write(tmp_path, 'three.conf', '\nport x\n'))
    assert done.returncode == 1 and not done.stdout and done.stderr.splitlines() == [
        "%s:2: argument couldn't be parsed into an integer" % (tmp_path / 'three.conf'), '    port x', '    port takes: 0 to 65535']
    path, done = check('\ninclude /nonexistent\n')
    assert done.returncode == 1 and not done.stdout.startswith(path) and 'No such file or directory (included at %s:2)' % path in done.stdout + done.stderr
    path, done = check('timeout 3\n\nnonsense 3\n')
    assert done.returncode == 1 and done.stderr == '%s:3: Bad directive or wrong number of arguments\n    nonsense 3\n' % path
    path, done = check('port x\nmaxmemry 3\ninclude %s\nhz 3\ntimeuot 3\n' % write(tmp_path, 'three.conf', 'dir /nonexistent\n\nport y\n'), '--lfu-log-factor', 'x', '--maxmemory', '3q')
    assert done.returncode == 1 and not done.stdout
    assert [line for line in done.stderr.splitlines() if not line.startswith('    ')] == [    # all of them, each once
        "%s:1: argument couldn't be parsed into an integer" % path, '%s:2: Bad directive or wrong number of arguments' % path,
        '%s:1: No such file or directory' % (tmp_path / 'three.conf'), "%s:3: argument couldn't be parsed into an integer" % (tmp_path / 'three.conf'),
        '%s:5: Bad directive or wrong number of arguments' % path, "--lfu-log-factor x: argument couldn't be parsed into an integer", '--maxmemory 3q: argument must be a memory value']
    assert '    Is maxmemory meant?' in done.stderr.splitlines() and '    Is timeout meant?' in done.stderr.splitlines()
    # What a start would need of the machine: addresses, and places for files; nothing is made.
    folder = tmp_path / 'folder'
    folder.mkdir()
    path, done = check('bind 192.0.2.1 -192.0.2.2 127.0.0.1 no-such-host.invalid\nlogfile %s/none/log\nunixsocket none/socket\ndir %s\n' % (tmp_path, folder))
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and not done.stdout and lines[0] == '%s: bind 192.0.2.1: Cannot assign requested address' % path and lines[1].startswith('%s: bind no-such-host.invalid: ' % path)
    assert lines[2:] == ['%s: logfile %s/none/log: No such file or directory' % (path, tmp_path), '%s: unixsocket none/socket: No such file or directory' % path]
    assert check('bind 192.0.2.1\nport 0\nlogfile %s/log\nunixsocket %s/socket\n' % (folder, folder))[1].returncode == 0 and not list(folder.iterdir())
    assert check('bind localhost -::1\n')[1].returncode == 0
    assert check('logfile %s\n' % folder)[1].stderr.endswith('folder: Is a directory\n')
    with socket.socket() as taken:      # a server that runs is no fault
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        assert check('bind 127.0.0.1\nport %d\n' % taken.getsockname()[1])[1].returncode == 0
    done = subprocess.run([darter_binary(), '--check-config', '--timeout', '3'], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0 and done.stdout.splitlines()[0] == 'the arguments: good'
    assert check('timeout 3\n', '--timeout', 'x')[1].returncode == 1
    assert check('bind\nport 0\n')[1].returncode == 0 and check('timeout\n')[1].returncode == 1     # no address at all, as in Redis
    assert subprocess.run([darter_binary(), '--check-config'], capture_output=True, timeout=PATIENCE).returncode == 1
    assert subprocess.run([darter_binary(), '--check-config', '/nonexistent'], capture_output=True, timeout=PATIENCE).returncode == 1


def test_an_old_configuration_stays_while_a_thread_reads_it(start):
    """Of several CONFIG SET in one EXEC no thread takes each; a sanitizer would see what was freed too early."""
    server = start()
    clients = [server.client(timeout=PATIENCE) for _ in range(9)]
    setter, *others = clients
    change = [('MULTI',), *[('CONFIG', 'SET', 'hz', 20 + i) for i in range(6)], ('EXEC',)]
    for turn in range(40):
        for c in others:
            c.send(b''.join(encode('SET', 'k:%d' % i, 'v') for i in range(turn, turn + 100)))
        assert setter.pipeline(change)[-1] == [b'OK'] * 6
        for c in others:
            assert [c.read() for _ in range(100)] == [b'OK'] * 100
    assert get(setter, 'hz') == {b'hz': b'25'}


@pytest.mark.measures
def test_very_many_changes_in_one_transaction_keep_few_old_configurations(start):
    server = start(options=[('hz', 10)])
    c, n = server.client(timeout=PATIENCE), 20000
    for _ in range(3):  # others sleep on their threads
        server.client().command('PING')
    before = server.peak_bytes()
    assert c.pipeline([('MULTI',), *[('CONFIG', 'SET', 'timeout', i % 7) for i in range(n)], ('EXEC',)])[-1] == [b'OK'] * n
    assert server.peak_bytes() < before + 150 * 2**20  # of 18 KB each
    assert get(c, 'timeout') == {b'timeout': b'%d' % ((n - 1) % 7)}
