"""``popart-info`` and ``python -m popart``: what a report of a problem should say of an installation and a machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import popart_core

import popart
from popart.tools import files
from popart.tools.command import ExitCode, plain_parser, run_as_process
from popart.tools.gc_info import all_devices, target_of
from popart.tools.output import bytes_text, table
from popart.tools.versions import build_facts, is_checkout

DESCRIPTION = """Print versions, build, processor, instruction set, threads, memory and devices: what a report of a
problem should contain."""

# Other packages whose versions matter.
PACKAGES = ("numpy", "ml_dtypes", "onnx", "onnxruntime", "torch", "safetensors", "mpi4py")


# ---- limits of the process -------------------------------------------------------------------------


def processor_quota(root: Path = Path("/")) -> float | None:
    """Processors' worth of time that control groups grant; None: no limit."""
    return popart_core._processorQuota(str(root))


def memory_limit(root: Path = Path("/")) -> int | None:
    """Bytes that control groups grant; None: no limit below the memory of the machine."""
    total, limit = memory_of_machine(root).get("total", sys.maxsize), popart_core._groupMemoryLimit(str(root))
    return limit if limit is not None and limit < total else None


def memory_of_machine(root: Path = Path("/")) -> dict[str, int]:
    """The memory of the machine in bytes: "total" and "available"; less where the system does not say it."""
    try:
        text = (root / "proc/meminfo").read_text()
    except OSError:
        return {}
    found = re.findall(r"^Mem(Total|Available): *(\d+) kB", text, re.MULTILINE)
    return {name.lower(): int(kilobytes) * 1024 for name, kilobytes in found}


def processor_name(root: Path = Path("/")) -> str:
    """The name of the processor, or its architecture where the system does not say it."""
    try:
        text = (root / "proc/cpuinfo").read_text()
    except OSError:
        text = ""
    found = re.search(r"^(?:model name|Model|cpu model)\s*: *(.+)$", text, re.MULTILINE)
    return found[1] if found else platform.machine()


# ---- what the library chooses ----------------------------------------------------------------------


def choices_of_library() -> dict[str, Any]:
    """Kernels with their instruction set, and threads, as a session chooses them.

    A product is compiled and saved; the file of a compiled program says what it was compiled for.

    Returns:
        "instructionSet" of the kernels (None: none is chosen), "kernels" and "threads"; nothing when the file does
        not say them.
    """
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [8, 8])
    y = builder.aiOnnx.matmul([x, x])
    device = popart.DeviceManager().createCpuDevice()
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device)
    session.prepareDevice()
    with tempfile.TemporaryDirectory(prefix="popart-info-") as folder:
        path = Path(folder) / "program.popef"
        session.saveExecutable(str(path))
        found = re.search(rb'"target":"([^"]*)","threads":(\d+)', path.read_bytes())
    if found is None:
        return {}
    kernels = found[1].decode()
    chosen = re.search(r"\(cpu (\w+)", kernels)
    return {"instructionSet": chosen and chosen[1], "kernels": kernels, "threads": int(found[2])}


def installed_packages() -> dict[str, str]:
    """Versions of other packages that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def facts() -> dict[str, Any]:
    """All that the command prints."""
    devices = all_devices()
    return {
        "version": popart_core._ownVersion,
        "commit": build_facts().get("commit"),
        "popart": popart_core.versionString(),
        "installation": str(Path(popart_core.__file__).parent),
        "checkout": is_checkout(),
        "build": build_facts(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.platform(),
        "packages": installed_packages(),
        "processor": {
            "name": processor_name(),
            "architecture": platform.machine(),
            "processors": os.cpu_count(),
            "allowed": len(os.sched_getaffinity(0)),
            "quota": processor_quota(),
            **choices_of_library(),
        },
        "memory": {**memory_of_machine(), "limit": memory_limit()},
        "environment": {
            name: os.environ[name] for name, *_ in popart_core._environmentVariables() if name in os.environ
        },
        "devices": [{"id": d.id, "target": target_of(d), "ipus": d.numIpus} for d in devices],
    }


def text_of(found: dict[str, Any]) -> str:
    """The facts for people."""
    processor, memory = found["processor"], found["memory"]
    quota = "none" if processor["quota"] is None else f"{processor['quota']:.4g}"
    singles = [device for device in found["devices"] if device["ipus"] == 1]
    kinds = ", ".join(sorted({device["target"] for device in singles}))
    limit = "none" if memory["limit"] is None else bytes_text(memory["limit"])
    sizes = [f"{bytes_text(memory[name])} {name}" for name in ("total", "available") if name in memory]
    rows = [
        ["version", f"{found['version']}, commit {found['commit'] or 'unknown'}"],
        ["PopART", f"{found['popart']} (popart.__version__, which programs compare with)"],
        ["installation", found["installation"]],
        ["build", ", ".join(f"{key} {value}" for key, value in found["build"].items() if key != "commit") or "unknown"],
        ["Python", found["python"]],
        ["system", found["system"]],
        ["packages", ", ".join(f"{name} {version}" for name, version in found["packages"].items())],
        ["processor", f"{processor['name']}, {processor['architecture']}"],
        ["instruction set", processor.get("instructionSet") or "unknown"],
        ["threads", str(processor.get("threads", "unknown"))],
        ["processors", f"{processor['allowed']} of {processor['processors']} allowed, quota {quota}"],
        ["memory", f"{', '.join(sizes)}, limit {limit}"],
        ["devices", f"{len(singles)} ({kinds}); gc-info -l lists them with their Ids"],
        *([f"{name}", value] for name, value in found["environment"].items()),
    ]
    return table(rows, ["what", "value"])


def command(arguments: Sequence[str] | None = None) -> int:
    """Print the facts; the exit code of the command."""
    parser = plain_parser("popart-info", DESCRIPTION)
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parsed = parser.parse_args(arguments)
    found = facts()
    print(files.json_text(found) if parsed.json else text_of(found))
    return ExitCode.DONE


def main() -> NoReturn:
    """The command of the wheel."""
    run_as_process("popart-info", command)


if __name__ == "__main__":
    main()
