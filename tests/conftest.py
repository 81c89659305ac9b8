"""Makes the packages of this tree and the built extension importable, here and in programs that tests start.

The build is the one named by POPART_PRESET (default dev), as `./dev test` sets it. With POPART_PRESET=installed, the
installed packages are tested. Random data of a test are the same whatever ran before it: generators of test modules
begin each test as they were when all had been imported. Programs have two threads unless POPART_NUM_THREADS says
otherwise: plans depend on their number, each thread needs scratch memory, and tests set limits of memory.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
PRESET = os.environ.get("POPART_PRESET", "dev")
PACKAGES = [] if PRESET == "installed" else [str(ROOT / "python"), str(ROOT / "build" / PRESET / "python")]

sys.path[:0] = [path for path in [*PACKAGES, str(ROOT)] if path not in sys.path]
os.environ.setdefault("POPART_NUM_THREADS", "2")
# A program without a buffer writes the end of a line alone, and Open MPI tags each write.
os.environ.pop("PYTHONUNBUFFERED", None)
os.environ["PYTHONPATH"] = os.pathsep.join([*PACKAGES, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)

GENERATORS = []  # (generator of a test module, its state when all modules had been imported)


def pytest_collection_finish():
    files = {module: getattr(module, "__file__", None) for module in list(sys.modules.values())}
    modules = [module for module, file in files.items() if file and file.startswith(str(ROOT / "tests"))]
    found = {id(value): value for module in modules for value in vars(module).values()}
    GENERATORS[:] = [(g, g.bit_generator.state) for g in found.values() if isinstance(g, np.random.Generator)]


@pytest.fixture(autouse=True)
def random_data_of_its_own():
    for generator, state in GENERATORS:
        generator.bit_generator.state = state
    np.random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
