"""Exports networks as their users do, with either exporter of PyTorch."""

import contextlib
import io
import warnings
from dataclasses import dataclass

import torch
import transformers
from torch import nn


@dataclass(frozen=True)
class Form:
    """An exporter and the opset it is asked for."""

    dynamo: bool
    opset: int

    def __str__(self) -> str:
        return f"{'dynamo' if self.dynamo else 'torchscript'}-{self.opset}"


# The newest of each are last; the dynamo exporter writes nothing older than 18.
FORMS = [Form(False, 11), Form(False, 17), Form(False, 20), Form(True, 18), Form(True, 24)]
OLDEST_FUSED_ATTENTION = 14


def export(
    network: nn.Module, inputs: tuple[torch.Tensor, ...], form: Form, training: bool = False, unfolded: bool = False
) -> bytes:
    """The network as a model whose inputs are in0, in1, ...

    Parameters are stored as they are in a network for training, and in one for inference that is exported `unfolded`:
    batch norms and functions of parameters stay nodes. Only the TorchScript exporter has these two forms.
    """
    for module in network.modules():
        if isinstance(module, transformers.PreTrainedModel) and form.opset < OLDEST_FUSED_ATTENTION:
            module.set_attn_implementation("eager")
    file = io.BytesIO()
    names = [f"in{i}" for i in range(len(inputs))]
    settings = {"input_names": names, "opset_version": form.opset, "dynamo": form.dynamo}
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # its one operator is none of ONNX
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
            warnings.simplefilter("ignore")
            if form.dynamo:
                return torch.onnx.export(network, inputs, verbose=False, **settings).model_proto.SerializeToString()
            if training:
                mode = torch.onnx.TrainingMode.TRAINING
                settings |= {"training": mode, "do_constant_folding": False, "output_names": ["loss"]}
            if unfolded:
                settings |= {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
            torch.onnx.export(network, inputs, file, **settings)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return file.getvalue()
