"""COMMAND: equal to redis-server's, for every command that exists here."""

import subprocess

import pytest

from resp import Error, Map, same

# What redis-server 7.0 does not have: later versions do, and clients ask for it.
LATER = {b'client|setinfo', b'client|no-touch', b'hexpire', b'hexpireat', b'hexpiretime', b'hgetdel', b'hgetex', b'hpersist', b'hpexpire', b'hpexpireat', b'hpexpiretime', b'hpttl', b'hsetex', b'httl'}


def names_of(c):
    return sorted({bytes(row[0]) for row in c.command('COMMAND')} - LATER)


def pairs(fields):
    """A map of RESP3, or the array that RESP2 makes of it, as a list of pairs."""
    return list(fields) if isinstance(fields, Map) else [fields[i:i + 2] for i in range(0, len(fields), 2)]


def clients(server, reference, protocol):
    a, b = reference.client(), server.client()
    a.command('HELLO', protocol), b.command('HELLO', protocol)
    return a, b


@pytest.fixture(params=[2, 3], ids=['resp2', 'resp3'])
def protocol(request):
    return request.param


def test_every_row_is_that_of_redis(server, reference, protocol):
    a, b = clients(server, reference, protocol)
    names = names_of(b)
    wrong = []

    def compare(name, want, have):
        parts = ('name', 'arity', 'flags', 'first key', 'last key', 'step', 'categories', 'tips', 'key specifications')
        for place, what in enumerate(parts):
            x, y = want[place], have[place]
            if what in ('flags', 'categories', 'tips') and type(x) is type(y):
                x, y = sorted(x), sorted(y)
            if not same(x, y):
                wrong.append('%s: %s\n   expected %r\n   got      %r' % (name, what, x, y))
        assert type(want[9]) is type(have[9]) and len(want) == len(have) == 10
        theirs = {bytes(row[0]): row for row in want[9]}
        for row in have[9]:
            if bytes(row[0]) not in LATER:
                compare(bytes(row[0]).decode(), theirs[bytes(row[0])], row)

    want, have = (c.command('COMMAND', 'INFO', *names) for c in (a, b))
    for name, x, y in zip(names, want, have):
        compare(name.decode(), x, y)
    assert not wrong, '\n'.join(wrong)
    # All at once, and by their full names.
    have_all = [sorted(repr(row) for row in rows if bytes(row[0]) not in LATER) for rows in (b.command('COMMAND'), have, b.command('COMMAND', 'INFO'))]
    assert have_all[0] == have_all[1] == have_all[2]
    subcommands = [bytes(row[0]) for rows in have for row in rows[9] if bytes(row[0]) not in LATER]
    for name, x, y in zip(subcommands, *(c.command('COMMAND', 'INFO', *subcommands) for c in (a, b))):
        compare(name.decode(), x, y)
    assert not wrong, '\n'.join(wrong)


def compare_docs(path, want, have, wrong):
    """Every field, in order; of a container, those subcommands that there are."""
    if type(want) is not type(have):
        wrong.append('%s: %r is not %r' % (path, type(have), type(want)))
        return
    want, have = pairs(want), pairs(have)
    subs_want, subs_have = ({bytes(k): v for k, v in pairs(dict((bytes(n), x) for n, x in fields).get(b'subcommands', []))} for fields in (want, have))
    want, have = ([p for p in fields if p[0] != b'subcommands'] for fields in (want, have))
    if not same(want, have):
        wrong.append('%s\n   expected %r\n   got      %r' % (path, want, have))
    for name, fields in subs_have.items():
        if name not in LATER:
            compare_docs(name.decode(), subs_want[name], fields, wrong)


def test_docs_are_those_of_redis(server, reference, protocol):
    a, b = clients(server, reference, protocol)
    names, wrong = names_of(b), []
    want, have = ({bytes(k): v for k, v in pairs(c.command('COMMAND', 'DOCS', *names))} for c in (a, b))
    assert set(want) == set(have) == set(names)
    for name in names:
        compare_docs(name.decode(), want[name], have[name], wrong)
    assert not wrong, '\n'.join(wrong) + '\n(tools/command-facts NAME prints what belongs into server/command_facts.c)'
    everything = {bytes(k): v for k, v in pairs(b.command('COMMAND', 'DOCS')) if bytes(k) not in LATER}
    assert same(sorted(everything.items()), sorted(have.items()))


def test_docs_of_some(server, reference, protocol):
    a, b = clients(server, reference, protocol)
    for names in (('get',), ('GET', 'nonsense', 'set'), ('nonsense',), ('config|set', 'Config|Get'), ('get|x',), ('config|nonsense',), ('debug|sleep',), ('get', 'get')):
        assert same(a.command('COMMAND', 'DOCS', *names), b.command('COMMAND', 'DOCS', *names)), names


def test_count_is_that_of_the_list(server):
    c = server.client()
    assert c.command('COMMAND', 'COUNT') == len(c.command('COMMAND')) == len([name for name in c.command('COMMAND', 'LIST') if b'|' not in name])


def test_list_filters(server, reference, protocol):
    a, b = clients(server, reference, protocol)
    rows = b.command('COMMAND')
    here = {bytes(row[0]) for row in rows} | {bytes(sub[0]) for row in rows for sub in row[9]}
    categories = [c.decode() for c in a.command('ACL', 'CAT')]
    want, have = (c.command('COMMAND', 'LIST') for c in (a, b))
    assert type(want) is type(have) and {bytes(x) for x in want} & here == {bytes(x) for x in have} - LATER == here - LATER
    filters = [('ACLCAT', c) for c in categories] + [
        ('ACLCAT', 'nonsense'), ('aclcat', 'STRING'), ('ACLCAT', ''), ('PATTERN', 'get*'), ('PATTERN', 'GET*'), ('pattern', '*|*'), ('PATTERN', 'config|*'), ('PATTERN', '*'),
        ('PATTERN', '?et'), ('PATTERN', '[gs]et'), ('PATTERN', ''), ('PATTERN', 'xyz'), ('MODULE', 'x')]
    for words in filters:
        want, have = (c.command('COMMAND', 'LIST', 'FILTERBY', *words) for c in (a, b))
        assert type(want) is type(have)
        assert {bytes(x) for x in want} & here == {bytes(x) for x in have} - LATER, words
    for words in (('FILTERBY',), ('FILTERBY', 'x', 'y'), ('x',), ('FILTERBY', 'MODULE'), ('FILTERBY', 'PATTERN', 'a', 'b'), ('x', 'PATTERN', 'a')):
        assert same(a.command('COMMAND', 'LIST', *words), b.command('COMMAND', 'LIST', *words)), words


def calls_of(row):
    """Calls of a command: too few arguments, as many as it asks for at least, and more."""
    name, arity = bytes(row[0]).split(b'|'), row[1]
    for argc in range(max(abs(arity) - 2, len(name)), abs(arity) + 5):
        yield name + [b'arg%d' % i for i in range(argc - len(name))]
        yield name + [b'%d' % i for i in range(argc - len(name))]


# Options decide about keys, or their flags.
CALLS = (('set', 'k', 'v', 'EX', 10), ('set', 'k', 'v', 'get'), ('SET', 'k', 'v', 'NX', 'GET'), ('set', 'get', 'get'), ('getex', 'k', 'persist'), ('mset', 'a', 1, 'b', 2), ('mset', 'a', 1, 'b'),
         ('copy', 'a', 'b', 'REPLACE'), ('lcs', 'a', 'b', 'LEN'), ('object', 'encoding', 'k'), ('OBJECT', 'ENCODING', 'k'), ('memory', 'usage', 'k', 'SAMPLES', 5),
         ('nonsense', 'x'), ('config', 'nonsense', 'x'), ('object', 'help'), ('get', ''), ('del', 'a', 'a'), ('get|x', 'k'), ('object|encoding', 'k'), ('debug', 'object', 'k'))


def test_getkeys_of_every_command(server, reference, protocol):
    a, b = clients(server, reference, protocol)
    rows = b.command('COMMAND')
    rows = [row for row in rows + [sub for row in rows for sub in row[9]] if bytes(row[0]) not in LATER]
    calls = [call for row in rows for call in calls_of(row)] + list(CALLS)
    wrong = []
    for what in ('GETKEYS', 'GETKEYSANDFLAGS'):
        for call, x, y in zip(calls, *(c.pipeline([('COMMAND', what, *call) for call in calls]) for c in (a, b))):
            if what == 'GETKEYSANDFLAGS':
                x, y = ([[key, type(flags), sorted(flags)] for key, flags in z] if isinstance(z, list) else z for z in (x, y))
            if type(x) is not type(y) or x != y:
                wrong.append('%s %r\n   expected %r\n   got      %r' % (what, call, x, y))
    assert not wrong, '\n'.join(wrong)
    assert isinstance(b.command('COMMAND', 'GETKEYS'), Error)


def test_help_and_errors(server, reference, protocol):
    a, b = clients(server, reference, protocol)
    for words in (('HELP',), ('HELP', 'x'), ('NONSENSE',), ('COUNT', 'x'), ('GETKEYS',), ('GETKEYS', 'get'), ('GETKEYSANDFLAGS',), ('info', 'nonsense'), ('INFO', 'get|x', 'nonsense', 'config|x')):
        assert same(a.command('COMMAND', *words), b.command('COMMAND', *words)), words


def test_redis_cli_helps_with_what_the_server_tells(server):
    got = subprocess.run(['redis-cli', '-p', str(server.port)], input='help client setinfo\nhelp set\n', stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout
    assert 'LIB-NAME libname|LIB-VER libver' in got and '[EX seconds|PX milliseconds|EXAT' in got
