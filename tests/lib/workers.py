"""Functions that clients run all at once."""

import random
import threading
import time

from configurations import SOAK

SECONDS = 60 if SOAK else 2


class Workers:
    """Functions that are called again and again, each in a thread and with a connection of its own, until the time is over or one fails."""

    def __init__(self, server):
        self.server, self.faults, self.end = server, [], time.monotonic() + SECONDS

    def run(self, *functions):
        threads = [threading.Thread(target=self.loop, args=(f, number)) for number, f in enumerate(functions)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not self.faults, self.faults[0]

    def loop(self, function, number):
        rng, rounds = random.Random(number), 0
        try:
            with self.server.client(timeout=60) as c:
                while not rounds or (time.monotonic() < self.end and not self.faults):
                    function(c, rng)
                    rounds += 1
        except Exception as fault:      # noqa: BLE001
            self.faults.append('%s: %s' % (type(fault).__name__, fault))
