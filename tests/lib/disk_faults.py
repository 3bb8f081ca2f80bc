"""A disk that fails under a server's snapshots when a test says so (disk_faults.c, loaded before the C library).

    faults = DiskFaults(folder)
    server = start(env=faults.env())
    faults.fail('rename', errno.EIO)
    faults.hits()                       how often it did
    faults.none()
"""

import ctypes
import mmap
import os
import subprocess

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'disk_faults.c')
STEPS = ['none', 'open', 'write', 'sync', 'close', 'rename', 'open folder', 'sync folder']


class Page(ctypes.Structure):
    _fields_ = [('step', ctypes.c_uint32), ('error', ctypes.c_uint32), ('after', ctypes.c_uint64), ('piece', ctypes.c_uint64), ('bytes_a_second', ctypes.c_uint64),
                ('hits', ctypes.c_uint64), ('written', ctypes.c_uint64)]


class DiskFaults:
    def __init__(self, folder):
        self.preload, self.path = os.path.join(str(folder), 'disk_faults.so'), os.path.join(str(folder), 'disk_faults')
        subprocess.run(['gcc', '-shared', '-fPIC', '-O1', '-o', self.preload, SOURCE, '-ldl'], check=True)
        with open(self.path, 'w+b') as f:
            f.truncate(mmap.PAGESIZE)
            self.page = Page.from_buffer(mmap.mmap(f.fileno(), mmap.PAGESIZE))

    def env(self):
        return {'LD_PRELOAD': self.preload, 'DISK_FAULTS': self.path}

    def fail(self, step, error, after=0):
        """From now on this step fails with this error number; writing, once it has taken so many bytes of a file."""
        self.page.step = 0
        self.page.error, self.page.after, self.page.hits = error, after, 0
        self.page.step = STEPS.index(step)

    def hang(self, step):
        """This step is not done before none()."""
        self.fail(step, 0)

    def none(self):
        self.page.step = self.page.piece = self.page.bytes_a_second = 0

    def write_pieces(self, size):
        """A write takes so many bytes at most."""
        self.page.piece = size

    def slow(self, bytes_a_second):
        self.page.bytes_a_second = bytes_a_second

    def hits(self):
        return self.page.hits

    def written(self):
        return self.page.written
