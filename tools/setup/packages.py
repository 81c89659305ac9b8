"""Debian and Python packages that ./dev installs. Every function does only what is missing.

Standard library only, because it runs before .venv exists.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.setup.steps import PYTHON, ROOT, VENV, StepFailed, run, say

DEBIAN_PACKAGES = [
    "ccache",
    "ninja-build",
    "g++",
    "cmake",
    "pkg-config",
    "libhwy-dev",
    "libspdlog-dev",
    "libfmt-dev",
    "libprotobuf-dev",
    "libre2-dev",
    "libxxhash-dev",
    "protobuf-compiler",
    "libcli11-dev",
    "nlohmann-json3-dev",
    "libgtest-dev",
    "libbenchmark-dev",
    "dataset-fashion-mnist",
    "openmpi-bin",
    "libopenmpi-dev",
    "python3-venv",
    "python3-dev",
    "zlib1g-dev",
]

# In which tests look at pages. Debian has it; where it cannot be installed, these tests are skipped.
BROWSER = "chromium-headless-shell"

# Another Open MPI than the system's, for tests.
OPEN_MPI_5 = VENV / "open-mpi-5"

# Python packages by what they are for: building and running the demo; wheels for others; the documentation site; all
# tests; the benchmark's other peers. Each level has what the one before it has.
LEVELS = ("build", "wheel", "docs", "dev", "bench")
REQUIREMENTS = {level: [f"requirements-{name}.txt" for name in LEVELS[: LEVELS.index(level) + 1]] for level in LEVELS}


@contextlib.contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Hold a lock file, so that two runs do not install into one folder at once."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def missing_debian_packages(wanted: Sequence[str] = DEBIAN_PACKAGES) -> list[str]:
    """Names of the Debian packages that are not installed; none on a system without dpkg."""
    if not shutil.which("dpkg-query"):
        return []
    query = ["dpkg-query", "-W", "-f=${Package} ${db:Status-Status}\n", *wanted]
    listed = subprocess.run(query, capture_output=True, text=True).stdout.splitlines()
    installed = {line.split()[0] for line in listed if line.endswith(" installed")}
    return [name for name in wanted if name not in installed]


def setup_debian() -> None:
    """Install missing Debian packages when root; otherwise name them and stop."""
    missing = missing_debian_packages()
    if not missing:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise StepFailed(f"missing Debian packages. Install them: apt-get install {' '.join(missing)}")
    say(f"setup: apt-get install {' '.join(missing)}")
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-q"], env=env, quiet=True)
    run(["apt-get", "install", "-q", "-y", "--no-install-recommends", *missing], env=env, quiet=True)


def setup_browser() -> None:
    """Install the browser of the tests when root, if the system's packages have it."""
    if os.geteuid() != 0 or not shutil.which("apt-get") or not missing_debian_packages([BROWSER]):
        return
    say(f"setup: apt-get install {BROWSER}")
    try:
        env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        run(["apt-get", "install", "-q", "-y", "--no-install-recommends", BROWSER], env=env, quiet=True)
    except StepFailed as problem:
        say(f"setup: without a browser ({problem}): its tests are skipped")


def requirements_digest(level: str) -> str:
    """Hash of everything that decides the content of .venv at a level."""
    texts = [(ROOT / name).read_bytes() for name in REQUIREMENTS[level]]
    return hashlib.sha256(b"\0".join([*texts, str(sys.version_info[:2]).encode()])).hexdigest()


def setup_python(level: str) -> None:
    """Create .venv and install the pinned packages of a level, unless a stamp says that it is done."""
    if sys.version_info < (3, 11):  # noqa: UP036 (this file runs under whatever python3 is)
        raise StepFailed(f"python3: got version {sys.version.split()[0]}, expected 3.11 or newer. Install one.")
    done = [VENV / f"setup-{wider}.sha256" for wider in list(REQUIREMENTS)[list(REQUIREMENTS).index(level) :]]
    digests = [requirements_digest(stamp.stem.removeprefix("setup-")) for stamp in done]
    if any(stamp.is_file() and stamp.read_text() == digest for stamp, digest in zip(done, digests, strict=True)):
        return
    VENV.mkdir(exist_ok=True)
    with exclusive(VENV / "setup.lock"):
        if not PYTHON.exists():
            say("setup: creating .venv")
            run([sys.executable, "-m", "venv", VENV], quiet=True)
        say(f"setup: installing Python packages ({', '.join(REQUIREMENTS[level])})")
        files = [word for name in REQUIREMENTS[level] for word in ("-r", name)]
        # The first build is waited for: Python compiles the few modules that it imports when it does.
        lazily = ["--no-compile"] if level == "build" else []
        run([PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", *lazily, *files])
        done[0].write_text(digests[0])


def setup_open_mpi_5() -> None:
    """Install Open MPI 5 for its tests into a folder of its own, if the package index has it for this machine."""
    wanted = ROOT / "requirements-mpi.txt"
    stamp = OPEN_MPI_5 / "setup.sha256"
    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == digest:
        return
    with exclusive(VENV / "setup.lock"):
        say("setup: installing Open MPI 5")
        pip = [PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--prefix", OPEN_MPI_5]
        try:
            run([*pip, "--retries", "1", "--only-binary", ":all:", "-r", wanted], quiet=True)
        except StepFailed as problem:
            say(f"setup: without Open MPI 5 ({problem}): its tests are skipped")
            return
        stamp.write_text(digest)


def setup(level: str) -> None:
    """Bring Debian packages and .venv to the state a level needs (build, wheel, docs, dev or bench)."""
    setup_debian()
    if level in ("dev", "bench"):
        setup_browser()
    setup_python(level)
    if level in ("dev", "bench"):
        setup_open_mpi_5()
