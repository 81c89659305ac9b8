"""Checks that the files of popxl import downwards only, at the top of the file. Usage: python_order.py [ROOT].

LAYERS is the order: a file imports files of its own layer, without a circle, and of layers before it. Imports for type
checkers alone are free, since tensors, graphs and programs name one another in annotations. Optional packages may be
imported in a function.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "popxl"
# layer → its modules; a package means all modules in it
LAYERS: dict[str, tuple[str, ...]] = {
    "values": (
        "errors",
        "dtypes",
        "fp8_utils",
        "utils",
        "random_seed",
        "tensorlocation",
        "replica_grouping",
        "testing",
        "_operators",
        "_collector",
        "_programs",
        "_order",
        "_session_options",
    ),
    "graph": (
        "context",
        "remote_buffer",
        "variables",
        "remote_variables",
        "tensor",
        "streams",
        "module",
        "graph",
        "ir",
        "_fragments",
    ),
    "ops": ("ops", "custom", "_indexing"),
    "transforms": ("_graph_copy", "transforms"),
    "session": ("_session_device", "session"),
}
OWN = (PACKAGE, "popart_core")


def layer_of(module: str) -> str | None:
    """Layer of a module such as "popxl.ops.call"; None: it has none."""
    first = module.removeprefix(f"{PACKAGE}.").split(".")[0]
    return next((layer for layer, names in LAYERS.items() if first in names), None)


def statements(nodes: list[ast.stmt], inside: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Import statements, and whether each stands in a function; those for type checkers alone are left out."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, inside
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from statements(node.orelse, inside)
        else:
            function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for field in ("body", "orelse", "finalbody", "handlers", "cases"):
                children = getattr(node, field, None)
                if isinstance(children, list):
                    yield from statements(children, inside or function)


def imported(node: ast.Import | ast.ImportFrom, modules: set[str]) -> list[str]:
    """Modules that a statement names, of those that exist, else as it writes them."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    names = [f"{base}.{alias.name}" for alias in node.names]
    return [name if name in modules else base for name in names]


def check_sources(sources: dict[str, str]) -> list[str]:
    """Problems of the package.

    Args:
        sources: Text by module, "popxl" itself among them.
    """
    problems, edges = [], {module: [] for module in sources}
    layers = list(LAYERS)
    for module, text in sources.items():
        own = layer_of(module)
        if own is None and module != PACKAGE:
            problems.append(f"{module}: is in no layer. Name it in LAYERS of tools/checks/python_order.py.")
            continue
        for node, inside in statements(ast.parse(text).body):
            for name in imported(node, set(sources)):
                if inside and name.split(".")[0] in OWN:
                    problems.append(f"{module}:{node.lineno}: imports {name} in a function. Import at the top.")
                if module == PACKAGE or name not in sources:
                    continue
                if name == PACKAGE:
                    problems.append(f"{module}:{node.lineno}: imports the package that it is a part of.")
                    continue
                layer = layer_of(name)
                if layer in layers and layers.index(layer) > layers.index(own):
                    problems.append(f"{module}:{node.lineno}: imports {name}: layer {own} is below {layer}.")
                if not (module == name or module.startswith(f"{name}.")):  # a package is loaded before its modules
                    edges[module].append(name)
    return problems + circles(edges)


def circles(edges: dict[str, list[str]]) -> list[str]:
    """Circles among modules, each once, as text."""
    found, done, path = [], set(), []

    def visit(module: str) -> None:
        if module in path:
            found.append("circle: " + " -> ".join([*path[path.index(module) :], module]))
        elif module not in done:
            path.append(module)
            for other in edges[module]:
                visit(other)
            done.add(path.pop())

    for module in edges:
        visit(module)
    return found


def read_sources(root: Path) -> dict[str, str]:
    """Text of all files of the package by module."""
    folder = root / "python"
    result = {}
    for path in sorted((folder / PACKAGE).rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        result[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text()
    return result


def main(arguments: list[str]) -> int:
    """Print all problems; returns 1 when there is one."""
    problems = check_sources(read_sources(Path(arguments[0] if arguments else ".").resolve()))
    for problem in problems:
        print(problem)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
