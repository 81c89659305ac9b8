"""Train the head of a network; all other layers stay as they are."""

import torch
from given import training

model = torch.load("mlp.pt", weights_only=False)
for name, parameter in model.named_parameters():
    parameter.requires_grad_(name.startswith("head"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for x, labels in training:
    loss = torch.nn.functional.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
weights = {name: value.numpy() for name, value in model.state_dict().items()}
