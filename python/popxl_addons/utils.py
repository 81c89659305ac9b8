"""Small functions for the whole package."""

import logging
import re
import time
from collections import OrderedDict as _OrderedDict
from collections.abc import Iterable, Iterator, KeysView, MutableMapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import popxl


@contextmanager
def timer(title: str | None = None, log_to_wandb: bool = True) -> Iterator[None]:
    """Log how many minutes the body takes.

    Args:
        title: name of the body.
        log_to_wandb: also write the time to the summary of an active wandb run.
    """
    if title:
        logging.info("Starting %s", title)
    start = time.time()
    yield
    minutes = (time.time() - start) / 60
    logging.info(f"{title} duration: {minutes:.2f} mins" if title else f"Duration: {minutes:.2f} mins")
    if log_to_wandb and title:
        try:
            import wandb
        except ImportError:
            return
        if wandb.run is not None:
            wandb.run.summary[title.lower().replace(" ", "_") + "_mins"] = minutes


def tiles(use_io_tiles: bool) -> AbstractContextManager:
    """Return a context that places ops on IO tiles, or does nothing."""
    return popxl.io_tiles() if use_io_tiles else nullcontext()


class OrderedDict(_OrderedDict):
    """Ordered dict with access by position; prints one entry per line."""

    def idx(self, i: int) -> Any:
        """Return the i-th value."""
        return list(self.values())[i]

    def keys(self) -> KeysView:
        """Return the keys; the view prints like that of a plain dict."""
        return dict(self.items()).keys()

    def __repr__(self) -> str:
        lines = "".join(f"{key}: {value},\n" for key, value in self.items())
        return "{\n" + lines + "}" if lines else "{}"


class WeightsDict(MutableMapping):
    """Mapping from variable to array that checks dtype and shape; arguments as for dict.

    Raises:
        ValueError: an array has another dtype than its variable, or another shape than the variable has on the host.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.dict: dict[Any, np.ndarray] = {}
        self.update(*args, **kwargs)

    def __getitem__(self, key: Any) -> np.ndarray:
        return self.dict[key]

    def __setitem__(self, key: Any, value: np.ndarray) -> None:
        if popxl.dtype.as_dtype(value.dtype) != key.dtype:
            raise ValueError(f"tensor and weight dtypes do not equal: {key.dtype} and {value.dtype} for {key}")
        if tuple(value.shape) != tuple(key.shape_on_host):
            raise ValueError(f"tensor and weight shapes do not equal: {key.shape_on_host} and {value.shape} for {key}")
        self.dict[key] = value

    def __delitem__(self, key: Any) -> None:
        del self.dict[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.dict)

    def __len__(self) -> int:
        return len(self.dict)


def suffix_graph_name(name: str, suffix: str) -> str:
    """Return `name` without every ``_subgraph(<n>)``, then ``_`` and the suffix."""
    return re.sub(r"_subgraph\(\d+\)", "", name) + f"_{suffix}"


def overrides(cls: type, base_cls: type, method: str) -> bool:
    """Whether `cls` has its own `method`.

    Args:
        cls: the class.
        base_cls: a class it derives from.
        method: name of the method.

    Returns:
        Whether the two differ.
    """
    return getattr(cls, method) != getattr(base_cls, method)


def duplicate_items(iterable: Iterable[Any]) -> list[Any]:
    """Return the items that occur more than once, in order of first appearance.

    Args:
        iterable: the items.

    Returns:
        The repeated items, each once.
    """
    items = list(iterable)
    seen: list[Any] = []
    return [i for i in items if items.count(i) > 1 and not (i in seen or seen.append(i))]


@contextmanager
def null_context() -> Iterator[None]:
    """Do nothing."""
    yield
