"""Requests while a snapshot is being written: tools/bench saving.

GET and SET over KEYS keys of 100 B in a file of its own, 50 connections, 1 and 16 deep: requests a second, and CPU of the server's threads a request, before a BGSAVE and during it, and the longest slices of
housekeeping meanwhile, and the memory beyond the data that the snapshot took, as the server tells of it (rdb_last_cow_size: of redis-server the pages that were copied because they changed; here the
most bytes at a time that waited for the disk, or were kept until they were written). The server has one CPU, with the thread that writes the file, and the load another. What the walk and the file's thread spend is the snapshot's own and not counted
for the requests; images of what is about to change are. redis-server's child shares the CPU too; as its own cost is the child's, all that its main process spends is the requests'.
The file lies where temporary files do: TMPDIR=/dev/shm measures no disk.

Variables: KEYS (3000000), ROUNDS (3), COMPRESSION (yes), BEFORE_MS (2000), DARTER (build/darter).
"""

import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from measure import Spread, setting  # noqa: E402
from subjects import Subject, cpus, darter_binary, on  # noqa: E402

KEYS = setting('KEYS', 3000000)
SETTLE_S = 0.5
BEFORE_S = setting('BEFORE_MS', 2000) / 1000
FOREVER = 1 << 40


def main_cpu_s(subject):
    """CPU of the threads that serve: not of the one that writes the file, which lives as long as the snapshot."""
    total, tasks = 0, '/proc/%d/task' % subject.pid
    for task in os.listdir(tasks):
        try:
            with open('%s/%s/comm' % (tasks, task)) as f:
                if f.read().strip() == 'snapshot':
                    continue
            with open('%s/%s/schedstat' % (tasks, task)) as f:
                total += int(f.read().split()[0])
        except FileNotFoundError:
            continue
    return total / 1e9


def number(text, name):
    return int(re.search(r'\b%s[:=](\d+)' % name, text).group(1))


def look(subject, client):
    """Seconds, requests so far, CPU for them."""
    own = sum(int(n) for n in re.findall(r'_housekeeping:slices=\d+,usec=(\d+)', client.command('INFO', 'threads').decode()))
    return time.monotonic(), number(client.command('INFO', 'stats').decode(), 'total_commands_processed'), main_cpu_s(subject) - own / 1e6


def rates(before, after):
    n = after[1] - before[1]
    return n / (after[0] - before[0]), (after[2] - before[2]) * 1e6 / n


def one_round(subject, ratio, depth):
    server_cpus, load_cpus = cpus()
    bench = os.path.join(os.path.dirname(os.path.abspath(darter_binary())), 'darter-bench')
    words = ['-p', subject.port, '-h', '127.0.0.1', '--proactor_threads=1', '-c', 50, '-n', FOREVER, '--qps=0', '--pipeline=%d' % depth, '--ratio=' + ratio, '-d', 100,
             '--key_prefix=key:', '--key_maximum=%d' % (KEYS - 1), '--random_data']
    load = subprocess.Popen([*on(load_cpus), bench, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with subject.client() as client:
            time.sleep(SETTLE_S)
            first = look(subject, client)
            time.sleep(BEFORE_S)
            second = look(subject, client)
            client.command('CONFIG', 'RESETSTAT')
            begin = look(subject, client)
            client.command('BGSAVE')
            while number(client.command('INFO', 'persistence').decode(), 'rdb_bgsave_in_progress'):
                time.sleep(0.02)
            end = look(subject, client)
            if load.poll() is not None:
                sys.exit('%s ended, with status %d: nothing was measured' % (bench, load.returncode))
            extra = number(client.command('INFO', 'persistence').decode(), 'rdb_last_cow_size')
            slices = re.findall(r'_housekeeping:.*longest_usec=([\d.]+)', client.command('INFO', 'threads').decode())
    finally:
        load.kill()
        load.wait()
    (rate, cpu), (rate_then, cpu_then) = rates(first, second), rates(begin, end)
    return rate_then / rate, cpu, cpu_then, cpu_then / cpu, end[0] - begin[0], max(map(float, slices), default=0), extra / 2**20


def main():
    print('| requests during BGSAVE of %d keys | requests a second | CPU a request, us | ratio | BGSAVE took, s | longest slice of housekeeping, us | extra memory, MiB |' % KEYS)
    print('|---' * 7 + '|')
    compression = os.environ.get('COMPRESSION') or 'yes'
    for kind in ('redis-server', 'darter'):
        with Subject(kind, cpu_list=cpus()[0], options=['--rdbcompression', compression]) as subject:
            subject.fill(KEYS, 100)
            for name, ratio in (('GET', '0:1'), ('SET', '1:0')):
                for depth in (1, 16):
                    found = [one_round(subject, ratio, depth) for _ in range(setting('ROUNDS', 3))]
                    kept, cpu, cpu_then, times, took, longest, extra = (Spread(list(column)).median for column in zip(*found))
                    print('| %s: %s, %d deep | %.2f x | %.3f to %.3f | %.2f | %.1f | %s | %.1f |' % (
                        kind, name, depth, kept, cpu, cpu_then, times, took, '%.0f' % longest if kind == 'darter' else '', extra), flush=True)


main()
