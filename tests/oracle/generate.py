"""Random command scripts for the oracle.

A script is a list of steps; a step is (kind, connection, commands):

    RUN    the commands go out as one pipeline on that connection; one reply a command
    MUTE   the same, but some commands have no reply (CLIENT REPLY): replies are read up to a mark
    SCAN   one complete SCAN with the given options (commands[0]), from cursor 0 to 0
    PAUSE  5 ms, so that what was given a time to live of 1 ms is over
    QUIT   the commands go out as one pipeline; the last one ends the connection

The generator draws from any random.Random, also from hypothesis's, whose draws shrink. Few keys, so that commands meet; values
that sit on the edges of integers, of floats and of the sizes at which a server changes its representation.

Whatever depends on the moment is kept apart by construction, so that replies can be compared exactly: relative times to live are drawn
without repetition and lie a minute apart (GT and LT never compare two that differ by the servers' clocks), absolute ones come from a
few far ahead (so that they do meet), and a key that is to expire does so between two steps and is touched at once (redis-server counts
expired keys in DBSIZE until it meets them).
"""

RUN, MUTE, SCAN, PAUSE, QUIT = 'run', 'mute', 'scan', 'pause', 'quit'

KEYS = [b'a', b'b', b'c', b'key:1', b'key:2', b'{tag}x', b'{tag}y', b'{other}z', b'', b'\x00\xff\r\n', b'counter', b'k' * 300]

INTEGERS = [b'0', b'1', b'-1', b'9', b'10', b'99', b'100', b'255', b'256', b'-128', b'-129', b'9999', b'10000', b'32767', b'-32768', b'32768',
            b'65535', b'2147483647', b'2147483648', b'-2147483648', b'-2147483649', b'4294967295', b'4294967296',
            b'9223372036854775806', b'9223372036854775807', b'-9223372036854775807', b'-9223372036854775808']
NOT_INTEGERS = [b'', b' ', b' 1', b'1 ', b'+1', b'01', b'-0', b'-01', b'0x10', b'1e3', b'1.0', b'abc', b'9223372036854775808',
                b'-9223372036854775809', b'99999999999999999999', b'1\x00', b'\xc3\x28', b'--1', b'-']
FLOATS = [b'0', b'1.5', b'-1.5', b'3.0e3', b'1e17', b'1e-17', b'0.1', b'-0.1', b'.5', b'5.', b'1e308', b'-1e308', b'1e400', b'5e-324', b'1e4932',
          b'-0', b'-0.0', b'1e22', b'123456789012345678901234567890', b'0.30000000000000004', b'17.4599999999999990e1', b'0x1p3', b'+2.5']
NOT_FLOATS = [b'nan', b'NaN', b'inf', b'-inf', b'Infinity', b'', b' 1.0', b'1.0 ', b'1.0x', b'abc', b'1e', b'1,5', b'1.5\x00', b'e5', b'.', b'1e5000']
# In no run do offsets lie between these and the limit of a string (512 MB): such a value is legal, and slow on both sides.
OFFSETS = [b'0', b'1', b'2', b'5', b'10', b'43', b'44', b'45', b'100', b'1000', b'20000']
BAD_OFFSETS = [b'-1', b'-100', b'536870912', b'536870913', b'4294967296', b'9223372036854775807', b'-9223372036854775808', b'9223372036854775808', b'x', b'1.5', b'']
BOUNDS = [b'0', b'1', b'2', b'3', b'-1', b'-2', b'-3', b'5', b'-5', b'43', b'100', b'-100', b'20000', b'-20000', b'9223372036854775807', b'-9223372036854775808']
PATTERNS = [b'*', b'a', b'*a*', b'key:*', b'key:?', b'[abc]', b'[^a]', b'[a-c]', b'[c-a]', b'{tag}*', b'', b'**', b'\\*', b'k*', b'?', b'[', b'[a', b'a\\', b'*\xff*',
            b'[^', b'[]', b'[a-', b'*[a-z]:1', b'\\a', b'[\\a]', b'k' * 300]
JUNK = [b'', b'foo', b'-1', b'0', b'1', b'2', b'nx', b'EX', b'GET', b'KEEPTTL', b'\x00', b'1.5', b'9223372036854775807', b'9223372036854775808', b'-9223372036854775808', b'*',
        b'XX', b'GT', b'COUNT', b'MATCH', b'REPLACE', b'DB', b'ASYNC', b'a', b'b']
# Far ahead (the year 2100 and later), and few, so that equal ones meet.
ABSOLUTE_S = [4102444800, 4102444801, 4102448400, 4133980800]
BAD_TTL = [b'0', b'-1', b'-100', b'9223372036854775807', b'-9223372036854775808', b'9223372036854775808', b'9223372036854775', b'9223372036854776', b'92233720368547758',
           b'abc', b'', b'1.5', b' 5', b'1e3']
DATABASES = [b'0', b'0', b'0', b'1', b'1', b'9', b'15']
BAD_DATABASES = [b'16', b'-1', b'100', b'abc', b'', b'9223372036854775807', b'9223372036854775808', b'1.0', b' 1']
NO_COMMANDS = [b'FOO', b'GETT', b'SETS', b'G', b'', b'get\x00', b'GET ', b'\xff\xfe', b'X' * 200, b'set\r\n', b'incr2', b'object|encoding']

_TTL_CYCLE = 20011


class Generator:
    def __init__(self, rng, protocol=2, connections=2, longest_pipeline=40):
        self.rng = rng
        self.protocol = protocol
        self.connections = connections
        self.longest_pipeline = longest_pipeline
        self.ttls = 0
        self.blobs = {}
        self.names, self.weights = zip(*[(name[3:], weight) for name, weight in WEIGHTS.items()])

    # Draws

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, options):
        return options[self.rng.randrange(len(options))]

    def key(self):
        # The first few are drawn more often.
        return KEYS[min(self.rng.randrange(len(KEYS)), self.rng.randrange(len(KEYS)))]

    def keys(self, most=4):
        return [self.key() for _ in range(1 + self.rng.randrange(most))]

    def blob(self, size):
        """size bytes; long ones are cut from one stretch that compresses to nothing obvious."""
        start = self.rng.randrange(7)
        if (size, start) not in self.blobs:
            text = b''.join(b'%d,' % (i * i + start) for i in range(size // 3 + 8))
            self.blobs[size, start] = text[:size]
        return self.blobs[size, start]

    def value(self):
        n = self.rng.randrange(100)
        if n < 30:
            return self.pick(INTEGERS)
        if n < 45:
            return b'%d' % self.rng.randrange(-1000, 1000)
        if n < 52:
            return self.pick(NOT_INTEGERS)
        if n < 60:
            return self.pick(FLOATS)
        if n < 63:
            return self.pick(NOT_FLOATS)
        if n < 80:
            return self.pick([b'hello', b'world', b'abc', b'ohmytext', b'mynewtext', b'\x00\x01\xfe\xff', b'\r\n', b'$5\r\nhello\r\n', b'\xe2\x82\xac', b'\xff\xff'])
        if n < 95:
            return self.blob(self.pick([1, 5, 20, 43, 44, 45, 63, 64, 65, 100, 127, 128, 200, 255, 256, 257, 300]))
        return self.blob(self.pick([1000, 1024, 4096, 16383, 16384, 16385, 20000]))

    def integer(self):
        return self.pick(INTEGERS) if self.chance(.5) else self.pick(NOT_INTEGERS) if self.chance(.15) else b'%d' % self.rng.randrange(-100, 100)

    def float(self):
        n = self.rng.randrange(10)
        if n < 4:
            return self.pick(FLOATS)
        if n < 5:
            return self.pick(NOT_FLOATS)
        if n < 7:
            return self.pick(INTEGERS)
        return b'%.*f' % (self.rng.randrange(18), self.rng.uniform(-1000, 1000))

    def ttl_s(self):
        if self.chance(.15):
            return self.pick(BAD_TTL)
        self.ttls += 1
        return b'%d' % (2000 + 60 * (self.ttls * 7919 % _TTL_CYCLE))

    def ttl_ms(self):
        if self.chance(.15):
            return self.pick(BAD_TTL)
        self.ttls += 1
        return b'%d' % (2000000 + 60000 * (self.ttls * 7919 % _TTL_CYCLE))

    def at_s(self, past=True):
        if self.chance(.2):
            return self.pick(BAD_TTL + [b'1', b'1000000000'] if past else BAD_TTL)
        return b'%d' % self.pick(ABSOLUTE_S)

    def at_ms(self, past=True):
        if self.chance(.2):
            return self.pick(BAD_TTL + [b'1', b'1000000000000'] if past else BAD_TTL)
        return b'%d' % (self.pick(ABSOLUTE_S) * 1000 + self.pick([0, 1, 499, 500, 999]))

    def expiry_option(self, past=True):
        return [[b'EX', self.ttl_s()], [b'PX', self.ttl_ms()], [b'EXAT', self.at_s(past)], [b'PXAT', self.at_ms(past)]][self.rng.randrange(4)]

    def database(self):
        return self.pick(DATABASES) if self.chance(.85) else self.pick(BAD_DATABASES)

    def some(self, options, p=.3):
        """Some of the options (lists of arguments), in any order."""
        out = [o for o in options if self.chance(p)]
        if len(out) > 1 and self.chance(.5):
            out.reverse()
        return [argument for option in out for argument in option]

    # String commands

    def do_set(self):
        out = [b'SET', self.key(), self.value()]
        n = self.rng.randrange(10)
        if n < 5:
            return out
        options = []
        if self.chance(.4):
            options.append([self.pick([b'NX', b'XX'])])
        if self.chance(.35):
            options.append([b'GET'])
        if self.chance(.4):
            options.append(self.expiry_option(past=False))
        elif self.chance(.3):
            options.append([b'KEEPTTL'])
        if self.chance(.08):
            options.append(self.pick([[b'NX'], [b'XX'], [b'GET'], [b'KEEPTTL'], self.expiry_option(past=False), [b'EX'], [b'PXAT'], [b'FOO'], [b'PERSIST']]))
        if self.chance(.4):
            options.reverse()
        return out + [a for o in options for a in o]

    def do_get(self):
        return [b'GET', self.key()]

    def do_setnx(self):
        return [b'SETNX', self.key(), self.value()]

    def do_setex(self):
        return [b'SETEX', self.key(), self.ttl_s(), self.value()]

    def do_psetex(self):
        return [b'PSETEX', self.key(), self.ttl_ms(), self.value()]

    def do_getset(self):
        return [b'GETSET', self.key(), self.value()]

    def do_getdel(self):
        return [b'GETDEL', self.key()]

    def do_getex(self):
        n = self.rng.randrange(12)
        out = [b'GETEX', self.key()]
        if n < 3:
            return out
        if n < 5:
            return out + [b'PERSIST']
        if n < 11:
            return out + self.expiry_option()
        return out + self.pick([[b'PERSIST', b'EX', b'10'], [b'EX'], [b'KEEPTTL'], [b'NX'], [b'EX', b'10', b'PX', b'10'], [b'GET'], [b'foo'], [b'PERSIST', b'PERSIST']])

    def do_append(self):
        return [b'APPEND', self.key(), self.value()]

    def do_strlen(self):
        return [b'STRLEN', self.key()]

    def do_setrange(self):
        return [b'SETRANGE', self.key(), self.pick(OFFSETS) if self.chance(.8) else self.pick(BAD_OFFSETS), self.pick([b'', self.value(), b'xyz'])]

    def do_getrange(self):
        return [self.pick([b'GETRANGE', b'GETRANGE', b'SUBSTR']), self.key(), self.bound(), self.bound()]

    def bound(self):
        return self.pick(BOUNDS) if self.chance(.93) else self.pick(NOT_INTEGERS)

    def do_incr(self):
        return [self.pick([b'INCR', b'DECR']), self.key()]

    def do_incrby(self):
        return [self.pick([b'INCRBY', b'DECRBY']), self.key(), self.integer()]

    def do_incrbyfloat(self):
        return [b'INCRBYFLOAT', self.key(), self.float()]

    def do_mget(self):
        return [b'MGET', *self.keys(8)]

    def do_mset(self):
        out = [self.pick([b'MSET', b'MSET', b'MSETNX'])]
        for key in self.keys(5):
            out += [key, self.value()]
        if self.chance(.05):
            out.pop()
        return out

    def do_msetnx_free(self):
        """Keys of which some are usually free, so that both answers come."""
        out = [b'MSETNX']
        for key in self.keys(2):
            out += [key + b':%d' % self.rng.randrange(3), self.value()]
        return out

    def do_lcs(self):
        options = self.some([[b'LEN'], [b'IDX'], [b'WITHMATCHLEN'], [b'MINMATCHLEN', self.integer() if self.chance(.3) else b'%d' % self.rng.randrange(-1, 5)]])
        if self.chance(.06):
            options.append(self.pick(JUNK))
        return [b'LCS', self.key(), self.key(), *options]

    # Key commands

    def do_del(self):
        return [self.pick([b'DEL', b'UNLINK']), *self.keys(3)]

    def do_exists(self):
        return [self.pick([b'EXISTS', b'EXISTS', b'TOUCH']), *self.keys(4)]

    def do_type(self):
        return [b'TYPE', self.key()]

    def do_expire(self):
        name = self.pick([b'EXPIRE', b'PEXPIRE', b'EXPIREAT', b'PEXPIREAT'])
        when = {b'EXPIRE': self.ttl_s, b'PEXPIRE': self.ttl_ms, b'EXPIREAT': self.at_s, b'PEXPIREAT': self.at_ms}[name]()
        out = [name, self.key(), when]
        n = self.rng.randrange(20)
        if n < 9:
            return out
        if n < 17:
            return out + [self.pick([b'NX', b'XX', b'GT', b'LT'])]
        if n < 19:
            return out + [self.pick([b'NX', b'XX', b'GT', b'LT']), self.pick([b'NX', b'XX', b'GT', b'LT'])]
        return out + [self.pick(JUNK)]

    def do_ttl(self):
        return [self.pick([b'TTL', b'PTTL', b'EXPIRETIME', b'PEXPIRETIME']), self.key()]

    def do_persist(self):
        return [b'PERSIST', self.key()]

    def do_rename(self):
        return [self.pick([b'RENAME', b'RENAMENX']), self.key(), self.key()]

    def do_copy(self):
        out = [b'COPY', self.key(), self.key()] + self.some([[b'DB', self.database()], [b'REPLACE']], .4)
        if self.chance(.05):
            out.append(self.pick(JUNK))
        return out

    def do_move(self):
        return [b'MOVE', self.key(), self.database()]

    def do_randomkey(self):
        return [b'RANDOMKEY']

    def do_keys(self):
        return [b'KEYS', self.pick(PATTERNS)]

    def do_scan_error(self):
        return self.pick([[b'SCAN', b'abc'], [b'SCAN', b''], [b'SCAN', b'-1'], [b'SCAN', b'0', b'COUNT', b'0'], [b'SCAN', b'0', b'COUNT', b'-5'], [b'SCAN', b'0', b'COUNT', b'x'],
                          [b'SCAN', b'0', b'FOO', b'1'], [b'SCAN', b'0', b'MATCH'], [b'SCAN', b'0', b'COUNT'], [b'SCAN', b'0', b'COUNT', b'99999999999999999999'], [b'SCAN', b'99999999999999999999'],
                          [b'SCAN', b' 0'], [b'SCAN', b'1.5'], [b'SCAN', b'0', b'COUNT', b'10', b'COUNT'], [b'SCAN', b'0x0'], [b'SCAN', b'%d' % self.rng.randrange(1 << 30)]])

    def do_dbsize(self):
        return [b'DBSIZE']

    def do_object(self):
        return self.pick([[b'OBJECT', b'ENCODING', self.key()], [b'OBJECT', b'encoding', self.key()], [b'OBJECT', b'REFCOUNT', self.key()], [b'OBJECT', b'IDLETIME', self.key()],
                          [b'OBJECT', b'FREQ', self.key()], [b'OBJECT', b'HELP'], [b'OBJECT'], [b'OBJECT', b'ENCODING'], [b'OBJECT', b'FOO', b'a'], [b'OBJECT', b'ENCODING', b'a', b'b']])

    def do_select(self):
        return [b'SELECT', self.database()]

    def do_swapdb(self):
        return [b'SWAPDB', self.database(), self.database()]

    def do_flush(self):
        return [self.pick([b'FLUSHDB', b'FLUSHDB', b'FLUSHALL'])] + self.pick([[], [], [b'ASYNC'], [b'SYNC'], [b'sync'], [b'FOO'], [b'ASYNC', b'SYNC']])

    # Connection commands

    def do_ping(self):
        return self.pick([[b'PING'], [b'PING', self.value()], [b'PING', b'a', b'b'], [b'ECHO', self.value()], [b'ECHO'], [b'ECHO', b'a', b'b'], [b'ping'], [b'pInG', b'']])

    def do_hello(self):
        return self.pick([[b'HELLO'], [b'HELLO', b'2'], [b'HELLO', b'3'], [b'HELLO', b'1'], [b'HELLO', b'4'], [b'HELLO', b'abc'], [b'HELLO', b'3', b'SETNAME', b'me'],
                          [b'HELLO', b'2', b'SETNAME', b'a b'], [b'HELLO', b'3', b'AUTH', b'default'], [b'HELLO', b'3', b'AUTH', b'nobody', b'x'], [b'HELLO', b'3', b'FOO'],
                          [b'HELLO', b'3', b'SETNAME'], [b'HELLO', b'', b'x'], [b'HELLO', b'3', b'AUTH', b'default', b'x', b'SETNAME', b'n'], [b'HELLO', b'3.0'], [b'HELLO', b'-3']])

    def do_client(self):
        return self.pick([[b'CLIENT', b'ID'], [b'CLIENT', b'GETNAME'], [b'CLIENT', b'SETNAME', b'x%d' % self.rng.randrange(3)], [b'CLIENT', b'SETNAME', b''],
                          [b'CLIENT', b'SETNAME', b'a b'], [b'CLIENT', b'SETNAME', b'a\n'], [b'CLIENT', b'SETNAME', b'\xff'], [b'CLIENT', b'SETNAME'], [b'CLIENT'],
                          [b'CLIENT', b'FOO'], [b'CLIENT', b'FOO', b'bar'], [b'CLIENT', b'ID', b'x'], [b'CLIENT', b'REPLY', b'FOO'], [b'CLIENT', b'REPLY', b'ON'], [b'CLIENT', b'REPLY'],
                          [b'client', b'getname'], [b'CLIENT', b'GETNAME', b'x']])

    def do_auth(self):
        return self.pick([[b'AUTH', b'x'], [b'AUTH', b'default', b'x'], [b'AUTH', b'nobody', b'x'], [b'AUTH'], [b'AUTH', b'a', b'b', b'c'], [b'AUTH', b'']])

    def do_reset(self):
        return self.pick([[b'RESET'], [b'RESET'], [b'RESET', b'x']])

    def do_time(self):
        return self.pick([[b'TIME'], [b'TIME', b'x']])

    def do_unknown(self):
        return [self.pick(NO_COMMANDS)] + [self.value() for _ in range(self.rng.randrange(5))]

    # Scripts

    def command(self):
        name = self.rng.choices(self.names, self.weights)[0] if hasattr(self.rng, 'choices') else self.pick(self.names)
        command = getattr(self, 'do_' + name)()
        if self.chance(.05):
            command = self.spoil(command)
        elif self.chance(.05):
            command[0] = command[0].lower() if self.chance(.5) else command[0].swapcase()
        return command

    def spoil(self, command):
        """Wrong in one place: an argument too few or too many, or another one than was meant."""
        command = list(command)
        n = self.rng.randrange(5)
        if n == 0 and len(command) > 1:
            del command[1 + self.rng.randrange(len(command) - 1)]
        elif n == 1:
            command.append(self.pick(JUNK))
        elif n == 2 and len(command) > 1:
            command[1 + self.rng.randrange(len(command) - 1)] = self.pick(JUNK)
        elif n == 3 and len(command) > 1:
            command.insert(1 + self.rng.randrange(len(command)), self.pick(JUNK))
        else:
            del command[1:]
        # A relative time to live of a second or two would end in the middle of a run; and see step() for times that are over.
        if any(a.upper() in (b'EX', b'PX', b'EXAT', b'PXAT') for a in command) or command[0].upper() in (b'SETEX', b'PSETEX', b'EXPIRE', b'PEXPIRE'):
            command = [b'-1' if a in (b'1', b'2') else a for a in command]
        return command

    def step(self):
        """One or a few steps."""
        rng = self.rng
        connection = rng.randrange(self.connections)
        n = rng.randrange(200)
        if n < 6:
            key = self.key()
            expire = self.pick([[b'PEXPIRE', key, b'1'], [b'SET', key, b'soon', b'PX', b'1'], [b'PSETEX', key, b'1', b'soon'], [b'GETEX', key, b'PX', b'1'],
                                # Of a time that is over already redis-server makes an expired key, which DBSIZE counts until it is met.
                                [b'SET', key, b'late', b'PXAT', b'1'], [b'SET', key, b'late', b'GET', b'EXAT', b'1000000000']])
            return [(RUN, connection, [expire]), (PAUSE, connection, []), (RUN, connection, [[self.pick([b'EXISTS', b'GET', b'TYPE', b'PTTL', b'INCR']), key]])]
        if n < 8:
            options = self.some([[b'MATCH', self.pick(PATTERNS)], [b'COUNT', self.pick([b'1', b'10', b'1000'])], [b'TYPE', self.pick([b'string', b'STRING', b'list', b'foo'])]], .4)
            return [(SCAN, connection, [options])]
        if n < 9:
            muted = [self.mutable_command() for _ in range(1 + rng.randrange(3))]
            if self.chance(.5):
                commands = [[b'CLIENT', b'REPLY', b'SKIP'], *muted]
            else:
                commands = [[b'CLIENT', b'REPLY', b'OFF'], *muted, [b'CLIENT', b'REPLY', b'ON'], self.mutable_command()]
            return [(MUTE, connection, commands)]
        if n < 10 and self.chance(.3):
            return [(QUIT, connection, [self.mutable_command() for _ in range(rng.randrange(3))] + [[b'QUIT']])]
        size = 1 if n < 60 else 1 + rng.randrange(self.longest_pipeline)
        steps, pipeline = [], []
        for _ in range(size):
            command = self.command()
            if command[0].upper() == b'RANDOMKEY':
                # Checked against the keys of that moment, so it goes alone.
                if pipeline:
                    steps.append((RUN, connection, pipeline))
                steps.append((RUN, connection, [command]))
                pipeline = []
            else:
                pipeline.append(command)
        if pipeline:
            steps.append((RUN, connection, pipeline))
        return steps

    def mutable_command(self):
        while True:
            command = self.command()
            if command[0].upper() not in (b'CLIENT', b'HELLO', b'RESET', b'RANDOMKEY', b'QUIT'):
                return command

    def script(self, commands):
        """About this many commands."""
        steps, count = [], 0
        while count < commands:
            for step in self.step():
                steps.append(step)
                count += max(len(step[2]), 1)
        return steps


WEIGHTS = {
    'do_set': 60, 'do_get': 40, 'do_setnx': 8, 'do_setex': 6, 'do_psetex': 6, 'do_getset': 8, 'do_getdel': 6, 'do_getex': 14, 'do_append': 14,
    'do_strlen': 8, 'do_setrange': 14, 'do_getrange': 16, 'do_incr': 20, 'do_incrby': 20, 'do_incrbyfloat': 16, 'do_mget': 14, 'do_mset': 14,
    'do_msetnx_free': 5, 'do_lcs': 5, 'do_del': 14, 'do_exists': 10, 'do_type': 6, 'do_expire': 40, 'do_ttl': 30, 'do_persist': 8, 'do_rename': 14,
    'do_copy': 14, 'do_move': 8, 'do_randomkey': 3, 'do_keys': 6, 'do_scan_error': 4, 'do_dbsize': 6, 'do_object': 12, 'do_select': 6, 'do_swapdb': 3,
    'do_flush': 2, 'do_ping': 8, 'do_hello': 3, 'do_client': 5, 'do_auth': 2, 'do_reset': 1, 'do_time': 1, 'do_unknown': 4,
}
