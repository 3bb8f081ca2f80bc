"""Loading by several threads: each chunk of a snapshot is read by one of them, which passes on the keys of the others' shards."""

import os
import random
import signal
import struct
import subprocess

import pytest

from persistence import persistence
from resp import Client, encode
from server import Server, darter_binary, wait_for
from test_loading import LOADING, asked
from test_reload import FAILED
from test_snapshots import contents, everything, fill

RANDOM = random.Random(20261207)
LIGHT = os.environ.get('DARTER_TEST_LIGHT')


@pytest.fixture
def on_folder(start, tmp_path):
    def on_folder(*options, **more):
        return start(options=[('dir', tmp_path), ('save', ''), *options], **more)
    return on_folder


def test_any_number_of_threads_loads_what_any_number_has_written(on_folder, tmp_path):
    """Keys of all types in several databases, large values between the chunks, and some that are dead when they are loaded."""
    maker = on_folder()
    c = maker.client()
    fill(c, 600)
    fill(c, 100, 9)
    c.pipeline([('SET', 'b%d' % i, RANDOM.randbytes(90000)) for i in range(20)])
    c.pipeline([('SET', 'dead%d' % i, RANDOM.randbytes(2000)) for i in range(200)])
    c.command('RPUSH', 'biglist', *('x%d' % i * 20 for i in range(8000)))
    before = contents(everything(c, (0, 9)))
    c.pipeline([('PEXPIRE', 'dead%d' % i, 1) for i in range(200)] + [('SAVE',)])       # some may be gone before
    maker.stop()
    before = {key: what for key, what in before.items() if not key[1].startswith(b'dead')}
    assert (tmp_path / 'dump.rdb').read_bytes().count(b'darter-chunk') > 10
    for threads in (1, 2, 3, 4):
        server = on_folder(threads=threads)
        c = server.client()
        assert contents(everything(c, (0, 9))) == before
        assert persistence(c)['rdb_last_load_keys_loaded'] == str(len(before))
        server.stop()


def bytes_read(server):
    with open('/proc/%d/io' % server.process.pid) as f:
        return int(f.read().split('rchar: ')[1].split()[0])


@pytest.mark.each_back_end
def test_not_everybody_reads_everything(on_folder, tmp_path):
    """One reads all of it for the checksum, the others what they claim."""
    maker = on_folder(threads=3)
    maker.client().pipeline([('SET', 'k%d' % i, RANDOM.randbytes(5000)) for i in range(4000)] + [('SAVE',)])
    maker.stop()
    size = (tmp_path / 'dump.rdb').stat().st_size
    read = bytes_read(on_folder(threads=4))
    assert size < read < 2.5 * size


def test_all_keys_may_be_one_shards(on_folder, tmp_path):
    """More than may be under way between the loaders."""
    n = 4000 if LIGHT else 12000
    maker = on_folder()
    c = maker.client()
    c.pipeline([('SET', '{x}%d' % i, RANDOM.randbytes(5000)) for i in range(n)] + [('SET', 'last', 'v'), ('SAVE',)])
    maker.stop()
    server = on_folder()
    c = server.client()
    assert c.command('DBSIZE') == n + 1 and sum(c.command('STRLEN', '{x}%d' % i) for i in range(0, n, 7)) == 5000 * len(range(0, n, 7))
    server.stop()
    whole = (tmp_path / 'dump.rdb').read_bytes()
    at = max(whole.rfind(b'{x}1234'), whole.rfind(b'{x}2345'))
    (tmp_path / 'dump.rdb').write_bytes(whole[:at + 8] + bytes([whole[at + 8] ^ 0x55]) + whole[at + 9:])      # a length
    assert_ends(tmp_path, 'offset')


@pytest.mark.several_threads
def test_an_end_while_loaders_wait_for_each_other(on_folder, tmp_path):
    """All keys are one shard's, which takes its time to make them."""
    maker = on_folder()
    maker.client().pipeline([('SET', '{x}%d' % i, RANDOM.randbytes(5000)) for i in range(6000)] + [('SAVE',)])
    maker.stop()
    file = (tmp_path / 'dump.rdb').read_bytes()
    for end in (signal.SIGTERM, 'SHUTDOWN'):
        server = on_folder(('key-load-delay', 20000), wait=False, tolerate_faults=True)
        wait_for(lambda server=server: asked(server))
        c = server.client()
        assert c.command('GET', 'x') == LOADING
        if end == 'SHUTDOWN':
            c.send(encode('SHUTDOWN'))
        else:
            server.process.send_signal(end)
        assert server.wait_end() == 0 and (tmp_path / 'dump.rdb').read_bytes() == file


# Files made by hand.

def string(text):
    return bytes([len(text)]) + text if len(text) < 64 else b'\x80' + struct.pack('>I', len(text)) + text


def key(name, value=b'v'):
    return b'\x00' + string(name) + string(value)


def keys(first, n, size=100):
    return b''.join(key(b'k%d' % i, b'x' * size) for i in range(first, first + n))


DB0, DB1 = b'\xfe\x00', b'\xfe\x01'


def mark(n):
    return b'\xfa' + string(b'darter-chunk') + string(b'%08d' % n)


def chunk(body, more=0):
    return mark(len(body) + more) + body


def file_of(*parts):
    return b'REDIS0010' + b''.join(parts) + b'\xff' + bytes(8)


def assert_ends(folder, why):
    """With any number of threads; and --check-rdb judges the same."""
    for threads in (1, 2, 4):
        server = Server(threads=threads, options=[('dir', folder), ('save', '')], wait=False, tolerate_faults=True)
        assert server.wait_end() == 1 and why in server.log() and 'Fatal error loading the DB' in server.log(), server.log()
        assert server.log().count('Fatal error') == 1
        server.kill()


def checks(folder):
    return subprocess.run([darter_binary(), '--check-rdb', str(folder / 'dump.rdb')], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


MANY = [chunk(DB0 + keys(i * 50, 50)) for i in range(60)]
BAD_VALUE = b'\x0b' + string(b'bad') + string(b'\x05\0\0\0\0\0\0\0')       # an intset of absurd width

WRONG = {
    'a bad value': (chunk(DB0 + keys(9000, 5) + BAD_VALUE), "in key 'bad'"),
    'a bad value at no chunk': (DB0 + BAD_VALUE, "in key 'bad'"),
    'a key that was there': (chunk(DB0 + key(b'k7')), 'a key twice'),
    'no such database': (chunk(b'\xfe\x40\x63' + key(b'new')), 'a database beyond'),
    'no database': (chunk(key(b'new')), 'a key before its database'),
    'no database behind a chunk': (chunk(DB0 + key(b'new')) + key(b'other'), 'a key before its database'),
    'no database behind a mark': (DB0 + mark(0) + key(b'new'), 'a key before its database'),
    'too short': (chunk(DB0 + keys(9000, 5), -20), 'at offset'),
    'too long': (chunk(DB0 + keys(9000, 5), 3), 'at offset'),
    'longer than the file': (chunk(DB0 + keys(9000, 5), 50000000), 'in the middle of a chunk'),
    'one in another': (chunk(DB0 + keys(9000, 5) + mark(0) + DB0 + key(b'new')), 'a chunk within a chunk'),
    'the end in one': (chunk(DB0 + keys(9000, 5) + b'\xff' + bytes(8)), 'within a chunk'),
    'an opcode in the middle': (chunk(DB0 + b'\xf3' + keys(9000, 5)), 'at offset'),
}


@pytest.mark.parametrize('name', WRONG)
@pytest.mark.each_back_end
def test_what_is_wrong_in_a_chunk_is_told(on_folder, tmp_path, name):
    """One loader finds it, wherever it is; all end."""
    body, why = WRONG[name]
    for at in (1, 30, 60):
        (tmp_path / 'dump.rdb').write_bytes(file_of(*MANY[:at], body, *MANY[at:]))
        assert_ends(tmp_path, why)
        assert checks(tmp_path) == (name in ('a key that was there', 'no such database'))       # it is no server


def test_what_is_no_mark_is_nothing(on_folder, tmp_path):
    """And what a mark says is not told as what the file says of itself."""
    for i, text in enumerate((b'', b'0000010', b'000000010', b'-0000001', b'0x000001', b'\xff' * 8, b'x' * 5000)):
        (tmp_path / 'dump.rdb').write_bytes(file_of(*MANY[:5], b'\xfa' + string(b'darter-chunk') + string(text), DB1 + keys(0, 5), *MANY[5:7], b'\xfa' + string(b'darter-chunk') + b'\xc0\x7f', DB1, key(b'n')))
        for threads in (1, 3):
            server = on_folder(threads=threads)
            c = server.client()
            assert c.pipeline([('DBSIZE',), ('SELECT', 1), ('DBSIZE',)])[::2] == [350, 6], i
            server.stop()
    told = subprocess.run([darter_binary(), '--check-rdb', str(tmp_path / 'dump.rdb')], stdout=subprocess.PIPE, check=True).stdout
    assert b'356 keys' in told and b'chunk' not in told


def test_a_reload_that_fails(on_folder, tmp_path):
    """What the look through the file finds loses nothing; else there is nothing left to go on with."""
    server = on_folder(('enable-debug-command', 'yes'), tolerate_faults=True)
    c = server.client()
    c.pipeline([('SET', 'a', 1), ('SAVE',)])
    for name in ('too short', 'longer than the file', 'one in another', 'no database'):
        (tmp_path / 'dump.rdb').write_bytes(file_of(*MANY[:20], WRONG[name][0], *MANY[20:]))
        assert c.command('DEBUG', 'RELOAD', 'NOSAVE') == FAILED and c.command('GET', 'a') == b'1', name
    (tmp_path / 'dump.rdb').write_bytes(file_of(*MANY))
    for _ in range(3):
        assert c.command('DEBUG', 'RELOAD', 'NOSAVE') == b'OK' and c.command('DBSIZE') == 3000
    assert c.command('DEBUG', 'RELOAD', 'NOSAVE', 'NOFLUSH') == FAILED and c.command('DBSIZE') == 3000      # keys twice
    assert c.command('DEBUG', 'RELOAD', 'NOSAVE', 'NOFLUSH', 'MERGE') == b'OK' and c.command('DBSIZE') == 3000
    (tmp_path / 'dump.rdb').write_bytes(file_of(*MANY[:20], WRONG['a bad value'][0], *MANY[20:]))
    with Client(server.address()) as d:
        d.send(encode('DEBUG', 'RELOAD', 'NOSAVE'))
        assert server.wait_end() == 1 and "in key 'bad'" in server.log()
