"""popart-convert over a model: each of its forms is written, read again, and accepted by the checker of onnx."""

from collections.abc import Callable
from pathlib import Path

from popart.tools import convert
from popart.tools.command import UsageError

import onnx

CONVERSIONS = [
    *(
        [kind, *keep, *fold]
        for kind in ("--float16", "--bfloat16")
        for keep in ([], ["--keep-io"])
        for fold in ([], ["--fold"])
    ),
    ["--fold"],
    ["--inference"],
    ["--inference", "--fold-batch-norm", "--bfloat16", "--keep-io"],
    ["--external", "values.bin"],
    ["--opset", str(onnx.defs.onnx_opset_version())],
]
KEEP_VALUES = ("--fold", "--external", "--opset")  # as the first option: results are those of the model
# Of refusals: onnx brings some operators to no newer set, and we keep the types of functions.
LIMITS = ("onnx does not", "Inline them first")


def check_conversions(model: Path, folder: Path, check: Callable[[Path], None] | None = None) -> list[list[str]]:
    """popart-convert writes each form of a model, and PopART and the checker of onnx read it.

    Args:
        model: The file.
        folder: For the forms.
        check: Called with each form whose results are those of the model.

    Returns:
        The conversions that are refused because of `LIMITS`.
    """
    refused = []
    for options in CONVERSIONS:
        try:
            assert convert.command([str(model), str(folder / model.name), *options]) == 0, options
        except UsageError as refusal:
            assert any(part in str(refusal) for part in LIMITS), (options, refusal)
            refused.append(options)
            continue
        names = {entry.domain for entry in onnx.load(folder / model.name, load_external_data=False).opset_import}
        if names <= {"", "ai.onnx"}:
            onnx.checker.check_model(folder / model.name)
        if check is not None and options[0] in KEEP_VALUES:
            check(folder / model.name)
    return refused
