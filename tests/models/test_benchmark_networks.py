"""The second and third set of networks and the operators of ./dev bench --ops give what PyTorch gives."""

import argparse
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
pytest.importorskip("torchvision")
import bench
import implementations
import networks
import op_rows
import operators

pytestmark = pytest.mark.models
QUICK = [
    *("gru_s64_b1", "decoder_cached_b1", "gru_train_b16", "conv_vae_train_b64", "recommender_train_b512"),
    *("bottlenecks_relu6_b1", "bottlenecks_silu_b1", "lstm_s100_b1", "lstm_train_b8"),
]
LARGE = [
    *("convnext_tiny_b1", "shufflenet_v2_b1", "swin_t_b1", "googlenet_b1", "fcn_resnet50_b1", "wav2vec_features_b1"),
    *("convnext_tiny_train_b8", "segmentation_train_b2"),
    *("densely_connected_b1", "patch_encoder_b1", "encoder_decoder_256_b1", "decoder_s64_b1"),
    *("bottlenecks_relu6_train_b8", "patch_encoder_train_b8"),
]
FEW = ["Gelu", "Add broadcast", "ReduceSum columns", "Softmax", "MatMul", "Conv depthwise", "LSTM", "Attention causal"]


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE)])
def test_networks(name):
    training = networks.BENCHMARKS[name].training
    ours, theirs = (implementations.build(who, name).check(training) for who in ("ours", "torch_eager"))
    scale = np.abs(theirs).max()
    np.testing.assert_allclose(ours, theirs, atol=2e-4 * scale, rtol=0)


def test_an_unknown_name_is_told_the_nearest_ones():
    assert bench.known_name("mlp_b8") == "mlp_b8"
    with pytest.raises(argparse.ArgumentTypeError, match=r"'mlp_b8,mlp_b80'. Nearest names: mlp_b80.*by spaces"):
        bench.known_name("mlp_b8,mlp_b80")


def test_every_network_of_both_sets_is_compared():
    assert sorted([*QUICK, *LARGE]) == sorted([*bench.SECOND_NAMES, *bench.THIRD_NAMES])


@pytest.mark.parametrize(
    "row", [pytest.param(r, id=r.name, marks=[] if r.name in FEW else [pytest.mark.slow]) for r in operators.ROWS]
)
def test_operators(row):
    for training in (False, True) if row.trains else (False,):
        results = operators.compared(row, "small", training, 0.0, 0.0, 1)["results"]
        assert {name: result["error"] for name, result in results.items() if "error" in result} == {}
        assert list(results) == operators.implementations_of(row, "small", training)


def test_every_operator_has_a_row_or_a_reason():
    measured = {name for row in operators.ROWS for name in row.types}
    assert not measured & op_rows.WITHOUT_ROW.keys()
    assert op_rows.types_of_cases() <= measured | op_rows.WITHOUT_ROW.keys()


def test_rows_have_names_of_their_own():
    names = [row.name for row in operators.ROWS]
    assert len(set(names)) == len(names)
