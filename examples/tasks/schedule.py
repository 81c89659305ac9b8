"""Let the learning rate fall along a cosine."""

import popart
from given import training

trainer = popart.Trainer("mlp.onnx", loss="cross_entropy", optimizer=popart.optim.SGD(lr=0.1))
rates = []
trainer.fit(training, epochs=2, schedule=popart.optim.cosine(), on_step=lambda step: rates.append(step["lr"]))
weights = dict(trainer.weights)
