"""The commands of tools/: each tells how it is used; builds in one folder take turns."""

import fcntl
import os
import shutil
import subprocess

import pytest

from server import PATIENCE, ROOT


def tools():
    """Every program below tools/."""
    found = []
    for directory, _, files in os.walk(os.path.join(ROOT, 'tools')):
        for name in files:
            path = os.path.join(directory, name)
            with open(path, 'rb') as f:
                if f.read(2) == b'#!':
                    found.append(os.path.relpath(path, ROOT))
    return sorted(found)


@pytest.fixture(scope='module')
def copy(tmp_path_factory):
    """One that takes --help for something else spoils only a copy."""
    directory = tmp_path_factory.mktemp('tree')
    shutil.copytree(os.path.join(ROOT, 'tools'), directory / 'tools')
    (directory / 'tests').symlink_to(os.path.join(ROOT, 'tests'))
    return directory


@pytest.mark.parametrize('option', ['--help', '-h'])
@pytest.mark.parametrize('tool', tools())
def test_every_tool_tells_its_usage(copy, tmp_path, tool, option):
    before = sorted(os.listdir(copy))
    done = subprocess.run([copy / tool, option], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    first = done.stdout.partition('\n')[0]
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert first.startswith((tool + ' ', tool + ':', 'usage: ' + os.path.basename(tool) + ' ')), done.stdout
    assert len(done.stdout) > len(tool) + 40, done.stdout
    assert sorted(os.listdir(copy)) == before and not os.listdir(tmp_path)


def test_tools_that_cannot_be_started_by_name_are_none():
    assert len(tools()) >= 10 and [tool for tool in tools() if not os.access(os.path.join(ROOT, tool), os.X_OK)] == []


STUB = '''#!/bin/sh
echo "${0##*/} $*" >>"$TRACE"
[ "${0##*/}" = ninja ] || : >"$2/build.ninja"
'''


@pytest.mark.skipif(not shutil.which('dpkg-query'), reason='tools/build looks for packages')
def test_a_build_waits_for_another_one_in_its_folder(tmp_path):
    for name in ('meson', 'ninja'):
        (tmp_path / name).write_text(STUB)
        (tmp_path / name).chmod(0o755)
    trace, directory = tmp_path / 'trace', tmp_path / 'build'
    directory.mkdir()
    environment = dict(os.environ, PATH='%s:%s' % (tmp_path, os.environ['PATH']), TRACE=str(trace))
    with open(directory / 'darter-lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build = subprocess.Popen([os.path.join(ROOT, 'tools', 'build'), str(directory)], env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = build.stderr.readline()
        early = trace.exists()
    said += build.stderr.read()
    assert build.wait() == 0 and said == 'build: waiting for another build in %s\n' % directory and not early, said
    assert [line.split()[0] for line in trace.read_text().splitlines()] == ['meson', 'ninja', 'ninja']
