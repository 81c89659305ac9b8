"""Kernels of the benchmark's programs keep any number of threads busy, as planned: no program is run.

The planner predicts the time of every kernel and of its tasks, and how threads claim them (`executable/cost.hpp`). The
reports are printed: `pytest -s` shows which kernel leaves threads idle.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import networks  # noqa: E402

pytestmark = pytest.mark.models

THREADS = ("8", "16", "64")
LEAST_BUSY = 80  # percent, over kernels with more than 20 us of work per thread
# Networks where large kernels have fewer tasks than 64 threads. A task of a product is at least one panel of 32
# columns: products of one row have 1000 columns in the bottlenecks, and 512 in each of two layers of the LSTM that run
# at the same time. Parameter gradients of layer normalisation over 96 columns have six tasks.
LEAST_OF = {"bottlenecks_relu6_b1": 70, "bottlenecks_silu_b1": 70, "lstm_s100_b1": 45, "convnext_tiny_train_b8": 75}
QUICK = ("mlp_b80", "mlp_train_b80", "lenet_train_b32")
NAMES = [
    name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
    for name in networks.BENCHMARKS
    if name != "call_overhead"
]


def ask(*words: object) -> dict:
    """Answer of a task of the benchmark's worker, in a process of its own."""
    command = [sys.executable, BENCHMARKS / "worker.py", *words]
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    answer = json.loads(result.stdout)
    assert "error" not in answer, answer
    return answer


@pytest.mark.parametrize("name", NAMES)
def test_kernels_keep_threads_busy(name, tmp_path):
    ask("export", name, tmp_path)
    busy = {}
    for threads, report in ask("thread_use", tmp_path, *THREADS)["reports"].items():
        print(f"{name}, {threads} threads\n{report}")
        rows = report.splitlines()[1:-1]
        assert len(rows) >= 3  # a single convolution with its reordering and reduction
        assert all(1 <= int(row.split()[0]) <= int(threads) for row in rows)
        total = re.fullmatch(r"([\d.]+)% of (\d+) threads busy in kernels with .*", report.splitlines()[-1])
        assert total and total[2] == threads
        busy[threads] = float(total[1])
    assert min(busy.values()) >= LEAST_OF.get(name, LEAST_BUSY), busy
