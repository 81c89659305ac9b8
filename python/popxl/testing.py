"""Lists of dtypes for tests of programs that use popxl."""

from popxl import dtypes


def get_all_dtypes() -> list[dtypes.dtype]:
    """Return every popxl dtype once."""
    return list(dtypes._NAME_TO_POPXL.values())


def get_all_int_dtypes(include_signed: bool = True) -> list[dtypes.dtype]:
    """Return every integer dtype once.

    Args:
        include_signed: False: the unsigned ones only.
    """
    return [d for d in get_all_dtypes() if d.is_int and (include_signed or not d.is_signed)]
