"""CLIENT: what clients are told of each other, and do to each other, over all threads."""

import re
import resource
import select
import time

import pytest

from resp import Client, Closed, Error, encode
from server import SLOW, wait_for


def lines_of(client, *args):
    """CLIENT LIST as a list of dicts."""
    text = client.command('CLIENT', 'LIST', *args)
    return [dict(field.partition('=')[::2] for field in line.split(' ')) for line in bytes(text).decode().splitlines()]


def closed(client):
    """Does the server end this connection?"""
    try:
        client.command('PING')
    except (ConnectionError, Closed):
        return True
    return False


def test_list_shows_every_client_once_with_its_session(server):
    clients = [server.client() for _ in range(9)]
    for i, c in enumerate(clients):
        assert c.command('CLIENT', 'SETNAME', 'name-%d' % i) == b'OK'
        assert c.command('SELECT', i) == b'OK'
    clients[3].command('HELLO', '3')
    listed = {line['name']: line for line in lines_of(clients[0])}
    assert len(listed) == 9
    for i, c in enumerate(clients):
        line = listed['name-%d' % i]
        assert line['db'] == str(i) and line['id'] == str(c.command('CLIENT', 'ID'))
        assert line['resp'] == ('3' if i == 3 else '2')
        assert re.fullmatch(r'127\.0\.0\.1:\d+', line['addr']) and line['laddr'].endswith(':%d' % server.port)
    assert listed['name-0']['cmd'] == 'client|list' and listed['name-1']['cmd'] == 'select'


def test_list_filters_by_id_and_type(server):
    a, b = server.client(), server.client()
    ids = [a.command('CLIENT', 'ID'), b.command('CLIENT', 'ID')]
    assert [line['id'] for line in lines_of(a, 'ID', ids[1])] == [str(ids[1])]
    assert {line['id'] for line in lines_of(a, 'ID', *ids, 123456)} == {str(i) for i in ids}
    assert len(lines_of(a, 'TYPE', 'normal')) == 2 and not lines_of(a, 'TYPE', 'replica') and not lines_of(a, 'TYPE', 'pubsub')
    for wrong, says in ((('TYPE', 'x'), b"ERR Unknown client type 'x'"), (('ID', 'x'), b'ERR Invalid client ID'), (('FOO',), b'ERR syntax error')):
        with_error = a.command('CLIENT', 'LIST', *wrong)
        assert isinstance(with_error, Error) and bytes(with_error) == says


def test_lines_are_those_of_redis(server, reference):
    """Fields, their order, flags, and the last command, also one that was refused."""
    answers = []
    for one in (reference, server):
        admin, monitor = one.client(), one.client()
        assert monitor.command('MONITOR') == b'OK'
        seen = []
        for commands in ([('PING',)], [('NONSENSE',)], [('CLIENT', 'NONSENSE')], [('GET',)], [('DEBUG', 'NONSENSE')], [('DEBUG', 'SLEEP', '0')], [('CONFIG', 'GET', 'x')],
                         [('CLIENT', 'NO-EVICT', 'on'), ('SELECT', 3), ('HELLO', 3), ('CLIENT', 'SETNAME', 'me')], [('CLIENT', 'KILL', 'x')]):
            c = one.client()
            c.pipeline(commands)
            seen.append(lines_of(admin, 'ID', c.command('CLIENT', 'ID'))[0]['cmd'])
            c.pipeline(commands)
            line = [l for l in lines_of(admin) if l['addr'] == '127.0.0.1:%d' % c.socket.getsockname()[1]][0]
            seen.append([*line, *(line[field] for field in ('flags', 'cmd', 'name', 'db', 'resp', 'multi', 'redir', 'user', 'events'))])
        seen += [sorted({(*l, l['flags']) for l in lines_of(admin) if l['cmd'] == 'monitor'})]
        answers.append(seen)
    assert answers[0] == answers[1]


def test_lines_of_clients_that_said_which_library_they_use_end_with_it(server):
    if server.kind == 'redis':
        pytest.skip('7.2')
    c = server.client()
    assert 'lib-name' not in lines_of(c)[0]
    assert c.pipeline([('CLIENT', 'SETINFO', 'LIB-NAME', 'x'), ('CLIENT', 'SETINFO', 'LIB-VER', '1.2')]) == [b'OK', b'OK']
    assert list(lines_of(c)[0].items())[-2:] == [('lib-name', 'x'), ('lib-ver', '1.2')]


def test_wrong_subcommands_get_the_errors_of_redis(start, reference):
    server = start(options=[('enable-debug-command', 'yes')])
    a, b = reference.client(), server.client()
    for line in ('CLIENT PAUSE 1 WRITE x', 'client pause x x', 'CLIENT PAUSE x WRITE', 'CLIENT UNBLOCK 1 ERROR x', 'CLIENT UNBLOCK x x', 'SLOWLOG GET 1 2', 'SLOWLOG GET x y', 'DEBUG NONSENSE', 'DEBUG SLEEP',
                 'DEBUG OBJECT k x', 'DEBUG HELP x', 'DEBUG POPULATE x', 'DEBUG POPULATE 1 q x', 'DEBUG POPULATE 1 q 1 x', 'DEBUG POPULATE 2 q 0', 'GET q:1', 'DEL q:0 q:1'):
        assert repr(a.command(*line.split())) == repr(b.command(*line.split())), line


def test_kill_by_id_address_and_type(server):
    a, b, c = server.client(), server.client(), server.client()
    assert a.command('CLIENT', 'KILL', 'ID', b.command('CLIENT', 'ID')) == 1
    assert closed(b)
    address = lines_of(a, 'ID', c.command('CLIENT', 'ID'))[0]['addr']
    assert a.command('CLIENT', 'KILL', address) == b'OK'
    assert closed(c)
    assert bytes(a.command('CLIENT', 'KILL', address)) == b'ERR No such client'
    others = [server.client() for _ in range(6)]
    for other in others:
        other.command('PING')
    assert a.command('CLIENT', 'KILL', 'TYPE', 'normal') == 6
    assert all(closed(other) for other in others)
    assert a.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'no') == 1      # answered, then closed
    assert closed(a)


def quit_unread(server, times=20):
    """A client that says good-bye behind replies that it never reads: more than sockets hold."""
    with server.client() as c:
        c.command('SET', 'big', b'x' * 1000000)
    c = server.client(receive_buffer=4096)
    assert c.command('PING') == b'PONG'
    c.send(encode('GET', 'big') * times + encode('QUIT'))
    return c


def only_one_is_left(client):
    wait_for(lambda: len(lines_of(client)) == 1)


def test_kill_ends_those_that_close_after_replies_nobody_reads(server):
    admin, held = server.client(), quit_unread(server)
    wait_for(lambda: any(line['cmd'] == 'quit' for line in lines_of(admin)))
    assert admin.command('CLIENT', 'KILL', 'TYPE', 'normal') == 1
    only_one_is_left(admin)
    held.close()


@pytest.mark.parametrize('limit', [('client-output-buffer-limit', 'normal 1mb 0 0'), ('client-output-buffer-limit', 'normal 0 1mb 1'),
                                   ('maxmemory-clients', '2mb'), ('timeout', '1')], ids=['hard', 'soft', 'memory', 'timeout'])
def test_limits_hold_for_those_that_close_after_their_replies(server, limit):
    admin = server.client()
    assert admin.command('CONFIG', 'SET', *limit) == b'OK'
    admin.close()
    held = quit_unread(server)

    def gone():
        """Asked by a new client each time: one of the limits is for idle clients, which on a busy machine this one might be."""
        with server.client() as c:
            return len(lines_of(c)) == 1
    wait_for(gone)
    held.close()


def test_list_of_a_client_that_is_alone(server):
    """Other threads have had no client yet."""
    assert len(lines_of(server.client())) == 1


def test_list_of_ids_that_nobody_has_is_empty(server):
    assert bytes(server.client().command('CLIENT', 'LIST', 'ID', '999999')) == b''


def test_whoever_is_killed_is_gone_before_the_reply(server):
    """A connection that may be used next must show its end at once, and not at the end of its next command."""
    killer, others = server.client(), [server.client() for _ in range(300)]
    for other in others:
        assert other.command('PING') == b'PONG'
    ends = select.poll()
    for other in others:
        ends.register(other.socket, select.POLLIN)
    assert killer.command('CLIENT', 'KILL', 'TYPE', 'normal') == 300
    assert len(ends.poll(0)) == 300


def test_kill_refuses_what_it_does_not_know(server):
    c = server.client()
    for args, says in ((('ID', '0'), b'ERR client-id should be greater than 0'), (('ID', 'x'), b'ERR client-id should be greater than 0'),
                       (('TYPE', 'x'), b"ERR Unknown client type 'x'"), (('USER', 'nobody'), b"ERR No such user 'nobody'"), (('FOO', 'x'), b'ERR syntax error'),
                       (('ID', '1', 'TYPE'), b'ERR syntax error'), (('SKIPME', 'perhaps'), b'ERR syntax error')):
        assert bytes(c.command('CLIENT', 'KILL', *args)) == says
    assert c.command('PING') == b'PONG'


def test_pause_write_lets_reads_go_on_and_holds_writes_until_unpause(server):
    admin, reader = server.client(), server.client()
    reader.command('SET', 'k', 'old')
    assert admin.command('CLIENT', 'PAUSE', 100000, 'WRITE') == b'OK'
    writers = [server.client() for _ in range(4)]
    for i, w in enumerate(writers):
        w.send(encode('SET', 'k%d' % i, 'new') + encode('GET', 'k%d' % i))
    assert reader.command('GET', 'k') == b'old'
    for i in range(4):
        assert not reader.command('GET', 'k%d' % i)
    assert admin.command('CLIENT', 'UNPAUSE') == b'OK'
    for w in writers:
        assert w.read() == b'OK' and w.read() == b'new'


def test_clients_that_leave_during_a_pause_are_gone_and_their_commands_with_them(server):
    """A pause may be long: those that come, wait and give up must not fill maxclients."""
    admin = server.client()
    assert admin.command('CLIENT', 'PAUSE', 1000000, 'WRITE') == b'OK'
    for _ in range(10):
        with server.client() as c:
            c.send(encode('PING') + encode('SET', 'k', 'v'))
            assert c.read() == b'PONG'
            wait_for(lambda: any(line['cmd'] == 'set' for line in lines_of(admin)))
    only_one_is_left(admin)
    assert admin.command('CLIENT', 'UNPAUSE') == b'OK'
    assert admin.command('EXISTS', 'k') == 0


def test_a_pause_ends_by_itself(server):
    admin, writer = server.client(), server.client()
    assert admin.command('CLIENT', 'PAUSE', 60, 'WRITE') == b'OK'
    assert writer.command('SET', 'k', 'v') == b'OK'


def test_during_a_pause_an_expired_key_is_hidden_and_not_deleted(server):
    admin, reader = server.client(), server.client()
    for ms in (200, 2000, 20000):
        begin = time.monotonic()
        assert admin.pipeline([('SET', 'k', 'v', 'PX', ms), ('CLIENT', 'PAUSE', 100000, 'WRITE')]) == [b'OK', b'OK']
        if time.monotonic() - begin < ms / 1000:        # else it may have been too late
            break
        admin.pipeline([('CLIENT', 'UNPAUSE'), ('DEL', 'k')])   # what is left of it would count below
        assert admin.command('CONFIG', 'RESETSTAT') == b'OK'
    wait_for(lambda: not reader.command('GET', 'k'))
    time.sleep(.1)
    assert server.info('stats')['expired_keys'] == '0'
    admin.command('CLIENT', 'UNPAUSE')
    wait_for(lambda: server.info('stats')['expired_keys'] == '1')


def test_the_longest_pause_is_taken(server):
    a, b = server.client(), server.client()
    assert a.command('CLIENT', 'PAUSE', str(2 ** 63 - 1), 'WRITE') == b'OK'
    b.send(encode('SET', 'k', 'v'))
    assert a.command('CLIENT', 'UNPAUSE') == b'OK'
    assert b.read() == b'OK'


def test_pause_refuses_bad_arguments(server):
    c = server.client()
    for args, says in ((('x',), b'ERR timeout is not an integer or out of range'), (('-1',), b'ERR timeout is negative'),
                       (('10', 'x'), b'ERR CLIENT PAUSE mode must be WRITE or ALL')):
        assert bytes(c.command('CLIENT', 'PAUSE', *args)) == says
    assert c.command('SET', 'k', 'v') == b'OK'


def test_clients_above_their_memory_limit_go_the_largest_first(start):
    server = start(options=[('maxmemory-clients', '8mb')])
    small = server.client()
    small.command('SET', 'v', 'x' * 10000)
    protected = server.client(receive_buffer=4096)
    protected.command('CLIENT', 'NO-EVICT', 'on')
    greedy = server.client(receive_buffer=4096)
    with pytest.raises((ConnectionError, Closed)):
        for _ in range(3000):
            greedy.send(encode('GET', 'v') * 10)
        greedy.read()
        while True:
            greedy.read()
    assert small.command('PING') == b'PONG'
    assert int(server.info('stats')['evicted_clients']) >= 1


def test_small_clients_of_any_thread_stay_while_large_ones_go(server):
    small = [server.client() for _ in range(8)]
    assert small[0].command('CONFIG', 'SET', 'maxmemory-clients', '2mb') == b'OK'
    small[0].command('SET', 'big', b'x' * 1000000)
    for count in range(1, 1 + int(40 / SLOW)):
        greedy = server.client(receive_buffer=4096)
        greedy.send(encode('GET', 'big') * 20)
        while int(re.search(rb'evicted_clients:(\d+)', bytes(small[0].command('INFO', 'stats'))).group(1)) < count:
            assert all(c.command('PING') == b'PONG' for c in small)
        greedy.close()


def test_a_large_idle_client_goes_for_what_small_ones_on_other_threads_take(server):
    """Half an argument is held for each: the thread of the large one sleeps while the small ones make it too much."""
    admin = server.client()
    assert admin.command('CONFIG', 'SET', 'maxmemory-clients', '4mb') == b'OK'
    large = server.client()
    large.send(b'*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3000000\r\n' + b'x' * 2900000)
    wait_for(lambda: any(int(line['tot-mem']) > 2900000 for line in lines_of(admin)))
    small = [server.client() for _ in range(24)]
    for c in small:
        c.send(b'*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n' + b'x' * 90000)
    assert closed(large)
    for c in small:
        c.send(b'x' * 10000 + b'\r\n')
        assert c.read() == b'OK'


def long_slices(client, figure='slices'):
    """Of each thread's long commands: how many slices they took, or how many us of CPU time (usec)."""
    return [float(x) for x in re.findall(rb'^thread\d+_long:.*\b%s=([\d.]+)' % figure.encode(), bytes(client.command('INFO', 'threads')), re.M)]


@pytest.mark.alone
@pytest.mark.each_back_end
def test_list_of_ten_thousand_clients_takes_many_slices(start):
    """Of 16 clients each, whatever a client costs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = 1000 if SLOW > 1 else 10000
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    many = []
    try:
        server = start(threads=2, options=[('maxclients', count + 100)])
        many = [Client(server.address()) for _ in range(count)]
        with server.client() as c:
            for protocol in (2, 3):
                c.command('HELLO', protocol)
                c.command('CONFIG', 'RESETSTAT')
                lines = c.command('CLIENT', 'LIST').splitlines()
                assert len({line.split(b' ')[0] for line in lines}) == len(lines) == count + 1
                print('the longest slice of each thread took so many us of CPU: %s' % long_slices(c, 'longest_usec'))
                assert min(long_slices(c)) >= (count / 2 - 10) / 16, long_slices(c)     # connections are dealt in turn
    finally:
        for c in many:
            c.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_ids_are_listed_as_often_as_they_are_given(server, reference):
    """By one thread in their order, too: whose connections these are."""
    for subject in (server, reference):
        c, other = subject.client(), subject.client()
        one, two = c.command('CLIENT', 'ID'), other.command('CLIENT', 'ID')
        ids = [two, one, 10 ** 12, two, two, 0, one]
        text = bytes(c.command('CLIENT', 'LIST', 'ID', *ids))
        listed = [int(line.split()[0][3:]) for line in text.splitlines()]
        assert sorted(listed) == sorted(n for n in ids if n in (one, two))
        if subject is reference or subject.threads == 1:
            assert listed == [two, one, two, two, one]


def test_names_of_any_length_are_shown_whole(server):
    """A line has no end but its newline, whatever its client calls itself."""
    c, other = server.client(), server.client()
    number, name, library = other.command('CLIENT', 'ID'), b'n' * 3000000, b'l' * 70000
    assert other.command('CLIENT', 'SETNAME', name) == b'OK' and other.command('CLIENT', 'SETINFO', 'LIB-NAME', library) == b'OK'
    for protocol in (2, 3):
        other.command('HELLO', protocol)
        own = bytes(other.command('CLIENT', 'INFO'))
        for text in (own, bytes(c.command('CLIENT', 'LIST', 'ID', number))):
            text = text.removeprefix(b'txt:')
            fields = dict(field.split(b'=', 1) for field in text[:-1].split(b' '))
            assert text.endswith(b'\n') and text.count(b'\n') == 1
            assert fields[b'id'] == b'%d' % number and fields[b'name'] == name and fields[b'lib-name'] == library and fields[b'lib-ver'] == b'' and b'cmd' in fields
            assert int(fields[b'tot-mem']) > len(name) + len(library)
    lines = bytes(c.command('CLIENT', 'LIST')).splitlines()
    assert len(lines) == 2 and all(line.startswith(b'id=') and b' resp=' in line for line in lines)
    assert [line for line in lines if b' name=%b age=' % name in line]


def test_names_count_where_the_memory_of_clients_has_a_limit(start):
    server = start(options=[('maxmemory-clients', '4mb')])
    c, other = server.client(), server.client()
    assert other.command('CLIENT', 'SETNAME', b'n' * 1500000) == b'OK' and other.command('CLIENT', 'SETINFO', 'LIB-NAME', b'n' * 1500000) == b'OK'
    with pytest.raises((Closed, OSError)):
        other.command('CLIENT', 'SETINFO', 'LIB-VER', b'n' * 1500000)
        other.command('PING')
    assert len(c.command('CLIENT', 'LIST').splitlines()) == 1


@pytest.mark.alone
@pytest.mark.each_back_end
def test_a_hundred_thousand_ids_or_filters_hold_nobody_up(start):
    """They are read once, in slices of 512: not by every slice, and not for every connection. How fast, does not matter: many are compared with few."""
    count = 10000 if SLOW > 1 else 100000
    server = start(threads=2)
    c = server.client()
    others, numbers = [], set()

    def cost_us(count):
        """CPU time of both commands. What they take is there every time; the machine's whims are not."""
        ids = [*range(10 ** 9, 10 ** 9 + count), 0, -1, *sorted(numbers)[::2]]
        best = float('inf')
        for _ in range(3):
            c.command('CONFIG', 'RESETSTAT')
            listed = {int(line.split()[0][3:]) for line in bytes(c.command('CLIENT', 'LIST', 'ID', *ids)).splitlines()}
            assert listed == numbers & set(ids)
            assert c.command('CLIENT', 'KILL', *['SKIPME', 'yes'] * (count // 2), 'ID', 10 ** 9, 'TYPE', 'normal') == 0
            assert min(long_slices(c)) >= 2 * count / 512, long_slices(c)
            best = min(best, sum(long_slices(c, 'usec')))
        return best

    alone = cost_us(count)
    others += [server.client() for _ in range(100)]
    numbers |= {other.command('CLIENT', 'ID') for other in others}
    beside, tenth = cost_us(count), cost_us(count // 10)
    print('%d: %.0f us, beside 100 others %.0f us; a tenth of them beside these: %.0f us' % (count, alone, beside, tenth))
    assert beside < 10 * alone and beside < 40 * tenth
    ids = [*range(10 ** 9, 10 ** 9 + count), 0, -1, *sorted(numbers)[::2]]
    # One that is wrong, at the very end: nobody is listed or killed.
    assert c.command('CLIENT', 'LIST', 'ID', *ids, 'x') == b'ERR Invalid client ID'
    assert c.command('CLIENT', 'KILL', *['SKIPME', 'yes'] * count, 'ID', 'x') == b'ERR client-id should be greater than 0'
    assert c.command('CLIENT', 'KILL', *['SKIPME', 'yes'] * count, 'ID').startswith(b'ERR syntax error')
    assert all(other.command('PING') == b'PONG' for other in others)
    assert c.command('CLIENT', 'KILL', *['ID', max(numbers)] * (count // 2), 'ID', min(numbers)) == 1
    assert len(c.command('CLIENT', 'LIST').splitlines()) == 100


def test_a_long_list_in_the_middle_of_a_pipeline(server):
    """Its text is put together in slices: replies before and behind it, those nobody wants, and nobody who reads on."""
    c = server.client()
    many = [server.client() for _ in range(300)]
    for other in many:
        other.command('CLIENT', 'SETNAME', 'n' * 1500)
    for protocol in (2, 3):
        c.command('HELLO', protocol)
        before, text, error, behind = c.pipeline([('ECHO', 'before'), ('CLIENT', 'LIST'), ('CLIENT', 'LIST', 'TYPE', 'x'), ('ECHO', 'behind')])
        assert before == b'before' and behind == b'behind' and isinstance(error, Error)
        assert len(text) > 300 * 1500 and len(text.splitlines()) == 301 and all(line.count(b'id=') >= 1 and b' cmd=' in line for line in text.splitlines())
        c.send(encode('CLIENT', 'REPLY', 'SKIP') + encode('CLIENT', 'LIST') + encode('ECHO', 'muted'))
        assert c.read() == b'muted'
    for _ in range(20):
        gone = Client(server.address())
        gone.send(encode('CLIENT', 'LIST') * 10)
        gone.reset()
    assert c.command('PING') == b'PONG'
