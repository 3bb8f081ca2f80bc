"""The generator's places."""

GEO_KEYS = [b'g1', b'g2', b'{tag}g', b'{tag}h']
NAMES = [b'Palermo', b'Catania', b'1', b'2', b'north', b'south', b'east', b'west', b'zero', b'x' * 70]
PLACES = [(b'13.361389', b'38.115556'), (b'15.087269', b'37.502669'), (b'0', b'0'), (b'180', b'85.05112878'), (b'-180', b'-85.05112878'), (b'180', b'0'), (b'-180', b'0'), (b'179.999999', b'85'), (b'-179.999999', b'85'),
          (b'-0.0001', b'0.0001'), (b'90', b'-66.5'), (b'1e1', b'0x10'), (b'-122.4194', b'37.7749'), (b'139.6917', b'35.6895')]
# Whatever stands in a special place stands there alone: which of several is the nearest redis-server leaves open.
OWN_PLACES = dict(zip(NAMES + [b'p0', b'p1', b'p2', b'p3'], PLACES))
BAD_PLACES = [(b'181', b'0'), (b'0', b'86'), (b'x', b'0'), (b'0', b''), (b'nan', b'0'), (b'0', b'inf'), (b'-180.1', b'-85.06')]
LENGTHS = [b'0', b'1', b'100', b'200', b'5000', b'1000.5', b'20000', b'1e7', b'1e300', b'0.001', b'30000000']


class Geo:
    def geo_key(self):
        return self.pick(GEO_KEYS) if self.chance(.9) else self.pick([b'z1', b'a', b's1', b'none'])

    def place(self, special=None):
        if self.chance(.04):
            return self.pick(BAD_PLACES)
        if self.chance(.4):
            return special or self.pick(PLACES)
        return self.anywhere()

    def anywhere(self):
        spread = self.pick([180, 10, .1])
        return b'%.6f' % self.rng.uniform(-spread, spread), b'%.6f' % self.rng.uniform(-min(spread, 85), min(spread, 85))

    def geo_name(self):
        return self.pick(NAMES) if self.chance(.5) else b'p%d' % self.rng.randrange(30)

    def length(self):
        return self.pick(LENGTHS) if self.chance(.97) else self.pick([b'-1', b'x', b'', b'nan', b'inf'])

    def unit(self):
        return self.pick([b'm', b'km', b'KM', b'ft', b'mi']) if self.chance(.97) else self.pick([b'', b'cm', b'yd'])

    def do_geoadd(self):
        out = [b'GEOADD', self.geo_key(), *self.some([[b'NX'], [b'XX'], [b'CH'], [b'nx', b'xx']], .1)]
        for _ in range(1 + self.rng.randrange(8)):
            name = self.geo_name()
            out += [*self.place(OWN_PLACES.get(name) or self.anywhere()), name]
        return out[:-1] if self.chance(.02) else out

    def do_geo_read(self):
        how = self.rng.randrange(3)
        if how == 0:
            return [b'GEODIST', self.geo_key(), self.geo_name(), self.geo_name(), *([self.unit()] if self.chance(.5) else []), *([b'x'] if self.chance(.03) else [])]
        return [self.pick([b'GEOPOS', b'GEOHASH']), self.geo_key(), *(self.geo_name() for _ in range(self.rng.randrange(4)))]

    def search_options(self, may_show=True):
        out = []
        if may_show:
            out += [[x] for x in (b'WITHCOORD', b'WITHDIST', b'WITHHASH') if self.chance(.25)]
        if self.chance(.5):
            out.append([self.pick([b'ASC', b'DESC', b'asc'])])
        if self.chance(.4):
            out.append([b'COUNT', self.pick([b'1', b'2', b'5', b'100', b'9223372036854775807']) if self.chance(.95) else self.pick([b'0', b'-1', b'x'])])
            if self.chance(.2):
                out.append([b'ANY'])
        if self.chance(.03):
            out.append(self.pick([[b'ANY'], [b'foo'], [b'COUNT'], [b'STOREDIST'], [b'BYRADIUS', b'1', b'm']]))
        self.rng.shuffle(out)
        return [x for o in out for x in o]

    def middle(self):
        out = [b'FROMMEMBER', self.geo_name()] if self.chance(.5) else [b'FROMLONLAT', *self.place()]
        return out if self.chance(.98) else []

    def shape(self):
        out = [b'BYRADIUS', self.length(), self.unit()] if self.chance(.5) else [b'BYBOX', self.length(), self.length(), self.unit()]
        return out if self.chance(.98) else []

    def do_geosearch(self):
        parts = [self.middle(), self.shape(), self.search_options()]
        if self.chance(.3):
            self.rng.shuffle(parts)
        return [b'GEOSEARCH', self.geo_key(), *(x for p in parts for x in p)]

    def do_geosearchstore(self):
        return [b'GEOSEARCHSTORE', self.pick(GEO_KEYS + [b'z1']), self.geo_key(), *self.middle(), *self.shape(), *self.search_options(self.chance(.05)), *([b'STOREDIST'] if self.chance(.4) else [])]

    def do_georadius(self):
        ro = self.pick([b'', b'_RO'])
        out = [b'GEORADIUS' + ro, self.geo_key(), *self.place()] if self.chance(.5) else [b'GEORADIUSBYMEMBER' + ro, self.geo_key(), self.geo_name()]
        out += [self.length(), self.unit()]
        if self.chance(.3):
            return out + self.search_options(self.chance(.1)) + [self.pick([b'STORE', b'STOREDIST', b'store']), self.pick(GEO_KEYS)]
        return out + self.search_options()


GEO_WEIGHTS = {'do_geoadd': 40, 'do_geo_read': 25, 'do_geosearch': 35, 'do_geosearchstore': 15, 'do_georadius': 25}
