"""popart-profile: its files, what it prints, training steps, comparisons and refusals."""

from __future__ import annotations

import json

import numpy as np
import pva
import pytest
from popart.profile.facts import walk

from onnx import TensorProto, helper, numpy_helper
from tests.python.tools.test_onnx_tools import facts, model, run, small  # noqa: F401 (model: a fixture)

FILES = {"profile.html", "profile.json", "profile.trace.json"}


def test_of_a_model(model, tmp_path):  # noqa: F811
    found = facts("profile", model, "--dim", "batch=4", "--runs", "3", "--output", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    report = pva.openReport(tmp_path / "out" / "profile.json")
    assert len(report.execution.runs) == 3 and report._facts["session"] == model.stem
    assert found["runMs"] > 0 and found["flops"] > 0 and set(found["phasesMs"]) == {"forward", "host"}
    assert sum(row["share"] for row in found["layers"]) == pytest.approx(1)
    text = run("profile", model, "--dim", "batch=4", "--output", tmp_path / "text").stdout
    assert "one run: " in text and "memory: " in text and f"written: {tmp_path / 'text' / 'profile.html'}" in text


def test_of_training_steps(model, tmp_path):  # noqa: F811
    found = facts("profile", model, "--dim", "batch=4", "--loss", "mse", "--output", tmp_path)
    assert {"forward", "backward"} <= set(found["phasesMs"])


def test_training_steps_have_the_batch_that_the_file_fixes(tmp_path):
    """Its Reshape works for no other."""
    weight = numpy_helper.from_array(np.ones((12, 2), np.float32), "w")
    sizes = numpy_helper.from_array(np.array([5, 12]), "sizes")
    nodes = [helper.make_node("Reshape", ["x", "sizes"], ["flat"]), helper.make_node("MatMul", ["flat", "w"], ["y"])]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [5, 3, 4]), ("y", [5, 2]))
    )
    path = small(tmp_path / "fixed.onnx", nodes, [x], [y], [weight, sizes])
    for loss, labels in (("mse", 10), ("cross_entropy", 5)):
        run("profile", path, "--loss", loss, "--runs", "1", "--output", tmp_path / loss)
        steps = walk(pva.openReport(tmp_path / loss / "profile.json")._facts["programs"])
        loaded = [step["bytes"] for step in steps if step["kernel"] == "host load"]
        assert sorted(loaded) == sorted([4 * 60, 4 * labels])


def test_on_a_model_of_ipus(model, tmp_path):  # noqa: F811
    options = ("--dim", "batch=4", "--device", "ipu_model", "--ipus", "2", "--tiles", "8", "--output", tmp_path)
    for training in ((), ("--loss", "mse")):
        found = facts("profile", model, *options, *training)["estimate"]
        report = pva.openReport(tmp_path / "profile.json")._facts
        assert found["cycles"] == report["model"]["cycles"] > 0 and report["model"]["tiles"] == 16
        assert 0 < found["bytesOfTile"] <= report["memory"]["total"] / 16
        assert 'id="model-steps-table"' in (tmp_path / "profile.html").read_text()
    text = run("profile", model, *options).stdout
    assert "estimate for ipu2: " in text and "of 624.0 KiB of a tile" in text
    assert "estimate" not in facts("profile", model, "--dim", "batch=4", "--output", tmp_path)


def test_two_profiles_side_by_side(model, tmp_path):  # noqa: F811
    for name in "ab":
        run("profile", model, "--dim", "batch=4", "--runs", "2", "--output", tmp_path / name)
    files = [tmp_path / name / "profile.json" for name in "ab"]
    run("profile", "--compare", *files, "--output", tmp_path)
    page = (tmp_path / "compared.html").read_text()
    assert 'id="layer-changes"' in page and 'id="kernel-changes"' in page


def test_the_page_of_a_saved_profile(model, tmp_path):  # noqa: F811
    run("profile", model, "--dim", "batch=4", "--runs", "1", "--output", tmp_path)
    page = (tmp_path / "profile.html").read_text()
    (tmp_path / "profile.html").unlink()
    run("profile", tmp_path / "profile.json")
    assert (tmp_path / "profile.html").read_text() == page


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "give either a model, or --compare"),
        (["no.onnx"], "it does not exist"),
        (["no.json"], "it does not exist, expected a file with a profile"),
        (["model.onnx", "--tiles", "4"], "got device cpu, expected --device ipu_model"),
        (["model.onnx", "--runs", "0"], "--runs: got 0, expected 1 or more"),
        (["model.onnx", "--compare", "a.json", "b.json"], "give either a model, or --compare"),
    ],
    ids=str,
)
def test_refusals(given, message):
    assert message in run("profile", *given, expect=2).stderr


def test_a_file_that_is_no_profile(tmp_path):
    for text in ("{}", "no JSON", json.dumps({"format": "popart-profile", "version": 2})):
        (tmp_path / "other.json").write_text(text)
        assert "other.json" in run("profile", tmp_path / "other.json", expect=2).stderr
