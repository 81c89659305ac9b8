"""The weights of a network as NumPy arrays by name."""

import torch

model = torch.load("mlp.pt", weights_only=False)
weights = {name: value.numpy() for name, value in model.state_dict().items()}
