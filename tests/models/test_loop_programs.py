"""The loop programs of the benchmark, small: each form of the same work gives the same losses."""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import loops


def test_blocks_as_a_repeat_train_like_blocks_one_by_one():
    losses = {}
    for form in ("ours", "unrolled"):
        runner = loops.GptTraining(form, loops.Gpt(layers=3, width=32, heads=2, context=16, batch=2))
        runner.open()
        losses[form] = [float(runner.call()) for _ in range(4)]
    np.testing.assert_allclose(losses["ours"], losses["unrolled"], rtol=1e-5)
    assert losses["ours"][-1] < losses["ours"][0]
