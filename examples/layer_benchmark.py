"""Measures layers of one kind, convolutions or LSTMs: inference, or training.

It prints what each step took, samples per second and arithmetic per second. The data is made on the host, or is
synthetic: then no data moves and the time is that of computing.
"""

import argparse
import time
from typing import NamedTuple

import numpy as np
import popart


class Model(NamedTuple):
    """A model with the ids that a session needs, the shape of its input and the arithmetic of a forward pass."""

    proto: bytes
    data: str
    result: str
    loss: str
    shape: list[int]
    operations: int


class Parameters:
    """Adds weights of the benchmark's element type to a builder."""

    def __init__(self, builder: popart.Builder, dtype: type) -> None:
        self.builder, self.dtype, self.rng = builder, dtype, np.random.default_rng(0)

    def random(self, shape: list[int], scale: float, name: str) -> str:
        """A weight of random numbers."""
        return self.builder.addInitializedInputTensor(self.rng.normal(0, scale, shape).astype(self.dtype), name)

    def full(self, shape: list[int], value: float, name: str) -> str:
        """A weight of equal numbers."""
        return self.builder.addInitializedInputTensor(np.full(shape, value, self.dtype), name)


def normalise(opts: argparse.Namespace, builder: popart.Builder, parameters: Parameters, x: str) -> str:
    """The norm that the command line asks for."""
    if opts.norm_type == "NONE":
        return x
    channels = [builder.getTensorShape(x)[1]]
    scale, shift = parameters.full(channels, 1, "gamma"), parameters.full(channels, 0, "beta")
    if opts.norm_type == "GROUP":
        return builder.aiGraphcore.groupnormalization([x, scale, shift], opts.groups)[0]
    statistics = [parameters.full(channels, 0, "mean"), parameters.full(channels, 1, "variance")]
    outputs = 5 if opts.mode == "train" else 1
    return builder.aiOnnx.batchnormalization([x, scale, shift, *statistics], outputs)[0]


def convolutions(opts: argparse.Namespace, builder: popart.Builder, parameters: Parameters, x: str) -> tuple[str, int]:
    """Convolutions with norm and activation; result and arithmetic."""
    operations, pad = 0, opts.kernel_size // 2
    for layer in range(opts.layers):
        with builder.nameScope(f"conv{layer}"):
            channels = builder.getTensorShape(x)[1]
            kernel = [opts.filters_out, channels, opts.kernel_size, opts.kernel_size]
            per_output = channels * opts.kernel_size**2
            w = parameters.random(kernel, np.sqrt(2 / per_output), "weights")
            x = builder.aiOnnx.conv([x, w], dilations=[1, 1], pads=[pad] * 4, strides=[opts.stride] * 2)
            operations += 2 * per_output * int(np.prod(builder.getTensorShape(x)))
            x = normalise(opts, builder, parameters, x)
            if opts.activation_type != "NONE":
                x = getattr(builder.aiOnnx, opts.activation_type.lower())([x])
    return x, operations


def recurrences(opts: argparse.Namespace, builder: popart.Builder, parameters: Parameters, x: str) -> tuple[str, int]:
    """LSTM layers over a sequence; result and arithmetic."""
    operations = 0
    for layer in range(opts.layers):
        with builder.nameScope(f"lstm{layer}"):
            steps, batch, inputs = builder.getTensorShape(x)
            scale = np.sqrt(1 / opts.hidden_size)
            w = parameters.random([1, 4 * opts.hidden_size, inputs], scale, "input_weights")
            r = parameters.random([1, 4 * opts.hidden_size, opts.hidden_size], scale, "hidden_weights")
            b = parameters.full([1, 8 * opts.hidden_size], 0, "bias")
            states = builder.aiOnnx.lstm([x, w, r, b], 3, clip=None, hidden_size=opts.hidden_size)[0]
            x = builder.aiOnnx.squeeze([states], axes=[1])
            operations += 8 * steps * batch * opts.hidden_size * (inputs + opts.hidden_size)
    return x, operations


def create_model(opts: argparse.Namespace) -> Model:
    """The layers, and the mean of what they give as loss."""
    builder = popart.Builder(opsets={"ai.onnx": 10, "ai.graphcore": 1})
    kind, dtype = ("FLOAT16", np.float16) if opts.half else ("FLOAT", np.float32)
    if opts.layer == "conv":
        shape, layers = [opts.batch_size, opts.filters_in, opts.input_size, opts.input_size], convolutions
    else:
        shape, layers = [opts.timesteps, opts.batch_size, opts.hidden_size], recurrences
    data = builder.addInputTensor(popart.TensorInfo(kind, shape), "data")
    result, operations = layers(opts, builder, Parameters(builder, dtype), data)
    loss = builder.aiGraphcore.identityloss([result], popart.ReductionType.Mean)
    builder.addOutputTensor(result)
    return Model(builder.getModelProto(), data, result, loss, shape, operations)


def create_session(opts: argparse.Namespace, model: Model) -> popart.InferenceSession | popart.TrainingSession:
    """The prepared session of the mode."""
    options = popart.SessionOptions()
    options.syntheticDataMode = getattr(popart.SyntheticDataMode, opts.syn_data_type)
    options.instrumentWithHardwareCycleCounter = opts.report_hw_cycle_count
    if opts.half:
        options.partialsTypeMatMuls = "half"
    manager = popart.DeviceManager()
    device = manager.createIpuModelDevice({}) if opts.simulation else manager.acquireAvailableDevice(1)
    final = popart.AnchorReturnType("Final")
    if opts.mode == "infer":
        flow = popart.DataFlow(opts.batches_per_step, {model.result: final})
        session = popart.InferenceSession(model.proto, flow, device, userOptions=options)
    else:
        flow = popart.DataFlow(opts.batches_per_step, {model.loss: final})
        optimizer = popart.ConstSGD(0.001)
        session = popart.TrainingSession(model.proto, flow, model.loss, optimizer, device, userOptions=options)
    print(f"Compiling the {opts.mode} graph")
    session.prepareDevice()
    session.weightsFromHost()
    return session


def measure(opts: argparse.Namespace) -> None:
    """Run the steps and print."""
    model = create_model(opts)
    session = create_session(opts, model)
    shape = [opts.batches_per_step, *model.shape]
    data = np.random.default_rng(1).normal(size=shape).astype(np.float16 if opts.half else np.float32)
    anchors = session.initAnchorArrays()
    stepio = popart.PyStepIO({model.data: data}, anchors)
    session.run(stepio)  # the first run loads
    # Backward, each product is computed twice: for the gradients of its two operands.
    operations = opts.batches_per_step * model.operations * (3 if opts.mode == "train" else 1)
    samples = opts.batches_per_step * opts.batch_size
    times = []
    for step in range(opts.steps):
        start = time.perf_counter()
        session.run(stepio)
        times.append(time.perf_counter() - start)
        print(
            f"{step}/{opts.steps}  Duration: {times[-1] * 1e3:.3f} ms  {samples / times[-1]:.1f} items/sec  "
            f"{operations / times[-1] / 1e12:.4f} TFLOPS"
        )
    if opts.report_hw_cycle_count:
        print(f"Hardware cycle count per 'run': {session.getCycleCount()}")
    print(f"Average: {samples * len(times) / sum(times):.1f} items/sec")
    result = anchors[model.result if opts.mode == "infer" else model.loss]
    if opts.syn_data_type == "Off":
        print(f"Result: shape {list(result.shape)}, mean {np.mean(result, dtype=np.float64):.6f}")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("layer", choices=["conv", "lstm"])
    parser.add_argument("--mode", choices=["infer", "train"], default="infer")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--batches-per-step", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--half", action="store_true", help="float16 instead of float32")
    parser.add_argument("--syn-data-type", default="Off", choices=list(popart.SyntheticDataMode.__members__))
    parser.add_argument("--report-hw-cycle-count", action="store_true")
    parser.add_argument("--simulation", action="store_true", help="on a model of an IPU")
    conv = parser.add_argument_group("conv")
    conv.add_argument("--input-size", type=int, default=28)
    conv.add_argument("--filters-in", type=int, default=16)
    conv.add_argument("--filters-out", type=int, default=16)
    conv.add_argument("--kernel-size", type=int, default=3)
    conv.add_argument("--stride", type=int, default=1)
    conv.add_argument("--norm-type", default="NONE", choices=["BATCH", "GROUP", "NONE"])
    conv.add_argument("--groups", type=int, default=4, help="of the group norm")
    conv.add_argument("--activation-type", default="RELU", choices=["RELU", "SIGMOID", "TANH", "NONE"])
    lstm = parser.add_argument_group("lstm")
    lstm.add_argument("--hidden-size", type=int, default=32)
    lstm.add_argument("--timesteps", type=int, default=8)
    return parser.parse_args()


if __name__ == "__main__":
    measure(parse())
