"""Programs for PopTorch import this name; it belongs to PopTorch, and importing it here is an error that says so."""

raise ImportError(
    "popdist.poptorch belongs to PopTorch, which is not part of this package. Use popdist and popdist.popart in "
    "programs of popart or popxl.",
    name=__name__,
)
