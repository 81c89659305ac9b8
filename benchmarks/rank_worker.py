"""One process of a job that `rank_jobs` starts: trains one network, with one thread and processor for each replica.

``rank_worker.py KIND NAME FOLDER SHARES SOCKET``. The kinds:

- ``linked``: ours; its replica is one of the replicas of all processes of the job, which MPI connects;
- ``alone``: ours; the same program with only this replica, so that nothing is exchanged;
- ``profiled``: ``linked``, with every run timed;
- ``threads``: ours; all replicas of the job in one process, on as many threads and processors;
- ``ddp``, ``ddp_compile``: PyTorch's DistributedDataParallel over gloo, eager and compiled.

FOLDER has the program for one of SHARES parts of the batch, and the inputs of the whole batch (``worker.py export``).
The names ``sum_…`` are sums of this many bytes over all processes instead of networks, without FOLDER.
Answers are JSON lines on SOCKET. The first one has the losses of the first steps, by replica. Then each request
``{"calls": N, "warm_up": W}`` is answered with the times of N steps after W others. All processes of a job make equally
many steps. A failure is answered as ``{"error"}``.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

CHECKED_STEPS = 3
SUMS = {"sum_32_mib": 32 << 20, "sum_1_mib": 1 << 20, "sum_4_kib": 4 << 10}  # bytes
PROFILED_RUNS = 20

Step = Callable[[], list[float]]  # losses of the replicas of this process


def rank() -> int:
    """The number of this process, from Open MPI or from the environment that PyTorch reads."""
    return int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["RANK"])


def own_share(values: Any, shares: int) -> Any:
    """This process's rows of the whole batch."""
    rows = len(values) // shares
    return values[rank() * rows : (rank() + 1) * rows]


def sum_session(size: int, adapt: Callable[[Any], None]) -> tuple[Any, str, dict[str, Any]]:
    """A session that adds `size` bytes of FLOAT over all replicas, its result and its inputs."""
    import numpy as np
    import popart

    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [size // 4], "x")
    result = builder.aiOnnx.reducesum([builder.aiGraphcore.replicatedallreduce([x])], keepdims=0)
    options = popart.SessionOptions()
    adapt(options)
    device = popart.DeviceManager().createCpuDevice()
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(1, [result]), device, userOptions=options
    )
    session.prepareDevice()
    return session, result, {"x": np.full(size // 4, rank() + 1, np.float32)}


def ours(kind: str, name: str, folder: Path, shares: int) -> tuple[Step, Callable[[], dict[str, Any]]]:
    """A step of a training session, and its report about exchanges."""
    import exported_programs as programs
    import numpy as np
    import popart
    import popdist.popart

    replicas = shares if kind == "threads" else 1

    def adapt(options: popart.SessionOptions) -> None:
        if kind == "profiled":
            options.engineOptions = {
                "debug.instrument": "true",
                "autoReport.executionProfileProgramRunCount": str(CHECKED_STEPS + PROFILED_RUNS),
            }
        if kind == "threads":
            options.enableReplicatedGraphs, options.replicatedGraphCount = True, replicas
        elif kind != "alone":
            popdist.popart.configureSessionOptions(options)

    if name in SUMS:
        session, result, inputs = sum_session(SUMS[name], adapt)
    else:
        program, whole = programs.load(folder)
        if replicas > 1:
            inputs = {key: values.reshape(replicas, -1, *values.shape[1:]) for key, values in whole.items()}
        else:
            inputs = {key: np.ascontiguousarray(own_share(values, shares)) for key, values in whole.items()}
        session, result = programs.training_session(program, adapt=adapt), program.loss
        session.weightsFromHost()
    anchors = session.initAnchorArrays()
    stepio = popart.PyStepIO(inputs, anchors)

    def step() -> list[float]:
        session.run(stepio)
        return [float(one.reshape(-1)[0]) for one in anchors[result].reshape(replicas, -1)]

    def report() -> dict[str, Any]:
        return json.loads(session._report())

    return step, report


def ddp(kind: str, name: str, shares: int) -> Step:
    """A step of the same network in PyTorch."""
    import networks
    import torch
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", rank=rank(), world_size=int(os.environ["WORLD_SIZE"]))
    benchmark = networks.BENCHMARKS[name]
    network, inputs, labels = networks.instantiate(benchmark)
    inputs, labels = (None if values is None else own_share(values, shares) for values in (inputs, labels))
    network = DistributedDataParallel(network)
    optimizer = networks.torch_optimizer(benchmark.optimizer, network, fused=True)

    def loss_of(x: torch.Tensor, y: torch.Tensor | None) -> torch.Tensor:
        return networks.loss_of(network(x), y)

    if kind == "ddp_compile":
        loss_of = torch.compile(loss_of)

    def step() -> list[float]:
        loss = loss_of(inputs, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return [float(loss)]

    return step


def profile_of(report: dict[str, Any]) -> dict[str, Any]:
    """Nanoseconds of each run: of the whole run, of exchanges in progress, and of waiting for them."""
    runs = report["runs"][CHECKED_STEPS:]
    return {
        "run_ns": [run["nanoseconds"] for run in runs],
        "exchange_ns": [run["exchangeNanoseconds"] for run in runs],
        "wait_ns": [run["exchangeWaitNanoseconds"] for run in runs],
        "exchange_bytes": report["memory"]["exchange"],
    }


def serve(
    kind: str, name: str, folder: str, shares: int, answer: Callable[[dict[str, Any]], None], requests: TextIO
) -> None:
    """Build, answer the first losses, then requests until the driver closes the socket."""
    from worker import resident

    start = time.perf_counter()
    report: Callable[[], dict[str, Any]] | None = None
    if kind.startswith("ddp"):
        step = ddp(kind, name, shares)
    else:
        step, report = ours(kind, name, Path(folder), shares)
    losses = list(zip(*(step() for _ in range(CHECKED_STEPS)), strict=True))
    first = {"losses": losses, "build_s": time.perf_counter() - start, "peak_bytes": resident()["VmHWM"]}
    if kind == "profiled" and report:
        for _ in range(PROFILED_RUNS):
            step()
        first |= {"profile": profile_of(report()), "report": report()}
    answer(first)
    for line in requests:
        request = json.loads(line)
        for _ in range(request["warm_up"]):
            step()
        times_ms = []
        for _ in range(request["calls"]):
            begin = time.perf_counter()
            step()
            times_ms.append((time.perf_counter() - begin) * 1e3)
        answer({"times_ms": times_ms})


def main() -> None:
    """Command line of the process."""
    kind, name, folder, shares, path = sys.argv[1:]
    processors = sorted(os.sched_getaffinity(0))
    threads = int(shares) if kind == "threads" else 1
    own = processors[:threads] if kind == "threads" else [processors[rank() % len(processors)]]
    os.sched_setaffinity(0, own)
    os.environ["POPART_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(threads)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        stream = connection.makefile("rw")

        def answer(message: dict[str, Any]) -> None:
            stream.write(json.dumps(message) + "\n")
            stream.flush()

        answer({"rank": rank(), "pid": os.getpid()})
        try:
            serve(kind, name, folder, int(shares), answer, stream)
        except Exception as error:
            text = str(error).strip().splitlines() or [""]
            answer({"error": f"{type(error).__name__}: {text[0][:300]}"})
            raise


if __name__ == "__main__":
    main()
