"""Clients that write and do not read, that stop half-way, that are slow: each is served as far as its limits go, and costs the others nothing."""

import select
import threading
import time

import pytest

from configurations import LIGHT
from resp import NIL, Closed, encode
from server import PATIENCE, SLOW, wait_for

pytestmark = pytest.mark.every_pair


@pytest.mark.alone
def test_a_long_pipeline_whose_client_reads_only_at_the_end(server):
    """Clients write whole pipelines before they read. A server that stops reading until its replies are read would hang them both."""
    count = 10000 if LIGHT else 100000
    c = server.client(timeout=PATIENCE)
    value = b'v' * 1000
    assert c.command('SET', 'k', value) == b'OK'
    # Few MGETs: each waits for all before it.
    batch = (encode('GET', 'k') + encode('INCR', 'n') + encode('GET', 'other') + encode('GET', 'n')) * 24 + encode('MGET', 'k', 'n') * 4
    for _ in range(count // 100):
        c.send(batch)
    for i in range(count // 100):
        for n in range(24 * i + 1, 24 * i + 25):
            assert [c.read() for _ in range(4)] == [value, n, NIL, b'%d' % n]
        for _ in range(4):
            assert c.read() == [value, b'%d' % n]
    assert c.command('PING') == b'PONG'


@pytest.mark.alone
@pytest.mark.each_back_end
def test_a_busy_shard_does_not_starve_the_clients_of_another_thread(start):
    """What was sent to a busy shard holds the receive buffers that it lies in; more clients wait here than there are buffers."""
    server = start(threads=2, options=[('enable-debug-command', 'yes')])
    # Connections are dealt in turn: every second one is of the thread that goes on.
    sleeper, *clients = [server.client() for _ in range(402)]
    witness, *clients = clients[::2]
    assert sleeper.command('PING') == witness.command('PING') == b'PONG'
    for seconds in (1, 4, 16):      # a machine that is slow needs more
        sleeper.send(encode('DEBUG', 'SLEEP', seconds))
        for i, c in enumerate(clients):
            c.send(b''.join(encode('GET', 'k%d:%d' % (i, n)) for n in range(20)))
            if i % 20 == 19:
                assert witness.command('PING') == b'PONG'
        meanwhile = not select.select([sleeper.socket], [], [], 0)[0]
        assert sleeper.read() == b'OK'
        for c in clients:
            assert [c.read() for _ in range(20)] == [NIL] * 20
        if meanwhile:
            break
    assert meanwhile, 'the others were served only when the shard was not busy any more'


@pytest.mark.alone
def test_a_client_that_never_reads_is_closed_at_its_hard_limit(start):
    server = start(options=[('client-output-buffer-limit', 'normal', '4mb', '0', '0')])
    with server.client() as setup:
        setup.command('SET', 'k', 'v' * 10000)
    greedy = server.client(receive_buffer=4096)
    before = server.resident_bytes()
    with pytest.raises((ConnectionError, TimeoutError)) as ended:
        while True:
            greedy.send(encode('GET', 'k') * 100)
    assert not isinstance(ended.value, TimeoutError), 'the server neither reads nor closes'
    other = server.client()
    assert other.command('PING') == b'PONG'
    wait_for(lambda: int(server.info('clients')['connected_clients']) <= 2)
    wait_for(lambda: server.resident_bytes() - before <= (40 << 20) * (4 if SLOW > 1 else 1))
    # Large replies are counted as they come, not at the end of a turn: what was ever there.
    assert server.peak_bytes() - before < (100 << 20) * (4 if SLOW > 1 else 1)


@pytest.mark.alone
def test_a_client_that_stays_above_its_soft_limit_is_closed(start):
    server = start(options=[('client-output-buffer-limit', 'normal', '0', '256kb', '1')])
    with server.client() as setup:
        setup.command('SET', 'k', 'v' * 10000)
    slow = server.client(receive_buffer=4096)
    assert slow.command('PING') == b'PONG'
    sent = time.monotonic()
    slow.send(encode('GET', 'k') * 2000)        # 20 MB of replies: more than sockets hold
    wait_for(lambda: int(server.info('clients')['connected_clients']) <= 1)
    assert time.monotonic() - sent >= .9


def test_a_client_below_its_limits_may_take_its_time(start):
    server = start(options=[('client-output-buffer-limit', 'normal 64mb 0 0')])
    c = server.client(receive_buffer=4096)
    value = b'v' * 10000
    c.command('SET', 'k', value)
    c.send(encode('GET', 'k') * 1000)
    time.sleep(.3)
    for i in range(1000):
        assert c.read() == value
        if i % 100 == 0:
            time.sleep(.01)
    assert c.command('PING') == b'PONG'


@pytest.mark.alone
def test_a_thousand_half_commands_pin_nothing(server):
    """Idle clients in the middle of a command, in all sorts of middles: others are served as ever, and the halves can be completed."""
    count = 200 if LIGHT else 1000
    halves = []
    big = b'x' * 3000
    for i in range(count):
        whole = encode('SET', 'half:%d' % i, big) if i % 2 else encode('GET', 'half:%d' % (i - 1))
        at = (i * 7919) % (len(whole) - 2) + 1
        c = server.client()
        c.send(encode('PING') + whole[:at])
        halves.append((c, whole[at:], i % 2))
    for c, _, _ in halves:
        assert c.read() == b'PONG'
    other = server.client()
    for _ in range(100):
        assert other.pipeline([('SET', 'k%d' % n, 'v' * 500) for n in range(50)] + [('GET', 'k%d' % n) for n in range(50)]) == [b'OK'] * 50 + [b'v' * 500] * 50
    for c, rest, is_set in halves:
        if is_set:
            c.send(rest)
            assert c.read() == b'OK'
    for number, (c, rest, is_set) in enumerate(halves):
        if not is_set:
            c.send(rest)
            assert c.read() == (big if number else None) or number == 0
    for c, _, _ in halves:
        c.close()


@pytest.mark.alone
@pytest.mark.measures
@pytest.mark.each_back_end
def test_one_greedy_client_costs_the_others_little(server):
    """A client that sends a pipeline as long as it goes: the others have their turn between its commands, and need not wait for its end."""
    greedy, other = server.client(timeout=PATIENCE), server.client()
    count = 100000
    data = encode('INCR', 'n') * count
    assert other.command('PING') == b'PONG'
    between = 0
    for _ in range(20):
        before = int(other.command('GET', 'n') or 0)
        sender = threading.Thread(target=greedy.send, args=(data,))     # it is longer than sockets hold
        sender.start()
        seen = set()
        while not seen or max(seen) < before + count:
            seen.add(int(other.command('GET', 'n') or 0))
        sender.join()
        for _ in range(count):
            greedy.read()
        between = max(between, len([n for n in seen if before < n < before + count]))
        if between >= 3:
            break
    assert between >= 3, 'only %d replies while the pipeline of %d commands ran' % (between, count)


def test_a_slow_writer_is_served_when_it_is_done(server):
    slow, quick = server.client(), server.client()
    whole = encode('SET', 'slow', 'v' * 200)
    for i in range(0, len(whole), 10):
        slow.send(whole[i:i + 10])
        assert quick.command('INCR', 'n') == i // 10 + 1
    assert slow.read() == b'OK'


def test_replies_that_were_never_read_end_with_the_connection(server):
    """Clients that ask for much and go away without reading it."""
    with server.client() as c:
        c.command('SET', 'k', 'v' * 100000)
    for i in range(20):
        c = server.client(receive_buffer=4096)
        c.send(encode('GET', 'k') * 200)
        if i % 2:
            time.sleep(.01)
        c.reset()
    other = server.client()
    assert other.command('STRLEN', 'k') == 100000
    wait_for(lambda: int(server.info('clients')['connected_clients']) <= 2)


def test_a_value_is_replaced_while_it_is_being_sent(server):
    """A large reply is sent from the value itself; whoever replaces the value meanwhile must not change what is on its way."""
    old, new = b'o' * 300000, b'n' * 300000
    c = server.client()
    assert c.command('SET', 'k', old) == b'OK'
    readers = [server.client(receive_buffer=4096) for _ in range(4)]
    for r in readers:
        r.send(encode('GET', 'k') * 20)
    wait_for(lambda: int(server.info('stats')['keyspace_hits']) >= 80)
    assert c.pipeline([('SET', 'k', new), ('APPEND', 'k', 'x'), ('SETRANGE', 'k', 0, 'yy'), ('DEL', 'k')]) == [b'OK', 300001, 300001, 1]
    for r in readers:
        for _ in range(20):
            assert r.read() in (old, new)
    with pytest.raises((Closed, ConnectionError)):
        readers[0].command('QUIT'), readers[0].read()


@pytest.mark.alone
@pytest.mark.measures
def test_what_one_huge_command_took_is_given_back(start):
    """A reply that is not wanted, one that waits its turn, very many arguments: the memory for them is not the thread's for good, nor the
    allocator's, which gives nothing back of itself here."""
    server = start(env={'MIMALLOC_DECOMMIT_DELAY': '10000000'})
    c = server.client(timeout=PATIENCE)
    assert c.command('PING') == b'PONG'
    before = server.resident_bytes()
    huge = b'x' * (32 << 20)
    c.send(encode('CLIENT', 'REPLY', 'OFF') + encode('ECHO', huge) + encode('CLIENT', 'REPLY', 'ON'))
    assert c.read() == b'OK'
    c.send(b'*3000000\r\n' + encode('EXISTS')[4:] + b'$0\r\n\r\n' * 2999999)
    assert c.read() == 0
    wait_for(lambda: server.resident_bytes() <= before + (24 << 20))
