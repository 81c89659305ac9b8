"""Write checkpoints, and continue training from the last one in a new process."""

import popart
from given import training


def train(epochs: int) -> popart.Trainer:
    """Train up to an epoch, from the checkpoint if there is one."""
    trainer = popart.Trainer("mlp.onnx", loss="cross_entropy", optimizer=popart.optim.Adam(lr=0.01))
    trainer.fit(training, epochs, checkpoint="run")
    return trainer


train(epochs=2)
weights = dict(train(epochs=4).weights)
