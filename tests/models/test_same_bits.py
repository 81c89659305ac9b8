"""Programs give the same bits with any number of threads and at every repetition."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import exported_programs as programs  # noqa: E402
import implementations  # noqa: E402
import networks  # noqa: E402

pytestmark = pytest.mark.models

MOMENTUM = networks.Optimizer("sgd", 0.01, momentum=0.9)
SMALL = {
    "mlp": networks.Benchmark(networks.Mlp, networks.floats(8, 784), 10, networks.Optimizer("sgd", 0.05)),
    "lenet": networks.Benchmark(networks.LeNet, networks.floats(5, 1, 28, 28), 10, MOMENTUM),
    "resnet18": networks.Benchmark(
        networks.torchvision_network("resnet18"), networks.floats(2, 3, 40, 40), 1000, MOMENTUM
    ),
    "gpt": networks.Benchmark(
        partial(networks.gpt, layers=2, width=72, heads=3, context=40),
        networks.tokens(3, 40, 65),
        65,
        networks.Optimizer("adamw", 1e-3, weight_decay=0.01),
    ),
    "bert": networks.Benchmark(
        partial(networks.Transformer, 2, 60, 4, 100, 24, 211, causal=False, head=True),
        networks.tokens(3, 24, 211),
        211,
        networks.Optimizer("adam", 1e-3),
    ),
}


def run_in_process(folder: Path, threads: int, repetitions: int) -> tuple[dict[str, str], dict[str, int]]:
    """Digests of all tensors after the first repetition, and tensors that differed later."""
    command = [sys.executable, BENCHMARKS / "worker.py", "same_bits", folder, threads, repetitions, 2]
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    answer = json.loads(result.stdout)
    assert "error" not in answer, answer
    return answer["digests"], answer["different"]


def check_same_bits(benchmark: networks.Benchmark, folder: Path, repetitions: int) -> None:
    """Each number of threads, repeated, gives the same losses, weights and optimizer state."""
    programs.save(*implementations.training_program(benchmark), folder)
    one, different = run_in_process(folder, 1, 2)
    weights = sum(1 for _ in benchmark.network().parameters())
    assert len(one) > weights
    assert different == {}
    for threads in (2, 3, 8):
        other, different = run_in_process(folder, threads, repetitions if threads == 2 else 2)
        assert [name for name in one if one[name] != other.get(name)] == [], f"{threads} threads"
        assert different == {}, f"{threads} threads"


@pytest.mark.parametrize("name", SMALL)
def test_small_networks_train_to_the_same_bits(name, tmp_path):
    check_same_bits(SMALL[name], tmp_path, 10)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, benchmark in networks.BENCHMARKS.items() if benchmark.training])
def test_benchmark_networks_train_to_the_same_bits(name, tmp_path):
    check_same_bits(networks.BENCHMARKS[name], tmp_path, 100)


def test_results_of_inference_have_digests(tmp_path):
    """`./dev bench --same-bits --before` compares them with another checkout."""
    torch.manual_seed(0)
    network, values, _ = networks.instantiate(SMALL["lenet"])
    model = implementations.export(network, values, training=False)
    programs.save(programs.Program(model), {"input": values.numpy()}, tmp_path)
    one, different = run_in_process(tmp_path, 1, 2)
    assert len(one) == 2
    assert different == {}
    assert run_in_process(tmp_path, 3, 1) == (one, {})
    programs.save(programs.Program(model), {"input": values.numpy() + 1}, tmp_path)
    assert run_in_process(tmp_path, 1, 1)[0] != one


def test_a_changed_weight_shows_in_the_digests(tmp_path):
    torch.manual_seed(0)
    program, inputs = implementations.training_program(SMALL["mlp"])
    programs.save(program, inputs, tmp_path)
    first, _ = run_in_process(tmp_path, 1, 1)
    inputs["input"][0, 0] += 1
    programs.save(program, inputs, tmp_path)
    second, _ = run_in_process(tmp_path, 1, 1)
    assert first.keys() == second.keys()
    assert any(first[name] != second[name] for name in first)
