"""Every documented function of popxl.ops: its parameters, and a clear refusal where the operator does not exist yet."""

import inspect

import numpy as np
import popart_core
import popxl
import popxl.ops as ops
import pytest
from programs import evaluate

UNARY = (
    "abs ceil floor sign cos sin exp exp_ log log2 sqrt tanh relu relu_ gelu gelu_ geluerf geluerf_ swish swish_ "
    "negate isnan isinf isfinite logical_not detach detach_ flatten flatten_ io_tile_copy lamb_square"
)
REDUCTIONS = "sum mean max min prod l1 l2 logsum logsumexp sumsquare median"
MEMORY = "available_memory_proportion"
POOL = "t kernel_size stride padding out_pads dilation in_dilations auto_pad ceil_mode"
CONV = "stride padding dilation groups pad_type"
CONV_HINTS = "available_memory_proportions partials_types enable_conv_dithering"

FUNCTIONS = {
    **dict.fromkeys(UNARY.split(), "t"),
    **dict.fromkeys(REDUCTIONS.split(), "t axis keepdims"),
    **dict.fromkeys(["add", "add_", "sub", "mul", "div", "fmod", "logical_and", "logical_or"], "lhs rhs"),
    **dict.fromkeys(("equal",), "lhs rhs"),
    **dict.fromkeys(("scaled_add", "scaled_add_"), "X Y a b"),
    **dict.fromkeys(("increment_mod", "increment_mod_"), "t increment modulus"),
    **dict.fromkeys(("clip", "clamp"), "t min max"),
    **dict.fromkeys(("identity", "rename"), "t output_name"),
    **dict.fromkeys(("argmax", "argmin"), "t dim keepdim"),
    **dict.fromkeys(("reshape", "reshape_"), "t shape"),
    **dict.fromkeys(("transpose", "transpose_"), "t permutation"),
    **dict.fromkeys(("concat", "concat_"), "ts axis"),
    **dict.fromkeys(("slice", "slice_"), "t start stop step axis"),
    **dict.fromkeys(("gather", "tied_gather"), f"t indices axis {MEMORY} zero_OOR"),
    **dict.fromkeys(("dynamic_update", "dynamic_update_"), "t index t_update axes sizes no_overlap"),
    "greater": "input other",
    "pow": "t e",
    "maximum": "ts",
    "where": "condition lhs rhs",
    "cast": "t data_type",
    "topk": f"t k axis largest sorted {MEMORY}",
    "cumsum": "t dim",
    "histogram": "t levels absolute_of_input",
    "squeeze": "t axes",
    "split": "t splits axis",
    "subsample": "t strides",
    "groupedgather": f"t indices axis group_size {MEMORY} zero_OOR",
    "scatter": f"t indices values axis {MEMORY}",
    "scatter_reduce": f"data indices reduction initial_values axis axis_size enable_index_broadcast {MEMORY}",
    "onehot": "t num_classes values axis",
    "dynamic_slice": "t index axes sizes no_overlap",
    "matmul": f"lhs rhs {MEMORY} output_type partials_type",
    "matmul_pow2scaled": f"lhs rhs log2_scale {MEMORY}",
    "pow2scale_cast_to_fp8": "t log2_scale data_type",
    "pow2scale_cast_from_fp8": "t log2_scale data_type",
    "conv": f"t weight {CONV} {CONV_HINTS}",
    "conv_pow2scaled": f"t weight log2_scale {CONV} available_memory_proportions enable_conv_dithering",
    "conv_transpose": f"t weight {CONV} output_padding output_shape {CONV_HINTS}",
    "conv_transpose_pow2scaled": f"t weight log2_scale {CONV} output_padding output_shape "
    "available_memory_proportions enable_conv_dithering",
    "average_pool": POOL,
    "max_pool": f"{POOL} storage_order",
    "softmax": "t axis",
    "group_norm": "t weight bias num_groups eps",
    "layer_norm": "t weight bias eps",
    "batch_norm_inference": "t scale bias mean var epsilon momentum",
    "dropout": "t seed_tensor p",
    "interpolate": "t scale_factor mode nearest_mode coordinate_transformation_mode",
    "roi_align": "t rois batch_index output_size spatial_scale sampling_ratio",
    "random_uniform": "seed_tensor shape low high dtype",
    "random_normal": "seed_tensor shape mean std dtype",
    "split_random_seed": "seed n",
    "init": "shape dtype name init_type meta_shape",
    "host_load": "h2d_stream name",
    "host_store": "d2h_stream t",
    "ipu_copy": "t destination source",
    "remote_code_load": "graph destination",
    "call": "graph inputs inputs_dict",
    "call_with_info": "graph inputs inputs_dict check_inputs",
    "repeat": "graph repeat_count inputs inputs_dict",
    "repeat_with_info": "graph repeat_count inputs inputs_dict check_inputs",
    "conditional": "cond then_branch else_branch then_inputs else_inputs then_inputs_dict else_inputs_dict",
}
UPDATES = {
    "accumulate_": "t X f",
    "accumulate_square_": "t X f",
    "accumulate_mean_": "t X step",
    "accumulate_moving_average_": "t X f",
    "accumulate_moving_average_square_": "t X f",
    "accumulator_scale_": "t f",
    "accumulator_zero_": "t",
    "sparse_accumulate_": "t X indices axis f W",
    "copy_var_update_": "t X",
    **dict.fromkeys(
        ("adam_updater", "lamb_updater"),
        "acc_first_order acc_second_order weight time_step weight_decay beta1 beta2 epsilon",
    ),
    "adamax_updater": "acc_first_order acc_second_order weight time_step weight_decay beta1 epsilon",
    "adam_var_update": "t x r1 r2 learning_rate max_weight_norm",
}
COLLECTIVES = {
    **dict.fromkeys(("all_reduce", "all_reduce_identical_inputs", "all_reduce_identical_grad_inputs"), "ts ipus op"),
    **dict.fromkeys(("replicated_all_reduce", "replicated_all_reduce_"), "t op group"),
    "replicated_reduce_scatter": "t op group configure_output_for_replicated_tensor_sharding",
    "replica_sharded_slice": "t group",
    "replicated_slice": "t axis group",
    "replicated_all_gather": "t axis group output_shape",
}
ALL = [
    pytest.param(module, name, words, id=f"{module.__name__}.{name}")
    for module, table in ((ops, FUNCTIONS), (ops.var_updates, UPDATES), (ops.collectives, COLLECTIVES))
    for name, words in table.items()
]


@pytest.mark.parametrize(("module", "name", "words"), ALL)
def test_parameters(module, name: str, words: str):
    assert list(inspect.signature(getattr(module, name)).parameters) == words.split()


WRONG = {
    "max_pool": (lambda t: ops.max_pool(t, (2, 2), out_pads=[1]), r"out_pads: got \[1\], expected 2 numbers"),
    "average_pool": (lambda t: ops.average_pool(t, (5, 2), in_dilations=[1, 2]), r"kernel_size: .* does not fit"),
}


@pytest.mark.parametrize("name", WRONG)
def test_pools_that_do_not_fit_are_refused_by_name(name: str):
    build, text = WRONG[name]
    with popxl.Ir().main_graph, pytest.raises(popart_core.popart_exception, match=f"{name}: {text}"):
        build(popxl.variable(np.ones((1, 2, 4, 4), np.float32), name="image"))


def test_grouped_scatter_reduce():
    from popxl.ops.index import grouped_scatter_reduce

    data = np.arange(12, dtype=np.float32).reshape(2, 6)
    indices = np.array([[0, 0, 1, 1, 2, 2], [2, 2, 2, 0, 0, 0]], np.int32)
    got = evaluate(lambda d, i: grouped_scatter_reduce(d, i, "sum", axis=1, axis_size=3, group_size=2), data, indices)
    np.testing.assert_array_equal(got, [[1, 5, 9], [30, 0, 21]])


def test_code_copy_is_not_implemented():
    from popxl.ops.io import code_copy

    with pytest.raises(NotImplementedError, match="code_copy"):
        code_copy()
