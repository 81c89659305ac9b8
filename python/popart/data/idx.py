"""Reader of IDX files, the format of MNIST: a magic number, the dimensions and the elements, all big-endian.

The size in the header is compared with the file while it is read, in pieces: a damaged header cannot cause an
allocation that is larger than the file.
"""

import gzip
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
import popart_core

_TYPES = {
    0x08: np.dtype(np.uint8),
    0x09: np.dtype(np.int8),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}
_GZIP_MAGIC = b"\x1f\x8b"
_PIECE_BYTES = 1 << 24
_MAX_RANK = 8


class IdxFormatError(popart_core.popart_exception):
    """A file is not a complete IDX file, or not one with the expected rank."""


def _fail(path: Path, what: str, got: object, expected: object) -> IdxFormatError:
    return IdxFormatError(f"IDX file '{path}': {what}: got {got}, expected {expected}. Fetch the file again.")


def _read(stream: BinaryIO, count: int) -> bytes:
    """Up to `count` bytes, in pieces, so that a wrong count does not reserve memory."""
    pieces = []
    while count > 0:
        piece = stream.read(min(count, _PIECE_BYTES))
        if not piece:
            break
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def _parse(path: Path, stream: BinaryIO, rank: int | None) -> np.ndarray:
    magic = _read(stream, 4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _TYPES:
        kinds = " ".join(f"{code:02x}" for code in _TYPES)
        raise _fail(path, "wrong magic number", magic.hex(" ") or "an empty file", f"00 00, a type of {kinds}, a rank")
    dtype, dims = _TYPES[magic[2]], magic[3]
    if not 1 <= dims <= _MAX_RANK or (rank is not None and dims != rank):
        raise _fail(path, "wrong rank", dims, rank if rank is not None else f"1 to {_MAX_RANK}")
    header = _read(stream, 4 * dims)
    if len(header) < 4 * dims:
        raise _fail(path, "truncated dimensions", f"{len(header)} bytes", f"{4 * dims} bytes")
    shape = tuple(int.from_bytes(header[4 * i : 4 * i + 4], "big") for i in range(dims))
    expected = dtype.itemsize
    for size in shape:
        expected *= size
    body = _read(stream, expected)
    if len(body) < expected:
        raise _fail(path, f"truncated data of shape {shape}", f"{len(body)} bytes", f"{expected} bytes")
    if stream.read(1):
        raise _fail(path, f"data after the elements of shape {shape}", "more bytes", f"{expected} bytes")
    return np.frombuffer(body, dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def read_idx(path: str | Path, rank: int | None = None) -> np.ndarray:
    """Read an IDX file, compressed with gzip or not (decided by content, not by name).

    Args:
        path: File.
        rank: Number of dimensions it must have; any when None.

    Returns:
        The elements in native byte order, with the file's shape and type.

    Raises:
        OSError: The file cannot be read.
        IdxFormatError: Wrong magic number, wrong rank, truncated or damaged, or more data than its dimensions say.
    """
    path = Path(path)
    with path.open("rb") as file:
        compressed = file.read(2) == _GZIP_MAGIC
        file.seek(0)
        if not compressed:
            return _parse(path, file, rank)
        try:
            with gzip.GzipFile(fileobj=file) as unpacked:
                return _parse(path, unpacked, rank)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise _fail(path, "damaged gzip data", error, "a complete gzip file") from error
