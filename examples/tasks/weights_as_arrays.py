"""The weights of a network as NumPy arrays by name."""

import popart.weights

weights = popart.weights.values_of("mlp.onnx")
