"""Files that ONNX Runtime's optimizer, its optimizer for transformers and its quantizer make of PyTorch's files."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from onnxruntime import quantization
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers import optimizer

import onnx
from tests.corpus.files import ORDER_OF_SUMMATION, STEPS_OF_QUANTISATION, Array, Feeds, File, Made
from tests.corpus.of_torch import exported
from tests.models.circulation.exporting import Form
from tests.python.onnx.runtime_files import HEADS, HIDDEN, optimized
from tests.python.onnx.single_node import runtime_takes_seven_bits

USUAL, OLD = Form(False, 17), Form(False, 12)
# ONNX Runtime's fused Gelu and norms round differently from the nodes that they replace.
ROUNDING_OF_FUSED = 5 * ORDER_OF_SUMMATION

OPTIMIZED = [
    "runtime_bert", "runtime_gpt", "runtime_rms", "runtime_convolutions", "runtime_residual", "bert", "gpt2", "t5",
    "vit_transformers", "convnext", "squeezenet", "mobilenet_v3", "lstm", "recommender", "inverted", "response_norm",
    "attention", "mixer", "gated_unit", "tied_tokens", "diffusion_unet",
]  # fmt: skip
OFTEN_OPTIMIZED = {
    "runtime_bert", "runtime_gpt", "runtime_convolutions", "runtime_residual", "convnext", "inverted", "attention",
    "gated_unit", "tied_tokens",
}  # fmt: skip
OPTIMIZED_OF_OLD = ["mixer", "runtime_gpt", "gated_unit"]  # the optimizer writes norms that the opset does not have
# The optimizer picks rows of a table when it writes the file.
PICKED = {"bert", "t5"}
TRANSFORMERS = {"runtime_bert": "bert", "runtime_gpt": "gpt2", "runtime_rms": "bert"}
QUANTIZED = [
    "runtime_bert", "runtime_gpt", "runtime_convolutions", "runtime_residual", "mixer", "squeeze_excite", "lstm",
    "attention", "resnet18", "vit", "inverted",
]  # fmt: skip
OFTEN_QUANTIZED = {"runtime_bert", "runtime_convolutions", "runtime_residual", "mixer", "squeeze_excite"}
BLOCKS_OF_BITS = ["runtime_gpt", "runtime_rms", "mixer", "gated_unit"]


class Samples(quantization.CalibrationDataReader):
    """Gives a few random inputs, from which the quantizer measures ranges."""

    def __init__(self, draw: Callable[[], Feeds]) -> None:
        self.left = [draw() for _ in range(4)]

    def get_next(self) -> dict[str, Array] | None:
        return self.left.pop() if self.left else None


def written(name: str, folder: Path, form: Form = USUAL) -> tuple[Made, Path]:
    """Export a network of PyTorch to a file in the folder."""
    made, path = exported(name, form), folder / "exported.onnx"
    path.write_bytes(made.model)
    return made, path


def by_level(name: str, level: str, form: Form, folder: Path) -> Made:
    made, path = written(name, folder, form)
    saved = optimized(path, level, folder / "saved.onnx")
    return Made(saved.read_bytes(), made.draw, made.network, as_it_is=True)


def for_transformers(name: str, folder: Path) -> Made:
    made, path = written(name, folder)
    model = optimizer.optimize_model(
        str(path), model_type=TRANSFORMERS[name], num_heads=HEADS, hidden_size=HIDDEN, opt_level=0
    )
    model.save_model_to_file(str(folder / "saved.onnx"))
    return Made((folder / "saved.onnx").read_bytes(), made.draw, made.network, as_it_is=True)


def while_running(name: str, folder: Path) -> Made:
    made, path = written(name, folder)
    quantization.quantize_dynamic(str(path), str(folder / "quantised.onnx"), reduce_range=runtime_takes_seven_bits())
    return Made((folder / "quantised.onnx").read_bytes(), made.draw)


def from_samples(name: str, form: str, by_channel: bool, folder: Path) -> Made:
    made, path = written(name, folder)
    quantization.quantize_static(
        str(path),
        str(folder / "quantised.onnx"),
        Samples(made.draw),
        quant_format=quantization.QuantFormat[form],
        reduce_range=runtime_takes_seven_bits(),
        per_channel=by_channel,
    )
    # ONNX Runtime's optimizer makes products of integers of QDQ, which round otherwise: another model.
    return Made((folder / "quantised.onnx").read_bytes(), made.draw, as_it_is=form == "QDQ")


def in_blocks(name: str, bits: int, symmetric: bool, folder: Path) -> Made:
    made, path = written(name, folder)
    quantizer = MatMulNBitsQuantizer(onnx.load(str(path)), bits=bits, block_size=16, is_symmetric=symmetric)
    quantizer.process()
    return Made(quantizer.model.model.SerializeToString(), made.draw)


def optimizer_rows() -> Iterator[File]:
    for name in OPTIMIZED:
        for level in ("basic", "extended"):
            yield File(
                f"{name}-{level}",
                f"ONNX Runtime's optimizer, {level}",
                partial(by_level, name, level, USUAL),
                near=ROUNDING_OF_FUSED,
                trains=name not in PICKED,
                slow=name not in OFTEN_OPTIMIZED,
            )
    for name in OPTIMIZED_OF_OLD:
        tool, make = "ONNX Runtime's optimizer, extended", partial(by_level, name, "extended", OLD)
        yield File(f"{name}-extended-{OLD.opset}", tool, make, near=ROUNDING_OF_FUSED, trains=True)
    for name in TRANSFORMERS:
        make = partial(for_transformers, name)
        tool = "ONNX Runtime's optimizer for transformers"
        yield File(f"{name}-transformers", tool, make, near=ROUNDING_OF_FUSED, trains=True)


def quantizer_rows() -> Iterator[File]:
    for name in QUANTIZED:
        slow = name not in OFTEN_QUANTIZED
        common = {"near": STEPS_OF_QUANTISATION, "slow": slow}
        yield File(f"{name}-dynamic", "ONNX Runtime's quantizer, dynamic", partial(while_running, name), **common)
        for form in ("QDQ", "QOperator"):
            for by_channel in (False, True):
                yield File(
                    f"{name}-{form}{'-channels' if by_channel else ''}",
                    f"ONNX Runtime's quantizer, static {form}",
                    partial(from_samples, name, form, by_channel),
                    near=STEPS_OF_QUANTISATION,
                    slow=slow or by_channel,
                )
    for name in BLOCKS_OF_BITS:
        for bits in (4, 8):
            for symmetric in (True, False):
                yield File(
                    f"{name}-blocks-{bits}{'' if symmetric else '-zeros'}",
                    f"ONNX Runtime's quantizer, MatMulNBits {bits}",
                    partial(in_blocks, name, bits, symmetric),
                    near=STEPS_OF_QUANTISATION,
                    slow=not symmetric and name != "mixer",
                )


def rows() -> Iterator[File]:
    """All files: optimizer at each level, optimizer for transformers, quantizer in each of its forms."""
    yield from optimizer_rows()
    yield from quantizer_rows()
