"""A raw RESP2/RESP3 client: sends bytes, reads one reply at a time, and keeps every type apart.

redis-py hides what matters to exactness (simple or bulk string, nil bulk or nil array, order of a map), so the tests that
compare replies use this one. The values that read() returns:

    +text   Simple(bytes)      $n      bytes              *n   list            %n   Map (list of pairs)
    -text   Error(bytes)       $-1     Nil('$')           *-1  Nil('*')        ~n   Set (list)
    :n      int                _       Nil('_')           #t   bool            >n   Push (list)
    ,x      Double(bytes)      (n      BigNumber(bytes)   =n   Verbatim(bytes) |n   Attribute, then the reply itself
"""

import socket

TIMEOUT = 60.0      # seconds


class Simple(bytes):
    def __repr__(self):
        return '+' + self.decode('utf-8', 'backslashreplace')

    __str__ = __repr__


class Error(bytes):
    def __repr__(self):
        return '-' + self.decode('utf-8', 'backslashreplace')

    __str__ = __repr__


class Double(bytes):
    def __repr__(self):
        return ',' + self.decode('utf-8', 'backslashreplace')

    __str__ = __repr__


class BigNumber(bytes):
    def __repr__(self):
        return '(' + self.decode('utf-8', 'backslashreplace')

    __str__ = __repr__


class Verbatim(bytes):
    def __repr__(self):
        return '=' + self.decode('utf-8', 'backslashreplace')

    __str__ = __repr__


class Map(list):
    def __repr__(self):
        return '%' + super().__repr__()


class Set(list):
    def __repr__(self):
        return '~' + super().__repr__()


class Push(list):
    def __repr__(self):
        return '>' + super().__repr__()


class Attribute(list):
    def __repr__(self):
        return '|' + super().__repr__()


class Nil:
    """One of the three ways to say nothing; equal only to the same one."""

    def __init__(self, how):
        self.how = how

    def __eq__(self, other):
        return isinstance(other, Nil) and self.how == other.how

    def __hash__(self):
        return hash(self.how)

    def __bool__(self):
        return False

    def __repr__(self):
        return {'$': 'nil', '*': 'nil*', '_': 'null'}[self.how]


NIL, NIL_ARRAY, NULL = Nil('$'), Nil('*'), Nil('_')


def same(a, b):
    """Equal in value and in every type. (1 == True and b'x' == Simple(b'x') in Python; they differ here.)"""
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


class Closed(Exception):
    """The server closed the connection, with what was left in the buffer."""


class ProtocolFault(Exception):
    """The server sent something that is not RESP."""


def encode(*args):
    """A command as an array of bulk strings."""
    parts = [b'*%d\r\n' % len(args)]
    for arg in args:
        if isinstance(arg, str):
            arg = arg.encode()
        elif not isinstance(arg, (bytes, bytearray)):
            arg = str(arg).encode()
        parts.append(b'$%d\r\n%b\r\n' % (len(arg), arg))
    return b''.join(parts)


class Client:
    """One connection. address: a port of 127.0.0.1, a (host, port), or the path of a Unix socket."""

    def __init__(self, address, timeout=TIMEOUT, receive_buffer=None):
        if isinstance(address, int):
            address = ('127.0.0.1', address)
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX)
        else:
            self.socket = socket.socket(socket.AF_INET6 if ':' in address[0] else socket.AF_INET)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        try:
            self.socket.connect(address)
        except BaseException:
            self.socket.close()
            raise
        if not isinstance(address, str):
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b''
        self.at = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def command(self, *args):
        """Sends one command and reads its reply."""
        self.socket.sendall(encode(*args))
        return self.read()

    def pipeline(self, commands):
        """Sends all commands in one go and reads all replies."""
        self.socket.sendall(b''.join(encode(*c) for c in commands))
        return [self.read() for _ in commands]

    def _more(self):
        got = self.socket.recv(1 << 18)
        if not got:
            raise Closed(self.buffer[self.at:])
        self.buffer = self.buffer[self.at:] + got if self.at < len(self.buffer) else got
        self.at = 0

    def _line(self):
        while True:
            end = self.buffer.find(b'\r\n', self.at)
            if end >= 0:
                line = self.buffer[self.at:end]
                self.at = end + 2
                return line
            self._more()

    def _exactly(self, size):
        have = len(self.buffer) - self.at
        if have >= size + 2:
            body = self.buffer[self.at:self.at + size]
            ending = self.buffer[self.at + size:self.at + size + 2]
            self.at += size + 2
        else:
            whole = bytearray(self.buffer[self.at:])
            self.buffer, self.at = b'', 0
            while len(whole) < size + 2:
                got = self.socket.recv(min(max(size + 2 - len(whole), 1), 1 << 22))
                if not got:
                    raise Closed(bytes(whole))
                whole += got
            body, ending = bytes(whole[:size]), bytes(whole[size:])
        if ending != b'\r\n':
            raise ProtocolFault('a bulk string of %d bytes does not end with CRLF but with %r' % (size, ending))
        return body

    def read(self):
        """Reads one reply, whatever its type."""
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b'$':
            size = _number(line)
            return NIL if size == -1 else self._exactly(size)
        if kind == b'+':
            return Simple(rest)
        if kind == b':':
            return _number(line)
        if kind == b'-':
            return Error(rest)
        if kind == b'*':
            size = _number(line)
            return NIL_ARRAY if size == -1 else [self.read() for _ in range(size)]
        if kind == b'_':
            if rest:
                raise ProtocolFault('%r' % line)
            return NULL
        if kind == b'#':
            if rest not in (b't', b'f'):
                raise ProtocolFault('%r' % line)
            return rest == b't'
        if kind == b',':
            return Double(rest)
        if kind == b'(':
            return BigNumber(rest)
        if kind == b'=':
            return Verbatim(self._exactly(_number(line)))
        if kind == b'%':
            return Map([[self.read(), self.read()] for _ in range(_number(line))])
        if kind == b'~':
            return Set([self.read() for _ in range(_number(line))])
        if kind == b'>':
            return Push([self.read() for _ in range(_number(line))])
        if kind == b'|':
            for _ in range(_number(line)):
                self.read(), self.read()
            return self.read()
        raise ProtocolFault('no RESP type: %r' % line[:80])

    def quiet(self, seconds=0.2):
        """True if nothing arrives for that long."""
        if self.at < len(self.buffer):
            return False
        self.socket.settimeout(seconds)
        try:
            got = self.socket.recv(1 << 16)
        except socket.timeout:
            return True
        finally:
            self.socket.settimeout(TIMEOUT)
        if not got:
            raise Closed(b'')
        self.buffer, self.at = got, 0
        return False

    def read_to_end(self, timeout=TIMEOUT):
        """Everything that comes until the server closes the connection: (bytes, True), or, if it does not within timeout, (bytes, False)."""
        got = [self.buffer[self.at:]]
        self.buffer, self.at = b'', 0
        self.socket.settimeout(timeout)
        try:
            while True:
                piece = self.socket.recv(1 << 18)
                if not piece:
                    return b''.join(got), True
                got.append(piece)
        except ConnectionResetError:
            return b''.join(got), True
        except socket.timeout:
            return b''.join(got), False

    def reset(self):
        """Closes with a reset instead of an orderly end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
        self.socket.close()


def _number(line):
    body = line[1:]
    if not (body[1:] if body[:1] == b'-' else body).isdigit():
        raise ProtocolFault('no number: %r' % line[:80])
    return int(body)


def quote(arg):
    """An argument as redis-cli reads it."""
    if isinstance(arg, str):
        arg = arg.encode()
    if arg and all(33 <= b < 127 and b not in b'"\'\\' for b in arg):
        return arg.decode()
    out = []
    for b in arg:
        if b in b'"\\':
            out.append('\\' + chr(b))
        elif 32 <= b < 127:
            out.append(chr(b))
        else:
            out.append({10: '\\n', 13: '\\r', 9: '\\t', 7: '\\a', 8: '\\b'}.get(b, '\\x%02x' % b))
    return '"' + ''.join(out) + '"'


def as_cli(command):
    """A command as a line for redis-cli."""
    return ' '.join(quote(a) for a in command)
