"""Classes of operators for ``isinstance`` tests: ``AddOp``, ``MatMulOp`` ….

Ops of a graph are objects of one class, ``Op``; the classes here recognise them by their type. There is
a class ``<Type>Op`` for every operator.
"""

import sys
from typing import Any

from popart_core._ir import Op, hasOperator

# Class names that differ from "<operator type>Op".
_TYPES = {"Subtract": "Sub", "GroupNorm": "GroupNormalization", "BatchNorm": "BatchNormalization", "Negate": "Neg"}


class _OpMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Op) and instance.opType() == cls._op_type


_CLASSES: dict[str, type] = {}
exchange = sys.modules[__name__]  # programs write op.exchange.HostLoadOp


def __getattr__(name: str) -> type:
    base = name[:-2]
    if not name.endswith("Op") or not hasOperator(_TYPES.get(base, base)):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    if name not in _CLASSES:
        namespace = {"_op_type": _TYPES.get(base, base), "__doc__": f"Ops of type {_TYPES.get(base, base)}."}
        _CLASSES[name] = _OpMeta(name, (), namespace)
    return _CLASSES[name]
