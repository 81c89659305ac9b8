"""Run a network on one thread."""

import popart
from given import x

logits = popart.load("mlp.onnx", num_threads=1)(x)
