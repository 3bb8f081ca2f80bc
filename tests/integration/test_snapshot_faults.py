"""A disk that fails under a snapshot, at every step: the old file stays as it was, no other is left, clients and log are told, writes are refused if so configured; and
once the disk is well, everything goes on."""

import errno
import os
import random
import re
import signal
import subprocess

import pytest

from contents import contents, difference
from disk_faults import DiskFaults
from persistence import persistence, wait_saved
from resp import Error, encode
from server import darter_binary, wait_for

RANDOM = random.Random(20261202)
KEYS = 8000         # with values of 100 bytes: several pieces of 256 KiB

LATE = None
# Step, error, bytes that are written before it, and what the log names.
FAULTS = [
    ('open', errno.EACCES, 0, 'opening'),
    ('open', errno.ENOSPC, 0, 'opening'),
    ('write', errno.ENOSPC, 0, 'writing'),          # not even the head
    ('write', errno.ENOSPC, 5, 'writing'),          # a short write, then none
    ('write', errno.EIO, 300000, 'writing'),
    ('write', errno.EDQUOT, 700000, 'writing'),
    ('write', errno.ENOSPC, LATE, 'writing'),        # within the checksum
    ('sync', errno.EIO, 0, 'syncing'),
    ('sync', errno.ENOSPC, 0, 'syncing'),
    ('close', errno.EIO, 0, 'closing'),
    ('rename', errno.EIO, 0, 'renaming'),
    ('rename', errno.ENOSPC, 0, 'renaming'),
]
# The file is there, but that it is after a fall of the machine is not sure.
FOLDER_FAULTS = [('open folder', errno.EMFILE, 0, 'syncing the folder'), ('sync folder', errno.EIO, 0, 'syncing the folder')]


@pytest.fixture
def failing(start, tmp_path):
    """(a server whose disk can be made to fail, the faults, its folder)"""
    folder = tmp_path / 'data'
    folder.mkdir()
    faults = DiskFaults(tmp_path)

    def begin(*options, save='3600 1000000', **more):
        return start(options=[('dir', folder), ('save', save), *options], env=faults.env(), **more), faults, folder
    yield begin
    faults.none()


def fill(client):
    client.pipeline([('SET', 'k%d' % i, RANDOM.randbytes(100)) for i in range(KEYS)])


def read(folder):
    with open(folder / 'dump.rdb', 'rb') as f:
        return f.read()


def check_told(server, c, error, word):
    found = persistence(c)
    assert found['rdb_last_bgsave_status'] == 'err' and found['rdb_bgsave_in_progress'] == '0' and found['rdb_changes_since_last_save'] != '0'
    wait_for(lambda: re.search(r'Saving failed: %s .*dump\.rdb\.part: %s' % (word, re.escape(os.strerror(error))), server.log()))
    assert c.command('SET', 'k', 'v').startswith(b'MISCONF') and c.command('GET', 'k0') is not None


def once_cleared(c, name):
    """SAVE or BGSAVE, as soon as what is left of a snapshot that failed is out of the way."""
    while True:
        reply = c.command(name)
        if not reply.endswith(b'try again in a moment'):
            return reply


def check_well_again(c, faults, folder):
    faults.none()
    assert once_cleared(c, 'SAVE') == b'OK'
    assert persistence(c)['rdb_last_bgsave_status'] == 'ok' and os.listdir(folder) == ['dump.rdb']
    assert c.command('SET', 'k', 'v') == b'OK'


def save_in_vain(c, faults, fault, background):
    """A snapshot that fails so."""
    step, error, after, _ = fault
    faults.fail(step, error, after)
    if background:
        assert once_cleared(c, 'BGSAVE') == b'Background saving started'
        wait_saved(c)
    else:
        reply = once_cleared(c, 'SAVE')
        assert isinstance(reply, Error) and os.strerror(error).encode() in reply, reply
    assert faults.hits(), fault


@pytest.mark.each_back_end
def test_each_step_that_fails_leaves_the_old_file(failing):
    server, faults, folder = failing()
    c = server.client()
    fill(c)
    check_well_again(c, faults, folder)
    for number, fault in enumerate(FAULTS):
        c.command('SET', 'changed', number)
        old = read(folder)
        if fault[2] is LATE:            # it will be as long as the one before
            fault = (*fault[:2], len(old) - 5, fault[3])
        for background in (False, True):
            save_in_vain(c, faults, fault, background)
            check_told(server, c, fault[1], fault[3])
            assert os.listdir(folder) == ['dump.rdb'] and read(folder) == old
        check_well_again(c, faults, folder)


def hang(failing, step):
    """(a server with a disk that will hang within this step, its client, the faults, its folder, the file that is there)"""
    server, faults, folder = failing(save='')
    c = server.client()
    fill(c)
    check_well_again(c, faults, folder)
    faults.hang(step)
    return server, c, faults, folder, read(folder)


@pytest.mark.parametrize('how', ['command', 'signal'])
@pytest.mark.parametrize('step', ['open', 'write', 'sync', 'close', 'rename'])
def test_an_end_without_a_save_leaves_a_disk_that_hangs_and_the_old_file(failing, step, how):
    server, c, faults, folder, old = hang(failing, step)
    assert once_cleared(c, 'BGSAVE') == b'Background saving started'
    wait_for(faults.hits)
    if how == 'command':
        c.send(encode('SHUTDOWN', 'NOSAVE'))
    else:
        server.process.send_signal(signal.SIGTERM)
    assert server.wait_end() == 0
    assert os.listdir(folder) == ['dump.rdb'] and read(folder) == old


@pytest.mark.parametrize('step', ['open', 'write', 'sync', 'close'])
def test_what_is_given_up_while_the_disk_hangs_does_not_replace_the_old_file(failing, step):
    server, c, faults, folder, old = hang(failing, step)
    c.send(encode('SHUTDOWN', 'SAVE'))
    wait_for(faults.hits)
    other = server.client()
    assert other.command('SHUTDOWN', 'ABORT') == b'OK'
    assert other.command('SET', 'later', 'v') == b'OK'
    faults.none()
    wait_saved(other)
    wait_for(lambda: os.listdir(folder) == ['dump.rdb'])
    assert read(folder) == old
    check_well_again(other, faults, folder)
    assert read(folder) != old


@pytest.mark.parametrize('background', [False, True])
@pytest.mark.parametrize('large', ['string', 'hash'])
def test_a_step_that_fails_in_the_middle_of_large_values(failing, large, background):
    """Each is a stream, which others wait for the end of; and nobody ends it."""
    server, faults, folder = failing(('rdbcompression', 'no'), save='')
    c = server.client()
    fill(c)
    for i in range(6):
        if large == 'string':
            c.command('SET', 'large%d' % i, RANDOM.randbytes(3 << 20))
        else:
            c.pipeline([('HSET', 'large%d' % i, *(x for j in range(k, k + 500) for x in ('field:%d' % j, RANDOM.randbytes(60)))) for k in range(0, 20000, 500)])
    check_well_again(c, faults, folder)
    for after in (900000, 1500000, 3000000, 6000000):
        save_in_vain(c, faults, ('write', errno.ENOSPC, after, ''), background)
        assert persistence(c)['rdb_last_bgsave_status'] == 'err' and persistence(c)['rdb_bgsave_in_progress'] == '0'
        check_well_again(c, faults, folder)


@pytest.mark.each_back_end
@pytest.mark.parametrize('fault', FOLDER_FAULTS)
def test_a_folder_that_can_not_be_synced_is_told(failing, fault):
    """The new file is in its place, whole; but whether it stays there if the machine falls is not known."""
    server, faults, folder = failing()
    c = server.client()
    fill(c)
    check_well_again(c, faults, folder)
    for background in (False, True):
        old = read(folder)
        c.command('SET', 'changed', 'in the %s' % ('background' if background else 'foreground'))
        save_in_vain(c, faults, fault, background)
        check_told(server, c, fault[1], fault[3])
        assert os.listdir(folder) == ['dump.rdb'] and read(folder) != old
        check = subprocess.run([darter_binary(), '--check-rdb', folder / 'dump.rdb'], capture_output=True, text=True)
        assert check.returncode == 0, check.stderr
        check_well_again(c, faults, folder)


def test_short_writes_are_gone_on_with(failing):
    server, faults, folder = failing(save='')
    c = server.client()
    fill(c)
    before = contents(c)
    faults.write_pieces(997)
    assert c.command('SAVE') == b'OK'
    assert faults.written() == os.path.getsize(folder / 'dump.rdb') > 100 * KEYS
    server.stop()
    again, _, _ = failing(save='')
    assert not difference(before, contents(again.client()))


@pytest.mark.each_back_end
def test_writes_go_on_if_so_configured(failing):
    server, faults, folder = failing(('stop-writes-on-bgsave-error', 'no'))
    c = server.client()
    c.command('SET', 'k', 'v')
    assert c.command('SAVE') == b'OK'
    save_in_vain(c, faults, ('sync', errno.EIO, 0, ''), True)
    assert c.command('SET', 'k', 'w') == b'OK' and persistence(c)['rdb_last_bgsave_status'] == 'err'
    c.command('CONFIG', 'SET', 'stop-writes-on-bgsave-error', 'yes')
    assert c.command('SET', 'k', 'v').startswith(b'MISCONF')
    c.command('CONFIG', 'SET', 'save', '')         # without save points nobody expects snapshots
    assert c.command('SET', 'k', 'v') == b'OK'
    faults.none()


@pytest.mark.each_back_end
def test_a_save_point_that_fails_is_tried_again(failing):
    server, faults, folder = failing(save='1 1')
    c = server.client()
    faults.fail('write', errno.ENOSPC, 100)
    c.command('SET', 'k', 'v')
    wait_for(lambda: persistence(c)['rdb_last_bgsave_status'] == 'err')
    assert os.listdir(folder) == []
    assert c.command('SET', 'k', 'w').startswith(b'MISCONF')
    faults.none()
    wait_for(lambda: persistence(c)['rdb_last_bgsave_status'] == 'ok')
    assert c.command('SET', 'k', 'w') == b'OK'
    assert os.listdir(folder) == ['dump.rdb']


@pytest.mark.each_back_end
def test_the_end_waits_for_a_disk_that_is_well(failing):
    """Nothing that was acknowledged is lost because the disk was full when the end was asked for."""
    server, faults, folder = failing()
    c = server.client()
    c.command('SET', 'k', 'v')
    for step, error in (('write', errno.ENOSPC), ('sync', errno.EIO), ('rename', errno.EIO)):
        faults.fail(step, error)
        assert isinstance(c.command('SHUTDOWN'), Error)
        hits = faults.hits()
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: faults.hits() > hits and "can't exit" in server.log())
        assert c.command('GET', 'k') == b'v' and os.listdir(folder) == []
    faults.none()
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_end() == 0
    again, _, _ = failing()
    assert again.client().command('GET', 'k') == b'v'


@pytest.mark.each_back_end
def test_what_lies_under_the_temporary_name(failing):
    """What a killed server left there is written over. What somebody else put there is not followed, nor taken away."""
    server, faults, folder = failing(save='')
    c = server.client()
    fill(c)
    before = contents(c)
    (folder / 'dump.rdb.part').write_bytes(b'x' * 3000000)
    assert c.command('SAVE') == b'OK' and os.listdir(folder) == ['dump.rdb']
    (folder / 'elsewhere').write_bytes(b'precious')
    (folder / 'dump.rdb.part').symlink_to(folder / 'elsewhere')
    assert isinstance(c.command('SAVE'), Error)
    assert (folder / 'elsewhere').read_bytes() == b'precious' and (folder / 'dump.rdb.part').is_symlink()
    os.unlink(folder / 'dump.rdb.part')
    os.mkdir(folder / 'dump.rdb.part')
    assert isinstance(c.command('SAVE'), Error)
    os.rmdir(folder / 'dump.rdb.part')
    server.stop()
    again, _, _ = failing(save='')
    assert not difference(before, contents(again.client()))


@pytest.mark.each_back_end
def test_a_slow_disk_without_writers(failing):
    """What each shard has on its way may be more than a small limit; but nobody is in a hurry, so nothing is given up."""
    server, faults, folder = failing(('snapshot-buffer-limit', '1mb'), ('snapshot-overrun', 'abort'), ('rdbcompression', 'no'), ('enable-debug-command', 'yes'), save='')
    c = server.client()
    c.pipeline([('SET', 'k%d' % i, RANDOM.randbytes(60000 if i % 7 == 0 else 100)) for i in range(600)] + [('SET', 'large%d' % i, RANDOM.randbytes(2 << 20)) for i in range(4)])
    before = c.command('DBSIZE')
    for slow in (0, 20000000):
        faults.slow(slow)
        for _ in range(5 if not slow else 1):
            assert c.command('SAVE') == b'OK'
            assert c.command('DEBUG', 'RELOAD') == b'OK'
    c.send(b'SHUTDOWN SAVE\r\n')
    assert server.wait_end() == 0
    again, _, _ = failing(save='')
    assert again.client().command('DBSIZE') == before


@pytest.mark.each_back_end
def test_a_slow_disk_with_writers(failing):
    """Every key is overwritten while the disk takes 5 MB/s: the snapshot is given up, or it is complete and shows the cut, as configured."""
    server, faults, folder = failing(('snapshot-buffer-limit', '1mb'), ('snapshot-overrun', 'abort'), ('rdbcompression', 'no'), save='')
    c, names, before = server.client(), ['k%d' % i for i in range(2 * KEYS)], [b'%0250d' % i for i in range(2 * KEYS)]
    write = ('MSET', *(x for pair in zip(names, before) for x in pair))
    overwrite = [('SET', name, b'new') for name in names]
    c.command(*write)
    faults.slow(5000000)
    assert c.pipeline([('BGSAVE',), *overwrite])[0] == b'Background saving started'
    wait_saved(c)
    assert persistence(c)['rdb_last_bgsave_status'] == 'err' and os.listdir(folder) == []
    wait_for(lambda: 'too much waited for the disk' in server.log())
    c.command('CONFIG', 'SET', 'snapshot-overrun', 'throttle')
    c.command(*write)
    assert once_cleared(c, 'BGSAVE') == b'Background saving started'
    c.pipeline(overwrite)
    wait_saved(c)
    assert persistence(c)['rdb_last_bgsave_status'] == 'ok'
    server.stop()
    again, _, _ = failing(save='')
    assert again.client().command('MGET', *names) == before
