"""Jobs for rq, and a worker that does them: /usr/bin/python3 rq_jobs.py PORT.

What rq wants and Darter does not have yet is left out: commands sent to workers (SUBSCRIBE, PUBLISH), results in streams (XADD: rq is told of a server of
version 4, where it keeps them in hashes). Queue.empty() and Queue.delete() need EVAL; nothing here calls them.

A worker of the plain kind forks for each job, which costs more than the job; this one does them itself.
"""

import logging
import sys

import redis
import rq
import rq.job
import rq.queue
import rq.worker

QUEUE = 'jobs'
DONE = 'done'       # a hash: how often each job was done


def version_without_streams(connection):
    return 4, 0, 0


for module in (rq.job, rq.queue, rq.worker):
    module.get_version = version_without_streams


def do(number):
    rq.get_current_job().connection.hincrby(DONE, number, 1)


def leave():
    """The worker that gets this job goes when it is done."""
    Worker.running._stop_requested = True


class Worker(rq.SimpleWorker):
    running = None

    def subscribe(self):
        pass

    def unsubscribe(self):
        pass


def main(port):
    connection = redis.Redis(port=int(port))
    Worker.running = Worker([rq.Queue(QUEUE, connection=connection)], connection=connection)
    logging.getLogger('rq.worker').setLevel(logging.WARNING)
    Worker.running.work(logging_level='WARNING')


if __name__ == '__main__':
    import rq_jobs      # so that a job's function is looked for in one module, whose Worker is the running one
    rq_jobs.main(sys.argv[1])
