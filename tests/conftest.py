"""What all pytest suites share: the path to tests/lib, and a limit on every test's time."""

import os
import signal
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'lib'))

SLOW = float(os.environ.get('DARTER_TEST_SLOW', '1'))


def pytest_configure(config):
    config.addinivalue_line('markers', 'limit(seconds): how long the test may take (120)')


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """A test that hangs fails instead of holding everything up."""
    marker = item.get_closest_marker('limit')
    seconds = (marker.args[0] if marker else 120) * SLOW

    def expired(*_):
        pytest.fail('the test took longer than %g s' % seconds)

    old = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
