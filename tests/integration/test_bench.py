"""darter-bench: against Darter and redis-server, over both back ends of its own."""

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import threading
import time
import xml.etree.ElementTree as ElementTree

import pytest

import configurations
from server import PATIENCE, Server, darter_binary, free_port, wait_for

BENCH = os.path.join(os.path.dirname(darter_binary()), 'darter-bench')


@pytest.fixture(params=['darter', 'redis'])
def kind(request):
    return request.param


@pytest.fixture(params=configurations.back_ends())
def io(request):
    return request.param


@pytest.fixture
def serve(kind):
    """serve(**options) starts a server of the kind; see lib/server.py."""
    running = []

    def serve(**options):
        running.append(Server(**{'kind': kind, **({'threads': 2} if kind == 'darter' else {}), **options}))
        return running[-1]

    yield serve
    for server in running:
        server.stop()


class Said:
    """What a run printed, and the figures in it."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def number(self, pattern):
        found = re.search(pattern, self.out)
        assert found, '%s is not in\n%s\n%s' % (pattern, self.out, self.err)
        return float(found[1])

    @property
    def requests(self):
        return int(self.number(r'Overall number of requests: (\d+)'))

    def histogram(self):
        rows = re.findall(r'^\[ *(\d+), *(\d+) \) +(\d+) +([\d.]+)% +([\d.]+)%', self.out, re.M)
        return [(int(low), int(high), int(n), float(percent), float(until)) for low, high, n, percent, until in rows]


def command(server, *arguments, io=None):
    return [BENCH, '-p', str(server.port), '-h', '127.0.0.1', *(['--io', io] if io else []), *map(str, arguments)]


@pytest.fixture
def run():
    """run(server, *arguments) starts the tool and waits for its first line. It does not outlive the test."""
    running = []

    def run(server, *arguments, io=None):
        process = subprocess.Popen(command(server, *arguments, io=io), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        running.append(process)
        first = process.stdout.readline()
        assert first.startswith('Running'), first + process.communicate()[1]
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


def end(process, with_signal=None, status=0):
    if with_signal:
        process.send_signal(with_signal)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == status, out + err
    return Said(status, out, err)


def bench(server, *arguments, io=None, status=0):
    done = subprocess.run(command(server, *arguments, io=io), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    said = Said(done.returncode, done.stdout, done.stderr)
    assert said.status == status, said.out + said.err
    if not status:
        assert not said.err
    return said


def calls(server):
    """Calls of set and get, by the server's own count."""
    stats = server.info('commandstats')
    return {name: int(re.search(r'calls=(\d+)', stats.get('cmdstat_' + name, 'calls=0'))[1]) for name in ('set', 'get')}


def quick(**flags):
    """As fast as it goes, with one thread."""
    return ['--qps=0', '--proactor_threads=1', *['--%s=%s' % f for f in flags.items()]]


# What is sent

def test_every_request_reaches_the_server_and_is_counted(serve, io):
    server = serve()
    said = bench(server, *quick(pipeline=7), '-c', 5, '-n', 501, '--ratio=1:3', '--key_maximum=100', io=io)
    assert said.requests == 5 * 501
    sent = calls(server)
    assert sent['set'] + sent['get'] == 5 * 501
    assert 400 < sent['set'] < 850        # a quarter is 626
    assert {k.partition(b':')[0] for k in server.client().command('KEYS', '*')} == {b'key'}
    assert sum(n for _, _, n, _, _ in said.histogram()) == 5 * 501


def test_a_sequence_sets_every_key_once(serve, io):
    server = serve()
    bench(server, *quick(pipeline=16, key_dist='S'), '--proactor_threads=2', '-c', 4, '-n', 125, '--ratio=1:0', '--key_minimum=1000', '--key_maximum=1999', '--key_prefix=p-', '-d', 100, io=io)
    c = server.client()
    assert c.command('DBSIZE') == 1000
    assert c.command('STRLEN', 'p-1000') == c.command('STRLEN', 'p-1999') == 100
    assert calls(server) == {'set': 1000, 'get': 0}


def test_hits_and_misses(serve):
    server = serve()
    bench(server, *quick(key_dist='S'), '-c', 1, '-n', 100, '--ratio=1:0', '--key_maximum=99')
    assert bench(server, *quick(), '-c', 2, '-n', 500, '--ratio=0:1', '--key_maximum=99').number('Hit rate: ([0-9.]+)%') == 100
    half = bench(server, *quick(), '-c', 2, '-n', 2000, '--ratio=0:1', '--key_maximum=199').number('Hit rate: ([0-9.]+)%')
    assert 40 < half < 60
    assert bench(server, *quick(key_prefix='none'), '-c', 2, '-n', 500, '--ratio=0:1').number('Hit rate: ([0-9.]+)%') == 0


def test_the_same_seed_sends_the_same(serve):
    keys = []
    for seed in (1, 1, 2):
        server = serve()
        bench(server, *quick(), '-c', 1, '-n', 200, '--ratio=1:1', '--seed', seed)
        keys.append(sorted(server.client().command('KEYS', '*')))
    assert keys[0] == keys[1] != keys[2]


def test_large_values_both_ways(serve, io):
    server = serve()
    said = bench(server, *quick(pipeline=4), '-c', 3, '-n', 60, '-d', '1:300000', '--ratio=1:1', '--key_maximum=5', io=io)
    assert said.requests == 180 and 'error' not in said.out


def test_a_command_of_ones_own(serve, io):
    server = serve()
    said = bench(server, *quick(pipeline=3), '-c', 2, '-n', 50, '--command', 'setex __key__ 10000 "x __data__ y"', '--key_maximum=9', '-d', 10, io=io)
    assert said.requests == 100 and 'Hit rate' not in said.out
    value = server.client().command('GET', 'key:3')
    assert len(value) == 14 and value.startswith(b'x ') and value.endswith(b' y')


def test_nested_replies_and_resp3(serve, io):
    """HELLO 3 turns maps on; COMMAND's reply is deep and long, and comes in many pieces."""
    server = serve()
    for line in ('HELLO 3', 'COMMAND', 'COMMAND DOCS get set', 'MGET a b c', 'CONFIG GET *', 'INFO'):
        said = bench(server, *quick(pipeline=2), '-c', 2, '-n', 10, '--command', line, io=io)
        assert said.requests == 20 and 'error' not in said.out, line


def test_unix_sockets(serve, io, tmp_path):
    path = str(tmp_path / 's')
    server = serve(options=[('unixsocket', path)])
    said = bench(server, '--unix', path, *quick(), '-c', 40, '-n', 20, io=io)
    assert said.requests == 800 and path in said.out


# What is said

def test_shape_of_the_output(serve):
    said = bench(serve(), '--proactor_threads=2', '-c', 3, '-n', 50, '--qps=100')
    assert re.match(r'Running 2 threads \(\S+\) with 3 connections each against 127.0.0.1:\d+, sending 50 requests per each connection, or 300 requests overall\n'
                    r'At a rate of 100 requests a second and connection, i.e. a request every 10000 us\..*\nOverall scheduled RPS: 600\n', said.out), said.out
    assert re.search(r'^Total time: [\d.]+s. Overall number of requests: 300, QPS: \d+, P99 lat: \d+us$', said.out, re.M)
    summary = said.out[said.out.index('Latency summary, all times are in usec:'):]
    assert re.match(r'.*\nCount: 300  Average: [\d.]+  StdDev: [\d.]+\nMin: [\d.]+  Median: [\d.]+  Max: [\d.]+\np50: [\d.]+  p90: [\d.]+  p99: [\d.]+  p99.9: [\d.]+  p99.99: [\d.]+\n-+\n\[', summary), summary
    rows = said.histogram()
    assert rows[-1][4] == 100 and sum(n for _, _, n, _, _ in rows) == 300
    assert all(a[1] <= b[0] for a, b in zip(rows, rows[1:]))
    p = [said.number(pattern) for pattern in (r'Min: ([\d.]+)', r'p50: ([\d.]+)', r'p90: ([\d.]+)', r'p99: ([\d.]+)', r'p99.99: ([\d.]+)', r'Max: ([\d.]+)')]
    assert p == sorted(p)
    assert re.search(r'^Own CPU: [\d.]+ s \(user [\d.]+, system [\d.]+\), [\d.]+ us a request; busiest thread: \d+%$', said.out, re.M)
    assert 'coordinated omission' in bench(serve(), *quick(), '-n', 1).out


def test_a_line_every_five_seconds(serve, kind):
    if kind == 'redis':
        pytest.skip('once is enough')
    said = bench(serve(), '-c', 2, '--test_time=9', '--qps=50', '--proactor_threads=1', '--ratio=0:1')
    line = re.search(r'^(\d+)s: ([\d.]+)% done, RPS\(now/agg\): (\d+)/(\d+), errs: 0, hitrate: 0.0%, clients: 2\n'
                     r'done_min: ([\d.]+)%, done_max: ([\d.]+)%, p99_lat\(us\): (\d+), max_pending: (\d+)$', said.out, re.M)
    assert line, said.out
    assert int(line[1]) >= 5 and float(line[2]) >= 50 and int(line[4]) > 0 and float(line[5]) <= float(line[6])
    assert said.requests <= 900


def wait_for_calls(server, count=20):
    wait_for(lambda: sum(calls(server).values()) >= count)


def stop_for_a_second(server, process):
    """Stops the server for a second of a run of 200 requests a second, and ends the run once all that were due then have had their reply."""
    wait_for_calls(server)
    server.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(1)
    finally:
        server.process.send_signal(signal.SIGCONT)
    wait_for_calls(server, 20 + 200 + 100)
    return end(process, signal.SIGINT)


def test_a_stall_is_not_hidden(serve, run, tmp_path):
    """The requests of the second in which the server stood still wait, and each counts from its own time."""
    path = tmp_path / 'out.json'
    for _ in range(5):      # a machine that stops the tool as well may keep it from sending
        server = serve()
        said = stop_for_a_second(server, run(server, '-c', 1, '-n', 10**9, '--qps=200', '--proactor_threads=1', '--json_out_file', path))
        assert said.number(r'Max: ([\d.]+)') > 900e3
        assert sum(n for low, _, n, _, _ in said.histogram() if low >= 100e3) > 150     # of 180
        pending = json.loads(path.read_text())['counts']['max_pending']
        if pending >= 180:
            break
    assert pending >= 180


def test_a_closed_loop_hides_a_stall(serve, run):
    """What the plan warns of: one request waits, and nothing else is asked."""
    server = serve()
    said = stop_for_a_second(server, run(server, '-c', 1, '-n', 10**9, '--qps=0', '--proactor_threads=1'))
    assert said.number(r'Max: ([\d.]+)') > 900e3
    assert 1 <= sum(n for low, _, n, _, _ in said.histogram() if low >= 800e3) < 10     # the machine may stand still as well


def test_all_that_is_due_in_the_time_is_sent(serve, io):
    said = bench(serve(), '-c', 7, '--test_time=1', '--qps=90', '--proactor_threads=2', io=io)
    assert said.requests + sum(map(int, re.findall(r'^(\d+) requests were due at the end and not sent', said.out, re.M))) == 2 * 7 * 90


def test_only_connecting(serve, run, io):
    server = serve()
    process = run(server, '--connect_only', '--test_time=1000', '-c', 30, '--proactor_threads=2', io=io)
    assert int(server.info('clients')['connected_clients']) >= 60
    assert end(process, signal.SIGTERM).requests == 0
    assert calls(server) == {'set': 0, 'get': 0}


def test_time_ends_a_run(serve, io):
    start = time.monotonic()
    said = bench(serve(), *quick(pipeline=2), '-c', 3, '--test_time=1', io=io)
    assert time.monotonic() - start >= 1 and said.requests > 0 and said.number(r'Total time: ([\d.]+)s') >= 1


def test_json_has_everything(serve, tmp_path):
    path = tmp_path / 'out.json'
    said = bench(serve(), '--proactor_threads=2', '-c', 2, '-n', 150, '--qps=100', '--ratio=1:2', '--key_maximum=50', '--json_out_file', path)
    out = json.loads(path.read_text())
    stats = out['ALL STATS']
    assert stats['Totals']['Count'] == 600 == stats['Sets']['Count'] + stats['Gets']['Count']
    for row in ('Sets', 'Gets', 'Totals'):
        assert sum(second['Count'] for second in stats[row]['Time-Serie'].values()) == stats[row]['Count']
        p = stats[row]['Percentile Latencies']
        assert 0 < p['p50.00'] <= p['p99.00'] <= p['p99.90'] <= stats[row]['Max Latency']
    assert stats['Totals']['Percentile Latencies']['p50.00'] * 1000 == pytest.approx(said.number(r'p50: ([\d.]+)'), abs=.1)
    assert stats['Runtime']['Total duration'] >= 1400 and stats['Runtime']['Time unit'] == 'MILLISECONDS'
    assert sum(n for _, _, n in out['histogram_us']) == 600
    counts = out['counts']
    assert counts['hits'] + counts['misses'] == stats['Gets']['Count'] and counts['errors'] == 0
    assert out['configuration']['connections_per_thread'] == 2 and out['own_cpu']['us_per_request'] > 0


def test_plots(serve, tmp_path):
    path = tmp_path / 'out.svg'
    said = bench(serve(), '--proactor_threads=1', '-c', 2, '-n', 210, '--qps=100', '--plot', path)
    tree = ElementTree.parse(path)
    tags = [e.tag.rpartition('}')[2] for e in tree.iter()]
    assert tree.getroot().tag.endswith('svg') and 'rect' in tags and tags.count('polyline') == 2
    assert 'Latency: % of requests' in said.out and 'Throughput: requests a second' in said.out and '█' in said.out


def test_cpu_of_the_server(serve):
    server = serve()
    said = bench(server, *quick(pipeline=8), '-n', 2000, '--server_pid', server.process.pid)
    assert said.number(r'Server CPU: ([\d.]+) s') > 0 and said.number(r'Server CPU: .*, ([\d.]+) us a request') > 0
    assert 'No such file' in bench(server, '--server_pid=4194304', status=1).err


def test_a_live_line_on_a_terminal(serve):
    server = serve()
    pid, terminal = pty.fork()
    if not pid:
        os.execv(BENCH, command(server, '--test_time=4', '--qps=50', '-c', '1', '--proactor_threads=1'))
    seen = b''
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            more = os.read(terminal, 4096)
        except OSError:
            break
        if not more:
            break
        seen += more
    assert os.waitpid(pid, 0)[1] == 0
    os.close(terminal)
    assert re.search(rb'[123]s: (25|50|75).0% done, RPS\(now/agg\): \d+/\d+, .*\r\x1b\[K', seen), seen


# What goes wrong

def test_errors_are_counted_by_kind(serve, kind):
    server = serve()
    server.client().command('SET', 'key:0', 'text')
    said = bench(server, *quick(), '-c', 2, '-n', 20, '--command', 'INCR __key__', '--key_maximum=0')
    assert 'Got 40 error responses! ERR: 40\n' in said.out
    if kind == 'redis':
        said = bench(server, *quick(), '-c', 2, '-n', 20, '--command', 'LPUSH __key__ x', '--key_maximum=0')
        assert 'Got 40 error responses! WRONGTYPE: 40\n' in said.out


def test_passwords(serve, io):
    server = serve(options=[('requirepass', 'secret')], wait=False)
    wait_for(lambda: not socket.socket().connect_ex(('127.0.0.1', server.port)))
    assert 'NOAUTH' in bench(server, '-n', 1, status=1, io=io).err
    assert 'WRONGPASS' in bench(server, '-n', 1, '--password', 'wrong', status=1, io=io).err
    assert bench(server, *quick(), '-c', 2, '-n', 5, '--password', 'secret', io=io).requests == 10
    assert bench(server, *quick(), '-c', 2, '-n', 5, '--password', 'secret', '--user=default', '--nogreet', io=io).requests == 10
    assert 'NOAUTH: 10' in bench(server, *quick(), '-c', 2, '-n', 5, '--nogreet', io=io).out


@pytest.mark.parametrize('where', [['-h', '127.0.0.1', '-p', '1'], ['--unix', '/nonexistent/s'], ['-h', 'nothing.invalid']])
def test_a_server_that_is_not_there(where, io):
    done = subprocess.run([BENCH, '--io', io, *where], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and done.stderr.startswith('darter-bench: ') and len(done.stderr.splitlines()) == 1 and not done.stdout


@pytest.mark.parametrize('qps', [0, 200])
def test_a_server_that_dies(serve, run, io, qps):
    server = serve(tolerate_faults=True)
    process = run(server, '--qps', qps, '-c', 3, '-n', 10**9, io=io)
    wait_for_calls(server)
    server.kill()
    said = end(process, status=1)
    assert re.match(r'darter-bench: a connection to 127.0.0.1:\d+ was lost after [\d.]+ s, with \d+ requests on the way: .*\n$', said.err), said.err
    assert said.requests > 0 and re.search(r'^Lost \d+ connections$', said.out, re.M)


@pytest.mark.parametrize('qps', [0, 200])
def test_a_server_that_hangs(serve, run, qps):
    server = serve()
    process = run(server, '--qps', qps, '-c', 1, '--test_time=2', '--proactor_threads=1')
    server.process.send_signal(signal.SIGSTOP)
    try:
        said = end(process, status=1)
    finally:
        server.process.send_signal(signal.SIGCONT)
    unanswered = int(said.number(r'(\d+) requests were sent and not answered'))
    assert said.err == 'darter-bench: 127.0.0.1:%d left %d requests unanswered, 10 s after the end\n' % (server.port, unanswered)
    assert re.search(r'^\d+s: 100.0%% done, .*\n.*max_pending: %d$' % unanswered, said.out, re.M), said.out


def test_an_interrupt_shows_what_was_done(serve, run, io):
    server = serve()
    process = run(server, '--qps=100', '-c', 2, '-n', 10**9, io=io)
    wait_for_calls(server)
    said = end(process, signal.SIGINT)
    assert said.requests > 0 and 'Latency summary' in said.out and 'Interrupted' in said.out and not said.err


def test_what_is_no_server_of_this_protocol(io):
    listener = socket.create_server(('127.0.0.1', free_port()))

    def answer():
        for _ in range(40):
            try:
                s, _ = listener.accept()
            except OSError:
                return
            s.sendall(b'HTTP/1.1 400 Bad Request\r\n\r\n')

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    done = subprocess.run([BENCH, '-h', '127.0.0.1', '-p', str(listener.getsockname()[1]), '--io', io], capture_output=True, text=True, timeout=PATIENCE)
    listener.close()
    assert done.returncode == 1 and 'no reply' in done.stderr


def test_wrong_flags_are_told():
    done = subprocess.run([BENCH, '--qps=fast'], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr == 'darter-bench: --qps=fast: not a whole number from -1000000000 to 1000000000\n'
    done = subprocess.run([BENCH, '--command='"get 'x"], capture_output=True, text=True)
    assert done.returncode == 1 and 'quote' in done.stderr
    done = subprocess.run([BENCH, '--help'], capture_output=True, text=True)
    assert done.returncode == 0 and '--key_dist (U)' in done.stdout
