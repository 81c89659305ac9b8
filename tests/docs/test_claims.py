"""What the guides say is refused, must be so or happens only then: each such sentence is run, or a table says where.

A sentence with one of `WORDS` in a guide has a test here (`claim`), a test elsewhere (`TESTED`), or a reason why there
is nothing to run (`NOT_RUN`). So a sentence that becomes wrong fails, and a new one has to be tested.
"""

import json
import re
from collections.abc import Callable

import numpy as np
import onnx.parser
import popart
import popart_core
import popxl
import popxl.ops as ops
import pytest
import torch
from popart.tools import convert, inspect, run

import onnx
from tests.docs.pages import DOCS, ROOT, without_fences

GUIDES = {page.stem: page for page in sorted((DOCS / "guides").glob("*.md"))}
WORDS = re.compile(r"\b(not|refused?|refuses|only|must|cannot|never)\b", re.IGNORECASE)
CLAIMS: dict[tuple[str, str], Callable[[], None]] = {}

SHOWN = "the programs of the page show it"
WORDING = "says what a word means, or where to read on"
# Part of a sentence -> the file whose tests run it, or a reason. By page.
TESTED = {
    ("command-line", "Tables have colours on a terminal only"): "tests/python/tools/test_output.py",
    ("command-line", "a node that cannot be computed stays"): "tests/python/tools/test_constants.py",
    ("command-line", "where an operator does not take the type"): "tests/python/tools/test_converted_names.py",
    ("command-line", "Files are written whole or not at all"): "tests/python/popart/test_files.py",
    ("command-line", "| 1 | done, and the answer is no"): "tests/python/tools/test_commands.py",
    ("command-line", "| 2 | wrong command line"): "tests/python/tools/test_commands.py",
    ("from-popart", "what PopART is documented to refuse"): "tests/errors/test_errors.py",
    ("from-popart", "You may call the only output of a model `output`"): "tests/python/popart/test_result_name.py",
    ("from-popart", "*built*, *refused*"): "tests/python/popart/test_options.py",
    ("from-popart", "Arrays with unknown names"): "tests/python/popart/test_sessions_as_documented.py",
    ("from-popart", "does `getCycleCount` estimate"): "tests/python/popart/test_run_facts.py",
    ("from-popart", "What a CPU does not have"): "tests/python/popart/test_reports.py",
    ("from-popart", "`popdist.registerBackend(file)`"): "tests/python/popdist/test_backend.py",
    ("from-popart", "gradients through a `Loop`"): "tests/python/popart/test_loop_gradients.py",
    ("from-pytorch", "Pass PyTorch tensors directly"): "tests/python/popart/test_foreign_arrays.py",
    ("making-it-fit", "A program that fits is not changed"): "tests/python/popart/test_max_memory.py",
    ("making-it-fit", "Only a few activations"): "tests/python/popart/test_recomputation.py",
    (
        "making-it-fit",
        "Tensors that are off chip are on the device only",
    ): "tests/python/popart/test_execution_phases.py",
    ("making-it-fit", "each replica can keep only a part"): "tests/python/popart/test_sharded_state.py",
    ("making-it-fit", "For such a program `max_memory` is only a check"): "tests/python/popart/test_fitting.py",
    ("optimizers", "| dampening | not for the first gradient"): "tests/python/popart/test_optim.py",
    ("popxl-applications", "If a name exists only in the checkpoint"): "tests/python/popxl_addons/test_task_session.py",
    ("replicas", "each replica keeps only a part"): "tests/python/popart/test_sharded_state.py",
    ("threads", "A small kernel uses fewer threads"): "tests/python/popart/test_threads.py",
    ("threads", "So do loops that do not depend"): "tests/python/popart/test_loops_at_the_same_time.py",
    ("threads", 'or prevents it (`"never"`)'): "tests/python/popart/test_loops_at_the_same_time.py",
    ("threads", "so results do not depend on the number of images"): "tests/python/popart/test_winograd.py",
    ("threads", "The other machine must have"): "tests/python/popart/test_program_files.py",
    ("trainer", "refuses a loss that adds sums to means"): "tests/python/popart/test_trainer_parts.py",
    ("trainer", "refuses class weights, and micro-batches that ignore"): "tests/unit/api/trainer_test.cpp",
    ("train-onnx", "Errors in the model, the options or the device"): "tests/errors/test_errors.py",
}
NOT_RUN = {
    ("from-popart", "| codelets and `Opx` classes"): SHOWN,
    ("from-popart", "A program finds this out when it is built"): SHOWN,
    ("losses", "| `ctc` | `ctc_loss`, `CTCLoss` | labels that are not aligned"): WORDING,
    ("making-it-fit", "| you do not know, or do not care"): WORDING,
    ("making-it-fit", "With recomputation, only one part of them"): "a picture, which test_pictures.py compares",
    ("making-it-fit", "A pipeline alone does not save memory"): "a reason for what the page does next",
    ("popxl", "exists only while it is needed"): WORDING,
    ("popxl", "Shapes and types are checked when you add an operator"): SHOWN,
    ("popxl-applications", "Identical layers need only one graph"): SHOWN,
    ("replicas", "(new here, not in PopXL)"): "says what PopXL had",
    ("threads", "Results do not depend on the number of threads"): SHOWN,
    ("train-onnx", "You need only the file"): SHOWN,
    ("train-onnx", "An inference session computes only what its anchors need"): SHOWN,
    (
        "from-onnxruntime-training",
        "Results do not depend on the number of threads",
    ): "tests/python/popart/test_threads.py",
    ("from-onnxruntime-training", "not needed: `popart.Trainer("): SHOWN,
    ("from-onnxruntime-training", "The format of ONNX Runtime's checkpoint is not read"): "says what is absent",
    ("fine-tuning", "Otherwise the exporter"): "says what PyTorch does",
    ("fine-tuning", "To train only the head"): "tests/python/popart/test_frozen_weights.py",
    ("quantised", "the tools ask for a preparation"): WORDING,
    ("quantised", "It needs no samples"): SHOWN,
    ("serving", "A small network does not become faster"): "a reason for what the page does next",
    ("serving", "Separate processes do not share"): "says what Python does",
    ("serving", "can neither run code"): "tests/fuzz",
}
ELSEWHERE = {"processes": "tests/python/popdist", "profiling": "tests/python/tools"}  # pages whose folders test them


def plain(text: str) -> str:
    """Text with single spaces."""
    return " ".join(text.split())


def sentences(page: str) -> list[str]:
    """The sentences, list entries and rows of tables of a guide, without its blocks and titles."""
    text = without_fences(GUIDES[page].read_text())
    found = []
    for part in re.split(r"\n\s*\n|\n(?=- |\d+\. |\|)", text):
        if part.startswith("#"):
            continue
        part = plain(part)
        found += [part] if part.startswith("|") else re.split(r"(?<=[.!?:])\s+(?=[A-Z`*\[])", part)
    return found


def claim(page: str, text: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Mark a function as the test of a sentence of a guide."""

    def mark(test: Callable[[], None]) -> Callable[[], None]:
        CLAIMS[page, text] = test
        return test

    return mark


def refused(*words: str, kind: type[Exception] | tuple[type[Exception], ...] = popart.popart_exception):
    """Expect an exception whose message has these words."""
    return pytest.raises(kind, match="".join(f"(?=.*{re.escape(word)})" for word in words))


def network(path: str = "network.onnx") -> str:
    """A file with two weights: x (4, 3) -> logits (4, 2)."""
    text = "g (float[4, 3] x) => (float[4, 2] logits) { a = MatMul(x, w1) b = Relu(a) logits = MatMul(b, w2) }"
    model = onnx.load(parsed(text, path))
    rng = np.random.default_rng(0)
    for name, shape in (("w1", (3, 5)), ("w2", (5, 2))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name))
    onnx.save(model, path)
    return path


def parsed(text: str, path: str, domain: str = "") -> str:
    """A file of ONNX's text form."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17{domain}]> {text}')
    onnx.save(model, path)
    return path


def trained(loss, options=None, optimizer=None, path="network.onnx", **choice):
    """A training session of the network; `loss` adds the loss to a Builder, and returns it with its labels."""
    builder = popart.Builder(network(path))
    result = loss(builder)
    session = popart.TrainingSession(
        builder.getModelProto(), popart.DataFlow(1, [result]), result, optimizer or popart.ConstSGD(0.1),
        popart.DeviceManager().createCpuDevice(), userOptions=options or popart.SessionOptions(), **choice,
    )  # fmt: skip
    session.prepareDevice()
    session.weightsFromHost()
    return session, result


def cross_entropy(**settings):
    """A function that adds the loss with labels."""
    return lambda b: popart.losses.cross_entropy(b, "logits", b.addInputTensor("INT32", [4], "labels"), **settings)


BATCH = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
LABELS = np.array([0, 1, 1, 0], np.int32)


# ---- the table and the pages


@pytest.mark.parametrize("page", GUIDES)
def test_every_such_sentence_is_run_or_explained(page):
    if page in ELSEWHERE:
        assert (ROOT / ELSEWHERE[page]).is_dir()
        return
    known = [plain(text) for where, text in (*CLAIMS, *TESTED, *NOT_RUN) if where == page]
    missing = [s for s in sentences(page) if WORDS.search(s) and not any(text in s for text in known)]
    assert missing == [], f"{page}.md: add a test to {__file__}"


@pytest.mark.parametrize(("page", "text"), [*CLAIMS, *TESTED, *NOT_RUN])
def test_the_pages_still_say_so(page, text):
    assert plain(text) in plain(GUIDES[page].read_text()), "the sentence is gone: remove its row"


def test_tests_elsewhere_exist():
    assert [path for path in TESTED.values() if not (ROOT / path).exists()] == []


# ---- command-line


@claim("command-line", "with null for numbers that are not finite")
def json_has_null_for_infinities(capsys):
    parsed("g (float[2] x) => (float[2] y) <float[2] z = {0, 1}> { y = Div(x, z) }", "m.onnx")
    np.save("x.npy", np.ones(2, np.float32))
    assert run.command(["m.onnx", "--input", "x=x.npy", "--json", "--values"]) == 0
    text = capsys.readouterr().out
    assert "null" in text and "Infinity" not in text


@claim("command-line", "PopART does not fuse an operator whose result it keeps")
def kept_results_are_not_fused():
    def steps(outputs):
        model = popart.load(network(), outputs=outputs)
        model(BATCH)
        programs = json.loads(popart_core._Session._report(model.session))["programs"]
        return len(list(inspect.kernel_steps(programs)))

    fused, kept = steps(["logits"]), steps(["logits", "a"])
    assert fused == 2 and kept == 3  # two products, the first with its Relu; the Relu by itself


@claim("command-line", "If PopART refuses a part of the model, the command prints every refused node")
def refused_nodes_are_printed(capsys):
    domain = ', "com.microsoft" : 1'
    text = "g (float[2] x) => (float[2] y) { a = com.microsoft.Snpe(x) y = com.microsoft.EPContext(x) }"
    parsed(text, "m.onnx", domain)
    assert inspect.command(["m.onnx"]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("refused")]
    assert len(lines) == 2 and "Snpe" in lines[0] and "EPContext" in lines[1]


@claim("command-line", "operators that only move elements count nothing")
def moving_counts_nothing(capsys):
    parsed("g (float[2, 3] x) => (float[3, 2] y) { t = Transpose(x) y = Relu(t) }", "m.onnx")
    inspect.command(["m.onnx", "--layers", "--json"])
    rows = {row["operators"][0]: row["flops"] for row in json.loads(capsys.readouterr().out)["layers"]}
    assert rows["Transpose"] == 0 and rows["Relu"] == 6


@claim("command-line", "Values that float16 cannot hold become its largest number")
def large_values_become_the_largest():
    parsed("g (float[2] x) => (float[2] y) <float[2] w = {1000000, -1000000}> { y = Mul(x, w) }", "m.onnx")
    assert convert.command(["m.onnx", "half.onnx", "--float16"]) == 0
    (weight,) = onnx.load("half.onnx").graph.initializer
    assert onnx.numpy_helper.to_array(weight).tolist() == [65504, -65504]


# ---- from-pytorch


@claim("from-pytorch", "Text between the numeric operators of a model")
def text_between_numbers_is_refused():
    parsed(
        "g (float[2] x) => (float[2] y) "
        "{ a = Neg(x) s = Cast<to = 8>(a) n = Cast<to = 1>(s) y = Neg(n) }", "m.onnx",
    )  # fmt: skip
    with refused("Cast"):
        popart.load("m.onnx")(np.ones(2, np.float32))


# ---- losses


@claim("losses", "The loss of a session must be a scalar")
def losses_are_scalars():
    with refused("loss", "one element"):
        trained(cross_entropy(reduction="none"))


@claim("losses", "They do not train")
def weights_of_losses_do_not_train():
    session, _ = trained(cross_entropy(weight=np.array([1, 2], np.float32)))
    assert {t.name for t in session.trainableTensors() if t.trains} == {"w1", "w2"}


@claim("losses", "rows with this label have no loss, and the mean does not count them")
def ignored_rows_do_not_count():
    labels = np.array([0, -100, 1, -100], np.int32)
    session, loss = trained(cross_entropy())
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": BATCH, "labels": labels}, anchors))
    logits = torch.tensor(popart.load("network.onnx")(BATCH))
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor(labels).long())
    assert abs(anchors[loss] - expected.item()) < 1e-5
    session.run(popart.PyStepIO({"x": BATCH, "labels": np.full(4, -100, np.int32)}, anchors))
    assert np.isnan(anchors[loss])


@claim("losses", "Any other label outside the classes ends the run with an error")
def other_labels_end_the_run():
    session, _ = trained(cross_entropy())
    with refused("label", kind=popart.popart_runtime_error):
        session.run(popart.PyStepIO({"x": BATCH, "labels": LABELS + 5}, session.initAnchorArrays()))


@claim("losses", "the first output of a floating-point type")
def attach_takes_the_first_floats():
    parsed("g (float[2, 3] x) => (int64[2, 1] i, float[2, 3] y, float[2, 3] z) "
           "{ y = Relu(x) z = Neg(y) i = ArgMax<axis = 1>(x) }", "m.onnx")  # fmt: skip
    assert popart.losses.attach(popart.Builder("m.onnx"), "mse").output == "y"


# ---- making-it-fit


@claim("making-it-fit", "A tensor with fewer than 2 elements stays on the device, and a tensor with fewer than 8192")
def the_first_size_is_that_of_off_chip():
    settings = popart.TensorLocationSettings(popart.TensorLocation(popart.TensorStorage.OffChip), 2, 8192)
    assert settings.minElementsForOffChip == 2
    assert settings.minElementsForReplicatedTensorSharding == 8192


# ---- optimizers


@claim("optimizers", 'A group with `"lr": 0` is frozen')
def a_group_without_rate_is_frozen():
    groups = [{"params": "w1", "lr": 0.0}]
    trainer = popart.Trainer(network(), loss="cross_entropy", optimizer=popart.optim.Adam(lr=0.1, groups=groups))
    before = {name: value.copy() for name, value in trainer.weights.items()}
    trainer.step((BATCH, LABELS))
    assert np.array_equal(trainer.weights["w1"], before["w1"])
    assert not np.array_equal(trainer.weights["w2"], before["w2"])
    trainer.save("state.onnx", form="training")
    names = {tensor.name for tensor in onnx.load("state.onnx").graph.initializer}
    assert any("w2" in name and name != "w2" for name in names)
    assert not any("w1" in name and name != "w1" for name in names)


@claim("optimizers", "so the group never trains")
def factors_leave_it_frozen():
    groups = [{"params": "w1", "lr": 0.0}]
    trainer = popart.Trainer(network(), loss="cross_entropy", optimizer=popart.optim.SGD(lr=0.1, groups=groups))
    before = trainer.weights["w1"].copy()
    trainer.optimizer.lr, trainer.optimizer.lr_factor = 1.0, 10.0
    trainer.step((BATCH, LABELS))
    assert np.array_equal(trainer.weights["w1"], before)


# ---- popxl


@claim("popxl", "A `constant` never changes")
def constants_never_change():
    with popxl.Ir().main_graph, popxl.in_sequence():
        fixed = popxl.constant(np.ones(2, np.float32))
        with refused("constant"):
            ops.add_(fixed, fixed)


@claim("popxl", "Python's `v == w` says whether both are the same tensor")
def equality_is_identity():
    with popxl.Ir().main_graph:
        v, w = (popxl.variable(np.ones(2, np.float32)) for _ in range(2))
        assert (v == w) is False and (v == v) is True
        with pytest.raises(TypeError):
            v > w  # noqa: B015


@claim("popxl", "If the result of a program depends on an order that nothing fixes")
def an_open_order_is_refused():
    ir = popxl.Ir()
    with ir.main_graph:
        total = popxl.variable(np.zeros(2, np.float32), name="total")
        result = popxl.d2h_stream((2,), popxl.float32)
        ops.add_(total, popxl.constant(np.ones(2, np.float32)))
        ops.host_store(result, total + 1)
        ops.scaled_add_(total, popxl.constant(np.ones(2, np.float32)), b=2.0)
    with refused("order"), popxl.Session(ir, "cpu") as session:
        session.run()


@claim("popxl", "values that it does not store are zero")
def transfers_must_be_in_the_program():
    ir = popxl.Ir()
    ir.num_host_transfers = 3
    with ir.main_graph, popxl.in_sequence():
        x = popxl.h2d_stream((2,), popxl.float32, name="x")
        y = popxl.d2h_stream((2,), popxl.float32, name="y")
        ops.host_store(y, ops.host_load(x))
    with popxl.Session(ir, "cpu") as session:
        assert session.run({x: np.ones((3, 2), np.float32)})[y].tolist() == [[1, 1], [0, 0], [0, 0]]


# ---- train-onnx and trainer


@claim("train-onnx", "A value that is not constant can change during the training")
def constants_of_an_optimizer_cannot_change():
    for constant in (True, False):
        optimizer = popart.SGD({"defaultLearningRate": (0.1, constant)})
        session, _ = trained(cross_entropy(), optimizer=optimizer)
        changed = popart.SGD({"defaultLearningRate": (0.2, constant)})
        if constant:
            with refused("constness"):
                session.updateOptimizerFromHost(changed)
        else:
            session.updateOptimizerFromHost(changed)


@claim("train-onnx", "Exponents, bounds and scales of quantisation do not")
def exponents_and_bounds_do_not_train():
    text = (
        "g (float[2, 3] x) => (float[2, 3] y) "
        "<float[3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9.5}, float e = {2.5}, float low = {-1}, float high = {1}> "
        "{ a = MatMul(x, w) b = Abs(a) c = Pow(b, e) y = Clip(c, low, high) }"
    )
    trains = {t.name: t.trains for t in popart.trainable_tensors(parsed(text, "m.onnx"))}
    assert trains["w"] and not (trains["e"] or trains["low"] or trains["high"])


@claim("train-onnx", "They must be contiguous and have the type of the tensor")
def arrays_must_fit():
    session = popart.InferenceSession(
        network(), popart.DataFlow(1, ["logits"]), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    for wrong in (np.asfortranarray(BATCH), BATCH.astype(np.float64)):
        with refused("x", kind=(popart.popart_exception, popart.popart_runtime_error, TypeError, ValueError)):
            session.run(popart.PyStepIO({"x": wrong}, anchors))


@claim("train-onnx", "The inference form has no loss, no labels that only the loss reads, and no optimizer state")
def the_inference_form_is_the_network():
    session, _ = trained(cross_entropy(), optimizer=popart.Adam({"defaultLearningRate": (0.1, False)}))
    session.modelToHost("m.onnx", form="inference")
    graph = onnx.load("m.onnx").graph
    assert [i.name for i in graph.input if i.name not in ("w1", "w2")] == ["x"]
    assert {i.name for i in graph.initializer} == {"w1", "w2"}
    assert [node.op_type for node in graph.node] == ["MatMul", "Relu", "MatMul"]


@claim("trainer", "you can read them but not set them")
def frozen_weights_cannot_be_set():
    optimizer = popart.optim.SGD(lr=0.1)
    trainer = popart.Trainer(network(), loss="cross_entropy", optimizer=optimizer, frozen=["w1"])
    assert trainer.weights["w1"].shape == (3, 5)
    with refused("w1", kind=(popart.popart_exception, popart.popart_runtime_error)):
        trainer.weights["w1"] = np.zeros((3, 5), np.float32)


# ---- the other guides


@claim("from-onnxruntime-training", "The artifact `training_model.onnx` contains gradient operators")
def artifacts_are_refused():
    text = "g (float[2] x) => (float[2] y) { y = com.microsoft.ReluGrad(x, x) }"
    parsed(text, "training_model.onnx", ', "com.microsoft" : 1')
    with refused("ReluGrad"):
        popart.Trainer("training_model.onnx", loss="mse", optimizer=popart.optim.SGD(lr=0.1)).step(
            (BATCH[0, :2], BATCH[0, :2])
        )


@claim("quantised", "Weights that a file stores as integers do not train")
@claim("quantised", "Scales and zero points do not train")
def integers_do_not_train():
    text = (
        "g (float[2, 3] x) => (float[2, 3] y) <int8[3, 3] q = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float s = {0.1}, "
        "int8 z = {0}, float[3] b = {0.5, 1.5, 0.25}> { w = DequantizeLinear(q, s, z) m = MatMul(x, w) y = Add(m, b) }"
    )
    trains = {t.name for t in popart.trainable_tensors(parsed(text, "m.onnx")) if t.trains}
    assert trains == {"b"}


@claim("operators", "Without it the file is refused, and the message names domain and operator")
def unknown_operators_are_named():
    parsed("g (float[2] x) => (float[2] y) { y = nobody.Undefined(x) }", "m.onnx", ', "nobody" : 1')
    with refused("nobody", "Undefined"):
        popart.load("m.onnx")(np.ones(2, np.float32))


@claim("serving", "raises `popart_runtime_error`, and the model can be used afterwards")
def wrong_inputs_leave_a_model_usable():
    model = popart.load(network())
    expected = model(BATCH)
    for wrong in (np.ones((2, 4), np.float32), np.array(["text"] * 3)):
        with pytest.raises(popart.popart_runtime_error):
            model(wrong)
    assert np.array_equal(model(BATCH), expected)


@claim("serving", "A model that needs more is refused at its first call")
def the_limit_refuses():
    model = popart.load(network(), max_memory="1K", options={"constantWeights": True})
    with refused("memory"):
        model(np.zeros((4, 3), np.float32))


@pytest.mark.parametrize("name", sorted({test.__name__ for test in CLAIMS.values()}))
def test_claim(name, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    (test,) = {test for test in CLAIMS.values() if test.__name__ == name}
    arguments = {"capsys": request.getfixturevalue("capsys")} if "capsys" in test.__code__.co_varnames[:1] else {}
    test(**arguments)
