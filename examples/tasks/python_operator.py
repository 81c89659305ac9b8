"""Train through an operator that is written in Python, with its gradient: a leaky relu on the logits."""

import numpy as np
import popart
import popxl
from given import training

popxl.define_op(
    "LeakyLogits",
    lambda x, alpha: np.where(x > 0, x, alpha * x),
    lambda dy, x, alpha: np.where(x > 0, dy, alpha * dy),
)


def loss(builder: popart.Builder) -> str:
    """Add the operator and the loss to the network."""
    (logits,) = builder.customOp("LeakyLogits", 1, "python", ["logits"], {"alpha": 0.1})
    return popart.losses.cross_entropy(builder, logits, builder.addInputTensor("INT64", [16], "labels"))


trainer = popart.Trainer("mlp.onnx", loss=loss, optimizer=popart.optim.SGD(lr=0.1))
losses = [trainer.step(batch) for batch in training]
