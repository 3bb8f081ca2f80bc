"""A wall clock that goes on by some milliseconds in each turn of a server's threads (clock_steps.c, loaded before the C library): so a key can be past its time between
any two steps of a command. The same for the monotonic clock, by which whoever waits knows that it was long.

    server = start(env=clock_steps(folder, 5))
"""

import os
import subprocess

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'clock_steps.c')


def clock_steps(folder, step_ms, monotonic_ms=0):
    preload = os.path.join(str(folder), 'clock_steps.so')
    subprocess.run(['gcc', '-shared', '-fPIC', '-O1', '-o', preload, SOURCE], check=True)
    return {'LD_PRELOAD': preload, 'CLOCK_STEP_MS': str(step_ms), 'MONOTONIC_STEP_MS': str(monotonic_ms)}
