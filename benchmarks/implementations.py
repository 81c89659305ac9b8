"""This repository and its peers: each builds a network of `networks` and offers one measured call.

`make(peer, name)` returns a `Runner` that holds the network (for peers that read ONNX: the exported model) but nothing
of the peer yet; `open` constructs the peer's session or compiled function. Its `call` is one inference, or one
optimizer step on the same batch. `check` returns the values that are compared between implementations: the output, or
the losses of the first steps (which it executes).
"""

from __future__ import annotations

import io
import time
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
        """Construct the session or function; `compile_time` measures this together with the first call."""

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
    if labels is None:
        model = export(network, inputs, training=True)
        program = programs.Program(model, "output", asdict(benchmark.optimizer), benchmark.trainable)
        return program, {"input": inputs.numpy()}
    arrays = {"input": inputs.numpy(), "labels": labels.numpy().astype(np.int32).reshape(-1)}
    builder = popart.Builder(export(_Probabilities(network), inputs, training=True))
    builder.addInputTensor("INT32", list(arrays["labels"].shape), "labels")
    loss = builder.aiGraphcore.nllloss(["output", "labels"], popart.ReductionType.Mean, debugContext="loss")
    trainable = tuple(f"network.{pattern}" for pattern in benchmark.trainable)
    return programs.Program(builder.getModelProto(), loss, asdict(benchmark.optimizer), trainable), arrays


def ours(benchmark: Benchmark) -> Runner:
    """This repository."""
    return OursTraining(benchmark) if benchmark.training else OursInference(benchmark)


# ---------------------------------------------------------------- PyTorch


TORCH_MODES = {"torch_eager": None, "torch_compile": "default", "torch_autotune": "max-autotune"}
BETAS, EPSILON = (0.9, 0.999), 1e-8


def formats_of(network: torch.nn.Module, inputs: torch.Tensor) -> list[torch.memory_format]:
    """Memory formats to try: for images also channels last, as PyTorch's guide recommends for CPUs."""
    images = inputs.dim() == 4 and any(isinstance(module, torch.nn.Conv2d) for module in network.modules())
    return [torch.contiguous_format, *([torch.channels_last] if images else [])]


class Torch(Runner):
    """PyTorch in one mode, in the memory format that is faster.

    `open` makes all formats; the first call compiles and tries them. Training and its trials start from the same
    weights, so the losses are those of the first steps.
    """

    def __init__(self, benchmark: Benchmark, mode: str | None) -> None:
        torch.set_num_threads(THREADS)
        self._benchmark, self._mode = benchmark, mode
        self._call: Callable[[], torch.Tensor] | None = None
        self.format = ""

    def open(self) -> None:
        """Do nothing: the first call chooses and constructs a format."""

    def _made(self, memory_format: torch.memory_format) -> Callable[[], torch.Tensor]:
        network, inputs, labels = networks.instantiate(self._benchmark)
        network = network.to(memory_format=memory_format)
        inputs = inputs.to(memory_format=memory_format) if inputs.dim() == 4 else inputs
        if self._benchmark.training:
            return self._training(network, inputs, labels)
        return self._inference(network, inputs)

    def _compiled(self, function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        return torch.compile(function, mode=self._mode) if self._mode else function

    def _inference(self, network: torch.nn.Module, inputs: torch.Tensor) -> Callable[[], torch.Tensor]:
        if self._mode:
            from torch._inductor import config

            config.freezing = True
        forward = self._compiled(network)

        def call() -> torch.Tensor:
            with torch.inference_mode():
                return forward(inputs)

        return call

    def _training(
        self, network: torch.nn.Module, inputs: torch.Tensor, labels: torch.Tensor | None
    ) -> Callable[[], torch.Tensor]:
        optimizer = networks.torch_optimizer(self._benchmark.optimizer, network, fused=True)
        loss_of = self._compiled(lambda x, y: networks.loss_of(network(x), y))

        def call() -> torch.Tensor:
            loss = loss_of(inputs, labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return call

    def _choose(self) -> None:
        """Choose the format with the best of a few calls, and construct it again."""
        network, inputs, _ = networks.instantiate(self._benchmark)
        formats = formats_of(network, inputs)
        best: dict[torch.memory_format, float] = {}
        for memory_format in formats if len(formats) > 1 else []:
            call, times = self._made(memory_format), []
            call()
            for _ in range(3):
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
            best[memory_format] = min(times)
        chosen = min(best, key=lambda key: best[key]) if best else formats[0]
        self.format = str(chosen).removeprefix("torch.")
        self._call = self._made(chosen)

    def call(self) -> np.ndarray:
        """One inference, or one step."""
        if self._call is None:
            self._choose()
        assert self._call is not None
        return self._call().numpy()


class TorchStep(Torch):
    """PyTorch with forward, backward and update in one compiled graph."""

    def __init__(self, benchmark: Benchmark) -> None:
        super().__init__(benchmark, "default")

    def _training(
        self, network: torch.nn.Module, inputs: torch.Tensor, labels: torch.Tensor | None
    ) -> Callable[[], torch.Tensor]:
        params = {
            name: p.detach().clone(memory_format=torch.preserve_format)
            for name, p in network.named_parameters()
            if p.requires_grad
        }
        buffers = {name: b.clone() for name, b in network.named_buffers()}
        moments = {name: [torch.zeros_like(p) for _ in range(2)] for name, p in params.items()}
        count = torch.zeros(())
        rule = self._benchmark.optimizer
        assert rule

        def whole(x: torch.Tensor, y: torch.Tensor | None) -> torch.Tensor:
            def loss_at(p: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
                new = {name: b.clone() for name, b in buffers.items()}
                return networks.loss_of(torch.func.functional_call(network, (p, new), (x,)), y), new

            gradients, (loss, new) = torch.func.grad_and_value(loss_at, has_aux=True)(params)
            for name, b in buffers.items():
                b.copy_(new[name])
            count.add_(1)
            for name, p in params.items():
                _update(rule, p, gradients[name], *moments[name], count)
            return loss

        step = torch.compile(whole, fullgraph=True) if self._mode else whole
        return lambda: step(inputs, labels).detach()


def _update(
    rule: networks.Optimizer,
    p: torch.Tensor,
    gradient: torch.Tensor,
    mean: torch.Tensor,
    square: torch.Tensor,
    count: torch.Tensor,
) -> None:
    """One update in place, as in PyTorch's optimizers."""
    if rule.kind == "sgd":
        if rule.momentum:
            mean.mul_(rule.momentum).add_(gradient)
            gradient = mean
        p.sub_(rule.lr * gradient)
        return
    p.mul_(1 - rule.lr * rule.weight_decay)
    mean.lerp_(gradient, 1 - BETAS[0])
    square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
    root = torch.sqrt(1 - BETAS[1] ** count)
    p.sub_(rule.lr / (1 - BETAS[0] ** count) * mean / (square.sqrt() / root + EPSILON))


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
        self._input = inputs.numpy()  # shared with the request, so it must live as long as that

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
        self._params = {
            key: jnp.asarray(jax_networks.channels_last(value.detach().numpy()))
            for key, value in network.named_parameters()
        }
        buffers = dict(network.named_buffers())
        self._state = {key: jnp.asarray(value.numpy()) for key, value in buffers.items() if value.is_floating_point()}
        self._moments = jax_networks.initial_moments(self._rule, self._params)
        self._step = jax_networks.train_step(self._name, self._rule)
        self._data = jnp.asarray(jax_networks.images_last(inputs.numpy())), jnp.asarray(labels.numpy().astype(np.int32))

    def call(self) -> np.ndarray:
        """One step."""
        self._count += 1
        loss, self._params, self._state, self._moments = self._step(
            self._params, self._state, self._moments, float(self._count), *self._data
        )
        # All parts of the step must have been computed, not only the loss.
        for value in self._params.values():
            value.block_until_ready()
        return np.asarray(loss)


TORCH_RUNNERS: dict[str, Callable[[str, Benchmark], Runner]] = {
    name: (lambda _, benchmark, mode=mode: Torch(benchmark, mode)) for name, mode in TORCH_MODES.items()
}
INFERENCE: dict[str, Callable[[str, Benchmark], Runner]] = {
    "ours": lambda _, benchmark: ours(benchmark),
    "onnxruntime": lambda _, benchmark: OnnxRuntime(benchmark),
    "openvino": lambda _, benchmark: OpenVino(benchmark),
    **TORCH_RUNNERS,
}
TRAINING: dict[str, Callable[[str, Benchmark], Runner]] = {
    "ours": lambda _, benchmark: ours(benchmark),
    **TORCH_RUNNERS,
    "torch_step": lambda _, benchmark: TorchStep(benchmark),
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
