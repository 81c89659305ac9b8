"""Train under a memory limit: activations are computed again or moved where they do not fit."""

import popart
from given import images

optimizer = popart.optim.SGD(lr=0.01)
trainer = popart.Trainer("resnet.onnx", loss="cross_entropy", optimizer=optimizer, max_memory="32M")
losses = [trainer.step(batch) for batch in images]
