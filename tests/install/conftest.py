"""The wheel of this build and an environment that has it, for all tests of this folder."""

import fcntl
import os
import sys
import venv
from pathlib import Path

import pytest

from tests.install.wheel_programs import run, site_packages

ROOT = Path(__file__).resolve().parents[2]
PRESET = os.environ.get("POPART_PRESET", "dev")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel of this build, complete and checked; processes that test at the same time make one together."""
    pytest.importorskip("auditwheel")
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    out = folder / "wheel"
    with (folder / "wheel.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            make = [ROOT / "tools/wheels/make.py", ROOT / "build" / PRESET, "--offline", "--python", sys.executable]
            made = run(sys.executable, *make, "--out", out)
            assert made.returncode == 0, made.stdout + made.stderr
    (wheel,) = out.glob("openpopart-*.whl")
    return wheel


@pytest.fixture(scope="session")
def environment(tmp_path_factory, wheel):
    """A fresh environment with the wheel; what the wheel depends on is that of this interpreter."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin/python"]
    installed = run(*pip, "install", "-q", "--no-deps", "--no-index", wheel)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    others = [path for path in sys.path if path.endswith("-packages")]
    (site_packages(folder) / "dependencies.pth").write_text("\n".join(others))
    return folder


@pytest.fixture
def in_environment(environment, tmp_path, monkeypatch):
    """Runs a command of the environment, in an empty folder."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    return lambda name, *arguments: run(environment / "bin" / name, *arguments, cwd=tmp_path)
