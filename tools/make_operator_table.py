#!/usr/bin/env python3
"""Writes the table of ai.onnx operators from the operator schemas of the Python package onnx.

    make_operator_table.py FILE

One row per operator: name, least and most inputs, most outputs (over all operator sets; -1: any number), versions, and
the names of inputs, outputs and attributes of the newest version, with spaces between. A negative version is the one
from which on the operator is deprecated. The build runs it; the file is not kept.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from onnx import defs

ANY = 2**31 - 1


def main() -> None:
    """Write the file named on the command line."""
    schemas = defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.support_level == defs.OpSchema.SupportType.COMMON:
            schemas[schema.name].append(schema)
    rows = []
    for name, versions in sorted(schemas.items()):
        versions.sort(key=lambda schema: schema.since_version)
        living = [schema for schema in versions if not schema.deprecated]
        most = [max(getattr(schema, kind) for schema in living) for kind in ("max_input", "max_output")]
        inputs, outputs = (-1 if count >= ANY else count for count in most)
        least = min(schema.min_input for schema in living)
        numbers = ", ".join(str(-s.since_version if s.deprecated else s.since_version) for s in versions)
        newest = living[-1]
        parts = [[p.name for p in newest.inputs], [p.name for p in newest.outputs], sorted(newest.attributes)]
        names = ", ".join(f'"{" ".join(part)}"' for part in parts)
        rows.append(f'    {{"{name}", {least}, {inputs}, {outputs}, {{{numbers}}}, {{{names}}}}},\n')
    newest = defs.onnx_opset_version()
    text = f"// Made by tools/make_operator_table.py.\nconstexpr int64_t kNewest = {newest};\n"
    text += "constexpr Row kRows[] = {\n" + "".join(rows) + "};\n"
    Path(sys.argv[1]).parent.mkdir(parents=True, exist_ok=True)
    Path(sys.argv[1]).write_text(text)


if __name__ == "__main__":
    main()
