"""The generator's set commands."""

# Of their own, most of the time, so that sets live; and some of everybody's.
SET_KEYS = [b's1', b's2', b's3', b'{tag}s', b'{tag}t', b's4', b'{other}s', b'a', b'b', b'{tag}x', b'h1']
MEMBERS = [b'm', b'n', b'1', b'2', b'-5', b'100', b'', b'007', b'+1', b'member:1', b'\x00\xff\r\n', b'32767', b'32768', b'-32769', b'2147483648', b'-9223372036854775808', b'9223372036854775807',
           b'9223372036854775808', b'y' * 112, b'y' * 113, b'z' * 300]
COUNTS = [b'0', b'1', b'2', b'3', b'5', b'12', b'20', b'100', b'1000', b'x', b'', b'-1', b'9223372036854775807', b'9223372036854775808']


class Sets:
    def set_key(self):
        return SET_KEYS[min(self.rng.randrange(len(SET_KEYS)), self.rng.randrange(len(SET_KEYS)))]

    def set_keys(self, most=4):
        return [self.set_key() for _ in range(1 + self.rng.randrange(most))]

    def member(self):
        return self.pick(MEMBERS) if self.chance(.3) else b'%d' % self.rng.randrange(60) if self.chance(.7) else b'm%d' % self.rng.randrange(40)

    def members(self, most=5):
        if self.chance(.02):
            first, step, name = self.rng.randrange(400), self.pick([1, 3, 70000]), self.pick([b'%d', b'%d', b'member:%d'])
            return [name % ((first + i) * step) for i in range(100 + self.rng.randrange(500))]
        if self.chance(.5):         # numbers only, so that intsets live
            return [b'%d' % self.rng.randrange(60) for _ in range(1 + self.rng.randrange(most))]
        return [self.member() for _ in range(1 + self.rng.randrange(20 if self.chance(.2) else most))]

    def do_sadd(self):
        return [b'SADD', self.set_key(), *self.members()]

    def do_srem(self):
        return [b'SREM', self.set_key(), *self.members()]

    def do_sismember(self):
        if self.chance(.5):
            return [b'SISMEMBER', self.set_key(), self.member()]
        return [b'SMISMEMBER', self.set_key(), *self.members(20)]

    def do_smembers(self):
        return [self.pick([b'SMEMBERS', b'SCARD']), self.set_key()]

    def do_salgebra(self):
        name = self.pick([b'SINTER', b'SUNION', b'SDIFF'])
        if self.chance(.5):
            return [name, *self.set_keys()]
        return [name + b'STORE', self.set_key(), *self.set_keys()]

    def do_sintercard(self):
        keys = self.set_keys()
        out = [b'SINTERCARD', b'%d' % len(keys) if self.chance(.9) else self.pick([b'0', b'-1', b'1', b'9', b'x', b'', b'9223372036854775808']), *keys]
        return out + self.some([[b'LIMIT', self.pick(COUNTS)], [b'limit'], [b'foo', b'1']], .3)

    def do_smove(self):
        return [b'SMOVE', self.set_key(), self.set_key(), self.member()]

    def do_set_draw(self):
        """Compared by what may come, alone (compare.py); what was popped is put back."""
        out = [self.pick([b'SPOP', b'SRANDMEMBER']), self.set_key()]
        if self.chance(.3):
            return out
        out.append(self.pick(COUNTS + [b'-3', b'-20', b'-9223372036854775808']))
        if self.chance(.05):
            out.append(b'1')
        return out

    def do_sscan(self):
        out = [b'SSCAN', self.set_key(), self.pick([b'0', b'0', b'0', b'x', b'', b'-1', b'17'])]
        return out + self.some([[b'MATCH', self.pick([b'*', b'm*', b'member:?', b'[0-9]*', b''])], [b'COUNT', self.pick([b'1', b'10', b'1000', b'0', b'-1', b'x'])], [b'TYPE', b'set'], [b'foo']], .3)

    def do_set_object(self):
        return [*self.pick([[b'OBJECT', b'ENCODING'], [b'OBJECT', b'ENCODING'], [b'TYPE'], [b'EXISTS'], [b'TTL'], [b'PERSIST'], [b'DEL'], [b'UNLINK'], [b'MEMORY', b'USAGE'], [b'DEBUG', b'OBJECT']]), self.set_key()]

    def do_set_move(self):
        return self.pick([[b'RENAME', self.set_key(), self.set_key()], [b'RENAMENX', self.set_key(), self.set_key()], [b'COPY', self.set_key(), self.set_key(), b'REPLACE'],
                          [b'COPY', self.set_key(), self.set_key()], [b'COPY', self.set_key(), self.set_key(), b'DB', b'1'], [b'MOVE', self.set_key(), b'1'], [b'EXPIRE', self.set_key(), self.ttl_s()],
                          [b'GET', self.set_key()], [b'HGET', self.set_key(), b'f'], [b'MGET', self.set_key(), self.key()], [b'SET', self.set_key(), self.value()]])


SET_WEIGHTS = {'do_sadd': 80, 'do_srem': 25, 'do_sismember': 25, 'do_smembers': 15, 'do_salgebra': 40, 'do_sintercard': 15, 'do_smove': 25, 'do_set_draw': 8, 'do_sscan': 12, 'do_set_object': 16, 'do_set_move': 20}
