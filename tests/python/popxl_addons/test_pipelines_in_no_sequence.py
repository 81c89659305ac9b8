"""Pipelines whose ops are in no sequence: the same bits, in any order that the program leaves open."""

import numpy as np
import pytest

from tests.python.popxl_addons.test_pipelining import BATCH, RNG, WIDTH, infer, normal, sgd, train


@pytest.mark.parametrize("mode", [None, False, "pass"])
@pytest.mark.parametrize("stages", [2, 3, 5])
def test_stages_may_be_in_no_sequence(stages, mode):
    """A ring's row is written or read before its number changes, whatever order the program leaves open."""
    xs = normal(2 * stages + 1, BATCH, WIDTH)
    (expected,), _ = infer(False, xs, stages)
    results, ir = infer(True, xs, stages, runs=3, mode=mode)
    for got in results:
        np.testing.assert_array_equal(got, expected)
    for name in ("Stash", "Restore"):
        (graph,) = {g for g in graphs_below(ir.main_graph) if g.name.startswith(name)}
        ops_by_type = {op.opType(): op.id for op in graph._pb_graph.getOps()}
        access = ops_by_type["DynamicUpdateInplace" if name == "Stash" else "DynamicSlice"]
        order = [op.id for op in graph._pb_graph.getOpSchedule()]
        assert order.index(access) < order.index(ops_by_type["IncrementModInplace"])


def graphs_below(graph):
    """The graphs that a graph calls, and those that they call."""
    for inner in graph.called_graphs:
        yield inner
        yield from graphs_below(inner)


def test_training_in_no_sequence():
    xs, labels = normal(6, BATCH, WIDTH), RNG.integers(0, WIDTH, (6, BATCH)).astype(np.int32)
    for ours, expected in zip(train(True, xs, labels, sgd, mode=False), train(False, xs, labels, sgd), strict=True):
        np.testing.assert_array_equal(ours, expected)
