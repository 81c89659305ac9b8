"""The twenty tasks of examples/tasks: both programs of each do the same, and ours need no more lines in total."""

import os
import runpy
import sys

import numpy as np
import onnxruntime
import pytest
import torch

from tools import count_tasks

TASKS = {task.name: task for task in count_tasks.tasks()}

# What programs are compared by, with the largest absolute difference.
EXACT = 1e-5
COMPARED = {
    # the last layers normalise 16 values: rounding grows from step to step
    "train": {"losses": 1e-3},
    "early_stopping": {"losses": EXACT, "weights": EXACT},
    "evaluate": {"loss": EXACT, "accuracy": 0},
    "resume": {"weights": EXACT},
    "any_batch": {"logits": EXACT},
    # products are rounded to 8 bits, at other places
    "mixed_precision": {"losses": 1e-2},
    "freeze": {"losses": EXACT, "weights": EXACT},
    "python_operator": {"losses": EXACT},
    "schedule": {"rates": 1e-7, "weights": EXACT},
    "accumulate": {"weights": EXACT},
    "inner_tensors": {"results": EXACT},
    "weights_as_arrays": {"weights": 0},
    "safetensors_files": {"weights": 0},
    "serve": {"logits": EXACT},
    "profile_step": {"losses": EXACT},
    "limit_threads": {"logits": EXACT},
    "seed": {"same": 0},
    # Adam divides by the size of gradients, which are only rounding for biases of keys
    "fine_tune_bert": {"losses": 1e-3},
    "quantised": {"logits": EXACT},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files of the networks, from which programs can import their data."""
    path = tmp_path_factory.mktemp("tasks")
    before = os.getcwd()
    sys.path.insert(0, str(count_tasks.FOLDER))
    os.chdir(path)
    import given

    given.write_files()
    yield path
    os.chdir(before)
    sys.path.remove(str(count_tasks.FOLDER))
    del sys.modules["given"]


@pytest.fixture(autouse=True)
def in_folder(folder, monkeypatch):
    """Run in the folder of the files."""
    monkeypatch.chdir(folder)


def difference(ours, peer):
    """The largest absolute difference of two values: numbers, arrays, lists and dictionaries of them."""
    if isinstance(peer, dict):
        assert sorted(ours) == sorted(peer)
        return max(difference(ours[name], value) for name, value in peer.items())
    if isinstance(peer, list) and not np.isscalar(peer[0]):
        return max(difference(a, b) for a, b in zip(ours, peer, strict=True))
    a, b = np.asarray(ours, np.float64), np.asarray(peer, np.float64)
    assert a.shape == b.shape and a.size and np.isfinite(a).all()
    return np.abs(a - b).max()


@pytest.mark.parametrize("name", COMPARED)
def test_both_programs_do_the_same(name):
    ours, peer = (runpy.run_path(str(path)) for path in (TASKS[name].ours, TASKS[name].peer))
    for value, bound in COMPARED[name].items():
        assert difference(ours[value], peer[value]) <= bound, value


def test_the_trained_file_computes_what_the_module_of_the_peer_does(folder):
    """After `train`: weights, and statistics of the batch norms, in inference form."""
    for path in (TASKS["train"].ours, TASKS["train"].peer):
        runpy.run_path(str(path))
    x = torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(5))
    (ours,) = onnxruntime.InferenceSession(folder / "trained.onnx").run(None, {"x": x.numpy()})
    peer = torch.load("trained.pt", weights_only=False).eval()(x).detach().numpy()
    np.testing.assert_allclose(ours, peer, atol=0.05 * np.abs(peer).max())


def test_training_under_a_memory_limit_gives_the_same_losses():
    import popart
    from given import images

    limited = runpy.run_path(str(TASKS["limit_memory"].ours))
    trainer = popart.Trainer("resnet.onnx", loss="cross_entropy", optimizer=popart.optim.SGD(lr=0.01))
    assert limited["losses"] == [trainer.step(batch) for batch in images]
    totals = [report_of(t)["total"] for t in (limited["trainer"], trainer)]
    assert totals[0] <= 32 * 2**20 < totals[1]


def report_of(trainer):
    """Numbers of bytes in the report of a trainer, by name."""
    lines = (line.strip().partition(": ") for line in trainer.session.getSummaryReport().splitlines())
    return {name: int(value.split()[0]) for name, _, value in lines if value.endswith(" bytes")}


def test_the_profile_names_the_products():
    table = runpy.run_path(str(TASKS["profile_step"].ours))["table"]
    assert "MatMul" in table and " us" in table


def test_two_runs_with_different_seeds_differ():
    import popart
    from given import training

    def losses(seed):
        trainer = popart.Trainer("dropout.onnx", loss="cross_entropy", optimizer=popart.optim.SGD(), seed=seed)
        return [trainer.step(batch) for batch in training]

    assert losses(7) != losses(8)


def test_every_program_is_compared():
    assert sorted(TASKS) == sorted([*COMPARED, "limit_memory"])
    programs = {path.name for task in TASKS.values() for path in (task.ours, task.peer) if path}
    assert programs | {"given.py"} == {path.name for path in count_tasks.FOLDER.glob("*.py")}


def test_ours_need_no_more_lines():
    counts = [task.counts() for task in TASKS.values()]
    assert len(counts) == 20
    assert sum(ours for ours, _ in counts) <= sum(peer for _, peer in counts)


def test_the_table_is_current():
    assert count_tasks.BEGIN + count_tasks.table() + count_tasks.END in count_tasks.PAGE.read_text()


def test_lines_without_code_do_not_count():
    text = (
        '"""Doc.\n\nMore."""\n\nimport a  # why\n\n# no\ndef f():\n    """Doc."""\n    return a(\n        1,\n    )\n'
    )
    assert count_tasks.code_lines(text) == 5
