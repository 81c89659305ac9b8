"""Run a quantised network."""

import popart
from given import x

logits = popart.load("quantised.onnx")(x)
