"""PopXL programs above a limit of memory: refused, with what would help most cheaply, as popart's sessions are."""

import json
import re

import numpy as np
import popart
import popxl
import popxl.ops as ops
import pytest
from popxl.transforms import autodiff

WIDTH, LAYERS, BATCH, RATE = 128, 6, 64, 0.1
REMEDY = re.compile(r"^  (.*): (about )?(\d+) bytes, ([\d.]+) times the time$", re.M)


def training(batch=BATCH, replicas=1):
    """A chain of products that are trained by SGD."""
    rng = np.random.default_rng(4)
    ir = popxl.Ir(replication=replicas)

    def forward(x, *weights):
        for w in weights:
            x = ops.tanh(x @ w)
        return ops.sum(x * x)

    with ir.main_graph, popxl.in_sequence():
        x = ops.host_load(popxl.h2d_stream((batch, WIDTH), popxl.float32, "x"))
        values = [rng.normal(0, 0.1, (WIDTH, WIDTH)).astype(np.float32) for _ in range(LAYERS)]
        weights = [popxl.variable(value, name=f"w{i}") for i, value in enumerate(values)]
        graph = ir.create_graph(forward, x, *weights)
        gradient = autodiff(graph, grads_required=graph.inputs[1:])
        site = ops.call_with_info(graph, x, *weights)
        start = popxl.constant(np.float32(1))
        grad_site = ops.call_with_info(gradient.graph, start, inputs_dict=gradient.inputs_dict(site))
        for weight, grad in gradient.fwd_parent_ins_to_grad_parent_outs(site, grad_site).items():
            ops.scaled_add_(weight, grad, b=-RATE)
    return ir


def refusal(monkeypatch, limit, **program):
    """The message, its remedies as (words, is an estimate, bytes, times), and the bytes that are needed."""
    monkeypatch.setenv("POPART_MAX_MEMORY", str(limit))
    with pytest.raises(popart.OutOfMemoryException, match="does not fit the memory limit") as caught:
        popxl.Session(training(**program), "cpu")
    text = str(caught.value)
    assert f"expected at most {limit // program.get('replicas', 1)}" in text
    found = [(words, bool(about), int(size), float(times)) for words, about, size, times in REMEDY.findall(text)]
    assert "What would help, the least time first" in text and 1 <= len(found) <= 3, text
    assert [times for *_, times in found] == sorted(times for *_, times in found)
    return text, found, int(re.search(r"got (\d+) bytes", text)[1])


def test_remedies_with_bytes_and_time(monkeypatch):
    limit = 550_000
    text, found, needed = refusal(monkeypatch, limit)
    allowing = f"allow {needed} bytes (POPART_MAX_MEMORY)"
    assert (allowing, False, needed) in [remedy[:3] for remedy in found], text
    assert any("popxl.remote_variable" in words for words, *_ in found), text
    assert all(size <= limit for words, _, size, _ in found if words != allowing)
    assert "popxl.transforms.recompute_graph" in text and "Largest tensors:" in text


def test_the_limit_that_is_asked_for_is_enough(monkeypatch):
    *_, needed = refusal(monkeypatch, 550_000)
    refusal(monkeypatch, needed - 1)
    monkeypatch.setenv("POPART_MAX_MEMORY", str(needed))
    popxl.Session(training(), "cpu")


def test_smaller_batches(monkeypatch):
    *_, needed = refusal(monkeypatch, 1000 * 400)
    text, found, _ = refusal(monkeypatch, int(0.9 * needed))
    matches = [re.fullmatch(r"feed batches of (\d+) instead of 64", words) for words, *_ in found]
    batches = [int(match[1]) for match in matches if match]
    assert len(batches) == 1, text
    popxl.Session(training(batch=batches[0]), "cpu")


def test_fewer_replicas(monkeypatch):
    *_, of_each = refusal(monkeypatch, 400_000, replicas=2)
    text, found, _ = refusal(monkeypatch, int(1.1 * of_each), replicas=2)
    assert any(words.startswith("run on 1 replicas instead of 2") for words, *_ in found), text


def test_engine_options_of_the_environment(monkeypatch):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps({"max_memory": "100K"}))
    with pytest.raises(popart.OutOfMemoryException, match="expected at most 102400"):
        popxl.Session(training(), "cpu")
