"""A C++ program that uses what popart-cpp.md names compiles, links and finds the documented values."""

import subprocess
from pathlib import Path

import popart
import pytest

from tests.python.popart.test_custom_op import INCLUDE, library_folder

SOURCE = Path(__file__).with_name("popart_cpp.cpp")

# Statements of the sheet with names that are absent, and the reason; one that compiles fails the test until it leaves
# this table.
MISSING = {
    "popart::Ir ir; ir.prepare(popart::IrBundle());": "section 9: the Ir is prepared by sessions alone",
    "popart::io::getModelFromString(std::string());": "section 9: models are read by sessions alone",
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


@pytest.mark.parametrize("statement", MISSING)
def test_what_is_missing_is_missing(tmp_path, statement):
    """The rest of the program compiles, so that it is the name which does not."""
    headers = "".join(line for line in SOURCE.read_text().splitlines(keepends=True) if line.startswith("#include"))
    for text, compiles in (("", True), (statement, False)):
        source = tmp_path / "part.cpp"
        source.write_text(f"{headers}\nint main() {{ {text} }}\n")
        built = build(source, tmp_path / "part")
        assert (built.returncode == 0) == compiles, built.stderr or "it compiles: take it out of MISSING"


def test_the_program_of_the_sheet(tmp_path):
    program = tmp_path / "program"
    built = build(SOURCE, program)
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([program, str(tmp_path)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    first, *wrong = ran.stdout.splitlines()
    assert first == f"{popart.__version__} {popart.packageHash()}"
    assert not wrong
