"""Transforms of graphs with named arguments."""

from popxl_addons.transforms.autodiff import autodiff
from popxl_addons.transforms.recomputation import add_recompute_inputs, recompute_graph

__all__ = ["add_recompute_inputs", "autodiff", "recompute_graph"]
