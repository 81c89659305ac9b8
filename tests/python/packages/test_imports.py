"""Importing the packages loads nothing that only some programs need."""

import subprocess
import sys

import pytest

HEAVY = {"torch", "scipy", "matplotlib", "onnx", "onnxruntime", "tqdm", "safetensors", "transformers", "jax", "mpi4py"}


@pytest.mark.parametrize("package", ["popart", "popart.ir", "popxl", "popxl_addons", "popdist", "pva"])
def test_import_is_light(package):
    code = f"import sys, {package}; print(*{{name.split('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(result.stdout.split())
