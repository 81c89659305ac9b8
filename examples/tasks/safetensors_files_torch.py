"""The weights of a network to and from a safetensors file."""

import torch
from safetensors.torch import load_file, save_file

model = torch.load("mlp.pt", weights_only=False)
save_file(model.state_dict(), "mlp.safetensors")
model.load_state_dict(load_file("mlp.safetensors"))
weights = {name: value.numpy() for name, value in model.state_dict().items()}
