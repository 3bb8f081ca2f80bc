"""Each directive that docs/configuration.md says is in effect has a test that shows what it does: which one, and those that stand nowhere else."""

import ast
import os
import re
import shutil
import subprocess
import time

import pytest

from configurations import LIGHT
from resp import NIL, encode
from server import PATIENCE, ROOT, Server
from test_config import DOCUMENT

# Directive: file and function of the test that shows it at work.
SHOWN_BY = {
    'bind': 'listening::addresses_that_overlap', 'port': 'listening::a_new_port_takes_the_place_of_the_old_one', 'tcp-backlog': 'config_effects::tcp_backlog',
    'tcp-keepalive': 'config_effects::tcp_keepalive', 'timeout': 'connections::timeout_closes_who_is_idle_and_nobody_else', 'unixsocket': 'connections::unix_socket_with_permissions',
    'unixsocketperm': 'connections::unix_socket_with_permissions', 'maxclients': 'connections::maxclients', 'protected-mode': 'connections::all_addresses', 'requirepass': 'connections::requirepass',
    'shutdown-on-sigterm': 'shutdown::signals_save_as_they_are_told', 'shutdown-on-sigint': 'shutdown::signals_save_as_they_are_told',
    'reported-redis-version': 'config::the_reported_version', 'threads': 'config_effects::threads_are_pinned', 'io': 'config_effects::io', 'pin': 'config_effects::threads_are_pinned',
    'prefetch': 'config_effects::prefetch', 'lend': 'lend::nothing_is_lent_if_so_configured', 'databases': 'config::command_line', 'proto-max-bulk-len': 'config::config_set_takes_hold',
    'client-query-buffer-limit': 'protocol::client_query_buffer_limit', 'client-output-buffer-limit': 'backpressure::a_client_that_never_reads_is_closed_at_its_hard_limit',
    'maxmemory': 'growth::the_limit_may_be_lowered_and_raised', 'maxmemory-clients': 'clients::clients_above_their_memory_limit_go_the_largest_first', 'huge-pages': 'config_effects::huge_pages',
    'dir': 'config::what_was_applied_is_undone', 'loglevel': 'logs::levels', 'logfile': 'logs::a_file_is_opened_anew_on_sighup', 'syslog-enabled': 'logs::syslog', 'syslog-ident': 'logs::syslog',
    'syslog-facility': 'logs::syslog', 'crash-log-enabled': 'logs::the_report_can_be_left_out', 'watchdog-period': 'logs::the_watchdog_names_a_thread_that_hangs', 'daemonize': 'service::background',
    'pidfile': 'service::the_pidfile_is_written_and_removed', 'supervised': 'service::systemd_is_told', 'set-proc-title': 'service::the_title_is_that_of_redis',
    'proc-title-template': 'service::the_title_follows_the_configuration', 'oom-score-adj': 'service::oom_score', 'oom-score-adj-values': 'service::oom_score',
    'hll-sparse-max-bytes': 'hyperloglog::sparse_values_grow_up_to_the_limit',
    'hash-max-listpack-entries': 'hashes::a_hash_beyond_a_limit_is_shown_as_large_for_good', 'hash-max-listpack-value': 'hashes::a_hash_beyond_a_limit_is_shown_as_large_for_good',
    'list-max-listpack-size': 'lists::list_max_listpack_size_is_how_much_a_node_holds', 'set-max-intset-entries': 'sets::the_limit_of_integers_follows_the_configuration',
    'zset-max-listpack-entries': 'zsets::one_beyond_a_limit_is_shown_as_large_for_good', 'zset-max-listpack-value': 'zsets::one_beyond_a_limit_is_shown_as_large_for_good',
    'enable-debug-command': 'admin::debug_needs_permission', 'enable-protected-configs': 'config::protected_directives', 'slowlog-log-slower-than': 'slowlog::entries_of_all_threads_newest_first',
    'slowlog-max-len': 'slowlog::length_is_that_of_the_whole_log', 'latency-tracking': 'config_effects::latency_tracking', 'latency-tracking-info-percentiles': 'config_effects::latency_tracking',
    'latency-monitor-threshold': 'latency::nothing_is_kept_below_the_threshold', 'housekeeping-percent': 'config_effects::housekeeping_gets_its_share_of_a_busy_thread',
}


def in_effect():
    with open(DOCUMENT) as f:
        return set(re.findall(r'^\| `([^`]+)`', f.read().split('\n## Accepted')[0], re.M))


def source_of(test):
    file, name = test.split('::')
    with open(os.path.join(ROOT, 'tests', 'integration', 'test_%s.py' % file)) as f:
        text = f.read()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == 'test_' + name:
            return ast.get_source_segment(text, node)
    return None


def test_every_directive_in_effect_has_a_test_that_shows_it():
    names = in_effect()
    assert names and SHOWN_BY.keys() == names, (names - SHOWN_BY.keys(), SHOWN_BY.keys() - names)
    for name, test in SHOWN_BY.items():
        source = source_of(test)
        assert source, '%s: there is no test %s' % (name, test)
        # Where the test takes its options from a list, the fixture or what it calls names the directive.
        assert name in source or name in ('set-proc-title', 'daemonize', 'timeout'), '%s does not name %s' % (test, name)


needs_ss = pytest.mark.skipif(not shutil.which('ss'), reason='ss is not installed (package iproute2)')


def ss(*arguments):
    return subprocess.run(['ss', '-tnH', *arguments], capture_output=True, text=True, check=True).stdout


@needs_ss
@pytest.mark.each_back_end
def test_tcp_backlog(start):
    server = start(options=[('tcp-backlog', 37), ('bind', '127.0.0.1')])
    assert ss('-l', 'sport', '= :%d' % server.port).split()[2] == '37'


@needs_ss
def test_tcp_keepalive(start):
    server = start(options=[('tcp-keepalive', 3000), ('bind', '127.0.0.1')])
    c = server.client()

    def timers():
        """What is shown as soon as nothing waits for its acknowledgement, whose timer is shown instead."""
        end = time.monotonic() + PATIENCE
        while 'timer:(on,' in (shown := ss('-o', 'sport', '= :%d' % server.port)) and time.monotonic() < end:
            time.sleep(.05)
        return re.findall(r'timer:\(keepalive,(\w+)', shown)

    assert c.command('PING') == b'PONG'
    [timer] = timers()
    assert timer.startswith(('49min', '50min'))
    assert c.command('CONFIG', 'SET', 'tcp-keepalive', 0) == b'OK'
    assert server.client().command('PING') == b'PONG' and len(timers()) == 1      # connections from then on


def allowed_cpus(server):
    lists = []
    for task in os.listdir('/proc/%d/task' % server.process.pid):
        with open('/proc/%d/task/%s/status' % (server.process.pid, task)) as f:
            lists.append(re.search(r'^Cpus_allowed_list:\s+(\S+)', f.read(), re.M)[1])
    return lists


def test_threads_are_pinned():
    every = sorted(os.sched_getaffinity(0))
    for threads in (2, 3):
        for pin in ('yes', 'no'):
            with Server(io='epoll', options=[('threads', threads), ('pin', pin)]) as server:
                assert server.info('server')['threads'] == str(threads)
                ones = [x for x in allowed_cpus(server) if x.isdigit()]
                if len(every) > 1:
                    assert len(ones) == (threads if pin == 'yes' else 0)


@pytest.mark.each_back_end
def test_io(start):
    server = start()
    assert server.info('server')['multiplexing_api'] == {'uring': 'io_uring', 'epoll': 'epoll'}[server.io]
    assert server.client().command('CONFIG', 'GET', 'io') == [b'io', server.io.encode()]


@pytest.mark.each_back_end
def test_prefetch(start):
    server = start(threads=1)
    c = server.client()
    counts = []
    for level in ('none', 'full'):
        assert c.command('CONFIG', 'SET', 'prefetch', level) == b'OK'
        before = int(server.info()['prefetched_hops'])
        c.pipeline([('GET', n) for n in range(500)])
        counts.append(int(server.info()['prefetched_hops']) - before)
    assert counts[0] == 0 and counts[1] > 100


@pytest.mark.skipif(not os.path.exists('/sys/kernel/mm/transparent_hugepage/enabled'), reason='this kernel has no huge pages')
def test_huge_pages():
    """What is advised huge, and what the kernel then gave (unless it gives none at all, or them to everybody)."""
    with open('/sys/kernel/mm/transparent_hugepage/enabled') as f:
        given_as_advised = '[madvise]' in f.read()
    advised, huge_kb = [], []
    for setting in ('yes', 'no'):
        with Server(io='epoll', threads=1, options=[('huge-pages', setting)]) as server:
            server.client().pipeline([('SET', n, 'x' * 100) for n in range(2000)])
            with open('/proc/%d/smaps' % server.process.pid) as f:
                lines = f.readlines()
            advised.append(sum(' hg' in line for line in lines if line.startswith('VmFlags:')))
            huge_kb.append(sum(int(line.split()[1]) for line in lines if line.startswith('AnonHugePages:')))
    assert advised[0] > advised[1]
    if given_as_advised and not advised[1]: # a sanitizer may advise for itself
        assert huge_kb[0] >= 2048 and huge_kb[1] == 0


def test_latency_tracking(server):
    c = server.client()
    c.pipeline([('SET', n, n) for n in range(100)])
    assert re.fullmatch(r'p50=[\d.]+,p99=[\d.]+,p99.9=[\d.]+', server.info('latencystats')['latency_percentiles_usec_set'])
    assert c.command('CONFIG', 'SET', 'latency-tracking-info-percentiles', '10 75.5') == b'OK'
    assert re.fullmatch(r'p10=[\d.]+,p75.5=[\d.]+', server.info('latencystats')['latency_percentiles_usec_set'])
    assert c.command('CONFIG', 'SET', 'latency-tracking', 'no') == b'OK'
    assert not any(name.startswith('latency_percentiles') for name in server.info('latencystats'))


def expired_beside_commands(c, percent, keys, commands):
    """Of so many keys that are past their time, how many a thread frees while it runs these commands, one a turn, so that no turn is idle."""
    assert c.command('CONFIG', 'SET', 'housekeeping-percent', percent) == b'OK' and c.command('DEBUG', 'SET-ACTIVE-EXPIRE', 0) == b'OK'
    c.send(b'CLIENT REPLY OFF\r\n' + b''.join(b'SET key:%d v PX 1\r\n' % n for n in range(keys)) + b'CLIENT REPLY ON\r\n')
    assert c.read() == b'OK'
    while c.command('GET', 'key:%d' % (keys - 1)) is not NIL:
        pass

    # All of it is on its way at once: a command that asks every shard is a turn of its own, however many wait behind it. What housekeeping may
    # have saved up, 2 ms, goes in the first turns.
    ask = b'CLIENT REPLY ON\n' + encode('INFO', 'stats') + b'CLIENT REPLY OFF\n'
    c.send(b'CLIENT REPLY OFF\nDEBUG SET-ACTIVE-EXPIRE 1\n' + b'DBSIZE\n' * 40 + ask + b'DBSIZE\n' * commands + ask + b'CLIENT REPLY ON\n')
    expired = []
    for _ in range(2):
        assert c.read() == b'OK'
        expired.append(int(re.search(rb'expired_keys:(\d+)', bytes(c.read()))[1]))
    assert c.read() == b'OK' and c.command('FLUSHALL') == b'OK'
    return expired[1] - expired[0]


@pytest.mark.alone
@pytest.mark.measures
@pytest.mark.each_back_end
def test_housekeeping_gets_its_share_of_a_busy_thread(start):
    """housekeeping-percent: beside the same commands, 1 % frees a fraction of what 80 % frees; how fast either is, does not matter."""
    c = start(threads=1, options=[('enable-debug-command', 'yes')]).client(timeout=PATIENCE)
    keys, commands = (30000, 2000) if LIGHT else (300000, 10000)
    few = many = 0
    for turn in range(10):  # a machine that takes the CPU away gives 1 % of that time to housekeeping as well
        few += expired_beside_commands(c, 1, keys, commands)
        many += expired_beside_commands(c, 80, keys, commands)
        if turn >= 2 and 0 < few * 3 < many:
            return
    pytest.fail('freed with 1 %%: %d, and with 80 %%: %d' % (few, many))
