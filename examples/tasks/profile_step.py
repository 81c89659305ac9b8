"""Where the time of a training step goes."""

import popart
from given import training

options = {"engineOptions": {"autoReport.all": "true"}}
trainer = popart.Trainer("mlp.onnx", loss="cross_entropy", optimizer=popart.optim.SGD(lr=0.1), options=options)
losses = [trainer.step(batch) for batch in training]
table = trainer.session.getSummaryReport()
