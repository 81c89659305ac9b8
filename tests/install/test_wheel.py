"""The wheel in an environment of its own: complete, importable, its commands run. This tree is not on the path."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ["popart", "popxl", "popxl_addons", "popdist", "pva"]
PROGRAM = "main {\n  stream %x : float32[2, 3]\n  %a = Relu(%x)\n  %b = Neg(%a)\n  return %b\n}\n"
KEEP_COMPILED = """
import popart, sys
builder = popart.Builder()
y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [4, 32])])
options = popart.SessionOptions()
options.enableEngineCaching, options.cachePath = True, sys.argv[1]
popart.InferenceSession(
    builder.getModelProto(), popart.DataFlow(1, [y]), popart.DeviceManager().createCpuDevice(), userOptions=options
).prepareDevice()
"""


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=3600, **options)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A fresh environment with a freshly built wheel; what the wheel depends on is that of this interpreter."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip"]
    built = run(*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, ROOT)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = folder.glob("popart-*.whl")
    venv.create(folder / "venv", symlinks=True)
    installed = run(*pip, "--python", folder / "venv/bin/python", "install", "-q", "--no-deps", "--no-index", wheel)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    others = [path for path in sys.path if path.endswith("-packages")]
    (site_packages(folder / "venv") / "dependencies.pth").write_text("\n".join(others))
    return folder / "venv"


def site_packages(environment):
    (folder,) = environment.glob("lib/python*/site-packages")
    return folder


@pytest.fixture
def in_environment(environment, tmp_path, monkeypatch):
    """Runs a command of the environment, in an empty folder."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    return lambda name, *arguments: run(environment / "bin" / name, *arguments, cwd=tmp_path)


@pytest.mark.slow
def test_wheel_holds_library_extension_stub_and_markers(environment):
    packages = site_packages(environment)
    assert (packages / "popart/lib/libpopart.so").is_file()
    assert len(list(packages.glob("popart_core.*.so"))) == 1
    for stub in ("popart_core.pyi", "popart/__init__.pyi", "popart/opsets.pyi"):
        assert (packages / stub).is_file()
    for package in PACKAGES:
        assert (packages / package / "py.typed").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("module", ["popart_core", "popart", "popxl"])
def test_module_comes_from_the_wheel(environment, in_environment, module):
    result = in_environment("python", "-c", f"import {module}; print({module}.__file__)")
    assert result.returncode == 0, result.stderr
    assert Path(result.stdout.strip()).is_relative_to(environment)


@pytest.mark.slow
def test_popart_opt_runs_passes(in_environment, tmp_path):
    (tmp_path / "program.ir").write_text(PROGRAM)
    result = in_environment("popart-opt", "program.ir", "-p", "loadStreams")
    assert result.returncode == 0, result.stderr
    assert "%x___loaded : float32[2, 3] = HostLoad()" in result.stdout
    refused = in_environment("popart-opt", "absent.ir")
    assert refused.returncode != 0
    assert "absent.ir" in refused.stderr


@pytest.mark.slow
def test_popart_cache_looks_after_programs_of_the_library(in_environment, tmp_path):
    kept = in_environment("python", "-c", KEEP_COMPILED, tmp_path / "cache")
    assert kept.returncode == 0, kept.stderr
    (program,) = [path for path in (tmp_path / "cache").iterdir() if path.is_file()]
    listed = in_environment("popart-cache", "--folder", "cache", "ls")
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.endswith(f"1 programs, {program.stat().st_size} bytes\n")
    assert "removed 1 programs" in in_environment("popart-cache", "--folder", "cache", "clear").stdout
    assert not program.exists()
