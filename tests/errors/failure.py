"""Failure: a program that must be refused, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx.parser
import popart

import onnx


@dataclass(frozen=True)
class Failure:
    """A program that must be refused.

    Attributes:
        name: What is wrong, in snake case.
        program: Function without arguments that must raise.
        fragment: Part of the message.
        exception: Type of the exception.
    """

    name: str
    program: Callable[[], Any]
    fragment: str
    exception: type[BaseException] = popart.popart_exception


def parsed(inputs: str, body: str, outputs: str = "y", opset: int = 17, weights: str = "") -> onnx.ModelProto:
    """A model in ONNX's text form; outputs have no type."""
    declared = ", ".join(f"float {name.strip()}" for name in outputs.split(","))
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => ({declared}) <{weights}> {{ {body} }}'
    model = onnx.parser.parse_model(text)
    for value in model.graph.output:
        value.ClearField("type")
    return model


def session(model: onnx.ModelProto | bytes | str, anchors: Any = None, **more: Any) -> popart.InferenceSession:
    """An inference session of the model on the CPU."""
    if anchors is None:
        anchors = [model.graph.output[0].name] if isinstance(model, onnx.ModelProto) else ["y"]
    if isinstance(model, onnx.ModelProto):
        model = model.SerializeToString()
    return popart.InferenceSession(model, popart.DataFlow(1, anchors), popart.DeviceManager().createCpuDevice(), **more)


def node(name: str, inputs: str, body: str, fragment: str, opset: int = 17, outputs: str = "y") -> Failure:
    """A model of a few nodes that no session takes."""
    return Failure(name, lambda: session(parsed(inputs, body, outputs, opset)), fragment)


def edited(name: str, edit: Callable[[onnx.ModelProto], Any], fragment: str, anchors: Any = None) -> Failure:
    """The model relu(x) + w after an edit of its message."""

    def program() -> Any:
        model = parsed("float[2,3] x", "h = Relu(x) y = Add(h, w)")
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(3, np.float32), "w"))
        edit(model)
        return session(model, anchors)

    return Failure(name, program, fragment)


def relu_model(opset: int = 11, weight: int = 0) -> bytes:
    """Y = relu(x) for x of shape (2, 3); with `weight`, y = relu(w) for a weight of that many elements."""
    model = parsed("float[2,3] x", "y = Relu(w)" if weight else "y = Relu(x)", opset=opset)
    if weight:
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(weight, np.float32), "w"))
    return model.SerializeToString()


def training_model() -> tuple[bytes, str]:
    """A linear classifier with a loss."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3], "x")
    labels = builder.addInputTensor("INT32", [2], "labels")
    weight = builder.addInitializedInputTensor(np.ones((3, 4), np.float32), "w")
    probs = builder.aiOnnx.softmax([builder.aiOnnx.matmul([x, weight])])
    loss = builder.aiGraphcore.nllloss([probs, labels])
    return builder.getModelProto(), loss
