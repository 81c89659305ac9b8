"""Values of tensors inside of a network."""

import popart
from given import x

results = popart.load("mlp.onnx", outputs=["relu", "relu_1"])(x)
