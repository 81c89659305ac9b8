"""Ours and its peers: each builds a network of `networks` and offers one measured call.

`make(peer, name)` returns a `Runner` that holds the network (for those that read ONNX: the exported model) and nothing
of the peer yet; `open` constructs the peer's session or compiled function. Its `call` is one inference, or one
optimizer step on the same batch; `check` gives what is compared between implementations: the output, or the losses of
the first steps (which it executes).
"""

from __future__ import annotations

import io
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict

import exported_programs as programs
import networks
import numpy as np
import torch
from networks import Benchmark

THREADS = 2
CHECKED_STEPS = 3


class Runner(ABC):
    """One implementation of one network; ready to run after `open`."""

    @abstractmethod
    def open(self) -> None:
        """Construct what runs the network; what `compile_time` measures together with the first call."""

    @abstractmethod
    def call(self) -> np.ndarray:
        """Execute once; returns the output, or the loss before the update."""

    def check(self, training: bool) -> np.ndarray:
        """The output of one call, or the losses of the first `CHECKED_STEPS` steps."""
        if not training:
            return np.array(self.call())
        return np.array([float(self.call()) for _ in range(CHECKED_STEPS)])


class _Probabilities(torch.nn.Module):
    """A classifier followed by softmax, with one row per label: ``(rows, classes)``."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.network(x)
        return torch.softmax(logits.reshape(-1, logits.shape[-1]), -1)


def export(network: torch.nn.Module, inputs: torch.Tensor, training: bool) -> bytes:
    """The network as an ONNX model with input ``input`` and output ``output``."""
    file = io.BytesIO()
    mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (inputs,),
            file,
            dynamo=False,
            training=mode,
            do_constant_folding=not training,
            opset_version=20,
            input_names=["input"],
            output_names=["output"],
        )
    return file.getvalue()


# ---------------------------------------------------------------- ours


class OursInference(Runner):
    """InferenceSession on the exported model."""

    def __init__(self, benchmark: Benchmark) -> None:
        network, inputs, _ = networks.instantiate(benchmark)
        self._program = programs.Program(export(network, inputs, training=False))
        self._input = inputs.numpy()

    def open(self) -> None:
        """Construct the session."""
        import popart

        self.session = programs.inference_session(self._program)
        self._anchors = self.session.initAnchorArrays()
        self._stepio = popart.PyStepIO({"input": self._input}, self._anchors)

    def call(self) -> np.ndarray:
        """Run the session."""
        self.session.run(self._stepio)
        return self._anchors["output"]


class OursTraining(Runner):
    """TrainingSession on the exported model with a loss from ``popart.Builder``."""

    def __init__(self, benchmark: Benchmark) -> None:
        self._program, self._inputs = training_program(benchmark)

    def open(self) -> None:
        """Construct the session."""
        import popart

        self.session = programs.training_session(self._program)
        self.session.weightsFromHost()
        self._anchors = self.session.initAnchorArrays()
        self._loss = self._anchors[self._program.loss]
        self._stepio = popart.PyStepIO(self._inputs, self._anchors)

    def call(self) -> np.ndarray:
        """Run the session."""
        self.session.run(self._stepio)
        return self._loss


def training_program(benchmark: Benchmark) -> tuple[programs.Program, dict[str, np.ndarray]]:
    """The exported network with a loss of ``popart.Builder``, and its inputs."""
    import popart

    network, inputs, labels = networks.instantiate(benchmark)
    arrays = {"input": inputs.numpy(), "labels": labels.numpy().astype(np.int32).reshape(-1)}
    builder = popart.Builder(export(_Probabilities(network), inputs, training=True))
    builder.addInputTensor("INT32", list(arrays["labels"].shape), "labels")
    loss = builder.aiGraphcore.nllloss(["output", "labels"], popart.ReductionType.Mean, debugContext="loss")
    return programs.Program(builder.getModelProto(), loss, asdict(benchmark.optimizer)), arrays


def ours(benchmark: Benchmark) -> Runner:
    """This repository."""
    return OursTraining(benchmark) if benchmark.training else OursInference(benchmark)


# ---------------------------------------------------------------- PyTorch


class TorchInference(Runner):
    """PyTorch, eager or compiled."""

    def __init__(self, benchmark: Benchmark, compiled: bool) -> None:
        self._network, self._input, _ = networks.instantiate(benchmark)
        self._compiled = compiled

    def open(self) -> None:
        """Wrap the module; compilation happens in the first call."""
        if self._compiled:
            import torch._inductor.config

            torch._inductor.config.freezing = True
            self._network = torch.compile(self._network)

    @torch.inference_mode()
    def call(self) -> np.ndarray:
        """Run the module."""
        return self._network(self._input).numpy()


class TorchTraining(Runner):
    """PyTorch, eager or with forward, backward and update compiled."""

    def __init__(self, benchmark: Benchmark, compiled: bool) -> None:
        network, self._input, self._labels = networks.instantiate(benchmark)
        self._optimizer = networks.torch_optimizer(benchmark.optimizer, network)
        self._compiled = compiled

        def loss(inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return networks.loss_of(network(inputs), labels)

        self._loss, self._update = loss, self._optimizer.step

    def open(self) -> None:
        """Wrap loss and update; compilation happens in the first call."""
        if self._compiled:
            self._loss, self._update = torch.compile(self._loss), torch.compile(self._update)

    def call(self) -> np.ndarray:
        """One step."""
        loss = self._loss(self._input, self._labels)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._update()
        return loss.detach().numpy()


def torch_runner(benchmark: Benchmark, compiled: bool) -> Runner:
    """PyTorch on one network."""
    torch.set_num_threads(THREADS)
    return (TorchTraining if benchmark.training else TorchInference)(benchmark, compiled)


# ---------------------------------------------------------------- ONNX Runtime and OpenVINO


class OnnxRuntime(Runner):
    """ONNX Runtime with all graph optimizations."""

    def __init__(self, benchmark: Benchmark) -> None:
        network, inputs, _ = networks.instantiate(benchmark)
        self._model, self._feed = export(network, inputs, training=False), {"input": inputs.numpy()}

    def open(self) -> None:
        """Construct the session."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(self._model, options, providers=["CPUExecutionProvider"])

    def call(self) -> np.ndarray:
        """Run the session."""
        return self._session.run(None, self._feed)[0]


class OpenVino(Runner):
    """OpenVINO in its latency mode, in float32."""

    def __init__(self, benchmark: Benchmark) -> None:
        network, inputs, _ = networks.instantiate(benchmark)
        self._model = export(network, inputs, training=False)
        self._input = inputs.numpy()  # shared with the request, so it must live as long

    def open(self) -> None:
        """Compile the model."""
        import openvino

        core = openvino.Core()
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": THREADS,
            "INFERENCE_PRECISION_HINT": "f32",
        }
        model = core.read_model(io.BytesIO(self._model))
        model.reshape(list(self._input.shape))
        self._request = core.compile_model(model, "CPU", settings).create_infer_request()
        self._request.set_input_tensor(openvino.Tensor(self._input, shared_memory=True))

    def call(self) -> np.ndarray:
        """Run the request."""
        self._request.infer()
        return self._request.get_output_tensor().data


# ---------------------------------------------------------------- JAX


class Jax(Runner):
    """JAX with the whole step in one jit."""

    def __init__(self, name: str, benchmark: Benchmark) -> None:
        self._name, self._rule = name, benchmark.optimizer
        self._network = networks.instantiate(benchmark)
        self._count = 0

    def open(self) -> None:
        """Copy parameters and wrap the step; compilation happens in the first call."""
        import jax.numpy as jnp
        import jax_networks

        network, inputs, labels = self._network
        self._params = {key: jnp.asarray(value.detach().numpy()) for key, value in network.named_parameters()}
        buffers = dict(network.named_buffers())
        self._state = {key: jnp.asarray(value.numpy()) for key, value in buffers.items() if value.is_floating_point()}
        self._moments = jax_networks.initial_moments(self._rule, self._params)
        self._step = jax_networks.train_step(self._name, self._rule)
        self._data = jnp.asarray(inputs.numpy()), jnp.asarray(labels.numpy().astype(np.int32))

    def call(self) -> np.ndarray:
        """One step."""
        self._count += 1
        loss, self._params, self._state, self._moments = self._step(
            self._params, self._state, self._moments, float(self._count), *self._data
        )
        # All parts of the step, not the loss alone, must have been computed.
        for value in self._params.values():
            value.block_until_ready()
        return np.asarray(loss)


INFERENCE: dict[str, Callable[[str, Benchmark], Runner]] = {
    "ours": lambda _, benchmark: ours(benchmark),
    "onnxruntime": lambda _, benchmark: OnnxRuntime(benchmark),
    "openvino": lambda _, benchmark: OpenVino(benchmark),
    "torch_eager": lambda _, benchmark: torch_runner(benchmark, compiled=False),
    "torch_compile": lambda _, benchmark: torch_runner(benchmark, compiled=True),
}
TRAINING: dict[str, Callable[[str, Benchmark], Runner]] = {
    "ours": lambda _, benchmark: ours(benchmark),
    "torch_eager": lambda _, benchmark: torch_runner(benchmark, compiled=False),
    "torch_compile": lambda _, benchmark: torch_runner(benchmark, compiled=True),
    "jax": Jax,
}


def make(implementation: str, name: str) -> Runner:
    """A network for one implementation, not opened yet."""
    if name not in networks.BENCHMARKS:
        import loops
        import popxl_gpt

        return {**loops.RUNNERS, **popxl_gpt.RUNNERS}[name](implementation)
    benchmark = networks.BENCHMARKS[name]
    return (TRAINING if benchmark.training else INFERENCE)[implementation](name, benchmark)


def trains(name: str) -> bool:
    """Whether losses are compared; programs of `loops` and `popxl_gpt` all train."""
    return name not in networks.BENCHMARKS or networks.BENCHMARKS[name].training


def build(implementation: str, name: str) -> Runner:
    """Build a network in one implementation."""
    runner = make(implementation, name)
    runner.open()
    return runner
