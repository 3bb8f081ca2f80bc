"""ioredis, node-redis and hiredis do ordinary work. Each scenario of their programs is a test."""

import os

import pytest

import programs


def node(source, environment=()):
    def run(kind, _):
        missing = programs.no_node_clients()
        assert not missing, missing
        modules = os.path.join(programs.MODULES, 'node_modules')
        return programs.run(['node', os.path.join(programs.HERE, source)], kind, {'NODE_PATH': modules, **dict(environment)})

    return source, run


def run_hiredis(kind, directory):
    program = os.path.join(directory, 'hiredis')
    if not os.path.exists(program):
        programs.compile_hiredis(program)
    return programs.run([program], kind)


# A client: the source of its scenarios, and a function that runs them.
CLIENTS = {
    'ioredis': node('ioredis.js'),
    'node-redis, RESP2': node('node_redis.js', {'RESP_VERSION': '2'}),
    'node-redis, RESP3': node('node_redis.js', {'RESP_VERSION': '3'}),
    'hiredis': ('hiredis.c', run_hiredis),
}


@pytest.fixture(scope='session')
def directory(tmp_path_factory):
    return str(tmp_path_factory.mktemp('programs'))


@pytest.fixture(scope='module')
def outcomes(kind, directory):
    """outcomes(client): how the scenarios of a client went. They are run together, when the first is asked for."""
    known = {}

    def of(client):
        if client not in known:
            try:
                known[client] = CLIENTS[client][1](kind, directory)
            except AssertionError as fault:
                known[client] = str(fault)
        if isinstance(known[client], str):
            pytest.fail(known[client], pytrace=False)
        return known[client]

    return of


@pytest.mark.limit(300)      # the first waits for npm
@pytest.mark.parametrize('client, scenario', [(client, scenario) for client, (source, _) in CLIENTS.items() for scenario in programs.scenarios_of(source)])
def test_program(outcomes, client, scenario):
    fault = outcomes(client)[scenario]
    if fault:
        pytest.fail(fault, pytrace=False)
