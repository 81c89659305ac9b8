"""What follows a transposed convolution, or the data gradient of one, is computed with it: the same bits."""

import numpy as np
import popart
import pytest

from tests.python.popart.training_runs import inference_session, options_with, ready, training_session

SHAPES = {  # sizes of x, weights, attributes
    "stride_of_kernel": ((2, 16, 5, 17), (16, 40, 2, 2), {"strides": [2, 2]}),
    "one_dimension": ((1, 8, 30), (8, 33, 3), {"strides": [3]}),
    "three_dimensions": ((1, 8, 3, 2, 5), (8, 16, 2, 2, 2), {"strides": [2, 2, 2]}),
    "overlapping": ((1, 12, 7, 6), (12, 20, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "pointwise": ((2, 12, 7, 6), (12, 20, 1, 1), {}),
    "gaps": ((2, 12, 7, 6), (12, 20, 1, 1), {"strides": [2, 2]}),
    "depthwise": ((1, 24, 7, 6), (24, 1, 3, 3), {"group": 24, "pads": [1, 1, 1, 1]}),
    "groups_of_few": ((1, 12, 7, 6), (12, 2, 3, 3), {"group": 6, "strides": [2, 1]}),
}
ENDS = {
    "bias": lambda onnx, y, other: y,
    "residual_and_bounds": lambda onnx, y, other: onnx.relu([onnx.add([y, other])]),
    "program": lambda onnx, y, other: onnx.mul([onnx.tanh([y]), onnx.sigmoid([y])]),
}
TYPES = {np.float32: "FLOAT", np.float16: "FLOAT16"}
# In 16 bits, the bias is added before the sum is rounded: the convolution is one of floats.
KINDS = [(end, dtype) for dtype in TYPES for end in ENDS if dtype == np.float32 or end != "bias"]


def numbers(shape, dtype, seed):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def result_shape(x, w, attributes):
    ones = [1] * (len(x) - 2)
    strides, pads = attributes.get("strides", ones), attributes.get("pads", [0] * 2 * len(ones))
    sizes = [(n - 1) * s + k - 2 * p for n, s, k, p in zip(x[2:], strides, w[2:], pads)]
    return [x[0], w[1] * attributes.get("group", 1), *sizes]


def outputs(monkeypatch, tmp_path, fused_session, apart_session, feeds):
    """What a run of each session gives; the data gradients of the first one are fused, those of the second are not."""
    given, fused = [], []
    for name, session in (("fused", fused_session), ("apart", apart_session)):
        folder = tmp_path / name
        monkeypatch.setenv("POPART_PASS_DUMP", str(folder))
        ready(session)
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO(feeds, anchors))
        given.append({name: value.copy() for name, value in anchors.items()})
        fused.append(any("FusedConvDataGrad(" in path.read_text() for path in folder.iterdir()))
    assert fused == [True, False]
    return given


@pytest.mark.parametrize(("end", "dtype"), KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_transposed_convolution_takes_what_follows(monkeypatch, tmp_path, shape, end, dtype):
    x, w, attributes = SHAPES[shape]
    if dtype == np.float16 and shape in ("depthwise", "groups_of_few"):
        w, attributes = (w[0], 2, *w[2:]), {**attributes, "group": 1}  # in 16 bits only with many channels
    y = result_shape(x, w, attributes)
    builder = popart.Builder()
    read = builder.addInputTensor(TYPES[dtype], list(x), "x")
    other = builder.addInputTensor(TYPES[dtype], y, "other")
    weights = builder.addInitializedInputTensor(numbers(w, dtype, 1), "w")
    bias = [builder.addInitializedInputTensor(numbers(y[1], dtype, 2), "b")] if dtype == np.float32 else []
    out = ENDS[end](builder.aiOnnx, builder.aiOnnx.convtranspose([read, weights, *bias], **attributes), other)
    builder.addOutputTensor(out)
    proto = builder.getModelProto()
    feeds = {"x": numbers(x, dtype, 3), "other": numbers(y, dtype, 4)}
    sessions = [
        inference_session(proto, [out], options_with(engineOptions={"disable_passes": off}))
        for off in ("", "fuseEpilogues")
    ]
    fused, apart = outputs(monkeypatch, tmp_path, *sessions, feeds)
    np.testing.assert_array_equal(fused[out], apart[out])
    assert np.isfinite(fused[out]).all()
    assert fused[out].astype(np.float64).std() > 0.1


def test_a_data_gradient_takes_what_follows(monkeypatch, tmp_path):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 4, 9, 8], "x")
    h, channels, read = x, 4, []
    for i, strides in enumerate(([1, 1], [2, 2], [1, 1])):
        w = builder.addInitializedInputTensor(numbers((24, channels, 2, 2), np.float32, i) * 0.3, f"w{i}")
        h, channels = builder.aiOnnx.conv([h, w], strides=strides), 24
        h = builder.aiOnnx.relu([h]) if i == 0 else builder.aiOnnx.tanh([h])
        read.append(h)
    loss = builder.aiGraphcore.l1loss([h], 0.1, reduction=popart.ReductionType.Sum)
    proto = builder.getModelProto()
    prefix = popart.reservedGradientPrefix()
    names = [loss, *(prefix + name for name in ("x", "w0", "w1", "w2"))]
    anchored = [prefix + name for name in read[:-1]]  # a data gradient that is read twice stays as it is
    sessions = [
        training_session(proto, loss, popart.ConstSGD(0.1), None, anchors) for anchors in (names, [*names, *anchored])
    ]
    fused, apart = outputs(monkeypatch, tmp_path, *sessions, {"x": numbers((2, 4, 9, 8), np.float32, 5)})
    for name in names:
        np.testing.assert_array_equal(fused[name], apart[name])
