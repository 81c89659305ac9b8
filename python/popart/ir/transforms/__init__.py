"""Transforms of the older interface; `autodiff` is a module here."""

from popart.ir.transforms import autodiff
from popxl.transforms import merge_exchange

__all__ = ["autodiff", "merge_exchange"]
