"""Collectives within one replica: identities up to shape; reductions over the IPUs of a replica."""

import numpy as np
import popart_core
import popxl
import popxl.ops as ops
import pytest
from popxl.ops import collectives
from popxl.transforms import autodiff
from programs import evaluate

RNG = np.random.default_rng(11)
X = RNG.normal(size=(3, 4)).astype(np.float32)
Y = RNG.normal(size=(3, 4)).astype(np.float32)

OVER_IPUS = {
    "add": lambda a, b: a + b,
    "mean": lambda a, b: (a + b) / 2,
    "min": np.minimum,
    "max": np.maximum,
    "square_add": lambda a, b: a * a + b * b,
}


@pytest.mark.parametrize("op", OVER_IPUS)
def test_all_reduce_over_ipus(op: str):
    got = evaluate(lambda a, b: collectives.all_reduce([a, b], [0, 1], op), X, Y)
    for value in got:
        np.testing.assert_allclose(value, OVER_IPUS[op](X, Y), rtol=1e-6)


def test_mul_is_mean():
    got = evaluate(lambda a, b: collectives.all_reduce([a, b], [0, 1], "mul"), X, Y)
    np.testing.assert_allclose(got[0], (X + Y) / 2, rtol=1e-6)
    np.testing.assert_array_equal(evaluate(lambda a: collectives.replicated_all_reduce(a, "mul"), X), X)


def test_logical_reductions_over_ipus():
    a, b = X > 0, Y > 0
    np.testing.assert_array_equal(evaluate(lambda p, q: collectives.all_reduce([p, q], [0, 1], "and"), a, b)[0], a & b)
    np.testing.assert_array_equal(evaluate(lambda p, q: collectives.all_reduce([p, q], [0, 1], "or"), a, b)[1], a | b)


def test_all_reduce_takes_the_ipus_of_its_tensors():
    def build(a, b):
        with popxl.ipu(0):
            a = a + 0.0
        with popxl.ipu(1):
            b = b + 0.0
        return collectives.all_reduce([a, b])

    np.testing.assert_allclose(evaluate(build, X, Y)[1], X + Y, rtol=1e-6)
    with popxl.Ir().main_graph:
        v = popxl.variable(X)
        with pytest.raises(ValueError, match="IPU"):
            collectives.all_reduce([v])
        with pytest.raises(ValueError, match="1 IPUs for 2 tensors"):
            collectives.all_reduce([v, v], [0])
        with pytest.raises(popart_core.popart_exception, match="differ"):
            collectives.all_reduce([v, popxl.variable(X[:2])], [0, 1])


SHARDED = {
    "reduce_scatter": lambda t: collectives.replicated_reduce_scatter(t),
    "reduce_scatter_sharded": lambda t: collectives.replicated_reduce_scatter(
        t, configure_output_for_replicated_tensor_sharding=True
    ),
    "sharded_slice": lambda t: collectives.replica_sharded_slice(t),
}


@pytest.mark.parametrize("name", SHARDED)
def test_the_only_replica_gets_the_whole(name: str):
    np.testing.assert_array_equal(evaluate(SHARDED[name], X), X.reshape(-1))


def test_shards_are_gathered_to_their_meta_shape():
    def build(t):
        shard = collectives.replica_sharded_slice(t)
        assert shard.shape == (12,) and shard.meta_shape == (3, 4)
        return collectives.replicated_all_gather(shard)

    np.testing.assert_array_equal(evaluate(build, X), X)


GRADIENTS = {
    "sharded_slice": lambda t: ops.sin(collectives.replica_sharded_slice(t)),
    "all_gather": lambda t: ops.sin(collectives.replicated_all_gather(t)),
    "both": lambda t: ops.sin(collectives.replicated_all_gather(collectives.replica_sharded_slice(t))),
    "all_reduce": lambda t: collectives.all_reduce([ops.sin(t)], [0])[0],
    "identical_inputs": lambda t: ops.sin(collectives.all_reduce_identical_inputs([t], [0])[0]),
    "identical_grad_inputs": lambda t: collectives.all_reduce_identical_grad_inputs([ops.sin(t)], [0])[0],
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str):
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(X)
        graph = ir.create_graph(GRADIENTS[name], v)
        info = autodiff(graph)
        call = ops.call_with_info(graph, v)
        seed = popxl.constant(np.ones(call.outputs[0].shape, np.float32))
        (grad,) = ops.call(info.graph, seed, inputs_dict=info.inputs_dict(call))
        out = popxl.d2h_stream(X.shape, popxl.float32)
        ops.host_store(out, grad)
    with popxl.Session(ir) as session:
        np.testing.assert_allclose(session.run()[out], np.cos(X), rtol=1e-5)


def test_reductions_over_replicas_have_no_gradient():
    ir = popxl.Ir()
    with ir.main_graph:
        graph = ir.create_graph(collectives.replicated_reduce_scatter, popxl.variable(X))
        with pytest.raises(popart_core.popart_exception, match="not differentiable"):
            autodiff(graph)
