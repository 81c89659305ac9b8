"""Makes the packages of this tree and the built extension importable, here and in programs that tests start.

The build is the one named by POPART_PRESET (default dev), as `./dev test` sets it.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATHS = [str(ROOT / "python"), str(ROOT / "build" / os.environ.get("POPART_PRESET", "dev") / "python"), str(ROOT)]

sys.path[:0] = [path for path in PATHS if path not in sys.path]
os.environ["PYTHONPATH"] = os.pathsep.join([*PATHS[:2], os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
