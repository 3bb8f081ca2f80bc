"""The generator's hash commands."""

# Of their own, most of the time, so that hashes live; and some of everybody's.
HASH_KEYS = [b'h1', b'h2', b'h3', b'{tag}h', b'h4', b'a', b'b', b'{tag}x']
FIELDS = [b'f', b'g', b'1', b'2', b'-5', b'100', b'', b'007', b'field:1', b'field:2', b'\x00\xff\r\n', b'counter', b'x' * 64, b'x' * 65, b'y' * 112, b'y' * 113, b'z' * 300]


class Hashes:
    def hash_key(self):
        return HASH_KEYS[min(self.rng.randrange(len(HASH_KEYS)), self.rng.randrange(len(HASH_KEYS)))]

    def field(self):
        return self.pick(FIELDS) if self.chance(.6) else b'f%d' % self.rng.randrange(40)

    def fields(self, most=5):
        return [self.field() for _ in range(1 + self.rng.randrange(most))]

    def do_hset(self):
        name, many = self.pick([(b'HSET', True), (b'HSET', True), (b'HMSET', True), (b'HSETNX', False)]), self.chance(.01)
        n = 1 if not name[1] else 100 + self.rng.randrange(600) if many else 1 + self.rng.randrange(5)
        out = [name[0], self.hash_key()]
        for i in range(n):
            out += [b'n%d' % i, b'%d' % i] if many and name[1] else [self.field(), self.value()]
        if self.chance(.03):
            out.pop()
        return out

    def do_hget(self):
        return [self.pick([b'HGET', b'HGET', b'HEXISTS', b'HSTRLEN']), self.hash_key(), self.field()]

    def do_hmget(self):
        return [b'HMGET', self.hash_key(), *self.fields(20 if self.chance(.2) else 4)]

    def do_hdel(self):
        return [b'HDEL', self.hash_key(), *self.fields(20 if self.chance(.2) else 4)]

    def do_hgetall(self):
        return [self.pick([b'HGETALL', b'HKEYS', b'HVALS', b'HLEN']), self.hash_key()]

    def do_hincr(self):
        if self.chance(.5):
            return [b'HINCRBY', self.hash_key(), self.field(), self.integer()]
        return [b'HINCRBYFLOAT', self.hash_key(), self.field(), self.float()]

    def do_hrandfield(self):
        out = [b'HRANDFIELD', self.hash_key()]
        if self.chance(.3):
            return out
        out.append(self.pick([b'0', b'1', b'-1', b'2', b'-3', b'5', b'-20', b'100', b'1000', b'x', b'', b'-9223372036854775808', b'9223372036854775807', b'9223372036854775808']))
        if self.chance(.5):
            out.append(self.pick([b'WITHVALUES', b'withvalues', b'x']))
        return out

    def do_hscan(self):
        out = [b'HSCAN', self.hash_key(), self.pick([b'0', b'0', b'0', b'x', b'', b'-1', b'17'])]
        return out + self.some([[b'MATCH', self.pick([b'*', b'f*', b'field:?', b'[0-9]*', b''])], [b'COUNT', self.pick([b'1', b'10', b'1000', b'0', b'-1', b'x'])], [b'TYPE', b'hash'], [b'foo']], .3)

    def do_hash_object(self):
        return [*self.pick([[b'OBJECT', b'ENCODING'], [b'TYPE'], [b'EXISTS'], [b'TTL'], [b'PERSIST'], [b'DEL'], [b'UNLINK'], [b'MEMORY', b'USAGE']]), self.hash_key()]

    def do_hash_move(self):
        return self.pick([[b'RENAME', self.hash_key(), self.hash_key()], [b'RENAMENX', self.hash_key(), self.hash_key()], [b'COPY', self.hash_key(), self.hash_key(), b'REPLACE'],
                          [b'COPY', self.hash_key(), self.hash_key()], [b'COPY', self.hash_key(), self.hash_key(), b'DB', b'1'], [b'MOVE', self.hash_key(), b'1'], [b'EXPIRE', self.hash_key(), self.ttl_s()],
                          [b'GET', self.hash_key()], [b'APPEND', self.hash_key(), b'x'], [b'MGET', self.hash_key(), self.key()], [b'SET', self.hash_key(), self.value()]])


HASH_WEIGHTS = {'do_hset': 70, 'do_hget': 30, 'do_hmget': 15, 'do_hdel': 25, 'do_hgetall': 25, 'do_hincr': 30, 'do_hrandfield': 12, 'do_hscan': 12, 'do_hash_object': 16, 'do_hash_move': 20}
