"""Train an exported network of torchvision on a DataLoader."""

import popart
from given import images

trainer = popart.Trainer("resnet.onnx", loss="cross_entropy", optimizer=popart.optim.SGD(lr=0.001, momentum=0.9))
losses = trainer.fit(images, epochs=2)["loss"]
trainer.save("trained.onnx")
