"""The description of the package on an index, for scikit-build-core: README.md without links into the repository.

An index shows the text alone. A link to a file of the repository becomes absolute if `project.urls` in pyproject.toml
has a `Source`; without one it becomes its text, and a picture is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?!https?:|mailto:|#)(?P<file>[^)\s]+)\)")


def for_index(text: str, source: str | None) -> str:
    """Replace links to files of the repository.

    Args:
        text: Markdown.
        source: Address of the repository; None: it has none.

    Returns:
        Markdown in which every link is absolute.
    """

    def replaced(link: re.Match[str]) -> str:
        if source is not None:
            return f"{link['picture']}[{link['text']}]({source.rstrip('/')}/{link['file']})"
        return "" if link["picture"] else link["text"]

    return LINK.sub(replaced, text)


def dynamic_metadata(settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    """The field `readme` of the project's metadata, as builders ask for it (`tool.dynamic-metadata`).

    Args:
        settings: None are known.
        project: The table `project` of pyproject.toml.

    Returns:
        The field with the type and the text of the description.

    Raises:
        ValueError: A setting.
    """
    if settings:
        raise ValueError(f"package_readme: got settings {dict(settings)} in tool.dynamic-metadata, expected none")
    text = for_index((ROOT / "README.md").read_text(), project.get("urls", {}).get("Source"))
    return {"readme": {"content-type": "text/markdown", "text": text}}
