"""Run a network on batches of different sizes."""

import popart
from given import requests, x

model = popart.load("mlp.onnx")
logits = [model(batch) for batch in (x[:1], x[:5], requests[0])]
