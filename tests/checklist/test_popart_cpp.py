"""A C++ program that uses what popart-cpp.md names compiles, links and finds the documented values."""

import subprocess
from pathlib import Path

import popart

from tests.python.popart.test_custom_op import INCLUDE, library_folder

SOURCE = Path(__file__).with_name("popart_cpp.cpp")

# Names of the sheet that are absent, with the reason; one that compiles fails the test until it leaves this table.
MISSING = {
    "section 9: Ir::prepare(IrBundle), io::getModelFromString": "the Ir is prepared by sessions alone",
}


def build(source, target):
    """Compile and link against the library that this process uses."""
    folder = library_folder()
    generated = folder.parent / "generated" / "builder"
    name = next(folder.glob("libpopart.so*")).name
    includes = [f"-I{INCLUDE}", *([f"-I{generated}"] if generated.exists() else [])]
    flags = ["-std=c++20", "-O0", "-DONNX_NAMESPACE=onnx", "-Wall", "-Wextra", "-Werror"]
    command = ["g++", *flags, *includes, str(source), "-o", str(target), f"-L{folder}", f"-l:{name}"]
    return subprocess.run([*command, f"-Wl,-rpath,{folder}"], capture_output=True, text=True)


def test_the_program_of_the_sheet(tmp_path):
    program = tmp_path / "program"
    built = build(SOURCE, program)
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([program, str(tmp_path)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    first, *wrong = ran.stdout.splitlines()
    assert first == f"{popart.__version__} {popart.packageHash()}"
    assert not wrong
