"""Two runs with dropout that end with the same bits."""

import numpy as np
import torch
from given import training


def train() -> np.ndarray:
    """A run; returns its losses."""
    torch.manual_seed(7)
    model = torch.load("dropout.pt", weights_only=False).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for x, labels in training:
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


same = bool((train() == train()).all())
