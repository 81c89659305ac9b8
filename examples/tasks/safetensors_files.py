"""The weights of a network to and from a safetensors file."""

import popart.weights

popart.weights.save("mlp.onnx", "mlp.safetensors")
model = popart.weights.load("mlp.onnx", "mlp.safetensors")
weights = popart.weights.values_of(model)
