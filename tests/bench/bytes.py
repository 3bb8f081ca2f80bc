"""tools/bench bytes: how many bytes a request moves between memory and the caches, and whether 64 to 128 cores could be fed with them.

Callgrind simulates the caches of one core: 32 KiB of first level, and SHARE_KIB of the last level, a core's share of what a server CPU of 64 to 128 cores has. What a
request misses there, times 64 bytes, is what memory delivers for it; changed lines that are thrown out are written back (--simulate-wb). Only the server's own
code is seen, not the kernel's. Callgrind knows no prefetch: a line that is prefetched is counted when it is used. A line that was prefetched in vain is not seen, so
what "full" prefetches beyond need (the neighbour of a home bucket that has the key) is added from DEBUG HTSTATS.
One thread, epoll; 10 connections, 16 deep, random keys. Also the instructions of each setting of prefetch, which is what it costs where the cache holds everything.

Variables: KEYS (2000000), SIZE of a value (100), REQUESTS (100000), DARTER (build/darter). Needs valgrind. It counts, so it runs once; the load of the machine changes nothing.
"""

import itertools
import os
import re
import subprocess

from measure import run_load, setting
from prefetch import LEVELS, SMALL
from record import Record
from subjects import Subject, everything, peers

LINE = 64
SHARE_KIB = 2048
# Bandwidth of a socket, GB/s: channels x megatransfers a second x 8 bytes.
MEMORIES = (('8 channels of DDR4-3200', 64, 8 * 3200 * 8 / 1e3), ('12 channels of DDR5-6000', 128, 12 * 6000 * 8 / 1e3))
RATES = (500000, 1000000, 2000000)  # requests a second and core


def control(subject, *words):
    subprocess.run(['callgrind_control', *words, str(subject.pid)], check=True, capture_output=True)


def events_of(subject, requests, **flags):
    """{name: events a request}. A tenth runs uncounted, so that the caches hold what they will."""
    run_load(subject, everything(), requests // 10, 10, 16, **flags)
    control(subject, '-z')
    made = run_load(subject, everything(), requests, 10, 16, **flags)['requests']
    before = set(os.listdir(subject.directory))
    control(subject, '-d')
    (dump,) = set(os.listdir(subject.directory)) - before
    with open(os.path.join(subject.directory, dump)) as f:
        content = f.read()
    names, totals = (re.search('^%s: (.*)$' % word, content, re.M)[1].split() for word in ('events', 'totals'))
    return {name: int(total) / made for name, total in itertools.zip_longest(names, totals, fillvalue=0)}


def figures(e):
    """(instructions, bytes read, bytes written back) a request."""
    return e['Ir'], LINE * (e['ILmr'] + e['DLmr'] + e['DLmw']), LINE * (e['ILdmr'] + e['DLdmr'] + e['DLdmw'])


def share_at_home(subject):
    text = subject.ask('DEBUG', 'HTSTATS', 0).decode()
    return float(re.search(r'^ *home: .*?([\d.]+) ?%', text, re.M)[1]) / 100


def start(name):
    prefix = ['valgrind', '--tool=callgrind', '--instr-atstart=no', '--cache-sim=yes', '--simulate-wb=yes', '--I1=32768,8,64', '--D1=32768,8,64', '--LL=%d,16,64' % (SHARE_KIB * 1024),
              '--callgrind-out-file=callgrind.out']
    return Subject(name, prefix=prefix, options=['--io', 'epoll'] if name == 'darter' else [])


def work(keys, size):
    return {'GET, a miss': {'key_prefix': 'k', 'key_maximum': keys - 1, 'ratio': '0:1'}, 'GET, a hit': {'key_maximum': keys - 1, 'ratio': '0:1'},
            'SET of a key that is there': {'key_maximum': keys - 1, 'ratio': '1:0', 'd': size}}


def instructions(record, darter, keys, requests):
    rows = []
    for name, flags in (('GET, a miss', {'key_prefix': 'k', 'key_maximum': keys - 1}), ('GET, a hit', {'key_maximum': keys - 1}),
                        ('GET of %d keys, which the cache holds' % SMALL, {'key_maximum': min(SMALL, keys) - 1})):
        row = []
        for level in LEVELS:
            record.progress('instructions: %s, %s' % (name, level))
            darter.ask('CONFIG', 'SET', 'prefetch', level)
            row.append(events_of(darter, requests, ratio='0:1', **flags)['Ir'])
        rows.append([name, *('%.0f' % row[0] if i == 0 else '%+.0f' % (n - row[0]) for i, n in enumerate(row))])
    record.say('Instructions a request, and what each setting of prefetch adds:')
    record.say()
    record.table(['', *LEVELS], rows)


def arithmetic(record, moved):
    """moved: {work: bytes a request}."""
    record.say('What cores would ask of the memory of their socket, if each served so many requests a second:')
    record.say()
    rows = []
    for memory, cores, bandwidth in MEMORIES:
        for name, each in moved.items():
            rows.append(['%d cores, %s, %.0f GB/s' % (cores, memory, bandwidth), name,
                         *('%.0f GB/s, %.0f %%' % (cores * rate * each / 1e9, 100 * cores * rate * each / 1e9 / bandwidth) for rate in RATES)])
    record.table(['socket', 'request', *('%.1f M a core' % (rate / 1e6) for rate in RATES)], rows)


def main():
    keys, size, requests = setting('KEYS', 2000000), setting('SIZE', 100), setting('REQUESTS', 100000)
    record, moved, rows = Record('bytes'), {}, []
    record.say('%d keys, values of %d bytes; callgrind, 32 KiB of first level, %d KiB of last level.' % (keys, size, SHARE_KIB))
    record.say()
    for name in ['darter', *(p for p in peers() if p in ('redis-server', 'valkey-server'))]:
        with start(name) as subject:
            record.progress('%s gets %d keys under valgrind' % (name, keys))
            subject.fill(keys, size)
            control(subject, '-i', 'on')
            for what, flags in work(keys, size).items():
                record.progress('%s: %s' % (name, what))
                ir, read, written = figures(events_of(subject, requests, **flags))
                vain = LINE * share_at_home(subject) if name == 'darter' and 'miss' not in what else 0
                rows.append([what, name, '%.0f' % ir, '%.0f' % read, '%.0f' % written, '%.0f' % vain, '%.0f' % (read + written + vain)])
                if name == 'darter':
                    moved[what] = read + written + vain
            if name == 'darter':
                instructions(record, subject, keys, requests)
    record.say('Bytes between memory and caches, a request:')
    record.say()
    record.table(['request', 'server', 'instructions', 'read', 'written back', 'prefetched in vain', 'together'], rows)
    arithmetic(record, moved)
    record.write()


if __name__ == '__main__':
    main()
