"""Places over a socket: searches through many of them, results on other shards. What single replies look like is compared with redis-server (tests/oracle)."""

import math
import random

import pytest

from configurations import LIGHT

N = 4000 if LIGHT else 40000
RADIUS = 6372797.560856


@pytest.fixture
def client(server):
    with server.client() as c:
        yield c


def distance(a, b):
    lon1, lat1, lon2, lat2 = (math.radians(x) for x in (*a, *b))
    return 2 * RADIUS * math.asin(math.sqrt(math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2))


def fill(client, key, n=N, seed=1):
    rng = random.Random(seed)
    places = {b'p%d' % i: (rng.uniform(-180, 180), rng.uniform(-85, 85)) for i in range(n)}
    names = list(places)
    for start in range(0, n, 500):
        client.command('GEOADD', key, *(x for name in names[start:start + 500] for x in (*places[name], name)))
    return places


def within(places, centre, metres, slack):
    """Those that are surely within the distance, and those that may be: a place is kept to half a metre."""
    return {n for n, p in places.items() if distance(p, centre) <= metres - slack}, {n for n, p in places.items() if distance(p, centre) <= metres + slack}


@pytest.mark.parametrize('centre', [(0, 0), (179.9, 10), (-179.9, -60), (20, 84), (100, -84.9)])
def test_a_search_finds_what_is_near_and_nothing_else(client, centre):
    places = fill(client, 'g')
    for km in (50, 500, 3000, 21000):
        found = client.command('GEOSEARCH', 'g', 'FROMLONLAT', *centre, 'BYRADIUS', km, 'km', 'ASC')
        sure, maybe = within(places, centre, km * 1000, 2)
        near = {n for n in sure if abs(places[n][0] - centre[0]) < 180}     # Redis does not look beyond the antimeridian for all shapes; nor do we
        assert set(found) <= maybe and len(found) == len(set(found))
        if abs(centre[0]) < 150 and abs(centre[1]) + km / 111 < 85 and km < 3000:
            assert near <= set(found)
        far = [distance(places[n], centre) for n in found]
        assert all(a <= b + 2 for a, b in zip(far, far[1:]))
        assert client.command('GEOSEARCH', 'g', 'FROMLONLAT', *centre, 'BYRADIUS', km, 'km', 'DESC', 'COUNT', 10) == found[::-1][:10]
        assert len(client.command('GEOSEARCH', 'g', 'FROMLONLAT', *centre, 'BYRADIUS', km, 'km', 'COUNT', 7, 'ANY')) == min(7, len(found))


def test_results_are_stored_on_any_shard(client):
    fill(client, 'g')
    found = client.command('GEOSEARCH', 'g', 'FROMLONLAT', 10, 10, 'BYBOX', 8000, 4000, 'km', 'ASC', 'WITHDIST')
    for n in range(8):
        target = 't%d' % n
        client.command('SET', 't0', 'x', 'EX', 100)
        assert client.command('GEOSEARCHSTORE', target, 'g', 'FROMLONLAT', 10, 10, 'BYBOX', 8000, 4000, 'km') == len(found)
        assert client.command('ZCARD', target) == len(found) and client.command('TTL', target) == -1
        assert client.command('GEOPOS', target, found[0][0]) == client.command('GEOPOS', 'g', found[0][0])
        assert client.command('GEORADIUS', 'g', 10, 10, 1000, 'km', 'STOREDIST', target) == \
            len(client.command('GEORADIUS_RO', 'g', 10, 10, 1000, 'km')) == client.command('ZCARD', target)
    assert client.command('GEOSEARCHSTORE', 'g', 'g', 'FROMLONLAT', 10, 10, 'BYRADIUS', 3000, 'km', 'COUNT', 5) == 5 == client.command('ZCARD', 'g')
    assert client.command('GEOSEARCHSTORE', 't1', 'none', 'FROMLONLAT', 10, 10, 'BYRADIUS', 3000, 'km') == 0 == client.command('EXISTS', 't1')
    assert client.command('SET', 'string', 'x') == b'OK'
    assert str(client.command('GEOSEARCHSTORE', 't2', 'string', 'FROMLONLAT', 10, 10, 'BYRADIUS', 3000, 'km')).startswith('-WRONGTYPE')
    assert str(client.command('GEOSEARCHSTORE', 't2', 'g', 'FROMMEMBER', 'none', 'BYRADIUS', 3000, 'km')) == '-ERR could not decode requested zset member'
    assert client.command('ZCARD', 't2') > 0


def test_inside_exec_and_with_a_client_that_leaves(server):
    with server.client() as c:
        fill(c, 'g')
        c.command('MULTI')
        c.command('GEOSEARCHSTORE', 't', 'g', 'FROMLONLAT', 0, 0, 'BYRADIUS', 5000, 'km')
        c.command('GEOSEARCH', 'g', 'FROMLONLAT', 0, 0, 'BYRADIUS', 5000, 'km')
        n, found = c.command('EXEC')
        assert n == len(found) == c.command('ZCARD', 't')
        for _ in range(4):
            r = server.client()
            r.send(b'GEOSEARCH g FROMLONLAT 0 0 BYRADIUS 21000 km\r\nGEOSEARCHSTORE t g FROMLONLAT 0 0 BYRADIUS 21000 km\r\n')
            r.close()
        assert c.command('GEOADD', 'g', 1, 1, 'new') == 1 and c.command('ZADD', 't', 1, 'another') == 1
