"""tools/bench prefetch: what each stage of the prefetch brings, on a table that is larger than every cache, and what it costs on one that is not.

After the experiment of Dragonfly's pull request 4355 (DEBUG POPULATE, reads that all miss, 80 connections at a fixed rate), scaled to this machine: one server
thread on one CPU, the load's on another. "bucket" beside "bucket+probe" is the ablation that was asked for there: the same without the probe bucket.

Closed loop: 80 connections, 16 deep, and 10 connections, 100 deep. Fixed rate: 80 connections, 70 % of the rate that "none" keeps up with when
requests come by the clock, the same for all. That is less than in the closed loop, whose batches are larger.
Variables: KEYS (10000000), SIZE of a value (100), REQUESTS a measurement (1000000), ROUNDS (5), DARTER (build/darter).
"""

from measure import in_turn, load, pick, ratio, rounds, setting
from record import Record
from subjects import Subject, cpus, peers

LEVELS = ('none', 'bucket', 'bucket+probe', 'entry', 'full')
CONNECTIONS = 80
SMALL = 1000  # keys that fit the first-level cache with their buckets


def cells(darter, others, requests, **flags):
    """One for each level, and one for each peer."""
    _, load_cpu = cpus()

    def at(level):
        darter.ask('CONFIG', 'SET', 'prefetch', level)
        return load(darter, load_cpu, requests, **flags)

    return {**{level: (lambda level=level: at(level)) for level in LEVELS},
            **{peer.name: (lambda peer=peer: load(peer, load_cpu, requests, **flags)) for peer in others}}


def closed_loop(record, servers, title, expected, connections, pipeline, **flags):
    record.progress(title)
    found = in_turn(cells(*servers, setting('REQUESTS', 1000000), connections=connections, pipeline=pipeline, ratio='0:1', **flags))
    hits = found['none'][0]['hits']
    if abs(hits - expected) > 0.01:
        raise RuntimeError('%s: %.2f of the reads hit' % (title, hits))
    record.say('%s: closed loop, %d connections, %d deep.' % (title, connections, pipeline))
    record.say()
    rows = []
    for name, measured in found.items():
        against = ratio(measured, found['none'], 'per_cpu_s')
        rows.append([name, pick(measured, 'cpu').text('%.3f'), '%.0f' % pick(measured, 'rate').median, pick(measured, 'p99').text('%.0f'),
                     '' if name == 'none' else against.text(), '' if name == 'none' else against.verdict()])
    record.table(['prefetch', 'server CPU, us a request', 'requests a second', 'p99, us', 'requests a CPU second, against none', ''], rows)
    return found


def rate_kept(darter, rate, **flags):
    """The highest rate, from the closed loop's down, at which "none" answers as fast as requests come; each is tried twice, for a second at most. The load must keep it, too."""
    at_none = cells(darter, [], min(int(rate), setting('REQUESTS', 1000000)), connections=CONNECTIONS, ratio='0:1', qps=max(int(rate / CONNECTIONS), 1), **flags)['none']
    if rate < 1000 or any(at_none()['rate'] >= 0.97 * rate for _ in range(2)):
        return rate
    return rate_kept(darter, 0.9 * rate, **flags)


def fixed_rate(record, servers, rate, **flags):
    """Three seconds' worth of requests, lest a stall of the machine decide everything."""
    record.progress('fixed rate')
    darter, _ = servers
    kept = rate_kept(darter, rate, **flags)
    qps = max(int(0.7 * kept / CONNECTIONS), 1)
    requests = min(3 * qps * CONNECTIONS, 2 * setting('REQUESTS', 1000000))
    found = in_turn(cells(darter, [], requests, connections=CONNECTIONS, qps=qps, ratio='0:1', **flags))
    record.say('Misses at a fixed rate: 80 connections, --qps=%d each, %d requests a second in all, 70 %% of the %d a second that none keeps up with so; %d in the closed loop, 16 deep.' % (qps, qps * CONNECTIONS, kept, rate))
    record.say('Busy: the CPU time of the server and of the load, of a CPU each. Where the load is nearly as busy as the server, p99 is of both.')
    record.say()
    rows = []
    for name, measured in found.items():
        against, cpu = ratio(measured, found['none'], 'p99'), ratio(measured, found['none'], 'cpu')
        rows.append([name, '%.0f' % pick(measured, 'rate').median, pick(measured, 'p99').text('%.0f'), '' if name == 'none' else against.text(), '' if name == 'none' else against.verdict(),
                     pick(measured, 'cpu').text('%.3f'), '' if name == 'none' else cpu.text(),
                     *('%.0f %%' % (pick(measured, whose).median * pick(measured, 'rate').median / 1e4) for whose in ('cpu', 'own'))])
    record.table(['prefetch', 'requests a second', 'p99, us', 'p99 against none', '', 'server CPU, us a request', 'against none', 'server busy', 'load busy'], rows)
    return found


def main():
    keys, size = setting('KEYS', 10000000), setting('SIZE', 100)
    record = Record('prefetch')
    server_cpu, _ = cpus()
    subjects = [Subject(name, cpu_list=server_cpu) for name in ['darter', *peers()]]
    try:
        for subject in subjects:
            record.progress('%s gets %d keys' % (subject.name, keys))
            subject.fill(keys, size)
        servers = subjects[0], subjects[1:]
        record.say('%d keys, values of %d bytes, one server thread; medians of %d rounds in turn (least–greatest).' % (keys, size, rounds()))
        record.say()
        misses, hits, fits = {}, {}, {}
        for connections, pipeline in ((CONNECTIONS, 16), (10, 100)):
            misses[pipeline] = closed_loop(record, servers, 'All reads miss', 0, connections, pipeline, key_prefix='k', key_maximum=keys - 1)
            hits[pipeline] = closed_loop(record, servers, 'All reads hit', 1, connections, pipeline, key_prefix='key:', key_maximum=keys - 1)
            small = min(SMALL, keys)
            fits[pipeline] = closed_loop(record, servers, 'All reads hit %d keys, which the cache holds' % small, 1, connections, pipeline, key_prefix='key:', key_maximum=small - 1)
        fixed_rate(record, servers, pick(misses[16]['none'], 'rate').median, key_prefix='k', key_maximum=keys - 1)
        columns = [('misses', misses), ('hits', hits), ('in the cache', fits)]
        record.picture('bench-prefetch', 'Server CPU of a GET, us, by prefetch', ['%s, %d deep' % (what, depth) for depth in (16, 100) for what, _ in columns],
                       {level: [pick(found[depth][level], 'cpu') for depth in (16, 100) for _, found in columns] for level in LEVELS})
    finally:
        for subject in subjects:
            subject.stop()
    record.write()


if __name__ == '__main__':
    main()
