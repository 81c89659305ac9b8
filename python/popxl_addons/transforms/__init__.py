"""Transforms of graphs with named arguments."""

from popxl_addons.transforms.autodiff import autodiff

__all__ = ["autodiff"]
