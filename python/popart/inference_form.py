"""Models in the form in which they are used: without loss, labels, optimizer state and what only training computes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import popart_core


def inference_form(
    model: str | os.PathLike[str] | bytes | Any, outputs: Sequence[str] = (), fold_batch_norm: bool = False
) -> bytes:
    """Cut a model to what is used of it.

    Nodes that the outputs do not need are dropped, and with them losses, the labels that only they read and optimizer
    state. Batch normalisation gets its stored statistics and Dropout is removed where constants of the file decide
    about them; a ``training_mode`` that is a graph input still decides in the run. What runs ONNX models runs the
    result, as far as its operators are those of ONNX.

        data = popart.inference_form("trained.onnx")
        onnxruntime.InferenceSession(data)

    Args:
        model: The name of an ONNX file, the bytes of a model, or an ``onnx.ModelProto``.
        outputs: Names of graph outputs or other tensors to keep. None: the graph outputs that no loss leads to; where
            there are none, the predictions that the losses read.
        fold_batch_norm: Fold batch normalisation into the Conv, ConvTranspose or Gemm before it. Changes numbers by
            rounding.

    Returns:
        The new model, with all weights inside.

    Raises:
        popart_exception: No valid model, an unknown output, no output but losses, or more than 2 GiB
            (``popart-convert --inference`` writes those).
    """
    source = model.SerializeToString() if hasattr(model, "SerializeToString") else model
    return popart_core._inference_form(source, list(outputs), fold_batch_norm)
