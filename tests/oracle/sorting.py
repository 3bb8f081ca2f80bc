"""The generator's SORT: of lists of its own, sets and sorted sets; with weights and values to name by BY and GET."""

SORT_LISTS = [b'sl1', b'sl2', b'{tag}sl']
SORT_SETS = [b's1', b's2', b'{tag}s']
SORT_ZSETS = [b'z1', b'z2', b'{tag}z']
TARGETS = [b'sl3', b'{tag}sl4', b'sl4', b's3']
NUMBERS = [b'3', b'1', b'2', b'10', b'-4', b'1.5', b'0', b'07', b'1e3', b'-inf', b'inf', b'', b' 5', b'0x10']
BAD_NUMBERS = [b'abc', b'nan', b'1.5x', b'1e400', b'4e-320', b'5 ', b'1\x002']


class Sorting:
    def sort_element(self):
        return b'%d' % self.rng.randrange(-20, 60) if self.chance(.75) else self.pick(NUMBERS) if self.chance(.9) else self.pick(BAD_NUMBERS)

    def do_sort_fill(self):
        how = self.rng.randrange(8)
        if how < 3:
            return [b'RPUSH', self.pick(SORT_LISTS), *(self.sort_element() for _ in range(1 + self.rng.randrange(600 if self.chance(.02) else 6)))]
        if how == 3:
            return [b'LTRIM', self.pick(SORT_LISTS), b'0', self.pick([b'5', b'20', b'-2'])]
        if how < 6:
            return [b'SET', b'w:%d' % self.rng.randrange(-20, 60), self.sort_element()]
        return [b'HSET', b'h:%d' % self.rng.randrange(-20, 60), self.pick([b'f', b'n', b'n->m']), self.sort_element()]

    def sort_pattern(self):
        return self.pick([b'w:*', b'w:*', b'h:*->f', b'h:*->n', b'h:*->n->m', b'h:*', b'w:*->f', b'#', b'nothing', b'*', b'h:*->', b'', b'w:*x', b'{tag}*'])

    def sort_options(self):
        out = []
        if self.chance(.3):
            out.append([b'DESC'] if self.chance(.6) else [b'asc'])
        for _ in range(self.pick([0, 0, 0, 1, 1, 2, 3])):
            out.append([b'GET', self.sort_pattern()])
        if self.chance(.03):
            out.append(self.pick([[b'LIMIT', b'1'], [b'foo'], [b'GET'], [b'BY'], [b'STORE'], [b'LIMIT', b'x', b'1'], [b'LIMIT', b'1', b'9223372036854775808']]))
        self.rng.shuffle(out)
        return out

    def sort_limit(self):
        return [b'LIMIT', self.pick([b'0', b'0', b'1', b'2', b'10', b'-1', b'1000', b'9223372036854775807']), self.pick([b'1', b'2', b'5', b'0', b'-1', b'100', b'9223372036854775807', b'-9223372036854775808'])]

    def do_sort(self):
        """Where Redis leaves the order open (a set as it lies, equal weights of ALPHA), neither LIMIT nor STORE stands."""
        kind = self.rng.randrange(10)
        key = self.pick(SORT_LISTS if kind < 5 else SORT_SETS if kind < 7 else SORT_ZSETS if kind < 9 else [b'a', b'counter', b'h1', b'none'])
        lists = key in SORT_LISTS
        options = self.sort_options()
        open_order = [b'BY'] in options and not lists     # it takes the next word for a pattern
        alpha = self.chance(.35)
        if alpha:
            options.append([b'ALPHA'])
        if self.chance(.45):
            pattern = self.sort_pattern()
            options.append([b'BY', pattern])
            open_order |= (b'*' not in pattern and not lists) or alpha
        if not open_order and self.chance(.3):
            options.append(self.sort_limit())
        if not open_order and alpha and self.chance(.4):
            return [b'SORT', key, *(x for o in options for x in o), b'STORE', self.pick(TARGETS)]
        self.rng.shuffle(options)
        return [self.pick([b'SORT', b'SORT', b'SORT_RO']), key, *(x for o in options for x in o)]


SORTING_WEIGHTS = {'do_sort_fill': 50, 'do_sort': 50}
