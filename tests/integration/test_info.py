"""INFO: Redis' fields, and that they are true."""

import re
import time

import pytest

from server import darter_binary


def sections(c, *names):
    found = {}
    for line in c.command('INFO', *names).decode().split('\r\n'):
        if line.startswith('# '):
            fields = found[line[2:]] = {}
        elif line:
            name, _, value = line.partition(':')
            assert name not in fields, name
            fields[name] = value
    return found


def test_sections_and_fields_are_those_of_redis(server, reference):
    a, b = reference.client(), server.client()
    for names in ((), ('default',), ('all',), ('everything',), ('module_list',), ('cpu', 'nonsense', 'server', 'cpu'), ('nonsense',)):
        want, have = sections(a, *names), sections(b, *names)
        assert [s for s in have if s != 'Threads'] == list(want), names
        for section in want:
            if section in ('Commandstats', 'Errorstats', 'Latencystats', 'Keyspace'):
                continue
            assert set(want[section]) <= set(have[section]), section


def test_the_build_id_is_the_linkers(server):
    have = sections(server.client(), 'server')['Server']['redis_build_id']
    with open(darter_binary(), 'rb') as f:
        program = f.read()
    note = program.find(b'\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0')   # sizes of name and body, type, name
    assert have == (program[note + 16:note + 24].hex() if note >= 0 else '0' * 16)


def test_memory_of_the_process_and_time_of_the_main_thread_are_the_kernels(server):
    c = server.client()
    assert c.command('SET', 'k', b'x' * (64 << 20)) == b'OK'
    memory, cpu = (sections(c, name)[name.capitalize() if name == 'memory' else 'CPU'] for name in ('memory', 'cpu'))
    with open('/proc/%d/status' % server.process.pid) as f:
        anonymous = int(re.search(r'^RssAnon:\s+(\d+) kB$', f.read(), re.M)[1]) << 10
    assert abs(int(memory['allocator_resident']) - anonymous) < 8 << 20 < int(memory['allocator_resident'])
    assert int(memory['rss_overhead_bytes']) == int(memory['used_memory_rss']) - int(memory['allocator_resident']) > 0
    assert int(memory['allocator_rss_bytes']) == int(memory['allocator_resident']) - int(memory['allocator_active'])
    if server.threads == 1:
        spent = sum(float(cpu['used_cpu_%s_main_thread' % kind]) for kind in ('sys', 'user'))
        assert 0 <= spent <= sum(float(cpu['used_cpu_' + kind]) for kind in ('sys', 'user')) + .02


def test_figures_are_true(server):
    c = server.client()
    before = sections(c, 'everything')
    c.pipeline([('SET', 'k:%d' % n, n) for n in range(500)] + [('SET', 'e', 1, 'EX', 100), ('GET', 'k:1'), ('GET', 'nothing'), ('nonsense',), ('INCR', 'e', 'x')])
    after = sections(c, 'everything')

    def more(section, field):
        return int(after[section][field]) - int(before[section][field])

    assert more('Stats', 'total_commands_processed') == 504 and more('Stats', 'keyspace_hits') == 1 and more('Stats', 'keyspace_misses') == 1
    assert more('Stats', 'total_error_replies') == 2 and more('Stats', 'total_net_input_bytes') > 10000 and more('Persistence', 'rdb_changes_since_last_save') == 501
    assert more('Stats', 'total_reads_processed') >= 1 and more('Stats', 'total_writes_processed') >= 1
    assert after['Commandstats']['cmdstat_set'].startswith('calls=501,')
    [keys, expires, ttl] = [int(x.split('=')[1]) for x in after['Keyspace']['db0'].split(',')]
    assert (keys, expires) == (501, 1) and 0 <= ttl <= 100000
    memory = {k: int(v) for k, v in after['Memory'].items() if v.isdigit()}
    assert memory['used_memory_peak'] >= memory['used_memory'] == memory['used_memory_overhead'] + memory['used_memory_dataset']
    assert memory['mem_clients_normal'] > 0 and memory['total_system_memory'] > memory['used_memory_rss'] > memory['used_memory'] / 2


def test_average_time_to_live(server):
    c = server.client()
    c.pipeline([('SET', 'k:%d' % n, n, 'EX', 1000) for n in range(200)])
    ttl = int(server.info('keyspace')['db0'].split('avg_ttl=')[1])
    assert 900000 < ttl <= 1000000


def test_rates_follow_the_load_and_fall_to_nothing(server):
    """On a machine that takes the CPU away for a while one second is not like the next; what is systematic is there every time."""
    c = server.client()
    for _ in range(10):
        begin, n = time.monotonic(), 0
        while time.monotonic() < begin + 1.2:
            c.pipeline([('SET', 'k', 'v')] * 20)
            n += 20
        stats = server.info('stats')
        rate = n / (time.monotonic() - begin)
        follows = rate / 4 < int(stats['instantaneous_ops_per_sec']) < rate * 4
        assert float(stats['instantaneous_input_kbps']) > 0
        time.sleep(2.5)
        falls = int(server.info('stats')['instantaneous_ops_per_sec']) < rate / 2
        if follows and falls:
            return
    pytest.fail('%d a second, and it says %s; %s' % (rate, stats['instantaneous_ops_per_sec'], 'then it falls' if falls else 'and it stays'))


def test_threads_say_what_they_did(server):
    c = server.client()
    c.pipeline([('SET', 'k:%d' % n, n) for n in range(1000)])
    threads = sections(c, 'threads')['Threads']
    n = int(server.info('server')['threads'])
    total = 0
    for t in range(n):
        fields = dict(f.split('=') for f in threads['thread%d' % t].split(','))
        total += int(fields['commands'])
        for cause in ('tick', 'batch', 'task', 'long', 'housekeeping', 'growth'):
            slices = {k: float(v) for k, v in (f.split('=') for f in threads['thread%d_%s' % (t, cause)].split(','))}
            assert slices['p50_usec'] <= slices['p99_usec'] * 1.001 and slices['longest_usec'] <= slices['usec'] + 1
            if cause == 'tick':
                assert abs(slices['slices'] - float(fields['ticks'])) <= 2
    assert total >= 1000


def test_many_connections_are_looked_at_in_slices(server):
    clients = [server.client() for _ in range(300)]
    for c in clients[:50]:
        c.command('PING')
    assert int(server.info('clients')['connected_clients']) >= 300 and int(server.info('memory')['mem_clients_normal']) > 300 * 100


def test_what_a_client_keeps_for_its_transaction_counts(server):
    c = server.client()

    def bytes_of_clients():
        return int(server.info('memory')['mem_clients_normal'])
    before = bytes_of_clients()
    c.pipeline([('MULTI',)] + [('SET', 'k%d' % n, 'x' * 1000) for n in range(1000)])
    assert bytes_of_clients() - before >= 1000000
    assert c.command('DISCARD') == b'OK'
    assert bytes_of_clients() - before < 500000


def test_asking_does_not_keep_an_idle_server_awake(server):
    c = server.client()
    c.pipeline([('SET', 'k', 'v')] * 100)
    first = server.turns(c)
    time.sleep(1)
    assert server.turns(c) - first < 100
