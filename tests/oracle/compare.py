"""Runs a script (generate.py) against two servers and compares every reply.

What may differ, and why, is in differences.md; the rules below are that list, one by one, and nothing else is forgiven.
"""

import time

from generate import MUTE, PAUSE, RUN, SCAN
from resp import Client, Closed, Map, NIL, NULL, ProtocolFault, as_cli, encode, same
from server import SLOW

NEAR_S, NEAR_MS = 2, 2500       # how far apart two times to live may be: the two servers run the same command at different moments
MARK = b'the-mark-after-muted-commands'


class Difference(AssertionError):
    """A reply that is not the one of the reference."""

    def __init__(self, step, command, expected, got, note=''):
        super().__init__('expected %s\n     got %s%s' % (shorten(expected), shorten(got), '\n         (%s)' % note if note else ''))
        self.step, self.command, self.expected, self.got = step, command, expected, got


def shorten(value, limit=400):
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + '... (%d characters)' % len(text)


# The rules. Each takes (command, expected, got) and says whether the difference is legitimate.

def _near(tolerance):
    def rule(_command, a, b):
        return type(a) is int and type(b) is int and a > 0 and b > 0 and abs(a - b) <= tolerance
    return rule


def _same_set(_command, a, b):
    """KEYS: the same elements in any order."""
    return type(a) is type(b) and isinstance(a, list) and sorted(map(repr, a)) == sorted(map(repr, b))


def _scan_shape(_command, a, b):
    """SCAN with a cursor that means nothing to the other server, or a first page of another length."""
    return all(type(r) is list and len(r) == 2 and type(r[0]) is bytes and r[0].isdigit() and type(r[1]) is list for r in (a, b))


def _two_numbers(_command, a, b):
    """TIME."""
    return all(type(r) is list and len(r) == 2 and all(type(x) is bytes and x.isdigit() for x in r) for r in (a, b)) and abs(int(a[0]) - int(b[0])) <= 2


def _hello(_command, a, b):
    """HELLO: the same fields in the same order; name and version of the server and the connection's number are its own."""
    if type(a) is not type(b) or not isinstance(a, list) or len(a) != len(b):
        return False
    pairs_a, pairs_b = (r if isinstance(r, Map) else [r[i:i + 2] for i in range(0, len(r), 2)] for r in (a, b))
    for (name_a, value_a), (name_b, value_b) in zip(pairs_a, pairs_b):
        if name_a != name_b or type(value_a) is not type(value_b):
            return False
        if name_a not in (b'server', b'version', b'id') and not same(value_a, value_b):
            return False
    return True


def _client(command, a, b):
    """CLIENT ID: a number."""
    return len(command) > 1 and command[1].upper() == b'ID' and type(a) is int and type(b) is int and b > 0


def _object(command, a, b):
    """OBJECT IDLETIME: seconds. OBJECT ENCODING: embstr and raw are one. OBJECT REFCOUNT: whether small integers are shared."""
    what = command[1].upper() if len(command) > 1 else b''
    if what == b'IDLETIME':
        return type(a) is int and type(b) is int and b >= 0 and abs(a - b) <= 60
    if what == b'ENCODING':
        return {bytes(x) if type(x) is bytes else None for x in (a, b)} <= {b'embstr', b'raw'}
    if what == b'REFCOUNT':
        return a == 2147483647 and b == 1
    return False


RULES = {
    b'TTL': _near(NEAR_S), b'EXPIRETIME': _near(NEAR_S), b'PTTL': _near(NEAR_MS), b'PEXPIRETIME': _near(NEAR_MS),
    b'KEYS': _same_set, b'SCAN': _scan_shape, b'TIME': _two_numbers, b'HELLO': _hello, b'CLIENT': _client, b'OBJECT': _object,
}


def equal(command, expected, got):
    if same(expected, got):
        return True
    rule = RULES.get(command[0].upper())
    return rule is not None and rule(command, expected, got)


class Pair:
    """Two servers, and a connection (or several) to each, in step. reference and subject have .client() and .alive()."""

    def __init__(self, start_reference, start_subject, protocol=2, connections=2, client=None):
        self.start_reference, self.start_subject = start_reference, start_subject
        self.protocol, self.count = protocol, connections
        self.make_client = client or (lambda server: server.client())     # how the subject's clients are made (tests distort them)
        self.reference, self.subject = start_reference(), start_subject()
        self.connections = []
        self.commands = 0
        self.patience = 10 * SLOW       # seconds for a reply

    def fresh(self):
        """Empty databases and new connections; a server that died or hangs is started anew."""
        for a, b in self.connections:
            a.close()
            b.close()
        self.connections = []
        if not (self.subject.alive() and self.flush(self.subject)):
            self.subject.kill()
            self.subject = self.start_subject()
            assert self.flush(self.subject), 'a fresh server does not answer FLUSHALL'
        assert self.flush(self.reference)
        for _ in range(self.count):
            self.connections.append(self.connect())

    def flush(self, server):
        try:
            with Client(server.address(), timeout=self.patience) as c:
                return c.command('FLUSHALL') == b'OK'
        except (Closed, OSError):
            return False

    def connect(self):
        a, b = self.reference.client(), self.make_client(self.subject)
        b.socket.settimeout(self.patience)
        if self.protocol == 3:
            a.command('HELLO', 3)
            b.command('HELLO', 3)
        return a, b

    def stop(self):
        self.subject.stop()
        self.reference.stop()

    # Steps

    def run(self, script, whole_state=True):
        """Raises Difference at the first reply that is not as expected."""
        for index, (kind, connection, commands) in enumerate(script):
            a, b = self.connections[connection]
            try:
                getattr(self, '_' + kind)(index, connection, a, b, commands)
            except (Closed, ConnectionError, ProtocolFault, TimeoutError) as fault:
                state = '' if self.subject.alive() else ', and its process has ended'
                raise Difference(index, None, 'replies', '%s: %s%s' % (type(fault).__name__, fault, state)) from fault
            self.commands += len(commands)
        if whole_state:
            self.compare_state(len(script))

    def _run(self, index, connection, a, b, commands):
        data = b''.join(map(encode_cached, commands))
        a.send(data)
        b.send(data)
        if len(commands) == 1 and commands[0][0].upper() == b'RANDOMKEY' and len(commands[0]) == 1:
            self._randomkey(index, a, b, commands[0])
            return
        expected = [a.read() for _ in commands]
        for command, want in zip(commands, expected):
            got = b.read()
            if not equal(command, want, got):
                raise Difference(index, command, want, got)

    def _randomkey(self, index, a, b, command):
        want, got = a.read(), b.read()
        if want in (NIL, NULL) or got in (NIL, NULL):
            if not same(want, got):
                raise Difference(index, command, want, got)
        elif a.command('EXISTS', got) != 1:
            raise Difference(index, command, want, got, 'no such key')

    def _mute(self, index, connection, a, b, commands):
        data = b''.join(map(encode_cached, commands)) + encode('ECHO', MARK)
        answers = []
        for c in (a, b):
            c.send(data)
            replies = []
            while True:
                reply = c.read()
                if type(reply) is bytes and reply == MARK:
                    break
                replies.append(reply)
            answers.append(replies)
        # Which command a reply belongs to depends on what CLIENT REPLY did, so a reply is forgiven if any command's rule forgives it.
        want, got = answers
        if len(want) != len(got) or not all(any(equal(c, x, y) for c in commands) for x, y in zip(want, got)):
            raise Difference(index, None, want, got)

    def _scan(self, index, connection, a, b, commands):
        options = commands[0]
        found = []
        for c in (a, b):
            keys, cursor = set(), b'0'
            for _ in range(100000):
                reply = c.command('SCAN', cursor, *options)
                if type(reply) is not list or len(reply) != 2 or type(reply[0]) is not bytes or type(reply[1]) is not list:
                    keys = reply
                    break
                cursor = reply[0]
                keys.update(reply[1])
                if cursor == b'0':
                    break
            else:
                keys = 'the scan does not end'
            found.append(keys)
        if type(found[0]) is not type(found[1]) or found[0] != found[1]:
            raise Difference(index, [b'SCAN', b'0', *options], found[0], found[1])

    def _pause(self, index, connection, a, b, commands):
        time.sleep(.005)

    def _quit(self, index, connection, a, b, commands):
        data = b''.join(map(encode_cached, commands))
        for c in (a, b):
            c.send(data)
        for command in commands:
            want, got = a.read(), b.read()
            if not equal(command, want, got):
                raise Difference(index, command, want, got)
        want, got = a.read_to_end(), b.read_to_end()
        if want != got:
            raise Difference(index, [b'QUIT'], want, got)
        a.close()
        b.close()
        self.connections[connection] = self.connect()

    def compare_state(self, index):
        """Every key of every database: value and time to live."""
        pairs = []
        for server in (self.reference, self.subject):
            with Client(server.address()) as c:
                state = {}
                for database in range(16):
                    c.command('SELECT', database)
                    keys = sorted(c.command('KEYS', '*'))
                    if keys:
                        values = c.command('MGET', *keys)
                        times = c.pipeline([('PTTL', k) for k in keys])
                        for key, value, ms in zip(keys, values, times):
                            state[database, key] = value, ms
                pairs.append(state)
        want, got = pairs
        for place in sorted(want.keys() | got.keys()):
            if place not in want or place not in got:
                raise Difference(index, None, want.get(place, 'no such key'), got.get(place, 'no such key'), 'database %d, key %r at the end' % place)
            (value_a, ms_a), (value_b, ms_b) = want[place], got[place]
            if not same(value_a, value_b) or not (ms_a == ms_b or RULES[b'PTTL'](None, ms_a, ms_b)):
                raise Difference(index, None, want[place], got[place], 'database %d, key %r at the end' % place)


_cache = {}


def encode_cached(command):
    key = tuple(command)
    data = _cache.get(key)
    if data is None:
        if len(_cache) > 50000:
            _cache.clear()
        data = _cache[key] = encode(*command)
    return data


# Shrinking: the generator of the long runs is plain random, so the smallest script that still shows a difference is searched for here.

def shrink(pair, script, first, seconds=20.0):
    """Returns (script, difference): as small as it can be made within that time. first: the difference that was seen."""
    patience, pair.patience = pair.patience, 1.5 * SLOW
    try:
        return _shrink(pair, script, first, time.monotonic() + seconds * SLOW)
    finally:
        pair.patience = patience


def _shrink(pair, script, first, deadline):
    best, fault = list(script), first

    def attempt(candidate):
        nonlocal best, fault
        if time.monotonic() > deadline or not candidate:
            return False
        try:
            pair.fresh()
            pair.run(candidate)
        except Difference as d:
            best, fault = candidate, d
            return True
        return False

    if first.step is not None and first.step + 1 < len(best):
        attempt(best[:first.step + 1])
    if not attempt(list(best)):
        return best, None       # not to be seen a second time
    flat = [(kind, connection, [c]) if kind == RUN else (kind, connection, commands) for kind, connection, commands in best for c in (commands if kind == RUN else [None])]
    attempt(flat)               # does it take a pipeline?
    progress = True
    while progress and time.monotonic() < deadline:
        progress = _drop_steps(attempt, lambda: best)
        progress |= _drop_commands(attempt, lambda: best)
        progress |= _simplify(attempt, lambda: best)
    return best, fault


def _drop_steps(attempt, current):
    progress = False
    size = max(len(current()) // 2, 1)
    while True:
        at = 0
        while at < len(current()):
            if attempt(current()[:at] + current()[at + size:]):
                progress = True
            else:
                at += size
        if size == 1:
            return progress
        size = max(size // 2, 1)


def _drop_commands(attempt, current):
    progress = False
    for index in range(len(current()) - 1, -1, -1):
        if index >= len(current()) or current()[index][0] not in (RUN, MUTE):
            continue
        size = max(len(current()[index][2]) // 2, 1)
        while True:
            at = 0
            while index < len(current()) and at < len(current()[index][2]) and len(current()[index][2]) > 1:
                kind, connection, commands = current()[index]
                if attempt(current()[:index] + [(kind, connection, commands[:at] + commands[at + size:])] + current()[index + 1:]):
                    progress = True
                else:
                    at += size
            if size == 1:
                break
            size //= 2
    return progress


def _simplify(attempt, current):
    """Shorter arguments, one connection."""
    progress = False
    if any(connection for _, connection, _ in current()):
        progress |= attempt([(kind, 0, commands) for kind, _, commands in current()])
    for index in range(len(current())):
        kind, connection, commands = current()[index]
        for number in range(len(commands)):
            place = 1
            while place < len(current()[index][2][number]):
                old = current()[index][2][number]
                if len(old) > 3 and place > 1 and _replace(attempt, current, index, number, old[:place] + old[place + 1:]):
                    progress = True
                    continue
                if len(old[place]) > 8 and any(_replace(attempt, current, index, number, old[:place] + [shorter] + old[place + 1:])
                                              for shorter in (old[place][:1], old[place][:len(old[place]) // 2], old[place][:-1])):
                    progress = True
                    continue
                place += 1
    return progress


def _replace(attempt, current, index, number, command):
    kind, connection, commands = current()[index]
    return attempt(current()[:index] + [(kind, connection, commands[:number] + [command] + commands[number + 1:])] + current()[index + 1:])


def describe(script, longest=None):
    """The script as lines for redis-cli; longest: cut arguments to that many bytes (and lose the exact command)."""
    if longest:
        script = [(kind, connection, [[a if len(a) <= longest else a[:longest] + b'...(%d bytes)' % len(a) for a in c] for c in commands]) for kind, connection, commands in script]
    lines = []
    several = len({connection for _, connection, _ in script}) > 1
    for kind, connection, commands in script:
        mark = '   # connection %d' % connection if several else ''
        if kind == PAUSE:
            lines.append('# wait 5 ms')
        elif kind == SCAN:
            lines.append(as_cli([b'SCAN', b'0', *commands[0]]) + '   # and so on until the cursor is 0' + mark)
        else:
            if len(commands) > 1:
                lines.append('# as one pipeline:' + mark)
            lines += [as_cli(c) + (mark if len(commands) == 1 else '') for c in commands]
            if len(commands) > 1:
                lines.append('# end of the pipeline')
    return '\n'.join(lines)
