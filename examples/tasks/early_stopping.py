"""Stop when the validation loss has not improved for two epochs, with the weights of the best epoch."""

import popart
from given import held_out, training

trainer = popart.Trainer("mlp.onnx", loss="cross_entropy", optimizer=popart.optim.SGD(lr=0.1, momentum=0.9))
history = trainer.fit(training, epochs=50, validate=held_out, patience=2, restore_best=True)
losses = history["val_loss"]
weights = dict(trainer.weights)
