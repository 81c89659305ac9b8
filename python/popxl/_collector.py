"""Building without the cyclic garbage collector.

A program is made of many small objects that all live on. While they are made, the collector would look through them,
and now and then through every object of the process, to find nothing.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Hold automatic collections back until the body ends; nested, or where they are off, it changes nothing."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
