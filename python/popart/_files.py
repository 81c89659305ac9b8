"""Files that are written whole or not at all."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` when the body ends, whole and on the disk.

    Until then it has another name in the same folder, ``<path>.<random>.partial``, so that writers of one path do not
    disturb each other: the last one to end stays. After an error it is removed, and what was there stays.

    Args:
        path: the file.

    Raises:
        OSError: it cannot be written.
    """
    path = Path(path)
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
