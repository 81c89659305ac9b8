"""The patterns and their levels."""

from popart_core import Patterns, PatternsLevel

__all__ = ["Patterns", "PatternsLevel"]
