"""The versions of this installation: ours, the commit, and the PopART release that programs compare with.

``popart_core`` has both versions. The commit is in ``build.json``, which the build writes (``cmake/BuildFacts.cmake``):
in the package ``popart`` of a wheel, in the build tree of a checkout.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import popart_core

PACKAGE = Path(__file__).resolve().parents[1]  # the folder `popart`
CHECKOUT = PACKAGE.parents[1]


def is_checkout() -> bool:
    """Whether the package is run from the sources."""
    return (CHECKOUT / "pyproject.toml").is_file() and (CHECKOUT / "include/popart").is_dir()


@functools.cache
def build_facts() -> dict[str, str]:
    """What is known of the build: ``commit`` (``-dirty``: of sources with changes), ``buildType``, ``compiler``."""
    for folder in (PACKAGE, Path(popart_core.__file__).resolve().parents[1]):
        if (folder / "build.json").is_file():
            facts = json.loads((folder / "build.json").read_text())
            return {key: value for key, value in facts.items() if value}
    return {}


def version_text(program: str) -> str:
    """One line for ``--version``."""
    commit = build_facts().get("commit", "unknown")
    return f"{program} {popart_core._ownVersion} (commit {commit}), PopART {popart_core.versionString()}"
