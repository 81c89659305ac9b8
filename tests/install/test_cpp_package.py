"""The installed C++ package: find_package(popart) gives headers and library that need nothing but themselves."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRESET = os.environ.get("POPART_PRESET", "dev")

CMAKE_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(consumer CXX)
find_package(popart REQUIRED)
add_executable(consumer main.cpp)
target_link_libraries(consumer PRIVATE {target})
"""

PROGRAM = """
{includes}
#include <iostream>
int main() {{
  const popart::TensorInfo info(popart::DataType::FLOAT, {{2, 3}});
  std::cout << info.nelms() << ' ' << info.nbytes() << '\\n';
}}
"""


def run(*command: str | Path) -> str:
    """Run a command and return what it prints; a failure shows its output."""
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """Folder into which the build is installed."""
    if PRESET in ("asan", "tsan"):
        pytest.skip(f"a program needs the flags of preset {PRESET} to link with its library")
    folder = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", ROOT / "build" / PRESET, "--prefix", folder)
    return folder


@pytest.mark.parametrize("target", ["popart::popart", "popart"])
def test_program_with_all_public_headers_builds_and_runs(prefix, tmp_path, target):
    headers = sorted(header for name in ("popart", "popdist") for header in (prefix / "include" / name).rglob("*.hpp"))
    assert {header.parent.name for header in headers} >= {"popart", "popdist"}
    includes = "\n".join(f"#include <{header.relative_to(prefix / 'include')}>" for header in headers)
    (tmp_path / "main.cpp").write_text(PROGRAM.format(includes=includes))
    (tmp_path / "CMakeLists.txt").write_text(CMAKE_PROJECT.format(target=target))
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    assert run(tmp_path / "build" / "consumer").split() == ["6", "24"]
