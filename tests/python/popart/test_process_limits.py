"""Programs at the edges of a process: its end during a run, threads and memory that the system refuses, kills."""

import os
import signal
import subprocess
import sys
import time

import pytest

MODEL = """
import resource, sys, threading, time
import numpy as np
import popart

builder = popart.Builder()
h = x = builder.addInputTensor("FLOAT", [64, 64], "x")
for i in range(3):
    w = builder.addInitializedInputTensor(np.full((64, 64), 0.01, np.float32), f"w{i}")
    h = builder.aiOnnx.relu([builder.aiOnnx.matmul([h, w])])
session = popart.InferenceSession(
    builder.getModelProto(), popart.DataFlow(2, [h]), popart.DeviceManager().createCpuDevice()
)
X, Y = np.ones((64, 64), np.float32), np.empty((64, 64), np.float32)
"""

DAEMON = """
session.prepareDevice()
if sys.argv[1] == "callbacks":
    step = popart.PyStepIOCallback(lambda n, p: X, lambda n: None, lambda n: Y, lambda n: None)
elif sys.argv[1] == "waiting callbacks":
    wait = lambda value=None: (time.sleep(0.001), value)[1]
    step = popart.PyStepIOCallback(lambda n, p: wait(X), lambda n: wait(), lambda n: wait(Y), lambda n: wait())
else:
    step = popart.PyStepIO({"x": np.ones((2, 64, 64), np.float32)}, session.initAnchorArrays())
if sys.argv[1] == "one long run":
    options = popart.SessionOptions()
    options.syntheticDataMode = popart.SyntheticDataMode.Zeros
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(10**8, {h: popart.AnchorReturnType("Final")}),
        popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )
    session.prepareDevice()
started = threading.Event()

def work():
    while True:
        started.set()
        session.run(step)

class Slow:  # the interpreter takes longer to shut down than a run goes on between two looks for signals
    def __del__(self, sleep=time.sleep):
        sleep(0.2)

slow = Slow()
threading.Thread(target=work, daemon=True).start()
started.wait()
time.sleep(0.1)
"""

LIMITED = """
def limit():
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]), resource.RLIM_INFINITY))

step = popart.PyStepIO({"x": np.ones((2, 64, 64), np.float32)}, session.initAnchorArrays())
"""

REFUSED_THREADS = (
    MODEL
    + LIMITED
    + """
limit()
try:
    session.prepareDevice()
except popart.popart_runtime_error as refusal:
    text = str(refusal)
    assert "of 3 threads" in text and "POPART_NUM_THREADS" in text, text
else:
    raise SystemExit("not refused")
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
)

FIRST_RUN = (
    MODEL
    + LIMITED
    + """
session.prepareDevice()
limit()
session.run(step)
session.run(step)
"""
)


# Nothing is thrown before memory is short: a thread's memory for exceptions is made when it first throws.
NO_MEMORY = """
import resource, sys, threading
import numpy as np
import popart

builder = popart.Builder()
shape = [2, 32, 28, 28] if sys.argv[2] == "conv" else [256, 256]
y = builder.addInputTensor("FLOAT", shape, "x")
for i in range(2):
    if sys.argv[2] == "conv":
        w = builder.addInitializedInputTensor(np.ones((32, 32, 3, 3), np.float32), f"w{i}")
        y = builder.aiOnnx.conv([y, w], dilations=[1, 1], pads=[1] * 4, strides=[1, 1])
    else:
        y = builder.aiOnnx.matmul([y, builder.addInitializedInputTensor(np.ones((256, 256), np.float32), f"w{i}")])
loss = builder.aiGraphcore.l1loss([y], 0.1)
model = builder.getModelProto()
device = popart.DeviceManager().createCpuDevice()

def limit(when):
    if sys.argv[3] != when:
        return
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]), resource.RLIM_INFINITY))

def work():
    try:
        limit("create")
        session = popart.TrainingSession(model, popart.DataFlow(1, [loss]), loss, popart.ConstSGD(0.1), device)
        limit("prepare")
        session.prepareDevice()
        session.weightsFromHost()
        step = popart.PyStepIO({"x": np.ones(shape, np.float32)}, session.initAnchorArrays())
        limit("run")
        session.run(step)
    except (popart.popart_exception, MemoryError):
        pass

if sys.argv[4] == "main":
    work()
else:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
"""


def ends(code, *arguments, **environment):
    """Exit code and error text of a Python program."""
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    return result.returncode, result.stderr


@pytest.mark.parametrize("kind", ["arrays", "callbacks", "waiting callbacks", "one long run"])
def test_a_process_ends_cleanly_while_a_daemon_thread_runs(kind):
    for _ in range(5):
        assert ends(MODEL + DAEMON, kind) == (0, "")


def test_a_thread_that_the_system_refuses_is_a_popart_error():
    code, text = ends(REFUSED_THREADS, "4194304", POPART_NUM_THREADS="3")
    assert code == 0, text


@pytest.mark.parametrize("threads", ["1", "2", "3"])
@pytest.mark.parametrize("spare", ["0", "4096"])
def test_the_first_run_needs_no_memory(threads, spare):
    code, text = ends(FIRST_RUN, spare, POPART_NUM_THREADS=threads)
    assert code == 0, text


@pytest.mark.parametrize("thread", ["main", "other"])
@pytest.mark.parametrize("when", ["create", "prepare", "run"])
@pytest.mark.parametrize("network", ["conv", "matmul"])
@pytest.mark.parametrize("spare", [1 << 16, 1 << 18])
def test_no_memory_ends_in_an_exception_and_not_the_process(spare, network, when, thread):
    code, text = ends(NO_MEMORY, str(spare), network, when, thread, POPART_NUM_THREADS="1")
    assert (code, text) == (0, "")


SAVER = """
import sys
import numpy as np
import popart

builder = popart.Builder()
w = builder.addInitializedInputTensor(np.ones((1024, 4096), np.float32), "w")
y = builder.aiOnnx.relu([w])
builder.addOutputTensor(y)
while True:
    builder.saveModelProto(sys.argv[1])
"""


def temporaries(folder):
    return [path for path in folder.iterdir() if ".tmp." in path.name]


def kill_while_saving(target):
    """Kill a process that saves `target` again and again, at a moment at which its temporary file is there."""
    for _ in range(20):
        process = subprocess.Popen([sys.executable, "-c", SAVER, str(target)])
        deadline = time.monotonic() + 60
        while not temporaries(target.parent) and time.monotonic() < deadline:
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
        if temporaries(target.parent):
            return
    raise AssertionError("no save was interrupted")


def test_what_a_killed_save_leaves_goes_with_the_next_save(tmp_path):
    import popart

    target, other = tmp_path / "model.onnx", tmp_path / "other.onnx"
    kill_while_saving(target)
    builder = popart.Builder()
    builder.addOutputTensor(builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2], "x")]))
    builder.saveModelProto(str(other))
    assert temporaries(tmp_path), "those of another target stay"
    builder.saveModelProto(str(target))
    assert not temporaries(tmp_path)
    assert popart.Builder(str(target)).getInputTensorIds() == ["x"]


def test_a_save_leaves_alone_what_another_process_is_writing(tmp_path):
    import popart

    target = tmp_path / "model.onnx"
    process = subprocess.Popen([sys.executable, "-c", SAVER, str(target)], stderr=subprocess.PIPE)
    try:
        builder = popart.Builder()
        builder.addOutputTensor(builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2], "x")]))
        deadline = time.monotonic() + 60
        while not temporaries(tmp_path) and time.monotonic() < deadline:
            pass
        for _ in range(300):
            builder.saveModelProto(str(target))
            assert popart.Builder(str(target)).getOutputTensorIds()
        assert process.poll() is None, process.stderr.read()
    finally:
        process.kill()
        process.communicate()


def test_files_of_similar_names_are_no_temporaries(tmp_path):
    import popart

    names = ["model.onnx.tmp.notes", "model.onnx.tmp", "other.onnx.tmp.1.2", "model.onnx.tmp.1a"]
    for name in names:
        (tmp_path / name).write_text("mine")
    builder = popart.Builder()
    builder.addOutputTensor(builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2], "x")]))
    builder.saveModelProto(str(tmp_path / "model.onnx"))
    assert {path.name for path in tmp_path.iterdir()} == {*names, "model.onnx"}
