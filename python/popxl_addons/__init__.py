"""popxl_addons: modules with variables, named tensors and transforms on top of popxl.

Sub-modules are imported in the documented order. If two of them define the same name, or a function has the name of its
module (`autodiff`, `seed_variable`), the later one is exported.
"""
# ruff: noqa: F401, F403, I001

import os as _os
import subprocess as _subprocess

from popart._names import no_attribute as _no_attribute

from popxl_addons.module import *
from popxl_addons.graph_common import CalledGraphsGradInfo, CalledGraphsGradInfoLike, GradGraphInfoLike, GraphLike
from popxl_addons.graph_cache import *
from popxl_addons.remote import (
    create_remote_buffer,
    load_remote_graph,
    named_buffers,
    named_variable_buffers,
    store_remote_graph,
)
from popxl_addons.route_tensor import *
from popxl_addons.ops import *
from popxl_addons.transforms import *
from popxl_addons.seed_variable import *
from popxl_addons.streams import *
from popxl_addons.utils import OrderedDict, WeightsDict, timer
from popxl_addons.task_session import *
from popxl_addons.performance_utils import *
from popxl_addons.debugging import *
from popxl_addons.array_munging import *

from popxl_addons import graph, module, ops, remote, rts, streams, transforms, utils

# Names that programs import from here, because the first modules above import them.
import inspect
import warnings
import weakref
from contextlib import contextmanager
from functools import wraps

import popxl
from popxl import Ir, ReplicaGrouping, Tensor, dtypes
from popxl.context import get_current_context
from popxl.tensor import HostTensor
from popxl.transforms import GradGraphInfo


def _current_folder() -> "str | None":
    try:
        return _os.getcwd()
    except OSError:
        return None


_FOLDER = _current_folder()


def _git_commit() -> "str | None":
    """Return the first 7 characters of the current repository's commit; None outside of a repository."""
    if _FOLDER is None:
        return None
    try:
        done = _subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=_FOLDER, capture_output=True, text=True, timeout=5, check=True
        )
    except (OSError, _subprocess.SubprocessError):
        return None
    return done.stdout.strip()[:7]


def __getattr__(name: str) -> object:
    if name == "GIT_COMMIT":
        globals()[name] = _git_commit()
        return globals()[name]
    raise _no_attribute("module 'popxl_addons'", name, globals())
