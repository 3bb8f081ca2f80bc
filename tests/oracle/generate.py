"""Random command scripts for the oracle.

A script is a list of steps; a step is (kind, connection, commands):

    RUN    the commands go out as one pipeline on that connection; one reply a command
           (transactions are such steps, on two connections in turn)
    MUTE   the same, but some commands have no reply (CLIENT REPLY): replies are read up to a mark
    SCAN   one complete SCAN with the given options (commands[0]), from cursor 0 to 0
    EXPIRE the first command gives a key a time to live that is over 5 ms later; then the second meets the key
    HOLD   a CLIENT PAUSE, reads, and its end, as one pipeline
    QUIT   the commands go out as one pipeline; the last one ends the connection
    KILL   one CLIENT KILL, which ends one connection: this one, if OWN_... is its argument, else the other

The generator draws from any random.Random, also from hypothesis's, whose draws shrink. Few keys, so that commands meet; values
that sit on the edges of integers, of floats and of the sizes at which a server changes its representation.

Whatever depends on the moment is kept apart by construction, so that replies can be compared exactly: relative times to live are drawn
without repetition and lie a minute apart (GT and LT never compare two that differ by the servers' clocks), absolute ones come from a
few far ahead (so that they do meet), and a key that is to expire does so within one step and is touched at once (redis-server counts
expired keys in DBSIZE until it meets them, and looks for a RANDOMKEY for ever if it has no others and may not delete them). Nothing else stands within a pause, and its
end always. The shrinker leaves both kinds of step whole.
"""

from geo import GEO_WEIGHTS, Geo
from hashes import HASH_WEIGHTS, Hashes
from lists import LIST_WEIGHTS, Lists
from sets import SET_WEIGHTS, Sets
from sorting import SORTING_WEIGHTS, Sorting
from zsets import ZSET_WEIGHTS, Zsets

RUN, MUTE, SCAN, EXPIRE, HOLD, QUIT, KILL = 'run', 'mute', 'scan', 'expire', 'hold', 'quit', 'kill'

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
# Of bits: as with OFFSETS, none that is legal and far away.
BITS = [b'0', b'1', b'2', b'3', b'5', b'6', b'7', b'8', b'9', b'15', b'16', b'31', b'63', b'64', b'65', b'100', b'351', b'352', b'1000', b'2039', b'2040', b'8000', b'131072', b'160000']
BAD_BITS = [b'-1', b'4294967296', b'8589934592', b'9223372036854775807', b'9223372036854775808', b'18446744073709551616', b'x', b'', b'1.5', b' 1', b'#1', b'#', b'#-1', b'1 ', b'+1', b'01']
FIELDS = [b'u1', b'u2', b'u4', b'u7', b'u8', b'u9', b'u16', b'u31', b'u32', b'u33', b'u62', b'u63', b'i1', b'i2', b'i5', b'i8', b'i15', b'i16', b'i32', b'i33', b'i63', b'i64']
BAD_FIELDS = [b'u64', b'i65', b'u0', b'i0', b'u-1', b'i', b'u', b'', b'8', b'U8', b'I8', b'u08', b'u 8', b'x8', b'u8x', b'i9223372036854775808']
HLLS = [b'h1', b'h2', b'h3', b'{tag}h', b'{tag}i', b'{other}h']
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
NO_COMMANDS = [b'FOO', b'GETT', b'SETS', b'G', b'', b'get\x01', b'GET ', b'\xff\xfe', b'X' * 200, b'set\r\n', b'incr2', b'object|encoding']

# Arguments that stand for what each server calls the connection itself, or the other one; compare.py fills them in.
OWN_ID, OTHER_ID, OWN_ADDRESS, OTHER_ADDRESS = b'<own id>', b'<other id>', b'<own address>', b'<other address>'

# Directives that both servers take, and that change no other command's reply (with these values): compare.py sets them back before each script.
NUMBERS = [b'0', b'1', b'2', b'5', b'100', b'1000', b'-1', b'-5', b'', b'abc', b'1.5', b'65536', b'2147483647', b'2147483648', b'9223372036854775808', b'1kb', b'+1', b'01', b' 1', b'1 ']
SIZES = [b'0', b'1', b'100', b'16384', b'1k', b'1kb', b'1KB', b'1m', b'1mb', b'3gb', b'3GB', b'1b', b'10xb', b'-1', b'1.5mb', b'abc', b'99999999999999999999', b'50%', b' 1mb', b'1 mb']
SWITCHES = [b'yes', b'no', b'YES', b'No', b'', b'1', b'true', b'on', b'yes ']
DIRECTIVES = {
    **dict.fromkeys((b'maxmemory-samples', b'lfu-log-factor', b'lfu-decay-time', b'active-expire-effort', b'repl-timeout', b'repl-backlog-ttl', b'min-replicas-max-lag',
                     b'list-max-listpack-size', b'set-max-intset-entries', b'hash-max-listpack-entries', b'hash-max-ziplist-entries', b'zset-max-listpack-entries', b'cluster-node-timeout',
                     b'acllog-max-len', b'tracking-table-max-keys', b'stream-node-max-entries', b'auto-aof-rewrite-percentage', b'shutdown-timeout', b'replica-priority', b'slave-priority',
                     b'busy-reply-threshold', b'lua-time-limit', b'tcp-keepalive', b'repl-diskless-sync-delay', b'list-compress-depth', b'cluster-migration-barrier'), NUMBERS),
    **dict.fromkeys((b'auto-aof-rewrite-min-size', b'hll-sparse-max-bytes', b'hash-max-listpack-value', b'zset-max-ziplist-value', b'stream-node-max-bytes',
                     b'active-defrag-ignore-bytes'), SIZES),
    **dict.fromkeys((b'rdbcompression', b'no-appendfsync-on-rewrite', b'activerehashing', b'lazyfree-lazy-expire', b'stop-writes-on-bgsave-error', b'repl-disable-tcp-nodelay', b'latency-tracking',
                     b'dynamic-hz', b'aof-load-truncated', b'replica-lazy-flush', b'slave-lazy-flush', b'cluster-require-full-coverage', b'replica-announced'), SWITCHES),
    b'slowlog-max-len': [b'0', b'1', b'128', b'1000', b'abc', b''],
    b'cluster-link-sendbuf-limit': [b'0', b'1mb', b'5', b'x', b'-1'],
    b'timeout': [b'0', b'100', b'3600', b'-1', b'abc', b'', b'99999999999', b'1.5'],
    b'maxmemory': [b'0', b'1gb', b'3GB', b'5000000000', b'abc', b'10xb', b'-1', b'1.5gb'],
    b'maxmemory-clients': [b'0', b'1gb', b'100gb', b'101%', b'x', b'%', b'-1%', b'1.5%'],
    b'client-query-buffer-limit': [b'1gb', b'64mb', b'x', b'1.5gb'],
    b'maxmemory-policy': [b'noeviction', b'allkeys-random', b'volatile-ttl', b'volatile-random', b'NoEviction', b'x', b'', b'allkeys'],
    b'appendfsync': [b'everysec', b'always', b'no', b'ALWAYS', b'sometimes', b'yes', b''],
    b'sanitize-dump-payload': [b'no', b'yes', b'clients', b'x'],
    b'acl-pubsub-default': [b'allchannels', b'resetchannels', b'x'],
    b'repl-diskless-load': [b'disabled', b'swapdb', b'on-empty-db', b'no'],
    b'cluster-preferred-endpoint-type': [b'ip', b'hostname', b'unknown-endpoint', b'x'],
    b'propagation-error-behavior': [b'ignore', b'panic', b'panic-on-replicas', b'x'],
    b'notify-keyspace-events': [b'', b'KEA', b'AKE', b'Kx', b'Elg', b'W', b'xxx', b'Am', b'K$lshzxetdmg', b'En', b'K E'],
    b'save': [b'', b'3600 1', b'3600 1 36000 10', b'1', b'a b', b'-1 5', b'3600 -1', b'0 1', b' 3600  1 ', b'3600 1 300'],
    b'client-output-buffer-limit': [b'normal 0 0 0', b'replica 256mb 64mb 60', b'slave 1gb 1gb 1', b'pubsub 1gb 2mb 0', b'normal 1gb 1gb 10', b'replica 1gb 0 0 pubsub 2gb 0 0', b'nobody 1 1 1', b'normal 1',
                                    b'normal 1 x 1', b'normal 1gb 1gb -1', b'', b'NORMAL 0 0 0'],
    b'latency-tracking-info-percentiles': [b'50 99 99.9', b'', b'50', b'0 100', b'101', b'-1', b'x', b'99.999 12.5', b'50 50'],
    b'cluster-announce-hostname': [b'', b'a.b', b'a_b', b'-', b'A1'],
    b'masterauth': [b'', b'secret'],
}
FIXED = [b'databases', b'daemonize', b'io-threads', b'unixsocket', b'aclfile', b'rdbchecksum', b'replicaof', b'slaveof', b'supervised', b'cluster-enabled', b'enable-debug-command', b'logfile']
NO_DIRECTIVES = [b'nonsense', b'', b'maxmemory ', b'\xff', b'*', b'max*']
CONFIG_PATTERNS = [b'*', b'max*', b'*-*', b'??ve', b'repl*', b'hash-max-*', b'slave*', b'lua-*', b'[a-c]*', b'*ttl', b'nothing*', b'', b'cluster-*', b'tls*', b'list-max-[lz]i*']

# Commands whose introspection is compared, with a few of their calls.
NAMES = [b'get', b'set', b'SET', b'mset', b'getex', b'lcs', b'copy', b'del', b'scan', b'expire', b'object', b'object|encoding', b'client', b'client|kill', b'CLIENT|List', b'config|set', b'config',
         b'command', b'command|list', b'memory|usage', b'hello', b'auth', b'flushall', b'shutdown', b'getset', b'info', b'debug', b'latency|graph', b'slowlog|get', b'ping', b'bitop', b'bitfield', b'bitcount', b'pfcount', b'pfmerge', b'pfselftest', b'nonsense', b'', b'get|x',
         b'object|nonsense', b'|', b'client|']
CATEGORIES = [b'string', b'bitmap', b'hyperloglog', b'keyspace', b'read', b'WRITE', b'fast', b'slow', b'admin', b'dangerous', b'connection', b'nonsense', b'', b'hash']

# Commands with a reply by chance.
ALONE = (b'RANDOMKEY', b'SPOP', b'SRANDMEMBER')

_TTL_CYCLE = 20011


def _ends_inside(runs):
    """Runs of a sparse HyperLogLog of which the last lacks its second byte."""
    at = 0
    while at < len(runs):
        at += 2 if runs[at] >> 6 == 1 else 1
    return at > len(runs)


WAITING = (b'BLPOP', b'BRPOP', b'BLMPOP', b'BLMOVE', b'BRPOPLPUSH', b'BZPOPMIN', b'BZPOPMAX', b'BZMPOP')


def waits_long(timeout):
    """Whether a client that waits so many seconds would hold up the run: for ever, or for a second and more."""
    try:
        return float(timeout) == 0 or float(timeout) >= 1
    except ValueError:
        return False


class Generator(Geo, Hashes, Lists, Sets, Sorting, Zsets):
    def __init__(self, rng, protocol=2, connections=2, longest_pipeline=40, weights=None):
        self.rng = rng
        self.protocol = protocol
        self.connections = connections
        self.longest_pipeline = longest_pipeline
        self.ttls = 0
        self.blobs = {}
        self.names, self.weights = zip(*[(name[3:], weight) for name, weight in (weights or WEIGHTS).items()])

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

    # Bitmaps

    def bit(self):
        return self.pick(BITS) if self.chance(.6) else b'%d' % self.rng.randrange(400) if self.chance(.85) else self.pick(BAD_BITS)

    def do_setbit(self):
        return [b'SETBIT', self.key(), self.bit(), self.pick([b'0', b'1', b'1']) if self.chance(.95) else self.pick([b'2', b'-1', b'', b'x', b'01', b'1 '])]

    def do_getbit(self):
        return [b'GETBIT', self.key(), self.bit()]

    def bit_unit(self):
        return self.pick([b'BYTE', b'BIT', b'BIT', b'bit', b'Byte']) if self.chance(.95) else self.pick([b'BITS', b'', b'x', b'0'])

    def do_bitcount(self):
        n = self.rng.randrange(20)
        out = [b'BITCOUNT', self.key()]
        if n < 4:
            return out
        return out + [self.bound()] if n < 5 else out + [self.bound(), self.bound()] + ([self.bit_unit()] if n < 14 else [])

    def do_bitpos(self):
        n = self.rng.randrange(20)
        out = [b'BITPOS', self.key(), self.pick([b'0', b'1']) if self.chance(.95) else self.pick([b'2', b'-1', b'x', b'', b'01'])]
        if n < 5:
            return out
        if n < 9:
            return out + [self.bound()]
        return out + [self.bound(), self.bound()] + ([self.bit_unit()] if n < 16 else [])

    def bit_field(self, writes):
        kind = self.pick(FIELDS) if self.chance(.97) else self.pick(BAD_FIELDS)
        at = self.bit() if self.chance(.6) else b'#%d' % self.rng.randrange(6)
        if not writes or self.chance(.3):
            return [self.pick([b'GET', b'GET', b'get']), kind, at]
        overflow = [b'OVERFLOW', self.pick([b'WRAP', b'SAT', b'FAIL', b'sat'])] if self.chance(.3) else [b'OVERFLOW', self.pick([b'', b'x', b'WRAPS'])] if self.chance(.02) else []
        return overflow + [self.pick([b'SET', b'INCRBY', b'INCRBY', b'set']), kind, at, self.integer()]

    def do_bitfield(self):
        reads = self.chance(.25)
        name = self.pick([b'BITFIELD', b'BITFIELD_RO']) if reads else b'BITFIELD' if self.chance(.97) else b'BITFIELD_RO'
        return [name, self.key(), *(a for _ in range(self.rng.randrange(5)) for a in self.bit_field(not reads))]

    def do_bitop(self):
        op = self.pick([b'AND', b'OR', b'XOR', b'and', b'Or'])
        if self.chance(.2):
            return [b'BITOP', b'NOT', self.key(), self.key()] + ([self.key()] if self.chance(.1) else [])
        return [b'BITOP', op if self.chance(.97) else self.pick([b'NAND', b'', b'x']), self.key(), *self.keys(5)]

    # HyperLogLogs

    def hll(self):
        return self.pick(HLLS) if self.chance(.9) else self.key()

    def hll_elements(self):
        n = self.rng.randrange(20)
        most = 1 if n < 8 else 5 if n < 15 else 100 if n < 19 else 1500
        several = 20 if self.chance(.3) else 2000 if self.chance(.7) else 1000000
        return [b'%d' % self.rng.randrange(several) for _ in range(self.rng.randrange(most + 1))]

    def do_pfadd(self):
        return [b'PFADD', self.hll(), *([self.value()] if self.chance(.1) else self.hll_elements())]

    def do_pfcount(self):
        return [b'PFCOUNT', *(self.hll() for _ in range(1 if self.chance(.5) else 1 + self.rng.randrange(5)))]

    def do_pfmerge(self):
        return [b'PFMERGE', *(self.hll() for _ in range(1 + self.rng.randrange(4)))]

    def do_pfdebug(self):
        return [b'PFDEBUG', self.pick([b'GETREG', b'DECODE', b'DECODE', b'ENCODING', b'TODENSE', b'decode', b'x']), self.hll()] if self.chance(.99) else [b'PFSELFTEST']

    def do_hll_value(self):
        """The bytes of one, to be compared; or such as they might be, which are mostly corrupt."""
        n = self.rng.randrange(10)
        if n < 6:
            return self.pick([[b'GET', self.hll()], [b'STRLEN', self.hll()], [b'OBJECT', b'ENCODING', self.hll()]])
        if n < 7:
            return [b'SETRANGE', self.pick(HLLS), b'%d' % self.rng.randrange(16), bytes([self.rng.randrange(256)])]
        # Runs of zeros and values that come to all registers, or nearly.
        runs, left = b'', 16384
        while left > 0 and len(runs) < 40:
            kind = self.rng.randrange(4)
            if kind == 0:
                length = min(1 + self.rng.randrange(64), left)
                runs += bytes([length - 1])
            elif kind == 1 or len(runs) == 38:
                length = left if len(runs) > 30 else min(1 + self.rng.randrange(1000), left)
                runs += bytes([64 | (length - 1) >> 8, (length - 1) & 255])
            else:
                length = min(1 + self.rng.randrange(4), left)
                runs += bytes([128 | self.rng.randrange(32) << 2 | (length - 1)])
            left -= length
        if self.chance(.5):
            at = self.rng.randrange(len(runs))
            runs = self.pick([runs[:at], runs + runs[:1], runs[:at] + bytes([self.rng.randrange(256)]) + runs[at + 1:]])
            if _ends_inside(runs):      # what redis-server reads there lies behind its value
                runs += b'\x00'
        encoding = 1 if self.chance(.9) else self.pick([0, 2, 255])
        if encoding == 0 and self.chance(.7):
            runs = bytes(self.rng.randrange(256) for _ in range(64)) * 192
        return [b'SET', self.pick(HLLS), (b'HYLL' if self.chance(.97) else b'HYLM') + bytes([encoding, 0, 0, 0]) + bytes([self.rng.randrange(3)] + [0] * 6) + self.pick([b'\x80', b'\x80', b'\x00']) + runs]

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

    def do_client_others(self):
        """What is told of connections and done to them; see also step()."""
        return self.pick([[b'CLIENT', b'LIST'], [b'CLIENT', b'INFO'], [b'CLIENT', b'INFO', b'x'], [b'CLIENT', b'LIST', b'ID', OWN_ID], [b'CLIENT', b'LIST', b'ID', OTHER_ID],
                          [b'client', b'list', b'id', OWN_ID, b'0', OTHER_ID, b'99999999'], [b'CLIENT', b'LIST', b'ID'], [b'CLIENT', b'LIST', b'ID', b'x'], [b'CLIENT', b'LIST', b'ID', b'-1'],
                          [b'CLIENT', b'LIST', b'ID', b'0', b'1.5'], [b'CLIENT', b'LIST', b'ID', b'99999999999999999999'], [b'CLIENT', b'LIST', b'TYPE', b'normal'], [b'CLIENT', b'LIST', b'TYPE', b'REPLICA'],
                          [b'CLIENT', b'LIST', b'TYPE', b'slave'], [b'CLIENT', b'LIST', b'TYPE', b'pubsub'], [b'CLIENT', b'LIST', b'TYPE', b'master'], [b'CLIENT', b'LIST', b'TYPE', b'x'],
                          [b'CLIENT', b'LIST', b'TYPE'], [b'CLIENT', b'LIST', b'TYPE', b'normal', b'x'], [b'CLIENT', b'LIST', b'x'], [b'CLIENT', b'NO-EVICT', self.pick([b'on', b'OFF', b'off', b'x', b''])],
                          [b'CLIENT', b'NO-EVICT'], [b'CLIENT', b'GETREDIR'], [b'CLIENT', b'GETREDIR', b'x'], [b'CLIENT', b'HELP'], [b'CLIENT', b'HELP', b'x'], [b'CLIENT', b'UNPAUSE'], [b'CLIENT', b'UNPAUSE', b'x'],
                          [b'CLIENT', b'PAUSE', self.pick([b'0', b'1', b'x', b'-1', b'', b'1.5', b'99999999999999999999'])], [b'CLIENT', b'PAUSE', b'1', self.pick([b'WRITE', b'ALL', b'write', b'x', b''])],
                          [b'CLIENT', b'PAUSE'], [b'CLIENT', b'PAUSE', b'1', b'WRITE', b'x'], [b'CLIENT', b'PAUSE', b'x', b'x'], [b'CLIENT', b'UNBLOCK', OWN_ID], [b'CLIENT', b'UNBLOCK', OTHER_ID, b'TIMEOUT'],
                          [b'CLIENT', b'UNBLOCK', OTHER_ID, b'error'], [b'CLIENT', b'UNBLOCK', OWN_ID, b'x'], [b'CLIENT', b'UNBLOCK', b'x'], [b'CLIENT', b'UNBLOCK', b'99999999'], [b'CLIENT', b'UNBLOCK', b'-1'],
                          [b'CLIENT', b'UNBLOCK'], [b'CLIENT', b'UNBLOCK', b'1', b'ERROR', b'x'], [b'CLIENT', b'UNBLOCK', b'x', b'x'], [b'CLIENT', b'KILL'], [b'CLIENT', b'KILL', b'x'], [b'CLIENT', b'KILL', b'127.0.0.1:1'],
                          [b'CLIENT', b'KILL', b'ID', b'99999999'], [b'CLIENT', b'KILL', b'ID', self.pick([b'x', b'0', b'-1', b'', b'1.5', b'99999999999999999999'])], [b'CLIENT', b'KILL', b'ID', OWN_ID],
                          [b'CLIENT', b'KILL', b'ADDR', OWN_ADDRESS], [b'CLIENT', b'KILL', b'ADDR', b'x'], [b'CLIENT', b'KILL', b'LADDR', b'x'], [b'CLIENT', b'KILL', b'TYPE', self.pick([b'x', b'replica', b'pubsub', b'MASTER'])],
                          [b'CLIENT', b'KILL', b'USER', self.pick([b'nobody', b''])], [b'CLIENT', b'KILL', b'SKIPME', self.pick([b'x', b''])], [b'CLIENT', b'KILL', b'ID', b'99999999', b'SKIPME'],
                          [b'CLIENT', b'KILL', b'USER', b'default', b'ID', b'99999999', b'TYPE', b'normal'], [b'CLIENT', b'KILL', b'x', b'y'], [b'CLIENT', b'KILL', b'ID', b'x', b'x', b'y'],
                          [b'CLIENT', b'KILL', b'x', b'y', b'ID', b'x'], [b'CLIENT', b'KILL', b'TYPE', b'x', b'ID', b'x']])

    def do_command(self):
        n = self.rng.randrange(12)
        if n < 3:
            return [b'COMMAND', b'INFO', *(self.pick(NAMES) for _ in range(1 + self.rng.randrange(3)))]
        if n < 6:
            return [b'COMMAND', b'DOCS', *(self.pick(NAMES) for _ in range(1 + self.rng.randrange(3)))]
        if n < 8:
            return [b'COMMAND', self.pick([b'GETKEYS', b'GETKEYSANDFLAGS']), *self.pick([self.do_set, self.do_mset, self.do_lcs, self.do_copy, self.do_object, self.do_expire, self.do_del, self.do_unknown,
                                                                                       self.do_getex, self.do_ping, self.do_memory, self.do_bitop, self.do_bitfield, self.do_pfmerge, self.do_pfcount])()]
        if n < 10:
            return [b'COMMAND', b'LIST', *self.pick([[], [b'FILTERBY', b'ACLCAT', self.pick(CATEGORIES)], [b'FILTERBY', b'PATTERN', self.pick([b'get*', b'*|*', b'GET*', b'config|[a-r]*', b'', b'x'])],
                                                     [b'filterby', b'module', b'x'], [b'FILTERBY', b'x', b'y'], [b'FILTERBY', b'PATTERN'], [b'FILTERBY'], [b'x'], [b'FILTERBY', b'PATTERN', b'a', b'b']])]
        return self.pick([[b'COMMAND', b'COUNT'], [b'COMMAND', b'COUNT', b'x'], [b'COMMAND', b'HELP'], [b'COMMAND', b'HELP', b'x'], [b'COMMAND', b'FOO'], [b'COMMAND', b'GETKEYS'], [b'COMMAND', b'GETKEYS', b'get'],
                          [b'COMMAND'], [b'COMMAND', b'INFO'], [b'COMMAND', b'DOCS']])

    def directive(self):
        """A name and a value."""
        n = self.rng.randrange(20)
        if n < 18:
            name = self.pick(list(DIRECTIVES))
            return [name if self.chance(.9) else name.upper(), self.pick(DIRECTIVES[name])]
        return [self.pick(FIXED), b'1'] if n < 19 else [self.pick(NO_DIRECTIVES), b'1']

    def do_config(self):
        n = self.rng.randrange(20)
        if n < 11:
            pairs = [self.directive() for _ in range(1 if self.chance(.7) else 2 + self.rng.randrange(3))]
            if self.chance(.05):
                pairs.append(pairs[0])
            return [b'CONFIG', self.pick([b'SET', b'set']), *(x for pair in pairs for x in pair)]
        if n < 17:
            return [b'CONFIG', b'GET', *(self.pick(list(DIRECTIVES)) if self.chance(.6) else self.pick(CONFIG_PATTERNS + FIXED) for _ in range(1 + self.rng.randrange(3)))]
        return self.pick([[b'CONFIG'], [b'CONFIG', b'FOO'], [b'CONFIG', b'GET'], [b'CONFIG', b'SET'], [b'CONFIG', b'SET', b'timeout'], [b'CONFIG', b'SET', b'timeout', b'0', b'acllog-max-len'], [b'CONFIG', b'RESETSTAT'],
                          [b'CONFIG', b'RESETSTAT', b'x'], [b'CONFIG', b'REWRITE'], [b'CONFIG', b'REWRITE', b'x'], [b'CONFIG', b'HELP'], [b'CONFIG', b'HELP', b'x']])

    def do_slowlog(self):
        return self.pick([[b'SLOWLOG', b'LEN'], [b'SLOWLOG', b'GET'], [b'SLOWLOG', b'GET', self.pick([b'0', b'1', b'-1', b'-2', b'x', b'', b'100000', b'99999999999999999999'])], [b'SLOWLOG', b'RESET'], [b'SLOWLOG', b'HELP'],
                          [b'SLOWLOG'], [b'SLOWLOG', b'FOO'], [b'SLOWLOG', b'LEN', b'x'], [b'SLOWLOG', b'RESET', b'x'], [b'SLOWLOG', b'GET', b'1', b'2'], [b'slowlog', b'reset']])

    def do_latency(self):
        event = self.pick([b'command', b'fast-command', b'expire-cycle', b'x', b''])
        return self.pick([[b'LATENCY', b'LATEST'], [b'LATENCY', b'HISTORY', event], [b'LATENCY', b'GRAPH', event], [b'LATENCY', b'RESET'], [b'LATENCY', b'RESET', event, b'x'], [b'LATENCY', b'DOCTOR'], [b'LATENCY', b'HELP'],
                          [b'LATENCY', b'HISTOGRAM', b'nonsense'], [b'LATENCY', b'HISTOGRAM', b'get', b'set'], [b'LATENCY', b'HISTOGRAM'], [b'LATENCY'], [b'LATENCY', b'FOO'], [b'LATENCY', b'HISTORY'],
                          [b'LATENCY', b'HISTORY', b'x', b'y'], [b'LATENCY', b'GRAPH'], [b'LATENCY', b'DOCTOR', b'x'], [b'LATENCY', b'LATEST', b'x'], [b'LATENCY', b'HELP', b'x']])

    def do_memory(self):
        return self.pick([[b'MEMORY', b'USAGE', self.key()], [b'MEMORY', b'USAGE', self.key(), b'SAMPLES', self.pick([b'0', b'5', b'-1', b'x', b'', b'99999999999999999999'])], [b'MEMORY', b'USAGE', self.key(), b'SAMPLES'],
                          [b'MEMORY', b'USAGE', self.key(), b'x'], [b'MEMORY', b'USAGE', self.key(), b'x', b'5'], [b'MEMORY', b'USAGE', self.key(), b'SAMPLES', b'1', b'samples', b'2'], [b'MEMORY', b'USAGE'], [b'MEMORY'],
                          [b'MEMORY', b'FOO'], [b'MEMORY', b'HELP'], [b'MEMORY', b'HELP', b'x'], [b'MEMORY', b'PURGE'], [b'MEMORY', b'PURGE', b'x'], [b'MEMORY', b'DOCTOR'], [b'MEMORY', b'DOCTOR', b'x'],
                          [b'MEMORY', b'MALLOC-STATS'], [b'MEMORY', b'MALLOC-STATS', b'x'], [b'MEMORY', b'STATS'], [b'MEMORY', b'STATS', b'x']])

    def do_debug(self):
        return self.pick([[b'DEBUG'], [b'DEBUG', b'FOO'], [b'DEBUG', b'HELP'], [b'DEBUG', b'OBJECT', self.key()], [b'DEBUG', b'OBJECT', b'no such key'], [b'DEBUG', b'DIGEST'], [b'DEBUG', b'DIGEST', b'x'],
                          [b'DEBUG', b'DIGEST-VALUE', *(self.key() for _ in range(self.pick([1, 2, 5])))], [b'debug', b'digest-value', b'no such key'], [b'DEBUG', b'OBJECT'], [b'DEBUG', b'SLEEP', self.pick([b'0', b'x', b'-1', b'0.001'])],
                          [b'DEBUG', b'SLEEP'], [b'DEBUG', b'SET-ACTIVE-EXPIRE', b'1'], [b'DEBUG', b'SET-ACTIVE-EXPIRE'], [b'DEBUG', b'ERROR', self.pick([b'ERR x', b'a\r\nb', b'x', b'', b'NOCODE a b'])], [b'DEBUG', b'ERROR'],
                          [b'DEBUG', b'PROTOCOL', self.pick([b'string', b'INTEGER', b'double', b'null', b'array', b'set', b'map', b'attrib', b'verbatim', b'true', b'false', b'bignum', b'x', b''])], [b'DEBUG', b'PROTOCOL'],
                          [b'DEBUG', b'STRINGMATCH-LEN'], [b'DEBUG', b'POPULATE', self.pick([b'0', b'1', b'3', b'7', b'-1', b'x', b''])],
                          [b'DEBUG', b'POPULATE', b'4', self.pick([b'p', b'', b'counter'])], [b'DEBUG', b'POPULATE', b'3', b'q', self.pick([b'0', b'1', b'7', b'8', b'9', b'50', b'-1', b'x'])], [b'DEBUG', b'POPULATE'],
                          [b'DEBUG', b'POPULATE', b'1', b'q', b'5', b'x'], [b'DEBUG', b'CHANGE-REPL-ID'], [b'DEBUG', b'QUICKLIST-PACKED-THRESHOLD', self.pick([b'1000', b'1K', b'x'])], [b'debug', b'sleep', b'0', b'x']])

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

    def do_migrate(self):
        """To where nobody listens."""
        command = [b'MIGRATE', self.pick([b'127.0.0.1', b'127.0.0.1', b'']), self.pick([b'1', b'x', b'', b'65537']), self.pick([b'', self.key()]), self.pick([b'0', b'9', b'x', b'']),
                   self.pick([b'60000', b'60000', b'1.5', b''])]
        for _ in range(self.rng.randrange(3)):
            command += self.pick([[b'COPY'], [b'replace'], [b'AUTH', b'password'], [b'auth2', b'user', b'password'], [b'AUTH'], [b'AUTH2', b'user'], [b'FOO']])
        return command + self.pick([[], [b'KEYS'], [b'keys', self.key()], [b'KEYS', self.key(), self.key()]])

    def do_unknown(self):
        return [self.pick(NO_COMMANDS)] + [self.value() for _ in range(self.rng.randrange(5))]

    # Scripts

    def command(self):
        name = self.rng.choices(self.names, self.weights)[0] if hasattr(self.rng, 'choices') else self.pick(self.names)
        command = getattr(self, 'do_' + name)()
        if command[0] == b'APPEND' and command[1] in HLLS and b'\x40' <= command[2][-1:] < b'\x80':
            command[2] += b'\x80'       # behind what ends inside a run (differences.md)
        if self.chance(.05):
            command = self.spoil(command)
        elif self.chance(.05):
            command[0] = command[0].lower() if self.chance(.5) else command[0].swapcase()
        return command

    def spoil(self, command):
        """Wrong in one place: an argument too few or too many, or another one than was meant."""
        unspoilt, command = command, list(command)
        if command[0].upper() == b'DEBUG':      # a number too many is a number of keys
            return command
        # Another value than was meant would let a directive or a pause have an effect, or end a connection.
        n = 1 if command[0].upper() in (b'CONFIG', b'CLIENT') else self.rng.randrange(5)
        if n == 0 and len(command) > 1:
            del command[1 + self.rng.randrange(len(command) - 1)]
        elif n == 1:
            if [a.upper() for a in command] == [b'CLIENT', b'PAUSE']:
                return command
            junk = self.pick(JUNK)
            command.append(b'x' if junk == b'\x00' and command[0].upper() == b'CONFIG' else junk)
        elif n == 2 and len(command) > 1:
            command[1 + self.rng.randrange(len(command) - 1)] = self.pick(JUNK)
        elif n == 3 and len(command) > 1:
            command.insert(1 + self.rng.randrange(len(command)), self.pick(JUNK))
        else:
            del command[1:]
        if command[0].upper() in WAITING and any(waits_long(x) for x in (command[1:2] if command[0].upper() in (b'BLMPOP', b'BZMPOP') else command[-1:])):
            return unspoilt
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
            return [(EXPIRE, connection, [expire, [self.pick([b'EXISTS', b'GET', b'TYPE', b'PTTL', b'INCR']), key]])]
        if 12 <= n < 26:
            return self.transactions(connection)
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
        if n < 12:
            return [(HOLD, connection, self.pause())] if self.chance(.5) else [self.kill(connection)]
        size = 1 if n < 60 else 1 + rng.randrange(self.longest_pipeline)
        steps, pipeline = [], []
        for _ in range(size):
            command = self.command()
            if command[0].upper() in ALONE:
                # Checked against the keys or members of that moment, so it goes alone.
                if pipeline:
                    steps.append((RUN, connection, pipeline))
                steps.append((RUN, connection, [command]))
                pipeline = []
            else:
                pipeline.append(command)
        if pipeline:
            steps.append((RUN, connection, pipeline))
        return steps

    def inner(self):
        """A command that may stand inside MULTI, or between."""
        while True:
            command = self.command()
            # Of DEBUG Redis queues what is wrong, and it queues MIGRATE. And a BITFIELD that only makes its value longer is no change in Redis.
            if command[0].upper() not in (*ALONE, b'DEBUG', b'MIGRATE') and b'FAIL' not in command:
                return command

    def transaction(self):
        """The lines of one connection: from WATCH, perhaps, to EXEC, most often."""
        lines = []
        for _ in range(self.rng.randrange(3)):
            lines.append([b'WATCH', *self.keys(3)])
            if self.chance(.2):
                lines.append(self.inner())
            if self.chance(.1):
                lines.append([b'UNWATCH'])
        lines.append([self.pick([b'MULTI', b'MULTI', b'multi'])])
        # Most are right, of a kind, and short; else nearly every transaction would be refused.
        plain = [self.do_set, self.do_get, self.do_incr, self.do_append, self.do_mget, self.do_mset, self.do_del, self.do_rename, self.do_copy, self.do_exists, self.do_select, self.do_expire,
                 self.do_ttl, self.do_ping, self.do_dbsize, self.do_keys, self.do_lcs, self.do_client, self.do_getex, self.do_move, self.do_swapdb, self.do_flush, self.do_hset, self.do_hget, self.do_hdel, self.do_hincr, self.do_hgetall, self.do_hash_move,
                 self.do_push, self.do_push, self.do_pop, self.do_list_read, self.do_list_change, self.do_lmove, self.do_lmpop, self.do_list_wait, self.do_list_move,
                 self.do_sadd, self.do_srem, self.do_smembers, self.do_salgebra, self.do_smove,
                 self.do_setbit, self.do_bitcount, self.do_bitop, self.do_pfadd, self.do_pfcount, self.do_pfmerge]
        for _ in range(self.rng.randrange(8)):
            lines.append(self.pick(plain)() if self.chance(.93) else self.inner())
        if self.chance(.1):
            lines.append(self.pick([[b'MULTI'], [b'WATCH', self.key()], [b'UNWATCH'], [b'EXEC', b'x'], [b'DISCARD', b'x'], [b'HELLO', b'2'], [b'HELLO', b'3']]))
        lines.append([self.pick([b'EXEC'] * 12 + [b'DISCARD', b'DISCARD', b'RESET', b'exec'])])
        return lines

    def transactions(self, connection):
        """A transaction, and what another connection does between its lines, which may be one as well."""
        lines, steps = self.transaction(), []
        others = []
        if self.connections > 1:
            others = self.transaction() if self.chance(.4) else [self.inner() for _ in range(self.rng.randrange(5))]
        while lines or others:
            mine = lines and (not others or self.chance(.6))
            source, number = (lines, connection) if mine else (others, (connection + 1) % self.connections)
            n = 1 if self.chance(.6) else 1 + self.rng.randrange(5)
            steps.append((RUN, number, source[:n]))
            del source[:n]
        return steps

    def pause(self):
        """What goes on during a pause, and its end."""
        reads = [self.pick([self.do_get, self.do_strlen, self.do_ttl, self.do_exists, self.do_type, self.do_dbsize, self.do_ping])() for _ in range(self.rng.randrange(4))]
        return [[b'CLIENT', b'PAUSE', self.pick([b'100000', b'9999999']), b'WRITE'], *reads, [b'CLIENT', b'UNPAUSE'], self.do_set()]

    def kill(self, connection):
        """Ends the other connection, or this one."""
        own, other = [[b'ID', OWN_ID], [b'ADDR', OWN_ADDRESS]], [[b'ID', OTHER_ID], [b'ADDR', OTHER_ADDRESS]]
        if self.chance(.4):
            return (KILL, connection, [[b'CLIENT', b'KILL', *self.pick(own), b'SKIPME', self.pick([b'no', b'NO'])]])
        options = [self.pick(other), *([[b'TYPE', b'normal']] if self.chance(.3) else []), *([[b'USER', b'default']] if self.chance(.3) else []), *([[b'SKIPME', b'yes']] if self.chance(.3) else [])]
        if self.chance(.3):
            options.reverse()
        return (KILL, connection, [[b'CLIENT', b'KILL', OTHER_ADDRESS] if self.chance(.3) else [b'CLIENT', b'KILL', *(x for o in options for x in o)]])

    def mutable_command(self):
        while True:
            command = self.command()
            if command[0].upper() not in (b'CLIENT', b'HELLO', b'RESET', b'QUIT', b'DEBUG', *ALONE):
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
    'do_setbit': 16, 'do_getbit': 6, 'do_bitcount': 14, 'do_bitpos': 14, 'do_bitfield': 24, 'do_bitop': 16, 'do_pfadd': 24, 'do_pfcount': 16, 'do_pfmerge': 10, 'do_pfdebug': 5, 'do_hll_value': 14,
    'do_flush': 2, 'do_ping': 8, 'do_hello': 3, 'do_client': 5, 'do_client_others': 16, 'do_command': 14, 'do_config': 30, 'do_slowlog': 6, 'do_latency': 6, 'do_memory': 8, 'do_debug': 10, 'do_auth': 2, 'do_reset': 1, 'do_time': 1, 'do_unknown': 4, 'do_migrate': 6,
    **GEO_WEIGHTS, **HASH_WEIGHTS, **LIST_WEIGHTS, **SET_WEIGHTS, **SORTING_WEIGHTS, **ZSET_WEIGHTS,
}
