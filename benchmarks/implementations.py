"""Ours and its peers: each builds a network of `networks` and offers one measured call.

`build(peer, name)` returns a `Runner`. Its `call` is one inference, or one optimizer step on the same batch; `check`
gives what is compared between implementations: the output, or the losses of the first steps (which it executes).
"""

from __future__ import annotations

import io
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable

import networks
import numpy as np
import torch
from networks import Benchmark

THREADS = 2
CHECKED_STEPS = 3


class Runner(ABC):
    """One implementation of one network, ready to run."""

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
        self._model, self._input = export(network, inputs, training=False), inputs.numpy()

    def open(self) -> None:
        """Construct the session; what `compile_time` measures together with the first call."""
        import popart

        self.session = popart.InferenceSession(
            self._model, popart.DataFlow(1, ["output"]), popart.DeviceManager().createCpuDevice()
        )
        self.session.prepareDevice()
        self._anchors = self.session.initAnchorArrays()
        self._stepio = popart.PyStepIO({"input": self._input}, self._anchors)

    def call(self) -> np.ndarray:
        """Run the session."""
        self.session.run(self._stepio)
        return self._anchors["output"]


class OursTraining(Runner):
    """TrainingSession on the exported model with a loss from ``popart.Builder``."""

    def __init__(self, benchmark: Benchmark) -> None:
        network, inputs, labels = networks.instantiate(benchmark)
        self._model, self._rule = export(_Probabilities(network), inputs, training=True), benchmark.optimizer
        self._inputs = {"input": inputs.numpy(), "labels": labels.numpy().astype(np.int32).reshape(-1)}

    def open(self) -> None:
        """Construct the session; what `compile_time` measures together with the first call."""
        import popart

        builder = popart.Builder(self._model)
        labels = builder.addInputTensor("INT32", list(self._inputs["labels"].shape), "labels")
        loss = builder.aiGraphcore.nllloss(["output", labels], popart.ReductionType.Mean, debugContext="loss")
        self.session = popart.TrainingSession(
            builder.getModelProto(),
            popart.DataFlow(1, [loss]),
            loss,
            self._optimizer(),
            popart.DeviceManager().createCpuDevice(),
        )
        self.session.prepareDevice()
        self.session.weightsFromHost()
        self._anchors = self.session.initAnchorArrays()
        self._loss = self._anchors[loss]
        self._stepio = popart.PyStepIO(self._inputs, self._anchors)

    def _optimizer(self) -> object:
        import popart

        rule = self._rule
        values = {"defaultLearningRate": (rule.lr, True)}
        if rule.kind == "sgd":
            return popart.SGD(values | {"defaultMomentum": (rule.momentum, True)})
        constants = {"defaultBeta1": (0.9, True), "defaultBeta2": (0.999, True), "defaultEps": (1e-8, True)}
        return popart.Adam(values | constants | {"defaultWeightDecay": (rule.weight_decay, True)})

    def call(self) -> np.ndarray:
        """Run the session."""
        self.session.run(self._stepio)
        return self._loss


def ours(name: str) -> Runner:
    """This repository."""
    benchmark = networks.BENCHMARKS[name]
    runner = OursTraining(benchmark) if benchmark.training else OursInference(benchmark)
    runner.open()
    return runner


# ---------------------------------------------------------------- PyTorch


class TorchInference(Runner):
    """PyTorch, eager or compiled."""

    def __init__(self, benchmark: Benchmark, compiled: bool) -> None:
        network, self._input, _ = networks.instantiate(benchmark)
        if compiled:
            import torch._inductor.config

            torch._inductor.config.freezing = True
        self._network = torch.compile(network) if compiled else network

    @torch.inference_mode()
    def call(self) -> np.ndarray:
        """Run the module."""
        return self._network(self._input).numpy()


class TorchTraining(Runner):
    """PyTorch, eager or with forward, backward and update compiled."""

    def __init__(self, benchmark: Benchmark, compiled: bool) -> None:
        network, self._input, self._labels = networks.instantiate(benchmark)
        self._optimizer = networks.torch_optimizer(benchmark.optimizer, network)

        def loss(inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return networks.loss_of(network(inputs), labels)

        self._loss = torch.compile(loss) if compiled else loss
        self._update = torch.compile(self._optimizer.step) if compiled else self._optimizer.step

    def call(self) -> np.ndarray:
        """One step."""
        loss = self._loss(self._input, self._labels)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._update()
        return loss.detach().numpy()


def torch_runner(name: str, compiled: bool) -> Runner:
    """PyTorch on one network."""
    torch.set_num_threads(THREADS)
    benchmark = networks.BENCHMARKS[name]
    return (TorchTraining if benchmark.training else TorchInference)(benchmark, compiled)


# ---------------------------------------------------------------- ONNX Runtime and OpenVINO


class OnnxRuntime(Runner):
    """ONNX Runtime with all graph optimizations."""

    def __init__(self, benchmark: Benchmark) -> None:
        import onnxruntime

        network, inputs, _ = networks.instantiate(benchmark)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.inter_op_num_threads = 1
        model = export(network, inputs, training=False)
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._feed = {"input": inputs.numpy()}

    def call(self) -> np.ndarray:
        """Run the session."""
        return self._session.run(None, self._feed)[0]


class OpenVino(Runner):
    """OpenVINO in its latency mode, in float32."""

    def __init__(self, benchmark: Benchmark) -> None:
        import openvino

        network, inputs, _ = networks.instantiate(benchmark)
        core = openvino.Core()
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": THREADS,
            "INFERENCE_PRECISION_HINT": "f32",
        }
        model = core.read_model(io.BytesIO(export(network, inputs, training=False)))
        model.reshape(list(inputs.shape))
        self._request = core.compile_model(model, "CPU", settings).create_infer_request()
        self._input = inputs.numpy()  # shared with the request, so it must live as long
        self._request.set_input_tensor(openvino.Tensor(self._input, shared_memory=True))

    def call(self) -> np.ndarray:
        """Run the request."""
        self._request.infer()
        return self._request.get_output_tensor().data


# ---------------------------------------------------------------- JAX


class Jax(Runner):
    """JAX with the whole step in one jit."""

    def __init__(self, name: str, benchmark: Benchmark) -> None:
        import jax.numpy as jnp
        import jax_networks

        network, inputs, labels = networks.instantiate(benchmark)
        self._params = {key: jnp.asarray(value.detach().numpy()) for key, value in network.named_parameters()}
        buffers = dict(network.named_buffers())
        self._state = {key: jnp.asarray(value.numpy()) for key, value in buffers.items() if value.is_floating_point()}
        self._moments = jax_networks.initial_moments(benchmark.optimizer, self._params)
        self._step = jax_networks.train_step(name, benchmark.optimizer)
        self._data = jnp.asarray(inputs.numpy()), jnp.asarray(labels.numpy().astype(np.int32))
        self._count = 0

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


INFERENCE: dict[str, Callable[[str], Runner]] = {
    "ours": ours,
    "onnxruntime": lambda name: OnnxRuntime(networks.BENCHMARKS[name]),
    "openvino": lambda name: OpenVino(networks.BENCHMARKS[name]),
    "torch_eager": lambda name: torch_runner(name, compiled=False),
    "torch_compile": lambda name: torch_runner(name, compiled=True),
}
TRAINING: dict[str, Callable[[str], Runner]] = {
    "ours": ours,
    "torch_eager": lambda name: torch_runner(name, compiled=False),
    "torch_compile": lambda name: torch_runner(name, compiled=True),
    "jax": lambda name: Jax(name, networks.BENCHMARKS[name]),
}


def build(implementation: str, name: str) -> Runner:
    """Build a network in one implementation."""
    table = TRAINING if networks.BENCHMARKS[name].training else INFERENCE
    return table[implementation](name)
