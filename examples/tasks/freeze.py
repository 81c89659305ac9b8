"""Train the head of a network; all other layers stay as they are."""

import popart
from given import training

optimizer = popart.optim.SGD(lr=0.1)
trainer = popart.Trainer("mlp.onnx", loss="cross_entropy", optimizer=optimizer, frozen=["layer*"])
losses = [trainer.step(batch) for batch in training]
weights = dict(trainer.weights)
