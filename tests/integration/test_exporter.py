"""prometheus-redis-exporter reads the server without an error, and shows what INFO says."""

import re
import shutil
import subprocess
import urllib.request

import pytest

from server import PATIENCE, free_port, wait_for

pytestmark = pytest.mark.each_back_end


def test_exporter(server):
    program = shutil.which('prometheus-redis-exporter')
    if not program:
        pytest.skip('prometheus-redis-exporter is not installed')
    c = server.client()
    c.pipeline([('SET', 'k:%d' % n, n) for n in range(100)] + [('GET', 'k:1'), ('GET', 'nothing'), ('EXPIRE', 'k:1', 1000)])
    port = free_port()
    exporter = subprocess.Popen([program, '--redis.addr', 'redis://127.0.0.1:%d' % server.port, '--web.listen-address', '127.0.0.1:%d' % port], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        def metrics():
            try:
                return urllib.request.urlopen('http://127.0.0.1:%d/metrics' % port, timeout=PATIENCE).read().decode()
            except OSError:
                return None
        text = wait_for(metrics)
    finally:
        exporter.terminate()
        said = exporter.communicate()[1].decode()
    assert 'level=error' not in said and 'level=warning' not in said, said
    metrics = dict(re.findall(r'^(redis_\S+(?:\{[^}]*\})?) (\S+)$', text, re.MULTILINE))

    def value(name):
        return float(metrics[name])

    assert value('redis_up') == 1 and value('redis_exporter_last_scrape_error{err=""}') == 0
    assert value('redis_db_keys{db="db0"}') == 100 and value('redis_db_keys_expiring{db="db0"}') == 1
    assert value('redis_keyspace_hits_total') == 1 and value('redis_keyspace_misses_total') == 1
    assert value('redis_commands_total{cmd="set"}') == 100
    now = {k: v for k, v in server.info('everything').items()}
    for metric, field in (('redis_config_maxclients', 'maxclients'), ('redis_connected_slaves', 'connected_slaves'), ('redis_memory_max_bytes', 'maxmemory'), ('redis_blocked_clients', 'blocked_clients'),
                          ('redis_expired_keys_total', 'expired_keys'), ('redis_start_time_seconds', None), ('redis_memory_used_bytes', None), ('redis_slowlog_length', None), ('redis_rdb_changes_since_last_save', 'rdb_changes_since_last_save')):
        assert metric in metrics, metric
        if field:
            assert value(metric) == float(now[field]), metric
