"""Exceptions of popxl beyond those of the core."""

from popart_core import popart_exception


class UndefinedValue(Exception):
    """A property of a tensor cannot be determined, for example the IPU of an unused variable."""


class BuildError(popart_exception, RuntimeError):
    """A program is built when this is not possible: after its session was made, or in two threads at once."""
