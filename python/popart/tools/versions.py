"""The versions of this installation: ours, the commit, and the PopART release that programs compare with.

``popart_core`` has both versions. The commit of an installed wheel is in ``popart/build.json``, which the build writes
(``cmake/BuildFacts.cmake``); that of a checkout is asked of git.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

import popart_core

PACKAGE = Path(__file__).resolve().parents[1]  # the folder `popart`
CHECKOUT = PACKAGE.parents[1]
CACHED = {"CMAKE_BUILD_TYPE": "buildType", "CMAKE_CXX_COMPILER": "compiler"}  # entries of a CMakeCache.txt


def is_checkout() -> bool:
    """Whether the package is run from the sources."""
    return (CHECKOUT / "pyproject.toml").is_file() and (CHECKOUT / "include/popart").is_dir()


@functools.cache
def commit() -> str | None:
    """The commit of the sources, with ``-dirty`` for a checkout with changes; None when nothing says it."""
    if not is_checkout():
        return build_facts().get("commit")
    import subprocess  # here: a command that prints no version need not wait for it

    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"],
            cwd=CHECKOUT, capture_output=True, text=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip() or None if described.returncode == 0 else None


@functools.cache
def build_facts() -> dict[str, str]:
    """What is known of the build: ``buildType``, ``compiler``, and ``commit`` of a wheel."""
    written = PACKAGE / "build.json"
    if written.is_file():
        return {key: value for key, value in json.loads(written.read_text()).items() if value}
    cache = Path(popart_core.__file__).resolve().parents[1] / "CMakeCache.txt"
    if not cache.is_file():
        return {}
    entries = dict(re.findall(r"^(\w+):\w+=(.*)$", cache.read_text(), re.MULTILINE))
    return {ours: entries[theirs] for theirs, ours in CACHED.items() if entries.get(theirs)}


def version_text(program: str) -> str:
    """One line for ``--version``."""
    return f"{program} {popart_core._ownVersion} (commit {commit() or 'unknown'}), PopART {popart_core.versionString()}"
