"""Draw the pictures of the documentation as SVG. The numbers come from programs, mostly those in the guides.

Usage: make_pictures.py [FOLDER], default docs/pictures. `PICTURES` has a function for each file. Ink has the colour of
the surrounding text (`currentColor`): docs/conf.py inserts the pictures into the pages of the site, and a picture that
is viewed alone chooses a colour by the reader's setting. Fills are readable on light and dark backgrounds.
"""

import contextlib
import io
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
import popart
import popxl
import popxl_addons as addons
from markdown_it import MarkdownIt
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.ticker import MaxNLocator
from popxl import ops

ROOT = Path(__file__).resolve().parents[1]
INK = "#010203"  # replaced by the colour of the text
BLUE, ORANGE, GREEN = "#2f74c0", "#b5651d", "#2e8b57"  # white letters are readable on them
STYLE = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "legend.frameon": False,
    "savefig.transparent": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "pictures",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
ALONE = (
    '<style class="alone">svg { color: #24292f } @media (prefers-color-scheme: dark) { svg { color: #d0d7de } }</style>'
)

# ---- numbers from programs


def page_names(page: str, count: int) -> dict[str, Any]:
    """The names that the first `count` Python blocks of a page define."""
    names: dict[str, Any] = {"__name__": "page"}
    blocks = [token for token in MarkdownIt().parse((ROOT / page).read_text()) if token.info == "python"]
    with contextlib.redirect_stdout(io.StringIO()):
        for block in blocks[:count]:
            exec(compile(block.content, page, "exec"), names)
    return names


def tour_losses() -> np.ndarray:
    """The loss of every batch, of shape (runs, batches of a run), when the network of the tour is trained."""
    names = page_names("docs/tour.md", 4)
    training, arrays = names["training"], names["losses"]
    training.resetHostWeights(names["builder"].getModelProto())
    training.weightsFromHost()
    losses = []
    for start in range(0, len(names["points"]), 10):
        inputs = {
            names[tensor]: names[data][start : start + 10] for tensor, data in (("x", "points"), ("label", "labels"))
        }
        training.run(popart.PyStepIO(inputs, arrays))
        losses.append(arrays[names["loss"]].copy())
    return np.array(losses)


def memory_over_programs() -> dict[str, list[int]]:
    """Bytes of activations and gradients at every step of the program of docs/guides/making-it-fit.md, by method."""
    names = page_names("docs/guides/making-it-fit.md", 1)
    kinds = {"plain": popart.RecomputationType.NoRecompute, "computed again": popart.RecomputationType.Standard}
    result = {}
    for name, kind in kinds.items():
        options = popart.SessionOptions()
        options.autoRecomputation = kind
        report = names["train"](options, batches=8)[1].getReport()
        result[name] = [step.notAlwaysLiveBytes for step in report.compilation.livenessProgramSteps]
    return result


def pipeline_program(stages: int, micro_batches: int) -> popxl.Graph:
    """A pipeline that adds 1 on each stage, as a graph of calls."""
    ir = popxl.Ir()
    ir.num_host_transfers = micro_batches
    with ir.main_graph, popxl.in_sequence():
        source = popxl.h2d_stream((4,), popxl.float32, "x")
        result = popxl.d2h_stream((4,), popxl.float32, "y")
        x: popxl.Tensor | None = None
        with addons.pipelined_execution(micro_batches) as pipeline:
            for i in range(stages):
                with pipeline.stage(i), popxl.ipu(i):
                    x = (ops.host_load(source) if x is None else x) + 1
                    if i + 1 < stages:
                        x = x.copy_to_ipu(i + 1)
                    else:
                        ops.host_store(result, x)
    return ir.main_graph.called_graphs[0]


def pipeline_cycles(graph: popxl.Graph) -> list[list[int]]:
    """The stages that work in each cycle of a pipeline, in order."""
    cycles: list[list[int]] = [[]]
    for called, times in calls(graph._pb_graph):
        stage = stage_number(called)
        if stage is None:  # transfers, which separate two cycles, or a loop of full cycles
            cycles += [*(times * [list(stages_below(called))]), []]
        else:
            cycles[-1].append(stage)
    return [cycle for cycle in cycles if cycle]


def calls(graph: Any) -> Iterator[tuple[Any, int]]:
    """Graphs that a graph calls, in order, and how often each is executed in a row."""
    for op in graph.getOpSchedule(True):
        for called in op.getCalledGraphs():
            yield called, op.getTripCountValue() if op.opType() == "Loop" else 1


def stage_number(graph: Any) -> int | None:
    """The number of the stage if the graph is one, otherwise None."""
    found = re.match(r"stage_(\d+)_", graph.id)
    return int(found[1]) if found else None


def stages_below(graph: Any) -> Iterator[int]:
    """Stages that a graph calls, directly or through others."""
    for called, _ in calls(graph):
        stage = stage_number(called)
        if stage is None:
            yield from stages_below(called)
        else:
            yield stage


# ---- pictures


def draw_losses(plot: Axes) -> None:
    """Loss of each batch, and the mean of each run as the tour prints it."""
    losses = tour_losses()
    batches = np.arange(losses.size) + 1
    plot.plot(batches, losses.ravel(), ".-", color=BLUE, linewidth=1, label="batch")
    for run, mean in enumerate(losses.mean(axis=1)):
        ends = np.array([run, run + 1]) * losses.shape[1] + 0.5
        plot.plot(ends, [mean, mean], color=ORANGE, linewidth=2.5, label="mean of a run" if run == 0 else None)
    plot.set(xlabel="batch", ylabel="loss", ylim=(0, None))
    plot.legend()


def draw_memory(plot: Axes) -> None:
    """Memory in use at every step, as shares of the whole program, so that programs of different length compare."""
    for (name, sizes), colour in zip(memory_over_programs().items(), (BLUE, ORANGE), strict=True):
        place = np.linspace(0, 100, len(sizes))
        kib = np.array(sizes) / 1024
        plot.fill_between(place, kib, step="mid", color=colour, alpha=0.25, linewidth=0)
        plot.step(place, kib, where="mid", color=colour, linewidth=2, label=f"{name}: at most {kib.max():.0f} KiB")
    plot.set(
        xlabel="steps of the program, in percent: forward, then backward", ylabel="KiB", ylim=(0, None), xlim=(0, 100)
    )
    plot.legend(loc="upper right")


def draw_pipeline(plot: Axes) -> None:
    """A row for each stage, a column for each cycle; numbers of micro-batches."""
    stages, micro_batches = 3, 7
    cycles = pipeline_cycles(pipeline_program(stages, micro_batches))
    full = [i for i, cycle in enumerate(cycles) if len(cycle) == stages]
    parts = {"fill": (0, full[0]), "full cycles": (full[0], full[-1] + 1), "drain": (full[-1] + 1, len(cycles))}
    done = [0] * stages
    for (name, (first, last)), colour in zip(parts.items(), (ORANGE, BLUE, GREEN), strict=True):
        plot.text((first + last) / 2, -0.25, name, ha="center", va="bottom")
        for cycle in range(first, last):
            for stage in cycles[cycle]:
                plot.add_patch(Rectangle((cycle + 0.05, stage + 0.05), 0.9, 0.9, color=colour, linewidth=0))
                plot.text(cycle + 0.5, stage + 0.5, str(done[stage]), color="white", ha="center", va="center")
                done[stage] += 1
    plot.set(xlim=(0, len(cycles)), ylim=(stages, -0.7), xlabel="cycle")
    plot.set_xticks(np.arange(len(cycles)) + 0.5, [str(i) for i in range(len(cycles))])
    plot.set_yticks(np.arange(stages) + 0.5, [f"stage {i}" for i in range(stages)])
    plot.tick_params(length=0)
    plot.spines[:].set_visible(False)


WAY = (
    ("ONNX file\nBuilder\nPopXL", "your model", GREEN),
    ("Ir", "graphs of operators", BLUE),
    ("Program", "every op has\na kernel", BLUE),
    ("Schedule", "order of the ops", BLUE),
    ("MemoryPlan", "where every\nvalue is stored", BLUE),
    ("Executable", "steps with kernels", BLUE),
    ("Engine", "session.run", ORANGE),
)
ARROWS = ("read", "passes", "order", "plan", "emit", "load")


def draw_way(plot: Axes) -> None:
    """The values between a model and a run (docs/architecture.md)."""
    step, width = 1.65, 1.15
    for i, (name, meaning, colour) in enumerate(WAY):
        plot.add_patch(
            FancyBboxPatch((i * step, 0), width, 1, boxstyle="round,pad=0,rounding_size=0.1", color=colour, linewidth=0)
        )
        plot.text(i * step + width / 2, 0.5, name, color="white", ha="center", va="center", fontsize=9)
        plot.text(i * step + width / 2, -0.12, meaning, ha="center", va="top", fontsize=8)
    for i, name in enumerate(ARROWS):
        ends = {"xy": ((i + 1) * step, 0.5), "xytext": (i * step + width, 0.5)}
        plot.annotate("", **ends, arrowprops={"arrowstyle": "->", "color": INK, "shrinkA": 1, "shrinkB": 1})
        plot.text(i * step + (width + step) / 2, 0.62, name, ha="center", va="bottom", fontsize=8)
    plot.set(xlim=(-0.05, (len(WAY) - 1) * step + width + 0.05), ylim=(-0.65, 1.1))
    plot.axis("off")


# file: function, width and height in inches, description
PICTURES: dict[str, tuple[Callable[[Axes], None], tuple[float, float], str]] = {
    "way-of-the-data.svg": (draw_way, (9, 1.5), "From a model over graphs, schedule and memory plan to a run"),
    "pipeline-cycles.svg": (draw_pipeline, (7, 2.2), "Micro-batches on the stages of a pipeline, cycle by cycle"),
    "memory-over-the-program.svg": (
        draw_memory,
        (7, 3),
        "Memory in use over a training step, plain and computed again",
    ),
    "tour-losses.svg": (draw_losses, (7, 2.8), "The loss of the tour's network falls over 40 batches"),
}


def as_svg(name: str) -> str:
    """A picture as text, without parts that change from day to day; its ids are unique among the pictures."""
    draw, size, title = PICTURES[name]
    with matplotlib.rc_context(STYLE):
        figure, plot = pyplot.subplots(figsize=size, layout="constrained")
        plot.xaxis.set_major_locator(MaxNLocator(integer=True))
        draw(plot)
        text = io.StringIO()
        facts = {name: None for name in ("Creator", "Date", "Format", "Type")}
        figure.savefig(text, format="svg", metadata=facts)
        pyplot.close(figure)
    svg = text.getvalue()[text.getvalue().index("<svg") :]
    # matplotlib sets line joins for every element of a page; here only for elements of the picture
    svg = re.sub(r"<style type=\"text/css\">.*?</style>", "", svg, flags=re.DOTALL)
    head, rest = svg.split(">", 1)
    label = f' role="img" aria-label="{title}" stroke-linejoin="round" stroke-linecap="butt">'
    svg = f"{head}{label}\n {ALONE}{rest}".replace(INK, "currentColor")
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{name.removesuffix('.svg')}-", svg)
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)


def main() -> None:
    """Write all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/pictures"
    folder.mkdir(parents=True, exist_ok=True)
    for name in PICTURES:
        (folder / name).write_text(as_svg(name))


if __name__ == "__main__":
    main()
