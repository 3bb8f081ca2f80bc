"""rq and celery do jobs by way of the server while their workers are killed: none is lost.

Few jobs are under way at a time. rq takes a job off its queue before it notes who has it, and brings none back by itself: at most the one job that each killed worker
had is not done, and it is given again. celery brings back by itself what was not acknowledged, and may do such a job twice; but it, too, notes a job only once it has
taken it, so that a worker that is killed in between loses it.
"""

import importlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from configurations import SOAK, seed
from server import PATIENCE, Server

HERE = os.path.dirname(os.path.abspath(__file__))
JOBS = int(os.environ.get('DARTER_TEST_JOBS') or (100000 if SOAK else 300))
WORKERS = 3
KILLS = 100 if SOAK else 3
VISIBLE_SECONDS = 3
UNDER_WAY = 100     # jobs that were given and are not done


class Crowd:
    """Workers, each a process."""

    def __init__(self, command, port):
        self.command, self.environment = command, {**os.environ, 'PYTHONPATH': HERE, 'DARTER_PORT': str(port), 'VISIBLE_SECONDS': str(VISIBLE_SECONDS)}
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.running:
            worker.kill()
            worker.wait()

    def add(self, n):
        for _ in range(n):
            self.running.append(subprocess.Popen(self.command, stdin=subprocess.DEVNULL, cwd=HERE, env=self.environment))

    def kill_one(self, rng):
        worker = self.running.pop(rng.randrange(len(self.running)))
        assert worker.poll() is None, 'a worker has ended by itself'
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()

    def wait_all(self, *statuses):
        for worker in self.running:
            assert worker.wait(PATIENCE) in statuses
        self.running = []


def done_count(r):
    return r.hlen('done')


def wait_while_it_goes_on(r, until):
    """Waits until it is true; a bound for what does not go on."""
    last, since = done_count(r), time.monotonic()
    while not until(n := done_count(r)):
        if n != last:
            last, since = n, time.monotonic()
        assert time.monotonic() < since + PATIENCE, '%d jobs of %d are done, and no more' % (n, JOBS)
        time.sleep(.02)


def give_and_kill(r, crowd, give):
    """Gives all jobs, few at a time, and kills workers meanwhile: when between two numbers of jobs done, that is random."""
    rng = random.Random(seed('DARTER_TEST_JOBS_SEED', '1'))
    kill_at = sorted(rng.randrange(JOBS // 20, JOBS - JOBS // 20) for _ in range(KILLS))
    crowd.add(WORKERS)
    for first in range(0, JOBS, 20):
        give(range(first, min(first + 20, JOBS)))
        wait_while_it_goes_on(r, lambda n: n >= first + 20 - UNDER_WAY)
        while kill_at and first >= kill_at[0]:
            crowd.kill_one(rng)
            crowd.add(1)
            kill_at.pop(0)
    assert not kill_at


def counts(r):
    return {int(number): int(n) for number, n in r.hgetall('done').items()}


@pytest.mark.limit(PATIENCE + (7200 if SOAK else 60))
def test_rq_loses_no_job():
    rq_jobs = pytest.importorskip('rq_jobs')
    import rq
    with Server(threads=2) as server, server.redis() as r:
        queue = rq.Queue(rq_jobs.QUEUE, connection=r)

        def give(numbers):
            queue.enqueue_many([rq.Queue.prepare_data(rq_jobs.do, [number], job_id=str(number), result_ttl=0) for number in numbers])

        def let_workers_go():
            """They leave once they have done all that was given before; so nothing is under way."""
            for _ in range(WORKERS):
                queue.enqueue(rq_jobs.leave, result_ttl=0)
            crowd.wait_all(0)

        with Crowd([sys.executable, '-B', 'rq_jobs.py', str(server.port)], server.port) as crowd:
            give_and_kill(r, crowd, give)
            let_workers_go()
            missing = set(range(JOBS)) - set(counts(r))
            assert len(missing) <= KILLS, missing
            for number in missing:
                queue.enqueue_job(rq.job.Job.fetch(str(number), connection=r))
            crowd.add(WORKERS)
            let_workers_go()
        assert counts(r) == dict.fromkeys(range(JOBS), 1)
        assert queue.count == 0


@pytest.mark.limit(PATIENCE + (7200 if SOAK else 60))
def test_celery_loses_no_job():
    pytest.importorskip('celery')
    with Server(threads=2) as server, server.redis() as r:
        celery_jobs = importlib.import_module('celery_jobs')
        celery_jobs.app.conf.broker_url = celery_jobs.broker(server.port)

        def give(numbers):
            for number in numbers:
                celery_jobs.do.delay(number)

        command = [sys.executable, '-B', '-W', 'ignore', '-m', 'celery', '-A', 'celery_jobs', 'worker', '-P', 'solo', '-l', 'error', '--without-gossip', '--without-mingle',
                   '--without-heartbeat']
        with Crowd(command, server.port) as crowd:
            give_and_kill(r, crowd, give)
            missing = finish(r, crowd)
            assert len(missing) <= KILLS, missing
            give(missing)
            crowd.add(1)
            wait_while_it_goes_on(r, lambda n: n == JOBS)
        done = counts(r)
        assert set(done) == set(range(JOBS)) and sum(done.values()) <= JOBS + 2 * KILLS


def finish(r, crowd):
    """Waits until all that waits and all that was not acknowledged is done, and lets the workers go. The jobs that are nowhere, then."""
    end = time.monotonic() + PATIENCE
    while r.exists('celery', 'unacked'):
        assert time.monotonic() < end, 'something is left that nobody does'
        time.sleep(VISIBLE_SECONDS)
        crowd.add(1)    # it looks for what was not acknowledged when it begins; the others do every 100 seconds
    for worker in crowd.running:
        worker.terminate()
    crowd.wait_all(0, -signal.SIGTERM)     # the latter: it had not begun
    assert not r.exists('celery', 'unacked')
    return sorted(set(range(JOBS)) - set(counts(r)))
