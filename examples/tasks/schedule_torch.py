"""Let the learning rate fall along a cosine."""

import torch
from given import training

model = torch.load("mlp.pt", weights_only=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2 * len(training))
rates = []
for _ in range(2):
    for x, labels in training:
        rates.extend(schedule.get_last_lr())
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
weights = {name: value.numpy() for name, value in model.state_dict().items()}
