"""Files that are written completely or not at all."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` when the body ends, after it was written to the disk completely.

    Until then it has another name in the same folder, ``<path>.<random>.partial``, so that several writers of one path
    do not disturb each other: the file of the last one remains. After an error the new file is removed and `path` is
    unchanged.

    Args:
        path: the file.

    Raises:
        OSError: it cannot be written; FileNotFoundError: its folder does not exist.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"file '{path}': cannot be written: there is no folder '{path.parent}'. Make it first")
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
