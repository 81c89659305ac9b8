"""The inference form of models: without loss, labels, optimizer state and nodes that only training needs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import popart_core


def inference_form(
    model: str | os.PathLike[str] | bytes | Any, outputs: Sequence[str] = (), fold_batch_norm: bool = False
) -> bytes:
    """Reduce a model to what inference needs.

    Nodes that the outputs do not need are removed, and with them losses, the labels that only losses read, and
    optimizer state. If constants of the file decide about the training mode, batch normalisation uses its stored
    statistics and Dropout is removed; a ``training_mode`` that is a graph input still decides at run time. Any ONNX
    runtime can run the result, as far as its operators are those of ONNX.

        data = popart.inference_form("trained.onnx")
        onnxruntime.InferenceSession(data)

    Args:
        model: The name of an ONNX file, the bytes of a model, or an ``onnx.ModelProto``.
        outputs: Names of graph outputs or other tensors to keep. None: the graph outputs that no loss is computed
            from; if there are none, the predictions that the losses read.
        fold_batch_norm: Fold batch normalisation into the Conv, ConvTranspose or Gemm before it. Results then differ by
            rounding.

    Returns:
        The new model, with all its weights.

    Raises:
        popart_exception: The model is not valid, an output is unknown, all outputs are losses, or the result is larger
            than 2 GiB (use ``popart-convert --inference``, which writes several files).
    """
    source = model.SerializeToString() if hasattr(model, "SerializeToString") else model
    return popart_core._inference_form(source, list(outputs), fold_batch_norm)
