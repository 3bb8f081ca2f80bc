"""What many clients see at once is strictly serialisable: histories of random operations over several shards, with connections cut in the middle and clients that do not read for a while.

lib/histories.py has the checks; tests/sim makes the same of the scheduler alone, with all races drawn from a seed.
"""

import random

import pytest

from configurations import LIGHT, SOAK, seed
from crowd import Crowd, Operation
from histories import lists_fault, registers_fault
from resp import NIL
from server import SLOW

MANY = 40 if SOAK else 1


def rng_for(name):
    text = seed('DARTER_HISTORIES_SEED', '1')
    print('DARTER_HISTORIES_SEED=%s' % text)
    return random.Random('%s %s' % (text, name))


def stall(times):
    """Keeps the thread of its connection, and no other, busy for a millisecond or so, again and again: what the others are about comes between its messages."""
    rounds = iter(range(times))

    def script(rng):
        for _ in rounds:
            yield [Operation(('CONFIG', 'GET', *('*a*b*c*%d*' % n for n in range(rng.randrange(1, 150)))), record=False)]
            for _ in range(rng.randrange(6)):
                yield [Operation(('PING',), record=False)]
    return script


# ---- registers ----

class Registers:
    """Scripts about a few keys of a round's own."""

    def __init__(self, number):
        self.keys = ['%d:%s' % (number, name) for name in 'abcde']
        self.next = 0

    def value(self):
        self.next += 1
        return b'%d' % self.next

    def command(self, rng):
        some = rng.sample(self.keys, rng.randrange(2, 5))
        a, b = some[:2]
        return rng.choice([
            lambda: ('GET', a), lambda: ('SET', a, self.value()), lambda: ('GET', a), lambda: ('MGET', *some), lambda: ('MGET', *some),
            lambda: ('MSET', *(x for k in some for x in (k, self.value()))), lambda: ('RENAME', a, b), lambda: ('COPY', a, b, 'REPLACE'), lambda: ('DEL', *some[:2]),
            lambda: ('MSETNX', *(x for k in some[:2] for x in (k, self.value()))), lambda: ('EXISTS', *some)])()

    def operation(self, rng):
        if rng.random() < .25:
            return Operation(*(self.command(rng) for _ in range(rng.randrange(1, 4))), multi=True)
        return Operation(self.command(rng))

    def script(self, count):
        rounds = iter(range(count))

        def script(rng):
            for _ in rounds:
                yield [self.operation(rng) for _ in range(rng.choice([1, 1, 2, 3]))]
        return script

    def last(self, rng):
        yield [Operation(('MGET', *self.keys))]


@pytest.mark.several_threads
@pytest.mark.parametrize('cut', [0, .05], ids=['all stay', 'some leave'])
def test_registers_are_strictly_serialisable(server, cut):
    rng = rng_for('registers')
    crowd = Crowd(server, rng, cut=cut, stop=.02, slow=SLOW)
    for number in range(60 * MANY // (6 if LIGHT else 1)):
        registers = Registers(number)
        ops = crowd.play(*[registers.script(4) for _ in range(6)], stall(3), stall(3))
        ops += crowd.play(registers.last)
        fault = registers_fault(ops)
        assert not fault, fault
    assert LIGHT or bool(crowd.cuts) == bool(cut)


# ---- lists ----

class Lists:
    """Appends to, and readings of, a few keys, which are given up for new ones when they are long."""

    def __init__(self, longest):
        self.longest, self.number = longest, 0
        self.generations = [0] * 6
        self.lengths = [0] * 6

    def key(self, n):
        return 'list:%d:%d' % (n, self.generations[n])

    def append(self, n):
        self.number += 1
        self.lengths[n] += 1
        key = self.key(n)
        if self.lengths[n] == self.longest:
            self.lengths[n] = 0
            self.generations[n] += 1
        return 'APPEND', key, b'%07d,' % self.number

    def some(self, rng):
        return rng.sample(range(6), rng.randrange(1, 5))

    def transaction(self, rng):
        commands = []
        for n in self.some(rng):
            commands += [self.append(n)] if rng.random() < .5 else [('GET', self.key(n)), self.append(n)][:rng.randrange(1, 3)]
        if rng.random() < .3:
            commands.append(('MGET', *map(self.key, self.some(rng))))
        return Operation(*commands, multi=True)

    def operation(self, rng):
        n = rng.randrange(6)
        return rng.choice([lambda: self.transaction(rng), lambda: self.transaction(rng), lambda: Operation(('MGET', *map(self.key, self.some(rng)))),
                           lambda: Operation(('GET', self.key(n))), lambda: Operation(self.append(n))])()

    def script(self, count):
        rounds = iter(range(count))

        def script(rng):
            for _ in rounds:
                yield [self.operation(rng) for _ in range(rng.choice([1, 1, 1, 4, 12]))]
        return script

    def last(self, rng):
        yield [Operation(('MGET', *map(self.key, range(6))))]


# A long list takes so many buffers of a client that does not read that the rest of its replies waits in the server.
@pytest.mark.several_threads
@pytest.mark.parametrize('longest,cut', [(20, 0), (20, .03), (3000, .05)], ids=['all stay', 'some leave', 'long'])
def test_appended_lists_are_strictly_serialisable(server, longest, cut):
    lists = Lists(longest)
    crowd = Crowd(server, rng_for('lists'), cut=cut, stop=.02, slow=SLOW)
    count = (100 if longest > 20 else 300) * MANY // (8 if LIGHT else 1)
    ops = crowd.play(*[lists.script(count) for _ in range(8)], stall(count), stall(count))
    ops += crowd.play(lists.last)
    fault = lists_fault(ops)
    assert not fault, fault
    assert LIGHT or bool(crowd.cuts) == bool(cut)


# ---- a bank ----

ACCOUNTS = ['account:%d' % n for n in range(7)]


def transfers(count, done):
    rounds = iter(range(count))

    def script(rng):
        for _ in rounds:
            a, b = rng.sample(ACCOUNTS, 2)
            watch, read = yield [Operation(('WATCH', a, b), record=False), Operation(('MGET', a, b))]
            have, had = map(int, read.replies[0])
            amount = rng.randrange(1, 10)
            move, = yield [Operation(('SET', a, have - amount), ('SET', b, had + amount), multi=True)]
            done.append(not move.aborted)
    return script


def audits(count, faults):
    rounds = iter(range(count))

    def script(rng):
        for _ in rounds:
            reads = yield [Operation(('MGET', *rng.sample(ACCOUNTS, 7))), Operation(*(('GET', a) for a in ACCOUNTS), multi=True)][:rng.randrange(1, 3)]
            for op in reads:
                values = op.replies if op.multi else op.replies[0]
                if sum(map(int, values)) != 700:
                    faults.append(values)
    return script


@pytest.mark.several_threads
def test_money_that_watched_transfers_move_about_is_neither_made_nor_lost(server):
    done, faults = [], []
    crowd = Crowd(server, rng_for('bank'), cut=.03, stop=.02, slow=SLOW)
    with server.client() as c:
        c.command('MSET', *(x for a in ACCOUNTS for x in (a, 100)))
    count = 400 * MANY // (8 if LIGHT else 1)
    crowd.play(*[transfers(count, done) for _ in range(5)], *[audits(count, faults) for _ in range(3)], stall(count // 4), stall(count // 4))
    assert not faults, faults[0]
    assert any(done) and (LIGHT or crowd.cuts)


# ---- causes ----

@pytest.mark.several_threads
def test_who_has_seen_a_later_command_of_a_pipeline_sees_all_earlier_ones(server):
    """Long pipelines of plain appends to many keys, and readers who read one key after the other."""
    lists = Lists(40)

    def writer(count):
        rounds = iter(range(count))

        def script(rng):
            for _ in rounds:
                yield [Operation(lists.append(rng.randrange(6))) for _ in range(20)]
        return script

    def reader(count):
        rounds = iter(range(count))

        def script(rng):
            for _ in rounds:
                yield [Operation(('GET', lists.key(rng.randrange(6)))) for _ in range(rng.randrange(1, 3))]
        return script

    count = 100 * MANY // (8 if LIGHT else 1)
    crowd = Crowd(server, rng_for('causes'), cut=.02, stop=.02, slow=SLOW)
    ops = crowd.play(*[writer(count) for _ in range(3)], *[reader(8 * count) for _ in range(6)], stall(2 * count), stall(2 * count))
    fault = lists_fault(ops)
    assert not fault, fault


# ---- one transaction open between its shards ----

@pytest.mark.several_threads
def test_a_plain_write_between_the_waves_of_a_rename_is_not_lost(server):
    """RENAME over two shards first reads, then writes: what is written to its source meanwhile comes before it, and is moved, or after it, and stays."""
    faults = []
    rounds = 600 * MANY // (10 if LIGHT else 1)
    over = []

    def rename(source, target):
        def script(rng):
            while not over:
                yield [Operation(('RENAME', source, target), record=False) for _ in range(3)]
        return script

    def write(source, target):
        def script(rng):
            for n in range(rounds):
                value = b'%d' % n
                yield [Operation(('SET', source, value), record=False)]
                here, = yield [Operation(('GET', source), record=False)]
                if here.replies != [value]:
                    there, = yield [Operation(('GET', target), record=False)]
                    if there.replies != [value]:
                        faults.append((value, here.replies, there.replies))
            over.append(True)
        return script

    crowd = Crowd(server, rng_for('waves'), slow=SLOW)
    scripts = []
    for n in range(6):
        names = 'source:%d' % n, 'target:%d' % n
        scripts += [rename(*names), write(*names)]
    crowd.play(*scripts, *[stall(rounds) for _ in range(4)])
    assert not faults, faults[0]


# ---- the checks themselves ----

def answered(conn, position, invoked, returned, *pairs):
    """An operation as it would have been noted. pairs: a command, its reply, the next command ..."""
    op = Operation(*pairs[::2], multi=len(pairs) > 2)
    op.conn, op.position, op.invoked, op.returned, op.replies = conn, position, invoked, returned, list(pairs[1::2])
    return op


def never_answered(conn, position, invoked, *commands):
    op = answered(conn, position, invoked, float('inf'))
    op.commands = commands
    op.replies = None
    return op


A, B = b'0000001,', b'0000002,'
LOST = [answered(0, 0, 0, 1, ('SET', 'a', b'1'), b'OK'), answered(1, 0, 2, 3, ('GET', 'a'), NIL)]
HALF = [answered(0, 0, 0, 9, ('MSET', 'a', b'1', 'b', b'2'), b'OK'), answered(1, 0, 1, 2, ('GET', 'b'), b'2'), answered(1, 1, 3, 4, ('GET', 'a'), NIL)]
CAUSE = [answered(0, 0, 0, 9, ('SET', 'a', b'1'), b'OK'), answered(0, 1, 0, 9, ('SET', 'b', b'2'), b'OK'), answered(1, 0, 1, 2, ('GET', 'b'), b'2'), answered(1, 1, 3, 4, ('GET', 'a'), NIL)]
UNKNOWN = [never_answered(0, 0, 0, ('SET', 'a', b'1')), answered(1, 0, 1, 2, ('GET', 'a'), b'1'), answered(1, 1, 3, 4, ('GET', 'a'), NIL)]
TWO_ORDERS = [answered(0, 0, 0, 9, ('SET', 'a', b'1'), b'OK'), answered(1, 0, 0, 9, ('SET', 'b', b'2'), b'OK'), answered(2, 0, 1, 8, ('MGET', 'a', 'b'), [b'1', NIL]), answered(3, 0, 1, 8, ('MGET', 'a', 'b'), [NIL, b'2'])]


@pytest.mark.parametrize('ops', [LOST, HALF, CAUSE, UNKNOWN, TWO_ORDERS], ids=['lost', 'half', 'cause', 'unknown', 'two orders'])
def test_the_check_of_registers_finds_what_has_no_order(ops):
    assert registers_fault(ops)
    assert not registers_fault(ops[:-1])


L_LOST = [answered(0, 0, 0, 1, ('APPEND', 'a', A), 8), answered(1, 0, 2, 3, ('GET', 'a'), NIL)]
L_SKEW = [answered(0, 0, 0, 9, ('GET', 'a'), NIL, ('APPEND', 'b', B), 8), answered(1, 0, 0, 9, ('APPEND', 'a', A), 8, ('GET', 'b'), NIL)]
L_CAUSE = [answered(0, 0, 0, 9, ('APPEND', 'a', A), 8), answered(0, 1, 0, 9, ('APPEND', 'b', B), 8), answered(1, 0, 1, 2, ('GET', 'b'), B), answered(1, 1, 3, 4, ('GET', 'a'), NIL)]
L_FORK = [answered(0, 0, 0, 9, ('APPEND', 'a', A), 8), answered(1, 0, 0, 9, ('APPEND', 'a', B), 8)]
L_NOBODY = [answered(0, 0, 0, 9, ('APPEND', 'b', B), 8), answered(1, 0, 0, 9, ('GET', 'a'), A)]
L_MIDDLE = [answered(0, 0, 0, 9, ('APPEND', 'a', A), 8, ('APPEND', 'a', B), 16), answered(1, 0, 0, 9, ('GET', 'a'), A)]


@pytest.mark.parametrize('ops', [L_LOST, L_SKEW, L_CAUSE, L_FORK, L_NOBODY, L_MIDDLE], ids=['lost', 'skew', 'cause', 'fork', 'from nobody', 'middle'])
def test_the_check_of_lists_finds_what_has_no_order(ops):
    assert lists_fault(ops)
    assert not lists_fault(ops[:-1])
