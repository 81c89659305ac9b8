"""Add up the gradients of four batches for each update."""

import torch
from given import training

model = torch.load("mlp.pt", weights_only=False)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for number, (x, labels) in enumerate(training, 1):
    loss = torch.nn.functional.cross_entropy(model(x), labels) / 4
    loss.backward()
    if number % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
weights = {name: value.numpy() for name, value in model.state_dict().items()}
