"""tools/bench aggregation: what batches over all connections of a tick bring, beside batches of one connection's pipeline (DEBUG BATCH tick|connection).

The same work on the same server, closed loop, GETs that hit, with 10, 50 and 200 connections and 1, 4 and 16 deep. First one server thread, on a CPU of its own: what is
saved are cache misses. Then two threads on all CPUs, the load among them: also hops, which go by batches.
Variables: KEYS (10000000), SIZE of a value (100), REQUESTS (400000; less where little is on the way), ROUNDS (5), DARTER (build/darter).
"""

from measure import in_turn, load, pick, ratio, rounds, setting
from record import Record
from subjects import Subject, cpus, everything, peers

CONNECTIONS, DEPTHS = (10, 50, 200), (1, 4, 16)


def batched(darter, kind, load_cpu, requests, **flags):
    darter.ask('DEBUG', 'BATCH', kind)
    return load(darter, load_cpu, requests, **flags)


def compare(record, darter, others, load_cpu, keys):
    """All numbers of connections and depths. Returns {(connections, depth): measurements}."""
    found, rows = {}, []
    for connections in CONNECTIONS:
        for depth in DEPTHS:
            record.progress('%d connections, %d deep' % (connections, depth))
            flags = {'connections': connections, 'pipeline': depth, 'ratio': '0:1', 'key_maximum': keys - 1}
            requests = setting('REQUESTS', 400000) * min(depth + 1, 8) // 8
            cells = {kind: (lambda kind=kind: batched(darter, kind, load_cpu, requests, **flags)) for kind in ('tick', 'connection')}
            cells.update({peer.name: (lambda peer=peer: load(peer, load_cpu, requests, **flags)) for peer in others})
            one = found[connections, depth] = in_turn(cells)
            gain = ratio(one['tick'], one['connection'], 'per_cpu_s')
            rows.append(['%d, %d' % (connections, depth), pick(one['connection'], 'cpu').text(), pick(one['tick'], 'cpu').text(), gain.text(), gain.verdict(),
                         *(pick(one[peer.name], 'cpu').text() for peer in others)])
    record.table(['connections, depth', 'batches of a connection, us a GET', 'batches of a tick, us', 'requests a CPU second, tick over connection', '',
                  *('%s, us' % peer.name for peer in others)], rows)
    return found


def main():
    keys, size = setting('KEYS', 10000000), setting('SIZE', 100)
    record, pictures = Record('aggregation'), {}
    record.say('%d keys, values of %d bytes; server CPU; medians of %d rounds in turn (least–greatest).' % (keys, size, rounds()))
    record.say()
    for threads in (1, 2):
        server_cpu, load_cpu = cpus() if threads == 1 else (everything(), everything())
        subjects = []
        try:
            for name in ['darter', *(peers() if threads == 1 else [])]:
                subjects.append(Subject(name, threads=threads, cpu_list=server_cpu))
                record.progress('%s gets %d keys' % (name, keys))
                subjects[-1].fill(keys, size)
            record.say('%s:' % ('One server thread' if threads == 1 else 'Two server threads'))
            record.say()
            pictures[threads] = compare(record, subjects[0], subjects[1:], load_cpu, keys)
        finally:
            for subject in subjects:
                subject.stop()
    for threads, found in pictures.items():
        record.picture('bench-aggregation-%d' % threads, 'Server CPU of a GET, us, %d thread%s' % (threads, 's' * (threads > 1)), ['%d, P%d' % pair for pair in found],
                       {'of a ' + kind: [pick(one[kind], 'cpu') for one in found.values()] for kind in ('connection', 'tick')})
    record.write()


if __name__ == '__main__':
    main()
