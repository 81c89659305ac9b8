"""C++ programs that use what popart-cpp.md names compile, link and find the documented values."""

import re
import subprocess
from pathlib import Path

import popart
import pytest

import onnx
from tests.python.popart.test_custom_op import INCLUDE, library_folder

SOURCE = Path(__file__).with_name("popart_cpp.cpp")
IR_SOURCE = Path(__file__).with_name("popart_cpp_ir.cpp")

POPLAR = "Poplar's own; kernels of users are registered with popart/userkernel.hpp"
# Names of the sheet that are absent, with the reason; one that compiles fails the test until it leaves this table.
# section, name, statement with `s` (a TrainingSession), `d` (a DeviceInfo) and `p` (a float *), reason
MISSING = [
    ("3", "connectStreamToCallback", "s.connectStreamToCallback({}, [](void *) {});", POPLAR),
    ("3", "connectStream", 's.connectStream("h", p);', POPLAR),
    ("3", "connectHostFunction", 's.connectHostFunction("h", {});', POPLAR),
    ("3", "getIrLowering", "(void)s.getIrLowering();", POPLAR),
    ("3", "getExecutable", "(void)s.getExecutable();", POPLAR),
    ("3", "getReport", "pva::Report r = s.getReport();", "a report is text that the Python package pva reads"),
    ("3", "updateEngineCache", "s.updateEngineCache();", "a program does not change after it was compiled"),
    ("3", "copyFromRemoteBuffer", 's.copyFromRemoteBuffer("b", p, 0);', "variables off chip are read with readWeights"),
    ("3", "copyToRemoteBuffer", 's.copyToRemoteBuffer(p, "b", 0);', "variables off chip are written with writeWeights"),
    ("6", "getTarget", "(void)d.getTarget();", POPLAR),
    ("6", "setStep", "Adam *a = nullptr; a->setStep(1);", "the sheet says that it is declared, not what it does"),
    ("8", "growAliasModel", "(void)&Op::growAliasModel;", "the memory plan reads what an operator aliases"),
]


def command(source, *more):
    """The compiler's command line against the headers and library that this process uses."""
    folder = library_folder()
    generated = folder.parent / "generated"
    folders = [INCLUDE, *(path for path in (generated / "builder", generated / "operator_names") if path.exists())]
    flags = ["-std=c++20", "-O0", "-DONNX_NAMESPACE=onnx", "-Wall", "-Wextra", "-Werror"]
    return ["g++", *flags, *(f"-I{path}" for path in folders), str(source), *more]


def build(source, target):
    """Compile and link against the library that this process uses."""
    folder = library_folder()
    name = next(folder.glob("libpopart.so*")).name
    link = ["-o", str(target), f"-L{folder}", f"-l:{name}", f"-Wl,-rpath,{folder}"]
    return subprocess.run(command(source, *link), capture_output=True, text=True)


def run(source, folder):
    """What the program writes, line by line."""
    program = folder / "program"
    built = build(source, program)
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([program, str(folder)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_the_program_of_the_sheet(tmp_path):
    first, *wrong = run(SOURCE, tmp_path)
    assert first == f"{popart.__version__} {popart.packageHash()}"
    assert not wrong


def test_a_program_is_prepared_asked_changed_and_run(tmp_path):
    assert run(IR_SOURCE, tmp_path) == []


@pytest.fixture(scope="module")
def names():
    """The operators of the generated header: namespace -> name -> (domain, type, version)."""
    text = next(
        path
        for path in (library_folder().parent / "generated/operator_names", INCLUDE)
        if (path / "popart/operators.gen.hpp").exists()
    )
    found = {}
    for line in (text / "popart/operators.gen.hpp").read_text().splitlines():
        if space := re.fullmatch(r"namespace popart::Onnx::(\S+) {", line):
            entries = found.setdefault(space[1], {})
        elif entry := re.fullmatch(r'inline constexpr OperatorName (\w+){"(\S+)", "(\w+)", (\d+)};', line):
            entries[entry[1]] = (entry[2], entry[3], int(entry[4]))
    return found


def test_operators_have_the_versions_of_their_operator_sets(names):
    of_onnx = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain}
    for opset in range(6, 12):
        assert len(of_onnx & set(names[f"AiOnnx::OpSet{opset}"])) > 80
        for name, (domain, op_type, version) in names[f"AiOnnx::OpSet{opset}"].items():
            assert (domain, op_type) == ("ai.onnx", name)
            if name not in of_onnx:
                continue  # BitwiseXnor: PopART has it in the domain of ONNX
            schema = onnx.defs.get_schema(name, opset)
            assert schema.deprecated or version == schema.since_version, (name, opset)


def test_every_operator_has_a_name(names):
    listed = {entry for entries in names.values() for entry in entries.values()}
    supported = {(op.domain, op.type, op.version) for op in popart.getSupportedOperations(True)}
    assert {op for op in supported if op[0] in ("ai.onnx", "ai.graphcore")} <= listed


@pytest.mark.parametrize(("section", "name", "statement", "reason"), MISSING, ids=[row[1] for row in MISSING])
def test_what_is_missing_is_still_missing(section, name, statement, reason, tmp_path):
    source = tmp_path / "statement.cpp"
    source.write_text(
        "#include <popart/adam.hpp>\n#include <popart/op.hpp>\n#include <popart/session.hpp>\n"
        "using namespace popart;\n"
        f"void f(TrainingSession &s, DeviceInfo &d, float *p) {{ (void)s, (void)d, (void)p; {statement} }}\n"
    )
    done = subprocess.run(command(source, "-fsyntax-only"), capture_output=True, text=True)
    assert done.returncode != 0, f"section {section}: {name} is there: take it out of MISSING ({reason})"
    assert name in done.stderr or "pva" in done.stderr
