"""Every Python example runs as a user runs it and prints what it promises."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
needs_images = pytest.mark.skipif(not FASHION_MNIST.is_dir(), reason="needs Debian's dataset-fashion-mnist")


def run(name, folder, *arguments):
    """Run an example in `folder` and return what it prints."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def numbers_after(word, text):
    """Every number that follows `word` in `text`."""
    return [float(number) for number in re.findall(rf"{word}\s+([-+.\deE]+)", text)]


@pytest.mark.parametrize("style", ["tracer", "export"])
@pytest.mark.parametrize("network", ["squeezenet1_1", pytest.param("alexnet", marks=pytest.mark.slow)])
def test_onnx_inference_equals_torch(tmp_path, network, style):
    printed = run("onnx_inference.py", tmp_path, "--network", network, "--batch", 1, "--style", style)
    assert numbers_after("difference", printed)[0] < 1e-4


def test_onnx_training_learns_and_its_file_runs(tmp_path):
    printed = run("onnx_training.py", tmp_path)
    losses = numbers_after("loss", printed)
    assert losses[-1] < 0.1 * losses[0]
    assert numbers_after("new batch:", printed)[0] > 0.9
    assert (tmp_path / "trained.onnx").is_file()


def test_old_forms_train(tmp_path):
    losses = numbers_after("step:", run("old_forms.py", tmp_path))
    assert len(losses) == 5
    assert losses == sorted(losses, reverse=True)


def test_builder_writes_and_continues_a_model(tmp_path):
    printed = run("builder.py", tmp_path)
    assert "encoder/" in printed
    assert "[2, 4]" in printed
    assert "[[ 3.  3.  3.  3.]\n [12. 12. 12. 12.]]" in printed


@pytest.mark.parametrize("replicas", [2, 4])
def test_data_parallel_training_ends_as_on_one_replica(tmp_path, replicas):
    printed = run("data_parallel.py", tmp_path, "--replicas", replicas)
    differences = numbers_after("largest difference", printed)
    assert len(differences) == 2 and max(differences) < 1e-5
    assert numbers_after("distance from the truth:", printed)[0] < 0.05


@pytest.mark.parametrize("files", [False, True])
def test_training_larger_than_its_memory_gives_the_same_bits(tmp_path, files):
    printed = run("larger_than_memory.py", tmp_path, *(["--folder", tmp_path] if files else []))
    assert "chosen by the compiler: the same bits" in printed
    assert "by hand: the same bits" in printed
    assert "optimizer state off chip" in printed
    assert max(numbers_after("total:", printed)) <= 9 * 2**20 < min(numbers_after("remote memory:", printed))


def test_phased_execution_trains_under_its_limit(tmp_path):
    printed = run("phased_execution.py", tmp_path)
    assert "in memory: refused" in printed
    assert numbers_after("of losses", printed)[0] < 1e-5
    assert numbers_after("of weights", printed)[0] < 1e-5


def test_popxl_addition_prints_the_sum(tmp_path):
    assert "[14. 26.]" in run("popxl_addition.py", tmp_path)


@needs_images
def test_popxl_mnist_learns(tmp_path):
    printed = run("popxl_mnist.py", tmp_path, "--images", 4000)
    losses = numbers_after(
        "loss", printed
    )  # means over 50 batches each; tests/models/test_popxl_curve.py: as PyTorch's
    assert len(losses) == 5 and losses[-1] < 0.6 * losses[0]
    assert numbers_after("test images:", printed)[0] > 70


def test_resumed_training_gives_the_same_bits(tmp_path):
    assert "bit-identical" in run("save_resume.py", tmp_path)


def test_fit_goes_on_where_it_stopped(tmp_path):
    whole = run("fit.py", tmp_path, "--epochs", 3, "--checkpoint", "whole")
    assert whole.endswith("150 steps\n") and len(numbers_after("loss", whole)) == 3
    first = run("fit.py", tmp_path, "--epochs", 1)
    rest = run("fit.py", tmp_path, "--epochs", 3)
    assert rest.endswith("100 steps\n")
    assert numbers_after("loss", first + rest) == numbers_after("loss", whole)


def test_every_example_is_tested():
    tests = [*Path(__file__).parent.glob("*.py"), EXAMPLES.parent / "tests/models/test_demo.py"]
    tested = "".join(path.read_text() for path in tests)
    names = sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert names
    assert [name for name in names if f'"{name}"' not in tested] == []
