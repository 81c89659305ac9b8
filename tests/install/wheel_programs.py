"""Programs that tests run in the environment of a wheel, how they are run, and the library that they load with it."""

import subprocess
from pathlib import Path


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command; its output is text."""
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=3600, **options)


def site_packages(environment: Path) -> Path:
    """Where an environment has its packages."""
    (folder,) = environment.glob("lib/python*/site-packages")
    return folder


KEEP_COMPILED = """
import popart, sys
builder = popart.Builder()
y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [4, 32])])
options = popart.SessionOptions()
options.enableEngineCaching, options.cachePath = True, sys.argv[1]
popart.InferenceSession(
    builder.getModelProto(), popart.DataFlow(1, [y]), popart.DeviceManager().createCpuDevice(), userOptions=options
).prepareDevice()
"""

# Trains a product three steps and compares the weights with NumPy's; writes, damages and reads a model.
TRAIN = """
def train():
    import numpy as np
    import popart
    data, weights = np.full((4, 3), 0.5, np.float32), np.ones((3, 2), np.float32)
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4, 3])
    w = builder.addInitializedInputTensor(weights, "w")
    loss = builder.aiOnnx.reducesum([builder.aiOnnx.relu([builder.aiOnnx.matmul([x, w])])], keepdims=0)
    builder.addOutputTensor(loss)
    proto = builder.getModelProto()
    session = popart.TrainingSession(
        proto, popart.DataFlow(1, [loss]), loss, popart.ConstSGD(0.05), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    for _ in range(3):
        session.run(popart.PyStepIO({x: data}, anchors))
        weights = weights - np.float32(0.05) * (data.T @ np.ones((4, 2), np.float32))
    session.modelToHost("trained.onnx")
    np.testing.assert_allclose(read_weight("trained.onnx"), weights, rtol=1e-5)
    open("damaged.onnx", "wb").write(proto[: len(proto) // 2])
    try:
        popart.Builder("damaged.onnx")
    except popart.popart_exception:
        return
    raise AssertionError("a damaged model was not refused")

def read_weight(file):
    import onnx, onnx.numpy_helper
    return onnx.numpy_helper.to_array(onnx.load(file).graph.initializer[0])
"""

# Other packages with C++ and protobuf inside do their work, with the trained model.
OTHERS = """
def use_others():
    import numpy as np
    import onnx, onnx.checker, onnx.shape_inference
    import onnxruntime
    import torch
    model = onnx.load("trained.onnx")
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(model))
    run = onnxruntime.InferenceSession("trained.onnx", providers=["CPUExecutionProvider"])
    data = np.full((4, 3), 0.5, np.float32)
    (result,) = run.run(None, {run.get_inputs()[0].name: data})
    expected = torch.relu(torch.tensor(data) @ torch.tensor(read_weight("trained.onnx"))).sum()
    np.testing.assert_allclose(result, expected.numpy(), rtol=1e-5)

def import_others():
    import onnx, onnx.onnx_cpp2py_export, onnxruntime, torch
"""

# More packages with protobuf inside, which the tests do not need otherwise; they lie in the folder sys.argv[1].
HEAVIER = ["sentencepiece", "protobuf", "grpcio", "tensorboard", "pyarrow"]
USE_HEAVIER = """
def use_heavier():
    import sys
    sys.path.insert(0, sys.argv[1])
    import google.protobuf.internal.api_implementation as implementation
    import grpc, pyarrow, pyarrow.compute, sentencepiece
    from tensorboard.compat.proto.summary_pb2 import Summary
    assert implementation.Type() == "upb"
    summary = Summary(value=[Summary.Value(tag="loss", simple_value=0.5)])
    assert Summary.FromString(summary.SerializeToString()) == summary
    assert pyarrow.compute.sum(pyarrow.array([1, 2, 3])).as_py() == 6
    open("words.txt", "w").write("one two three four five six seven\\n" * 20)
    sentencepiece.SentencePieceTrainer.train(input="words.txt", model_prefix="words", vocab_size=20)
    assert sentencepiece.SentencePieceProcessor(model_file="words.model").encode("one two")
"""

FIRST = TRAIN + OTHERS + "train()\nimport_others()\nuse_others()\ntrain()\n"
LAST = TRAIN + OTHERS + "import_others()\ntrain()\nuse_others()\n"

# A library with an operator and its gradient, compiled against the wheel: forward and backward.
USE_OPERATOR = """
import ctypes, sys
import numpy as np
import popart
ctypes.cdll.LoadLibrary(sys.argv[1])
builder = popart.Builder()
w = builder.addInitializedInputTensor(np.array([-2, -1, 1, 2], np.float32), "w")
y = builder.customOp("LeakyRelu", 1, "custom.ops", [w], {"alpha": 0.25}, 1)[0]
loss = builder.aiOnnx.reducesum([y], keepdims=0)
gradient = popart.reservedGradientPrefix() + w
session = popart.TrainingSession(
    builder.getModelProto(), popart.DataFlow(1, [y, gradient]), loss, popart.ConstSGD(0.1),
    popart.DeviceManager().createCpuDevice(),
)
session.prepareDevice()
session.weightsFromHost()
anchors = session.initAnchorArrays()
session.run(popart.PyStepIO({}, anchors))
np.testing.assert_array_equal(anchors[y], [-0.5, -0.25, 1, 2])
np.testing.assert_array_equal(anchors[gradient], [0.25, 0.25, 1, 1])
builder = popart.Builder()
try:
    builder.customOp("LeakyRelu", 1, "custom.ops", [builder.addInputTensor("FLOAT", [4])] * 2, {}, 1)
except popart.popart_exception as problem:
    assert "wrong number of inputs" in str(problem)
else:
    raise AssertionError("two inputs were not refused")
"""

# Everything in sys.argv[1] comes before all libraries that are loaded later.
BESIDE_A_GLOBAL_LIBRARY = (
    TRAIN + "import ctypes, os, sys\nctypes.CDLL(sys.argv[1], os.RTLD_GLOBAL | os.RTLD_NOW)\ntrain()\n"
)


def library_of_traps(names: list[str]) -> str:
    """Source in assembler of a library that defines names as functions whose call ends the process."""
    lines = [f'.globl "{name}"\n.type "{name}", @function\n"{name}":' for name in names]
    return ".text\n" + "\n".join(lines) + "\nud2\n" + '.section .note.GNU-stack,"",@progbits\n'
