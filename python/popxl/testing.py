"""Lists of dtypes for tests of programs that use popxl."""

from popxl import dtypes


def get_all_dtypes() -> list[dtypes.dtype]:
    """Return every popxl dtype once."""
    return list(dtypes._NAME_TO_POPXL.values())


def get_all_int_dtypes() -> list[dtypes.dtype]:
    """Return every integer dtype once."""
    return [d for d in get_all_dtypes() if d.is_int]
