#!/usr/bin/env python3
"""Writes the typed operator methods of the C++ builder from the table of the Python builder.

    make_builder_methods.py python/popart/opset_methods.py FOLDER

makes FOLDER/popart/builder.gen.hpp (one class per domain and version, and AiOnnx for the operator set of a model) and
FOLDER/builder.gen.cpp. The build runs it; the files are not stored in the repository. The C++ type of a parameter
follows from its name and default; differences between C++ and Python are stated here.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from make_operator_table import Form, all_forms

INTS = "const std::vector<int64_t> &"
REQUIRED_INTS = set(
    ["kernel_shape", "pooled_shape", "pads", "shape", "ends", "starts", "axes", "sizes", "dimensions", "strides"]
) | {
    "maxSequenceLengths",
    "ngram_counts",
    "ngram_indexes",
}
REQUIRED_STRINGS = {"direction", "to", "mode"}
SUBGRAPHS = {"body", "then_branch", "else_branch"}
OPTIONAL_TYPES = {
    "axes": "std::vector<int64_t>",
    "clip": "float",
    "seed": "float",
    "planType": "std::string",
    "locale": "std::string",
    "collectiveOperator": "CollectiveOperator",
    "commGroup": "CommGroup",
}
ENUMS = {
    ("ai.graphcore", "reduction"): ("ReductionType", "Mean"),
    ("ai.graphcore.scatter", "reduction"): ("ScatterReduction", "Sum"),
    ("ai.graphcore", "remap_type"): ("TensorRemapType", "FwdBwdReverse"),
}
# Parameters that C++ callers must give although Python has a default.
REQUIRED_IN_CPP = {
    ("ai.graphcore", "scaledadd"): {"scale0", "scale1"},
    ("ai.graphcore", "lstm"): {"outputFullSequence"},
    ("ai.graphcore", "dynamicslice"): {"noOverlap"},
    ("ai.graphcore", "dynamicupdate"): {"noOverlap"},
    ("ai.graphcore", "sequenceslice"): {"zeroUnused"},
    ("ai.graphcore", "normalize_image"): {"scale"},
}
DEFAULTED_IN_CPP = {("ai.graphcore", "depthtospace", "mode"): '"DCR"'}
SINGLE_ARGUMENT = {("ai.graphcore", "reshape")}
ATTRIBUTE_NAMES = {"lambda_": "lambda", "collectiveOperator": "op"}


@dataclass(frozen=True)
class Parameter:
    """One attribute of a method: its C++ type, name and default (empty: required)."""

    kind: str
    name: str
    default: str


def literal(value: object) -> str:
    """A C++ literal of a Python one."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, float):
        return f"{value!r}f"
    return str(value)


def required_type(table: ModuleType, domain: str, name: str) -> str:
    """C++ type of a parameter without default."""
    if name in SUBGRAPHS:
        return "const Builder &"
    if name == "num_outputs":
        return "unsigned "
    if name == "value":
        return "const ConstVoidData &"
    if name in table.FLOATS_ATTRIBUTES:
        return "const std::vector<float> &"
    if name in REQUIRED_INTS:
        return INTS
    if name in REQUIRED_STRINGS:
        return "const std::string &"
    return "float " if name in table.FLOAT_ATTRIBUTES else "int64_t "


def parameter(table: ModuleType, domain: str, method: str, name: str, default: ast.expr | None) -> Parameter:
    """The C++ form of one parameter of the table."""
    if default is None:
        given = DEFAULTED_IN_CPP.get((domain, method, name), "")
        return Parameter(required_type(table, domain, name), name, given)
    value = ast.literal_eval(default)
    family = f"{domain}.scatter" if "scatterreduce" in method else domain
    if (family, name) in ENUMS:
        kind, first = ENUMS[family, name]
        return Parameter(f"{kind} ", name, f"{kind}::{first}")
    if name in REQUIRED_IN_CPP.get((domain, method), ()):
        return Parameter("float " if name in table.FLOAT_ATTRIBUTES else "int64_t ", name, "")
    if value is None:
        return Parameter(f"const std::optional<{OPTIONAL_TYPES.get(name, 'int64_t')}> &", name, "{}")
    if isinstance(value, list):
        kind = "int64_t"
        if name in table.FLOATS_ATTRIBUTES:
            kind = "float"
        elif name in table.STRINGS_ATTRIBUTES:
            kind = "std::string"
        return Parameter(f"const std::vector<{kind}> &", name, "{}")
    if isinstance(value, str):
        return Parameter("const std::string &", name, literal(value))
    if name in table.FLOAT_ATTRIBUTES:
        return Parameter("float ", name, literal(float(value)))
    return Parameter("int64_t ", name, literal(int(value)))


def parameters(table: ModuleType, domain: str, opset: int, name: str, method: object) -> list[Parameter]:
    """All parameters between args and debugContext, the required ones first."""
    text = method.signatures[max(first for first in method.signatures if first <= opset)]
    arguments = ast.parse(f"def f({text}): pass").body[0].args
    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + arguments.defaults
    found = [parameter(table, domain, name, a.arg, d) for a, d in zip(arguments.args, defaults, strict=True)]
    return sorted(found, key=lambda p: bool(p.default))


def method_text(table: ModuleType, domain: str, opset: int, name: str, method: object) -> tuple[str, str]:
    """Declaration and definition of one method; the class name in the definition is a placeholder {cls}."""
    params = parameters(table, domain, opset, name, method)
    counted = any(p.name == "num_outputs" for p in params)
    single = (domain, name) in SINGLE_ARGUMENT
    many = counted or method.outputs > 1
    result = "std::vector<TensorId>" if many else "TensorId" if method.outputs else "void"
    first = ["const TensorId &arg" if single else "const std::vector<TensorId> &args"] if method.has_args else []
    words = [*first, *(f"{p.kind}{p.name}" for p in params), "const DebugContext &debugContext"]
    declared = [*first, *(f"{p.kind}{p.name}" + (f" = {p.default}" if p.default else "") for p in params)]
    declaration = f"  {result} {name}({', '.join([*declared, 'const DebugContext &debugContext = {}'])});\n"
    attributes = "".join(
        f'  put(a, "{ATTRIBUTE_NAMES.get(p.name, p.name)}", {p.name});\n' for p in params if p.name != "num_outputs"
    )
    if any(p.name == "is_value_sparse" for p in params):
        attributes = '  put(a, is_value_sparse ? "sparse_value" : "value", value);\n'
    inputs = "{}" if not method.has_args else "{arg}" if single else "args"
    outputs = "num_outputs" if counted else str(method.outputs)
    call = f'addNode("{method.op_type}", {inputs}, {outputs}, a, debugContext)'
    ending = f"  return {call};\n" if many else f"  return {call}.front();\n" if method.outputs else f"  {call};\n"
    definition = f"{result} @::{name}({', '.join(words)}) {{\n  NodeAttributes a;\n{attributes}{ending}}}\n"
    return declaration, definition


# Documentation of all methods in the generated header.
CONTRACT = """// Arguments: ids of the inputs in the operator's order, "" for an absent one; then its attributes by
// name. Empty lists and optionals without value leave an attribute out. Results: ids of the outputs. Meaning, shapes,
// types and defaults are those of the class's operator set (ai.graphcore: PopART's operator reference). Throws
// popart::error for unknown inputs, a wrong number of them, and a second operator set of one domain in a model.
"""


def class_text(table: ModuleType, domain: str, opset: int, methods: dict[str, object]) -> tuple[str, str]:
    """The class of one domain and version, and its definitions."""
    known = {"ai.onnx": f"AiOnnxOpset{opset}", "ai.graphcore": "AiGraphcoreOpset1", "ai.onnx.ml": "AiOnnxMlOpset1"}
    name = known[domain]
    base = "AiGraphcoreOpset1Base" if domain == "ai.graphcore" else "Opset"
    texts = [
        method_text(table, domain, opset, method, row)
        for method, row in methods.items()
        if row.first_opset <= opset <= row.last_opset
    ]
    # One overload is written by hand.
    using = f"  using {base}::replicatedallreduce;\n" if domain == "ai.graphcore" else ""
    header = (
        f"// Operators of {domain} {opset}.\nclass {name} : public {base} {{\n public:\n"
        f'  explicit {name}(Builder &builder) : {base}(builder, "{domain}", {opset}) {{}}\n'
        f"{using}{''.join(d for d, _ in texts)}}};\n"
    )
    return header, "".join(d.replace("@::", f"{name}::") for _, d in texts)


# ---- AiOnnx: every operator of the operator sets from 7 on, with the attributes of all these versions

OLDEST = 7
KINDS = {
    "int": "int64_t",
    "float": "float",
    "string": "std::string",
    "ints": "std::vector<int64_t>",
    "floats": "std::vector<float>",
    "strings": "std::vector<std::string>",
    "tensor": "ConstVoidData",
    "graph": "Builder",
}
COUNTED_BY_NODE = "num_outputs"  # attribute of Split, which follows from the number of outputs


def living_forms(forms: list[Form]) -> list[Form]:
    """The versions in the operator sets from the oldest on."""
    older = [form for form in forms if form.since <= OLDEST]
    return [*older[-1:], *(form for form in forms if form.since > OLDEST)]


def versioned_parameters(forms: list[Form], first: list[str]) -> list[Parameter]:
    """Attributes of all versions: required ones first, then in the order of the fixed classes, then by name."""
    found: dict[str, list] = {}
    for form in forms:
        for attribute in form.attributes:
            if attribute.kind in KINDS and attribute.name != COUNTED_BY_NODE:
                found.setdefault(attribute.name, []).append(attribute)
    order = [name for name in first if name in found]
    parameters = []
    for name in [*order, *sorted(found.keys() - set(order))]:
        attributes = found[name]
        kind = "std::string" if name == "to" else KINDS[attributes[0].kind]
        required = len(attributes) == len(forms) and all(a.required for a in attributes)
        plain = required or kind.startswith("std::vector")
        passed = f"{kind} " if required and kind in ("int64_t", "float") else f"const {kind} &"
        parameters.append(
            Parameter(passed if plain else f"const std::optional<{kind}> &", name, "" if required else "{}")
        )
    return sorted(parameters, key=lambda p: bool(p.default))


def versioned_method(table: ModuleType, method_name: str, forms: list[Form]) -> tuple[str, str]:
    """Declaration and definition of one method of AiOnnx."""
    known = table.AI_ONNX.get(method_name)
    signature = known.signatures[max(known.signatures)] if known else ""
    first = [a.arg for a in ast.parse(f"def f({signature}): pass").body[0].args.args]
    counts = {count for form in forms for count in (form.min_outputs, form.max_outputs)}
    counted = "num_outputs" in first if known else len(counts) > 1
    outputs = known.outputs if known else max(counts)
    parameters = versioned_parameters(forms, first)
    if forms[-1].type == "Constant":
        parameters = [Parameter("const ConstVoidData &", "value", "")]
    has_args = forms[-1].max_inputs != 0
    head = [
        *(["const std::vector<TensorId> &args"] if has_args else []),
        *(["unsigned num_outputs"] if counted else []),
    ]
    result = "std::vector<TensorId>" if counted or outputs > 1 else "TensorId"
    declared = [f"{p.kind}{p.name}" + (f" = {p.default}" if p.default else "") for p in parameters]
    words = [f"{p.kind}{p.name}" for p in parameters]
    declaration = (
        f"  {result} {method_name}({', '.join([*head, *declared, 'const DebugContext &debugContext = {}'])});\n"
    )
    attributes = "".join(f'  put(a, "{p.name}", {p.name});\n' for p in parameters)
    inputs, count = ("args" if has_args else "{}"), ("num_outputs" if counted else outputs)
    call = f'addNode("{forms[-1].type}", {inputs}, {count}, a, debugContext)'
    ending = "" if result.startswith("std::vector") else ".front()"
    definition = (
        f"{result} AiOnnx::{method_name}({', '.join([*head, *words, 'const DebugContext &debugContext'])}) {{\n"
        f"  NodeAttributes a;\n{attributes}  return {call}{ending};\n}}\n"
    )
    return declaration, definition


def versioned_class(table: ModuleType) -> tuple[str, str]:
    """The class AiOnnx and its definitions."""
    names = {method.op_type: name for name, method in table.AI_ONNX.items()}
    texts = [
        versioned_method(table, names.get(op_type, op_type.lower()), living_forms(forms))
        for op_type, forms in all_forms().items()
        if living_forms(forms)
    ]
    header = (
        "// Operators of ai.onnx in one operator set, 7 or newer. Attributes are those of all versions; those\n"
        "// that are left out have the default of the version.\n"
        "class AiOnnx : public Opset {\n public:\n"
        '  AiOnnx(Builder &builder, int version) : Opset(builder, "ai.onnx", version) {}\n'
        f"{''.join(d for d, _ in texts)}}};\n"
    )
    return header, "".join(d for _, d in texts)


def main() -> None:
    """Write the two files."""
    table_path, folder = Path(sys.argv[1]), Path(sys.argv[2])
    spec = importlib.util.spec_from_file_location("opset_methods", table_path)
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    classes = [class_text(table, "ai.onnx", opset, table.AI_ONNX) for opset in range(6, 12)]
    classes += [versioned_class(table)]
    classes += [class_text(table, "ai.graphcore", 1, table.AI_GRAPHCORE), class_text(table, "ai.onnx.ml", 1, {})]
    note = f"// Made by tools/make_builder_methods.py from {table_path.name}. One method per operator.\n"
    declarations, definitions = ("\n".join(texts) for texts in zip(*classes, strict=True))
    header = f"{note}{CONTRACT}#pragma once\n#include <popart/opset.hpp>\n\nnamespace popart {{\n\n{declarations}\n}}\n"
    source = f"{note}#include <popart/builder.hpp>\n\nnamespace popart {{\n\n{definitions}\n}}\n"
    (folder / "popart").mkdir(parents=True, exist_ok=True)
    (folder / "popart" / "builder.gen.hpp").write_text(header)
    (folder / "builder.gen.cpp").write_text(source)


if __name__ == "__main__":
    main()
