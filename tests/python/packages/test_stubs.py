"""The stub of the builder's operator methods has them all; tests/install/test_types.py runs type checkers."""

import re
from pathlib import Path

import popart.opsets

ROOT = Path(__file__).resolve().parents[3]


def test_stub_has_every_method():
    stub = (ROOT / "python/popart/opsets.pyi").read_text()
    for made in [*popart.opsets.NAMESPACES.values(), popart.opsets.AiGraphcoreOpset1]:
        part = stub.split(f"\nclass {made.__name__}(Opset):")[1].split("\nclass ")[0]
        declared = set(re.findall(r"^    def (\w+)\(", part, re.MULTILINE))
        assert declared == {name for name in vars(made) if not name.startswith("_")}
