"""The comparison for equality, which `popart.ir.ops` does not export."""

from popxl.ops import equal

__all__ = ["equal"]
