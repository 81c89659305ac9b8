"""Multinomial: draws of classes, distributed as their logits say."""

import numpy as np
import popart
import popart.backend
import pytest
from scipy import stats

from onnx import TensorProto, helper


def model(logits, opset=22, kind=TensorProto.FLOAT, **attributes):
    node = helper.make_node("Multinomial", ["x"], ["y"], **attributes)
    given = helper.make_tensor_value_info("x", kind, logits.shape)
    result = helper.make_tensor_value_info("y", attributes.get("dtype", TensorProto.INT32), None)
    graph = helper.make_graph([node], "g", [given], [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def draw(logits, threads=0, **rest):
    options = popart.SessionOptions()
    if threads:
        options.engineOptions["num_threads"] = str(threads)
    proto = model(logits, kind=helper.np_dtype_to_tensor_dtype(logits.dtype), **rest)
    return popart.backend.prepare(proto, options=options).run([logits])[0]


LOGITS = np.array([[0.5, -1.0, 2.0, 0.0, -3.0], [-np.inf, 80.0, 81.0, np.nan, 79.5], [7.0, 7.0, 7.0, 7.0, 7.0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_classes_are_drawn_as_often_as_their_logits_say(dtype):
    """A chi-squared test of each sample; what is no finite number is never drawn."""
    logits = LOGITS.astype(dtype)
    got = draw(logits, sample_size=100_000, seed=3.0)
    assert got.shape == (3, 100_000) and got.dtype == np.int32
    for row, of in zip(got, logits.astype(np.float64), strict=True):
        weights = np.where(np.isfinite(of), np.exp(of - np.nanmax(of)), 0)
        expected = weights / weights.sum() * row.size
        counts = np.bincount(row, minlength=5)
        assert counts[expected == 0].sum() == 0
        assert stats.chisquare(counts[expected > 0], expected[expected > 0]).pvalue > 1e-4
    assert not np.array_equal(got[0], got[1])


def test_draws_do_not_depend_on_each_other():
    """Pairs of draws beside and above each other are as often alike as independent ones."""
    got = draw(np.zeros((400, 4), np.float32), sample_size=500, seed=1.0)
    for a, b in ((got[1:], got[:-1]), (got[:, 1:], got[:, :-1])):
        assert abs(np.mean(a == b) - 0.25) < 5 * np.sqrt(0.25 * 0.75 / a.size)


@pytest.mark.parametrize("opset", [7, 21, 22])
def test_types_and_versions(opset):
    got = draw(LOGITS[:1].astype(np.float32), opset=opset, dtype=TensorProto.INT64, seed=2.0)
    assert got.shape == (1, 1) and got.dtype == np.int64 and 0 <= got[0, 0] < 5


def test_every_number_of_threads_draws_the_same():
    logits = np.random.default_rng(1).standard_normal((64, 100)).astype(np.float32)
    one = draw(logits, threads=1, sample_size=200, seed=5.0)
    for threads in (2, 3, 8):
        np.testing.assert_array_equal(draw(logits, threads=threads, sample_size=200, seed=5.0), one)


def test_without_a_finite_logit_a_class_is_drawn():
    got = draw(np.full((2, 3), np.nan, np.float32), sample_size=8, seed=1.0)
    assert got.min() >= 0 and got.max() < 3


@pytest.mark.parametrize(
    ("shape", "attributes", "message"),
    [
        ((2, 3), {"dtype": TensorProto.FLOAT}, "attribute dtype: got 1, expected 6"),
        ((2, 3), {"sample_size": 0}, "attribute sample_size: got 0"),
        ((2, 3), {"sample_size": 1 << 40}, "attribute sample_size: got 1099511627776"),
        ((6,), {}, r"must be \(samples, classes\)"),
        ((2, 0), {}, "with a class"),
    ],
)
def test_refusals(shape, attributes, message):
    with pytest.raises(popart.popart_exception, match=message):
        draw(np.zeros(shape, np.float32), **attributes)
