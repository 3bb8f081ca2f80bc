"""Runs a script (generate.py) against two servers and compares every reply.

What may differ, and why, is in differences.md; the rules below are that list, one by one, and nothing else is forgiven.
"""

import time

import re

from generate import DIRECTIVES, EXPIRE, HOLD, MUTE, OTHER_ADDRESS, OTHER_ID, OWN_ADDRESS, OWN_ID, RUN, SCAN
from resp import Client, Closed, Error, Map, NIL, NULL, ProtocolFault, Simple, Verbatim, as_cli, encode, same
from server import PATIENCE, SLOW

NEAR_S, NEAR_MS = 15, 15500       # how far apart two times to live may be: the two servers run the same command at different moments
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


def _same_pairs(_command, a, b):
    """HGETALL: the same pairs in any order."""
    if type(a) is not type(b) or not isinstance(a, list) or len(a) != len(b):
        return False
    pairs = [r if isinstance(r, Map) else [r[i:i + 2] for i in range(0, len(r), 2)] for r in (a, b)]
    return sorted(map(repr, pairs[0])) == sorted(map(repr, pairs[1]))


def _drawn(_command, a, b):
    """HRANDFIELD: of the same shape."""
    if isinstance(a, list):
        return type(a) is type(b) and len(a) == len(b) and all(_drawn(None, x, y) for x, y in zip(a, b))
    return type(a) is type(b) is bytes


def _drawn_scored(_command, a, b):
    """ZRANDMEMBER: of the same shape; a score is a double in RESP3."""
    if isinstance(a, list):
        return type(a) is type(b) and len(a) == len(b) and all(_drawn_scored(None, x, y) for x, y in zip(a, b))
    return type(a) is type(b)


def _field_scan(command, a, b):
    """HSCAN, ZSCAN: the same if both give all at once; else another page."""
    if not _scan_shape(command, a, b):
        return False
    return not (a[0] == b[0] == b'0' and command[2] == b'0') or _same_pairs(command, a[1], b[1])


def _set_scan(command, a, b):
    """SSCAN: the same if both give all at once; else another page."""
    if not _scan_shape(command, a, b):
        return False
    return not (a[0] == b[0] == b'0' and command[2] == b'0') or _same_set(command, a[1], b[1])


def _scan_shape(_command, a, b):
    """SCAN with a cursor that means nothing to the other server, or a first page of another length."""
    return all(type(r) is list and len(r) == 2 and type(r[0]) is bytes and r[0].isdigit() and type(r[1]) is list for r in (a, b))


def _two_numbers(_command, a, b):
    """TIME."""
    return all(type(r) is list and len(r) == 2 and all(type(x) is bytes and x.isdigit() for x in r) for r in (a, b)) and abs(int(a[0]) - int(b[0])) <= NEAR_S


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


def _word(command, place=1):
    return command[place].upper() if len(command) > place else b''


def _lines(reply):
    """The connections of CLIENT LIST or INFO: for each a list of (field, value)."""
    text = bytes(reply)[4 if type(reply) is Verbatim else 0:].rstrip(b'\n')
    return [[tuple(field.split(b'=', 1)) for field in line.split(b' ')] for line in text.split(b'\n')] if text else []


# Of a connection's fields, those that follow from what it did.
SESSION = (b'name', b'flags', b'db', b'sub', b'psub', b'ssub', b'multi', b'multi-mem', b'cmd', b'user', b'redir', b'resp')


def _client(command, a, b):
    """CLIENT ID: a number. LIST and INFO: the same fields in the same order; those of SESSION have the same values where the same connections are
    asked for. HELP: without TRACKING and CACHING, and with what later versions have."""
    what = _word(command)
    if what == b'ID':
        return type(a) is int and type(b) is int and b > 0
    if what in (b'LIST', b'INFO') and type(a) is type(b) and type(a) in (bytes, Verbatim):
        a, b = _lines(a), _lines(b)
        if any([name for name, _ in line] != [name for name, _ in a[0]] for line in a + b):
            return False
        if what == b'LIST' and _word(command, 2) != b'ID':
            return len(a) >= 2 and len(b) >= 2
        session = [sorted([(name, value) for name, value in line if name in SESSION] for line in lines) for lines in (a, b)]
        return session[0] == session[1]
    return what == b'HELP' and _help(a, b, LATER_HELP)


# Lines of CLIENT HELP that redis-server 7.0 does not have.
LATER_HELP = (b'SETINFO <option> <value>', b'    Set client meta attr. Options are:', b'    * LIB-NAME: the client lib name.', b'    * LIB-VER: the client lib version.', b'NO-TOUCH (ON|OFF)',
              b'    Will not touch LRU/LFU stats when this mode is on.')


def _help(a, b, additions=()):
    """HELP: some of the reference's lines, in their order, and the additions."""
    if type(a) is not list or type(b) is not list or not all(type(line) is Simple for line in a + b):
        return False
    theirs = iter(a)
    return a[0] == b[0] and a[-2:] == b[-2:] and all(line in additions or line in theirs for line in b)


def _command(command, a, b):
    """COMMAND: sets in any order; as to names and subcommands, those that the subject has."""
    what = _word(command)
    if type(a) is not type(b):
        return False
    if what == b'COUNT':
        return type(a) is int and 0 < b <= a
    if not isinstance(a, list):
        return False
    if what == b'LIST':
        return set(b) - LATER_COMMANDS <= set(a)
    if what == b'GETKEYSANDFLAGS':
        return len(a) == len(b) and all(x[0] == y[0] and type(x[1]) is type(y[1]) and sorted(x[1]) == sorted(y[1]) for x, y in zip(a, b))
    if what == b'DOCS':
        a, b = ({bytes(name): fields for name, fields in _pairs(r)} for r in (a, b))
        b = {name: fields for name, fields in b.items() if name not in LATER_COMMANDS}
        return b.keys() <= a.keys() and (len(command) == 2 or a.keys() == b.keys()) and all(_docs(a[name], b[name]) for name in b)
    if len(command) > 2 and what == b'INFO':
        return len(a) == len(b) and all(map(_row, a, b))
    theirs = {bytes(row[0]): row for row in a}
    return what in (b'', b'INFO') and all(bytes(row[0]) in LATER_COMMANDS or bytes(row[0]) in theirs and _row(theirs[bytes(row[0])], row) for row in b)


LATER_COMMANDS = {b'client|setinfo', b'client|no-touch', b'hexpire', b'hexpireat', b'hexpiretime', b'hgetdel', b'hgetex', b'hpersist', b'hpexpire', b'hpexpireat', b'hpexpiretime', b'hpttl', b'hsetex', b'httl'}


def _row(a, b):
    """Of COMMAND INFO."""
    if same(a, b):
        return True
    if type(a) is not list or type(b) is not list or len(a) != len(b):
        return False
    if not all(type(a[i]) is type(b[i]) and (sorted(a[i]) == sorted(b[i]) if i in (2, 6, 7) else same(a[i], b[i])) for i in range(9)):
        return False
    theirs = {bytes(row[0]): row for row in a[9]}
    return type(a[9]) is type(b[9]) and all(_row(theirs.get(bytes(row[0])), row) for row in b[9] if row[0] not in LATER_COMMANDS)


def _pairs(fields):
    """A map of RESP3, or what RESP2 makes of it, as pairs."""
    return list(fields) if isinstance(fields, Map) else [fields[i:i + 2] for i in range(0, len(fields), 2)]


def _docs(a, b):
    """Of COMMAND DOCS."""
    if type(a) is not type(b):
        return False
    (fields_a, subs_a), (fields_b, subs_b) = (([p for p in r if p[0] != b'subcommands'], {bytes(n): f for p in r if p[0] == b'subcommands' for n, f in _pairs(p[1])}) for r in map(_pairs, (a, b)))
    return same(fields_a, fields_b) and all(name in LATER_COMMANDS or (name in subs_a and _docs(subs_a[name], fields)) for name, fields in subs_b.items())


# What CONFIG GET shows of the servers themselves.
OWN_VALUES = {b'dir', b'port', b'syslog-ident'}


def _config(command, a, b):
    """CONFIG GET: all of the reference's names with the same values, in any order. SET: the value that is refused may be told behind the same text."""
    what = _word(command)
    if type(a) is not type(b):
        return False
    if what == b'GET' and isinstance(a, list):
        a, b = ({bytes(name): value for name, value in _pairs(r)} for r in (a, b))
        return a.keys() <= b.keys() and all(name in OWN_VALUES or same(a[name], b[name]) for name in a)
    return what == b'SET' and type(a) is Error and b.startswith(a + b' (got "') and b.endswith(b')')


def _texts(a, b):
    return type(a) is type(b) and type(a) in (bytes, Verbatim) and len(b) > 0


def _slowlog(command, a, b):
    """SLOWLOG LEN and GET: which commands were slow is chance."""
    what = _word(command)
    if what == b'LEN':
        return type(a) is int and type(b) is int and b >= 0
    return what == b'GET' and type(a) is list and type(b) is list and all(
        [type(x) for x in entry] == [int, int, int, list, bytes, bytes] and all(type(x) is bytes for x in entry[3]) for entry in a + b)


def _latency(command, a, b):
    """LATENCY DOCTOR: a text. HISTOGRAM: names, each with calls and counts."""
    what = _word(command)
    if what == b'HISTOGRAM' and type(a) is type(b) and isinstance(a, list):
        return all(type(name) is bytes and [k for k, _ in _pairs(fields)] == [b'calls', b'histogram_usec'] and type(_pairs(fields)[0][1]) is int and
                   all(type(x) is int for pair in _pairs(_pairs(fields)[1][1]) for x in pair) for r in (a, b) for name, fields in _pairs(r))
    return what == b'DOCTOR' and len(command) == 2 and _texts(a, b)


def _memory(command, a, b):
    """MEMORY USAGE: a number. DOCTOR and MALLOC-STATS: a text. STATS: the same names and types."""
    what = _word(command)
    if what == b'USAGE':
        return type(a) is int and type(b) is int and b > 0
    if what == b'STATS' and type(a) is type(b) and isinstance(a, list):
        a, b = ([(name, type(value)) for name, value in _pairs(r) if not name.startswith(b'db.')] for r in (a, b))
        return a == b
    return what in (b'DOCTOR', b'MALLOC-STATS') and len(command) == 2 and _texts(a, b)


def _debug(command, a, b):
    """DEBUG OBJECT: a line. HELP: the subject's own, between the same first and last lines."""
    what = _word(command)
    if what == b'OBJECT':
        fields = [re.fullmatch(rb'Value at:0x[0-9a-f]+ refcount:\d+ encoding:(int|embstr|raw|listpack|hashtable|intset|quicklist|skiplist) serializedlength:\d+ lru:\d+ lru_seconds_idle:\d+'
                               rb'( ql_nodes:\d+ ql_avg_node:\d+\.\d\d ql_listpack_max:-?\d+ ql_compressed:\d ql_uncompressed_size:\d+)?', bytes(r)) for r in (a, b)]
        return type(a) is Simple and type(b) is Simple and all(fields) and len({f.group(1).replace(b'embstr', b'raw') for f in fields}) == 1
    return what == b'HELP' and type(a) is type(b) is list and same([a[0], *a[-2:]], [b[0], *b[-2:]])


def _object(command, a, b):
    """OBJECT IDLETIME: seconds, and redis-server's small integers are idle since its start. OBJECT ENCODING: embstr and raw are one. OBJECT REFCOUNT: whether small integers are shared, and
    what EXEC has run still refers to the values that it set."""
    what = command[1].upper() if len(command) > 1 else b''
    if what == b'IDLETIME':
        return type(a) is int and type(b) is int and 0 <= b <= a + 60
    if what == b'ENCODING':
        return {bytes(x) if type(x) is bytes else None for x in (a, b)} <= {b'embstr', b'raw'}
    if what == b'REFCOUNT':
        return a in (2147483647, 2) and b == 1
    return False


def _sorted_somehow(command, a, b):
    """SORT where Redis leaves the order open: a set as it lies, equal weights of ALPHA."""
    if a == Error(b"ERR One or more scores can't be converted into double"):
        return True     # redis-server 7.0 looks at an errno that may be of an earlier command, whose number was out of range
    options = [x.upper() for x in command]
    is_open = b'ALPHA' in options or b'BY' in options
    return is_open and type(a) is type(b) is list and sorted(a, key=repr) == sorted(b, key=repr)


RULES = {
    b'TTL': _near(NEAR_S), b'EXPIRETIME': _near(NEAR_S), b'PTTL': _near(NEAR_MS), b'PEXPIRETIME': _near(NEAR_MS),
    b'KEYS': _same_set, b'HKEYS': _same_set, b'HVALS': _same_set, b'HGETALL': _same_pairs, b'HRANDFIELD': _drawn, b'ZRANDMEMBER': _drawn_scored, b'HSCAN': _field_scan, b'ZSCAN': _field_scan, b'SCAN': _scan_shape, b'TIME': _two_numbers, b'HELLO': _hello, b'CLIENT': _client, b'OBJECT': _object,
    b'SMEMBERS': _same_set, b'SINTER': _same_set, b'SUNION': _same_set, b'SDIFF': _same_set, b'SSCAN': _set_scan,
    b'SORT': _sorted_somehow, b'SORT_RO': _sorted_somehow, b'COMMAND': _command, b'CONFIG': _config, b'SLOWLOG': _slowlog, b'LATENCY': _latency, b'MEMORY': _memory, b'DEBUG': _debug,
}


def equal(command, expected, got):
    if same(expected, got):
        return True
    rule = RULES.get(command[0].upper())
    return rule is not None and rule(command, expected, got)


# The whole value of a key, by its type.
VALUES = {
    b'string': lambda c, k: c.command('GET', k),
    b'hash': lambda c, k: sorted(zip(*[iter(c.command('HGETALL', k))] * 2)),
    b'set': lambda c, k: sorted(c.command('SMEMBERS', k)),
    b'list': lambda c, k: c.command('LRANGE', k, 0, -1),
    b'zset': lambda c, k: c.command('ZRANGE', k, '0', '-1', 'WITHSCORES'),
    b'none': lambda c, k: None,
}


class Pair:
    """Two servers, and a connection (or several) to each, in step. reference and subject have .client() and .alive()."""

    def __init__(self, start_reference, start_subject, protocol=2, connections=2, client=None):
        self.start_reference, self.start_subject = start_reference, start_subject
        self.protocol, self.count = protocol, connections
        self.make_client = client or (lambda server: server.client())     # how the subject's clients are made (tests distort them)
        self.reference, self.subject = start_reference(), start_subject()
        self.connections = []
        self.queued = []                # of each connection: what it has queued inside MULTI
        self.called = []                # of each connection, what the two servers call it: (id, address)
        self.commands = 0
        self.patience = PATIENCE        # for a reply
        with Client(self.reference.address()) as c:
            self.defaults = [(name, dict(zip(*[iter(c.command('CONFIG', 'GET', name))] * 2))[name]) for name in DIRECTIVES]

    def fresh(self):
        """Empty databases and new connections; a server that died or hangs is started anew."""
        for a, b in filter(None, self.connections):
            a.close()
            b.close()
        self.connections, self.called, self.queued = [None] * self.count, [None] * self.count, [[] for _ in range(self.count)]
        # The reference may hang as well: shrinking can make a pause of a thousand years.
        self.reference = self.answering(self.reference, self.start_reference)
        self.subject = self.answering(self.subject, self.start_subject)
        for number in range(self.count):
            self.connect(number)

    def answering(self, server, start):
        if server.alive() and self.flush(server):
            return server
        server.kill()
        server = start()
        assert self.flush(server), 'a fresh server does not answer FLUSHALL'
        return server

    def flush(self, server):
        try:
            with Client(server.address(), timeout=self.patience) as c:
                return c.command('FLUSHALL') == b'OK' and c.command('CONFIG', 'SET', *(x for pair in self.defaults for x in pair)) == b'OK'
        except (Closed, OSError):
            return False

    def connect(self, number):
        a, b = self.reference.client(), self.make_client(self.subject)
        self.called[number] = [(b'%d' % c.command('CLIENT', 'ID'), b'%s:%d' % (c.socket.getsockname()[0].encode(), c.socket.getsockname()[1])) for c in (a, b)]
        b.socket.settimeout(self.patience)
        if self.protocol == 3:
            a.command('HELLO', 3)
            b.command('HELLO', 3)
        self.connections[number] = a, b
        self.queued[number] = []

    def filled(self, commands, connection, server):
        """Names of connections in place of what stands for them."""
        own, other = self.called[connection][server], self.called[(connection + 1) % self.count][server]
        names = {OWN_ID: own[0], OWN_ADDRESS: own[1], OTHER_ID: other[0], OTHER_ADDRESS: other[1]}
        return b''.join(encode_cached([names.get(x, x) for x in command] if command[0].upper() == b'CLIENT' else command) for command in commands)

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
            try:
                self.compare_state(len(script))
            except (Closed, ConnectionError, ProtocolFault, TimeoutError) as fault:
                raise Difference(len(script), None, 'replies', '%s: %s' % (type(fault).__name__, fault)) from fault

    def _run(self, index, connection, a, b, commands):
        if len(commands) == 1 and commands[0][0].upper() in (b'SPOP', b'SRANDMEMBER') and len(commands[0]) > 1:
            self._draw(index, a, b, commands[0])
            return
        a.send(self.filled(commands, connection, 0))
        b.send(self.filled(commands, connection, 1))
        if len(commands) == 1 and commands[0][0].upper() == b'RANDOMKEY' and len(commands[0]) == 1:
            self._randomkey(index, a, b, commands[0])
            return
        expected = [a.read() for _ in commands]
        for command, want in zip(commands, expected):
            got = b.read()
            if not self.equal_in_order(connection, command, want, got):
                raise Difference(index, command, want, got)

    def equal_in_order(self, connection, command, want, got):
        """The same with what EXEC replies to the commands that were queued."""
        queued, name = self.queued[connection], command[0].upper()
        if want == b'QUEUED' and type(want) is Simple:
            queued.append(command)
        elif name in (b'EXEC', b'DISCARD', b'RESET', b'MULTI') and type(want) is not Error:
            self.queued[connection] = []
        if name == b'EXEC' and type(want) is list and type(got) is list and len(want) == len(got) == len(queued):
            return all(map(equal, queued, want, got))
        return equal(command, want, got)

    def _randomkey(self, index, a, b, command):
        want, got = a.read(), b.read()
        if want in (NIL, NULL) or got in (NIL, NULL) or Simple in (type(want), type(got)):
            if not same(want, got):
                raise Difference(index, command, want, got)
        elif (a.command('EXISTS', got), b.command('EXISTS', got)) != (1, 1):      # of both, so that both run the same commands
            raise Difference(index, command, want, got, 'no such key')

    def _draw(self, index, a, b, command):
        """Members by chance: of the set, as many as the reference's, and none twice unless that was asked for. What was popped is put back, so that the sets stay the same."""
        key, pops = command[1], command[0].upper() == b'SPOP'
        members = a.command('SMEMBERS', key)
        members = list(members) if isinstance(members, list) else []
        want, got = a.command(*command), b.command(*command)
        if not members or type(want) is not type(got) or isinstance(want, Error):
            if not same(want, got):
                raise Difference(index, command, want, got)
            return
        drawn = [r if isinstance(r, list) else [r] for r in (want, got)]
        again = not pops and len(command) > 2 and command[2].startswith(b'-')
        if len(drawn[0]) != len(drawn[1]) or not set(drawn[1]) <= set(members) or (not again and len(set(drawn[1])) < len(drawn[1])):
            raise Difference(index, command, want, got, 'of %s' % shorten(members))
        if not pops:
            return
        left = [c.command('SCARD', key) for c in (a, b)]
        if left != [len(members) - len(drawn[1])] * 2:
            raise Difference(index, command, left[0], left[1], 'members that are left')
        if left[0]:
            for c in (a, b):
                c.command('SADD', key, *members)

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

    def _expire(self, index, connection, a, b, commands):
        self._run(index, connection, a, b, commands[:1])
        time.sleep(.005)
        self._run(index, connection, a, b, commands[1:])

    _hold = _run

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
        self.connect(connection)

    def _kill(self, index, connection, a, b, commands):
        self._run(index, connection, a, b, commands)
        victim = connection if {OWN_ID, OWN_ADDRESS} & set(commands[0]) else (connection + 1) % self.count
        a, b = self.connections[victim]
        want, got = a.read_to_end(), b.read_to_end()
        if want != got:
            raise Difference(index, commands[0], want, got, 'of the connection that was ended')
        a.close()
        b.close()
        self.connect(victim)

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
                        types = c.pipeline([('TYPE', k) for k in keys])
                        values = [VALUES[bytes(t)](c, k) for k, t in zip(keys, types)]
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

SHRINK_SECONDS = 20


def shrink(pair, script, first):
    """Returns (script, difference): as small as it can be made within that time. first: the difference that was seen."""
    patience, pair.patience = pair.patience, 5 * SLOW
    try:
        return _shrink(pair, script, first, time.monotonic() + SHRINK_SECONDS * SLOW)
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
            if d.expected == 'replies' != first.expected:
                return False        # one of the servers hangs, which is another fault (or a pause that became longer)
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
        if kind in (EXPIRE, HOLD):
            continue            # what is left of one would not be what generate.py promises
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
        if kind == EXPIRE:
            lines += [as_cli(commands[0]) + mark, '# wait 5 ms', as_cli(commands[1]) + mark]
        elif kind == SCAN:
            lines.append(as_cli([b'SCAN', b'0', *commands[0]]) + '   # and so on until the cursor is 0' + mark)
        else:
            if len(commands) > 1:
                lines.append('# as one pipeline:' + mark)
            lines += [as_cli(c) + (mark if len(commands) == 1 else '') for c in commands]
            if len(commands) > 1:
                lines.append('# end of the pipeline')
    return '\n'.join(lines)
