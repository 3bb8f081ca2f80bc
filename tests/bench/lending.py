"""tools/bench lending: two threads with lending (CONFIG SET lend yes|no) beside two threads that need no hop at all.

The second server runs with DEBUG ROUTE local: keys are on the shard of the thread that a connection belongs to, and were loaded through connections of both threads. Its two
shards hold the same keys, half as many as the first server has in all, so that every shard of the comparison holds as many. With lending a thread
reads the keys of both shards, twice as many: what the caches alone make of that shows a third server, also local, with all the keys on each shard. GETs that hit, closed loop, at 1, 10, 50
and 200 connections and 1, 16 and 100 deep; servers and load share all CPUs.
Variables: KEYS (1000000), SIZE of a value (100), REQUESTS (400000; less where little is on the way), ROUNDS (5), DARTER (build/darter).
"""

from measure import in_turn, load, pick, ratio, rounds, setting
from record import Record
from subjects import Subject, everything

CONNECTIONS, DEPTHS = (1, 10, 50, 200), (1, 16, 100)
THREADS = 2


def fill_locally(subject, keys, size):
    """Connections are dealt in turn, so that as many as there are threads reach each once."""
    subject.ask('DEBUG', 'ROUTE', 'local')
    clients = [subject.client() for _ in range(THREADS)]
    for client in clients:
        subject.fill_by_mset(client, keys, size)
    have = subject.ask('DBSIZE')
    if have != THREADS * keys:
        raise RuntimeError('the shards hold %d keys instead of %d' % (have, THREADS * keys))


def requests_for(connections, depth):
    """Where little is on the way a request takes long."""
    return setting('REQUESTS', 400000) * (4 if depth >= 100 else 2 if depth > 1 else 1) // (8 if connections == 1 else 4) or 1


def compare(record, hashed, local, wide, keys):
    rows, found = [], {}
    for connections in CONNECTIONS:
        for depth in DEPTHS:
            record.progress('%d connections, %d deep' % (connections, depth))
            requests, cpu_list = requests_for(connections, depth), everything()

            def hops(lend):
                hashed.ask('CONFIG', 'SET', 'lend', lend)
                return load(hashed, cpu_list, requests, connections, depth, ratio='0:1', key_maximum=keys - 1)

            def no_hops(subject, n):
                return load(subject, cpu_list, requests, connections, depth, ratio='0:1', key_maximum=n - 1)

            one = found[connections, depth] = in_turn({'lend yes': lambda: hops('yes'), 'lend no': lambda: hops('no'), 'local': lambda: no_hops(local, keys // 2),
                                                       'wide': lambda: no_hops(wide, keys)})
            if min(m['hits'] for measured in one.values() for m in measured) < 1:
                raise RuntimeError('some of the reads missed')
            rates = ratio(one['lend yes'], one['lend no'], 'rate')
            rows.append(['%d, %d' % (connections, depth), *(pick(one[name], 'cpu').text() for name in ('local', 'lend yes', 'lend no')),
                         ratio(one['lend yes'], one['local'], 'cpu').text(), ratio(one['lend no'], one['local'], 'cpu').text(), rates.text(), rates.verdict(),
                         ratio(one['lend yes'], one['wide'], 'cpu').text()])
    record.table(['connections, depth', 'local, us a GET', 'lend yes, us', 'lend no, us', 'CPU, lend yes over local', 'CPU, lend no over local',
                  'requests a second, lend yes over no', '', 'CPU, lend yes over local with as many keys a thread'], rows)
    return found


def main():
    keys, size = setting('KEYS', 1000000) // 2 * 2, setting('SIZE', 100)
    record = Record('lending')
    record.say('%d server threads, %d keys, values of %d bytes; server CPU; medians of %d rounds in turn (least–greatest).' % (THREADS, keys, size, rounds()))
    record.say()
    with Subject(threads=THREADS) as hashed, Subject(threads=THREADS) as local, Subject(threads=THREADS) as wide:
        hashed.fill(keys, size)
        fill_locally(local, keys // 2, size)
        fill_locally(wide, keys, size)
        found = compare(record, hashed, local, wide, keys)
    record.picture('bench-lending', 'Server CPU of a GET, us, two threads', ['%d, P%d' % pair for pair in found],
                   {name: [pick(one[name], 'cpu') for one in found.values()] for name in ('local', 'lend yes', 'lend no')})
    record.write()


if __name__ == '__main__':
    main()
