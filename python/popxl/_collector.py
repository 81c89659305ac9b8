"""Building programs without the cyclic garbage collector.

A program consists of many small objects, none of which is garbage while it is built. The collector would search them,
and sometimes every object of the process, and find nothing.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause automatic collections until the body ends. Calls nest; if collections are off, they stay off."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
