"""SLOWLOG: one log of all threads."""

import time

from resp import Error


def test_entries_of_all_threads_newest_first(server):
    c = server.client()
    c.command('CONFIG', 'SET', 'slowlog-log-slower-than', 0)
    c.command('SLOWLOG', 'RESET')
    clients = [server.client() for _ in range(6)]
    for n, d in enumerate(clients):
        d.command('CLIENT', 'SETNAME', 'client-%d' % n)
        d.command('SET', 'key:%d' % n, 'v')
    log = c.command('SLOWLOG', 'GET', -1)
    ids = [e[0] for e in log]
    assert ids == sorted(ids, reverse=True) and len(set(ids)) == len(ids)
    sets = [e for e in log if e[3][0] == b'SET']
    assert [e[3] for e in sets] == [[b'SET', b'key:%d' % n, b'v'] for n in reversed(range(6))]
    for n, e in enumerate(reversed(sets)):
        assert abs(e[1] - time.time()) < 100 and e[2] >= 0 and e[4].startswith(b'127.0.0.1:') and e[5] == b'client-%d' % n
    assert len(c.command('SLOWLOG', 'GET')) == 10 and len(c.command('SLOWLOG', 'GET', 3)) == 3 and c.command('SLOWLOG', 'GET', 0) == []
    assert c.command('SLOWLOG', 'LEN') >= 12


def test_length_is_that_of_the_whole_log(server):
    c = server.client()
    c.command('CONFIG', 'SET', 'slowlog-log-slower-than', 0, 'slowlog-max-len', 5)
    for n in range(8):
        d = server.client()
        for i in range(4):
            d.command('SET', 'k:%d' % i, n)
    assert c.command('SLOWLOG', 'LEN') == 5 and len(c.command('SLOWLOG', 'GET', -1)) == 5
    c.command('CONFIG', 'SET', 'slowlog-log-slower-than', -1)
    assert c.command('SLOWLOG', 'RESET') == b'OK' and c.command('SLOWLOG', 'LEN') == 0 and c.command('SLOWLOG', 'GET') == []
    c.command('SET', 'k', 'v')
    assert c.command('SLOWLOG', 'LEN') == 0


def test_what_is_long_or_secret_is_cut(server):
    c = server.client()
    c.command('CONFIG', 'SET', 'slowlog-log-slower-than', 0)
    c.command('AUTH', 'someone', 'sesame')
    for name in 'requirepass', 'masteruser', 'MasterAuth', 'tls-key-file-pass', 'tls-client-key-file-pass':
        assert c.command('CONFIG', 'SET', name, 'sesame') == b'OK'
    c.command('SET', 'k', 'v' * 1000)
    c.command('DEL', *['k%d' % n for n in range(100)])
    log = c.command('SLOWLOG', 'GET', -1)
    assert not any(b'sesame' in a for e in log for a in e[3])
    assert [b'AUTH', b'(redacted)', b'(redacted)'] in [e[3] for e in log]
    [value] = [e[3][2] for e in log if e[3][:2] == [b'SET', b'k']]
    assert value == b'v' * 128 + b'... (872 more bytes)'
    [args] = [e[3] for e in log if e[3][0] == b'DEL']
    assert len(args) == 32 and args[-1] == b'... (70 more arguments)'


def test_errors_are_those_of_redis(server, reference):
    a, b = reference.client(), server.client()
    for words in (('GET', -2), ('GET', 'x'), ('GET', 1, 2), ('LEN', 1), ('nonsense',)):
        want, have = a.command('SLOWLOG', *words), b.command('SLOWLOG', *words)
        assert isinstance(have, Error)
        if words != ('GET', 1, 2):
            assert want == have, words
    assert a.command('SLOWLOG', 'HELP') == b.command('SLOWLOG', 'HELP')


def test_a_length_beyond_all_memory(server):
    """Room is made as entries come; less of it keeps the newest."""
    c = server.client()
    assert c.command('CONFIG', 'SET', 'slowlog-max-len', 2 ** 63 - 1, 'slowlog-log-slower-than', 0) == b'OK'
    c.pipeline([('ECHO', n) for n in range(300)])
    assert c.command('CONFIG', 'SET', 'slowlog-log-slower-than', 2 ** 63 - 1) == b'OK'
    assert c.command('SLOWLOG', 'LEN') >= 300 and b'ECHO' in [e[3][0] for e in c.command('SLOWLOG', 'GET', -1)]
    assert len([e for e in c.command('SLOWLOG', 'GET', -1) if e[3][0] == b'ECHO']) == 300
    assert c.command('CONFIG', 'SET', 'slowlog-max-len', 10, 'slowlog-log-slower-than', 0) == b'OK'
    c.pipeline([('ECHO', 'x')] * 20)
    assert [e[3] for e in c.command('SLOWLOG', 'GET', -1)] == [[b'ECHO', b'x']] * 10
