"""Layers. Those with special operators are in modules that this package does not import."""

from popxl_addons.layers.conv import Conv2D
from popxl_addons.layers.embedding import Embedding
from popxl_addons.layers.group_norm import GroupNorm
from popxl_addons.layers.layer_norm import LayerNorm
from popxl_addons.layers.linear import Linear

__all__ = ["Conv2D", "Embedding", "GroupNorm", "LayerNorm", "Linear"]
