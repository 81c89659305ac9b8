"""Examples in several processes: jobs of two instances print what one process with as many replicas prints."""

import sys

import pytest

from tests.examples.test_python_examples import EXAMPLES, needs_images, numbers_after
from tests.python.popdist.jobs import ONLY_HERE, environment_of, timed


def poprun(instances, folder, name, *arguments, replicas=2):
    """What instance 0 of a job prints."""
    sizes = [f"--num-replicas={replicas}", f"--num-instances={instances}", "--only-output-from-instance=0"]
    options = [*sizes, f"--mpi-global-args={' '.join(ONLY_HERE)}", f"--mpi-local-args=--wdir {folder}"]
    program = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    result, _ = timed([sys.executable, "-m", "popdist.poprun", *options, *program], 300, environment_of({}))
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@needs_images
def test_processes_mnist_learns_the_same_in_one_process(tmp_path):
    words = ["--images", 2000, "--epochs", 2, "--model", tmp_path / "model.onnx"]
    several, one = (poprun(n, tmp_path, "processes_mnist.py", *words) for n in (2, 1))
    losses = numbers_after("loss", several)
    assert len(losses) == 2 and losses[1] < 0.7 * losses[0]
    assert losses == numbers_after("loss", one)
    assert numbers_after("accuracy", several) == numbers_after("accuracy", one)
    assert numbers_after("accuracy", several)[0] > 65


@pytest.mark.parametrize("words", [["--parts", 2], ["--parts", 1, "--phased"]], ids=["parts", "phased"])
def test_gpt_in_parts_over_processes_is_that_of_one_process(tmp_path, words):
    words = [*words, "--steps", 4, "--batch", 2, "--length", 8, "--hidden", 16]
    several, one = (numbers_after("loss", poprun(n, tmp_path, "popxl/gpt.py", *words)) for n in (2, 1))
    assert len(several) == 4 and several[-1] < several[0]
    assert several == one
