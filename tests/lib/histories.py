"""Histories of many clients at once (crowd.py), and what must be true of them.

    registers_fault(ops)   strict serialisability of registers, by search (Wing & Gong 1993; Lowe 2017): exact, for histories of some dozens
    lists_fault(ops)       the same of strings that are only appended to, by cycles among what must come before what (Kingsbury & Alvaro 2020, "Elle"): for histories of thousands

Both also demand the causal order of pipelines: whoever has seen the effect of a command, and then asks, sees the effects of all that stood before it in its pipeline. They return None,
or a text that tells what is wrong.
"""

from crowd import NEVER
from resp import Error, Nil


def _keys(op):
    """The keys of an operation, and whether it writes them."""
    keys = {}
    for c in op.commands:
        name = c[0]
        if name in ('GET', 'MGET', 'EXISTS', 'WATCH'):
            for k in c[1:]:
                keys.setdefault(k, False)
        elif name in ('MSET', 'MSETNX'):
            keys.update((k, True) for k in c[1::2])
        elif name in ('RENAME', 'DEL'):
            keys.update((k, True) for k in c[1:])
        elif name == 'COPY':
            keys.setdefault(c[1], False)
            keys[c[2]] = True
        elif name in ('SET', 'APPEND'):
            keys[c[1]] = True
    return keys


def _conflict(a, b):
    small, large = (a, b) if len(a) < len(b) else (b, a)
    return any(k in large and (small[k] or large[k]) for k in small)


# ---- registers ----

def _apply(state, op):
    """The state after the operation, or None if it would have answered otherwise. state: a dictionary, which is not changed."""
    state = dict(state)
    if op.aborted:
        return state
    for i, c in enumerate(op.commands):
        name = c[0]
        if name == 'GET':
            reply = state.get(c[1])
        elif name == 'MGET':
            reply = [state.get(k) for k in c[1:]]
        elif name == 'SET':
            state[c[1]], reply = c[2], b'OK'
        elif name == 'MSET':
            state.update(zip(c[1::2], c[2::2]))
            reply = b'OK'
        elif name == 'MSETNX':
            reply = int(not any(k in state for k in c[1::2]))
            if reply:
                state.update(zip(c[1::2], c[2::2]))
        elif name == 'DEL':
            reply = sum(state.pop(k, None) is not None for k in c[1:])
        elif name == 'EXISTS':
            reply = sum(k in state for k in c[1:])
        elif name == 'COPY':
            reply = int(c[1] in state)
            if reply:
                state[c[2]] = state[c[1]]
        elif name == 'RENAME':
            reply = b'OK' if c[1] in state else b'ERR no such key'
            if c[1] in state:
                state[c[2]] = state.pop(c[1])
        else:
            raise AssertionError(name)
        if op.replies is None:
            continue
        got = op.replies[i]
        if isinstance(reply, list):
            got = [None if isinstance(v, Nil) else v for v in got] if isinstance(got, list) else got
        elif isinstance(got, Nil):
            got = None
        if got != reply:
            return None
    return state


def _changes_nothing(op):
    """By what it answered."""
    return op.aborted or op.replies is not None and all(c[0] in ('GET', 'MGET', 'EXISTS') or reply == 0 or isinstance(reply, Error) for c, reply in zip(op.commands, op.replies))


def _tokens_read(op):
    for c, reply in zip(op.commands, op.replies or ()):
        if c[0] == 'GET' and not isinstance(reply, (Nil, Error)):
            yield reply
        elif c[0] == 'MGET' and isinstance(reply, list):
            for v in reply:
                if not isinstance(v, Nil):
                    yield v


def _earlier(ops):
    """For each operation the set of those before it, as bits."""
    keys = [_keys(op) for op in ops]
    writer = {}
    for op in ops:
        for c in op.commands:
            if c[0] == 'SET':
                writer[c[2]] = op
            elif c[0] in ('MSET', 'MSETNX'):
                writer.update((v, op) for v in c[2::2])
    seen = [[writer[v] for v in _tokens_read(op) if v in writer] for op in ops]
    earlier = [0] * len(ops)
    for j, b in enumerate(ops):
        until = {}              # by connection: what has been seen of it
        for i, a in enumerate(ops):
            if a.returned < b.invoked:
                earlier[j] |= 1 << i
                for w in seen[i]:
                    until[w.conn] = max(until.get(w.conn, 0), w.position)
            elif a.conn == b.conn and a.position < b.position and _conflict(keys[i], keys[j]):
                earlier[j] |= 1 << i
        for i, a in enumerate(ops):
            if i != j and a.position < until.get(a.conn, 0):
                earlier[j] |= 1 << i
    return earlier


STATES_MAX = 50000


def registers_fault(ops):
    """Values are written once only. The registers begin empty."""
    ops = sorted(ops, key=lambda op: (op.returned, op.invoked))
    earlier, idle = _earlier(ops), [_changes_nothing(op) for op in ops]
    must = sum(1 << i for i, op in enumerate(ops) if op.replies is not None or op.aborted)
    seen, furthest = set(), 0
    stack = [(0, {}, 0)]        # done, state, the next to be tried
    while stack:
        done, state, i = stack.pop()
        if done & must == must:
            return None
        for i in range(i, len(ops)):
            if done >> i & 1 or earlier[i] & ~done:
                continue
            after = _apply(state, ops[i])
            if after is None:
                continue
            mark = (done | 1 << i, tuple(sorted(after.items())))
            if mark in seen:
                continue
            seen.add(mark)
            # What changes nothing and fits may come now whatever comes later: no other way need be tried.
            if not idle[i]:
                stack.append((done, state, i + 1))
            stack.append((done | 1 << i, after, 0))
            if bin(done).count('1') >= bin(furthest).count('1'):
                furthest = done | 1 << i
            break
        if len(seen) > STATES_MAX:
            return None         # undecided: too many at once
    left = '\n'.join('  %s%r' % ('* ' if furthest >> i & 1 else '  ', op) for i, op in enumerate(ops))
    return 'no order explains all answers (* can be put in order):\n' + left


# ---- lists ----

TOKEN = 8       # bytes of an element


class _Graph:
    def __init__(self):
        self.after, self.names = [], []

    def node(self, name):
        self.after.append([])
        self.names.append(name)
        return len(self.names) - 1

    def edge(self, a, b):
        if a is not None and b is not None and a != b:
            self.after[a].append(b)

    def cycle(self):
        """Nodes of a cycle, or None."""
        before = [0] * len(self.after)
        for after in self.after:
            for b in after:
                before[b] += 1
        free = [n for n, count in enumerate(before) if not count]
        for n in free:          # grows meanwhile
            for b in self.after[n]:
                before[b] -= 1
                if not before[b]:
                    free.append(b)
        if len(free) == len(self.after):
            return None
        left = set(range(len(self.after))) - set(free)
        return self._shortest(left)

    def _shortest(self, left):
        """A short cycle among the nodes that are left."""
        best = None
        for start in list(left)[:200]:
            come_from, queue = {start: None}, [start]
            found = None
            for n in queue:
                for b in self.after[n]:
                    if b == start:
                        found = n
                        break
                    if b in left and b not in come_from:
                        come_from[b] = n
                        queue.append(b)
                if found is not None:
                    break
            if found is not None:
                path = []
                while found is not None:
                    path.append(found)
                    found = come_from[found]
                if best is None or len(path) < len(best):
                    best = path[::-1]
        return best


def _elements(value):
    return [] if isinstance(value, Nil) else [value[at:at + TOKEN] for at in range(0, len(value), TOKEN)]


def _readings(op):
    """What it read: (key, elements)."""
    for c, reply in zip(op.commands, op.replies or ()):
        if c[0] == 'GET':
            yield c[1], _elements(reply)
        elif c[0] == 'MGET':
            for k, v in zip(c[1:], reply):
                yield k, _elements(v)


def _version_orders(ops, writer):
    """(orders, fault). By key: its elements in order, as far as readings and the lengths that APPEND returns tell; None where neither does."""
    orders = {}

    def put(key, at, element):
        order = orders.setdefault(key, [])
        order.extend([None] * (at + 1 - len(order)))
        if order[at] not in (None, element):
            return 'element %d of %r is %r for some and %r for others' % (at, key, order[at], element)
        order[at] = element
        return None

    fault = None
    for op in ops:
        for c, reply in zip(op.commands, op.replies or ()):
            if c[0] == 'APPEND':
                if type(reply) is not int or reply % TOKEN or not reply:
                    return orders, '%r' % op
                fault = fault or put(c[1], reply // TOKEN - 1, c[2])
        for key, elements in _readings(op):
            for at, element in enumerate(elements):
                if (key, element) not in writer:
                    return orders, '%r was read, but nobody appended it: %r' % (element, op)
                fault = fault or put(key, at, element)
    for key, order in orders.items():
        known = [e for e in order if e is not None]
        if len(known) != len(set(known)):
            fault = fault or 'something is twice in %r' % key
    return orders, fault


def _add_values(graph, ops, nodes, writer, orders):
    """Who wrote before whom, who read what whom wrote, and who read before whom wrote."""
    writes_at = {key: [(at, nodes[writer[key, e]]) for at, e in enumerate(order) if e is not None] for key, order in orders.items()}
    next_writer = {}
    for key, writes in writes_at.items():
        for (_, a), (_, b) in zip(writes, writes[1:]):
            graph.edge(a, b)
        following, after = {}, None
        known = dict(writes)
        for at in range(len(orders[key]), -1, -1):
            after = known.get(at, after)
            following[at] = after
        next_writer[key] = following
    for op in ops:
        for key, elements in _readings(op):
            if elements:
                graph.edge(nodes[writer[key, elements[-1]]], nodes[op])
            if key in next_writer:
                graph.edge(nodes[op], next_writer[key].get(len(elements)))


def _add_pipelines(graph, ops, nodes):
    """Commands of one connection on a common key keep their order. (op: the node of all that stand before it in its connection)."""
    by_conn, before = {}, {}
    for op in ops:
        by_conn.setdefault(op.conn, []).append(op)
    for conn, mine in by_conn.items():
        mine.sort(key=lambda op: op.position)
        last, chain = {}, None
        for op in mine:
            before[op] = chain
            for key, writes in _keys(op).items():
                for other, wrote in last.get(key, ()):
                    if writes or wrote:
                        graph.edge(nodes[other], nodes[op])
                last.setdefault(key, []).append((op, writes))
                if writes:
                    last[key] = [(op, True)]
            new = graph.node('all of connection %s up to %s' % (conn, op.position))
            graph.edge(chain, new)
            graph.edge(nodes[op], new)
            chain = new
    return before


def _add_time(graph, ops, nodes, before, writer):
    """What was answered before another was invoked stands before it, and so does all that stood in pipelines before what the answer shows."""
    moments = sorted([(op.invoked, 0, n) for n, op in enumerate(ops)] + [(op.returned, 1, n) for n, op in enumerate(ops) if op.returned != NEVER])
    now = None
    for at, returned, n in moments:
        op = ops[n]
        if not returned:
            graph.edge(now, nodes[op])
            continue
        new = graph.node('the moment %.6f' % at)
        graph.edge(now, new)
        graph.edge(nodes[op], new)
        for key, elements in _readings(op):
            for e in elements[-20:]:
                graph.edge(before[writer[key, e]], new)
        now = new


def lists_fault(ops):
    """Each element, of TOKEN bytes, is appended once. An operation that was never answered may or may not have happened."""
    writer = {(c[1], c[2]): op for op in ops if not op.aborted for c in op.commands if c[0] == 'APPEND'}
    orders, fault = _version_orders(ops, writer)
    if fault:
        return fault
    shown = {e for order in orders.values() for e in order}
    ops = [op for op in ops if op.replies is not None or any(c[0] == 'APPEND' and c[2] in shown for c in op.commands) and not op.aborted]
    graph = _Graph()
    nodes = {op: graph.node(op) for op in ops}
    _add_values(graph, ops, nodes, writer, orders)
    before = _add_pipelines(graph, ops, nodes)
    _add_time(graph, ops, nodes, before, writer)
    cycle = graph.cycle()
    return None if cycle is None else 'each of these must come before the next, and the last before the first:\n' + '\n'.join('  %s' % graph.names[n] for n in cycle)
