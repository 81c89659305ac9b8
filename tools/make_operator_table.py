#!/usr/bin/env python3
"""Writes the table of ai.onnx operators from the operator schemas of the Python package onnx.

    make_operator_table.py FILE

It has two tables. The first has one row per operator: name, least and most inputs, most outputs (over all operator
sets; -1: any number), versions, and the names of inputs, outputs and attributes of the newest version, separated by
spaces. A negative version is the first one in which the operator is deprecated. The second has one row per operator and
version: numbers of inputs and outputs, their names, and its attributes as "name:kind", with "!" if an attribute is
required and "=default" if it has a default. The build runs it; the file is not stored in the repository.
tools/make_builder_methods.py reads the second table directly.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

from onnx import AttributeProto, defs

ANY = 2**31 - 1
_OPTION = defs.OpSchema.FormalParameterOption


class Attribute(NamedTuple):
    """One attribute of an operator version; `default` is its text, None if there is none."""

    name: str
    kind: str
    required: bool
    default: str | None


class Form(NamedTuple):
    """One version of an operator. Counts are -1 for any number."""

    type: str
    since: int
    min_inputs: int
    max_inputs: int
    min_outputs: int
    max_outputs: int
    inputs: list[str]
    outputs: list[str]
    attributes: list[Attribute]


def default_text(attribute: defs.OpSchema.Attribute) -> str | None:
    """The default of an attribute as text: a number, a string, or a list separated by commas."""
    value = attribute.default_value
    if value.type == AttributeProto.FLOAT:
        return str(np.float32(value.f))
    if value.type == AttributeProto.INT:
        return str(value.i)
    if value.type == AttributeProto.STRING:
        return value.s.decode()
    if value.type == AttributeProto.INTS:
        return ",".join(str(number) for number in value.ints)
    if value.type == AttributeProto.STRINGS:
        return ",".join(text.decode() for text in value.strings)
    return None


def names_of(parameters: list[defs.OpSchema.FormalParameter]) -> list[str]:
    """Names of inputs or outputs: "?" follows an optional one, "*" one that may repeat."""
    marks = {_OPTION.Optional: "?", _OPTION.Variadic: "*"}
    return [p.name + marks.get(p.option, "") for p in parameters]


def form_of(schema: defs.OpSchema) -> Form:
    """The form of one schema."""
    counts = (schema.min_input, schema.max_input, schema.min_output, schema.max_output)
    attributes = [
        Attribute(name, str(a.type).rsplit(".", 1)[-1].lower(), a.required, default_text(a))
        for name, a in sorted(schema.attributes.items())
    ]
    bounded = (-1 if count >= ANY else count for count in counts)
    return Form(
        schema.name, schema.since_version, *bounded, names_of(schema.inputs), names_of(schema.outputs), attributes
    )


def schemas_by_type() -> dict[str, list[defs.OpSchema]]:
    """All versions of each operator of ai.onnx, ascending, by name."""
    schemas = defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.support_level == defs.OpSchema.SupportType.COMMON:
            schemas[schema.name].append(schema)
    return {name: sorted(found, key=lambda schema: schema.since_version) for name, found in sorted(schemas.items())}


def all_forms() -> dict[str, list[Form]]:
    """The versions of each operator that are not deprecated, ascending, by name."""
    return {
        name: [form_of(schema) for schema in versions if not schema.deprecated]
        for name, versions in schemas_by_type().items()
    }


def operator_row(name: str, versions: list[defs.OpSchema]) -> str:
    """The row of an operator over all its versions."""
    living = [schema for schema in versions if not schema.deprecated]
    most = [max(getattr(schema, kind) for schema in living) for kind in ("max_input", "max_output")]
    inputs, outputs = (-1 if count >= ANY else count for count in most)
    least = min(schema.min_input for schema in living)
    numbers = ", ".join(str(-s.since_version if s.deprecated else s.since_version) for s in versions)
    newest = living[-1]
    parts = [[p.name for p in newest.inputs], [p.name for p in newest.outputs], sorted(newest.attributes)]
    names = ", ".join(f'"{" ".join(part)}"' for part in parts)
    return f'    {{"{name}", {least}, {inputs}, {outputs}, {{{numbers}}}, {{{names}}}}},\n'


def form_row(form: Form) -> str:
    """The row of one version."""
    attributes = " ".join(
        f"{a.name}:{a.kind}{'!' if a.required else ''}{'' if a.default is None else '=' + a.default}"
        for a in form.attributes
    )
    counts = f"{form.since}, {form.min_inputs}, {form.max_inputs}, {form.min_outputs}, {form.max_outputs}"
    return f'    {{"{form.type}", {counts}, "{" ".join(form.inputs)}", "{" ".join(form.outputs)}", "{attributes}"}},\n'


def main() -> None:
    """Write the file named on the command line."""
    rows = [operator_row(name, versions) for name, versions in schemas_by_type().items()]
    forms = [form_row(form) for versions in all_forms().values() for form in versions]
    text = f"// Made by tools/make_operator_table.py.\nconstexpr int64_t kNewest = {defs.onnx_opset_version()};\n"
    text += "constexpr Row kRows[] = {\n" + "".join(rows) + "};\n"
    text += "constexpr FormRow kForms[] = {\n" + "".join(forms) + "};\n"
    Path(sys.argv[1]).parent.mkdir(parents=True, exist_ok=True)
    Path(sys.argv[1]).write_text(text)


if __name__ == "__main__":
    main()
