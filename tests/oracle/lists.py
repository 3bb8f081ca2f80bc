"""The generator's list commands."""

# Of their own, most of the time, so that lists live; and some of everybody's.
LIST_KEYS = [b'l1', b'l2', b'l3', b'{tag}l', b'{tag}m', b'l4', b'{other}l', b'a', b'b', b'{tag}x', b's1']
ELEMENTS = [b'', b'0', b'1', b'2', b'-5', b'63', b'64', b'127', b'128', b'-129', b'007', b'+1', b'\x00\xff\r\n', b'32768', b'2147483648', b'-9223372036854775808', b'9223372036854775807', b'9223372036854775808',
            b'y' * 112, b'y' * 113, b'y' * 251, b'y' * 252, b'z' * 1024, b'z' * 1025, b'z' * 5000]
INDICES = [b'0', b'1', b'2', b'-1', b'-2', b'5', b'-5', b'50', b'-50', b'1000', b'-1000', b'9223372036854775807', b'-9223372036854775808', b'9223372036854775808', b'x', b'', b' 1']
COUNTS = [b'0', b'1', b'1', b'2', b'3', b'10', b'100', b'-1', b'-3', b'9223372036854775807', b'-9223372036854775808', b'9223372036854775808', b'x', b'']
ENDS = [b'LEFT', b'RIGHT', b'left', b'Right']
# Seconds that nobody needs to wait for.
SHORT = [b'0.001', b'0.005', b'.01', b'1e-3']
BAD_TIMEOUTS = [b'-1', b'x', b'', b'-0.5', b'nan', b'1e30', b' 1']


class Lists:
    def list_key(self):
        return LIST_KEYS[min(self.rng.randrange(len(LIST_KEYS)), self.rng.randrange(len(LIST_KEYS)))]

    def list_keys(self, most=4):
        return [self.list_key() for _ in range(1 + self.rng.randrange(most))]

    def element(self):
        return self.pick(ELEMENTS) if self.chance(.25) else b'%d' % self.rng.randrange(30) if self.chance(.6) else b'e%d' % self.rng.randrange(20)

    def end(self):
        return self.pick(ENDS) if self.chance(.97) else self.pick([b'', b'MIDDLE', b'LEFTT'])

    def index(self):
        return self.pick(INDICES) if self.chance(.3) else b'%d' % self.rng.randrange(-12, 12)

    def do_push(self):
        n = 200 + self.rng.randrange(1500) if self.chance(.01) else 1 + self.rng.randrange(12 if self.chance(.3) else 3)
        return [self.pick([b'LPUSH', b'RPUSH', b'RPUSH', b'LPUSHX', b'RPUSHX']), self.list_key(), *(self.element() for _ in range(n))]

    def do_pop(self):
        out = [self.pick([b'LPOP', b'RPOP']), self.list_key()]
        if self.chance(.5):
            out.append(self.pick(COUNTS))
        if self.chance(.02):
            out.append(b'1')
        return out

    def do_list_read(self):
        key = self.list_key()
        return self.pick([[b'LLEN', key], [b'LINDEX', key, self.index()], [b'LRANGE', key, self.index(), self.index()], [b'LRANGE', key, b'0', b'-1']])

    def do_lpos(self):
        out = [b'LPOS', self.list_key(), self.element()]
        return out + self.some([[b'RANK', self.pick(COUNTS)], [b'COUNT', self.pick(COUNTS)], [b'MAXLEN', self.pick(COUNTS)], [b'rank', b'2'], [b'count', b'0'], [b'COUNT'], [b'foo', b'1']], .4)

    def do_list_change(self):
        key = self.list_key()
        return self.pick([[b'LSET', key, self.index(), self.element()], [b'LSET', key, self.index(), self.element()], [b'LTRIM', key, self.index(), self.index()], [b'LTRIM', key, b'0', b'-2'],
                          [b'LREM', key, self.pick(COUNTS), self.element()], [b'LREM', key, self.pick(COUNTS), self.element()],
                          [b'LINSERT', key, self.pick([b'BEFORE', b'AFTER', b'after', b'before', b'AT']), self.element(), self.element()],
                          [b'LINSERT', key, self.pick([b'BEFORE', b'AFTER']), self.element(), self.element()]])

    def do_lmove(self):
        if self.chance(.3):
            return [b'RPOPLPUSH', self.list_key(), self.list_key()]
        return [b'LMOVE', self.list_key(), self.list_key(), self.end(), self.end()]

    def many(self):
        """From the number of keys on."""
        keys = self.list_keys()
        out = [b'%d' % len(keys) if self.chance(.93) else self.pick([b'0', b'-1', b'1', b'9', b'x', b'', b'9223372036854775808']), *keys, self.end()]
        return out + self.some([[b'COUNT', self.pick(COUNTS)], [b'count', b'3'], [b'COUNT'], [b'foo', b'1']], .2)

    def do_lmpop(self):
        return [b'LMPOP', *self.many()]

    def do_list_wait(self):
        """Whoever finds nothing waits for a moment that is not noticed."""
        seconds = self.pick(SHORT) if self.chance(.93) else self.pick(BAD_TIMEOUTS)
        if self.chance(.3):
            return [b'BLMPOP', seconds, *self.many()]
        if self.chance(.4):
            return [b'BRPOPLPUSH', self.list_key(), self.list_key(), seconds] if self.chance(.3) else [b'BLMOVE', self.list_key(), self.list_key(), self.end(), self.end(), seconds]
        return [self.pick([b'BLPOP', b'BRPOP']), *self.list_keys(), seconds]

    def do_list_object(self):
        return [*self.pick([[b'OBJECT', b'ENCODING'], [b'OBJECT', b'ENCODING'], [b'TYPE'], [b'EXISTS'], [b'TTL'], [b'PERSIST'], [b'DEL'], [b'UNLINK'], [b'MEMORY', b'USAGE'], [b'DEBUG', b'OBJECT']]), self.list_key()]

    def do_list_move(self):
        return self.pick([[b'RENAME', self.list_key(), self.list_key()], [b'RENAMENX', self.list_key(), self.list_key()], [b'COPY', self.list_key(), self.list_key(), b'REPLACE'],
                          [b'COPY', self.list_key(), self.list_key()], [b'COPY', self.list_key(), self.list_key(), b'DB', b'1'], [b'MOVE', self.list_key(), b'1'], [b'EXPIRE', self.list_key(), self.ttl_s()],
                          [b'GET', self.list_key()], [b'HGET', self.list_key(), b'f'], [b'SADD', self.list_key(), b'm'], [b'MGET', self.list_key(), self.key()], [b'SET', self.list_key(), self.value()]])


LIST_WEIGHTS = {'do_push': 90, 'do_pop': 30, 'do_list_read': 30, 'do_lpos': 20, 'do_list_change': 40, 'do_lmove': 30, 'do_lmpop': 15, 'do_list_wait': 12, 'do_list_object': 14, 'do_list_move': 20}
