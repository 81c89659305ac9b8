"""Pipelines of layers in parts with dropout, trained: the bits of one micro-batch after the other, also recomputed."""

from contextlib import nullcontext

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl_addons.layers import LayerNorm, Linear
from popxl_addons.ops.replicated_all_reduce_TP import (
    replicated_all_reduce_identical_grad_inputs,
    replicated_all_reduce_identical_inputs,
)
from popxl_addons.patterns import apply_pre_alias_patterns

ROWS, WIDTH, STAGES, MICRO_BATCHES = 4, 8, 3, 12
SPEC = popxl.TensorSpec((ROWS, WIDTH), popxl.float32)


class Block(addons.Module):
    """Norm, two layers in parts over a group of replicas, dropout, and a scale that is a scalar activation."""

    def __init__(self, group):
        super().__init__()
        self.group, peers = group, group.transpose()
        self.norm = LayerNorm()
        self.up = Linear(WIDTH, replica_grouping=peers)
        self.down = Linear(WIDTH, bias=False, replica_grouping=peers)

    def build(self, x, seed):
        h = replicated_all_reduce_identical_inputs(self.norm(x), group=self.group)
        h = replicated_all_reduce_identical_grad_inputs(self.down(ops.gelu(self.up(h))), group=self.group)
        return x + ops.dropout(h, seed, p=0.25) * ops.mean(ops.sin(x))


class Network:
    """Forward stages, then backward stages; stage s of the forward pass is on IPU s."""

    def __init__(self, group, recomputed):
        self.source = popxl.h2d_stream(SPEC.shape, SPEC.dtype, "x")
        self.results = [popxl.d2h_stream(SPEC.shape, SPEC.dtype, name) for name in ("y", "dx")]
        _, self.seed = addons.seed_variable(5, popxl.gir().replica_grouping())
        factories, self.block = Block(group).create_graph(SPEC, popxl.TensorSpec((2,), popxl.uint32))
        means, self.gradient = addons.autodiff_with_accumulation(
            self.block, self.block.args.tensors, grads_required=self.block.graph.inputs[:1]
        )
        if recomputed:
            self.gradient = addons.recompute_graph(self.gradient)
        self.weights = [factories.init(f"block{i}") for i in range(STAGES)]
        self.means = [means.init(f"block{i}") for i in range(STAGES)]

    def backward(self, i, dy, call, pipeline):
        """Call the gradient of block i."""
        info = self.gradient.grad_graph_info
        args = pipeline.stash_and_restore_activations(call, info) if pipeline else info.inputs_dict(call)
        return self.gradient.bind(self.means[i]).call(dy, args=args)[0]

    def micro_batch(self, pipeline):
        """One micro-batch, or the body of a pipeline."""
        stage = pipeline.stage if pipeline else lambda _: nullcontext()
        calls = []
        with stage(0), popxl.ipu(0):
            x = ops.host_load(self.source)
            seed, following = ops.split_random_seed(self.seed)
            ops.var_updates.copy_var_update_(self.seed, following)
        for i in range(STAGES):
            with stage(i), popxl.ipu(i):
                own, seed = ops.split_random_seed(seed)
                calls.append(self.block.bind(self.weights[i]).call_with_info(x, own))
                x = calls[i].outputs[0]
                if i + 1 < STAGES:
                    x, seed = x.copy_to_ipu(i + 1), seed.copy_to_ipu(i + 1)
        with stage(STAGES - 1), popxl.ipu(STAGES - 1):
            ops.host_store(self.results[0], x)
            dx = self.backward(STAGES - 1, x * 2, calls[-1], None).copy_to_ipu(STAGES - 2)
        for i in reversed(range(STAGES - 1)):
            with stage(2 * STAGES - 2 - i), popxl.ipu(i):
                dx = self.backward(i, dx, calls[i], pipeline)
                if i > 0:
                    dx = dx.copy_to_ipu(i - 1)
                else:
                    ops.host_store(self.results[1], dx)


def run(replicas, parts, pipelined, recomputed):
    """Outputs, gradients of the input, and means of gradients."""
    ir = popxl.Ir(replication=replicas)
    ir.num_host_transfers = MICRO_BATCHES
    with ir.main_graph, popxl.in_sequence():
        network = Network(ir.replica_grouping(group_size=parts), recomputed)
        if pipelined:
            with addons.pipelined_execution(MICRO_BATCHES) as pipeline:
                network.micro_batch(pipeline)
        else:
            for _ in range(MICRO_BATCHES):
                network.micro_batch(None)
        means = [addons.host_store(means.accum.up.weight) for means in network.means]
    apply_pre_alias_patterns(ir)
    rng = np.random.default_rng(187)
    x = rng.normal(size=(MICRO_BATCHES, 1, *SPEC.shape)).astype(np.float32)
    x = np.repeat(x, replicas, axis=1) if replicas > 1 else x[:, 0]
    with popxl.Session(ir, "cpu") as session:
        session.write_variables_data(
            {
                t: rng.normal(0, 0.4, t.shape_on_host).astype(np.float32)
                for weights in network.weights
                for _, t in sorted(weights.to_dict().items())
            }
        )
        results = session.run({network.source: x})
    return [results[stream] for stream in (*network.results, *means)]


@pytest.mark.parametrize(("replicas", "parts"), [(1, 1), (2, 2), (4, 2)])
def test_pipelined_and_recomputed(replicas, parts):
    plain = run(replicas, parts, pipelined=False, recomputed=False)
    assert all(np.any(value) for value in plain)
    for pipelined, recomputed in ((True, False), (False, True), (True, True)):
        for found, wanted in zip(run(replicas, parts, pipelined, recomputed), plain, strict=True):
            np.testing.assert_array_equal(found, wanted)
