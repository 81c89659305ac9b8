"""Parts of tensors."""

from collections.abc import Sequence
from math import prod


class Region:
    """A box of elements of a tensor.

    Args:
        lower: first index of each dimension.
        upper: index behind the last one of each dimension.
    """

    def __init__(self, lower: Sequence[int], upper: Sequence[int]) -> None:
        self._lower, self._upper = tuple(lower), tuple(upper)

    @classmethod
    def getFull(cls, shape: Sequence[int]) -> "Region":
        """Return all elements of a tensor of this shape."""
        return cls([0] * len(shape), shape)

    @classmethod
    def getEmpty(cls, rank: int) -> "Region":
        """Return no elements of a tensor with this number of dimensions; a scalar has no empty part."""
        return cls([0] * max(rank, 1), [0] * max(rank, 1))

    def getLower(self) -> list[int]:
        """Return the first index of each dimension."""
        return list(self._lower)

    def getUpper(self) -> list[int]:
        """Return the index after the last one of each dimension."""
        return list(self._upper)

    def rank(self) -> int:
        """Return the number of dimensions."""
        return len(self._lower)

    def nelms(self) -> int:
        """Return the number of elements."""
        return prod(max(b - a, 0) for a, b in zip(self._lower, self._upper))

    def isEmpty(self) -> bool:
        """Whether there are no elements."""
        return self.nelms() == 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Region) and (self._lower, self._upper) == (other._lower, other._upper)

    def __hash__(self) -> int:
        return hash((self._lower, self._upper))


__all__ = ["Region"]
