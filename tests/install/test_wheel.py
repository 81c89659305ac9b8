"""The wheel: complete, and importable where neither this tree nor its build is on the path."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ["popart", "popxl", "popxl_addons", "popdist"]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Folder with the content of a freshly built wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    result = subprocess.run([*command, str(ROOT)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    (wheel,) = folder.glob("popart-*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "content")
    return folder / "content"


@pytest.mark.slow
def test_wheel_holds_library_extension_stub_and_markers(unpacked):
    assert (unpacked / "popart/lib/libpopart.so").is_file()
    assert len(list(unpacked.glob("popart_core.*.so"))) == 1
    for stub in ("popart_core.pyi", "popart/__init__.pyi", "popart/opsets.pyi"):
        assert (unpacked / stub).is_file()
    for package in PACKAGES:
        assert (unpacked / package / "py.typed").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("module", ["popart_core", "popart", "popxl"])
def test_module_comes_from_the_wheel(unpacked, module, tmp_path):
    program = f"import {module}; print({module}.__file__)"
    env = {**os.environ, "PYTHONPATH": str(unpacked)}
    result = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert Path(result.stdout.strip()).is_relative_to(unpacked)
