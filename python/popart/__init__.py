"""PopART: train and run neural networks given as ONNX graphs.

This package re-exports the compiled core ``popart_core`` and adds Python classes and functions: ``Builder``,
``InferenceSession``, ``TrainingSession``, ``TensorInfo`` and ``OutOfMemoryException``.
"""

import enum as _enum

import popart_core as _core

# Every public name of the core, and the private functions that programs call by name.
globals().update({name: getattr(_core, name) for name in dir(_core) if not name.startswith("__")})

__version__ = _core.versionString()  # the PopART release whose behaviour this is; programs compare with it
__openpopart_version__ = _core._ownVersion  # the version of this distribution

defaultAiOnnxOpset = 10
defaultAiOnnxMlOpset = 1
defaultAiGraphcoreOpset = 1

import popart.printed_forms  # noqa: E402
from popart import loggers, losses, metrics, optim, plot  # noqa: E402
from popart._names import suggest_in_classes as _suggest_in_classes  # noqa: E402
from popart._names import suggest_in_modules as _suggest_in_modules  # noqa: E402
from popart._signatures import give_signatures as _give_signatures  # noqa: E402
from popart.builder import Builder  # noqa: E402
from popart.inference_form import inference_form  # noqa: E402
from popart.loading import load  # noqa: E402
from popart.losses import IdentityLoss, L1Loss, Loss, NllLoss  # noqa: E402
from popart.opsets import (  # noqa: E402
    AiGraphcoreOpset1,
    AiOnnx,
    AiOnnxMlOpset1,
    AiOnnxOpset6,
    AiOnnxOpset7,
    AiOnnxOpset8,
    AiOnnxOpset9,
    AiOnnxOpset10,
    AiOnnxOpset11,
)
from popart.session import InferenceSession, OutOfMemoryException, TrainingSession  # noqa: E402
from popart.tensorinfo import TensorInfo  # noqa: E402
from popart.trainer import Trainer  # noqa: E402

# The names under which operator sets are printed.
AiOnnx6, AiOnnx7, AiOnnx8 = AiOnnxOpset6, AiOnnxOpset7, AiOnnxOpset8
AiOnnx9, AiOnnx10, AiOnnx11 = AiOnnxOpset9, AiOnnxOpset10, AiOnnxOpset11
AiOnnxMl1, AiGraphcore1 = AiOnnxMlOpset1, AiGraphcoreOpset1

__all__ = [
    "AiGraphcore1",
    "AiGraphcoreOpset1",
    "AiOnnx",
    "AiOnnx10",
    "AiOnnx11",
    "AiOnnx6",
    "AiOnnx7",
    "AiOnnx8",
    "AiOnnx9",
    "AiOnnxMl1",
    "AiOnnxMlOpset1",
    "AiOnnxOpset6",
    "AiOnnxOpset7",
    "AiOnnxOpset8",
    "AiOnnxOpset9",
    "AiOnnxOpset10",
    "AiOnnxOpset11",
    "Builder",
    "IdentityLoss",
    "InferenceSession",
    "L1Loss",
    "Loss",
    "NllLoss",
    "OutOfMemoryException",
    "TensorInfo",
    "Trainer",
    "TrainingSession",
    "defaultAiGraphcoreOpset",
    "defaultAiOnnxMlOpset",
    "defaultAiOnnxOpset",
    "inference_form",
    "load",
    "loggers",
    "losses",
    "metrics",
    "optim",
    "plot",
    *(name for name in dir(_core) if not name.startswith("_")),
    "popart",
]

# Unknown names: errors suggest similar ones. Objects of the core refuse new attributes. Sessions do without: Python's
# tracebacks suggest names too, and the hook would cost each `run` a method lookup.
_classes = [
    item
    for item in vars(_core).values()
    if isinstance(item, type)
    and item.__module__ == _core.__name__
    and not issubclass(item, _enum.Enum | Exception | _core._Session)
]
_suggest_in_classes(*(item for item in _classes if not item.__name__.endswith(("Settings", "Options"))))
_suggest_in_classes(*(item for item in _classes if item.__name__.endswith(("Settings", "Options"))), sets=True)
_suggest_in_classes(AiGraphcoreOpset1, AiOnnx)
_suggest_in_modules("popart", inside=("optim", "losses"))
_give_signatures(_core.getLogger, _core.Logger.setLevel, _core.getLogger().setLevel)
