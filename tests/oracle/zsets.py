"""The generator's sorted-set commands."""

from lists import BAD_TIMEOUTS, SHORT

# Of their own, most of the time, so that sorted sets live; and some of everybody's.
ZSET_KEYS = [b'z1', b'z2', b'z3', b'{tag}z', b'{tag}w', b'z4', b'{other}z2', b'a', b'b', b'{tag}x', b's1', b'{tag}s']
SCORES = [b'0', b'1', b'2', b'-1', b'1.5', b'3', b'3.3', b'10', b'100', b'-0', b'-0.0', b'inf', b'-inf', b'+inf', b'Infinity', b'1e17', b'1e-5', b'0x10', b'9007199254740993', b'4503599627370497', b'0.1',
          b'1e300', b'1e400', b'5e-324', b'1e15', b'999999999999999', b'1000000000000000', b'-123456789012345678']
BAD_SCORES = [b'nan', b'x', b'', b' 1', b'1 ', b'1e', b'(1', b'-nan', b'1,5', b'1\x00', b'1e5000', b'--1']
SCORE_LIMITS = [b'-inf', b'+inf', b'inf', b'(0', b'0', b'1', b'(1', b'2', b'(2', b'3', b'(3.3', b'10', b'-1', b'(-1', b'5', b'(', b'', b' 1', b'1 ', b'nan', b'x', b'((1', b'(inf', b'(-inf', b'0x2', b'1e400']
LEX_LIMITS = [b'-', b'+', b'[', b'(', b'[a', b'(a', b'[m1', b'(m2', b'[m', b'(m9', b'[z', b'a', b'', b'-x', b'++', b'[1', b'(5', b'[\xff', b'- ']
RANKS = [b'0', b'1', b'2', b'-1', b'-2', b'3', b'5', b'10', b'-5', b'-100', b'100', b'130', b'9223372036854775807', b'-9223372036854775808', b'x', b'', b'1.5']
ZSET_MEMBERS = [b'm', b'n', b'1', b'2', b'-5', b'', b'007', b'\x00\xff\r\n', b'x' * 64, b'x' * 65, b'y' * 112, b'y' * 113, b'z' * 300]
# Of members with one score: what a range by members is of others, Redis does not say.
LEX_KEYS = [b'lex1', b'{tag}lex', b'lex2']
NUMKEYS = [b'0', b'-1', b'1', b'2', b'9', b'x', b'', b'9223372036854775808']


class Zsets:
    def zset_key(self):
        return ZSET_KEYS[min(self.rng.randrange(len(ZSET_KEYS)), self.rng.randrange(len(ZSET_KEYS)))]

    def zset_keys(self, most=4):
        return [self.zset_key() for _ in range(1 + self.rng.randrange(most))]

    def numbered_keys(self, most=4):
        keys = self.zset_keys(most)
        return [b'%d' % len(keys) if self.chance(.93) else self.pick(NUMKEYS), *keys]

    def zset_member(self):
        return self.pick(ZSET_MEMBERS) if self.chance(.2) else b'm%d' % self.rng.randrange(30)

    def score(self):
        return self.pick(BAD_SCORES) if self.chance(.02) else self.pick(SCORES) if self.chance(.3) else b'%d' % self.rng.randrange(8)

    def do_zadd(self):
        out = [b'ZADD', self.zset_key()] + self.some([[b'NX'], [b'XX'], [b'GT'], [b'lt'], [b'CH'], [b'INCR']], .12)
        if self.chance(.02):
            first, name = self.rng.randrange(300), self.pick([b'm%d', b'%d'])
            for i in range(100 + self.rng.randrange(400)):
                out += [b'%d' % (i % 50), name % (first + i)]
            return out
        for _ in range(1 if self.chance(.5) else 1 + self.rng.randrange(8)):
            out += [self.score(), self.zset_member()]
        if self.chance(.02):
            out.pop()
        return out

    def do_zincrby(self):
        return [b'ZINCRBY', self.zset_key(), self.score(), self.zset_member()]

    def do_zrem(self):
        return [b'ZREM', self.zset_key(), *[self.zset_member() for _ in range(1 + self.rng.randrange(4))]]

    def do_zscore(self):
        name = self.pick([b'ZSCORE', b'ZRANK', b'ZREVRANK', b'ZMSCORE', b'ZCARD'])
        if name == b'ZCARD':
            return [name, self.zset_key()]
        return [name, self.zset_key(), self.zset_member()] + ([self.zset_member() for _ in range(self.rng.randrange(20))] if name == b'ZMSCORE' else [])

    def limit(self):
        return self.some([[b'LIMIT', self.pick(RANKS), self.pick(RANKS)]], .3)

    def do_zcount(self):
        return [b'ZCOUNT', self.zset_key(), self.pick(SCORE_LIMITS), self.pick(SCORE_LIMITS)]

    def do_zlex(self):
        key, limits = self.pick(LEX_KEYS), [self.pick(LEX_LIMITS), self.pick(LEX_LIMITS)]
        options = self.some([[b'LIMIT', self.pick(RANKS), self.pick(RANKS)]], .3)
        return self.pick([lambda: [b'ZADD', key, *[a for _ in range(1 + self.rng.randrange(8)) for a in (b'0', self.zset_member())]],
                          lambda: [b'ZADD', key, *[a for i in range(self.rng.randrange(1, 200)) for a in (b'0', b'm%d' % (i * 7))]] if self.chance(.1) else [b'ZREM', key, self.zset_member()],
                          lambda: [b'ZRANGE', key, *limits, b'BYLEX', *options, *self.some([[b'REV'], [b'WITHSCORES']], .2)],
                          lambda: [b'ZRANGESTORE', self.zset_key(), key, *limits, b'BYLEX', *options, *self.some([[b'REV']], .2)],
                          lambda: [self.pick([b'ZRANGEBYLEX', b'ZREVRANGEBYLEX']), key, *limits, *options],
                          lambda: [b'ZLEXCOUNT', key, *limits],
                          lambda: [b'ZREMRANGEBYLEX', key, *limits] if self.chance(.3) else [b'ZCARD', key],
                          lambda: [self.pick([b'ZRANGEBYLEX', b'ZLEXCOUNT', b'ZREMRANGEBYLEX']), self.pick([b'no-key', *LEX_KEYS]), *limits]])()

    def limits(self, by):
        return [self.pick(by), self.pick(by)]

    def do_zrange(self):
        by = self.pick([[RANKS, []], [SCORE_LIMITS, [b'BYSCORE']]])
        out = [b'ZRANGE', self.zset_key(), *self.limits(by[0])]
        if self.chance(.25):
            out[0:1] = [b'ZRANGESTORE', self.zset_key()]
        return out + by[1] + self.some([[b'REV'], [b'WITHSCORES'], [b'LIMIT', self.pick(RANKS), self.pick(RANKS)], [b'foo']], .25) + self.some([[b'REV'], [b'BYSCORE'], [b'WITHSCORES']], .03)

    def do_zrangeby(self):
        name, by = self.pick([(b'ZRANGEBYSCORE', SCORE_LIMITS), (b'ZREVRANGEBYSCORE', SCORE_LIMITS), (b'ZREVRANGE', RANKS)])
        return [name, self.zset_key(), *self.limits(by)] + self.some([[b'WITHSCORES'], [b'limit', self.pick(RANKS), self.pick(RANKS)], [b'REV'], [b'BYLEX']], .2)

    def do_zremrange(self):
        name, by = self.pick([(b'ZREMRANGEBYRANK', RANKS), (b'ZREMRANGEBYSCORE', SCORE_LIMITS)])
        return [name, self.zset_key(), *self.limits(by)]

    def do_zpop(self):
        out = [self.pick([b'ZPOPMIN', b'ZPOPMAX']), self.zset_key()]
        return out + ([self.pick([b'0', b'1', b'2', b'3', b'10', b'200', b'-1', b'x', b'', b'9223372036854775807', b'9223372036854775808'])] if self.chance(.5) else []) + ([b'1'] if self.chance(.03) else [])

    def do_zmpop(self):
        return [b'ZMPOP', *self.numbered_keys(3), self.pick([b'MIN', b'max', b'MIN', b'foo'])] + self.some([[b'COUNT', self.pick([b'1', b'2', b'5', b'0', b'-1', b'x', b'300'])], [b'COUNT'], [b'foo']], .3)

    def do_bzpop(self):
        seconds = self.pick(SHORT) if self.chance(.93) else self.pick(BAD_TIMEOUTS)
        if self.chance(.4):
            return [b'BZMPOP', seconds, *self.numbered_keys(3), self.pick([b'MIN', b'max', b'MIN', b'foo'])] + self.some([[b'COUNT', self.pick([b'1', b'2', b'0', b'x'])], [b'foo']], .2)
        return [self.pick([b'BZPOPMIN', b'BZPOPMAX']), self.zset_key(), self.zset_key(), seconds]

    def do_zalgebra(self):
        name = self.pick([b'ZUNION', b'ZINTER', b'ZDIFF'])
        keys = self.numbered_keys()
        out = [name, *keys] if self.chance(.5) else [name + b'STORE', self.zset_key(), *keys]
        if self.chance(.3):
            out += [b'WEIGHTS', *[self.score() for _ in keys[1:]]]
            if self.chance(.05):
                out.pop()
        return out + self.some([[b'AGGREGATE', self.pick([b'SUM', b'min', b'MAX', b'avg'])], [b'WITHSCORES'], [b'foo']], .2)

    def do_zintercard(self):
        return [b'ZINTERCARD', *self.numbered_keys(3)] + self.some([[b'LIMIT', self.pick([b'0', b'1', b'5', b'100', b'-1', b'x', b''])], [b'limit'], [b'foo', b'1'], [b'WEIGHTS', b'1']], .3)

    def do_zrandmember(self):
        out = [b'ZRANDMEMBER', self.zset_key()]
        if self.chance(.3):
            return out
        out.append(self.pick([b'0', b'1', b'-1', b'2', b'-3', b'5', b'-20', b'100', b'1000', b'x', b'', b'-9223372036854775808', b'9223372036854775807', b'9223372036854775808']))
        if self.chance(.5):
            out.append(self.pick([b'WITHSCORES', b'withscores', b'x']))
        return out

    def do_zscan(self):
        out = [b'ZSCAN', self.zset_key(), self.pick([b'0', b'0', b'0', b'x', b'', b'-1', b'17'])]
        return out + self.some([[b'MATCH', self.pick([b'*', b'm*', b'm?', b'[0-9]*', b''])], [b'COUNT', self.pick([b'1', b'10', b'1000', b'0', b'-1', b'x'])], [b'TYPE', b'zset'], [b'foo']], .3)

    def do_zset_object(self):
        return [*self.pick([[b'OBJECT', b'ENCODING'], [b'OBJECT', b'ENCODING'], [b'TYPE'], [b'EXISTS'], [b'TTL'], [b'PERSIST'], [b'DEL'], [b'UNLINK'], [b'MEMORY', b'USAGE']]), self.zset_key()]

    def do_zset_move(self):
        return self.pick([[b'RENAME', self.zset_key(), self.zset_key()], [b'RENAMENX', self.zset_key(), self.zset_key()], [b'COPY', self.zset_key(), self.zset_key(), b'REPLACE'],
                          [b'COPY', self.zset_key(), self.zset_key()], [b'COPY', self.zset_key(), self.zset_key(), b'DB', b'1'], [b'MOVE', self.zset_key(), b'1'], [b'EXPIRE', self.zset_key(), self.ttl_s()],
                          [b'GET', self.zset_key()], [b'SADD', self.zset_key(), self.zset_member()], [b'SUNION', self.zset_key(), self.zset_key()], [b'SET', self.zset_key(), self.value()]])


ZSET_WEIGHTS = {'do_zadd': 80, 'do_bzpop': 8, 'do_zincrby': 20, 'do_zrem': 15, 'do_zscore': 25, 'do_zcount': 10, 'do_zlex': 40, 'do_zrange': 40, 'do_zrangeby': 25, 'do_zremrange': 12, 'do_zpop': 15, 'do_zmpop': 12, 'do_zalgebra': 40,
                'do_zintercard': 10, 'do_zrandmember': 12, 'do_zscan': 12, 'do_zset_object': 20, 'do_zset_move': 20}
