"""Patterns of hand-written programs."""

import popart
import popxl


def apply_pre_alias_patterns(ir: popxl.Ir, level: str = "default") -> None:
    """Choose the level of the patterns of a program.

    Rewrites of hand-written programs happen while a Session lowers them, so that call sites and tensors of the program
    stay valid; identities are removed whether this is called or not.

    Args:
        ir: the program.
        level: ``"no_patterns"``, ``"minimal"``, ``"default"`` or ``"all"``.

    Raises:
        KeyError: another level.
    """
    levels = {"no_patterns": "NoPatterns", "minimal": "Minimal", "default": "Default", "all": "All"}
    ir._pb_ir.setPatterns(popart.Patterns(getattr(popart.PatternsLevel, levels[level])))
