"""The number of threads: where it comes from, and that results do not depend on it."""

import re

import numpy as np
import popart
import pytest


def session(options=None):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [200, 300])
    w = builder.addInitializedInputTensor(np.linspace(-1, 1, 300 * 400, dtype=np.float32).reshape(300, 400), "w")
    y = builder.aiOnnx.softmax([builder.aiOnnx.matmul([x, w])])
    return popart.InferenceSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(1, [y]),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
        userOptions=options or popart.SessionOptions(),
    ), (x, y)


def threads_of(options=None):
    prepared, _ = session(options)
    prepared.prepareDevice(loadEngine=False)
    return int(re.search(r"of (\d+) threads busy", prepared.getThreadReport())[1])


def options_of(threads):
    options = popart.SessionOptions()
    options.engineOptions = {"num_threads": threads}
    return options


def test_the_environment_and_then_the_option_decide(monkeypatch):
    monkeypatch.setenv("POPART_NUM_THREADS", "5")
    assert threads_of() == 5
    assert threads_of(options_of("3")) == 3


@pytest.mark.parametrize("text", ["0", "-2", "two", "", "1025", "99999999999999999999"])
def test_bad_numbers_are_refused(text, monkeypatch):
    with pytest.raises(popart.popart_exception, match="num_threads: got"):
        threads_of(options_of(text))
    monkeypatch.setenv("POPART_NUM_THREADS", text)
    with pytest.raises(popart.popart_exception, match="POPART_NUM_THREADS: got"):
        threads_of()


def test_results_do_not_depend_on_the_number():
    values = np.random.default_rng(1).standard_normal((200, 300), np.float32)
    results = []
    for threads in ("1", "2", "3", "8", "64"):
        prepared, (x, y) = session(options_of(threads))
        prepared.prepareDevice()
        anchors = prepared.initAnchorArrays()
        for _ in range(3):
            prepared.run(popart.PyStepIO({x: values}, anchors))
        results.append(anchors[y].tobytes())
    assert len(set(results)) == 1


def test_the_report_needs_a_compiled_program():
    prepared, _ = session()
    with pytest.raises(popart.popart_runtime_error, match="getThreadReport before the program is compiled"):
        prepared.getThreadReport()


def test_the_report_lists_every_kernel():
    prepared, _ = session(options_of("4"))
    prepared.prepareDevice(loadEngine=False)
    titles, *rows, total = prepared.getThreadReport().splitlines()
    assert titles.split() == ["threads", "tasks", "us/thread", "busy", "step,", "kernel"]
    assert any("matmul" in row for row in rows)
    assert all(1 <= int(row.split()[0]) <= min(4, max(1, int(row.split()[1]))) for row in rows)
    assert total.endswith("busy in kernels with more than 20 us per thread")
