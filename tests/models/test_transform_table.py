"""The table of `./dev bench --transforms`: its rows fit together, and rows run on a tiny network."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import popart
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import exported_programs as programs  # noqa: E402
import networks  # noqa: E402

import transforms  # noqa: E402

BATCH, WIDTH, CLASSES = 8, 16, 4
RULE = {"kind": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 0.0}
TINY = "tiny"


def save_tiny(folder, share=1):
    """Three products and a loss, as an exported network of the benchmark, for a batch divided by `share`."""
    rng = np.random.default_rng(5)
    rows = BATCH // share
    builder = popart.Builder()
    h = builder.addInputTensor("FLOAT", [rows, WIDTH], "input")
    for i, columns in enumerate((64, 32, CLASSES)):
        w = rng.normal(0, 0.3, (builder.getTensorShape(h)[1], columns)).astype(np.float32)
        h = builder.aiOnnx.matmul([h, builder.addInitializedInputTensor(w, f"w{i}")])
        h = builder.aiOnnx.tanh([h]) if columns != CLASSES else builder.aiOnnx.softmax([h])
    labels = builder.addInputTensor("INT32", [rows], "labels")
    loss = builder.aiGraphcore.nllloss([h, labels], popart.ReductionType.Mean, debugContext="loss")
    inputs = {
        "input": rng.normal(size=(BATCH, WIDTH)).astype(np.float32),
        "labels": rng.integers(0, CLASSES, BATCH).astype(np.int32),
    }
    into = folder / f"{TINY}_{share}"
    into.mkdir()
    programs.save(programs.Program(builder.getModelProto(), loss, RULE), inputs, into)


def test_rows_have_names_of_their_own_and_known_networks():
    assert len(transforms.BY_NAME) == len(transforms.ROWS)
    assert len(transforms.NAMES) == sum(len(row.networks) for row in transforms.ROWS)
    for row in transforms.ROWS:
        assert set(row.networks) <= set(transforms.NETWORKS), row.name
    assert all(networks.BENCHMARKS[name].training for name in transforms.NETWORKS.values())


def test_forms_with_one_name_are_one_form():
    """What a plain form takes of memory is measured once for each name."""
    forms = {}
    for row in transforms.ROWS:
        assert forms.setdefault(row.plain.name, row.plain) == row.plain, row.name


def test_rows_give_both_forms_the_same_samples():
    def updates_of(form):
        return form.micro_batches * form.replicas / form.share

    for row in transforms.ROWS:
        if row.bound is not None:
            assert updates_of(row.ours) == updates_of(row.expected or row.plain) or row.plain.batches > 1, row.name


@pytest.mark.parametrize("name", list(transforms.BY_NAME))
def test_options_exist(name):
    row, options = transforms.BY_NAME[name], popart.SessionOptions()
    for form in (row.ours, row.plain, row.expected or row.plain):
        for name, value in form.options.items():
            setattr(options, name, value)
    assert row.bound is None or 0 <= row.bound < 0.1


@pytest.mark.parametrize("topic", list(transforms.TOPICS))
def test_every_topic_has_rows_on_the_three_networks(topic):
    assert set(transforms.ALL) <= set.intersection(*(set(row.networks) for row in transforms.TOPICS[topic]))


def test_rows_are_chosen_by_topic_name_and_network():
    assert transforms.chosen([], list(transforms.NETWORKS)) == list(transforms.NAMES)
    assert transforms.chosen(["max_memory", "recompute"], ["gpt"]) == ["recompute_gpt", "max_memory_gpt"]
    low = [f"{row.name}_resnet18" for row in transforms.TOPICS["low_precision"]]
    assert transforms.chosen(["low_precision"], ["resnet18"]) == low


# Work space is most of what so small a program holds, and cannot be halved.
@pytest.mark.parametrize("name", [name for name in transforms.BY_NAME if name != "max_memory"])
def test_rows_run_on_a_tiny_network(name, tmp_path):
    row = transforms.BY_NAME[name]
    for share in {form.share for form in (row.ours, row.plain, row.expected or row.plain)}:
        save_tiny(tmp_path, share)
    pair = transforms.Pair(row, TINY, tmp_path)
    facts = pair.facts()
    assert facts["bound"] is None or facts["difference"] <= facts["bound"]
    assert facts["ours"]["planned_total_bytes"] > 0 < facts["plain"]["planned_total_bytes"]
    for side in pair.sides.values():
        side.call()


def test_a_worker_answers_for_a_row(tmp_path):
    save_tiny(tmp_path)
    command = [sys.executable, BENCHMARKS / "worker.py"]
    turns = "".join(json.dumps({"side": side, "seconds": 0}) + "\n" for side in ("ours", "plain"))
    asked = [*command, "transform", "recompute", TINY, tmp_path]
    result = subprocess.run([str(word) for word in asked], input=turns, capture_output=True, text=True)
    facts, *times = map(json.loads, result.stdout.splitlines())
    assert facts["difference"] == facts["bound"] == facts["limit"] == 0
    assert [len(of_side["times_ms"]) for of_side in times] == [1, 1]
    warm_up = tmp_path / f"{TINY}_1"
    asked = [*command, "transform_memory", "recompute", "ours", TINY, tmp_path, warm_up, 0]
    result = subprocess.run([str(word) for word in asked], capture_output=True, text=True)
    answer = json.loads(result.stdout)
    assert answer["reported"]["predicted peak"] > 0, answer
