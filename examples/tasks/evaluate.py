"""Loss and accuracy of a network on a data set."""

import popart
from given import held_out

trainer = popart.Trainer("mlp.onnx", loss="cross_entropy", optimizer=popart.optim.SGD())
values = trainer.evaluate(held_out, ["accuracy"])
loss, accuracy = values["loss"], values["accuracy"]
