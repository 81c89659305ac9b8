"""Answer requests from several threads with one network."""

from concurrent.futures import ThreadPoolExecutor

import popart
from given import requests

model = popart.load("mlp.onnx")
with ThreadPoolExecutor(4) as threads:
    logits = list(threads.map(model, requests))
