"""Programs for TensorFlow on IPUs import this name; it belongs to that framework, and importing it here is an error."""

raise ImportError(
    "popdist.tensorflow belongs to TensorFlow for IPUs, which is not part of this package. Use popdist and "
    "popdist.popart in programs of popart or popxl.",
    name=__name__,
)
