"""popart.losses: values and gradients equal those of torch.nn.functional, in every operator set."""

import numpy as np
import popart
import popart_core
import pytest
import torch
import torch.nn.functional as F

NEWEST = popart_core._newestOnnxOpset()
OPSETS = [7, 9, 11, 12, 13, 17, 18, NEWEST]
RNG = np.random.default_rng(4)
DTYPES = {"FLOAT": torch.float32, "FLOAT16": torch.float16, "BFLOAT16": torch.bfloat16}
TYPES = {np.dtype(np.float32): "FLOAT", np.dtype(np.int32): "INT32", np.dtype(np.int64): "INT64"}


def floats(*shape, scale=1.0):
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def numbers(classes, *shape, dtype=np.int32):
    return RNG.integers(0, classes, shape).astype(dtype)


def signs(*shape, dtype=np.int32):
    return (2 * RNG.integers(0, 2, shape) - 1).astype(dtype)


def shares(*shape, axis=1):
    return torch.softmax(torch.tensor(floats(*shape)), axis).numpy()


def trained(add, x, feeds, opset, dtype="FLOAT"):
    """Value of a loss of a weight `x`, and the gradient of its sum: by a session."""
    builder = popart.Builder(opsets={"ai.onnx": opset, "ai.graphcore": 1})
    weight = builder.addInitializedInputTensor(x.astype(np.float16 if dtype == "FLOAT16" else np.float32), "x")
    read = builder.aiOnnx.cast([weight], "BFLOAT16") if dtype == "BFLOAT16" else weight
    ids = [builder.addInputTensor(TYPES[array.dtype], list(array.shape)) for array in feeds]
    loss = add(builder, read, *ids)
    total = loss
    if builder.getTensorShape(loss):
        total = builder.aiGraphcore.identityloss([loss], popart.ReductionType.Sum)
    gradient = popart.reservedGradientPrefix() + weight
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, [loss, gradient]),
        total,
        popart.ConstSGD(0.125),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(dict(zip(ids, feeds, strict=True)), anchors))
    return anchors[loss], anchors[gradient]


def expected(function, x, feeds, dtype="FLOAT"):
    """The same by PyTorch, computed in FLOAT on the rounded operand."""
    weight = torch.tensor(x).to(DTYPES[dtype]).float().requires_grad_()
    tensors = [torch.tensor(a).long() if a.dtype.kind == "i" else torch.tensor(a) for a in feeds]
    loss = function(weight, *tensors)
    (gradient,) = torch.autograd.grad(loss.sum(), weight)
    return loss.detach().numpy(), gradient.numpy()


def compare(ours, theirs, feeds_and_x, opset, dtype="FLOAT"):
    x, feeds = feeds_and_x
    value, gradient = trained(ours, x, feeds, opset, dtype)
    wanted, wanted_gradient = expected(theirs, x, feeds, dtype)
    assert value.dtype == np.float32 and value.shape == wanted.shape
    np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=2e-6)
    rounding = {"FLOAT": 2e-5, "FLOAT16": 1e-3, "BFLOAT16": 1e-2}[dtype]
    np.testing.assert_allclose(gradient.astype(np.float32), wanted_gradient, rtol=rounding, atol=rounding / 10)


L = popart.losses
WEIGHT = np.array([0.5, 2.0, 1.0, 0.0, 3.0], np.float32)
IGNORED = np.array([1, -100, 4, -100, 0, 2], np.int32)
IMAGE = numbers(5, 2, 3, 4, dtype=np.int64)
IMAGE[0, 1, 2] = 3


def classes(**given):
    torch_given = {key: torch.tensor(value) if key == "weight" else value for key, value in given.items()}
    return (
        lambda b, x, y: L.cross_entropy(b, x, y, **given),
        lambda x, y: F.cross_entropy(x, y, **torch_given),
    )


def of(name, function, **given):
    return (lambda b, x, *y: getattr(L, name)(b, x, *y, **given), lambda x, *y: function(x, *y, **given))


ROWS = floats(6, 5, scale=3), [numbers(5, 6)]
HUGE = np.array([[1e4, -1e4, 0.0], [-3e4, 2e4, 1.0], [50.0, 50.0, 50.0]], np.float32)
CASES = {
    "classes": (*classes(), ROWS),
    "classes sum": (*classes(reduction="sum"), ROWS),
    "classes none": (*classes(reduction="none"), ROWS),
    "classes ignored": (*classes(), (floats(6, 5), [IGNORED])),
    "classes other ignored": (*classes(ignore_index=2), (floats(6, 5), [numbers(5, 6)])),
    "classes all ignored": (*classes(), (floats(6, 5), [np.full(6, -100, np.int32)])),
    "classes all ignored, smooth": (*classes(label_smoothing=0.1), (floats(6, 5), [np.full(6, -100, np.int32)])),
    "classes weighted": (*classes(weight=WEIGHT), (floats(6, 5), [IGNORED])),
    "classes weighted none": (*classes(weight=WEIGHT, reduction="none"), (floats(6, 5), [IGNORED])),
    "classes weighted sum": (*classes(weight=WEIGHT, reduction="sum"), (floats(6, 5), [IGNORED])),
    "classes smooth": (*classes(label_smoothing=0.2), (floats(6, 5), [IGNORED])),
    "classes smooth weighted": (*classes(label_smoothing=0.2, weight=WEIGHT), (floats(6, 5), [IGNORED])),
    "classes smooth none": (*classes(label_smoothing=1.0, reduction="none"), (floats(6, 5), [IGNORED])),
    "pixels": (*classes(), (floats(2, 5, 3, 4), [IMAGE])),
    "pixels weighted smooth": (*classes(weight=WEIGHT, label_smoothing=0.3), (floats(2, 5, 3, 4), [IMAGE])),
    "pixels none": (*classes(reduction="none"), (floats(2, 5, 3, 4), [IMAGE])),
    "one row": (*classes(), (floats(5), [np.array(3, np.int32)])),
    "one row none smooth": (*classes(reduction="none", label_smoothing=0.1), (floats(5), [np.array(3, np.int32)])),
    "one class": (*classes(), (floats(4, 1), [np.zeros(4, np.int32)])),
    "one class smooth": (*classes(label_smoothing=0.5), (floats(4, 1), [np.zeros(4, np.int32)])),
    "huge logits": (*classes(), (HUGE, [np.array([1, 0, 2], np.int32)])),
    "huge logits smooth": (*classes(label_smoothing=0.1), (HUGE, [np.array([1, 0, 2], np.int32)])),
    "probabilities": (*classes(), (floats(6, 5), [shares(6, 5)])),
    "probabilities weighted smooth": (*classes(weight=WEIGHT, label_smoothing=0.1), (floats(6, 5), [shares(6, 5)])),
    "probabilities of pixels": (*classes(reduction="none"), (floats(2, 5, 3), [shares(2, 5, 3)])),
    "probabilities of one row": (*classes(), (floats(5), [shares(5, axis=0)])),
    "categorical": (*of("categorical_cross_entropy", F.cross_entropy), (floats(6, 5), [shares(6, 5)])),
    "categorical smooth sum": (
        *of("categorical_cross_entropy", F.cross_entropy, label_smoothing=0.2, reduction="sum"),
        (floats(2, 5, 3), [shares(2, 5, 3)]),
    ),
    "nll": (*of("nll", F.nll_loss), (np.log(shares(6, 5)), [IGNORED])),
    "nll pixels": (*of("nll", F.nll_loss, reduction="none"), (np.log(shares(2, 5, 3, 4)), [IMAGE])),
    "binary": (
        *of("binary_cross_entropy", F.binary_cross_entropy_with_logits),
        (floats(6, 5, scale=4), [shares(6, 5)]),
    ),
    "binary huge": (
        *of("binary_cross_entropy", F.binary_cross_entropy_with_logits, reduction="none"),
        (np.array([3e4, -3e4, 88.0, -104.0, 0.0], np.float32), [np.array([0, 1, 1, 0, 1], np.float32)]),
    ),
    "binary weighted": (
        lambda b, x, y: L.binary_cross_entropy(b, x, y, weight=WEIGHT, pos_weight=WEIGHT + 1),
        lambda x, y: F.binary_cross_entropy_with_logits(
            x, y, torch.tensor(WEIGHT), pos_weight=torch.tensor(WEIGHT + 1)
        ),
        (floats(6, 5), [shares(6, 5)]),
    ),
    "binary integers": (
        *of("binary_cross_entropy", lambda x, y: F.binary_cross_entropy_with_logits(x, y.float())),
        (floats(6, 5), [numbers(2, 6, 5)]),
    ),
    "mse": (*of("mse", F.mse_loss), (floats(4, 3), [floats(4, 3)])),
    "mse sum": (*of("mse", F.mse_loss, reduction="sum"), (floats(4, 3), [floats(4, 3)])),
    "mse none": (*of("mse", F.mse_loss, reduction="none"), (floats(4, 3), [floats(4, 3)])),
    "mae": (*of("mae", F.l1_loss), (floats(4, 3), [floats(4, 3)])),
    "mae equal": (*of("mae", F.l1_loss), (np.ones((2, 2), np.float32), [np.ones((2, 2), np.float32)])),
    "huber": (*of("huber", F.huber_loss, delta=0.7), (floats(9, 3, scale=2), [floats(9, 3)])),
    "huber huge": (
        *of("huber", F.huber_loss),
        (np.array([3e4, -3e4, 0.0, 1.0], np.float32), [np.zeros(4, np.float32)]),
    ),
    "smooth_l1": (*of("smooth_l1", F.smooth_l1_loss, beta=0.5), (floats(9, 3), [floats(9, 3)])),
    "smooth_l1 beta 0": (*of("smooth_l1", F.smooth_l1_loss, beta=0.0), (floats(9, 3), [floats(9, 3)])),
    "kl": (*of("kl_divergence", F.kl_div), (np.log(shares(4, 5)), [shares(4, 5)])),
    "kl batchmean": (*of("kl_divergence", F.kl_div, reduction="batchmean"), (np.log(shares(4, 5)), [shares(4, 5)])),
    "kl zeros": (
        *of("kl_divergence", F.kl_div, reduction="none"),
        (np.log(shares(2, 3)), [np.array([[0, 1, 0], [0.5, 0, 0.5]], np.float32)]),
    ),
    "kl log target": (
        *of("kl_divergence", F.kl_div, log_target=True, reduction="sum"),
        (np.log(shares(4, 5)), [np.log(shares(4, 5))]),
    ),
    "kl logits": (
        lambda b, x, y: L.kl_divergence(b, x, y, from_logits=True, reduction="batchmean"),
        lambda x, y: F.kl_div(F.log_softmax(x, 1), y, reduction="batchmean"),
        (floats(4, 5, 3), [shares(4, 5, 3)]),
    ),
    "hinge": (
        lambda b, x, y: L.hinge(b, x, y, margin=0.8),
        lambda x, y: torch.relu(0.8 - x * y).mean(),
        (floats(4, 5), [signs(4, 5)]),
    ),
    "hinge_embedding": (*of("hinge_embedding", F.hinge_embedding_loss), (floats(4, 5), [signs(4, 5)])),
    "cosine": (*of("cosine_embedding", F.cosine_embedding_loss), (floats(6, 5), [floats(6, 5), signs(6)])),
    "cosine margin": (
        *of("cosine_embedding", F.cosine_embedding_loss, margin=0.1, reduction="none"),
        (floats(6, 5), [floats(6, 5), signs(6)]),
    ),
    "cosine of zeros": (
        *of("cosine_embedding", F.cosine_embedding_loss),
        (np.zeros((2, 3), np.float32), [floats(2, 3), signs(2)]),
    ),
    "triplet": (*of("triplet_margin", F.triplet_margin_loss), (floats(6, 5), [floats(6, 5), floats(6, 5)])),
    "triplet p 1": (*of("triplet_margin", F.triplet_margin_loss, p=1.0), (floats(6, 5), [floats(6, 5), floats(6, 5)])),
    "triplet p 3 swap": (
        *of("triplet_margin", F.triplet_margin_loss, p=3.0, swap=True, margin=2.0, reduction="none"),
        (floats(6, 5), [floats(6, 5), floats(6, 5)]),
    ),
    "ctc": (
        # through a log softmax: PyTorch's gradient of log_probs assumes one
        lambda b, x, *y: L.ctc(b, b.aiOnnx.logsoftmax([x], axis=2), *y),
        lambda x, *y: F.ctc_loss(F.log_softmax(x, 2), *y),
        (
            np.log(shares(7, 2, 4, axis=2)),
            [numbers(3, 2, 3) + 1, np.array([7, 5], np.int32), np.array([3, 1], np.int32)],
        ),
    ),
    "ctc logits": (
        lambda b, x, *y: L.ctc(b, x, *y, from_logits=True, reduction="sum", zero_infinity=True),
        lambda x, *y: F.ctc_loss(F.log_softmax(x, 2), *y, reduction="sum", zero_infinity=True),
        (floats(4, 2, 4), [numbers(3, 2, 3) + 1, np.array([4, 2], np.int32), np.array([2, 3], np.int32)]),
    ),
}
# Not those with gradients beyond FLOAT16, and the one with an operator in front of the loss.
HALF = [name for name in CASES if "huge" not in name and name not in ("cosine of zeros", "ctc")]


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_are_those_of_pytorch(case, opset):
    ours, theirs, operands = CASES[case]
    compare(ours, theirs, operands, opset)


@pytest.mark.parametrize("dtype", ["FLOAT16", "BFLOAT16"])
@pytest.mark.parametrize("case", HALF)
def test_operands_of_16_bits_give_a_float_loss(case, dtype):
    ours, theirs, operands = CASES[case]
    compare(ours, theirs, operands, 17, dtype)


@pytest.mark.parametrize("opset", [10, 17])
def test_a_weight_that_is_an_initializer_does_not_train(opset):
    def add(builder, x, y):
        weight = builder.addInitializedInputTensor(WEIGHT, "class_weight")
        return L.cross_entropy(builder, x, y, weight=weight)

    operands = (floats(6, 5), [IGNORED])
    compare(add, classes(weight=WEIGHT)[1], operands, opset)


REFUSALS = {
    "reduction": (lambda b: L.mse(b, "x", "x", reduction="avg"), "reduction: got 'avg'"),
    "unknown tensor": (lambda b: L.mse(b, "xx", "x"), "'xx'"),
    "smoothing": (lambda b: L.cross_entropy(b, "x", "n", label_smoothing=1.5), "label smoothing: got 1.5"),
    "integers": (lambda b: L.cross_entropy(b, "n", "n"), "element type: got int32, expected floats"),
    "weights": (lambda b: L.cross_entropy(b, "x", "n", weight=[1.0, 2.0]), "got 2, expected one for each of the 3"),
    "delta": (lambda b: L.huber(b, "x", "x", delta=0.0), "delta: got 0"),
    "p": (lambda b: L.triplet_margin(b, "x", "x", "x", p=0.0), "p: got 0"),
    "labels": (lambda b: L.cross_entropy(b, "x", "wrong"), "targets must have the input's shape"),
    "name": (lambda b: L.attach(b, "cros_entropy", "x"), "no loss of this name.*Nearest names: cross_entropy"),
    "output": (lambda b: L.attach(b, "mse"), "no output of floats"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_name_the_value_and_what_is_expected(case):
    add, text = REFUSALS[case]
    builder = popart.Builder(opsets={"ai.onnx": 17, "ai.graphcore": 1})
    builder.addInputTensor("FLOAT", [4, 3], "x")
    builder.addInputTensor("INT32", [4], "n")
    builder.addInputTensor("INT32", [5], "wrong")
    with pytest.raises(popart.popart_exception, match=text) as caught:
        add(builder)
    assert not isinstance(caught.value, popart.popart_internal_exception)


def test_operator_sets_without_broadcasting_are_refused():
    builder = popart.Builder(opsets={"ai.onnx": 6, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT", [4, 3])
    with pytest.raises(popart.popart_exception, match=r"operator set of ai\.onnx: got 6, expected 7 or newer"):
        L.mse(builder, x, x)


class Network(torch.nn.Module):
    """Two outputs: class numbers, and logits of images."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(2, 5, 3)

    def forward(self, x):
        y = self.layer(x)
        return y.argmax(1), y


def exported(tmp_path, batch=None):
    path = str(tmp_path / "network.onnx")
    sizes = {"x": {0: torch.export.Dim("batch")}} if batch is None else None
    torch.onnx.export(
        Network(),
        (torch.zeros(batch or 2, 2, 6, 6),),
        path,
        input_names=["x"],
        output_names=["picked", "logits"],
        dynamic_shapes=sizes,
        dynamo=True,
        verbose=False,
    )
    return path


def test_attach_adds_labels_of_the_first_float_output(tmp_path):
    builder = popart.Builder(exported(tmp_path, batch=2))
    attached = L.attach(builder, "cross_entropy", label_smoothing=0.1)
    assert attached.output == "logits"
    assert attached.inputs == (L.LossInput("labels", "INT32", (2, 4, 4)),)
    assert builder.getTensorShape(attached.loss) == []


def test_attach_keeps_open_dimensions(tmp_path):
    pytest.importorskip("onnxscript")
    path = exported(tmp_path)
    builder = popart.Builder(path)
    attached = L.attach(builder, "cross_entropy")
    assert attached.inputs == (L.LossInput("labels", "INT32", (-1, 4, 4)),)
    x, y = floats(3, 2, 6, 6), numbers(5, 3, 4, 4)
    shapes = popart.InputShapeInfo()
    shapes.add("x", popart.TensorInfo("FLOAT", x.shape))
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, [attached.loss, "logits"]),
        attached.loss,
        popart.ConstSGD(0.125),
        popart.DeviceManager().createCpuDevice(),
        inputShapeInfo=shapes,
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": x, "labels": y}, anchors))
    wanted = F.cross_entropy(torch.tensor(anchors["logits"]), torch.tensor(y).long())
    np.testing.assert_allclose(anchors[attached.loss], wanted.numpy(), rtol=2e-5)


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("cross_entropy", [("labels", "INT32", (7, 4))]),
        ("categorical_crossentropy", [("labels", "FLOAT", (7, 3, 4))]),
        ("nll", [("labels", "INT32", (7, 4))]),
        ("bce", [("labels", "FLOAT", (7, 3, 4))]),
        ("mse", [("labels", "FLOAT", (7, 3, 4))]),
        ("mae", [("labels", "FLOAT", (7, 3, 4))]),
        ("huber", [("labels", "FLOAT", (7, 3, 4))]),
        ("smooth_l1", [("labels", "FLOAT", (7, 3, 4))]),
        ("kl_div", [("labels", "FLOAT", (7, 3, 4))]),
        ("hinge", [("labels", "FLOAT", (7, 3, 4))]),
        ("hinge_embedding", [("labels", "FLOAT", (7, 3, 4))]),
        ("triplet", [("positive", "FLOAT", (7, 3, 4)), ("negative", "FLOAT", (7, 3, 4))]),
        ("ctc", [("labels", "INT32", (3, -1)), ("input_lengths", "INT32", (3,)), ("label_lengths", "INT32", (3,))]),
    ],
)
def test_each_name_adds_its_inputs(name, inputs):
    builder = popart.Builder(opsets={"ai.onnx": 17, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT16", [7, 3, 4])
    builder.addOutputTensor(builder.aiOnnx.relu([x]))
    attached = L.attach(builder, name)
    assert [(i.id, i.dtype, i.shape) for i in attached.inputs] == inputs
    assert L.function(name).__name__ in L.names()


def test_attach_takes_labels_that_exist_and_functions():
    builder = popart.Builder(opsets={"ai.onnx": 17, "ai.graphcore": 1})
    x, y = builder.addInputTensor("FLOAT", [4, 3]), builder.addInputTensor("INT64", [4], "y")
    builder.addOutputTensor(builder.aiOnnx.relu([x]))
    attached = L.attach(builder, "cross_entropy", inputs=[y])
    assert attached.inputs == (L.LossInput("y", "INT64", (4,)),)

    def loss(builder):
        target = builder.addInputTensor("FLOAT", [4, 3], "target")
        return L.mse(builder, x, target)

    made = L.attach(builder, loss)
    assert made.inputs == (L.LossInput("target", "FLOAT", (4, 3)),) and made.output == ""
    with pytest.raises(TypeError, match="takes no output"):
        L.attach(builder, loss, reduction="sum")
    with pytest.raises(popart.popart_exception, match="expected the id of the loss"):
        L.attach(builder, lambda builder: None)
    with pytest.raises(TypeError, match="smoothing"):
        L.attach(builder, "cross_entropy", smoothing=0.1)


def test_old_loss_objects_stay():
    loss = popart.NllLoss("probs", "labels", "loss")
    assert (loss.input(0), loss.output()) == ("probs", "loss")
