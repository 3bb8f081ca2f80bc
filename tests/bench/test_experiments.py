"""The experiments of tools/bench, small: each runs, tells something of every cell, and writes its block and its pictures. Never how fast anything is."""

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import growth  # noqa: E402
from measure import Spread, in_turn, ratio  # noqa: E402
from record import bars, replaced  # noqa: E402
from server import darter_binary  # noqa: E402
from subjects import ROOT, Subject  # noqa: E402

# Some hundred short runs, which take as long as the machine wants: a bound for what hangs, none for what is slow.
pytestmark = pytest.mark.limit(500)


@pytest.fixture(scope='session')
def darter(tmp_path_factory):
    """The server under test, with the load tool beside it."""
    directory = tmp_path_factory.mktemp('darter')
    shutil.copy2(darter_binary(), directory / 'darter')
    shutil.copy2(os.path.join(os.path.dirname(os.path.abspath(darter_binary())), 'darter-bench'), directory / 'darter-bench')
    return directory / 'darter'


def experiment(name, darter, docs, **settings):
    """Runs it; returns (its block of the document, the figures in its tables)."""
    document = docs / 'benchmarks.md'
    document.write_text('# Benchmarks\n\nbefore\n\n<!-- tools/bench %s -->\nthe former block\n<!-- end of %s -->\n\nafter\n' % (name, name))
    environment = dict(os.environ, DARTER=str(darter), BENCH_DOCS=str(docs), **{k: str(v) for k, v in settings.items()})
    done = subprocess.run([os.path.join(ROOT, 'tools', 'bench'), name], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    text = document.read_text()
    assert text.startswith('# Benchmarks\n\nbefore\n\n<!--') and text.endswith('-->\n\nafter\n') and 'the former block' not in text
    for picture in re.findall(r'\]\((pictures/.*?)\)', text):
        ElementTree.parse(docs / picture)
    return text, [[cell.strip() for cell in line.split('|')[1:-1]] for line in text.splitlines() if re.match(r'\| .*\d', line)]


def positive(cells):
    return all(float(cell.split()[0]) > 0 for cell in cells)


def test_prefetch(darter, tmp_path):
    text, rows = experiment('prefetch', darter, tmp_path, KEYS=3000, REQUESTS=2000, ROUNDS=1)
    for level in ('none', 'bucket', 'bucket+probe', 'entry', 'full'):
        mine = [row for row in rows if row[0] == level]
        assert len(mine) == 7 and all(positive(row[1:3]) for row in mine), text
    assert 'at a fixed rate' in text and 'bench-prefetch.svg' in text


def test_prefetch_small(darter, tmp_path):
    text, rows = experiment('prefetch-small', darter, tmp_path, REQUESTS=2000, ROUNDS=1)
    rows = [row for row in rows if row[0] != 'prefetch']
    assert len(rows) == 3 * 2 * 5 and all(positive(row[1:4]) for row in rows), text


def test_aggregation(darter, tmp_path):
    text, rows = experiment('aggregation', darter, tmp_path, KEYS=1000, REQUESTS=1000, ROUNDS=1)
    cells = ['%d, %d' % (connections, depth) for connections in (10, 50, 200) for depth in (1, 4, 16)]
    assert [row[0] for row in rows] == cells * 2, text
    assert all(positive(row[1:4]) for row in rows), text


def test_lending(darter, tmp_path):
    text, rows = experiment('lending', darter, tmp_path, KEYS=1000, REQUESTS=1000, ROUNDS=1)
    assert [row[0] for row in rows] == ['%d, %d' % (connections, depth) for connections in (1, 10, 50, 200) for depth in (1, 16, 100)], text
    assert all(positive(row[1:7]) for row in rows), text


def test_bits(darter, tmp_path):
    text, rows = experiment('bits', darter, tmp_path, MIB=2, KEYS=5, REQUESTS=400, ROUNDS=1)
    mine = [row for row in rows if len(row) == 4 and 'redis-server' not in row[1]]
    assert len(mine) == 5 + 11 and all(positive(row[1:4]) for row in mine), text


def test_loading(darter):
    rows = table_of('loading', darter, KEYS=20000, SIZES='10 100', THREADS='1 2', ROUNDS=1, BESIDE=darter)[1:]
    assert [len(row) for row in rows] == [6, 6] and all(re.match(r'[0-9.]+ and [0-9.]+$', cell) for row in rows for cell in row[1:]), rows


@pytest.mark.skipif(not shutil.which('callgrind_control'), reason='valgrind is not installed')
def test_bytes(darter, tmp_path):
    text, rows = experiment('bytes', darter, tmp_path, KEYS=3000, REQUESTS=400)
    instructions = [row for row in rows if row[0].startswith('GET') and len(row) == 6]
    assert len(instructions) == 3 and all(float(row[1]) > 100 for row in instructions), text
    moved = [row for row in rows if len(row) == 7]
    assert len([row for row in moved if row[1] == 'darter']) == 3 and positive([row[2] for row in moved]), text


def table_of(name, darter, **settings):
    """Those that write no document."""
    environment = dict(os.environ, DARTER=str(darter), **{k: str(v) for k, v in settings.items()})
    done = subprocess.run([os.path.join(ROOT, 'tools', 'bench'), name], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return [[cell.strip() for cell in line.split('|')[1:-1]] for line in done.stdout.splitlines() if line.startswith('| ')]


def test_hashes(darter):
    rows = table_of('hashes', darter, KEYS=2000, HASHES=100, FIELDS=2000, REQUESTS=2000, ROUNDS=1)[1:]
    assert len(rows) == 7 and all(positive(row[1:4]) for row in rows), rows


def test_lists(darter):
    rows = table_of('lists', darter, KEYS=1000, ELEMENTS=2000, REQUESTS=2000, ROUNDS=1)[1:]
    assert len(rows) == 13 and all(positive(row[1:4]) for row in rows if 'us' not in row[0]), rows


def test_zsets(darter):
    rows = table_of('zsets', darter, KEYS=1000, MEMBERS=2000, REQUESTS=2000, ROUNDS=1)[1:]
    assert len(rows) == 15 and all(positive(row[1:4]) for row in rows if 'us' not in row[0]), rows


def test_sets(darter):
    rows = table_of('sets', darter, KEYS=2000, MEMBERS=2000, REQUESTS=2000, ROUNDS=1)[1:]
    assert len(rows) == 7 and all(positive(row[1:4]) for row in rows if 'ms' not in row[0]), rows


@pytest.mark.skipif(not shutil.which('callgrind_control'), reason='valgrind is not installed')
def test_growth(darter):
    rows = [row for row in table_of('growth', darter, KEYS=180000, REQUESTS=2000) if row[2].isdigit()]
    assert len([row for row in rows if row[1] == 'Darter']) == 8 and len([row for row in rows if row[1] == 'redis-server']) == 3 and positive([row[2] for row in rows])


class Unwilling:
    """In a Server's place: its clients fail, and it knows whether somebody ended it."""
    all = []

    def __init__(self, **_):
        self.killed = False
        self.all.append(self)

    def wait_ready(self, _):
        pass

    def client(self, **_):
        return self

    def command(self, *_):
        raise ConnectionError

    def kill(self):
        self.killed = True


def test_an_experiment_that_fails_leaves_no_server(monkeypatch):
    monkeypatch.setattr(growth, 'Server', Unwilling)
    for fill in (growth.Counted.fill, lambda *_: None):  # while it is filled, and later
        monkeypatch.setattr(growth.Counted, 'fill', fill)
        monkeypatch.setattr(growth.Counted, 'other', Unwilling(), raising=False)
        Unwilling.all.clear()
        with pytest.raises(ConnectionError):
            growth.growth_of_darter(1000, 10)
        assert [server.killed for server in Unwilling.all] == [True] * len(Unwilling.all) and Unwilling.all


def test_steps(darter):
    rows = table_of('steps', darter, KEYS=20000)
    assert len(rows) == 1 + 3 + 1 + 4 and int(next(row for row in rows if row[0] == 'Darter, the same: growth')[1]) > 10, rows


def test_a_server_without_debug_populate_is_filled_by_msets(darter, monkeypatch):
    monkeypatch.setenv('DARTER', str(darter))
    with Subject(options=['--rename-command', 'DEBUG', '']) as subject:
        subject.fill(250, 10)
        assert subject.ask('DBSIZE') == 250 and subject.ask('GET', 'key:249') == b'x' * 10


def test_a_difference_is_one_that_each_round_confirms():
    assert Spread([1.2, 1.3, 1.4]).verdict() == '+30 %'
    assert Spread([.5, .6, .7]).verdict() == '-40 %'
    assert Spread([.9, 1.3, 1.4]).verdict().startswith('null') and Spread([1.01, 1.02, 1.02]).verdict().startswith('null')
    assert Spread([1.3]).verdict() == 'one round tells nothing'
    assert Spread([3, 1, 2]).text('%.0f') == '2 (1–3)'


def test_cells_are_compared_round_by_round():
    seen = []
    found = in_turn({'a': lambda: seen.append('a') or {'cpu': len(seen)}, 'b': lambda: seen.append('b') or {'cpu': len(seen)}}, 8)
    assert all(sorted(seen[i:i + 2]) == ['a', 'b'] for i in range(0, 16, 2)) and seen[::2] != ['a'] * 8
    assert ratio([{'cpu': 2}, {'cpu': 40}], [{'cpu': 1}, {'cpu': 10}], 'cpu').values == [2, 4]
    assert len(found['a']) == len(found['b']) == 8


def test_a_block_is_rewritten_where_it_stands_or_added_at_the_end():
    once = replaced('top\n', 'x', 'one')
    assert once == 'top\n\n<!-- tools/bench x -->\none\n<!-- end of x -->\n'
    assert replaced(once + 'rest\n', 'x', 'two') == once.replace('one', 'two') + 'rest\n'
    with pytest.raises(RuntimeError):
        replaced('<!-- tools/bench x -->\nits end is gone', 'x', 'two')


def test_a_picture_has_a_bar_for_every_figure():
    picture = ElementTree.fromstring(bars('a < b', ['one', 'two'], {'x': [Spread([1, 2]), Spread([3])], 'y': [Spread([4]), Spread([5])]}))
    assert len(picture.findall('{http://www.w3.org/2000/svg}rect')) == 1 + 2 + 4


def test_saving(darter):
    environment = dict(os.environ, DARTER=str(darter), KEYS='3000', ROUNDS='1', BEFORE_MS='50')
    done = subprocess.run([os.path.join(ROOT, 'tools', 'bench'), 'saving'], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line for line in done.stdout.splitlines() if re.match(r'\| (redis-server|darter): (GET|SET), (1|16) deep \| [\d.]+ x \|.*\| [\d.]+ \|$', line)]
    assert len(rows) == 8 and {row.count('|') for row in rows} == {8}, done.stdout


def test_inside(darter):
    environment = dict(os.environ, DARTER=str(darter), KEYS='200', MEMBERS='500', SCANNED='2000', REQUESTS='2000', ROUNDS='1')
    done = subprocess.run([os.path.join(ROOT, 'tools', 'bench'), 'inside'], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split('|')[1:-1] for line in done.stdout.splitlines() if re.match(r'\| (HGET|ZRANGE|SINTERCARD|SCAN)', line)]
    assert len(rows) == 6 and all(float(cell) >= 0 for row in rows for cell in row[1:4]), done.stdout
