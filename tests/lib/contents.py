"""All that a server holds, read by commands, so that two servers, or one before and after, can be compared.

    contents(client)                    {(database, key): Value}: of each key its type, its value in an order of its own, its time, its encoding
    difference(expected, got)           '' or the first keys that differ, for people
"""

from collections import namedtuple

Value = namedtuple('Value', 'type value time_ms encoding')

READ = {
    b'string': lambda key: ('GET', key),
    b'list': lambda key: ('LRANGE', key, 0, -1),
    b'set': lambda key: ('SMEMBERS', key),
    b'zset': lambda key: ('ZRANGE', key, 0, -1, 'WITHSCORES'),
    b'hash': lambda key: ('HGETALL', key),
}


def ordered(kind, value):
    if kind == b'set':
        return sorted(value)
    if kind == b'hash':
        return sorted(zip(value[::2], value[1::2]))
    return value


def databases(client):
    """The numbers of those with keys."""
    lines = bytes(client.command('INFO', 'keyspace')).decode().splitlines()
    return [int(line[2:line.index(':')]) for line in lines if line.startswith('db')]


def contents(client, field_times=False, dbs=None):
    """field_times: the times of a hash's fields, too (a redis-server 7.0 knows none). dbs: only these databases."""
    found = {}
    for db in databases(client) if dbs is None else dbs:
        client.command('SELECT', db)
        keys = client.command('KEYS', '*')
        kinds = client.pipeline([('TYPE', key) for key in keys])
        values = client.pipeline([READ[bytes(kind)](key) for key, kind in zip(keys, kinds)])
        more = client.pipeline([command for key in keys for command in (('PEXPIRETIME', key), ('OBJECT', 'ENCODING', key))])
        for i, (key, kind, value) in enumerate(zip(keys, kinds, values)):
            value = ordered(kind, value)
            if field_times and kind == b'hash':
                names = [name for name, _ in value]
                value = list(zip(value, client.command('HPEXPIRETIME', key, 'FIELDS', len(names), *names)))
            found[db, key] = Value(bytes(kind), value, more[2 * i], more[2 * i + 1])
    client.command('SELECT', 0)
    return found


def difference(expected, got, encodings=True):
    """encodings: they must be the same, too."""
    told = []
    for key in sorted(set(expected) | set(got)):
        a, b = expected.get(key), got.get(key)
        if a and b and not encodings:
            a, b = a._replace(encoding=None), b._replace(encoding=None)
        if a != b:
            told.append('%r\n  expected %.600r\n       got %.600r' % (key, a, b))
    return '\n'.join(told[:5]) + ('\nand %d more keys' % (len(told) - 5) if len(told) > 5 else '')
