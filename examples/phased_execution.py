"""Phased execution with PopXL and its add-ons: one layer at a time is in the device's memory.

Weights, Adam state, activations and gradients lie in remote buffers, with a row for each layer and an entry for each
micro-batch. One graph for all layers runs its micro-batches in a loop (`batch_serialise_fwd_and_grad`) and is called
once for each layer. The same training with all in memory ends with the same weights up to rounding, and is refused
under the limit.
"""

import argparse
import os
from collections.abc import Callable
from functools import partial

import numpy as np
import popart
import popxl
import popxl.ops as ops
import popxl_addons as addons
from popxl_addons.remote import NamedRemoteBuffers

WIDTH, LAYERS, BATCH, MICRO_BATCHES, UPDATES, RATE = 512, 12, 16, 4, 5, 1e-3
SPEC = popxl.TensorSpec((BATCH, WIDTH), popxl.float32)


class Layer(addons.Module):
    """A residual layer."""

    def build(self, h: popxl.Tensor) -> popxl.Tensor:
        """Make the ops."""
        rng = np.random.default_rng(0)
        draw = partial(rng.normal, 0, 0.5 * WIDTH**-0.5, (WIDTH, WIDTH))
        return h + ops.gelu(h @ self.add_variable_input("w", draw, h.dtype))


class Adam(addons.Module):
    """An update of one weight, with its state."""

    def build(self, w: popxl.TensorByRef, grad: popxl.Tensor) -> None:
        """Make the ops."""
        m, v = (self.add_variable_input(name, partial(np.zeros, w.shape), w.dtype, by_ref=True) for name in ("m", "v"))
        step = self.add_variable_input("step", partial(np.zeros, ()), popxl.float32, by_ref=True)
        ops.var_updates.accumulate_moving_average_(m, grad, 0.9)
        ops.var_updates.accumulate_moving_average_square_(v, grad, 0.999)
        update = ops.var_updates.adam_updater(m, v, time_step=step, beta1=0.9, beta2=0.999, epsilon=1e-6)
        ops.scaled_add_(w, update, b=-RATE)


def loss_and_gradient(h: popxl.Tensor, target: popxl.Tensor) -> tuple[popxl.Tensor, popxl.Tensor]:
    """Mean square error, and its gradient."""
    error = h - target
    return ops.mean(error * error), error * (2 / SPEC.shape[0] / SPEC.shape[1])


class Network:
    """The graphs that both programs call, and the streams."""

    def __init__(self) -> None:
        ir = popxl.gir()
        self.factories, self.layer = Layer().create_graph(SPEC)
        self.loss = addons.GraphWithNamedArgs(ir.create_graph(loss_and_gradient, SPEC, SPEC))
        self.accumulators, self.gradient = addons.autodiff_with_accumulation(
            self.layer, self.layer.args.tensors, grads_required=self.layer.graph.inputs[:1]
        )
        w = self.layer.args.w.spec
        self.state, self.update = Adam().create_graph(w, w)
        self.x, self.target = (popxl.h2d_stream(SPEC.shape, SPEC.dtype, name) for name in ("x", "target"))
        self.losses = popxl.d2h_stream((), SPEC.dtype, "loss")


def in_memory(net: Network) -> list[popxl.Tensor]:
    """Write the program with everything in memory; return the weights."""
    weights = [net.factories.init(f"layer{r}") for r in range(LAYERS)]
    state = [net.state.init(f"layer{r}") for r in range(LAYERS)]
    means = [net.accumulators.init() for _ in range(LAYERS)]
    info = net.gradient.grad_graph_info
    for _ in range(MICRO_BATCHES):
        h, calls = ops.host_load(net.x), []
        for r in range(LAYERS):
            calls.append(net.layer.bind(weights[r]).call_with_info(h))
            h = calls[r].outputs[0]
        loss, dh = net.loss.call(h, ops.host_load(net.target))
        ops.host_store(net.losses, loss)
        for r in reversed(range(LAYERS)):
            (dh,) = net.gradient.bind(means[r]).call(dh, args=info.inputs_dict(calls[r]))
    for r in range(LAYERS):
        net.update.bind(state[r]).call(weights[r].w, means[r].accum.w)
        ops.var_updates.accumulator_zero_(means[r].mean_accum_counter)
    return [named.w for named in weights]


def phased(net: Network) -> list[popxl.Tensor]:
    """Write the program one layer after the other; return the weights."""
    facts = {"w": net.factories, "state": net.state}
    buffers = NamedRemoteBuffers(
        **{name: addons.named_variable_buffers(f, entries=LAYERS, shard_over_dict=False) for name, f in facts.items()}
    )
    weights = [net.factories.init_remote(buffers.w, r, f"layer{r}") for r in range(LAYERS)]
    for r in range(LAYERS):
        net.state.init_remote(buffers.state, r, f"layer{r}")
    load_weights, weight_names = addons.load_remote_graph(buffers.w)
    load, names = addons.load_remote_graph(buffers)
    store = addons.store_remote_graph(buffers)
    serialise = partial(addons.batch_serialise, steps=MICRO_BATCHES, io_mode="io_overlapped")

    layer, gradient, loss = net.layer.graph, net.gradient.graph, net.loss.graph
    hidden, grads = (addons.batch_serial_buffer(SPEC, MICRO_BATCHES, LAYERS + 1) for _ in range(2))
    forward, backward = addons.batch_serialise_fwd_and_grad(
        net.layer,
        net.gradient,
        net.layer.args,
        steps=MICRO_BATCHES,
        load_handles={layer.inputs[0]: (hidden, 0), gradient.inputs[0]: (grads, 1)},
        store_streams={},
        store_buffers={layer.outputs[0]: (hidden, 1), gradient.outputs[0]: (grads, 0)},
        rows=LAYERS,
        io_mode="io_overlapped",
    )
    first = addons.GraphWithNamedArgs(popxl.gir().create_graph(lambda x: ops.identity(x), SPEC))
    begin = serialise(
        first,
        load_handles={first.graph.inputs[0]: net.x},
        store_streams={},
        store_buffers={first.graph.outputs[0]: (hidden, 0)},
    )
    turn = serialise(
        net.loss,
        load_handles={loss.inputs[0]: (hidden, LAYERS), loss.inputs[1]: net.target},
        store_streams={loss.outputs[0]: net.losses},
        store_buffers={loss.outputs[1]: (grads, LAYERS)},
    )
    means = net.accumulators.init()  # one layer's, for all of them
    begin.graph.call(0)
    for r in range(LAYERS):
        forward.graph.bind(addons.NamedTensors.pack(weight_names, load_weights.call(r))).call(r)
    turn.graph.call(0)
    for r in reversed(range(LAYERS)):
        loaded = addons.NamedTensors.pack(names, load.call(r))
        named = means.copy()
        named.update(loaded.w)
        backward.graph.bind(named).call(r)
        net.update.bind(loaded.state).call(loaded.w.w, means.accum.w)
        store.bind(loaded).call(r)
        ops.var_updates.accumulator_zero_(means.mean_accum_counter)
    return [named.w for named in weights]


def train(write: Callable, limit: str | None) -> tuple[np.ndarray, list[np.ndarray]]:
    """Train with the program that `write` writes; return losses and weights."""
    os.environ.pop("POPART_MAX_MEMORY", None)
    if limit is not None:
        os.environ["POPART_MAX_MEMORY"] = limit
    ir = popxl.Ir()
    ir.num_host_transfers = MICRO_BATCHES
    ir._pb_ir.getSessionOptions().numIOTiles = 32
    with ir.main_graph, popxl.in_sequence():
        net = Network()
        weights = write(net)
    rng, losses = np.random.default_rng(1), []
    with popxl.Session(ir, "cpu") as session:
        for _ in range(UPDATES):
            x = rng.normal(size=(MICRO_BATCHES, *SPEC.shape)).astype(np.float32)
            losses.append(session.run({net.x: x, net.target: np.sin(x)})[net.losses])
        return np.array(losses), [session.get_tensor_data(w) for w in weights]


def main() -> None:
    """Train in both ways and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", default="8M", help="memory on the device (default: 8M)")
    args = parser.parse_args()
    print(f"weights and Adam state: {3 * LAYERS * WIDTH * WIDTH * 4 / 2**20:.0f} MiB, limit: {args.limit}")
    try:
        train(in_memory, args.limit)
    except popart.OutOfMemoryException as error:
        print(f"in memory: refused: {str(error).split(':')[0]}")
    losses, weights = train(in_memory, None)
    phased_losses, phased_weights = train(phased, args.limit)
    print(f"phased: loss of each update {phased_losses.mean(1)}")
    distance = max(np.abs(a - b).max() for a, b in zip(weights, phased_weights, strict=True))
    print(f"largest difference of losses {np.abs(losses - phased_losses).max()}, of weights {distance}")


if __name__ == "__main__":
    main()
