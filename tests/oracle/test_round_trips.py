"""Snapshots go to redis-server 7 and back: data sets drawn by hypothesis, of all types; value by value, with times and encodings; with 1, 2 and 4 threads at writing,
and another number at loading.

    DARTER_ROUND_TRIPS=1000   examples of each kind (20; in a soak 500)
"""

import os
import shutil
import sys

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from configurations import SOAK, back_ends
from contents import contents, difference
from resp import Error
from server import Server

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'fuzz'))
import seeds_rdb

EXAMPLES = int(os.environ.get('DARTER_ROUND_TRIPS') or (500 if SOAK else 20))
DRAWN = settings(max_examples=EXAMPLES, deadline=None, print_blob=True, derandomize=not SOAK, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate, Phase.shrink],
                 database=None)

# What is drawn. A key of the data set is a list of commands that make it, with {} for its name.

edges = sorted({sign * (1 << bits) + more for bits in (0, 7, 8, 12, 13, 15, 16, 23, 24, 31, 32, 62) for sign in (1, -1) for more in (-1, 0, 1)} | {(1 << 63) - 1, -(1 << 63)})
integers = st.one_of(st.sampled_from(edges), st.integers(-1 << 63, (1 << 63) - 1)).map(lambda n: b'%d' % n)
looks = st.sampled_from([b'', b'-0', b'007', b'+1', b' 1', b'1 ', b'1.5', b'9223372036854775808', b'nan', b'x' * 20, b'x' * 21, b'x' * 44, b'x' * 45, b'x' * 64, b'x' * 65, b'\0', b'\xff' * 9])
texts = st.one_of(integers, looks, st.binary(max_size=40), st.text(max_size=20).map(str.encode))
# Compressible ones, random ones, and those that are written in several steps.
long_texts = st.builds(lambda unit, times: unit * times, st.one_of(st.sampled_from([b'ab', b'a', b'0123456789abcdef']), st.binary(min_size=30, max_size=300)),
                       st.sampled_from([10, 33, 300, 1100, 5000]))
strings = st.one_of(texts, texts, long_texts)
scores = st.one_of(st.floats(allow_nan=False), st.sampled_from([0.0, -0.0, float('inf'), float('-inf'), 5e-324, -5e-324, 1.7976931348623157e308, 0.1, 1e21, 2.0 ** 53 + 1]), st.integers(-5, 5).map(float))
times = st.one_of(st.none(), st.none(), st.sampled_from([4000000000000, 4000000000001, 1 << 53, 1 << 62]), st.integers(4000000000000, 5000000000000))
# Many elements that differ: around the limits at which an encoding changes.
many = st.builds(lambda n, prefix: [prefix + b'%d' % i for i in range(n)], st.sampled_from([100, 127, 128, 129, 511, 512, 513, 1500]), st.sampled_from([b'', b'-1', b'm:', b'x' * 60]))


def several(elements, most=12):
    return st.one_of(st.lists(elements, min_size=1, max_size=most), many)


def unlike(elements, most=12):
    return st.one_of(st.lists(elements, min_size=1, max_size=most, unique=True), many)


def pairs(names, others):
    return st.builds(lambda n, o: [x for i, name in enumerate(n) for x in (o[i % len(o)], name)], unlike(names), st.lists(others, min_size=1, max_size=8))


values = st.one_of(
    strings.map(lambda v: [('SET', '{}', v)]),
    st.tuples(strings, strings).map(lambda v: [('SET', '{}', v[0]), ('APPEND', '{}', v[1])]),
    several(strings).map(lambda v: [('RPUSH', '{}', *v)]),
    unlike(strings).map(lambda v: [('SADD', '{}', *v)]),
    unlike(integers, 40).map(lambda v: [('SADD', '{}', *v)]),
    pairs(strings, scores.map(lambda x: repr(x).encode())).map(lambda v: [('ZADD', '{}', *v)]),
    pairs(strings, strings).map(lambda v: [('HSET', '{}', *(x for i in range(0, len(v), 2) for x in (v[i + 1], v[i])))]),
    # A history: large, then small.
    many.map(lambda v: [('SADD', '{}', *v), ('SREM', '{}', *v[1:])]),
    many.map(lambda v: [('HSET', '{}', *(x for m in v for x in (m, b'v'))), ('HDEL', '{}', *v[2:])]),
    many.map(lambda v: [('RPUSH', '{}', *v), ('LTRIM', '{}', 3, 5)]))
timed_hashes = st.builds(lambda v, t: [('HSET', '{}', *(x for m in v for x in (m, b'v'))), ('HPEXPIREAT', '{}', t, 'FIELDS', len(v[::2]), *v[::2])],
                         unlike(texts), st.integers(4000000000000, 5000000000000))


def data_sets(of):
    return st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 15]), strings, of, times), min_size=1, max_size=25)


def fill(client, data):
    commands = [('FLUSHALL',)]
    for db, key, makers, at_ms in data:
        commands += [('SELECT', db), ('DEL', key)] + [tuple(key if word == '{}' else word for word in command) for command in makers]
        if at_ms:
            commands.append(('PEXPIREAT', key, at_ms))
    replies = client.pipeline(commands)
    assert not [reply for reply in replies if isinstance(reply, Error)]


# The servers: those that write stay, each with a file of its own; who loads Darter's way is started anew.

LIMITS = [('list-max-listpack-size', 10), ('hash-max-listpack-entries', 128), ('zset-max-listpack-value', 32)]


class Servers:
    def __init__(self, folder):
        self.folder, self.running = str(folder), []
        self.file = os.path.join(self.folder, 'dump.rdb')
        self.theirs_file = os.path.join(self.folder, 'redis', 'dump.rdb')
        os.mkdir(os.path.dirname(self.theirs_file))
        self.redis = Server(kind='redis', options=[('dir', os.path.dirname(self.theirs_file)), ('enable-debug-command', 'yes'), *LIMITS])
        self.running.append(self.redis)
        self.theirs = self.redis.client()
        self.writers = {}

    def writer(self, threads):
        if threads not in self.writers:
            server = Server(threads=threads, io=back_ends()[0], options=[('dir', self.folder), ('enable-debug-command', 'yes'), *LIMITS])
            self.running.append(server)
            self.writers[threads] = server.client()
        return self.writers[threads]

    def write(self, client, compression):
        client.command('CONFIG', 'SET', 'rdbcompression', 'yes' if compression else 'no')
        assert client.command('SAVE') == b'OK'

    def loaded_by_redis(self):
        assert self.theirs.command('DEBUG', 'RELOAD', 'NOSAVE') == b'OK', self.redis.log()
        return contents(self.theirs)

    def loaded_by_us(self, folder, threads, io, field_times=False):
        with Server(threads=threads, io=io, options=[('dir', folder), *LIMITS]) as server:
            return contents(server.client(), field_times)

    def stop(self):
        for server in self.running:
            server.stop()


@pytest.fixture(scope='module')
def servers(tmp_path_factory):
    running = Servers(tmp_path_factory.mktemp('round-trips'))
    yield running
    running.stop()


counts = st.sampled_from([1, 2, 4])
ways = st.sampled_from(back_ends())


@pytest.mark.limit(60 + 2 * EXAMPLES)
@DRAWN
@given(data=data_sets(values), writing=counts, loading=counts, compression=st.booleans(), io=ways)
def test_redis_loads_what_we_write_and_so_do_we(servers, data, writing, loading, compression, io):
    ours = servers.writer(writing)
    fill(ours, data)
    before = contents(ours)
    servers.write(ours, compression)
    shutil.copy(servers.file, servers.theirs_file)
    theirs = servers.loaded_by_redis()
    assert not difference(before, theirs, encodings=False)
    assert ours.command('DEBUG', 'DIGEST') == servers.theirs.command('DEBUG', 'DIGEST')
    again = servers.loaded_by_us(servers.folder, loading, io)
    assert not difference(theirs, again)


@pytest.mark.limit(60 + 2 * EXAMPLES)
@DRAWN
@given(data=data_sets(values), loading=counts, compression=st.booleans(), io=ways)
def test_we_load_what_redis_writes(servers, data, loading, compression, io):
    fill(servers.theirs, data)
    before = contents(servers.theirs)
    servers.write(servers.theirs, compression)
    theirs = servers.loaded_by_redis()
    assert not difference(before, theirs, encodings=False)
    ours = servers.loaded_by_us(os.path.dirname(servers.theirs_file), loading, io)
    assert not difference(theirs, ours)


@pytest.mark.limit(60 + 2 * EXAMPLES)
@DRAWN
@given(data=data_sets(st.one_of(timed_hashes, timed_hashes, values)), writing=counts, loading=counts, compression=st.booleans(), io=ways)
def test_times_of_fields_come_back(servers, data, writing, loading, compression, io):
    ours = servers.writer(writing)
    fill(ours, data)
    before = contents(ours, True)
    servers.write(ours, compression)
    assert not difference(before, servers.loaded_by_us(servers.folder, loading, io, True), encodings=False)


@pytest.mark.parametrize('threads', [1, 4])
def test_forms_that_we_never_write_are_read_as_redis_reads_them(servers, threads):
    """But for encodings: Redis keeps what is packed in the file packed, though an element is longer than the configuration has it."""
    known = [value for value in seeds_rdb.values() if value[1] <= 18 and value[0] != 'module']
    with open(servers.theirs_file, 'wb') as f:
        f.write(seeds_rdb.file_of(10, b'\xfe\0', *(bytes([kind]) + seeds_rdb.string(name.encode()) + value for name, kind, value in known)))
    theirs = servers.loaded_by_redis()
    assert len(theirs) == len(known)
    assert not difference(theirs, servers.loaded_by_us(os.path.dirname(servers.theirs_file), threads, back_ends()[-1]), encodings=False)
