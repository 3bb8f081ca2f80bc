"""COMMAND: equal to redis-server's, for every command that exists here."""

from resp import Error


def names_of(c):
    return sorted(bytes(row[0]) for row in c.command('COMMAND'))


def test_every_row_is_that_of_redis(server, reference):
    a, b = reference.client(), server.client()
    names = [n for n in names_of(b) if n != b'debug']
    wrong = []

    def compare(name, want, have):
        for place, what in ((1, 'arity'), (3, 'first key'), (4, 'last key'), (5, 'step'), (8, 'key specifications')):
            if want[place] != have[place]:
                wrong.append('%s: %s\n   expected %r\n   got      %r' % (name, what, want[place], have[place]))
        for place, what in ((2, 'flags'), (6, 'categories'), (7, 'tips')):
            if sorted(want[place]) != sorted(have[place]):
                wrong.append('%s: %s\n   expected %r\n   got      %r' % (name, what, sorted(want[place]), sorted(have[place])))
        subcommands = {bytes(row[0]): row for row in want[9]}
        for row in have[9]:
            if bytes(row[0]) in subcommands:
                compare(bytes(row[0]).decode(), subcommands[bytes(row[0])], row)

    for name, want, have in zip(names, a.command('COMMAND', 'INFO', *names), b.command('COMMAND', 'INFO', *names)):
        compare(name.decode(), want, have)
    assert not wrong, '\n'.join(wrong)


def test_docs_are_those_of_redis(server, reference):
    a, b = reference.client(), server.client()
    a.command('HELLO', 3), b.command('HELLO', 3)
    names = [n for n in names_of(b) if n != b'debug']
    wrong = []

    def compare(name, want, have):
        want, have = ({bytes(k): v for k, v in fields} for fields in (want, have))
        for field in (b'summary', b'since', b'group', b'complexity'):
            if want.get(field) != have.get(field):
                wrong.append('%s: %s\n   expected %r\n   got      %r' % (name.decode(), field.decode(), want.get(field), have.get(field)))
        theirs = {bytes(k): v for k, v in want.get(b'subcommands', [])}
        for sub, fields in have.get(b'subcommands', []):
            if bytes(sub) in theirs:
                compare(bytes(sub), theirs[bytes(sub)], fields)

    for name in names:
        compare(name, a.command('COMMAND', 'DOCS', name)[0][1], b.command('COMMAND', 'DOCS', name)[0][1])
    assert not wrong, '\n'.join(wrong)


def test_getkeys(server, reference):
    a, b = reference.client(), server.client()
    for words in (('get', 'k'), ('set', 'k', 'v', 'EX', 10), ('mset', 'a', 1, 'b', 2), ('mget', 'a', 'b', 'c'), ('del', 'a', 'b'), ('copy', 'a', 'b', 'REPLACE'), ('rename', 'a', 'b'), ('lcs', 'a', 'b', 'LEN'),
                  ('object', 'encoding', 'k'), ('memory', 'usage', 'k'), ('ping', 'x'), ('config', 'get', 'x'), ('nonsense', 'x'), ('get', 'a', 'b'), ('memory', 'usage'), ('getex', 'k', 'persist')):
        for sub in ('GETKEYS', 'GETKEYSANDFLAGS'):
            want, have = a.command('COMMAND', sub, *words), b.command('COMMAND', sub, *words)
            if isinstance(want, list) and sub == 'GETKEYSANDFLAGS':
                want, have = ([[k, sorted(f)] for k, f in x] for x in (want, have))
            assert want == have, (sub, words)
    assert isinstance(b.command('COMMAND', 'GETKEYS'), Error)
    assert a.command('COMMAND', 'HELP') == b.command('COMMAND', 'HELP')


def test_list_filters(server, reference):
    a, b = reference.client(), server.client()
    here = set(b.command('COMMAND', 'LIST'))
    for words in (('ACLCAT', 'fast'), ('ACLCAT', 'string'), ('ACLCAT', 'nonsense'), ('PATTERN', 'get*'), ('PATTERN', 'GET*'), ('MODULE', 'x')):
        want, have = (set(c.command('COMMAND', 'LIST', 'FILTERBY', *words)) for c in (a, b))
        assert {x for x in want if x in here} == {x for x in have if b'|' not in x and x != b'debug'}, words
    for words in (('FILTERBY',), ('FILTERBY', 'x', 'y'), ('x',)):
        assert a.command('COMMAND', 'LIST', *words) == b.command('COMMAND', 'LIST', *words), words
