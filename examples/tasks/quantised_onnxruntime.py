"""Run a quantised network."""

import onnxruntime
from given import x

session = onnxruntime.InferenceSession("quantised.onnx")
(logits,) = session.run(None, {"x": x.numpy()})
