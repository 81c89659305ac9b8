"""Exceptions of popxl beyond those of the core."""


class UndefinedValue(Exception):
    """A property of a tensor cannot be determined, for example the IPU of an unused variable."""
