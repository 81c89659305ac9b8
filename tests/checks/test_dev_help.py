"""`./dev COMMAND --help` lists every option without setting up or building anything."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

OPTIONS = {
    "setup": ["--level"],
    "build": ["--preset", "--target", "--jobs"],
    "test": ["--label", "--machine", "--preset"],
    "bench": ["--names", "--peers", "--json", "--quick"],
    "demo": ["./dev demo"],
    "format": ["usage"],
    "lint": ["--no-compile"],
    "new-op": ["--family"],
    "docs": ["--no-site", "--preset"],
    "size": ["usage"],
    "wheel": ["--machine", "--python", "--preset"],
}


@pytest.mark.parametrize("command", OPTIONS)
def test_help(command: str):
    result = subprocess.run([ROOT / "dev", command, "--help"], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    for option in OPTIONS[command]:
        assert option in result.stdout
    assert "setup:" not in result.stdout and "build:" not in result.stdout
