"""Many clients at once, whose every operation is noted for histories.py.

A Crowd plays scripts, one a connection, all in this one thread: it sends what they ask for, reads what has come, and notes of every operation when it was invoked, when it was answered
(monotonic time: the real interval is within), and what with. It cuts connections in the middle, and leaves some unread for a while. A script is a generator: it yields a list of
Operations, which go out as one pipeline, and gets them back answered. It is begun anew on a new connection when its own was cut, so what it counts it counts outside.
"""

import selectors
import time

from resp import Client, Error, Nil, encode

NEVER = float('inf')
SILENCE = 20    # seconds without a reply, after which there is none


class Operation:
    """One command, or several as a transaction (multi)."""

    def __init__(self, *commands, multi=False, record=True):
        self.commands, self.multi, self.record = commands, multi, record
        self.conn = self.position = None
        self.invoked = self.returned = NEVER
        self.replies = None             # one a command; None: never answered
        self.aborted = False            # EXEC said that something watched has changed

    def encoded(self):
        words = b''.join(encode(*c) for c in self.commands)
        return b''.join((encode('MULTI'), words, encode('EXEC'))) if self.multi else words

    def take(self, replies):
        if not self.multi:
            self.replies = replies
            return
        if isinstance(replies[-1], Nil):
            self.aborted = True
            return
        if not isinstance(replies[-1], list) or len(replies[-1]) != len(self.commands):
            raise AssertionError('%r was answered %r' % (self, replies))
        self.replies = replies[-1]

    def n_replies(self):
        return len(self.commands) + 2 if self.multi else len(self.commands)

    def __repr__(self):
        def word(x):
            return x.decode() if isinstance(x, bytes) else str(x)
        text = '; '.join(' '.join(word(w) for w in c) for c in self.commands)
        return '%s.%s [%.6f %.6f] %s%s -> %s' % (self.conn, self.position, self.invoked, self.returned, 'MULTI; ' if self.multi else '', text,
                                                 'aborted' if self.aborted else self.replies)


class _Connection:
    def __init__(self, crowd, script):
        self.crowd, self.script, self.client = crowd, script, None
        self.asked = []         # operations that are out, and how many of the replies are here
        self.sent = None
        self.unread_until = 0
        self.over = False

    def open(self):
        self.client = Client(self.crowd.server.address(), timeout=60 * self.crowd.slow, receive_buffer=self.crowd.rng.choice([None, 4096]))
        self.number = self.crowd.next_connection
        self.crowd.next_connection += 1
        self.position = 0
        self.generator = self.script(self.crowd.rng)
        self.got = []
        self.crowd.selector.register(self.client.socket, selectors.EVENT_READ, self)

    def close(self):
        self.crowd.selector.unregister(self.client.socket)
        self.client.close()
        self.client = None

    def go_on(self, answered):
        """Gives the script its answers, and sends what it asks for next."""
        try:
            ops = next(self.generator) if answered is None else self.generator.send(answered)
        except StopIteration:
            self.over = True
            self.close()
            return
        for op in ops:
            op.conn, op.position = self.number, self.position
            self.position += 1
        data = [op.encoded() for op in ops]
        size = sum(map(len, data))
        cut = self.crowd.rng.random() < self.crowd.cut
        if cut:
            size = self.crowd.rng.randrange(1, size + 1)
        self._note(ops, data, size)
        self.client.send(b''.join(data)[:size])
        if cut:
            self._begin_anew()
            return
        if self.crowd.rng.random() < self.crowd.stop:
            self.unread_until = time.monotonic() + self.crowd.rng.random() * .05
        self.asked, self.sent, self.got = list(ops), ops, []

    def _note(self, ops, data, size):
        """Only what arrives whole happens."""
        now = time.monotonic()
        for op, part in zip(ops, data):
            size -= len(part)
            if size < 0:
                break
            op.invoked = now
            if op.record:
                self.crowd.ops.append(op)

    def _begin_anew(self):
        self.crowd.cuts += 1
        self.crowd.selector.unregister(self.client.socket)
        self.client.reset() if self.crowd.rng.random() < .5 else self.client.close()
        self.asked = []
        self.open()
        self.go_on(None)

    def read(self):
        """Takes what has come. Blocks for the rest of a reply that has begun."""
        while self.asked:
            self.got.append(self.client.read())
            op = self.asked[0]
            if len(self.got) == op.n_replies():
                op.returned = time.monotonic()
                op.take(self.got)
                self.got = []
                self.asked.pop(0)
            if self.client.at == len(self.client.buffer):
                break
        if not self.asked:
            self.go_on(self.sent)


class Crowd:
    def __init__(self, server, rng, cut=0.0, stop=0.0, slow=1.0):
        """cut, stop: how often a connection is cut after it sent something, or is not read for a while."""
        self.server, self.rng, self.cut, self.stop, self.slow = server, rng, cut, stop, slow
        self.next_connection = 0
        self.cuts = 0

    def play(self, *scripts):
        """Plays each script to its end, all at once; the operations."""
        self.ops, self.selector = [], selectors.DefaultSelector()
        connections = [_Connection(self, s) for s in scripts]
        try:
            for c in connections:
                c.open()
            for c in connections:
                c.go_on(None)
            came = time.monotonic()
            while not all(c.over for c in connections):
                events = self.selector.select(.05)
                self.rng.shuffle(events)
                now = time.monotonic()
                came = now if events else came
                if now - came > SILENCE * self.slow:
                    raise AssertionError('nothing comes any more, but these were not answered:\n' + '\n'.join('  %r' % op for c in connections for op in c.asked[:1]))
                waiting = False
                for key, _ in events:
                    c = key.data
                    if c.over or c.client is None or c.client.socket is not key.fileobj:
                        continue
                    if c.unread_until > now:
                        waiting = True
                        continue
                    c.read()
                if waiting:
                    time.sleep(.0005)
        finally:
            for c in connections:
                if c.client:
                    c.close()
            self.selector.close()
        return self.ops


# ---- what must come before what ----
