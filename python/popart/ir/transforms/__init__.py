"""Transforms of the older interface; `autodiff` is a module here."""

from popxl.transforms import merge_exchange

from popart.ir.transforms import autodiff

__all__ = ["autodiff", "merge_exchange"]
