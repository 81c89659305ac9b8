"""Labels that are no class: by default they end the run; the error names the option with which they count nothing.

PopART gives such a row no loss; old programs feed dummy labels. A mean divides by the row all the same.
"""

import numpy as np
import popart
import pytest
import torch

from onnx import TensorProto, helper, numpy_helper
from tests.python.popart.training_runs import options_with, ready, training_session

ROWS, CLASSES, BAD = 6, 5, [1, 4]
OPTION = {"engineOptions": {"ignore_out_of_range_labels": "true"}}
LOGITS = np.random.default_rng(0).standard_normal((ROWS, CLASSES)).astype(np.float32)


def labels_with(*bad, ignored=None):
    """Labels of the rows: those of BAD are `bad`, row 2 is `ignored`."""
    labels = np.arange(ROWS, dtype=np.int32) % CLASSES
    labels[BAD] = bad
    if ignored is not None:
        labels[2] = ignored
    return labels


def run(model, loss, labels, options, dtype=np.float32, patterns=None):
    """The loss and the gradient of the logits `x`."""
    session = ready(
        training_session(model, loss, popart.ConstSGD(0.1), options, anchors=[loss, "Gradient___x"], patterns=patterns)
    )
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"labels": labels}, anchors))
    return anchors[loss].astype(np.float32), anchors["Gradient___x"].astype(np.float32)


def nll_model(dtype=np.float32, softmax=True, **attributes):
    builder = popart.Builder()
    x = builder.addInitializedInputTensor(LOGITS.astype(dtype), "x")
    labels = builder.addInputTensor("INT32", [ROWS], "labels")
    p = builder.aiOnnx.softmax([x], 1) if softmax else builder.aiOnnx.logsoftmax([x], 1)
    loss = builder.aiGraphcore.nllloss([p, labels], inputIsLogProbability=not softmax, **attributes)
    return builder.getModelProto(), loss


def expected(labels, reduction, ignored=None, weights=None):
    """Loss and gradient in float64: rows out of range give nothing; a mean divides by all rows but the ignored ones."""
    x = torch.tensor(LOGITS, dtype=torch.float64, requires_grad=True)
    counts = torch.tensor((labels >= 0) & (labels < CLASSES) & (labels != ignored))
    factors = torch.ones(CLASSES, dtype=torch.float64) if weights is None else torch.tensor(weights).double()
    safe = torch.tensor(labels).long().clamp(0, CLASSES - 1)
    rows = -torch.log_softmax(x, 1)[torch.arange(ROWS), safe] * counts * factors[safe]
    divisor = float((labels != ignored).sum()) if weights is None else (counts * factors[safe]).sum()
    loss = {"sum": rows.sum(), "mean": rows.sum() / divisor}[reduction]
    loss.backward()
    return loss.item(), x.grad.numpy()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("ignored", [None, 3])
def test_nll_with_the_option(reduction, softmax, ignored, fused, dtype):
    labels = labels_with(-1, 1000, ignored=ignored)
    kind = popart.ReductionType.Sum if reduction == "sum" else popart.ReductionType.Mean
    attributes = {"reduction": kind} | ({} if ignored is None else {"ignoreIndex": ignored})
    model, loss = nll_model(dtype, softmax, **attributes)
    level = popart.PatternsLevel.Default if fused else popart.PatternsLevel.Minimal
    got, gradient = run(model, loss, labels, options_with(**OPTION), dtype, popart.Patterns(level))
    value, slope = expected(labels, reduction, ignored)
    tolerance = 1e-5 if dtype == np.float32 else 1e-2
    np.testing.assert_allclose(got, value, rtol=tolerance)
    np.testing.assert_allclose(gradient, slope, rtol=tolerance, atol=tolerance)
    assert (gradient[BAD] == 0).all()


def class_loss_model(type, reduction, weights):
    nodes = [helper.make_node("Identity", ["x"], ["h"])]
    given = ["h", "labels"] + ([] if weights is None else ["w"])
    if type == "NegativeLogLikelihoodLoss":
        nodes = [helper.make_node("LogSoftmax", ["x"], ["h"], axis=1)]
    nodes.append(helper.make_node(type, given, ["loss"], reduction=reduction))
    initializers = [numpy_helper.from_array(LOGITS, "x")]
    if weights is not None:
        initializers.append(numpy_helper.from_array(np.float32(weights), "w"))
    labels = helper.make_tensor_value_info("labels", TensorProto.INT32, [ROWS])
    loss = helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])
    graph = helper.make_graph(nodes, "g", [labels], [loss], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


@pytest.mark.parametrize("type", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("weights", [None, [1, 2, 0.5, 3, 0.25]])
def test_losses_of_onnx_with_the_option(type, reduction, weights):
    labels = labels_with(-7, CLASSES)
    got, gradient = run(class_loss_model(type, reduction, weights), "loss", labels, options_with(**OPTION))
    value, slope = expected(labels, reduction, weights=weights)
    np.testing.assert_allclose(got, value, rtol=1e-5)
    np.testing.assert_allclose(gradient, slope, rtol=1e-5, atol=1e-6)


def ctc_model():
    builder = popart.Builder()
    x = builder.addInitializedInputTensor(LOGITS.reshape(ROWS, 1, CLASSES).repeat(2, 1), "x")
    labels = builder.addInputTensor("UINT32", [2, 2], "labels")
    steps, targets = (builder.aiOnnx.constant(np.full(2, n, np.uint32)) for n in (ROWS, 2))
    loss = builder.aiGraphcore.ctcloss(
        [builder.aiOnnx.logsoftmax([x], 2), labels, steps, targets], reduction=popart.ReductionType.Sum
    )
    return builder.getModelProto(), loss


def test_ctc_with_the_option():
    """The sample with such a label gives nothing, the other one what it gives alone."""
    model, loss = ctc_model()
    got, gradient = run(model, loss, np.uint32([[1, 2], [1, 9]]), options_with(**OPTION))
    x = torch.tensor(LOGITS[:, None], dtype=torch.float64, requires_grad=True)
    target, lengths = torch.tensor([[1, 2]]), (torch.tensor([ROWS]), torch.tensor([2]))
    alone = torch.nn.functional.ctc_loss(x.log_softmax(2), target, *lengths, reduction="sum")
    alone.backward()
    np.testing.assert_allclose(got, alone.item(), rtol=1e-5)
    np.testing.assert_allclose(gradient[:, :1], x.grad.numpy(), rtol=1e-4, atol=1e-5)
    assert (gradient[:, 1] == 0).all()


@pytest.mark.parametrize("bad", [-1, CLASSES])
def test_without_the_option_the_error_names_it(bad):
    model, loss = nll_model()
    with pytest.raises(popart.popart_runtime_error, match=r'engineOptions\["ignore_out_of_range_labels"\]') as caught:
        run(model, loss, labels_with(0, bad), options_with())
    assert f"got {bad} at element 4 of input 1, expected 0 to 4" in str(caught.value)


def test_what_the_option_may_be():
    model, loss = nll_model()
    with pytest.raises(popart.popart_exception, match="bad ignore_out_of_range_labels: got 'yes'"):
        run(model, loss, labels_with(0, 1), options_with(engineOptions={"ignore_out_of_range_labels": "yes"}))
