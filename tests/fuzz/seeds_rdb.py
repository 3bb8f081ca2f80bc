"""Writes the seeds of fuzz_rdb into a folder: a value of each type in each form that Redis, Valkey or KeyDB has ever written, alone and in files.

    seeds_rdb.py FOLDER

A form is written here by its description, by hand: Darter writes few of them.
"""

import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'lib'))
from persistence import crc64  # noqa: E402

# enum how of fuzz_rdb.c
FILE, SEAL, DRIBBLE, COMPRESS, STEPS, SMALL, TIGHT, EXPIRES, AUX, FRAME = 1, 2, 2, 4, 8, 16, 32, 64, 128, 128
PACKED = 9, 10, 11, 12, 13, 16, 17, 20, 23
LATER_MS = 1800000000001


def length(n):
    if n < 1 << 6:
        return bytes([n])
    if n < 1 << 14:
        return struct.pack('>H', 1 << 14 | n)
    return b'\x80' + struct.pack('>I', n) if n < 1 << 32 else b'\x81' + struct.pack('>Q', n)


def string(text):
    return length(len(text)) + text


def integer(n):
    for what, form in enumerate(('<b', '<h', '<i')):
        try:
            return bytes([0xc0 | what]) + struct.pack(form, n)
        except struct.error:
            pass
    return string(b'%d' % n)


def lzf(byte, times):
    """A byte, then itself again: two literal bytes, a reference to the byte before, an end of literal ones."""
    rest = times - 2
    packed = b'\x01' + byte * 2
    while rest >= 3:
        n = min(rest, 264)
        packed += (bytes([(n - 2) << 5, 0]) if n < 9 else bytes([7 << 5, n - 9, 0]))
        rest -= n
    if rest:
        packed += bytes([rest - 1]) + byte * rest
    return b'\xc3' + length(len(packed)) + length(times) + packed


def lzf_literal(text):
    """In the compressed form, though nothing is compressed."""
    packed = b''.join(bytes([len(text[i:i + 32]) - 1]) + text[i:i + 32] for i in range(0, len(text), 32))
    return b'\xc3' + length(len(packed)) + length(len(text)) + packed


def number_of(text):
    """What it is as an integer, if it reads like one."""
    try:
        return int(text) if b'%d' % int(text) == text else None
    except ValueError:
        return None


def signed(n, widths):
    """The first of these (bytes, form's head) that has room."""
    for size, head in widths:
        if -1 << 8 * size - 1 <= n < 1 << 8 * size - 1:
            return head + n.to_bytes(size, 'little', signed=True)
    return None


def listpack_element(text):
    n = number_of(text)
    if n is not None and 0 <= n < 128:
        out = bytes([n])
    elif n is not None and -4096 <= n < 4096:
        out = bytes([0xc0 | n >> 8 & 0x1f, n & 0xff])
    elif n is not None and -1 << 63 <= n < 1 << 63:
        out = signed(n, ((2, b'\xf1'), (3, b'\xf2'), (4, b'\xf3'), (8, b'\xf4')))
    elif len(text) < 64:
        out = bytes([0x80 | len(text)]) + text
    elif len(text) < 4096:
        out = bytes([0xe0 | len(text) >> 8, len(text) & 0xff]) + text
    else:
        out = b'\xf0' + struct.pack('<I', len(text)) + text
    size, digits = len(out), []
    while True:
        digits.append(size & 0x7f)
        size >>= 7
        if not size:
            break
    digits.reverse()
    return out + bytes([digits[0]] + [d | 0x80 for d in digits[1:]])


def listpack(texts, count=None):
    body = b''.join(map(listpack_element, texts))
    return struct.pack('<IH', len(body) + 7, len(texts) if count is None else count) + body + b'\xff'


def ziplist_element(text):
    n = number_of(text)
    if n is not None and 0 <= n <= 12:
        return bytes([0xf1 + n])
    if n is not None and -1 << 63 <= n < 1 << 63:
        return signed(n, ((1, b'\xfe'), (2, b'\xc0'), (3, b'\xf0'), (4, b'\xd0'), (8, b'\xe0')))
    if len(text) < 64:
        return bytes([len(text)]) + text
    if len(text) < 1 << 14:
        return struct.pack('>H', 1 << 14 | len(text)) + text
    return b'\x80' + struct.pack('>I', len(text)) + text


def ziplist(texts):
    body, before, last = b'', 0, 0
    for text in texts:
        last = len(body)
        link = bytes([before]) if before < 254 else b'\xfe' + struct.pack('<I', before)
        body += link + ziplist_element(text)
        before = len(body) - last
    return struct.pack('<IIH', len(body) + 11, 10 + last, len(texts)) + body + b'\xff'


def zipmap(pairs):
    def size(text):
        return bytes([len(text)]) if len(text) < 254 else b'\xfe' + struct.pack('<I', len(text))
    body = b''.join(size(name) + name + size(value) + bytes([unused]) + value + b'u' * unused for unused, (name, value) in enumerate(pairs))
    return bytes([min(len(pairs), 254)]) + body + b'\xff'


def intset(numbers, width):
    return struct.pack('<II', width, len(numbers)) + b''.join(n.to_bytes(width, 'little', signed=True) for n in sorted(numbers))


def values():
    """(name, type, value)."""
    texts = [b'', b'a', b'7', b'-1', b'100', b'-4000', b'30000', b'8388607', b'-2147483648', b'9223372036854775807', b'x' * 70, b'\0\xff\r\n', b'07']
    few, many, long = texts[:3], [b'member:%d' % i for i in range(150)], texts + [b'y' * 300, b'z' * 5000]
    floats = [0.0, -0.0, 1.5, -1e300, 5e-324, float('inf'), float('-inf')]
    yield 'string', 0, string(b'some text')
    yield 'string-int8', 0, integer(-7)
    yield 'string-int16', 0, integer(-1000)
    yield 'string-int32', 0, integer(123456)
    yield 'string-lzf', 0, lzf(b'a', 700)
    yield 'string-empty', 0, string(b'')
    yield 'string-long-length', 0, b'\x80\0\0\0\x03abc'
    for name, chosen in (('few', few), ('all', texts), ('many', many), ('long', long)):
        n, even = len(chosen), chosen[:len(chosen) // 2 * 2]
        named = [x for i, text in enumerate(chosen) for x in (text, b'%d' % i)]
        by_score = sorted((float((b'%d', b'%d.25', b'-%de3')[i % 3] % i), text, (b'%d', b'%d.25', b'-%de3')[i % 3] % i) for i, text in enumerate(chosen))
        scored = [x for _, text, score in by_score for x in (text, score)]
        timed = [x for i, text in enumerate(chosen) for x in (text, b'v%d' % i, b'%d' % (i % 3 and LATER_MS + i))]
        yield 'list-' + name, 1, length(n) + b''.join(map(string, chosen))
        yield 'set-' + name, 2, length(n) + b''.join(map(string, chosen))
        yield 'zset-text-' + name, 3, length(n) + b''.join(string(t) + (b'\xfe', b'\xff', string(b'3.25'), string(b'-1e-7'))[i % 4] for i, t in enumerate(chosen))
        yield 'hash-' + name, 4, length(len(even) // 2) + b''.join(map(string, even))
        yield 'zset-' + name, 5, length(n) + b''.join(string(t) + struct.pack('<d', floats[i % 7]) for i, t in enumerate(chosen))
        yield 'hash-zipmap-' + name, 9, string(zipmap(list(zip(even[::2], even[1::2]))))
        yield 'list-ziplist-' + name, 10, string(ziplist(chosen))
        yield 'zset-ziplist-' + name, 12, string(ziplist(scored))
        yield 'hash-ziplist-' + name, 13, string(ziplist(named))
        yield 'quicklist-' + name, 14, length(2) + string(ziplist(few)) + string(ziplist(chosen))
        yield 'hash-listpack-' + name, 16, string(listpack(named))
        yield 'zset-listpack-' + name, 17, string(listpack(scored))
        yield 'quicklist2-' + name, 18, length(3) + b'\x02' + string(listpack(chosen)) + b'\x01' + string(b'plain' * 30) + b'\x02' + string(listpack(few))
        yield 'set-listpack-' + name, 20, string(listpack(chosen, 0xffff if name == 'all' else None))
        yield 'hash-times-old-' + name, 22, length(n) + b''.join(length(i % 3 and LATER_MS + i) + string(t) + integer(i) for i, t in enumerate(chosen))
        yield 'hash-times-listpack-old-' + name, 23, string(listpack(timed))
        yield 'hash-times-' + name, 24, struct.pack('<Q', LATER_MS) + length(n) + b''.join(length(i % 3) + string(t) + integer(i) for i, t in enumerate(chosen))
        yield 'hash-times-listpack-' + name, 25, struct.pack('<Q', LATER_MS) + string(listpack(timed))
    for width in (2, 4, 8):
        yield 'set-intset-%d' % width, 11, string(intset([-(1 << 8 * width - 1), -1, 0, 7, (1 << 8 * width - 1) - 1], width))
    yield 'set-intset-many', 11, string(intset(range(700), 2))
    yield 'set-numbers', 2, length(700) + b''.join(integer(i * 3) for i in range(700))
    yield 'list-lzf', 1, length(3) + lzf(b'q', 100) + lzf(b'r', 3000) + integer(5)
    yield 'hash-lzf-listpack', 16, lzf_literal(listpack(many))
    yield 'stream', 21, length(0)
    yield 'module', 7, length(1234567) + b'\x02\x07\x03\0\0\0\0\x04\0\0\0\0\0\0\0\0\x05\x03abc\x01\x09\0'


def file_of(version, *parts):
    body = b'REDIS%04d' % version + b''.join(parts) + b'\xff'
    return body + struct.pack('<Q', crc64(body)) if version >= 5 else body


def files(known):
    """(name, file). known: {name: (type, value)}."""
    def key(name, value, before=b''):
        kind, body = known[value]
        return before + bytes([kind]) + string(name) + body

    aux = b''.join(b'\xfa' + string(name) + value for name, value in ((b'redis-ver', string(b'7.0.15')), (b'redis-bits', integer(64)), (b'ctime', integer(1700000000)), (b'unknown', lzf(b'u', 50))))
    ms, past = b'\xfc' + struct.pack('<q', LATER_MS), b'\xfc' + struct.pack('<q', 1000)
    seconds = b'\xfd' + struct.pack('<i', 1800000000)
    yield 'empty', file_of(10)
    yield 'first-version', file_of(1, b'\xfe\0', key(b's', 'string'), key(b'l', 'list-few'), key(b'S', 'set-few'), key(b'z', 'zset-text-few'))
    yield 'without-checksum', file_of(4, b'\xfe\0', key(b's', 'string', seconds), key(b'h', 'hash-zipmap-few'))
    yield 'all-opcodes', file_of(
        10, aux, b'\xf5' + string(b'#!lua name=f\nreturn 1'), b'\xf6' + string(b'f') + string(b'LUA') + b'\x01' + string(b'what it is') + string(b'code'),
        b'\xf7' + length(1234567) + b'\x02\x02\x05\x03abc\0', b'\xfe\0\xfb\x03\x02', key(b's', 'string', ms), key(b'i', 'string-int16', b'\xf8\x41\x2c'), key(b'f', 'string-lzf', b'\xf9\x07'),
        b'\xfe\x05\xfb\x01\0\xf4\x01\x02\x03', key(b'p', 'list-few', past), key(b'l', 'quicklist2-few', ms + b'\xf8\x03'))
    yield 'a-checksum-of-zero', file_of(10, aux, b'\xfe\0', key(b's', 'string'))[:-8] + bytes(8)
    yield 'times-of-fields', file_of(12, aux, b'\xfe\0', key(b'a', 'hash-times-few', ms), key(b'b', 'hash-times-listpack-few'))
    yield 'a-stream', file_of(10, b'\xfe\0', key(b's', 'string'), key(b'x', 'stream'))
    yield 'a-module', file_of(10, b'\xfe\0', key(b's', 'string'), key(b'm', 'module'))
    few = [name for name in known if name.endswith('-few')]

    def chunk(body):
        return b'\xfa' + string(b'darter-chunk') + string(b'%08d' % len(body)) + body
    yield 'chunks', file_of(10, aux, *(chunk(b'\xfe\x01' + key(b'%d' % i, few[i], ms) + key(b'a%d' % i, 'string')) for i in range(5)), b'\xfe\0', key(b'between', 'list-lzf'), chunk(b'\xfe\x02' + key(b's', 'string')))
    yield 'chunks-marked-wrong', file_of(10, chunk(b'\xfe\0' + chunk(b'\xfe\0' + key(b's', 'string'))), b'\xfa' + string(b'darter-chunk') + string(b'00000000'), b'\xfe\0', key(b't', 'string'))
    yield 'all-types', file_of(12, aux, b'\xfe\0', *(key(name.encode(), name) for name in few))


def main(folder):
    os.makedirs(folder, exist_ok=True)

    def write(name, how, data):
        with open(os.path.join(folder, name), 'wb') as f:
            f.write(bytes([how]) + data)
    known = {}
    for i, (name, kind, value) in enumerate(values()):
        known[name] = kind, value
        write(name, (0, DRIBBLE, COMPRESS, STEPS, SMALL, EXPIRES, SMALL | DRIBBLE | STEPS, TIGHT)[i % 8], bytes([kind]) + value)
        if kind in PACKED and value[0] < 0xc0:
            write('framed-' + name, FRAME | (0, SMALL, DRIBBLE)[i % 3], bytes([kind]) + value[(1, 2, 5)[value[0] >> 6]:])
    for i, (name, data) in enumerate(files(known)):
        write('file-' + name, FILE | (0, SEAL, SEAL | AUX, COMPRESS, SMALL | STEPS)[i % 5], data)


if __name__ == '__main__':
    main(sys.argv[1])
