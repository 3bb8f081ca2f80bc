"""Fixtures: a server for each back end, with one and with two threads; it is judged when the test is over."""

import contextlib

import pytest

from configurations import configurations
from server import Server

# What clients see of more threads they see with two.
KINDS = [kind for kind in configurations() if kind[1] <= 2] or configurations()


@pytest.fixture(scope='module', params=KINDS, ids=['%s-%d' % kind for kind in KINDS])
def kind(request):
    """A pair (back end, threads). All tests of a module that take it run with the first pair, then with the next."""
    return request.param


@pytest.fixture
def start(kind):
    """start(**options) starts a server of this kind; see lib/server.py for the options."""
    with contextlib.ExitStack() as running:
        yield lambda **options: running.enter_context(Server(io=kind[0], threads=kind[1], **options))


@pytest.fixture
def server(start):
    """A server with default settings."""
    return start()
