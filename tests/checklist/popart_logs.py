"""Log lines of the module `popart`: popart-python.md sections 15, 16, 18 and 19, popart-transforms.md section 3.25.

`EVENTS`: what programs look for, as (section, event, initial of the level, channel, pattern of the text, lines that
`program()` writes); None: one or more. `LEVELS`, `CHANNELS`, `DESTINATIONS` and `CONFIGS` are settings, with what shows
then.
"""

import contextlib

import numpy as np
import popart

CHANNELS = ["session", "ir", "devicex", "popart", "transform", "pattern", "builder", "op", "opx", "ces", "python"]

# name given to setLevel or POPART_LOG_LEVEL: initials of the levels that show
LEVELS = {
    "TRACE": "TDIWEC",
    "DEBUG": "DIWEC",
    "INFO": "IWEC",
    "WARN": "WEC",
    "ERR": "EC",
    "CRITICAL": "C",
    "OFF": "",
    "trace": "TDIWEC",
    "nonsense": "",
    None: "WEC",  # the default
}

EVENTS = [
    ("15", "an op is added: domain and type", "T", "builder", r"ai\.onnx\.Add\b", 1),
    ("15", "an op of another domain is added", "T", "builder", r"ai\.graphcore\.IdentityLoss\b", 1),
    ("15", "compilation begins", "D", "session", r"compilation begins", 1),
    ("15", "the graph is compiled", "I", "session", r"compiled", 1),
    ("15", "the engine is on the device", "I", "session", r"loaded on Device Type:cpu", 1),
    ("15", "weights go to the device", "I", "devicex", r"weights go to the device", 1),
    ("15", "weights have come back", "I", "devicex", r"weights have come back", 2),
    ("15", "weights are fetched", "D", "devicex", r"^Writing weights to host$", 2),
    ("15", "weightsToHost is called", "T", "session", r"^Session::weightsToHost$", 2),
    ("15", "an operation of the prepared graph", "T", "ir", r"= AddLhsInplace\(", 1),
    ("15", "an operation of the backward pass", "T", "ir", r"= IdentityLossGrad\(", 1),
    ("15", "an operation of the optimizer", "T", "ir", r"= SGD0VarUpdate\(", 1),
    ("3.25", "compile time of preparation and lowering", "I", "transform", r"compile time by phase: .*\d ms", 2),
    ("3.25", "compile time of what follows", "I", "devicex", r"compile time by step: schedule .*emit .*\d ms", 1),
    ("15", "a text of the program", "I", "python", r"^a text of the program$", 1),
    ("16", "an error", "E", "popart", r": no tensor 'nowhere'", 1),
    ("9", "a deprecated name of an option", "W", "session", r"defaultPrefetchBufferingDepth", 1),
    ("9", "a deprecated name of an option", "W", "session", r"prefetchBufferingDepthMap", 1),
    ("6", "a seed without random operation", "W", "session", r"setRandomSeed", 1),
    ("4", "int64 values for INT32", "W", "session", r"'i'.*int64", 1),
    ("4", "an input that was removed from the program", "W", "session", r"'u'", 1),
]


def program(path):
    """A training session and its weights, with something to warn about."""
    options = popart.SessionOptions()
    options.defaultPrefetchBufferingDepth = 1
    options.prefetchBufferingDepthMap = {}
    builder = popart.Builder()
    x, i = builder.addInputTensor("FLOAT", [2], "x"), builder.addInputTensor("INT32", [2], "i")
    w = builder.addInitializedInputTensor(np.ones(2, np.float32), "w")
    u = builder.addInputTensor("FLOAT", [2], "u")  # nothing reads it
    y = builder.aiOnnx.mul([builder.aiOnnx.add([x, w]), builder.aiOnnx.cast([i], "FLOAT")])
    loss = builder.aiGraphcore.identityloss([y])
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, [loss]),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )
    session.prepareDevice()
    session.setRandomSeed(1)
    session.weightsFromHost()
    ones = np.ones(2, np.float32)
    session.run(popart.PyStepIO({x: ones, i: np.ones(2, np.int64), u: ones}, session.initAnchorArrays()))
    session.weightsToHost()
    session.modelToHost(path)
    popart.getLogger().info("a text of the program")
    with contextlib.suppress(popart.popart_exception):
        session.getInfo("nowhere")


# POPART_LOG_DEST: which stream has the lines; another value is a file
DESTINATIONS = {None: "stderr", "stderr": "stderr", "stdout": "stdout", "file": "file"}

# content of POPART_LOG_CONFIG, POPART_LOG_LEVEL: level of the channels session and builder then
CONFIGS = [
    ({"session": "INFO"}, None, {"session": "IWEC", "builder": "WEC"}),
    ({"popart:session": "INFO"}, "OFF", {"session": "IWEC", "builder": ""}),
    ({"session": "OFF"}, "TRACE", {"session": "", "builder": "TDIWEC"}),
    ({"all": "INFO", "nowhere": "TRACE"}, None, {"session": "IWEC", "builder": "IWEC"}),
]

# What has no line here, with the reason.
OPEN = {
    ("5.7.2", "Not yet able to call 'outComplete' on IStepIO"): "there is no queue of streams that waits for the host",
}
