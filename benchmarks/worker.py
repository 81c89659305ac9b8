"""One implementation in a separate process, controlled by bench.py over stdin and stdout with one JSON line per turn.

``worker.py IMPLEMENTATION NAME`` builds, answers ``{"build_s", "result"}`` and then, for each request
``{"seconds": S, "warm_up": W}``, runs for about W seconds, then for about S seconds, and answers the ``{"times_ms"}``
of the latter. ``worker.py transform ROW NETWORK FOLDER`` does so for both forms of a row of `transforms`, in one
process; ``worker.py operators`` answers each request with the times of one operator. The other tasks (`TASKS`) answer
once and end. A failure is answered as ``{"error"}``. Libraries that print do so to stderr, because stdout is used for
the answers.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

THREADS = 2
PAUSE_S = 0.05


def answer(stream: TextIO, message: dict[str, Any]) -> None:
    """Send one line."""
    stream.write(json.dumps(message) + "\n")
    stream.flush()


def measure(call: Callable[[], object], seconds: float) -> list[float]:
    """Milliseconds of each call made during about `seconds`; at least one call."""
    times = []
    start = end = time.perf_counter()
    while not times or end - start < seconds:
        begin = end
        call()
        end = time.perf_counter()
        times.append((end - begin) * 1e3)
    return times


def compile_time(implementation: str, name: str, repetitions: str) -> dict[str, Any]:
    """Milliseconds (elapsed, and of CPU) from construction to the end of the first call, in fresh sessions."""
    import implementations

    times, cpu_times = [], []
    for _ in range(int(repetitions)):
        runner = implementations.make(implementation, name)
        start, cpu = time.perf_counter(), time.process_time()
        runner.open()
        runner.call()
        times.append((time.perf_counter() - start) * 1e3)
        cpu_times.append((time.process_time() - cpu) * 1e3)
    return {"times_ms": times, "cpu_times_ms": cpu_times}


def load_time(name: str, repetitions: str) -> dict[str, Any]:
    """Milliseconds of ``prepareDevice(False)`` by turns: running all passes, and from the folder of stored programs.

    Measured for two sessions again and again, and each time for a new session, which has not read its constants before
    and destroys no earlier program.
    """
    import exported_programs as programs
    import implementations

    program = implementations.make("ours", name)._program
    make = programs.inference_session if program.rule is None else programs.training_session
    with tempfile.TemporaryDirectory() as folder:
        folders = {"compiling": "", "loading": folder}
        times: dict[str, list[float]] = {kind + suffix: [] for suffix in ("", "_new") for kind in folders}

        def opened(kind: str) -> Any:
            os.environ["POPART_CACHE_DIR"] = folders[kind]
            return make(program, prepare=False)

        def prepare(session: Any, results: list[float]) -> None:
            start = time.perf_counter()
            session.prepareDevice(loadEngine=False)
            results.append((time.perf_counter() - start) * 1e3)

        sessions = {kind: opened(kind) for kind in folders}
        for session in sessions.values():
            session.prepareDevice(loadEngine=False)
        for _ in range(int(repetitions)):
            for kind, session in sessions.items():
                prepare(session, times[kind])
        del session, sessions
        for _ in range(int(repetitions)):
            for kind in folders:
                prepare(opened(kind), times[kind + "_new"])
    return times


def export(name: str, folder: str, share: str = "1") -> dict[str, Any]:
    """Write one of our programs, for a batch divided by `share`, and the inputs of the whole batch as files."""
    from dataclasses import replace

    import exported_programs as programs
    import implementations

    networks = implementations.networks
    benchmark = networks.BENCHMARKS[name]
    if benchmark.training:
        program, inputs = implementations.training_program(benchmark)
        if int(share) > 1:
            rows = len(inputs["input"]) // int(share)
            part = replace(benchmark, inputs=lambda: benchmark.inputs()[:rows])
            program, _ = implementations.training_program(part)
    else:
        network, values, _ = networks.instantiate(benchmark)
        program = programs.Program(implementations.export(network, values, training=False))
        inputs = {"input": values.numpy()}
    programs.save(program, inputs, Path(folder))
    return {"model": str(Path(folder) / "model.onnx")}


def resident() -> dict[str, int]:
    """Bytes of this process in RAM now (VmRSS), of these from files (RssFile), and at its peak (VmHWM)."""
    text = Path("/proc/self/status").read_text()
    found = {key: re.search(rf"{key}:\s+(\d+) kB", text) for key in ("VmRSS", "RssFile", "VmHWM")}
    return {key: int(match.group(1)) << 10 for key, match in found.items() if match}


def growth(start: Callable[[], Any], warm_up: str) -> dict[str, Any]:
    """Bytes that a session reports, and growth of the process from before its construction to after two runs.

    `start` makes the session and its inputs and outputs, and runs it twice. The program in `warm_up` runs first, so
    that the thread pool is in memory. Memory that it and the imports freed is returned to the system before the
    measurement; otherwise the session could take it without growth. Pages of files are not counted: here they are the
    code of the library, which all processes share.
    """
    import ctypes

    import exported_programs as programs

    run_twice(*programs.load(Path(warm_up)))
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    before = resident()
    started = start()
    after = resident()
    reported = {}
    for line in started[0].getSummaryReport().splitlines():
        if line.endswith(" bytes"):
            key, _, value = line.strip().rpartition(": ")
            reported[key] = int(value.split()[0])
    code = after["RssFile"] - before["RssFile"]
    return {
        "reported": reported,
        "growth": after["VmRSS"] - before["VmRSS"] - code,
        "peak": after["VmHWM"] - before["VmRSS"] - code,
    }


def run_twice(program: Any, data: dict[str, Any]) -> tuple[Any, ...]:
    """A session that has run twice, and its inputs and outputs."""
    import exported_programs as programs
    import popart

    session = programs.open_session(program)
    anchors = session.initAnchorArrays()
    stepio = popart.PyStepIO(data, anchors)
    for _ in range(2):
        session.run(stepio)
    return session, anchors, stepio


def memory(folder: str, warm_up: str) -> dict[str, Any]:
    """Bytes that the session of an exported program reports, and the growth of the process."""
    import exported_programs as programs

    program, inputs = programs.load(Path(folder))
    return growth(lambda: run_twice(program, inputs), warm_up)


def peer_memory(implementation: str, name: str) -> dict[str, Any]:
    """Growth of the process of one implementation, as `growth` counts it: from before `open` to after two calls."""
    import ctypes

    import implementations

    runner = implementations.make(implementation, name)
    implementations.torch.ones(256, 256).matmul(implementations.torch.ones(256, 256))  # starts its threads
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident()
    runner.open()
    for _ in range(2):
        runner.call()
    after = resident()
    code = after["RssFile"] - before["RssFile"]
    return {"growth": after["VmRSS"] - before["VmRSS"] - code, "peak": after["VmHWM"] - before["VmRSS"] - code}


def transform_memory(row: str, side: str, network: str, folder: str, warm_up: str, limit: str) -> dict[str, Any]:
    """The same for one form of a row of `transforms`; `side`: ``ours`` or ``plain``."""
    import training_forms

    import transforms

    form = getattr(transforms.BY_NAME[row], side)
    program, data = form.load(Path(folder), network)

    def start() -> tuple[Any, ...]:
        training = training_forms.Training(form, program, data, int(limit))
        for _ in range(2):
            training.call()
        return training.session, training

    with training_forms.environment(form.environment):  # the session's report reads it too
        return growth(start, warm_up)


def inline_compile_time(calls: str, repetitions: str) -> dict[str, Any]:
    """Microseconds of compilation by inlined operator, for `calls` calls of one graph."""
    import loops

    loops.inline_compile_us(1)
    return {"us_per_operator": [loops.inline_compile_us(int(calls)) for _ in range(int(repetitions))]}


def popxl_build(kind: str, count: str, repetitions: str) -> dict[str, Any]:
    """Microseconds of Python by operator of popxl programs (`building`)."""
    import building

    return building.popxl_build(kind, count, repetitions)


def popxl_transformer12(kind: str, repetitions: str) -> dict[str, Any]:
    """Milliseconds of the parts of building and compiling a training program of twelve layers (`building`)."""
    import building

    return building.popxl_transformer12(kind, repetitions)


def startup(implementation: str, model: str) -> dict[str, Any]:
    """Milliseconds of the library's import and from there to the first result of one tiny operator."""
    start = time.perf_counter()
    if implementation == "ours":
        import numpy as np
        import popart
    elif implementation == "onnxruntime":
        import numpy as np
        import onnxruntime
    elif implementation == "openvino":
        import numpy as np
        import openvino
    elif implementation == "jax":
        import jax
        import jax.numpy as jnp
    else:
        import torch
    imported = time.perf_counter()
    if implementation == "ours":
        session = popart.InferenceSession(
            model, popart.DataFlow(1, ["output"]), popart.DeviceManager().createCpuDevice()
        )
        session.prepareDevice()
        session.run(popart.PyStepIO({"input": np.ones(1, np.float32)}, session.initAnchorArrays()))
    elif implementation == "onnxruntime":
        onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(
            None, {"input": np.ones(1, np.float32)}
        )
    elif implementation == "openvino":
        openvino.compile_model(model, "CPU")([np.ones(1, np.float32)])
    elif implementation == "jax":
        jax.jit(lambda x: x + 1)(jnp.ones(1)).block_until_ready()
    else:
        (torch.ones(1) + torch.ones(1)).numpy()
    end = time.perf_counter()
    return {"import_ms": (imported - start) * 1e3, "first_result_ms": (end - imported) * 1e3}


def same_bits(folder: str, threads: str, repetitions: str, steps: str) -> dict[str, Any]:
    """Digests of losses, weights and optimizer state, and the differences between repetitions."""
    os.environ["POPART_NUM_THREADS"] = threads
    import same_bits

    digests, different = same_bits.repeat(Path(folder), int(repetitions), int(steps))
    return {"digests": digests, "different": different}


def thread_use(folder: str, *threads: str) -> dict[str, Any]:
    """Thread reports of the program for each of the given numbers of threads; nothing is run."""
    import exported_programs as programs

    program, _ = programs.load(Path(folder))
    open_session = programs.inference_session if program.rule is None else programs.training_session
    reports = {}
    for count in threads:
        os.environ["POPART_NUM_THREADS"] = count
        reports[count] = open_session(program, load=False).getThreadReport()
    return {"reports": reports}


def work(name: str) -> dict[str, Any]:
    """The least computation and data movement of one call."""
    import networks

    benchmark = networks.BENCHMARKS[name]
    return {"flops": networks.flops_of(benchmark), "bytes": networks.bytes_of(benchmark)}


def serve(implementation: str, name: str, stream: TextIO) -> None:
    """Build, report, then answer requests until stdin closes."""
    import implementations

    start = time.perf_counter()
    runner = implementations.build(implementation, name)
    result = runner.check(implementations.trains(name))
    answer(stream, {"build_s": time.perf_counter() - start, "result": result.reshape(-1).tolist()})
    for line in sys.stdin:
        request = json.loads(line)
        measure(runner.call, request["warm_up"])
        answer(stream, {"times_ms": measure(runner.call, request["seconds"])})


def serve_transform(row: str, network: str, folder: str, stream: TextIO) -> None:
    """Both forms of a row: their plans, the difference of their losses, then the times of turns of either."""
    import transforms

    pair = transforms.Pair(transforms.BY_NAME[row], network, Path(folder))
    answer(stream, pair.facts())
    for line in sys.stdin:
        request = json.loads(line)
        time.sleep(PAUSE_S)  # until threads of the other form stop spinning
        answer(stream, {"times_ms": measure(pair.sides[request["side"]].call, request["seconds"])})


def serve_operators(stream: TextIO) -> None:
    """Times of one operator in all implementations (`operators`) for each request, the arguments of `operator_times`.

    The libraries are imported once. A failure is answered as an error, and the next request is served.
    """
    import gc

    import operators

    for line in sys.stdin:
        try:
            message = operators.operator_times(*json.loads(line))
        except Exception as error:
            message = failure(error)
        answer(stream, message)
        gc.collect()  # sessions with large arrays


def failure(error: Exception) -> dict[str, Any]:
    """The answer that reports a failure."""
    text = str(error).strip().splitlines() or [""]
    return {"error": f"{type(error).__name__}: {text[0][:300]}"}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "compile_time": compile_time,
    "export": export,
    "inline_compile_time": inline_compile_time,
    "load_time": load_time,
    "memory": memory,
    "peer_memory": peer_memory,
    "popxl_build": popxl_build,
    "popxl_transformer12": popxl_transformer12,
    "same_bits": same_bits,
    "startup": startup,
    "thread_use": thread_use,
    "transform_memory": transform_memory,
    "work": work,
}


def main() -> None:
    """Command line of the worker."""
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    task, *arguments = sys.argv[1:]
    try:
        if task in TASKS:
            answer(stream, TASKS[task](*arguments))
        elif task == "transform":
            serve_transform(*arguments, stream)
        elif task == "operators":
            serve_operators(stream)
        else:
            serve(task, arguments[0], stream)
    except Exception as error:
        answer(stream, failure(error))


if __name__ == "__main__":
    main()
