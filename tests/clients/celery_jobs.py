"""Jobs for celery, and its application: DARTER_PORT=PORT celery -A celery_jobs worker.

A job is acknowledged once it is done (acks_late); what a killed worker had taken comes back after the visibility timeout, whenever a worker looks for it.

What celery wants and Darter does not have yet is left out: talk among workers, remote control and results (PUBLISH, SUBSCRIBE). The lock under which one worker brings
back what was not acknowledged is redis-py's, which is released by a script; here it is released by WATCH, MULTI, EXEC.
"""

import contextlib
import functools
import os
import uuid

import celery
import kombu.transport.redis
import redis

DONE = 'done'       # a hash: how often each job was done


def broker(port):
    return 'redis://127.0.0.1:%s/0' % port


app = celery.Celery('celery_jobs', broker=broker(os.environ.get('DARTER_PORT')))
# Who is killed under the lock keeps it no longer than anything else.
visible_seconds = int(os.environ.get('VISIBLE_SECONDS', 3600))
app.conf.update(
    task_acks_late=True, task_ignore_result=True, worker_prefetch_multiplier=1, worker_enable_remote_control=False,
    broker_transport_options={'visibility_timeout': visible_seconds, 'unacked_mutex_expire': visible_seconds})


@contextlib.contextmanager
def mutex(client, name, expire):
    owner = uuid.uuid4().bytes
    if not client.set(name, owner, nx=True, ex=expire):
        raise kombu.transport.redis.MutexHeld()
    try:
        yield
    finally:
        def release(pipe):
            mine = pipe.get(name) == owner
            pipe.multi()
            if mine:
                pipe.delete(name)
        client.transaction(release, name)


kombu.transport.redis.Mutex = mutex


@functools.lru_cache(None)
def connection():
    return redis.Redis(port=int(os.environ['DARTER_PORT']))


@app.task
def do(number):
    connection().hincrby(DONE, number, 1)
