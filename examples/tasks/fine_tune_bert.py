"""Fine-tune a BERT that the dynamo exporter wrote."""

import popart
from given import texts

trainer = popart.Trainer("bert.onnx", loss="cross_entropy", optimizer=popart.optim.AdamW(lr=1e-3))
losses = [trainer.step(batch) for batch in texts]
