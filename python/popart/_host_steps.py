"""The parts of a model that run on the host, before and after its program: text, image files and maps.

A program has only numbers. Nodes that read text, decode images or make maps are taken out of the model. Those that
depend only on the inputs run before the program, and their numbers are inputs of the program. Those that need results
of the program run after it (docs/decisions/0059-text-on-the-host.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx
from popart._host_ops import Function, HostNode, host_function, run_node, tensor_value


@dataclass
class HostSteps:
    """A model in three parts.

    Attributes:
        program: The model without the nodes that run on the host.
        before: Nodes that run before the program, with their functions, in order.
        after: Nodes that run after the program.
        constants: Text constants of the model.
        feeds: Inputs of the program that `before` computes.
        fetches: Results of the program to return: graph outputs and inputs of `after`.
    """

    program: onnx.ModelProto
    before: list[tuple[Function, HostNode]] = field(default_factory=list)
    after: list[tuple[Function, HostNode]] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    feeds: list[str] = field(default_factory=list)
    fetches: list[str] = field(default_factory=list)

    def run_before(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Run the nodes before the program.

        Returns:
            All values that are known after that, by name.

        Raises:
            popart_exception: An operator does not take these values.
        """
        return self._run(self.before, {**self.constants, **values})

    def run_after(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Run the nodes after the program.

        Returns:
            `values` and the results, by name.

        Raises:
            popart_exception: An operator does not take these values.
        """
        return self._run(self.after, dict(values))

    @staticmethod
    def _run(steps: list[tuple[Function, HostNode]], values: dict[str, Any]) -> dict[str, Any]:
        for function, node in steps:
            values.update(run_node(function, node, values))
        return values


def _is_text_type(value: onnx.ValueInfoProto) -> bool:
    return value.type.tensor_type.elem_type == onnx.TensorProto.STRING


# Operators whose results are labels, which may be text, and the attribute for labels that are numbers.
_CLASSIFIERS = {
    "LinearClassifier": "classlabels_ints",
    "SVMClassifier": "classlabels_ints",
    "TreeEnsembleClassifier": "classlabels_int64s",
}


def _on_numbers(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Split a node on text into one on numbers and one on the host that looks text up; other nodes stay as they are."""
    if node.domain == "ai.onnx.ml" and node.op_type in _CLASSIFIERS:
        return _classes_as_numbers(node)
    return _words_as_numbers(node)


def _classes_as_numbers(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Split a classifier with text labels: the program computes the number of a class, the host looks up its label."""
    labels = next((list(a.strings) for a in node.attribute if a.name == "classlabels_strings"), [])
    if not labels:
        return [node]
    ints = _CLASSIFIERS[node.op_type]
    if any(a.name == ints and a.ints for a in node.attribute):
        raise HostNode.of(node).fail(f"labels must be text or numbers: got both, classlabels_strings and {ints}")
    numbers = list(range(len(labels)))
    program = onnx.NodeProto()
    program.CopyFrom(node)
    del program.attribute[:]
    program.attribute.extend(a for a in node.attribute if a.name not in ("classlabels_strings", ints))
    program.attribute.append(onnx.helper.make_attribute(ints, numbers))
    if not node.output or not node.output[0]:
        return [program]
    program.output[0] = node.output[0] + "/class"
    look_up = onnx.helper.make_node(
        "LabelEncoder",
        [program.output[0]],
        [node.output[0]],
        domain="ai.onnx.ml",
        keys_int64s=numbers,
        values_strings=labels,
    )
    return [program, look_up]


def _words_as_numbers(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Split a TfIdfVectorizer on text: the host looks up the numbers of words, the program counts them."""
    pool = next((list(a.strings) for a in node.attribute if a.name == "pool_strings"), None)
    if node.op_type != "TfIdfVectorizer" or pool is None:
        return [node]
    if not node.input or not node.output:
        raise HostNode.of(node).fail(f"needs an input and an output: got {len(node.input)} and {len(node.output)}")
    numbers = {word: i for i, word in enumerate(dict.fromkeys(pool))}
    numbered = node.output[0] + "/words"
    look_up = onnx.helper.make_node(
        "LabelEncoder",
        [node.input[0]],
        [numbered],
        domain="ai.onnx.ml",
        keys_strings=list(numbers),
        values_int64s=list(numbers.values()),
        default_int64=-1,
    )
    counts = onnx.NodeProto()
    counts.CopyFrom(node)
    counts.input[0] = numbered
    del counts.attribute[:]
    counts.attribute.extend(a for a in node.attribute if a.name != "pool_strings")
    counts.attribute.append(onnx.helper.make_attribute("pool_int64s", [numbers[word] for word in pool]))
    return [look_up, counts]


class _Split:
    """The walk over the nodes that makes `HostSteps`."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.graph = model.graph
        self.model = model
        self.steps = HostSteps(onnx.ModelProto())
        self.text = {value.name for value in model.graph.input if _is_text_type(value)}
        self.given = {value.name for value in model.graph.input}
        self.numbers: dict[str, onnx.TensorProto] = {}
        for tensor in model.graph.initializer:
            if tensor.data_type == onnx.TensorProto.STRING:
                self.steps.constants[tensor.name] = tensor_value(tensor)
                self.text.add(tensor.name)
            else:
                self.numbers[tensor.name] = tensor
        self.made_before = self.given | set(self.steps.constants)
        self.made_after: set[str] = set()
        self.kept: list[onnx.NodeProto] = []

    def walk(self) -> HostSteps | None:
        """The parts; None when the program runs everything."""
        for whole in self.graph.node:
            for node in _on_numbers(whole):
                self._place(node)
        outputs = [value.name for value in self.graph.output]
        if not (self.steps.before or self.steps.after or self.steps.constants or self.text):
            return None
        self._write(outputs)
        return self.steps

    def _place(self, node: onnx.NodeProto) -> None:
        reads = [name for name in node.input if name]
        function = host_function(node, any(name in self.text for name in reads))
        if function is None:
            if node.op_type == "Constant":
                self.numbers.update((name, a.t) for name in node.output for a in node.attribute if a.name == "value")
            late = next((name for name in reads if name in self.made_after), None)
            if late is not None:
                raise HostNode.of(node).fail(
                    f"reads '{late}', which is made on the host after the program has run. Text and images can come "
                    "before or after the numbers of a model, not between them"
                )
            self.kept.append(node)
            return
        host = HostNode.of(node)
        early = all(name in self.made_before or name in self.numbers for name in reads)
        (self.steps.before if early else self.steps.after).append((function, host))
        (self.made_before if early else self.made_after).update(name for name in host.outputs if name)
        if early:
            for name in reads:
                if name in self.numbers:
                    self.steps.constants[name] = tensor_value(self.numbers[name])
        self.text.update(_text_outputs(node, any(name in self.text for name in reads)))

    def _write(self, outputs: list[str]) -> None:
        self.steps.program.CopyFrom(self.model)
        graph = self.steps.program.graph
        del graph.node[:]
        graph.node.extend(self.kept)
        read = {name for node in self.kept for name in _names_read(node)}
        host_made = self.made_before - self.given
        self.steps.feeds = sorted((read & host_made) - self.text)
        kept_inputs = [value for value in graph.input if not _is_text_type(value) and value.name in read]
        del graph.input[:]
        graph.input.extend(kept_inputs)
        for i in reversed(range(len(graph.initializer))):
            if graph.initializer[i].data_type == onnx.TensorProto.STRING:
                del graph.initializer[i]
        of_program = {name for node in self.kept for name in node.output if name}
        wanted = [name for _, node in self.steps.after for name in node.inputs]
        self.steps.fetches = [name for name in dict.fromkeys([*outputs, *wanted]) if name in of_program]
        declared = {value.name: value for value in self.graph.output}
        del graph.output[:]
        for name in self.steps.fetches:
            graph.output.append(declared.get(name, onnx.ValueInfoProto(name=name)))
        for name in [*outputs, *wanted]:
            if name in self.numbers:
                self.steps.constants[name] = tensor_value(self.numbers[name])


def _names_read(node: onnx.NodeProto) -> set[str]:
    """Names that a node reads, and all names in its subgraphs."""
    names = set(node.input)
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            names |= {value.name for value in graph.output}
            for inner in graph.node:
                names |= _names_read(inner)
    return names


def _text_outputs(node: onnx.NodeProto, reads_text: bool) -> list[str]:
    """The outputs of a node on the host that are text."""
    attributes = {a.name: a for a in node.attribute}
    if node.op_type in ("Constant", "StringConcat", "StringNormalizer"):
        return list(node.output)
    if node.op_type == "StringSplit":
        return list(node.output[:1])
    if node.op_type == "Cast":
        return list(node.output) if "to" in attributes and attributes["to"].i == onnx.TensorProto.STRING else []
    if node.op_type == "CategoryMapper":
        return [] if reads_text else list(node.output)
    if node.op_type == "LabelEncoder":
        tensor = attributes.get("values_tensor")
        text = tensor is not None and tensor.t.data_type == onnx.TensorProto.STRING
        return list(node.output) if text or "values_strings" in attributes or _is_old(attributes, reads_text) else []
    moves = ("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Concat", "Gather")
    return list(node.output) if reads_text and node.op_type in (*moves, "Transpose", "Tile", "Where") else []


def _is_old(attributes: Mapping[str, Any], reads_text: bool) -> bool:
    return "classes_strings" in attributes and not reads_text


def split_model(model: onnx.ModelProto) -> HostSteps | None:
    """Take the nodes that run on the host out of a model.

    Returns:
        The parts; None when the program runs everything.

    Raises:
        popart_exception: An operator does not take strings, or text is computed from results of the program and read by
            it again.
    """
    return _Split(model).walk()
