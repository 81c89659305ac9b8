"""Files that ONNX Runtime's optimizer and quantizer saved: they load, equal ONNX Runtime, and the float ones train."""

import numpy as np
import popart
import popart.backend
import pytest
from onnxruntime import quantization
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers import optimizer

import onnx
from tests.python.onnx.runtime_files import (
    HEADS,
    HIDDEN,
    NETWORKS,
    Samples,
    exported,
    inputs_of,
    operators,
    optimized,
    run,
)
from tests.python.onnx.single_node import runtime_takes_seven_bits
from tests.python.popart.training_runs import ready, training_session


def check(path, name, rtol=1e-4, atol=1e-4):
    given = inputs_of(name, seed=7)
    expected = run(path, given)
    got = popart.backend.prepare(onnx.load(str(path))).run(given)
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    return {name: exported(name, folder / f"{name}.onnx") for name in NETWORKS}


FUSED = {
    "bert": {"com.microsoft.FusedMatMul", "com.microsoft.Gelu", "com.microsoft.SkipLayerNormalization"},
    "gpt": {"com.microsoft.FusedMatMul"},
    "rms": {"SimplifiedLayerNormalization", "com.microsoft.QuickGelu"},
    "convolutions": {"com.microsoft.FusedConv"},
    "residual": {"com.microsoft.FusedConv"},
}


@pytest.mark.parametrize("level", ["basic", "extended"])
@pytest.mark.parametrize("name", NETWORKS)
def test_saved_by_the_optimizer(files, tmp_path, name, level):
    path = optimized(files[name], level, tmp_path / "saved.onnx")
    if level == "extended":
        assert operators(path) >= FUSED[name]
    check(path, name)


def test_saved_at_level_all_names_the_level_to_save_at(files, tmp_path):
    path = optimized(files["convolutions"], "all", tmp_path / "saved.onnx")
    if not any(o.startswith("com.microsoft.nchwc") for o in operators(path)):
        pytest.skip("this processor has no internal layout")
    with pytest.raises(popart.popart_exception, match="level 'extended'"):
        popart.backend.prepare(onnx.load(str(path))).run(inputs_of("convolutions"))


@pytest.mark.parametrize(("name", "kind"), [("bert", "bert"), ("gpt", "gpt2"), ("rms", "bert")])
def test_saved_by_the_optimizer_for_transformers(files, tmp_path, name, kind):
    model = optimizer.optimize_model(
        str(files[name]), model_type=kind, num_heads=HEADS, hidden_size=HIDDEN, opt_level=0
    )
    path = tmp_path / "saved.onnx"
    model.save_model_to_file(str(path))
    if name == "bert":
        fused = ("Attention", "BiasGelu", "EmbedLayerNormalization", "SkipLayerNormalization")
        assert operators(path) >= {f"com.microsoft.{o}" for o in fused}
    check(path, name)


def losses(path, name, steps=3):
    """Losses of some steps of SGD on the sum of the output's magnitudes."""
    model = onnx.load(str(path))
    builder = popart.Builder(model.SerializeToString())
    loss = builder.aiGraphcore.l1loss([model.graph.output[0].name], 1.0, popart.ReductionType.Mean)
    session = ready(training_session(builder.getModelProto(), loss, popart.ConstSGD(0.05), anchors=[loss]))
    names, values = [i.name for i in model.graph.input], []
    for seed in range(steps):
        arrays = session.initAnchorArrays()
        feeds = dict(zip(names, inputs_of(name, seed), strict=True))
        session.run(popart.PyStepIO(feeds, arrays))
        values.append(float(arrays[loss]))
    return values


@pytest.mark.parametrize("name", NETWORKS)
def test_files_of_the_optimizer_train_as_the_network_does(files, tmp_path, name):
    plain = losses(files[name], name)
    assert len(set(plain)) == len(plain)
    saved = losses(optimized(files[name], "extended", tmp_path / "saved.onnx"), name)
    np.testing.assert_allclose(saved, plain, rtol=1e-3)


def test_attention_of_the_optimizer_trains_as_the_network_does(files, tmp_path):
    model = optimizer.optimize_model(
        str(files["bert"]), model_type="bert", num_heads=HEADS, hidden_size=HIDDEN, opt_level=0
    )
    model.save_model_to_file(str(tmp_path / "saved.onnx"))
    np.testing.assert_allclose(losses(tmp_path / "saved.onnx", "bert"), losses(files["bert"], "bert"), rtol=1e-3)


# ---- quantizer

# Values of quantised networks are near those of ONNX Runtime: a sum near a half of a step may be rounded either way,
# and what follows sees it. The networks' outputs are of the order of one.
NEAR = {"rtol": 0.05, "atol": 0.05}


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_quantised_while_running(files, tmp_path, name, optimize):
    path = tmp_path / "quantised.onnx"
    quantization.quantize_dynamic(str(files[name]), str(path), reduce_range=runtime_takes_seven_bits())
    if optimize:
        path = optimized(path, "extended", tmp_path / "saved.onnx")
        assert name == "residual" or any("com.microsoft" in o for o in operators(path))
    check(path, name, **NEAR)


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("name", NETWORKS)
def test_quantised_from_samples(files, tmp_path, name, form, optimize):
    path = tmp_path / "quantised.onnx"
    reader = Samples(files[name], name)
    quantization.quantize_static(
        str(files[name]),
        str(path),
        reader,
        quant_format=quantization.QuantFormat[form],
        reduce_range=runtime_takes_seven_bits(),
    )
    if form == "QOperator":
        assert any(o.startswith("com.microsoft.QLinear") for o in operators(path))
    if optimize:
        path = optimized(path, "extended", tmp_path / "saved.onnx")
    check(path, name, **NEAR)


@pytest.mark.parametrize("kind", [quantization.QuantType.QInt16, quantization.QuantType.QUInt16])
def test_activations_of_16_bits(files, tmp_path, kind):
    """QuantizeLinear of com.microsoft, which ai.onnx has for 16 bits from operator set 21 on."""
    path, name = tmp_path / "quantised.onnx", "convolutions"
    quantization.quantize_static(
        str(files[name]), str(path), Samples(files[name], name), activation_type=kind,
        quant_format=quantization.QuantFormat.QDQ, extra_options={"UseQDQContribOps": True},
    )  # fmt: skip
    assert "com.microsoft.QuantizeLinear" in operators(path)
    check(path, name, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("name", ["gpt", "bert"])
def test_weights_of_few_bits(files, tmp_path, name, bits, symmetric):
    quantizer = MatMulNBitsQuantizer(
        onnx.load(str(files[name])), bits=bits, block_size=16, is_symmetric=symmetric,
        op_types_to_quantize=("MatMul", "Gather"),
    )  # fmt: skip
    quantizer.process()
    path = tmp_path / "packed.onnx"
    quantizer.model.save_model_to_file(str(path))
    assert "com.microsoft.MatMulNBits" in operators(path)
    check(path, name, rtol=1e-3, atol=1e-3)
