"""Compiler passes that are switched off by name: by engine option, by environment, in sessions and in PopXL."""

import numpy as np
import popart
import popxl
import popxl.ops as ops
import pytest

from tests.python.popart.training_runs import options_with, ready, training_session

X = np.linspace(-1, 1, 8 * 48, dtype=np.float32).reshape(8, 48)


def model():
    """A product, a bias, an activation and a loss."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", X.shape, "x")
    w = builder.addInitializedInputTensor(np.full((48, 32), 0.1, np.float32), "w")
    b = builder.addInitializedInputTensor(np.zeros(32, np.float32), "b")
    y = builder.aiOnnx.relu([builder.aiOnnx.add([builder.aiOnnx.matmul([x, w]), b])])
    loss = builder.aiGraphcore.l1loss([y], 0.5, reduction=popart.ReductionType.Sum)
    return builder.getModelProto(), loss


def run(**engine_options):
    """The loss of one training step."""
    proto, loss = model()
    options = options_with(engineOptions=engine_options)
    session = ready(training_session(proto, loss, popart.ConstSGD(0.1), options))
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": X}, anchors))
    return anchors[loss].copy()


def passes_run(folder):
    """Names of the passes that wrote the program into a folder."""
    return {path.stem.split("-", 1)[1] for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["prune", "fuseEpilogues", "chainDepthFirst"])
def test_a_pass_is_off_and_results_stay(monkeypatch, tmp_path, name):
    monkeypatch.setenv("POPART_PASS_DUMP", str(tmp_path / "all"))
    expected = run()
    assert name in passes_run(tmp_path / "all")
    monkeypatch.setenv("POPART_PASS_DUMP", str(tmp_path / "option"))
    np.testing.assert_allclose(run(disable_passes=name), expected, rtol=1e-6)
    assert passes_run(tmp_path / "all") - passes_run(tmp_path / "option") == {name}
    monkeypatch.setenv("POPART_PASS_DUMP", str(tmp_path / "environment"))
    monkeypatch.setenv("POPART_DISABLE_PASSES", name)
    np.testing.assert_allclose(run(), expected, rtol=1e-6)
    assert passes_run(tmp_path / "all") - passes_run(tmp_path / "environment") == {name}
    monkeypatch.setenv("POPART_PASS_DUMP", str(tmp_path / "overridden"))
    run(disable_passes="")  # the option comes before the environment
    assert passes_run(tmp_path / "overridden") == passes_run(tmp_path / "all")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("fuseElementwice", r"there is no pass 'fuseElementwice'\. Nearest names: fuseElementwise"),
        ("prune, growBackwardPass", "pass 'growBackwardPass' cannot be switched off: there are no gradients"),
    ],
)
def test_unknown_and_needed_passes_are_refused(monkeypatch, names, message):
    with pytest.raises(popart.popart_exception, match="engineOptions: bad disable_passes: " + message):
        run(disable_passes=names)
    monkeypatch.setenv("POPART_DISABLE_PASSES", names)
    with pytest.raises(popart.popart_exception, match="environment variable POPART_DISABLE_PASSES: " + message):
        run()


def test_a_kept_program_is_for_the_same_passes(monkeypatch, tmp_path):
    monkeypatch.setenv("POPART_CACHE_DIR", str(tmp_path / "cache"))
    counts = []
    for name in ("", "fuseEpilogues", "fuseEpilogues", "fuseElementwise", ""):
        run(disable_passes=name)
        counts.append(len(list((tmp_path / "cache").iterdir())))
    assert counts == [1, 2, 2, 3, 3]


def test_an_exported_program_is_for_the_same_passes(tmp_path):
    proto, loss = model()

    def session(names):
        return training_session(
            proto, loss, popart.ConstSGD(0.1), options_with(engineOptions={"disable_passes": names})
        )

    session("fuseEpilogues").compileAndExport(str(tmp_path / "program.popef"))
    session("fuseEpilogues").loadExecutable(str(tmp_path / "program.popef"))
    with pytest.raises(popart.popart_exception, match="another program"):
        session("").loadExecutable(str(tmp_path / "program.popef"))


def popxl_result():
    ir = popxl.Ir()
    with ir.main_graph:
        stream = popxl.h2d_stream(X.shape, popxl.float32)
        y = ops.matmul(ops.host_load(stream), popxl.variable(np.ones((48, 32), np.float32)))
        y = ops.relu(ops.add(y, popxl.constant(np.ones(32, np.float32))))
        result = popxl.d2h_stream(y.shape, y.dtype)
        ops.host_store(result, y)
    with popxl.Session(ir, "cpu") as session:
        return session.run({stream: X})[result]


def test_popxl_programs_obey(monkeypatch, tmp_path):
    monkeypatch.setenv("POPART_PASS_DUMP", str(tmp_path / "all"))
    expected = popxl_result()
    monkeypatch.setenv("POPART_PASS_DUMP", str(tmp_path / "without"))
    monkeypatch.setenv("POPART_DISABLE_PASSES", "fuseEpilogues,assignLayouts")
    np.testing.assert_allclose(popxl_result(), expected, rtol=1e-6)
    off = {"fuseEpilogues", "assignLayouts"}
    assert passes_run(tmp_path / "all") - passes_run(tmp_path / "without") == off
    monkeypatch.setenv("POPART_DISABLE_PASSES", "flatten")
    with pytest.raises(popart.popart_exception, match="pass 'flatten' cannot be switched off"):
        popxl_result()
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"disable_passes": ""}')
    popxl_result()
