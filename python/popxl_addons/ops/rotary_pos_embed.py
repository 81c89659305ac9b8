"""Rotary position embedding: rotates pairs of features by an angle that grows with the position (Su et al. 2021)."""

import numpy as np
import popxl
from popxl.ops.utils import emit_one


def trig_tables(
    seq_len: int, rotary_dim: int, base: int = 10000, np_dtype: str = "float32"
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sines and cosines of ``m base^(-2 i / rotary_dim)`` for position m and pair i.

    Args:
        seq_len: number of positions.
        rotary_dim: number of features to rotate, even.
        base: base of the angles: a larger one makes them decrease faster from pair to pair.
        np_dtype: type to compute in.

    Returns:
        (sines, cosines), each of shape (seq_len, rotary_dim / 2).
    """
    falling = np.asarray(base, np_dtype) ** (
        -np.arange(0, rotary_dim, 2, dtype=np_dtype) / np.asarray(rotary_dim, np_dtype)
    )
    angles = np.outer(np.arange(seq_len, dtype=np_dtype), falling)
    return np.sin(angles), np.cos(angles)


def trig_table_constants(
    seq_len: int, rotary_dim: int, base: int = 10000, dtype: popxl.dtype = popxl.float32
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """Return the tables of `trig_tables` as constants of the current graph.

    Args:
        seq_len: number of positions.
        rotary_dim: number of features to rotate, even.
        base: base of the angles: a larger one makes them decrease faster from pair to pair.
        dtype: type to compute in and of the constants.

    Returns:
        (sines, cosines), each of shape (seq_len, rotary_dim / 2).
    """
    sin, cos = trig_tables(seq_len, rotary_dim, base, dtype.as_numpy())
    return popxl.constant(sin, dtype, "sin"), popxl.constant(cos, dtype, "cos")


def rotary_pos_embed(
    t: popxl.Tensor, sin: popxl.Tensor, cos: popxl.Tensor, rotary_dim: int | None = None
) -> popxl.Tensor:
    """Rotate the pairs ``(t[2i], t[2i + 1])`` of the last axis by the angles of their position.

    Args:
        t: tensor of shape (batch, sequence, heads, hidden).
        sin: sines of shape (sequence, rotary_dim / 2), or with a leading dimension of 1 or batch.
        cos: cosines, of the shape of sin.
        rotary_dim: features of each head to rotate; None or 0: all. The others stay unchanged.

    Returns:
        Tensor of the shape and dtype of t; its gradient is rotated back; the tables have no gradient.

    Raises:
        AssertionError: a rank is wrong.
        popart_exception: rotary_dim is odd, or shapes do not fit.
    """
    assert t.rank == 4, f"rotary_pos_embed: t: got shape {t.shape}, expected (batch, sequence, heads, hidden)."
    for name, table in (("sin", sin), ("cos", cos)):
        assert table.rank in (2, 3), f"rotary_pos_embed: {name}: got shape {table.shape}, expected rank 2 or 3."
    inputs = {"t": t, "sin": sin, "cos": cos}
    return emit_one("RotaryPosEmbed", inputs, f"{t.name}_rotary_pos_embed", {"rotary_dim": int(rotary_dim or 0)})


__all__ = ["rotary_pos_embed", "trig_table_constants", "trig_tables"]
