"""Fixtures: a server of every kind that is asked for (back end, threads), started for the test and ended, and judged, after it."""

import pytest

import configurations
from server import Server


def pytest_configure(config):
    config.addinivalue_line('markers', 'alone: measures time or fills the machine, so it runs by itself')
    config.addinivalue_line('markers', 'measures: does nothing but measure, so it means nothing under a sanitizer')
    config.addinivalue_line('markers', 'each_back_end: runs once for each back end, with the most threads')
    config.addinivalue_line('markers', 'every_pair: its subject is what goes through sockets or between threads, so it runs with every pair of back end and number of threads')
    config.addinivalue_line('markers', 'several_threads: makes sense only with two threads or more')


def pytest_generate_tests(metafunc):
    if 'configuration' not in metafunc.fixturenames:
        return
    marked = {m.name for m in metafunc.definition.iter_markers()}
    if 'each_back_end' in marked:
        kinds = configurations.one_of_each()
    elif 'every_pair' in marked:
        kinds = configurations.configurations()
    else:
        kinds = configurations.share('%s::%s' % (metafunc.module.__name__, metafunc.function.__name__))
    if 'several_threads' in marked:
        kinds = [k for k in kinds if k[1] > 1]
    metafunc.parametrize('configuration', kinds, ids=['%s-%d' % k for k in kinds])


@pytest.fixture
def start(configuration):
    """start(**options) starts a server of this configuration; see lib/server.py for the options."""
    io, threads = configuration
    running = []

    def start(**options):
        server = Server(**{'io': io, 'threads': threads, **options})
        running.append(server)
        return server

    yield start
    faults = []
    for server in running:
        try:
            server.stop()
        except AssertionError as fault:
            faults.append(fault)
    if faults:
        raise faults[0]


@pytest.fixture
def server(start):
    """A server with default settings."""
    return start()


@pytest.fixture(scope='session')
def reference():
    """A redis-server to compare with."""
    with Server(kind='redis', options=[('enable-debug-command', 'yes')]) as server:
        yield server
