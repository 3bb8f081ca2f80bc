"""Bytes on the wire: every form of input, cut and joined in every way, and every way to be wrong. What can be, is compared with redis-server."""

import hashlib
import random
import selectors
import time

import pytest

from configurations import LIGHT, SOAK
from resp import Client, Closed, Error, Map, NIL, NULL, Simple, encode
from server import PATIENCE, Server, wait_for

pytestmark = pytest.mark.every_pair

# Inputs that are answered, or refused, in one exact way. Pieces of a list are sent 30 ms apart. None changes data that another one reads.
LONG = b'x' * 70000
CASES = {
    'inline': b'PING\r\n',
    'inline without CR': b'PING\n',
    'inline with arguments': b'  ECHO   hello  \r\n',
    'inline with tabs': b'ECHO\thello\r\n',
    'inline in lower case': b'ping\r\n',
    'empty lines': b'\r\n\r\n\n\r\nPING\r\n',
    'lines of spaces': b'   \r\nPING\r\n',
    'inline quotes': b'ECHO "a b\\x41\\n\\"c"\r\n',
    'inline single quotes': b"ECHO 'a \\' b \\n'\r\n",
    'inline empty quotes': b'ECHO ""\r\n',
    'unbalanced quotes': b'ECHO "abc\r\nPING\r\n',
    'unbalanced single quotes': b"ECHO 'abc\r\nPING\r\n",
    'text behind a quote': b'ECHO "abc"d\r\nPING\r\n',
    'escape at the end': b'ECHO "\\\r\n',
    'inline unknown command': b'foo bar baz\r\n',
    'inline wrong arity': b'GET\r\n',
    'inline with bytes above 127': b'ECHO \xff\xfe\r\n',
    'inline, several': b'PING\r\nECHO a\r\nPING b\r\n',
    'inline, then array': b'PING\r\n' + encode('ECHO', 'x') + b'PING\r\n',
    'inline quit': b'PING\r\nQUIT\r\nPING\r\n',
    'skip counts an empty line': b'CLIENT REPLY SKIP\r\n\r\nECHO a\r\nECHO b\r\n',
    'skip counts an empty array': b'CLIENT REPLY SKIP\r\n*0\r\nECHO a\r\nECHO b\r\n',
    'skip mutes a reset': b'CLIENT REPLY SKIP\r\nRESET\r\nECHO a\r\n',
    'a reset ends the silence': b'CLIENT REPLY OFF\r\nECHO a\r\nRESET\r\nECHO b\r\n',
    'a database beyond 32 bits': b'SELECT 99999999999\r\nSELECT 9223372036854775808\r\n',
    'array': encode('PING'),
    'array in lower case': encode('ping', 'x'),
    'array of many': encode('PING') * 100,
    'empty array': b'*0\r\n' + encode('PING'),
    'negative array': b'*-1\r\n' + encode('PING'),
    'very negative array': b'*-100\r\n' + encode('PING'),
    'array length no number': b'*abc\r\nPING\r\n',
    'array length empty': b'*\r\nPING\r\n',
    'array length with a space': b'* 1\r\n$4\r\nPING\r\n',
    'array length with a plus': b'*+1\r\n$4\r\nPING\r\n',
    'array length with a zero before': b'*01\r\n$4\r\nPING\r\n',
    'array length too large': b'*2147483648\r\nPING\r\n',
    'array length beyond 64 bits': b'*99999999999999999999\r\nPING\r\n',
    'array length without CR': b'*1\n$4\r\nPING\r\n',
    'no bulk': b'*1\r\n:5\r\nPING\r\n',
    'no bulk but text': b'*2\r\n$4\r\nECHO\r\nfoo\r\n',
    'bulk length negative': b'*1\r\n$-1\r\nPING\r\n',
    'bulk length very negative': b'*2\r\n$4\r\nECHO\r\n$-2147483649\r\n',
    'bulk length no number': b'*1\r\n$x\r\nPING\r\n',
    'bulk length empty': b'*1\r\n$\r\nPING\r\n',
    'bulk length with a space': b'*1\r\n$4 \r\nPING\r\n',
    'bulk length with a plus': b'*1\r\n$+4\r\nPING\r\n',
    'bulk length with a zero before': b'*1\r\n$04\r\nPING\r\n',
    'bulk length above the limit': b'*2\r\n$4\r\nECHO\r\n$536870913\r\n',
    'bulk length beyond 64 bits': b'*2\r\n$4\r\nECHO\r\n$99999999999999999999\r\n',
    'bulk that is longer than it says': b'*1\r\n$4\r\nPINGPONG\r\n',
    'bulk that ends otherwise': b'*2\r\n$4\r\nECHO\r\n$3\r\nabcXY' + encode('PING'),
    'bulk of nothing': encode('ECHO', ''),
    'command of nothing': encode(''),
    'bulk with line ends': encode('ECHO', 'a\r\nb\r\n'),
    'bulk that looks like commands': encode('ECHO', encode('FLUSHALL')),
    'good, then bad': encode('PING') + b'*1\r\n:5\r\n' + encode('PING'),
    'many good, then bad': encode('ECHO', 'x' * 100) * 200 + b'*x\r\n',
    'unknown command': encode('foo'),
    'unknown command with arguments': encode('foo', 'a', 'b' * 200, 'c'),
    'unknown command, many arguments': encode('foo', *['argument%d' % i for i in range(50)]),
    'unknown command, long name': encode('f' * 500, 'a'),
    'unknown command, line end in it': encode('fo\r\no', 'a\r\nb'),
    'unknown command, NUL in it': encode('fo\0o', 'a\0b'),
    'unknown command, not UTF-8': encode(b'\xff\xc3', b'\xc3\x28'),
    'unknown subcommand': encode('CLIENT', 'nonsense', 'a'),
    'wrong arity': encode('GET', 'a', 'b'),
    'wrong arity of a subcommand': encode('CLIENT', 'SETNAME'),
    'a line that is too long': LONG,
    'a line that is too long, with its end': LONG + b'\r\nPING\r\n',
    'an array length that is too long': b'*' + b'1' * 70000,
    'a bulk length that is too long': b'*1\r\n$' + b'1' * 70000,
    'cut: array length': [b'*', b'1', b'\r', b'\n$4\r\nPING\r\n'],
    'cut: bulk length': [b'*1\r\n$', b'4', b'\r', b'\nPING\r\n'],
    'cut: bulk': [b'*1\r\n$4\r\nPI', b'NG', b'\r', b'\n'],
    'cut: inline': [b'PI', b'NG', b'\r', b'\n'],
    'cut: quotes': [b'ECHO "a', b' b"\r\n'],
    'http get': b'GET / HTTP/1.1\r\nAccept: x\r\n\r\n',
    'http post': b'POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET http 1\r\n',
    'http host': b'Host: localhost\r\nPING\r\n',
    'hello 3': encode('HELLO', 3, 'SETNAME', 'x') + encode('CLIENT', 'GETNAME') + encode('GET', 'nothing') + encode('MGET', 'nothing'),
    'hello, back and forth': encode('GET', 'nothing') + encode('HELLO', '3', 'SETNAME', 'a') + encode('GET', 'nothing') + encode('RESET') + encode('GET', 'nothing'),
    'hello 4': encode('HELLO', 4) + encode('PING'),
    'hello x': encode('HELLO', 'x') + encode('PING'),
    'reply off and on': encode('PING', 'a') + encode('CLIENT', 'REPLY', 'OFF') + encode('PING', 'b') + encode('CLIENT', 'REPLY', 'ON') + encode('PING', 'c'),
    'reply skip': encode('CLIENT', 'REPLY', 'SKIP') + encode('PING', 'a') + encode('PING', 'b'),
    'echo of binary': encode('ECHO', bytes(range(256))),
    'json': b'{"command": "PING"}\r\n',
    'ssh': b'SSH-2.0-OpenSSH_9.2p1\r\n',
}
SECRET = [('requirepass', 'secret')]
UNAUTHENTICATED = {
    'any command': encode('GET', 'a'),
    'unknown command': encode('foo'),
    'ping': encode('PING'),
    'inline': b'GET a\r\n',
    'auth': encode('AUTH', 'secret') + encode('PING'),
    'auth, wrong': encode('AUTH', 'wrong') + encode('PING'),
    'auth with a user': encode('AUTH', 'default', 'secret') + encode('PING'),
    'auth, wrong user': encode('AUTH', 'nobody', 'secret') + encode('PING'),
    'hello': encode('HELLO', 3),
    'hello with auth': encode('HELLO', 3, 'AUTH', 'default', 'secret', 'SETNAME', 'x') + encode('CLIENT', 'GETNAME'),
    'hello with a wrong auth': encode('HELLO', 3, 'AUTH', 'default', 'wrong') + encode('PING'),
    'reset and quit': encode('RESET') + encode('QUIT'),
    'auth, then reset': encode('AUTH', 'secret') + encode('PING') + encode('RESET') + encode('PING'),
    'ten arguments': encode(*['x'] * 10),
    'eleven arguments': encode(*['x'] * 11),
    'a long argument': encode('AUTH', 'x' * 16384),
    'too long an argument': encode('AUTH', 'x' * 16385),
    'announced only, many': b'*1000000\r\n',
    'announced only, long': b'*2\r\n$4\r\nAUTH\r\n$100000000\r\n',
    'authenticated, then many': encode('AUTH', 'secret') + encode('DEL', *['x'] * 100),
    'authenticated, then long': encode('AUTH', 'secret') + encode('ECHO', 'x' * 20000),
}


class Exchange:
    """Every case on a connection of its own, all at once."""

    def __init__(self, server, cases):
        self.server, self.cases, self.selector, self.connections = server, cases, selectors.DefaultSelector(), {}
        for name, data in cases.items():
            c = Client(server.address())
            pieces = data if isinstance(data, list) else [data]
            self.connections[name] = [c, pieces, bytearray(), False]
            c.socket.setblocking(False)
            self.selector.register(c.socket, selectors.EVENT_READ, name)
        for number in range(max(len(entry[1]) for entry in self.connections.values())):
            for entry in self.connections.values():
                if number < len(entry[1]) and not entry[3]:
                    self.send(entry[0].socket, entry[1][number])
            self.drain(.03)

    def send(self, to, data):
        to.settimeout(PATIENCE)
        try:
            to.sendall(data)
        except ConnectionError:
            pass
        to.setblocking(False)

    def drain(self, seconds):
        """Takes what comes, until nothing has come for so long. Returns how often something did."""
        times = 0
        while ready := self.selector.select(seconds):
            for key, _ in ready:
                entry = self.connections[key.data]
                times += 1
                try:
                    piece = entry[0].socket.recv(1 << 18)
                except ConnectionError:
                    piece = b''
                except BlockingIOError:
                    continue
                entry[2] += piece
                if not piece:
                    entry[3] = True
                    self.selector.unregister(entry[0].socket)
        return times

    def answers(self):
        """{name: (what came back, whether the server closed)}"""
        return {name: (bytes(entry[2]), entry[3]) for name, entry in self.connections.items()}

    def close(self):
        for entry in self.connections.values():
            entry[0].close()


def exchange_all(server, cases):
    """The answers to all cases. Whether there is more to come, silence alone does not tell, on a machine that takes the CPU away; but in what time the
    server answers others a few hundred times, it has had its turns for these too."""
    exchange = Exchange(server, cases)
    with Client(server.address()) as witness:
        while True:
            exchange.drain(.2)
            for _ in range(200):
                witness.command('PING')
            if not exchange.drain(.2):
                break
    exchange.close()
    return exchange.answers()


def wrong_answers(server, cases, expected):
    """What differs from what is expected, once all that is expected has had its time, or more has come."""
    exchange = Exchange(server, cases)
    end = time.monotonic() + PATIENCE / 4
    while differences(cases, expected, exchange.answers()) and time.monotonic() < end:
        exchange.drain(.1)
    exchange.drain(.2)
    exchange.close()
    return differences(cases, expected, exchange.answers())


def masked(name, answer):
    """Without what is the server's own: the fields of HELLO."""
    text, closed = answer
    if name.startswith('hello') and b'proto' in text:
        start, end = text.find(b'$6\r\nserver'), text.find(b'$4\r\nmode')
        proto = text.find(b'$5\r\nproto')
        text = text[:start] + text[proto:text.find(b'$2\r\nid')] + text[end:]
    return text, closed


def differences(cases, expected, got):
    return '\n'.join('%s\n   sent     %r\n   expected %r%s\n   got      %r%s' % (
        name, cases[name] if len(cases[name]) < 300 else cases[name][:300], expected[name][0][:500], ' (closed)' * expected[name][1], got[name][0][:500], ' (closed)' * got[name][1])
        for name in cases if masked(name, expected[name]) != masked(name, got[name]))


@pytest.fixture(scope='module')
def expected(reference):
    return exchange_all(reference, CASES)


@pytest.fixture(scope='module')
def expected_unauthenticated():
    with Server(kind='redis', options=SECRET) as server:
        return exchange_all(server, UNAUTHENTICATED)


def test_every_form_of_input_is_answered_as_by_redis(server, expected):
    wrong = wrong_answers(server, CASES, expected)
    assert not wrong, wrong


def test_binary_noise_is_refused(server):
    """No line end before a NUL: here redis-server waits for ever, so there is nothing to compare."""
    noise = {'a NUL in an inline command': b'PING\0X\r\n', 'a NUL for a bulk': b'*1\r\n\0\r\n', 'only NULs': b'\0' * 100000,
             'tls': b'\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03' + bytes(range(40)) + b'\n', 'random': random.Random(4).randbytes(200000)}
    exchange_all(server, noise)
    assert server.client().command('PING') == b'PONG'


def test_before_authentication_everything_is_answered_as_by_redis(start, expected_unauthenticated):
    wrong = wrong_answers(start(options=SECRET), UNAUTHENTICATED, expected_unauthenticated)
    assert not wrong, wrong


def stream(name):
    """One stream that has everything in it, on keys of its own (three bytes of name); however it is cut, the replies are the same."""
    a, b = name + b'a', name + b'b'
    return (encode('SET', a, 'x') + b'PING\r\n' + encode('APPEND', a, b'\r\n\0') + encode('GET', a) + b'\r\n' + b'ECHO "a b"\r\n' + encode('MSET', a, 'y', b, '') +
            encode('MGET', a, b, 'none') + encode('foo', 'bar') + encode('DEL', a, b) + b'*0\r\n' + encode('ECHO', 'end'))


def read_until(c, last):
    replies = []
    while not replies or replies[-1] != last:
        replies.append(c.read())
    return replies


def replies_of(data, server):
    with Client(server.address()) as c:
        c.send(data)
        return read_until(c, b'end')


def test_a_pipeline_cut_at_every_byte(server):
    expected = replies_of(stream(b'000'), server)
    assert len(expected) == 10 and expected[2:4] == [4, b'x\r\n\0'] and expected[6] == [b'y', b'', NIL]
    length = len(stream(b'000'))
    for first in range(1, length, 100):
        # In groups, so that the pause between the two halves is paid once.
        group = []
        for at in range(first, min(first + 100, length)):
            data = stream(b'%03d' % at)
            c = server.client()
            c.send(data[:at])
            group.append((at, c, data[at:]))
        time.sleep(.01)
        for at, c, rest in group:
            c.send(rest)
        for at, c, rest in group:
            assert read_until(c, b'end') == expected, 'cut at %d' % at
            c.close()


def test_a_pipeline_byte_by_byte(server):
    data = stream(b'000')
    expected = replies_of(data, server)
    c = server.client()
    for i in range(len(data)):
        c.send(data[i:i + 1])
        if i % 8 == 0:
            time.sleep(.001)
    assert read_until(c, b'end') == expected


def test_commands_across_the_ends_of_buffers(server):
    """Values of all sizes around those of receive buffers, in one stream, cut at random."""
    rng = random.Random(5)
    sizes = [rng.choice([0, 1, 15, 16, 17, 100, 1000, 4095, 4096, 4097, 8192, 16370, 16383, 16384, 16385, 16400, 32768, 40000, 65536, 70000]) for _ in range(200)]
    values = [rng.randbytes(n) for n in sizes]
    stream = b''.join(encode('SET', 'b:%d' % i, v) + encode('STRLEN', 'b:%d' % i) for i, v in enumerate(values))
    for cuts in (0, 20, 500):
        c = server.client()
        places = sorted(rng.randrange(len(stream)) for _ in range(cuts)) + [len(stream)]
        at = 0
        for place in places:
            c.send(stream[at:place])
            at = place
            if cuts and rng.random() < .2:
                time.sleep(.001)
        for i, v in enumerate(values):
            assert c.read() == b'OK' and c.read() == len(v)
        assert c.pipeline([('GET', 'b:%d' % i) for i in range(len(values))]) == values
        c.command('FLUSHALL')


def test_a_large_value_in_pieces_with_commands_around_it(server):
    rng = random.Random(6)
    for size in (16384, 16385, 100000, 1000000):
        value = rng.randbytes(size)
        stream = encode('SET', 'before', 'x') + encode('SET', 'large', value) + encode('GET', 'before') + encode('GETRANGE', 'large', 0, 9) + encode('APPEND', 'large', 'tail')
        for piece in (1000, 16384, 100001):
            c = server.client()
            for at in range(0, len(stream), piece):
                c.send(stream[at:at + piece])
            assert [c.read() for _ in range(5)] == [b'OK', b'OK', b'x', value[:10], size + 4]
            assert c.command('GET', 'large') == value + b'tail'
            c.close()


def test_keys_of_all_bytes(server):
    c = server.client()
    keys = [b'', b'\0', b'\0\0', b'\r\n', b'\xff' * 10, b'\xc3\x28', b'\xe2\x82', bytes(range(256)), b'k' * 255, b'k' * 256, b'k' * 70000, b'{}', b'{', b'}{', b'{}x', b'{a}{b}']
    for i, key in enumerate(keys):
        assert c.command('SET', key, i) == b'OK'
    assert c.command('MGET', *keys) == [b'%d' % i for i in range(len(keys))]
    assert c.command('DBSIZE') == len(keys) and sorted(c.command('KEYS', '*')) == sorted(keys)
    assert c.command('DEL', *keys) == len(keys)


@pytest.mark.each_back_end
@pytest.mark.alone
@pytest.mark.limit(300)
def test_commands_of_a_million_arguments(server):
    count = 100000 if LIGHT else 1000000
    c = server.client(timeout=2 * PATIENCE)
    keys = ['k%d' % i for i in range(count // 2)]
    c.send(encode('MSET', *[x for k in keys for x in (k, k)]))
    assert c.read() == b'OK'
    assert c.command('DBSIZE') == len(keys)
    got = c.command('MGET', *keys, *keys)
    assert len(got) == 2 * len(keys) and got[12345] == b'k12345' and got[len(keys) + 777] == b'k777' and NIL not in got
    assert c.command('EXISTS', *keys, *keys) == 2 * len(keys)
    assert c.command('DEL', *keys, *keys) == len(keys)
    assert c.command('DBSIZE') == 0
    assert isinstance(c.command('foo', *keys), Error) and c.command('PING') == b'PONG'


@pytest.mark.each_back_end
@pytest.mark.alone
@pytest.mark.limit(600)
def test_the_largest_value(server):
    """512 MB: set, measured, read in part and as a whole, refused by one byte more."""
    size = 32 << 20 if LIGHT else 512 << 20
    c = server.client(timeout=2 * PATIENCE)
    if LIGHT:
        assert c.command('CONFIG', 'SET', 'proto-max-bulk-len', size) == b'OK'
    piece = random.Random(7).randbytes(1 << 20)
    c.send(b'*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n' % size)
    wanted = hashlib.sha1()
    for _ in range(size >> 20):
        c.send(piece)
        wanted.update(piece)
    c.send(b'\r\n')
    assert c.read() == b'OK'
    assert c.command('STRLEN', 'big') == size and c.command('GETRANGE', 'big', size - 10, -1) == piece[-10:]
    refused = c.command('APPEND', 'big', 'x')
    assert refused == b'ERR string exceeds maximum allowed size (proto-max-bulk-len)' and isinstance(refused, Error)
    assert isinstance(c.command('SETRANGE', 'big', size, 'x'), Error)
    c.send(encode('GET', 'big') + encode('PING'))
    got = c.read()
    assert len(got) == size and hashlib.sha1(got).digest() == wanted.digest() and c.read() == b'PONG'
    del got
    assert c.command('DEL', 'big') == 1 and c.command('GET', 'big') == NIL
    c.send(b'*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n' % (size + 1))
    assert c.read_to_end() == (b'-ERR Protocol error: invalid bulk length\r\n', True)


@pytest.mark.each_back_end
@pytest.mark.alone
def test_announced_bytes_take_no_memory(server):
    """A hundred clients announce 512 MB each, and send a little of it."""
    before = server.resident_bytes()
    clients = []
    for i in range(5 if LIGHT else 100):    # the address sanitizer marks all 512 MB
        c = server.client()
        c.send(b'*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$536870912\r\n' + b'y' * 1000)
        clients.append(c)
    for i in range(100):
        c = server.client()
        c.send(b'*1000000\r\n$3\r\nDEL\r\n')
        clients.append(c)
    time.sleep(.3)
    assert server.client().command('PING') == b'PONG'
    assert LIGHT or server.resident_bytes() - before < 100 << 20
    for c in clients:
        c.close()
    assert server.client().command('EXISTS', 'x') == 0


def test_half_a_command_then_close(server):
    whole = encode('SET', 'half', 'v' * 100000)
    for i, at in enumerate([1, 3, 8, 12, 20, 30, 40, 1000, 20000, 100000, len(whole) - 2, len(whole) - 1]):
        c = server.client()
        c.send(whole[:at])
        if i % 3 == 0:
            time.sleep(.005)
        c.reset() if i % 2 else c.close()
    c = server.client()
    time.sleep(.05)
    assert c.command('EXISTS', 'half') == 0 and c.command('SET', 'half', 1) == b'OK'


def test_the_last_commands_of_a_client_that_closes_at_once(server):
    """Commands that arrived whole are run, though nobody reads their replies."""
    for i in range(50):
        c = server.client()
        c.send(encode('INCR', 'closing') * 10)
        c.socket.shutdown(1)
        assert c.read_to_end() == (b''.join(b':%d\r\n' % n for n in range(10 * i + 1, 10 * i + 11)), True)


def test_client_query_buffer_limit(start):
    server = start(options=[('client-query-buffer-limit', '1mb')])
    c = server.client()
    try:
        c.send(b'*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$8000000\r\n')
        for _ in range(70):
            c.send(b'x' * 100000)
        _, closed = c.read_to_end()
        assert closed
    except ConnectionError:
        pass
    assert server.client().command('EXISTS', 'key') == 0


def test_resp3_types(server):
    c = server.client()
    hello = c.command('HELLO', 3)
    assert isinstance(hello, Map) and [b'proto', 3] in hello
    assert c.command('GET', 'nothing') == NULL and c.command('MGET', 'a', 'b') == [NULL, NULL]
    assert isinstance(c.command('CONFIG', 'GET', 'timeout'), Map)
    assert c.command('CONFIG', 'GET', 'timeout') == [[b'timeout', b'0']]
    assert isinstance(c.command('SET', 'a', 'b'), Simple)
    assert c.command('RESET') == b'RESET' and c.command('GET', 'nothing') == NIL
    assert isinstance(c.command('HELLO', 2), list) and not isinstance(c.command('HELLO'), Map)


def test_a_protocol_error_ends_only_its_own_connection(server):
    other = server.client()
    c = server.client()
    c.send(encode('SET', 'a', 1) + b'*1\r\n!' + encode('SET', 'a', 2))
    assert c.read_to_end() == (b"+OK\r\n-ERR Protocol error: expected '$', got '!'\r\n", True)
    assert other.command('GET', 'a') == b'1'


def test_setrange_to_four_gigabytes_is_refused(server):
    c = server.client()
    for offset in (4294967295, 4294967296, 536870912, 9223372036854775807):
        assert c.command('SETRANGE', 'k', offset, 'x') == b'ERR string exceeds maximum allowed size (proto-max-bulk-len)'
    assert c.command('EXISTS', 'k') == 0


def test_a_closed_connection_is_told_apart(server):
    with pytest.raises(Closed):
        c = server.client()
        c.send(encode('QUIT'))
        assert c.read() == b'OK'
        c.read()


def available_memory():
    with open('/proc/meminfo') as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith('MemAvailable'))


def expect(client, wanted):
    """The next bytes, taken without keeping more of them."""
    got = bytearray()
    while len(got) < len(wanted):
        more = client.socket.recv(len(wanted) - len(got))
        assert more, 'closed'
        got += more
    assert got == wanted, (bytes(got[:50]), bytes(wanted[:50]))


@pytest.mark.alone
@pytest.mark.limit(600)
@pytest.mark.several_threads
@pytest.mark.skipif(not SOAK or available_memory() < 20 << 30, reason='takes 16 GiB: only with DARTER_SOAK=1')
def test_a_reply_of_4_gib_takes_its_place_among_others(start):
    """Behind a command that is not finished a reply is kept aside; with what is around the argument it has more than 32 bits."""
    server = start(options=[('proto-max-bulk-len', 2 ** 32 - 1), ('client-query-buffer-limit', '8gb'), ('enable-debug-command', 'yes')])
    sleeper, c = server.client(timeout=400), server.client(timeout=400)
    size, piece = 2 ** 32 - 5, bytes(range(256)) * 4096
    sleeper.send(encode('DEBUG', 'SLEEP', 100))
    time.sleep(.5)
    c.send(encode('GET', 'absent') + b'*2\r\n$4\r\nECHO\r\n$%d\r\n' % size)
    for at in range(0, size, len(piece)):
        c.send(piece[:size - at])
    c.send(b'\r\n' + encode('PING'))
    expect(c, b'$-1\r\n$%d\r\n' % size)
    for at in range(0, size, len(piece)):
        expect(c, piece[:size - at])
    expect(c, b'\r\n+PONG\r\n')
    assert sleeper.read() == b'OK'


def test_the_log_says_who_sent_what_a_browser_sends(server):
    c = server.client()
    address = '%s:%d' % c.socket.getsockname()[:2]
    c.send(b'POST / HTTP/1.1\r\nHost: localhost\r\n\r\n')
    wait_for(lambda: 'POST or Host: from %s,' % address in server.log())
