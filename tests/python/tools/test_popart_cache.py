"""popart-cache as its users call it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import popart
import pytest
from popart.tools.output import bytes_text

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "build" / os.environ.get("POPART_PRESET", "dev") / "bin" / "popart-cache"


def run(*arguments: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Call popart-cache."""
    return subprocess.run(
        [PROGRAM, *arguments], capture_output=True, text=True, timeout=60, env=os.environ | (env or {})
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three programs, the smallest one used longest ago, and a file of somebody else."""
    cache = tmp_path / "cache"
    for number, width in enumerate((8, 64, 128)):
        builder = popart.Builder()
        x = builder.addInputTensor("FLOAT", [4, 32])
        w = builder.addInitializedInputTensor(np.random.default_rng(0).normal(size=(32, width)).astype(np.float32))
        y = builder.aiOnnx.matmul([x, w])
        options = popart.SessionOptions()
        options.enableEngineCaching = True
        options.cachePath = str(cache)
        before = set(cache.iterdir()) if cache.exists() else set()
        popart.InferenceSession(
            builder.getModelProto(), popart.DataFlow(1, [y]), popart.DeviceManager().createCpuDevice(),
            userOptions=options,
        ).prepareDevice()  # fmt: skip
        (file,) = set(cache.iterdir()) - before
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
    (cache / "notes.txt").write_text("mine")
    return cache


def test_ls_names_programs_oldest_use_first(folder: Path) -> None:
    result = run("--folder", folder, "ls")
    lines = result.stdout.splitlines()
    assert result.returncode == 0
    assert len(lines) == 4
    assert "1970-01-12 13:46:40" in lines[0]
    sizes = [path.stat().st_size for path in sorted(folder.glob("*.popef"), key=lambda path: path.stat().st_mtime)]
    for line, size in zip(lines, sizes, strict=False):
        assert "cpu" in line and "threads" in line and f" {bytes_text(size)}  " in line
    assert lines[3] == f"3 programs, {bytes_text(sum(sizes))}"


def test_json_has_exact_sizes(folder: Path) -> None:
    sizes = {path.stem: path.stat().st_size for path in folder.glob("*.popef")}
    found = json.loads(run("--folder", folder, "ls", "--json").stdout)
    assert {row["key"]: row["bytes"] for row in found["programs"]} == sizes and found["bytes"] == sum(sizes.values())
    assert [row["lastUse"] for row in found["programs"]] == [f"1970-01-12 13:46:4{i}" for i in range(3)]
    assert all(row["target"].startswith("cpu") and row["threads"] >= 1 for row in found["programs"])
    oldest = found["programs"][0]["key"]
    (folder / f"{oldest}.popef").write_bytes(b"odd")
    os.utime(folder / f"{oldest}.popef", (1_000_000, 1_000_000))
    assert "damage" in json.loads(run("--json", "--folder", folder, "ls").stdout)["programs"][0]
    pruned = json.loads(run("--folder", folder, "--json", "prune", "--max-files", "2").stdout)
    assert [row["key"] for row in pruned["removed"]] == [oldest] and pruned["bytes"] == 3
    assert json.loads(run("clear", "--json", "--folder", folder).stdout)["bytes"] == sum(sizes.values()) - sizes[oldest]
    assert json.loads(run("ls", "--json", "--folder", folder).stdout) == {"programs": [], "bytes": 0}


def test_ls_says_what_is_damaged(folder: Path) -> None:
    file = next(path for path in folder.iterdir() if path.suffix == ".popef")
    file.write_bytes(file.read_bytes()[:100])
    assert "damaged" in run("--folder", folder, "ls").stdout


def test_prune_keeps_what_was_used_last(folder: Path) -> None:
    last = max((path for path in folder.iterdir() if path.suffix == ".popef"), key=lambda path: path.stat().st_mtime)
    assert "removed 2 programs" in run("--folder", folder, "prune", "--max-files", "1").stdout
    assert {path.name for path in folder.iterdir()} == {last.name, "notes.txt"}
    assert "removed 0 programs" in run("--folder", folder, "prune").stdout
    assert "removed 1 programs" in run("prune", "--max-bytes", "1K", env={"POPART_CACHE_DIR": str(folder)}).stdout


def test_clear_removes_programs_alone(folder: Path) -> None:
    assert "removed 3 programs" in run("--folder", folder, "clear").stdout
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    assert run("--folder", folder, "ls").stdout == "0 programs, 0 B\n"


def test_wrong_use_says_what_to_do(tmp_path: Path) -> None:
    assert run("--folder", tmp_path / "none", "ls").stdout == "0 programs, 0 B\n"
    assert "POPART_CACHE_DIR" in run("--help").stdout
    none = run()
    assert (none.returncode, none.stderr) == (2, "popart-cache: A subcommand is required. See popart-cache --help\n")
    bad = run("--folder", tmp_path, "prune", "--max-bytes", "much")
    assert bad.returncode == 2 and bad.stderr.count("\n") == 1
    assert bad.stderr.startswith("popart-cache: --max-bytes: ")
    (tmp_path / "file").write_text("mine")
    assert run("--folder", tmp_path / "file", "ls").returncode == 2
