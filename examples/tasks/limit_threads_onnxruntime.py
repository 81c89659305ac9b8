"""Run a network on one thread."""

import onnxruntime
from given import x

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession("mlp.onnx", options)
(logits,) = session.run(None, {"x": x.numpy()})
