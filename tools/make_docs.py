"""Generate files from the tables of the library: pages of docs/ or parts of them, and the type stubs of operators.

Usage: make_docs.py [--check]. With --check nothing is written; the exit code is 1 when a file differs.
"""

import argparse
import functools
import inspect
import os
import re
import sys
from collections import Counter
from pathlib import Path

import popart_core
from make_builder_methods import REQUIRED_INTS, REQUIRED_STRINGS, SUBGRAPHS
from popart import loss_registry, onnx_forms, opset_methods, opsets, optim

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.cases.fallbacks import ALLOWED  # noqa: E402

MADE = "<!-- Made by ./dev docs from {source}; edit there. -->\n"

OPTIONS = """# Session options

Every member of `SessionOptions` and its effect in this implementation.

- **built**: works as documented for PopART.
- **refused**: the values named raise `popart_exception` when the session is made; the message names the option and says
  what to do. These values would change results, or ask for something that is not built.
- **warned**: the values named are accepted, and a warning (once per process) names the option and the effect that is
  missing. Results do not depend on them; they would save memory or time, or write files.
- **no effect**: results, planned memory and the serialised IR are the same with any value of the option.
  `tests/python/popart/test_options.py` tests them all.

If a field of a settings struct is not listed, the row of the struct applies. Values that contradict each other (for
example `accumulationFactor` above 1 without `enableGradientAccumulation`) are always refused.

The value behind `=` is the default.
"""

KEYS = """
## Keys of the option maps

`SessionOptions` has six maps from strings to strings, which PopART passes to Poplar's libraries. The table lists the
known keys. Any other key causes a warning that names the nearest known one. A name that ends in `*` means all keys that
begin with the letters before it. A *warned* key causes a warning unless its value is `false`, `0` or `none`.
"""

MARKS = """
## Marks of single nodes

The marks that these methods of the Builder set are kept in the model and have no effect here. A warning (once per
process) names the method and the first tensor.

| Method | What does not happen |
|---|---|
"""

PATTERNS = """
## Patterns

Every name of `Patterns`. **rewrite**: the documented rewrite, tested in `tests/transforms` or `tests/unit/patterns`.
The others are accepted: other parts of the compiler do the same, or they have no meaning here.

| Pattern | State | Remarks |
|---|---|---|
"""

ENVIRONMENT = """# Environment variables

All variables that the library and its Python packages read. An empty variable counts as unset. The tests read more
variables ([testing.md](testing.md)).
"""

ON_REF = """# Operators on the reference backend

The CPU backend has its own kernel for every operator in which networks spend time. The operators in this table run on
the reference backend: plain loops on one thread that define what each operator means. A test fails if any other
operator runs there. `popart-inspect`, and the log at level INFO, name the operators of a program that do.

If a row has a case, the operator runs on the reference backend only in that case. The text is the reason that the CPU
backend gives when it has no kernel.

| Operator | Case | Why that is acceptable |
|---|---|---|
"""


def sentence(text: str) -> str:
    """Turn a remark into a sentence: with a capital letter and a full stop."""
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def row(*cells: str) -> str:
    """One line of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


# Title of a section of a page -> pattern of the names in it. A name is in the first section that matches.
OPTION_SECTIONS = {
    "The model, and what trains in it": r"trainable|frozen|updatable|constantWeights|followTraining|strictOp|groupNorm"
    r"|enableConstantFolding|customCodelet|enableInplaceAmbiguity",
    "Numbers": r"precision|enableFloatingPoint|enableStochastic|.*R(ng|NG)State|enable(Non)?Stable|partialsType"
    r"|.*LossScal|throwIf|enableSupportedData|enableFullyConnected",
    "Gradient accumulation and weight updates": r".*[aA]ccumulation(Factor|AndReplication)|enableGradientAccumulation"
    r"|accumulateOuter|mergeVar|looseThreshold|delayVar|decomposeGradSum|scheduleNonWeight|meanAccumulation|autodiff",
    "Memory": r"autoRecomputation|explicitRecomputation|.*LocationSettings|executionPhase|batchSerial"
    r"|enableSerializedMat|numIOTiles|disable(GradAccumulation|OptimizerState)",
    "Pipelines and placement": r"enablePipelining|virtualGraph|createImplicit|stashAll|useLoopCandidate"
    r"|enableExplicitMain",
    "Replicas": r".*[rR]eplica|enableDistributed|enableMergeExchange|enableEfficientOverlap",
    "Data between the host and the device": r"rearrange|bufferingDepth|.*Prefetch|.*Buffering|useHostCopy|synthetic"
    r"|aliasZero|groupHost",
    "Compiled programs": r"compil|cachePath|enableEngineCaching|enableVariablesCaching",
    "Measuring, and files for people": r"logDir|.*[dD]ot|separateCall|exportPoplar|instrument|hardwareInstr"
    r"|serializedPop",
    "Repeated parts, and the order of operations": r".*[oO]utlin|subgraphCopying|kahn|timeLimit|swapLimit|transitive",
    "Maps of options": r"(engine|convolution|lstm|matmul|report|gcl)Options$",
    "Other": r"opx|experimental|developer",
}
VARIABLE_SECTIONS = {
    "Threads, memory and devices": r"POPART_(NUM_|VIRTUAL|MAX_|REMOTE)|POPLAR_|POPXL_OFFLINE",
    "Compiled programs": r".*CACHE|POPART_PRELOAD",
    "Log": r"POPART_LOG",
    "Looking inside": r"POPART_(DOT|IR_|PASS|DISABLE|STEP|PROFILE)",
    "Several processes": r"POPDIST|OMPI|PMIX|SLURM|WORLD|POPART_MPI",
}


def sections(entries: dict[str, str], patterns: dict[str, str]) -> str:
    """Entries by name as lists, below the title of the first pattern that matches the name."""
    lists: dict[str, str] = dict.fromkeys(patterns, "")
    for name, text in entries.items():
        title = next((title for title, pattern in patterns.items() if re.match(pattern, name)), None)
        if title is None:
            raise SystemExit(f"make_docs.py: '{name}' is in no section of its page. Add it to a pattern")
        lists[title] += text
    return "".join(f"\n## {title}\n\n{text}" for title, text in lists.items() if text)


def default_of(option: str) -> str:
    """The default of a member of SessionOptions as a program writes it; empty for a struct."""
    value = functools.reduce(getattr, option.split("."), popart_core.SessionOptions())
    if isinstance(value, bool | int | float | str):
        return f" = `{value!r}`"
    if hasattr(value, "name"):
        return f" = `{type(value).__name__}.{value.name}`"
    return f" = `{list(value)}`" if isinstance(value, list | set) else ""


def option_text(name: str, rows: list[tuple[str, str, str]]) -> str:
    """The entry of an option: name, default, and a remark for each of its states."""
    parts = []
    for kind, values, remark in rows:
        state = kind
        if values:
            state += " if it is set" if values == "any" else f" if the value is {values}"
        parts.append(f"*{state[0].upper()}{state[1:]}*: {sentence(remark)}" if remark else f"*{state}*.")
    return f"- `{name}`{default_of(name)}\\\n" + "\\\n".join(f"  {part}" for part in parts) + "\n"


def options_page() -> str:
    """docs/options.md."""
    page = MADE.format(source="src/pipeline/options_table.cpp and option_keys.cpp") + OPTIONS
    rows: dict[str, list[tuple[str, str, str]]] = {}
    for name, kind, values, remark in popart_core._optionRows():
        rows.setdefault(name, []).append((kind, values, remark))
    page += sections({name: option_text(name, of) for name, of in rows.items()}, OPTION_SECTIONS)
    page += KEYS
    keys: dict[str, dict[tuple[str, str], list[str]]] = {}
    for name, key, kind, remark in popart_core._optionKeys():
        keys.setdefault(name, {}).setdefault((kind, sentence(remark)), []).append(f"`{key}`")
    for name, texts in keys.items():
        page += f"\n### {name}\n\n"
        for (kind, remark), names in texts.items():
            page += f"- {', '.join(names)}\\\n  *{kind[0].upper()}{kind[1:]}*: {remark}\n"
    page += MARKS
    for name, remark in popart_core._nodeMarks():
        page += row(f"`{name}`", sentence(remark))
    page += PATTERNS
    for names, state, remark in popart_core._patternNotes():
        page += row(", ".join(f"`{name}`" for name in names.split(", ")), state, remark)
    return page


def environment_page() -> str:
    """docs/environment.md."""
    page = MADE.format(source="src/base/environment.cpp") + ENVIRONMENT
    entries = {}
    for name, fallback, meaning in popart_core._environmentVariables():
        without = "" if fallback in ("", "none") else f", default: {fallback}"
        entries[name] = f"- `{name}`{without}\\\n  {meaning}\n"
    return page + sections(entries, VARIABLE_SECTIONS)


def on_ref_page() -> str:
    """docs/operators-on-ref.md."""
    page = MADE.format(source="tests/cases/fallbacks.py") + ON_REF
    for (name, case), why in sorted(ALLOWED.items()):
        page += row(f"`{name}`", case or "every", sentence(why))
    return page


BEGIN, END = "<!-- make_docs.py: begin -->\n", "<!-- make_docs.py: end -->\n"


def operators_read() -> Counter[str]:
    """How many operators of each domain a model may have; versions of one operator count once."""
    types = {(operator.domain, operator.type) for operator in popart_core.getSupportedOperations(False)}
    return Counter(domain for domain, _ in types)


def options_by_state() -> Counter[str]:
    """How many session options there are in each state; an option with values of several states counts in each."""
    return Counter(kind for _, kind in {(name, kind) for name, kind, _, _ in popart_core._optionRows()})


def counted(counts: Counter[str]) -> str:
    """Names and numbers, the largest number first."""
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


def is_optimizer(made: type) -> bool:
    """Whether a class is an optimizer that programs can make."""
    return issubclass(made, optim.Optimizer) and made.__name__ in optim.__all__ and made is not optim.Optimizer


def status_page() -> str:
    """docs/status.md, whose table of counts is made here; everything else on the page is written by hand."""
    page = (ROOT / "docs/status.md").read_text()
    optimizers = [made.__name__ for made in vars(optim).values() if inspect.isclass(made) and is_optimizer(made)]
    table = row("What", "Which") + "|---|---|\n"
    table += row("Newest ONNX operator set", str(popart_core._newestOnnxOpset()))
    table += row("Operators by domain", counted(operators_read()))
    table += row("Losses by name", ", ".join(f"`{name}`" for name in loss_registry.names()))
    table += row("Optimizers of `popart.optim`", ", ".join(f"`{name}`" for name in optimizers))
    table += row("Session options by state", counted(options_by_state()))
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return page[:begin] + table + page[end:]


STUB = """# Made by ./dev docs from opset_methods.py.
from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np
import popart_core

from popart.builder import Builder

_Ids = str | Sequence[str]
_Debug = str | popart_core.DebugContext
OPSETS: range

def debug_name_of(debug_context: Any) -> str: ...
def opset_class(version: int) -> type[AiOnnx]: ...

class Opset:
    def __init__(self, core: Any) -> None: ...
    @property
    def version(self) -> int: ...
"""


def parameter_type(name: str, default: object) -> str:
    """The type of a parameter of a builder method, from its default value or its name."""
    if name == "args":
        return "_Ids"
    if name in ("debugContext", "debugName"):
        return "_Debug"
    if name in SUBGRAPHS | {"callee", "callback"}:
        return "Builder"
    if name == "value":
        return "np.ndarray | Sequence[Any] | float | int | str"
    if name in opset_methods.FLOATS_ATTRIBUTES:
        return "Sequence[float]"
    if name in opset_methods.STRINGS_ATTRIBUTES:
        return "Sequence[str]"
    if isinstance(default, list | tuple) or name in REQUIRED_INTS:
        return "Sequence[int]"
    if isinstance(default, str) or (name in REQUIRED_STRINGS and not isinstance(default, int)):
        return "str"
    if isinstance(default, float) or name in opset_methods.FLOAT_ATTRIBUTES or name == "lambda_":
        return "float"
    if default is None:
        return "Any"
    return "int | Enum" if "type" in name or "reduction" in name else "int"


def method_stub(name: str, method: object) -> str:
    """The declaration of one builder method."""
    words = ["self"]
    for parameter in inspect.signature(method).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            words.append(f"*{parameter.name}: Any")
            continue
        word = f"{parameter.name}: {parameter_type(parameter.name, parameter.default)}"
        if parameter.default is not parameter.empty:
            optional = " | None" if parameter.default is None and not word.endswith("Any") else ""
            simple = parameter.default is None or isinstance(parameter.default, str | int | float)
            word += f"{optional} = {repr(parameter.default) if simple else '...'}"
        words.append(word)
    several = "Ids of the outputs." in (method.__doc__ or "")
    result = "list[str]" if several else "None" if "    Nothing.\n" in (method.__doc__ or "") else "str"
    return f"    def {name}({', '.join(words)}) -> {result}: ...\n"


STUB_KINDS = {
    "int": "int",
    "float": "float",
    "string": "str",
    "ints": "Sequence[int]",
    "floats": "Sequence[float]",
    "strings": "Sequence[str]",
    "tensor": "np.ndarray | Sequence[Any] | float | int | str",
    "graph": "Builder",
}
OLDEST_VERSIONED = 7


def versioned_method_stub(name: str) -> str:
    """The declaration of a method of AiOnnx: the parameters of all operator sets."""
    found, versions = onnx_forms.union_parameters(name, OLDEST_VERSIONED, popart_core._newestOnnxOpset())
    kinds = {key: kind for method in reversed(versions) for key, kind in (method.kinds or {}).items()}
    kinds |= {"to": "string", "num_outputs": "int", "value": "tensor", "is_value_sparse": "int"}
    required, optional = [], []
    for key, parameters in found.items():
        kind = STUB_KINDS[kinds[key]]
        if len(parameters) == len(versions) and all(p.default is p.empty for p in parameters):
            required.append(f"{key}: {kind}")
        else:
            optional.append(f"{key}: {kind}{' | None' if parameters[0].default is None else ''} = ...")
    words = ["self", *(["args: _Ids"] if versions[0].has_args else []), *required, *optional]
    counted = found.get("num_outputs")
    several = versions[0].outputs > 1 or (counted and counted[0].default is not None)
    result = "list[str]" if several else "Any" if counted else "str"
    return f"    def {name}({', '.join(words)}, debugContext: _Debug = '') -> {result}: ...\n"


def versioned_stub() -> str:
    """Stub of the class AiOnnx, for every operator set: type checkers cannot know which one a model has."""
    newest = popart_core._newestOnnxOpset()
    methods = {name for opset in range(OLDEST_VERSIONED, newest + 1) for name in onnx_forms.methods_of(opset)}
    return "\nclass AiOnnx(Opset):\n" + "".join(versioned_method_stub(name) for name in sorted(methods))


def opset_stubs() -> str:
    """python/popart/opsets.pyi."""
    text = STUB
    text += versioned_stub()
    classes = [*opsets.NAMESPACES.values(), opsets.AiGraphcoreOpset1, opsets.AiOnnxMlOpset1]
    for made in classes:
        methods = sorted((name, getattr(made, name)) for name in vars(made) if not name.startswith("_"))
        text += f"\nclass {made.__name__}(Opset):" + ("\n" if methods else " ...\n")
        text += "".join(method_stub(name, method) for name, method in methods)
    text += "\nclass NewerOpsets:\n"
    text += '    """Attributes of a Builder for the operator sets without a class of their own."""\n\n'
    for version in range(max(opsets.NAMESPACES) + 1, popart_core._newestOnnxOpset() + 1):
        text += f"    @property\n    def aiOnnxOpset{version}(self) -> AiOnnx: ...\n"
    return text + "\nNAMESPACES: dict[int, type[Opset]]\n"


PAGES = {
    "docs/options.md": options_page,
    "docs/environment.md": environment_page,
    "docs/operators-on-ref.md": on_ref_page,
    "docs/status.md": status_page,
    "python/popart/opsets.pyi": opset_stubs,
}


def main() -> int:
    """Write or check all files; returns the exit code."""
    parser = argparse.ArgumentParser(description="Write the files that are made from tables.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page differs")
    check = parser.parse_args().check
    for variable, *_ in popart_core._environmentVariables():
        os.environ.pop(variable, None)  # defaults must not depend on them
    stale = []
    for name, make in PAGES.items():
        path, page = ROOT / name, make()
        if path.is_file() and path.read_text() == page:
            continue
        stale.append(name)
        if not check:
            path.write_text(page)
    if check and stale:
        print(f"{', '.join(stale)}: not what the tables say. ./dev docs mends it")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
