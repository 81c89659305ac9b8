"""Commands for ONNX files: ``popart-run``, ``popart-inspect`` and ``popart-convert``."""
