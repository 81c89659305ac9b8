"""Composite operators."""

from popxl_addons.ops.cross_entropy import cross_entropy, cross_entropy_with_grad
from popxl_addons.ops.fp8_amax_scale import fp8_amax_scale
from popxl_addons.ops.streams import host_load, host_store

__all__ = ["cross_entropy", "cross_entropy_with_grad", "fp8_amax_scale", "host_load", "host_store"]
