"""TaskSession: steps, state, checkpoints, data loaders, W&B (a stand-in)."""

import json
import sys
import types

import numpy as np
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest
from popxl_addons.named_tensors import NamedTensorData
from popxl_addons.task_session import initialise_memmap_dir_from_checkpoint


class Net(addons.Module):
    def build(self, x):
        w = self.add_variable_input("weight", lambda: np.ones((2, 2), np.float32), x.dtype, by_ref=True)
        self.add_variable_input("deep.bias", lambda: np.zeros(2, np.float32), x.dtype)
        ops.add_(w, popxl.constant(np.ones((2, 2), np.float32)))
        return x @ w


def task(memmap_dir=None, state=None, **kwargs):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        inputs = addons.InputStreams(x=((2,), popxl.float32))
        outputs = addons.OutputStreams(y=((2,), popxl.float32))
        x = ops.host_load(inputs.x)
        facts, graph = Net().create_graph(x.reshape((1, 2)))
        variables = facts.init(memmap_dir=memmap_dir)
        (y,) = graph.bind(variables).call(x.reshape((1, 2)))
        ops.host_store(outputs.y, y.flatten())
    return addons.TaskSession(inputs, outputs, state or variables, ir=ir, device_desc="cpu", **kwargs)


X = np.array([1.0, 2.0], np.float32)


def step(session):
    with session:
        return session.run({session.inputs.x: X})[session.outputs.y]


def test_steps_and_state():
    session = task()
    assert isinstance(session, popxl.Session) and session.session_state == {"steps": 0}
    np.testing.assert_array_equal(step(session), [6, 6])
    np.testing.assert_array_equal(step(session), [9, 9])
    session.add_session_state_info({"epoch": 3})
    assert session.session_state == {"steps": 2, "epoch": 3}
    data = session.get_named_tensors_data()
    assert type(data) is NamedTensorData and sorted(data.to_dict()) == ["deep.bias", "weight"]
    np.testing.assert_array_equal(data.weight, np.full((2, 2), 3))


def test_streams_given_as_a_list():
    session = task()
    other = addons.TaskSession([session.inputs.x], [session.outputs.y], session.state, 1, session.ir, "cpu")
    assert list(other.inputs.keys()) == ["x"] and other.outputs.y is session.outputs.y


def test_checkpoints(tmp_path):
    session, path = task(), tmp_path / "deep" / "first"
    step(session)
    session.add_session_state_info({"epoch": 1})
    session.save_checkpoint(str(path))
    assert sorted(p.name for p in path.rglob("*") if p.is_file()) == [
        *["deep.bias.npz", "session_info.json", "weight.npz"]
    ]
    saved = np.load(path / "model" / "weight.npz")
    assert saved.files == ["weight"]
    np.testing.assert_array_equal(saved["weight"], np.full((2, 2), 2))
    assert json.loads((path / "session_info.json").read_text()) == {"steps": 1, "epoch": 1}
    other = task()
    other.load_checkpoint(str(path), report_missing="error")
    assert other.session_state == {"steps": 1, "epoch": 1}
    np.testing.assert_array_equal(step(other), [9, 9])
    (path / "session_info.json").unlink()
    other.load_checkpoint(path)
    assert other.session_state == {"steps": 0}


def test_the_oldest_checkpoint_goes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    session = task(max_checkpoints=2)
    for name in ("a", "~/b", "c", "c", "a"):
        session.save_checkpoint(name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "c"]
    session = task()
    for _ in range(2):
        session.save_checkpoint("one")  # with one checkpoint at most: the same path again
    assert (tmp_path / "one" / "model" / "weight.npz").exists()


def test_names_that_are_missing(tmp_path, caplog):
    session = task()
    session.save_checkpoint(tmp_path / "c")
    (tmp_path / "c" / "model" / "weight.npz").rename(tmp_path / "c" / "model" / "other.npz")
    with pytest.raises(ValueError, match=r"\['weight'\].*\['other'\]"):
        session.load_checkpoint(tmp_path / "c", report_missing="error")
    with pytest.raises(ValueError, match="report_missing"):
        session.load_checkpoint(tmp_path / "c", report_missing="loud")
    caplog.clear()
    session.load_checkpoint(tmp_path / "c", report_missing="none")
    assert not caplog.text
    session.load_checkpoint(tmp_path / "c", skip_memmap=True)
    assert "weight" in caplog.text and "other" in caplog.text


def test_state_of_another_session(caplog):
    session, other = task(), task()
    step(session)
    part = task(state=addons.NamedTensors(weight=session.state.weight))
    other.load_from_session(session)
    np.testing.assert_array_equal(other.get_named_tensors_data().weight, np.full((2, 2), 2))
    assert not caplog.text
    with pytest.raises(ValueError, match=r"deep\.bias"):
        other.load_from_session(types.SimpleNamespace(get_named_tensors_data=lambda: NamedTensorData()), "error")
    assert part.state.keys() == ["weight"]


class Loader:
    def __init__(self):
        self.calls = []

    def save(self, path):
        self.calls.append(("save", path))

    def resume(self, filename):
        self.calls.append(("resume", filename))

    def get_state(self):
        self.calls.append(("get_state",))
        return {}


def test_data_loaders(tmp_path, caplog):
    session = task()
    assert session.dataloader is None and "dataloader" in caplog.text
    with pytest.raises(ValueError, match=r"save.*resume"):
        session.dataloader = object()
    session.dataloader = loader = Loader()
    assert session.dataloader is loader
    session.save_checkpoint(tmp_path / "c")
    session.load_checkpoint(tmp_path / "c")
    (save, saved), (resume, resumed), (state,) = loader.calls
    assert (save, resume, state) == ("save", "resume", "get_state")
    assert saved.endswith("dataloader.bin") and resumed.endswith("dataloader.bin")


def test_memory_mapped_variables(tmp_path):
    session = task(memmap_dir=str(tmp_path / "map"))
    step(session)
    session.save_checkpoint(tmp_path / "c")
    assert sorted(p.name for p in (tmp_path / "c" / "model").iterdir()) == ["deep.bias.npy", "weight.npy"]
    raw = np.fromfile(tmp_path / "c" / "model" / "weight.npy", np.float32)
    np.testing.assert_array_equal(raw, [2] * 4)
    initialise_memmap_dir_from_checkpoint(tmp_path / "c", tmp_path / "again")
    other = task(memmap_dir=str(tmp_path / "again"))
    other.load_checkpoint(tmp_path / "c", report_missing="error")
    assert other.session_state == {"steps": 1}
    np.testing.assert_array_equal(step(other), [9, 9])


def test_writing_variables():
    session = task()
    addons.write_variables_pb(session, {session.state.weight: np.full((2, 2), 4, np.float32)})
    with session:
        np.testing.assert_array_equal(session.run({session.inputs.x: X})[session.outputs.y], [15, 15])
        addons.write_variables_pb(session, {session.state.weight: np.full((2, 2), 1, np.float32)})
        np.testing.assert_array_equal(session.run({session.inputs.x: X})[session.outputs.y], [6, 6])


@pytest.fixture
def wandb(monkeypatch, tmp_path):
    """A stand-in that keeps what is logged."""
    module = types.ModuleType("wandb")
    module.log_calls, module.artifacts = [], {}

    class Artifact:
        def __init__(self, name, type):
            self.name, self.type, self.folder = name, type, tmp_path / "artifact"

        def add_dir(self, folder):
            import shutil

            shutil.copytree(folder, self.folder, dirs_exist_ok=True)

        def download(self, root):
            return str(self.folder)

    module.Artifact = Artifact
    module.Histogram = lambda data: ("histogram", data.tolist())
    module.log = lambda row, step: module.log_calls.append((row, step))
    module.log_artifact = lambda a: module.artifacts.update({a.name: a})
    module.run = types.SimpleNamespace(summary={}, use_artifact=lambda name: module.artifacts[name])
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_wandb(wandb):
    session = task()
    assert list(wandb.run.summary) == ["popxl_compilation_mins"]
    session.wandb_histogram("h", 3, np.array([1.0, np.inf, np.nan, 2.0]))
    assert wandb.log_calls == [({"h:histogram": ("histogram", [1.0, 2.0]), "h:not_finite": 2}, 3)]
    session.wandb_variable_histograms(7)
    assert [next(iter(row)) for row, step in wandb.log_calls[1:]] == ["deep.bias:histogram", "weight:histogram"]
    step(session)
    session.save_checkpoint("wandb://run/ckpt")
    assert wandb.artifacts["run/ckpt"].type == "checkpoints"
    other = task()
    other.load_checkpoint("wandb://run/ckpt")
    assert other.session_state == {"steps": 1}
    np.testing.assert_array_equal(step(other), [9, 9])


DAMAGES = {
    "another shape": (lambda file: np.savez(file, weight=np.ones((3, 2), np.float32)), "weight"),
    "another type": (lambda file: np.savez(file, weight=np.ones((2, 2))), "weight"),
    "another name": (lambda file: np.savez(file, other=np.ones((2, 2), np.float32)), "weight.npz"),
    "objects": (lambda file: np.savez(file, weight=np.array([{}], object)), "weight.npz"),
    "no archive": (lambda file: file.write_bytes(b"PK\x03\x04 and so on"), "weight.npz"),
    "nothing": (lambda file: file.write_bytes(b""), "weight.npz"),
    "half": (lambda file: file.write_bytes(file.read_bytes()[:100]), "weight.npz"),
    "bad JSON": (lambda file: (file.parents[1] / "session_info.json").write_text("{"), "session_info.json"),
    "a list": (lambda file: (file.parents[1] / "session_info.json").write_text("[1]"), "session_info.json"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_checkpoints(tmp_path, damage):
    """The error names the file, and the session stays as it was."""
    session = task()
    step(session)
    session.save_checkpoint(tmp_path / "c")
    change, named = DAMAGES[damage]
    change(tmp_path / "c" / "model" / "weight.npz")
    step(session)
    before = {name: value.copy() for name, value in session.get_named_tensors_data().to_dict().items()}
    with pytest.raises((TypeError, ValueError), match=named) as caught:
        session.load_checkpoint(tmp_path / "c")
    assert str(tmp_path / "c") in str(caught.value)
    assert session.session_state == {"steps": 2}
    for name, value in session.get_named_tensors_data().to_dict().items():
        np.testing.assert_array_equal(value, before[name])


def test_session_facts_without_a_number_of_steps(tmp_path):
    session = task()
    session.save_checkpoint(tmp_path / "c")
    (tmp_path / "c" / "session_info.json").write_text('{"epoch": 3}')
    session.load_checkpoint(tmp_path / "c")
    step(session)
    assert session.session_state == {"steps": 1, "epoch": 3}


def test_a_save_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    """The last checkpoint goes when the next one is whole; no file is half written."""
    session = task()
    session.save_checkpoint(tmp_path / "first")
    whole = (tmp_path / "first" / "model" / "weight.npz").read_bytes()
    step(session)

    def fail(file, **arrays):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    for name in ("second", "first"):
        with pytest.raises(OSError, match="disk full"):
            session.save_checkpoint(tmp_path / name)
        assert (tmp_path / "first" / "model" / "weight.npz").read_bytes() == whole
    assert sorted(p.name for p in (tmp_path / "first" / "model").iterdir()) == ["deep.bias.npz", "weight.npz"]
