"""MEMORY, OBJECT FREQ and IDLETIME, and the small commands that libraries ask."""

from resp import Error, Map, Nil


def test_usage(server):
    c = server.client()
    c.command('SET', 'small', 'v')
    c.command('SET', 'large', 'v' * 100000)
    assert 8 <= c.command('MEMORY', 'USAGE', 'small') < 200 and 100000 < c.command('MEMORY', 'USAGE', 'large', 'SAMPLES', 0) < 140000
    assert isinstance(c.command('MEMORY', 'USAGE', 'nothing'), Nil)


def test_stats_add_up(server):
    c = server.client()
    c.pipeline([('SET', 'k:%d' % n, 'v' * 100) for n in range(5000)])
    c.command('HELLO', 3)
    reply = c.command('MEMORY', 'STATS')
    assert isinstance(reply, Map)
    stats = {bytes(k).decode(): v for k, v in reply}
    assert stats['keys.count'] == 5000 and isinstance(stats['db.0'], Map) and stats['keys.bytes-per-key'] > 100
    assert stats['total.allocated'] == stats['overhead.total'] + stats['dataset.bytes'] and stats['peak.allocated'] >= stats['total.allocated']
    assert stats['dataset.bytes'] > 5000 * 100 and stats['allocator.active'] >= stats['allocator.allocated']
    assert c.command('MEMORY', 'PURGE') == b'OK' and c.command('MEMORY', 'MALLOC-STATS') and c.command('MEMORY', 'DOCTOR')


def test_fields_are_those_of_redis(server, reference):
    a, b = reference.client(), server.client()
    for c in (a, b):
        c.pipeline([('FLUSHALL',), ('SET', 'k', 'v')])
    made_up = {b'allocator.resident', b'allocator-rss.ratio', b'allocator-rss.bytes', b'rss-overhead.ratio', b'rss-overhead.bytes', b'fragmentation.bytes'}
    assert set(a.command('MEMORY', 'STATS')[::2]) - set(b.command('MEMORY', 'STATS')[::2]) <= made_up


def test_replies_and_errors_are_those_of_redis(server, reference):
    a, b = reference.client(), server.client()
    a.command('SET', 's', 'v'), b.command('SET', 's', 'v')
    for words in (('MEMORY', 'USAGE', 's', 'SAMPLES'), ('MEMORY', 'USAGE', 's', 'SAMPLES', 'x'), ('MEMORY', 'USAGE', 's', 'SAMPLES', -1), ('MEMORY', 'USAGE', 's', 'x'), ('MEMORY', 'HELP'), ('MEMORY', 'x'),
                  ('OBJECT', 'FREQ', 's'), ('OBJECT', 'FREQ', 'nothing'), ('OBJECT', 'IDLETIME', 'nothing'), ('OBJECT', 'HELP'), ('ROLE',), ('WAIT', 0, 0), ('WAIT', 0, 10),
                  ('WAIT', 'x', 0), ('WAIT', 0, 'x'), ('WAIT', 0, -1), ('REPLICAOF', 'no', 'one'), ('SLAVEOF', 'NO', 'ONE'), ('REPLICAOF', 'a', 'b'), ('REPLICAOF', 'a', 70000), ('MODULE', 'LIST'), ('ACL', 'WHOAMI')):
        assert a.command(*words) == b.command(*words), words
    assert isinstance(a.command('OBJECT', 'IDLETIME', 's'), int) and isinstance(b.command('OBJECT', 'IDLETIME', 's'), int)  # seconds pass
    assert isinstance(b.command('REPLICAOF', '127.0.0.1', 6379), Error)
    assert b.command('LASTSAVE') == int(server.info('persistence')['rdb_last_save_time'])
    for words in ((), ('VERSION', 5, 1, 1), ('VERSION', 99)):
        assert b'Redis ver. ' in b.command('LOLWUT', *words)
    assert a.command('LOLWUT', 'VERSION', 'x') == b.command('LOLWUT', 'VERSION', 'x')


def test_debug_replies_are_those_of_redis(start, reference):
    server = start(options=[('enable-debug-command', 'yes')])
    for protocol in (2, 3):
        a, b = reference.client(), server.client()
        a.command('HELLO', protocol), b.command('HELLO', protocol)
        for words in [('PROTOCOL', t) for t in 'string integer double bignum null array set map verbatim true false nonsense'.split()] + [
                ('ERROR', 'MY error'), ('QUICKLIST-PACKED-THRESHOLD', 'x'), ('QUICKLIST-PACKED-THRESHOLD', '100b'), ('CHANGE-REPL-ID',), ('LOG', 'hello')]:
            assert a.command('DEBUG', *words) == b.command('DEBUG', *words), words
    before = server.info('replication')['master_replid']
    b.command('DEBUG', 'CHANGE-REPL-ID')
    after = server.info('replication')['master_replid']
    assert len(before) == len(after) == 40 and before != after
    assert isinstance(b.command('DEBUG', 'LOADAOF'), Error)
