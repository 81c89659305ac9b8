"""The popxl programs of the benchmark, small: they are built, and every form of the GPT gives the same losses."""

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import bench  # noqa: E402
import building  # noqa: E402
import measure_building  # noqa: E402
import popxl_gpt  # noqa: E402

TINY = popxl_gpt.Sizes(layers=2, hidden=16, heads=2, length=8, vocabulary=30, batch=2)


@pytest.fixture(scope="module")
def onnx_losses():
    runner = popxl_gpt.runner("onnx", TINY)
    runner.open()
    return runner.check(training=True)


@pytest.mark.parametrize("network", building.NETWORKS.values(), ids=building.NETWORKS)
def test_popxl_trains_as_through_onnx(onnx_losses, network):
    runner = popxl_gpt.PopxlGpt(TINY, network)
    runner.open()
    np.testing.assert_allclose(runner.check(training=True), onnx_losses, rtol=1e-5)


def test_pytorch_trains_as_through_onnx(onnx_losses):
    """The step is not compiled here: that takes minutes on some machines."""
    runner = popxl_gpt.runner("torch_step", TINY)
    runner._mode = None
    np.testing.assert_allclose(runner.check(training=True), onnx_losses, rtol=1e-5)


def test_every_form_of_the_gpt_is_one_that_the_benchmark_asks_for():
    assert bench.OTHER_FORMS["popxl_gpt_train"] == list(popxl_gpt.FORMS)


@pytest.mark.parametrize("kind", measure_building.KINDS)
def test_operators_are_built_and_compared(kind):
    answer = building.popxl_build(kind, "40", "2")
    assert len(answer["microseconds"]) == 2 and min(answer["microseconds"]) > 0
    row = measure_building.row_of({"name": "popxl_build", "network": kind, "ours": answer, "goal": 1.0})
    assert kind in row and f"us by {measure_building.KINDS[kind]}," in row


@pytest.mark.parametrize("kind", measure_building.NETWORKS)
def test_parts_of_a_training_program_are_measured(kind):
    times = building.popxl_transformer12(kind, "1", TINY)["parts_ms"]
    parts = ["build", "autodiff", "optimizer", "prepare"]
    assert list(times) == [*parts, "total", "attach"]
    assert times["total"][0] == pytest.approx(sum(times[part][0] for part in parts))


def test_wrong_results_are_refused():
    with pytest.raises(building.WrongResult, match="differs by"):
        building.compare("sum", np.ones(2), np.array([1.0, 2.0]))
