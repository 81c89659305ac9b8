"""Operators, layers and optimizers of `popxl_addons`: sections 19 to 21 of the reference sheet popxl-addons.md.

`CALLS`: (section, module, name, parameters); a dot leads to a method. `NAMES`: what modules hold besides. `OP_TYPES`:
type of the op that an expression adds last. `VARIABLES`: what layers add, in order: key, shape, dtype. `REFUSALS`:
what is refused, in its situation. Expressions see the names of `scope`.
"""

import numpy as np
import popart
import popxl
import popxl_addons as addons
from popxl_addons import layers
from popxl_addons.layers.layer_norm_distributed import LayerNormDistributed
from popxl_addons.layers.linear_fp8 import LinearFP8
from popxl_addons.layers.linear_gq import LinearGQ
from popxl_addons.ops import replicated_all_reduce_TP as sums
from popxl_addons.ops import replicated_strided_collectives as strided
from popxl_addons.ops.cross_entropy_sharded_loss import cross_entropy_sharded_loss
from popxl_addons.ops.cross_entropy_sharded_wr_loss import cross_entropy_sharded_wr_loss
from popxl_addons.ops.fp8_mse_scale import fp8_mse_scale
from popxl_addons.ops.grad_reduce_square_add import grad_reduce_square_add
from popxl_addons.ops.group_quantize_decompress import group_quantize_compress_numpy, group_quantize_decompress
from popxl_addons.ops.layer_norm_distributed import layer_norm_distributed
from popxl_addons.ops.linear_layout import linear_layout
from popxl_addons.ops.rotary_pos_embed import rotary_pos_embed
from popxl_addons.ops.static_sparse_ops import dense_const_sparse_matmul
from popxl_addons.optimizers.adam import AdamOptimizerStep
from scipy.sparse import csr_matrix

from tests.checklist.popart_python_refusals import Refusal

_REDUCE = "t, op='add', group=None"
_LOSS = "ignore_index=None, reduction='mean'"
_MAPPING = "variables, nn_layer, dtype=popxl.float32"
_STRIDED = "ops.replicated_strided_collectives"

CALLS = [
    ("19.1", "ops", "cross_entropy", f"x, labels, {_LOSS}"),
    ("19.1", "ops", "cross_entropy_with_grad", f"x, labels, loss_scaling=1, {_LOSS}"),
    ("19.1", "ops.fp8_amax_scale", "fp8_amax_scale", "src, dtype=popxl.float8_143"),
    ("19.2", _STRIDED, "replicated_all_reduce_strided", _REDUCE),
    ("19.2", _STRIDED, "replicated_all_reduce_strided_identical_inputs", _REDUCE),
    ("19.2", _STRIDED, "replicated_all_reduce_strided_identical_grad_inputs", _REDUCE),
    ("19.2", _STRIDED, "replicated_all_gather_strided", "t, group=None"),
    (
        "19.2",
        _STRIDED,
        "replicated_reduce_scatter_strided",
        f"{_REDUCE}, configure_output_for_replicated_tensor_sharding=False",
    ),
    ("19.2", _STRIDED, "replicated_all_reduce_strided_graph", "tensors, op='add', group=None, use_io_tiles=False"),
    ("19.3", "ops.replicated_all_reduce_TP", "replicated_all_reduce", _REDUCE),
    ("19.3", "ops.replicated_all_reduce_TP", "replicated_all_reduce_identical_inputs", _REDUCE),
    ("19.3", "ops.replicated_all_reduce_TP", "replicated_all_reduce_identical_grad_inputs", _REDUCE),
    (
        "19.4",
        "ops.cross_entropy_sharded_loss",
        "cross_entropy_sharded_loss",
        "logits, indices, ignore_index=None, replica_grouping=None, reduction='mean', available_memory_proportion=0.4",
    ),
    ("19.5", "ops.cross_entropy_sharded_wr_loss", "cross_entropy_sharded_wr_loss", "logits, indices, ipus=None"),
    ("19.6", "ops.rotary_pos_embed", "trig_tables", "seq_len, rotary_dim, base=10000, np_dtype='float32'"),
    ("19.6", "ops.rotary_pos_embed", "trig_table_constants", "seq_len, rotary_dim, base=10000, dtype=popxl.float32"),
    ("19.6", "ops.rotary_pos_embed", "rotary_pos_embed", "t, sin, cos, rotary_dim=None"),
    ("19.7", "ops.layer_norm_distributed", "layer_norm_distributed", "t, w, b, epsilon=1e-5, group=None"),
    ("19.8", "ops.grad_reduce_square_add", "grad_reduce_square_add", "t, loss_scaling"),
    ("19.9", "ops.group_quantize_decompress", "group_quantize_compress_numpy", "t, group_size, dim"),
    ("19.9", "ops.group_quantize_decompress", "group_quantize_decompress_numpy", "t, group_scale, group_bias, dim"),
    ("19.9", "ops.group_quantize_decompress", "group_quantize_decompress", "t, group_scale, group_bias, dim=-1"),
    ("19.10", "ops.fp8_mse_scale", "fp8_mse_scale", "src, dtype=popxl.float8_143"),
    ("19.11", "ops.linear_layout", "linear_layout", "t, bs=1"),
    ("19.11", "ops.static_sparse_ops", "dense_const_sparse_matmul", "lhs, rhs, output_cols"),
    ("19.11", "ops.static_sparse_ops", "random_sparse", "dense, density=0.5"),
    ("20", "layers", "Linear", "out_features, bias=True, replica_grouping=None"),
    ("20", "layers", "LayerNorm.build", "x, eps=1e-5"),
    ("20", "layers.layer_norm_distributed", "LayerNormDistributed", "replica_grouping=None"),
    ("20", "layers", "GroupNorm", "num_groups, replica_grouping=None, eps=1e-5, cache=False"),
    ("20", "layers", "Embedding", "dtype, vocab_size, hidden_size, axis=0, replica_grouping=None"),
    ("20", "layers", "Embedding.get_vocab_shard_size", "vocab_size, n_shards"),
    ("20", "layers", "Embedding.get_offsets", "vocab_size, n_shards"),
    (
        "20",
        "layers",
        "Conv2D",
        "out_channels, kernel_size, strides=(1, 1), paddings=(0, 0, 0, 0), dilations=(1, 1), groups=1, bias=True, "
        "available_memory_proportions=None, partials_types=None, enable_conv_dithering=None, replica_grouping=None",
    ),
    (
        "20",
        "layers.linear_fp8",
        "LinearFP8",
        "out_features, bias=True, scale_metric='amax', scale=0, replica_grouping=None",
    ),
    ("20", "layers.linear_gq", "LinearGQ", "out_features, bias=True, replica_grouping=None, group_size=0, dim=-1"),
    *(("20", "layers", f"{layer}.torch_mapping", _MAPPING) for layer in ("Linear", "LayerNorm", "GroupNorm", "Conv2D")),
    ("20", "layers.linear_fp8", "LinearFP8.torch_mapping", _MAPPING),
    ("20", "layers.linear_gq", "LinearGQ.torch_mapping", f"{_MAPPING}, group_size=64, dim=-1"),
    (
        "21",
        "optimizers.adam",
        "AdamOptimizerStep.build",
        "var, grad, replica_grouping=None, *, lr, beta1=0.9, beta2=0.999, eps=1e-5, weight_decay=1e-2, "
        "first_order_dtype=popxl.float16, bias_correction=True, loss_scaling=1, global_norm=None, global_norm_max=None",
    ),
]

NAMES = {
    "ops": "cross_entropy cross_entropy_with_grad host_load host_store fp8_amax_scale",
    "ops.fp8_utils": "FpDef ieee_fp32_no_denorms ieee_fp16_denorms float8_152_def float8_143_def",
    "ops.replicated_all_reduce_TP.replicated_all_reduce_TP": "replicated_all_reduce "
    "replicated_all_reduce_identical_inputs replicated_all_reduce_identical_grad_inputs",
    "layers": "Linear LayerNorm GroupNorm Embedding Conv2D",
    "layers.linear_gq": "LinearGQ group_quantize_compress_numpy",
    "optimizers.adam": "AdamOptimizerStep",
}

# 19.1: fields in order, then what each format is
FORMAT_FIELDS = "num_exp_bits num_mantissa_bits fix_exponent_bias include_denorm has_nans max_value max_exp min_exp"
FORMATS = {
    "ieee_fp32_no_denorms": (8, 23, 127, False, True, 3.4028235e38, 127, -126),
    "ieee_fp16_denorms": (5, 10, 15, True, True, 65504, 15, -14),
    "float8_152_def": (5, 2, 16, True, False, 57344, 15, -17),
    "float8_143_def": (4, 3, 8, True, False, 240, 7, -10),
}

DOMAIN = "popxl.addons.ops"


def scope():
    """Names that expressions see, in an Ir of two replicas."""

    def variable(shape, dtype=np.float32):
        return popxl.variable(np.ones(shape, dtype))

    return {
        "x": variable((2, 4)),
        "v": variable(4),
        "labels": variable(2, np.int32),
        "heads": variable((2, 3, 2, 4)),
        "table": variable((3, 2)),
        "packed": variable((2, 3, 1), np.uint16),
        "factor": variable((2, 3)),
        "sparse": csr_matrix(np.eye(4)),
        "ints": variable((2, 4), np.int32),
        "one": popxl.gir().replica_grouping(group_size=1),
    }


OP_TYPES = [
    ("19.2", "ReplicatedAllReduceStrided", lambda s: strided.replicated_all_reduce_strided(s["x"])),
    ("19.2", "ReplicatedAllReduceStrided", lambda s: strided.replicated_all_reduce_strided_identical_inputs(s["x"])),
    ("19.2", "ReplicatedAllGatherStrided", lambda s: strided.replicated_all_gather_strided(s["x"])),
    ("19.2", "ReplicatedReduceScatterStrided", lambda s: strided.replicated_reduce_scatter_strided(s["x"], "mean")),
    ("19.3", "ReplicatedAllReduceTP", lambda s: sums.replicated_all_reduce(s["x"])),
    ("19.4", "CrossEntropySharded", lambda s: cross_entropy_sharded_loss(s["x"], s["labels"], reduction="none")),
    ("19.5", "CrossEntropyShardedWR", lambda s: cross_entropy_sharded_wr_loss([s["x"]], [s["labels"]], [0])),
    ("19.6", "RotaryPosEmbed", lambda s: rotary_pos_embed(s["heads"], s["table"], s["table"])),
    ("19.7", "LayerNormDistributed", lambda s: layer_norm_distributed(s["x"], s["v"], s["v"])),
    ("19.8", "GradReduceSquareAdd", lambda s: grad_reduce_square_add(s["x"], 2)),
    ("19.9", "GroupQuantizeDecompress", lambda s: group_quantize_decompress(s["packed"], s["factor"], s["factor"])),
    ("19.10", "Fp8Scale", lambda s: fp8_mse_scale(s["x"])),
    ("19.11", "LinearLayout", lambda s: linear_layout(s["x"])),
    ("19.11", "SparseMatmul", lambda s: dense_const_sparse_matmul(s["x"], s["sparse"], 4)),
]

_F16, _F32 = popxl.float16, popxl.float32
# section, layer in an Ir of two replicas, shape and dtype of its input, variables: (key, shape, dtype)
VARIABLES = [
    ("20", lambda _: layers.Linear(3), (2, 4), _F16, [("weight", (4, 3), _F16), ("bias", (3,), _F16)]),
    ("20", lambda _: layers.Linear(3, bias=False), (2, 4), _F32, [("weight", (4, 3), _F32)]),
    ("20", lambda _: layers.LayerNorm(), (2, 4), _F16, [("weight", (4,), _F16), ("bias", (4,), _F16)]),
    ("20", lambda _: layers.GroupNorm(2), (2, 4, 3), _F32, [("weight", (4,), _F32), ("bias", (4,), _F32)]),
    (
        "20",
        lambda ir: LayerNormDistributed(ir.replica_grouping()),
        (2, 4),
        _F32,
        [("weight", (4,), _F32), ("bias", (4,), _F32)],
    ),
    ("20", lambda _: layers.Embedding(_F16, 17, 5), (2, 4), popxl.int32, [("weight", (32, 5), _F16)]),
    (
        "20",
        lambda ir: layers.Embedding(_F16, 40, 5, replica_grouping=ir.replica_grouping(group_size=1)),
        (2, 4),
        popxl.int32,
        [("weight", (32, 5), _F16)],
    ),
    (
        "20",
        lambda _: layers.Conv2D(6, (3, 2), groups=2),
        (1, 4, 5, 5),
        _F32,
        [("weight", (6, 2, 3, 2), _F32), ("bias", (1, 6, 1, 1), _F32)],
    ),
    ("20", lambda _: LinearFP8(3), (2, 4), _F16, [("weight", (4, 3), _F16), ("bias", (3,), _F16)]),
    *(
        (
            "20",
            lambda _, dim=dim: LinearGQ(8, group_size=4, dim=dim),
            (2, 4),
            _F16,
            [
                ("weight_compressed", (u, c // 4, 1), popxl.uint16),
                ("weight_decompression_scale", (u, c // 4, 1), _F16),
                ("weight_decompression_bias", (u, c // 4, 1), _F16),
                ("bias", (8,), _F16),
            ],
        )
        for dim, u, c in ((-1, 4, 8), (1, 4, 8), (0, 8, 4))
    ),
]


def _in_graph(function):
    """A program: `function` of the scope, in the main graph of an Ir with two replicas."""

    def program():
        ir = popxl.Ir(replication=2)
        with ir.main_graph:
            function(scope())

    return program


def _layer(make, shape, dtype=_F32):
    return _in_graph(lambda _: make().create_graph(popxl.TensorSpec(shape, dtype)))


def _wr_on_ipus(logits_ipu, indices_ipu):
    def function(s):
        with popxl.ipu(logits_ipu):
            x = s["x"] + 1
        with popxl.ipu(indices_ipu):
            labels = s["labels"] + 1
        cross_entropy_sharded_wr_loss([x], [labels])

    return function


_core = popart.popart_exception
REFUSALS = [
    Refusal(section, situation, exception, _in_graph(function), names)
    for section, situation, exception, function, names in (
        (
            "19.1",
            "fp8_amax_scale of integers",
            RuntimeError,
            lambda s: addons.ops.fp8_amax_scale(s["ints"]),
            ("int32",),
        ),
        *(
            ("19.2", f"{f.__name__} with {op}", _core, lambda s, f=f, op=op: f(s["x"], op), ("Add or Mean",))
            for f in (strided.replicated_all_reduce_strided, strided.replicated_reduce_scatter_strided)
            for op in ("max", "min", "square_add")
        ),
        *(
            ("19.3", f"{f.__name__} with mean", _core, lambda s, f=f: f(s["x"], "mean"), ("Add",))
            for f in (
                sums.replicated_all_reduce,
                sums.replicated_all_reduce_identical_inputs,
                sums.replicated_all_reduce_identical_grad_inputs,
            )
        ),
        ("19.4", "logits of rank 1", _core, lambda s: cross_entropy_sharded_loss(s["v"], s["labels"]), ("dimensions",)),
        (
            "19.4",
            "another number of labels",
            _core,
            lambda s: cross_entropy_sharded_loss(s["x"], popxl.variable(np.ones(3, np.int32))),
            ("2 samples",),
        ),
        (
            "19.4",
            "another reduction",
            ValueError,
            lambda s: cross_entropy_sharded_loss(s["x"], s["labels"], reduction="max"),
            ("'max'",),
        ),
        (
            "19.5",
            "lengths of the lists",
            ValueError,
            lambda s: cross_entropy_sharded_wr_loss([s["x"], s["x"]], [s["labels"]], [0, 1]),
            ("2 logits, 1 indices",),
        ),
        (
            "19.5",
            "an unknown IPU",
            ValueError,
            lambda s: cross_entropy_sharded_wr_loss([s["x"]], [s["labels"]]),
            ("IPU",),
        ),
        ("19.5", "logits and indices on two IPUs", ValueError, _wr_on_ipus(0, 1), ("[0]", "[1]")),
        ("19.6", "an odd size", _core, lambda s: rotary_pos_embed(s["heads"], s["table"], s["table"], 3), ("3",)),
        ("19.6", "rank 2", AssertionError, lambda s: rotary_pos_embed(s["x"], s["table"], s["table"]), ("(2, 4)",)),
        ("19.6", "a flat table", AssertionError, lambda s: rotary_pos_embed(s["heads"], s["v"], s["table"]), ("sin",)),
        ("19.7", "ranks", AssertionError, lambda s: layer_norm_distributed(s["v"], s["v"], s["v"]), ()),
        ("19.7", "ranks of the scale", AssertionError, lambda s: layer_norm_distributed(s["x"], s["x"], s["v"]), ()),
        (
            "19.9",
            "infinities",
            ValueError,
            lambda _: group_quantize_compress_numpy(np.array([1.0, np.inf, 0, 0]), 4, -1),
            ("finite",),
        ),
        (
            "19.9",
            "rank 2",
            NotImplementedError,
            lambda s: group_quantize_decompress(s["x"], s["factor"], s["factor"]),
            ("(2, 4)",),
        ),
        (
            "19.9",
            "factors of rank 1",
            ValueError,
            lambda s: group_quantize_decompress(s["packed"], s["v"], s["factor"]),
            ("group_scale",),
        ),
        (
            "19.9",
            "factors of other groups",
            ValueError,
            lambda s: group_quantize_decompress(s["packed"], s["factor"], s["x"]),
            ("group_bias", "(2, 4)"),
        ),
        ("19.10", "fp8_mse_scale of integers", RuntimeError, lambda s: fp8_mse_scale(s["ints"]), ("int32",)),
        (
            "19.11",
            "a sparse product of integers",
            RuntimeError,
            lambda s: dense_const_sparse_matmul(s["ints"], s["sparse"], 4),
            ("int32",),
        ),
    )
] + [
    Refusal("20", "LayerNorm of rank 3", ValueError, _layer(layers.LayerNorm, (2, 3, 4)), ("(2, 3, 4)",)),
    Refusal("20", "Conv2D of rank 3", AssertionError, _layer(lambda: layers.Conv2D(2, 3), (4, 7, 7)), ("(4, 7, 7)",)),
    Refusal("20", "LayerNormDistributed without a group", AttributeError, _in_graph(lambda _: LayerNormDistributed())),
    Refusal("20", "LinearGQ without a group size", ZeroDivisionError, _layer(lambda: LinearGQ(8), (2, 4))),
    Refusal("20", "another metric", ValueError, lambda: LinearFP8(2, scale_metric="mean"), ("'mean'",)),
    Refusal("20", "LinearFP8 inline", Exception, _in_graph(lambda s: LinearFP8(2)(s["x"])), ("build_grad",)),
    Refusal(
        "21",
        "a norm without its limit",
        AssertionError,
        _in_graph(lambda s: AdamOptimizerStep().create_graph(s["x"], s["x"], lr=0.1, global_norm=s["v"])),
        ("global_norm_max",),
    ),
]
