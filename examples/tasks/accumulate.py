"""Add up the gradients of four batches for each update."""

import popart
from given import training

optimizer = popart.optim.Adam(lr=0.01)
trainer = popart.Trainer("mlp.onnx", loss="cross_entropy", optimizer=optimizer, accumulation=4)
trainer.fit(training)
weights = dict(trainer.weights)
