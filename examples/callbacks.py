"""Trains with `PyStepIOCallback`: the session asks for each micro-batch and hands out each result as it comes.

With prefetching the session asks ahead while it computes; `--show` prints the calls. The same training with arrays
(`PyStepIO`) ends with the same losses.
"""

import argparse
import collections

import numpy as np
import popart

BATCH, FEATURES, CLASSES = 8, 16, 4


def create_model() -> tuple[bytes, dict[str, str]]:
    """A classifier with one hidden layer."""
    rng = np.random.default_rng(0)
    builder = popart.Builder()
    names = {
        "data": builder.addInputTensor(popart.TensorInfo("FLOAT", [BATCH, FEATURES]), "data"),
        "label": builder.addInputTensor(popart.TensorInfo("INT32", [BATCH]), "label"),
    }
    h = names["data"]
    for i, shape in enumerate([(FEATURES, 32), (32, CLASSES)]):
        weight = builder.addInitializedInputTensor(rng.normal(0, 0.3, shape).astype(np.float32), f"weight{i}")
        h = builder.aiOnnx.matmul([builder.aiOnnx.relu([h]) if i else h, weight])
    names["loss"] = popart.losses.cross_entropy(builder, h, names["label"])
    return builder.getModelProto(), names


def create_session(opts: argparse.Namespace, model: bytes, names: dict[str, str]) -> popart.TrainingSession:
    """A session with replicas, accumulation and prefetching as asked for."""
    options = popart.SessionOptions()
    options.enableReplicatedGraphs = opts.replicas > 1
    options.replicatedGraphCount = opts.replicas
    options.enableGradientAccumulation = opts.accumulation > 1
    options.accumulationFactor = opts.accumulation
    options.enablePrefetchDatastreams = opts.prefetch > 0
    options.defaultBufferingDepth = max(opts.prefetch, 1)
    session = popart.TrainingSession(
        fnModel=model,
        dataFlow=popart.DataFlow(opts.batches_per_step, {names["loss"]: popart.AnchorReturnType("ALL")}),
        loss=names["loss"],
        optimizer=popart.ConstSGD(0.01),
        userOptions=options,
        deviceInfo=popart.DeviceManager().createIpuModelDevice({"numIPUs": opts.replicas}),
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session


class Feeder:
    """The four callbacks: they walk through the micro-batches of a step and keep the losses."""

    def __init__(self, inputs: dict[str, np.ndarray], losses: np.ndarray, show: bool) -> None:
        self.inputs, self.losses, self.show = inputs, losses, show
        self.given: collections.Counter[str] = collections.Counter()
        self.completed: collections.Counter[str] = collections.Counter()

    def input_callback(self, id: str, is_prefetch: bool) -> np.ndarray | None:
        """The next micro-batch of an input; None when there is none to give ahead."""
        index = self.given[id]
        if is_prefetch and index == len(self.inputs[id]):
            return None
        if self.show:
            print(f"Input callback called {id}, number {index}{', prefetching' if is_prefetch else ''}")
        self.given[id] += 1
        return self.inputs[id][index]

    def input_complete_callback(self, id: str) -> None:
        """The session has read what the input callback gave."""
        self.completed[id] += 1
        if self.show:
            print(f"Input complete callback called {id}")

    def output_callback(self, id: str) -> np.ndarray:
        """Memory for the next value of an anchor."""
        if self.show:
            print(f"Output callback called {id}, number {self.given[id]}")
        self.given[id] += 1
        return self.losses[self.given[id] - 1 : self.given[id]]

    def output_complete_callback(self, id: str) -> None:
        """The value has been written."""
        self.completed[id] += 1
        if self.show:
            print(f"Output complete callback called {id}, loss {self.losses[self.completed[id] - 1]:.4f}")


def main() -> None:
    """Train with callbacks and with arrays."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches-per-step", type=int, default=5)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--prefetch", type=int, default=1, help="micro-batches asked for ahead; 0: none (default: 1)")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--show", action="store_true", help="print the calls")
    opts = parser.parse_args()

    model, names = create_model()
    by_calls, by_arrays = create_session(opts, model, names), create_session(opts, model, names)
    anchors = by_arrays.initAnchorArrays()
    micro_batches = opts.batches_per_step * opts.accumulation * opts.replicas
    rng = np.random.default_rng(1)
    for step in range(opts.steps):
        data = rng.normal(size=(micro_batches, BATCH, FEATURES)).astype(np.float32)
        inputs = {names["data"]: data, names["label"]: data[..., :CLASSES].argmax(-1).astype(np.int32)}
        losses = np.zeros(micro_batches, np.float32)
        feeder = Feeder(inputs, losses, opts.show)
        stepio = popart.PyStepIOCallback(
            feeder.input_callback,
            feeder.input_complete_callback,
            feeder.output_callback,
            feeder.output_complete_callback,
        )
        by_calls.run(stepio)
        by_arrays.run(popart.PyStepIO(inputs, anchors))
        equal = np.array_equal(losses, anchors[names["loss"]].reshape(-1))
        print(f"Step {step}: {feeder.completed[names['data']]} micro-batches, loss {losses.mean():.4f}, ", end="")
        print("the losses of arrays" if equal else "OTHER LOSSES THAN ARRAYS")


if __name__ == "__main__":
    main()
