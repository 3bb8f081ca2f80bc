"""Sorted-set commands that wait: BZPOPMIN, BZPOPMAX, BZMPOP. How waiting itself works is asked in test_waiting.py; what lists have of it, in test_blocking.py."""

import pytest

from resp import Error
from test_blocking import wait
from test_waiting import KEYS, blocked


def test_the_first_of_the_keys_that_has_something_gives_it(server):
    with server.client() as c:
        for key in (KEYS[7], KEYS[2]):
            c.command('ZADD', key, 1, 'a', 2, 'b', 3, 'c')
        assert c.command('BZPOPMIN', *KEYS, 0) == [KEYS[2], b'a', b'1']
        assert c.command('BZPOPMAX', *reversed(KEYS), 0) == [KEYS[7], b'c', b'3']
        assert c.command('BZMPOP', 0, len(KEYS), *KEYS, 'MAX', 'COUNT', 5) == [KEYS[2], [[b'c', b'3'], [b'b', b'2']]]
        assert c.command('BZMPOP', 0, len(KEYS), *KEYS, 'MIN') == [KEYS[7], [[b'a', b'1']]]
        assert c.command('EXISTS', KEYS[2]) == 0


BRINGS = {
    'ZADD': [('ZADD', 'to', 1, 'm')], 'ZINCRBY': [('ZINCRBY', 'to', 1, 'm')], 'GEOADD': [('GEOADD', 'to', 0, 0, 'm')],
    'ZUNIONSTORE': [('ZADD', 'from', 1, 'm'), ('ZUNIONSTORE', 'to', 1, 'from')], 'ZRANGESTORE': [('ZADD', 'from', 1, 'm'), ('ZRANGESTORE', 'to', 'from', 0, -1)],
    'GEOSEARCHSTORE': [('GEOADD', 'from', 0, 0, 'm'), ('GEOSEARCHSTORE', 'to', 'from', 'FROMLONLAT', 0, 0, 'BYRADIUS', 1, 'km')],
    'RENAME': [('ZADD', 'from', 1, 'm'), ('RENAME', 'from', 'to')], 'COPY': [('ZADD', 'from', 1, 'm'), ('COPY', 'from', 'to')],
    'MOVE': [('SELECT', 1), ('ZADD', 'to', 1, 'm'), ('MOVE', 'to', 0)], 'SWAPDB': [('SELECT', 1), ('ZADD', 'to', 1, 'm'), ('SWAPDB', 0, 1)],
    'EXEC': [('MULTI',), ('ZADD', 'from', 1, 'm'), ('RENAME', 'from', 'to'), ('EXEC',)],
}


@pytest.mark.parametrize('way', BRINGS)
@pytest.mark.parametrize('keys', [['to'], [*KEYS, 'to']], ids=['one key', 'several keys'])
def test_whatever_brings_a_sorted_set_serves(server, way, keys):
    with server.client() as waiter, server.client() as c:
        wait(server, waiter, 'BZPOPMAX', *keys, 0)
        assert not any(isinstance(r, Error) for r in c.pipeline(BRINGS[way]))
        assert waiter.read()[:2] == [b'to', b'm']
        c.command('SELECT', 0)
        assert c.command('EXISTS', 'to') == 0


def test_sort_brings_a_list(server):
    with server.client() as waiter, server.client() as c:
        wait(server, waiter, 'BLPOP', *KEYS, 'to', 0)
        c.command('SADD', 'from', 'm')
        assert c.command('SORT', 'from', 'ALPHA', 'STORE', 'to') == 1
        assert waiter.read() == [b'to', b'm'] and c.command('EXISTS', 'to') == 0


def test_one_command_serves_many_in_the_order_of_their_coming(server):
    clients = [server.client() for _ in range(4)]
    commands = [('BZPOPMIN', 'q', 0), ('BZPOPMAX', 'q', 0), ('BZMPOP', 0, 2, 'other', 'q', 'MIN', 'COUNT', 2), ('BZPOPMIN', 'other', 'q', 0)]
    for c, command in zip(clients, commands):
        wait(server, c, *command)
    with server.client() as c:
        c.command('SET', 'other', 'x')
        assert c.pipeline([('ZADD', 'q', 1, 'a', 2, 'b', 3, 'c', 4, 'd', 5, 'e', 6, 'f'), ('ZCARD', 'q')]) == [6, 1]
        assert [x.read() for x in clients] == [[b'q', b'a', b'1'], [b'q', b'f', b'6'], [b'q', [[b'b', b'2'], [b'c', b'3']]], [b'q', b'd', b'4']]
        assert blocked(server) == 0
