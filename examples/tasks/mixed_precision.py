"""Train in bfloat16, with float32 weights."""

import popart
from given import training

optimizer = popart.optim.AdamW(lr=0.01)
trainer = popart.Trainer("mlp.onnx", loss="cross_entropy", optimizer=optimizer, precision="bfloat16")
losses = [trainer.step(batch) for batch in training]
