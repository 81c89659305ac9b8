"""DotTree: an ordered tree of named leaves whose inner nodes are trees of the same class.

Keys are Python identifiers or numbers; dots separate path elements. ``str`` prints a dict from dotted names to leaves,
as in the published tutorials; ``repr`` prints one leaf per line (docs/decisions/0040-printed-trees.md).
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, Union

from popxl_addons.utils import OrderedDict

L = TypeVar("L")
Tree = TypeVar("Tree", bound="DotTree")
Key = str | int


def sanitise(name: str) -> str:
    """Replace every character that is not allowed in an identifier by ``_``."""
    name = re.sub(r"\W", "_", name)
    return f"_{name}" if name[:1].isdigit() else name


def check_element(key: Key) -> str:
    """Return an element of a path as text.

    Raises:
        ValueError: it is not an identifier or a number.
    """
    if isinstance(key, int):
        if key < 0:
            raise ValueError(f"Numerical key cannot be negative: got {key}.")
        return str(key)
    if not (key.isidentifier() or key.isdecimal()):
        raise ValueError(f"Key {key!r} is not a valid python identifier.")
    return key


class DotTree(Generic[L]):
    """Ordered tree of named leaves.

    Args:
        **kwargs: leaves or trees to insert.
    """

    def __init__(self, **kwargs: Union[L, "DotTree[L]"]) -> None:
        self._map: dict[str, Any] = {}
        if kwargs:
            for key, value in kwargs.items():
                self.insert(key, value)

    @classmethod
    def _of(cls: type[Tree], entries: dict[str, Any]) -> Tree:
        """Return a tree of checked names and their entries; the tree takes over the dictionary."""
        result = object.__new__(cls)
        result._map = entries
        return result

    # ---- changing
    def insert(self, key: Key, value: Union[L, "DotTree[L]"], overwrite: bool = False) -> None:
        """Store a leaf or a tree under a name.

        Args:
            key: name; dots separate path elements.
            value: leaf or tree.
            overwrite: replace an existing entry; for a dotted name, merge into the existing subtree.

        Raises:
            ValueError: the name exists, or is not an identifier or a number.
        """
        if isinstance(key, str) and "." in key:
            head, dot, rest = key.partition(".")
        else:
            head, dot, rest = key, "", ""
        head, entries = check_element(head), self._map
        if head in entries and not overwrite:
            raise ValueError(f"Key {head!r} already exists. Pass overwrite=True to replace it.")
        if not dot:
            entries[head] = value
            return
        below = entries.get(head)
        subtree = below.copy() if isinstance(below, type(self)) else type(self)()
        subtree.insert(rest, value, overwrite)
        self._map[head] = subtree

    def update(self, values: "DotTree[L]", overwrite: bool = False) -> None:
        """Insert each top-level entry of another tree.

        Raises:
            ValueError: a name exists and `overwrite` is not set.
        """
        for key, value in values.copy()._map.items():
            self.insert(key, value, overwrite)

    def pop(self, key: str) -> Union[L, "DotTree[L]"]:
        """Remove and return an entry; a subtree that becomes empty stays.

        Args:
            key: name, may be dotted.

        Returns:
            The leaf or subtree.

        Raises:
            KeyError: there is no such entry.
        """
        head, _, last = key.rpartition(".")
        node = self.get(head) if head else self
        if not isinstance(node, type(self)) or last not in node._map:
            raise KeyError(f"Key does not exist: {key!r}. Available: {self.keys_flat()}.")
        return node._map.pop(last)

    def _clear(self) -> None:
        for key, value in list(self._map.items()):
            if isinstance(value, type(self)):
                value._clear()
            else:
                del self._map[key]

    # ---- reading
    def get(self, key: Key) -> Union[L, "DotTree[L]"]:
        """Return the entry of a name.

        Args:
            key: name, may be dotted; or a number; a negative number counts from the largest number + 1.

        Returns:
            The leaf or subtree.

        Raises:
            KeyError: there is no such entry.
            ValueError: the number is negative, and no name is a number.
        """
        if isinstance(key, int):
            return self._get_number(key)
        head, _, rest = key.partition(".")
        if head not in self._map:
            raise KeyError(f"Key does not exist: {head!r}. Available: {self.keys_flat()}.")
        value = self._map[head]
        if not rest:
            return value
        if not isinstance(value, type(self)):
            raise KeyError(f"Key exists but is not a sub-{type(self).__name__}: {head!r}.")
        return value.get(rest)

    def _get_number(self, key: int) -> Union[L, "DotTree[L]"]:
        kind = "Numerical"
        if key < 0:
            kind = "Negative numerical"
            key += max(int(k) for k in self._map if k.isdecimal()) + 1
        if str(key) not in self._map:
            raise KeyError(f"{kind} key does not exist: {key}. Available: {self.keys_flat()}.")
        return self._map[str(key)]

    def __getitem__(self, key: Key) -> Any:
        return self.get(key)

    def __getattr__(self, name: str) -> Any:
        try:  # compat: copy.copy and copy.deepcopy end in RecursionError (test_dot_tree.py::test_copies)
            return self.get(name)
        except KeyError:
            raise AttributeError(f"No attribute '{name}'. Available: {self.keys_flat()}.") from None

    def __contains__(self, key: Key) -> bool:
        try:
            self.get(key)
        except KeyError:
            return False
        return True

    def keys(self) -> list[str]:
        """Return the names of the top level."""
        return list(self._map)

    def values(self) -> list[Any]:
        """Return the entries of the top level."""
        return list(self._map.values())

    def len(self) -> int:
        """Return the number of entries of the top level."""
        return len(self._map)

    def keys_flat(self) -> list[str]:
        """Return the dotted names of all leaves."""
        return list(self.to_dict())

    def values_flat(self) -> list[L]:
        """Return all leaves."""
        return list(self.to_dict().values())

    def len_flat(self) -> int:
        """Return the number of leaves."""
        return len(self.to_dict())

    # ---- conversions
    def copy(self: Tree) -> Tree:
        """Return a copy of the tree with the same leaves."""
        entries = self._map.items()
        return type(self)._of({key: value.copy() if isinstance(value, DotTree) else value for key, value in entries})

    def filter_keys(self: Tree, keys: Iterable[Key]) -> Tree:
        """Return a tree of the given names.

        Raises:
            ValueError: a name repeats.
        """
        keys = list(keys)
        if len(set(map(str, keys))) != len(keys):
            raise ValueError("`keys` cannot contain duplicate values.")
        return type(self).from_dict({key: self.get(key) for key in keys})

    def to_dict(self) -> dict[str, L]:
        """Return dotted name → leaf in insertion order."""
        result = OrderedDict()
        self._collect("", result)
        return result

    def _collect(self, prefix: str, leaves: dict[str, L]) -> None:
        for key, value in self._map.items():
            if isinstance(value, type(self)):
                value._collect(f"{prefix}{key}.", leaves)
            else:
                leaves[prefix + key] = value

    @classmethod
    def from_dict(cls: type[Tree], d: dict[Key, Any]) -> Tree:
        """Build a tree from dotted names.

        Returns:
            The tree.

        Raises:
            AttributeError: a name is below a leaf.
            ValueError: a name repeats.
        """
        result = cls()
        for key, value in d.items():
            *path, last = str(key).split(".")
            node = result
            for element in path:
                if element not in node._map:
                    node._map[check_element(element)] = cls()
                node = node._map[element]
                if not isinstance(node, cls):
                    raise AttributeError(f"Key {key!r} is below the leaf {element!r}.")
            node.insert(last, value)
        return result

    def unpack(self) -> tuple[Iterable[str], Iterable[L]]:
        """Return names and leaves, sorted by dotted name."""
        flat = self.to_dict()
        return zip(*sorted(flat.items(), key=lambda item: item[0])) if flat else ([], [])

    @classmethod
    def pack(cls: type[Tree], keys: Iterable[Key], values: Iterable[Any]) -> Tree:
        """Build a tree from names and leaves."""
        return cls.from_dict(dict(zip(keys, values)))

    def map(self: Tree, fn: Callable[[L], Any]) -> Tree:
        """Return a tree with `fn` applied to each leaf."""
        return type(self).from_dict({key: fn(value) for key, value in self.to_dict().items()})

    def to_mapping(self, other: "DotTree[Any]") -> dict[L, Any]:
        """Return leaf of this tree → leaf of the other one with the same name."""
        theirs = other.to_dict()
        return {value: theirs[key] for key, value in self.to_dict().items() if key in theirs}

    def __str__(self) -> str:
        return str(dict(self.to_dict()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_dict()!r})"


def to_mapping(key_tree: DotTree, value_tree: DotTree) -> dict[Any, Any]:
    """Return leaf of `key_tree` → leaf of `value_tree` with the same name."""
    return key_tree.to_mapping(value_tree)
