"""Values of every directive beside redis-server: what is taken, what it then is, and what is said about the rest; at CONFIG SET and at start."""

import re
import subprocess

import pytest

from server import PATIENCE, Server, darter_binary, redis_binary
from test_config import UNITS, documented, get, values_of, write

MAX = 2 ** 63 - 1
NUMBERS = [-1, -2, 0, 1, -101, MAX, MAX + 1, -MAX - 1, -MAX - 2, 2 * MAX + 1, 2 * MAX + 2, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 'abc', '', '1.5', ' 1', '1 ', '1x', '0x10', '+1', '007', '-0',
           '1kb', '1K', '2Mb', '1gb', '1tb', '-1kb', '9007199254740993kb', '99999999999999999999gb', '0%', '101%', '-1%', '%', 'k', 'kb', '1b', '1bb', '8589934591gb', '8589934592gb', '17179869184gb']
# Of bytes, redis-server takes what overflows (it wraps) and what has no digit (it is 0). Here both are refused.
WRAPS = {str(v) for v in (MAX + 1, 2 * MAX + 1, 2 * MAX + 2)} | {'', 'k', 'kb', '%', '9007199254740993kb', '99999999999999999999gb', '8589934592gb', '17179869184gb'}
# Ranges that differ, each for the reason that docs/configuration.md tells: (ours, Redis').
RANGES = {'proto-max-bulk-len': ('4294967295', str(MAX)), 'databases': ('16384', '2147483647')}
# Not compared: what they do needs more than the two servers here, or they take sockets (test_listening.py).
APART = {'port', 'bind', 'dir'}


def numbers_for(name, low, high, is_bytes):
    for given in [low - 1, low, high, high + 1, *NUMBERS]:
        given = str(given)
        if is_bytes and given in WRAPS:
            continue
        if name in RANGES and given.isdigit() and int(given) > int(RANGES[name][0]) or name in RANGES and given.endswith('gb'):
            continue
        if name == 'maxclients' and given.isdigit() and 10000 < int(given) < 2 ** 32:
            continue        # redis-server makes room for that many
        if name == 'maxmemory-clients' and re.match('[1-9]|007', given) and not given.endswith('gb') and '%' not in given:
            continue        # the test's own client would be closed
        if name == 'watchdog-period' and given.strip('+') in ('1', '007'):
            continue        # redis-server's is two of its timer's periods or more
        yield given


def tries(name, values):
    found = re.fullmatch(r'(-?\d+)([kmg]b|)(?: to (-?\d+)([kmg]b|)| or more)( \((?:bytes|octal)\))?(?:, or 0% to 100%)?', values)
    if found and 'octal' in values:
        return ['-1', '1000', '9', '8', 'abc', '0x7', '-7', '77777777777777777777777']
    if found:
        low, high = int(found[1]) * UNITS[found[2]], int(found[3]) * UNITS[found[4]] if found[3] else MAX
        return list(numbers_for(name, low, high, 'bytes' in values))
    words = re.findall('`([^`]+)`', values)
    if words == ['yes', 'no']:
        return ['perhaps', '', 'NO', '1', 'true', 'no no', ' no', '0']
    return ['perhaps', '', ' ', *words, *(w.upper() for w in words)] if values.startswith('`') else []


def same(name, ours, theirs):
    if name in RANGES:
        ours = ours.replace(b'and %s inclusive' % RANGES[name][0].encode(), b'and %s inclusive' % RANGES[name][1].encode())
    return re.sub(rb' \(got ".*\)$', b'', ours) == theirs


@pytest.mark.limit(300)
def test_config_set_takes_and_refuses_what_redis_does():
    wrong, compared = [], 0
    with Server(kind='redis') as redis, Server(io='epoll', threads=2) as darter:
        theirs, ours = redis.client(), darter.client()
        for name, (_, default, values, settable) in documented().items():
            if settable != 'yes' or name in APART or name.startswith('tls-') or not theirs.command('CONFIG', 'GET', name):
                continue
            for c in (theirs, ours):
                c.command('CONFIG', 'SET', name, default)
            for given in tries(name, values):
                compared += 1
                expected, got = theirs.command('CONFIG', 'SET', name, given), ours.command('CONFIG', 'SET', name, given)
                if not same(name, got, expected):
                    wrong.append('%s %r\n   expected %r\n   got      %r' % (name, given, expected, got))
                elif get(theirs, name) != get(ours, name):
                    wrong.append('%s %r: %r instead of %r' % (name, given, get(ours, name), get(theirs, name)))
            for c in (theirs, ours):
                c.command('CONFIG', 'SET', name, default)
    assert not wrong, '\n'.join(wrong)
    assert compared > 2000


def refusal(binary, name, given):
    """What is said about a value at start, or None."""
    done = subprocess.run([*binary, '--port', '0', '--' + name, given], capture_output=True, text=True, timeout=PATIENCE, executable=None)
    found = re.search(r"^>>> '.*'\n(.+)$", done.stdout + done.stderr, re.M)
    return found[1].encode() if found else None


@pytest.mark.limit(300)
@pytest.mark.skipif(len(redis_binary()) != 1, reason='package redis-server is not installed')
def test_the_start_refuses_what_redis_does():
    with Server(kind='redis') as redis:
        known = get(redis.client(), '*').keys()
    for name, (_, _, values, settable) in documented().items():
        if settable or name.encode() not in known or values.startswith('text') or name == 'replicaof':
            continue
        for given in bad_values(name, values)[:4]:
            if name in RANGES and given.isdigit() and int(given) > int(RANGES[name][0]):
                continue
            expected, got = refusal(redis_binary(), name, given), refusal([darter_binary()], name, given)
            assert got and same(name, got, expected or b''), (name, given, got, expected)


LONG = 'x' * 600


def bad_values(name, values):
    if 'octal' in values:
        return ['8', '1000', '-1']
    if name in ('appendfilename', 'appenddirname'):
        return ['a/b', '']
    if name == 'replicaof':
        return ['host', 'host port', 'host 65536']
    if values.startswith('text') and 'with' not in values:
        return [LONG]
    return values_of(name, values)[1]


@pytest.mark.limit(300)
def test_every_bad_value_at_start_is_told_with_file_line_name_and_what_was_expected(tmp_path):
    told = 0
    for name, (_, _, values, _) in documented().items():
        for given in bad_values(name, values)[:2]:
            quoted = '"%s"' % given if not given or ' ' in given else given
            path = write(tmp_path, 'bad.conf', '# one\n\n%s %s\n' % (name, quoted))
            done = subprocess.run([darter_binary(), '--check-config', path], capture_output=True, text=True, timeout=PATIENCE)
            lines = done.stderr.splitlines()
            assert done.returncode == 1 and not done.stdout, (name, given)
            assert lines[0].startswith('%s:3: ' % path) and lines[1] == '    %s %s' % (name, quoted), (name, given, lines)
            assert lines[2] == '    %s takes: %s' % (name, values), (name, given, lines)
            told += 1
    assert told > 300


@pytest.mark.parametrize('line, hint', [
    ('port=7000', 'without an equals sign: port 7000'), ('timeout=5 # five', 'without an equals sign: timeout 5'), ('timeout 5 # five', 'remark stands on a line of its own'),
    ('save 60 1 # one', 'remark stands on a line of its own'), ('bind 127.0.0.1 # here', 'remark stands on a line of its own'), ('requirepass secret #x', 'remark stands on a line of its own'),
    ('rename-command get "" # gone', 'remark stands on a line of its own'), ('appendonly no #', 'remark stands on a line of its own')])
def test_common_mistakes_get_a_hint(tmp_path, line, hint):
    done = subprocess.run([darter_binary(), write(tmp_path, 'x.conf', line + '\n')], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and hint in done.stderr.splitlines()[-1], done.stderr


def test_an_equals_sign_between_a_name_and_its_value_gets_a_hint():
    for arguments in (['--port=7000'], ['--port=7000', '--threads', '2'], ['--timeout', '5', '--port=7000']):
        done = subprocess.run([darter_binary(), *arguments], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 1 and done.stderr.splitlines()[-1] == 'A name and its value stand side by side, without an equals sign: --port 7000', done.stderr
    done = subprocess.run([darter_binary(), '--nonsense=1'], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and 'equals' not in done.stderr


def test_a_name_that_is_nearly_one_gets_a_hint():
    def hint(*arguments):
        done = subprocess.run([darter_binary(), *arguments], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 1 and not done.stdout
        return done.stderr.splitlines()[-1]
    for wrong, meant in (('prot', 'port'), ('maxmemroy', 'maxmemory'), ('APPENDONYL', 'appendonly'), ('thread', 'threads'), ('mx-clients', 'maxclients')):
        assert hint('--' + wrong, '3') == 'Is --%s meant?' % meant
    for far in ('nonsense', 'a', '', 'x' * 600, 'pirates'):
        assert 'meant' not in hint('--' + far, '3'), far
    for first in ('check-config', 'check-rdb', 'help', 'version'):
        assert hint('--timeout', '3', '--' + first) == '--%s stands first: see darter --help' % first


def test_values_that_look_like_remarks_are_values(tmp_path):
    path = write(tmp_path, 'x.conf', 'requirepass #secret\nsyslog-ident "a # b"\n')
    assert subprocess.run([darter_binary(), '--check-config', path], capture_output=True, timeout=PATIENCE).returncode == 0
