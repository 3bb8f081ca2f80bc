"""tools/bench prefetch-small: what the prefetch costs where it can bring nothing, on tables that the caches hold as a whole, and no other work beside.

Like tools/bench prefetch, closed loop, GETs that hit. Variables: REQUESTS a measurement (1000000), ROUNDS (5), SIZE of a value (100), DARTER (build/darter).
"""

from measure import pick, rounds, setting
from prefetch import CONNECTIONS, LEVELS, closed_loop
from record import Record
from subjects import Subject, cpus

TABLES = (200, 1000, 10000)


def main():
    record, found = Record('prefetch-small'), {}
    record.say('Values of %d bytes, one server thread; medians of %d rounds in turn (least–greatest).' % (setting('SIZE', 100), rounds()))
    record.say()
    for keys in TABLES:
        with Subject(cpu_list=cpus()[0]) as darter:
            darter.fill(keys, setting('SIZE', 100))
            for connections, pipeline in ((CONNECTIONS, 16), (10, 100)):
                found[keys, pipeline] = closed_loop(record, (darter, []), 'A table of %d keys' % keys, 1, connections, pipeline, key_maximum=keys - 1)
    record.picture('bench-prefetch-small', 'Server CPU of a GET, us, small tables', ['%d keys, %d deep' % pair for pair in found],
                   {level: [pick(one[level], 'cpu') for one in found.values()] for level in LEVELS})
    record.write()


if __name__ == '__main__':
    main()
