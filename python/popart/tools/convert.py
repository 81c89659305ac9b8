"""``popart-convert``: inference form, a newer opset, 16-bit floats, folded constants, embedded or external weights.

Types follow the schemas of the operators (``onnx.defs``): if an operator does not accept the 16-bit type, casts convert
its operands to float32 and its results back.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import popart_core

from popart.tools import files
from popart.tools.command import ExitCode, UsageError, model_parser, run_as_process
from popart.tools.constants import folded, graphs_of
from popart.tools.output import bytes_text

DESCRIPTION = """Convert an ONNX model: to inference form, to a newer operator set, from float32 to float16 or bfloat16,
with folded constants, with fixed sizes instead of open dimensions, and with weights embedded or in a separate
file."""

FLOAT = 1
REDUCED = {"float16": 10, "bfloat16": 16}
NUMBER_ATTRIBUTES = ("dtype", "to", "output_datatype")  # element types of results, as numbers


def arguments_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The parsed command line."""
    parser = model_parser("popart-convert", DESCRIPTION)
    parser.add_argument("output", type=Path, help="file to write")
    files.add_shape_arguments(parser, "(default: it stays open)")
    parser.add_argument(
        "--inference",
        action="store_true",
        help="remove loss, labels and optimizer state; batch norm and dropout in their inference form",
    )
    parser.add_argument(
        "--outputs", nargs="+", metavar="NAME", default=[], help="with --inference: outputs (default: all but losses)"
    )
    parser.add_argument(
        "--fold-batch-norm", action="store_true", help="with --inference: fold batch norm into the convolutions"
    )
    parser.add_argument("--opset", type=int, metavar="N", help="operator set of ai.onnx, newer than the model's")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--float16", dest="type", action="store_const", const="float16", help="convert float32 to float16"
    )
    kind.add_argument(
        "--bfloat16", dest="type", action="store_const", const="bfloat16", help="convert float32 to bfloat16"
    )
    parser.add_argument("--keep-io", action="store_true", help="keep inputs and outputs in float32")
    parser.add_argument("--fold", action="store_true", help="compute constant expressions")
    parser.add_argument(
        "--max-folded-bytes", type=int, default=64 << 20, metavar="N", help="largest folded value (default 64 MiB)"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--external", metavar="NAME", help="store weights in this file, in the folder of the model")
    where.add_argument("--embed", action="store_true", help="store weights in the model (default up to 2 GiB)")
    parsed = parser.parse_args(arguments)
    for name, given, needed in (
        ("outputs", parsed.inference, "--inference"),
        ("fold-batch-norm", parsed.inference, "--inference"),
        ("keep-io", parsed.type, "--float16 or --bfloat16"),
    ):
        if getattr(parsed, name.replace("-", "_")) and not given:
            parser.error(f"--{name}: does nothing without {needed}. Give both, or neither")
    if parsed.max_folded_bytes < 0:
        parser.error(f"--max-folded-bytes: got {parsed.max_folded_bytes}, expected 0 or more")
    return parsed


# ---- names ------------------------------------------------------------------------------------------


def all_names(graph: Any) -> set[str]:
    """Names of the values of a graph and of those inside it."""
    names = {value.name for values in (graph.input, graph.output, graph.initializer) for value in values}
    for node in graph.node:
        names.update(node.input, node.output)
        for inner in graphs_of(node):
            names |= all_names(inner)
    return names


def rename(node: Any, names: Mapping[str, str]) -> None:
    """Rename values that a node reads and writes, also in the graphs inside it."""
    for values in (node.input, node.output):
        for i, name in enumerate(values):
            values[i] = names.get(name, name)
    for graph in graphs_of(node):
        for value in graph.output:
            value.name = names.get(value.name, value.name)
        for inner in graph.node:
            rename(inner, names)


# ---- 16-bit floats --------------------------------------------------------------------------------


class Reduction:
    """Converts the float32 values of a model to a 16-bit type, in place."""

    def __init__(self, model: Any, onnx: Any, kind: str, keep_io: bool) -> None:
        """Keep the model and the type."""
        self.model, self.onnx, self.kind = model, onnx, REDUCED[kind]
        self.type_text = f"tensor({kind})"
        self.keep_io = keep_io
        self.casts = 0
        self.cast_names: dict[tuple[str, int], str] = {}  # of the current graph: (value, type) → its name in that type
        self.made: set[str] = set()  # results of casts
        self.taken = all_names(model.graph)
        self.opsets = {entry.domain or "": entry.version for entry in model.opset_import}
        if model.functions:
            raise UsageError("models with functions of their own keep their types. Inline them first")

    def run(self) -> int:
        """Reduce the model; returns the number of casts that operators need."""
        del self.model.graph.value_info[:]  # readers of the file infer the types again
        self.graph(self.model.graph, set(), top=True)
        return self.casts

    def graph(self, graph: Any, outer: set[str], top: bool = False) -> None:
        """One graph, with those inside it. ``outer``: 16-bit names of the graphs around."""
        reduced = set(outer)
        nodes: list[Any] = []
        names_around, self.cast_names = self.cast_names, {}
        weights = {tensor.name for tensor in graph.initializer}
        for tensor in graph.initializer:
            if tensor.data_type == FLOAT:
                tensor.CopyFrom(self.reduced_tensor(tensor))
                reduced.add(tensor.name)
        for value in graph.input:
            if value.type.tensor_type.elem_type != FLOAT:
                continue
            if top and self.keep_io and value.name not in weights:
                continue
            value.type.tensor_type.elem_type = self.kind
            reduced.add(value.name)
        if not top:
            for value in graph.value_info:
                if value.type.tensor_type.elem_type == FLOAT:
                    value.type.tensor_type.elem_type = self.kind
        floats = self.float_names(graph, top)
        for node in graph.node:
            self.node(node, nodes, reduced, floats)
        outputs = [v for v in graph.output if v.type.tensor_type.elem_type == FLOAT and v.name in reduced]
        if top and self.keep_io:
            self.give_back([value.name for value in outputs], nodes, graph)
        else:
            for value in outputs:
                value.type.tensor_type.elem_type = self.kind
        del graph.node[:]
        graph.node.extend(nodes)
        self.cast_names = names_around

    def float_names(self, graph: Any, top: bool) -> set[str]:
        """Names of the inputs that stay float32."""
        return {v.name for v in graph.input if top and self.keep_io and v.type.tensor_type.elem_type == FLOAT}

    def give_back(self, outputs: list[str], nodes: list[Any], graph: Any) -> None:
        """Cast the outputs to float32."""
        inner = {name: self.free_name(name, self.kind) for name in outputs}
        for value in (*graph.initializer, *graph.input):
            value.name = inner.get(value.name, value.name)
        for node in nodes:
            rename(node, inner)
        for name, made in inner.items():
            nodes.append(self.onnx.helper.make_node("Cast", [made], [name], to=FLOAT))
            self.casts += 1

    def node(self, node: Any, nodes: list[Any], reduced: set[str], floats: set[str]) -> None:
        """Append ``node``, with casts where its operator does not take the 16-bit type."""
        for attribute in node.attribute:
            if attribute.type == attribute.GRAPH:
                self.graph(attribute.g, reduced)
            elif attribute.type == attribute.TENSOR and attribute.t.data_type == FLOAT:
                attribute.t.CopyFrom(self.reduced_tensor(attribute.t))
            elif attribute.name in NUMBER_ATTRIBUTES and attribute.i == FLOAT:
                attribute.i = self.kind
        inputs, outputs = self.accepted(node)
        for i, name in enumerate(node.input):
            if name in reduced and not inputs[min(i, len(inputs) - 1)]:
                node.input[i] = self.cast(name, FLOAT, nodes)
            elif name in floats and inputs[min(i, len(inputs) - 1)]:
                node.input[i] = self.cast(name, self.kind, nodes)
        nodes.append(node)
        makes = self.makes_float(node, reduced, inputs)
        for i, name in enumerate(node.output):
            if not name or not makes[min(i, len(makes) - 1)]:
                continue
            if not outputs[min(i, len(outputs) - 1)]:
                node.output[i] = self.free_name(name, FLOAT)
                nodes.append(self.onnx.helper.make_node("Cast", [node.output[i]], [name], to=self.kind))
                self.casts += 1
            reduced.add(name)

    def cast(self, name: str, to: int, nodes: list[Any]) -> str:
        """The name of ``name`` cast to the other type; the cast is made once."""
        if (name, to) not in self.cast_names:
            made = self.cast_names[name, to] = self.free_name(name, to)
            nodes.append(self.onnx.helper.make_node("Cast", [name], [made], to=to))
            self.casts += 1
        return self.cast_names[name, to]

    def free_name(self, name: str, to: int) -> str:
        """A new name for ``name`` in the other type, unique in all graphs of the model."""
        base = f"{name}/{'float32' if to == FLOAT else 'reduced'}"
        numbered = (f"{base}/{i}" for i in itertools.count(1))
        made = next(text for text in itertools.chain([base], numbered) if text not in self.taken)
        self.taken.add(made)
        self.made.add(made)
        return made

    def accepted(self, node: Any) -> tuple[list[bool], list[bool]]:
        """Whether each operand, and each result, may have the 16-bit type where it may be float32."""
        schema = self.schema(node)
        if schema is None:
            return [True], [True]

        def allows(formal: Any) -> bool:
            types = set(formal.types)
            return "tensor(float)" not in types or self.type_text in types

        inputs = [allows(formal) for formal in schema.inputs] or [True]
        outputs = [allows(formal) for formal in schema.outputs] or [True]
        return inputs, outputs

    def makes_float(self, node: Any, reduced: set[str], inputs: list[bool]) -> list[bool]:
        """Whether each result is a float that this reduction made 16 bits wide."""
        schema = self.schema(node)
        typed = [a.i for a in node.attribute if a.name in NUMBER_ATTRIBUTES]
        holds = [a.t.data_type for a in node.attribute if a.type == a.TENSOR]
        reads = any(name in reduced or name in self.made for name in node.input)
        if node.op_type in ("Constant", "ConstantOfShape"):
            return [(bool(holds) and holds[0] == self.kind) or (node.op_type == "ConstantOfShape" and not holds)]
        if typed:
            return [typed[0] == self.kind]
        if any(a.type == a.GRAPH for a in node.attribute):
            bodies = [a.g for a in node.attribute if a.type == a.GRAPH]
            kinds = [value.type.tensor_type.elem_type == self.kind for value in bodies[0].output]
            skipped = len(kinds) - len(node.output)
            return kinds[max(skipped, 0) :] or [False]
        if schema is None:
            return [reads]
        results = []
        for formal in schema.outputs:
            same = [
                name in reduced or name in self.made
                for name, operand in zip(node.input, schema.inputs, strict=False)
                if operand.type_str == formal.type_str
            ]
            results.append(any(same) if same else reads and formal.types == {"tensor(float)"})
        return results or [False]

    def schema(self, node: Any) -> Any:
        """The operator's own rule, or None for one that onnx does not know."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        try:
            return self.onnx.defs.get_schema(node.op_type, self.opsets.get(domain, 1), domain)
        except self.onnx.defs.SchemaError:
            return None

    def reduced_tensor(self, tensor: Any) -> Any:
        """The values in the 16-bit type, rounded to nearest, and to the largest number instead of infinity."""
        values = self.onnx.numpy_helper.to_array(tensor)
        kind = self.onnx.helper.tensor_dtype_to_np_dtype(self.kind)
        most = 65504.0 if self.kind == REDUCED["float16"] else float(np.float32(3.3895314e38))
        finite = np.where(np.isfinite(values), np.clip(values, -most, most), values)
        return self.onnx.numpy_helper.from_array(finite.astype(kind), tensor.name)


# ---- the command ----------------------------------------------------------------------------------


def newer(model: Any, onnx: Any, opset: int) -> Any:
    """The model in a newer operator set."""
    import onnx.version_converter

    now = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), None)
    newest = onnx.defs.onnx_opset_version()
    if now is None or opset < now or opset > newest:
        raise UsageError(f"--opset: got {opset}, expected {now} (the model's) to {newest} (the newest known)")
    once = dict.fromkeys(("" if e.domain == "ai.onnx" else e.domain, e.version) for e in model.opset_import)
    del model.opset_import[:]  # some tools write an entry twice, and the converter changes one of them
    model.opset_import.extend(onnx.helper.make_opsetid(domain, version) for domain, version in once)
    try:
        return onnx.version_converter.convert_version(model, opset)
    except Exception as problem:  # RuntimeError and classes of onnx's C++ part
        raise UsageError(f"--opset {opset}: onnx does not convert the model: {problem}") from None


def fix_sizes(model: Any, parsed: argparse.Namespace, inputs: list[dict[str, Any]]) -> int:
    """Give open dimensions the sizes of ``--dim`` and ``--shape``, in place.

    Args:
        model: The ModelProto.
        parsed: The command line.
        inputs: What `files.describe` says of the inputs.

    Returns:
        How many dimensions of inputs and outputs got a size.

    Raises:
        UsageError: A name that the model does not have, or sizes that contradict it or one another.
    """
    sizes, shapes = files.given_sizes(inputs, parsed.shape, parsed.dim)
    fixed = 0
    del model.graph.value_info[:]  # readers of the file infer the shapes again
    for values, given in ((model.graph.input, shapes), (model.graph.output, {})):
        for value in values:
            known = given.get(value.name, [])
            for i, dimension in enumerate(value.type.tensor_type.shape.dim):
                size = sizes.get(dimension.dim_param) if dimension.dim_param else None
                if size is None and i < len(known) and not dimension.HasField("dim_value"):
                    size = known[i]
                if size is not None:
                    dimension.dim_value = size
                    fixed += 1
    return fixed


def inference_model(parsed: argparse.Namespace, onnx: Any) -> Any:
    """The model in inference form."""
    with tempfile.TemporaryDirectory(prefix="popart-convert-") as folder:
        cut = Path(folder) / "model.onnx"
        popart_core._write_inference_form(str(parsed.model), str(cut), parsed.outputs, parsed.fold_batch_norm)
        return onnx.load(cut)


def save(model: Any, onnx: Any, parsed: argparse.Namespace) -> list[str]:
    """Write the model: all files, or none."""
    target = parsed.output
    target.parent.mkdir(parents=True, exist_ok=True)
    if parsed.external and (Path(parsed.external).name != parsed.external or parsed.external in ("..", target.name)):
        raise UsageError(
            f"--external: got '{parsed.external}', expected a file name without folders, not that of the model"
        )
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".convert-") as folder:
        part = Path(folder) / target.name
        external = {}
        if parsed.external:
            external = {"save_as_external_data": True, "location": parsed.external, "size_threshold": 1024}
        elif model.ByteSize() >= 2**31:
            raise UsageError("the model is larger than 2 GiB, too large for one file. Use --external NAME")
        onnx.save(model, part, **external)
        names = [target.name, *([parsed.external] if (Path(folder) / str(parsed.external)).exists() else [])]
        for name in reversed(names):  # the model last: it names the other file
            os.replace(Path(folder) / name, target.parent / name)
    return [str(target.parent / name) for name in names]


def command(arguments: Sequence[str] | None = None) -> int:
    """Convert the model; the exit code of the command."""
    from tqdm import tqdm  # here: --help need not wait for it

    parsed = arguments_of(arguments)
    files.require_file(parsed.model)
    onnx = files.import_onnx()
    facts = files.describe(parsed.model)  # our reader's checks: damaged models and paths outside of the folder
    result: dict[str, Any] = {"model": str(parsed.model)}
    sizes = bool(parsed.dim or parsed.shape)
    asked = [name for name in ("inference", "opset", "fold", "type") if getattr(parsed, name)]
    with tqdm(total=len(asked) + 2, disable=not sys.stderr.isatty(), leave=False) as bar:
        model = inference_model(parsed, onnx) if parsed.inference else onnx.load(parsed.model)
        bar.update(2 if parsed.inference else 1)
        if parsed.opset:
            model = newer(model, onnx, parsed.opset)
            bar.update()
        if sizes:
            result["fixed"] = fix_sizes(model, parsed, facts["inputs"])
        if parsed.fold:
            result["folded"], result["left"] = folded(model, onnx, parsed.max_folded_bytes)
            bar.update()
        if parsed.type:
            result["casts"] = Reduction(model, onnx, parsed.type, parsed.keep_io).run()
            bar.update()
        result["written"] = save(model, onnx, parsed)
        bar.update()
    for note in result.get("left", []):
        print(f"popart-convert: --fold: {note}", file=sys.stderr)
    result["bytes"] = sum(Path(file).stat().st_size for file in result["written"])
    facts = files.describe(parsed.output)
    result["opsets"] = facts["opsets"]
    if parsed.json:
        print(files.json_text(result))
    else:
        done = (("fixed", "dimensions fixed"), ("folded", "nodes folded"), ("casts", "casts"))
        notes = [f"{result[key]:,} {text}" for key, text in done if key in result]
        print(", ".join([f"{' and '.join(result['written'])}: {bytes_text(result['bytes'])}", *notes]))
    return ExitCode.DONE


def main() -> NoReturn:
    """The command of the wheel."""
    run_as_process("popart-convert", command)


if __name__ == "__main__":
    main()
