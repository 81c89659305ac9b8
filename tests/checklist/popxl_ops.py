"""The functions of popxl.ops by section of the reference sheet popxl-ops.md.

`CALLS`: signatures as the sheet has them. `PRINTED`: calls in a graph, the operators that a printed schedule shows for
them, and the names of the last operator's results. `CONSTANTS`: names of the constants that calls make.
popxl_ops_refusals.py has what is refused.

Calls are written with the tensors of `TENSORS` (name, dtype, shape), `ops`, `v` (ops.var_updates), `c`
(ops.collectives), `popxl` and the objects that `test_popxl_ops.py` makes.
"""


def rows(text: str) -> list[list[str]]:
    """Return the cells of a table: a line for each row, "|" between cells, "-" for an empty one."""
    cells = ([cell.strip() for cell in line.split(" | ")] for line in text.strip().splitlines())
    return [["" if cell == "-" else cell for cell in row] for row in cells]


_POOL = (
    "t, kernel_size, stride=None, padding=None, out_pads=None, dilation=None, in_dilations=None, "
    "auto_pad='not_set', ceil_mode=False"
)
_MEMORY = "available_memory_proportion=None"
_CONV = "stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), groups=1, pad_type='not_set'"
_UPDATER = "acc_first_order, acc_second_order, weight=None, time_step=None, weight_decay=None"
_UNARY = (
    "abs ceil floor sign cos sin exp exp_ log log2 sqrt tanh relu relu_ gelu gelu_ geluerf geluerf_ swish swish_ "
    "negate isnan isinf isfinite logical_not detach detach_"
)
_REDUCTIONS = "sum mean max min prod l1 l2 logsum logsumexp sumsquare median"

# section, module, names, parameters
CALLS = [
    ("2", "ops", _UNARY, "t"),
    ("2", "ops", "identity rename", "t, output_name=None"),
    ("2", "ops", "clip clamp", "t, min=float('-inf'), max=float('inf')"),
    ("2", "ops", "cast", "t, data_type"),
    ("2", "ops", "increment_mod increment_mod_", "t, increment, modulus"),
    ("3", "ops", "add add_ sub mul div fmod equal logical_and logical_or", "lhs, rhs"),
    ("3", "ops", "pow", "t, e"),
    ("3", "ops", "greater", "input, other"),
    ("3", "ops", "maximum", "*ts"),
    ("3", "ops", "where", "condition, lhs, rhs"),
    ("3", "ops", "scaled_add scaled_add_", "X, Y, a=1.0, b=1.0"),
    ("4", "ops", _REDUCTIONS, "t, axis=None, keepdims=False"),
    ("4", "ops", "argmax argmin", "t, dim=0, keepdim=False"),
    ("4", "ops", "topk", f"t, k, axis, largest, sorted, {_MEMORY}"),
    ("4", "ops", "cumsum", "t, dim=0"),
    ("4", "ops", "histogram", "t, levels, absolute_of_input"),
    ("4", "ops", "lamb_square", "t"),
    ("5", "ops", "reshape reshape_", "t, shape"),
    ("5", "ops", "flatten flatten_", "t"),
    ("5", "ops", "squeeze", "t, axes=None"),
    ("5", "ops", "transpose transpose_", "t, permutation=None"),
    ("5", "ops", "concat concat_", "ts, axis=0"),
    ("5", "ops", "split", "t, splits, axis=0"),
    ("5", "ops", "slice slice_", "t, start=None, stop=None, step=None, axis=None"),
    ("5", "ops", "subsample", "t, strides"),
    ("6", "ops", "gather tied_gather", f"t, indices, axis=0, {_MEMORY}, zero_OOR=False"),
    ("6", "ops", "groupedgather", f"t, indices, axis=0, group_size=1, {_MEMORY}, zero_OOR=False"),
    ("6", "ops", "scatter", f"t, indices, values, axis=0, {_MEMORY}"),
    (
        "6",
        "ops",
        "scatter_reduce",
        "data, indices, reduction, initial_values=None, axis=0, axis_size=None, enable_index_broadcast=True, "
        f"{_MEMORY}",
    ),
    ("6", "ops", "onehot", "t, num_classes, values, axis"),
    ("6", "ops", "dynamic_slice", "t, index, axes, sizes, no_overlap"),
    ("6", "ops", "dynamic_update dynamic_update_", "t, index, t_update, axes, sizes, no_overlap"),
    ("7", "ops", "matmul", f"lhs, rhs, {_MEMORY}, output_type=None, partials_type=None"),
    ("7", "ops", "matmul_pow2scaled", f"lhs, rhs, log2_scale, {_MEMORY}"),
    ("7", "ops", "pow2scale_cast_to_fp8 pow2scale_cast_from_fp8", "t, log2_scale, data_type"),
    (
        "8",
        "ops",
        "conv",
        f"t, weight, {_CONV}, available_memory_proportions=None, partials_types=None, enable_conv_dithering=None",
    ),
    (
        "8",
        "ops",
        "conv_pow2scaled",
        f"t, weight, log2_scale, {_CONV}, available_memory_proportions=None, enable_conv_dithering=None",
    ),
    (
        "8",
        "ops",
        "conv_transpose",
        f"t, weight, {_CONV}, output_padding=(), output_shape=(), available_memory_proportions=None, "
        "partials_types=None, enable_conv_dithering=None",
    ),
    (
        "8",
        "ops",
        "conv_transpose_pow2scaled",
        f"t, weight, log2_scale, {_CONV}, output_padding=(), output_shape=(), available_memory_proportions=None, "
        "enable_conv_dithering=None",
    ),
    ("8", "ops", "average_pool", _POOL),
    ("8", "ops", "max_pool", f"{_POOL}, storage_order='row'"),
    ("9", "ops", "softmax", "t, axis"),
    ("9", "ops", "group_norm", "t, weight, bias, num_groups, eps=1e-05"),
    ("9", "ops", "layer_norm", "t, weight, bias, eps=1e-05"),
    ("9", "ops", "batch_norm_inference", "t, scale, bias, mean, var, epsilon=1e-05, momentum=0.9"),
    ("9", "ops", "dropout", "t, seed_tensor, p"),
    ("9", "ops", "shaped_dropout", "t, seed_tensor, shape, ratio"),
    ("9", "ops", "nll_loss", "probs, labels, ignore_index=None, reduction='mean', log_prob=False"),
    ("9", "ops", "nll_loss_with_softmax_grad", "probs, labels, loss_grad=1, ignore_index=None, reduction='mean'"),
    (
        "10",
        "ops",
        "interpolate",
        "t, scale_factor=(1.0, 1.0, 1.0, 1.0), mode='nearest', nearest_mode='round_prefer_floor', "
        "coordinate_transformation_mode='half_pixel'",
    ),
    ("10", "ops", "roi_align", "t, rois, batch_index, output_size, spatial_scale, sampling_ratio"),
    ("11", "ops", "random_uniform", "seed_tensor, shape, low=0.0, high=1.0, dtype=popxl.float32"),
    ("11", "ops", "random_normal", "seed_tensor, shape, mean=0.0, std=1.0, dtype=popxl.float32"),
    ("11", "ops", "split_random_seed", "seed, n=2"),
    ("12", "ops", "init", "shape, dtype, name=None, init_type='zero', meta_shape=None"),
    ("12", "ops", "host_load", "h2d_stream, name=None"),
    ("12", "ops", "host_store", "d2h_stream, t"),
    ("12", "ops", "remote_load", "remote_buffer, offset, name=None"),
    ("12", "ops", "remote_load_ remote_store", "remote_buffer, offset, t"),
    ("12", "ops", "ipu_copy", "t, destination, source=None"),
    ("12", "ops", "io_tile_copy", "t"),
    ("12", "ops", "remote_code_load", "graph, destination"),
    (
        "12",
        "ops",
        "print_tensor",
        "t, title=None, print_self=True, print_gradient=False, summarise_threshold=1000, edge_items=3, "
        "max_line_width=75, digits=8, float_format='auto', separator=' ', open_bracket='[', close_bracket=']'",
    ),
    ("13.1", "ops", "call", "graph, *inputs, inputs_dict=None"),
    ("13.1", "ops", "call_with_info", "graph, *inputs, inputs_dict=None, check_inputs=True"),
    ("13.2", "ops", "repeat", "graph, repeat_count, *inputs, inputs_dict=None"),
    ("13.2", "ops", "repeat_with_info", "graph, repeat_count, *inputs, inputs_dict=None, check_inputs=True"),
    (
        "13.3",
        "ops",
        "conditional",
        "cond, then_branch, else_branch, then_inputs=None, else_inputs=None, then_inputs_dict=None, "
        "else_inputs_dict=None",
    ),
    (
        "13.3",
        "ops",
        "conditional_with_info",
        "cond, then_branch, else_branch, then_inputs=None, else_inputs=None, then_inputs_dict=None, "
        "else_inputs_dict=None, check_inputs=True",
    ),
    ("14", "c", "all_reduce all_reduce_identical_inputs all_reduce_identical_grad_inputs", "ts, ipus=None, op='add'"),
    ("14", "c", "replicated_all_reduce replicated_all_reduce_", "t, op='add', group=None"),
    (
        "14",
        "c",
        "replicated_reduce_scatter",
        "t, op='add', group=None, configure_output_for_replicated_tensor_sharding=False",
    ),
    ("14", "c", "replica_sharded_slice", "t, group=None"),
    ("14", "c", "replicated_slice", "t, axis=0, group=None"),
    ("14", "c", "replicated_all_gather", "t, axis=0, group=None, output_shape='auto'"),
    ("15", "v", "accumulate_", "t, X, f=None"),
    ("15", "v", "accumulate_square_", "t, X, f=1.0"),
    ("15", "v", "accumulate_mean_", "t, X, step"),
    ("15", "v", "accumulate_moving_average_ accumulate_moving_average_square_", "t, X, f"),
    ("15", "v", "accumulator_scale_", "t, f"),
    ("15", "v", "accumulator_zero_", "t"),
    ("15", "v", "sparse_accumulate_", "t, X, indices, axis=0, f=None, W=None"),
    ("15", "v", "copy_var_update_", "t, X"),
    ("15", "v", "adam_updater lamb_updater", f"{_UPDATER}, beta1=None, beta2=None, epsilon=1e-07"),
    ("15", "v", "adamax_updater", f"{_UPDATER}, beta1=0.9, epsilon=1e-07"),
    ("15", "v", "adam_var_update", "t, x, r1, r2, learning_rate=None, max_weight_norm=None"),
]

# names that the module has and does not export: module, names
UNEXPORTED = [
    ("ops.index", "grouped_scatter_reduce"),
    ("ops.random", "create_random_seed"),
    ("ops.io", "code_copy"),
    ("ops.control", "ConditionalSiteInfo"),
    ("ops", "CallSiteInfo"),
    ("ops.collectives", "CollectiveOps CommGroup CommGroupType"),
    ("ops.utils", "check_in_graph check_tensor_ipu_and_tile_set handle_negative_axis cast_if_needed"),
    ("ops.utils", "convert_optional_float convert_optional_int convert_optional_dtype convert_optional_int64_list"),
]

TENSORS = [
    ("x", "float32", (2, 3, 4)),
    ("y", "float32", (2, 3, 4)),
    ("m", "float32", (4, 5)),
    ("h", "float16", (2, 3, 4)),
    ("d", "float16", (4,)),
    ("i", "int32", (2, 3, 4)),
    ("k", "int32", (3,)),
    ("b", "bool", (2, 3, 4)),
    ("u", "uint32", (2,)),
    ("f8", "float8_143", (4, 4)),
    ("g8", "float8_152", (4, 4)),
    ("i8", "float8_143", (1, 2, 5, 5)),
    ("w8", "float8_152", (2, 2, 3, 3)),
    ("n", "int32", ()),
    ("s", "float32", ()),
    ("image", "float32", (1, 2, 6, 6)),
    ("kernel", "float32", (3, 2, 3, 3)),
    ("back", "float32", (2, 3, 3, 3)),
    ("channels", "float32", (3,)),
    ("two", "float32", (2,)),
    ("rois", "float32", (5, 4)),
    ("which", "int32", (5,)),
    ("labels", "int32", (2, 3)),
    ("row", "float32", (1, 2, 4)),
    ("ch", "float32", (3,)),
]

# section, operators as printed, names of the last operator's results (? any), call
PRINTED = rows(
    """
2 | Abs | abs_out | ops.abs(x)
2 | Ceil | ceil_out | ops.ceil(x)
2 | Floor | floor_out | ops.floor(x)
2 | Sign | sign_out | ops.sign(x)
2 | Cos | cos_out | ops.cos(x)
2 | Sin | sin_out | ops.sin(x)
2 | Exp | exp_out | ops.exp(x)
2 | Log | log_out | ops.log(x)
2 | Sqrt | sqrt_out | ops.sqrt(x)
2 | Tanh | tanh_out | ops.tanh(x)
2 | Relu | relu_out | ops.relu(x)
2 | Gelu | gelu_out | ops.gelu(x)
2 | GeluErf | geluerf_out | ops.geluerf(x)
2 | Swish | swish_out | ops.swish(x)
2 | Neg | negate_out | ops.negate(x)
2 | IsNaN | isnan_out | ops.isnan(x)
2 | IsInf | isinf_out | ops.isinf(x)
2 | Detach | detach_out | ops.detach(x)
2 | ExpInplace | exp_inplace_out | ops.exp_(x)
2 | ReluInplace | relu_inplace_out | ops.relu_(x)
2 | GeluInplace | gelu_inplace_out | ops.gelu_(x)
2 | GeluErfInplace | geluerf_inplace_out | ops.geluerf_(x)
2 | SwishInplace | swish_inplace_out | ops.swish_(x)
2 | Log Log Div | div_out | ops.log2(x)
2 | IsNaN IsInf Or Not Identity | isfinite_out | ops.isfinite(x)
2 | Not | not_out | ops.logical_not(b)
2 | Cast Not | not_out | ops.logical_not(x)
2 | Identity | identity_x | ops.identity(x)
2 | Identity | other | ops.rename(x, 'other')
2 | Clip | clip_out | ops.clip(x, 0, 1)
2 | Clip | clip_out | ops.clamp(x)
2 | Cast | x_float16 | ops.cast(x, popxl.float16)
2 | Cast | x_float32 | ops.cast(x, popxl.float32)
2 | IncrementMod | increment_mod_out | ops.increment_mod(i, 1, 3)
2 | IncrementModInplace | increment_mod_inplace_out | ops.increment_mod_(i, 1, 3)
2 | DetachInplace | detach_out | ops.detach_(x)
3 | Add | add_out | ops.add(x, y)
3 | Sub | sub_out | ops.sub(x, y)
3 | Mul | mul_out | ops.mul(x, y)
3 | Div | div_out | ops.div(x, y)
3 | Fmod | fmod_out | ops.fmod(x, y)
3 | Pow | pow_out | ops.pow(x, y)
3 | Equal | equal_out | ops.equal(x, y)
3 | Greater | greater_out | ops.greater(x, y)
3 | Max | maximum_out | ops.maximum(x, y)
3 | ScaledAdd | scaled_add_out | ops.scaled_add(x, y)
3 | AddLhsInplace | add_lhs_inplace_out | ops.add_(x, y)
3 | Pow | pow_out | ops.pow(x, 2.0)
3 | And | and_out | ops.logical_and(b, b)
3 | Or | or_out | ops.logical_or(b, b)
3 | Cast Or | or_out | ops.logical_or(i, b)
3 | Cast Cast And | and_out | ops.logical_and(i, x)
3 | Max | maximum_out | ops.maximum(x)
3 | Where | where_out | ops.where(b, x, y)
3 | Cast Where | where_out | ops.where(i, x, y)
3 | ScaledAdd | scaled_add_out | ops.scaled_add(x, h, 2.0, s)
3 | ScaledAddLhsInplace | scaled_add__x | ops.scaled_add_(x, h, s)
4 | ReduceSum | sum_out | ops.sum(x, None)
4 | ReduceSum | sum_out | ops.sum(x, 1)
4 | ReduceSum | sum_out | ops.sum(x, (0, -1))
4 | ReduceSum | sum_out | ops.sum(x, [])
4 | ReduceMean | mean_out | ops.mean(x, None)
4 | ReduceMean | mean_out | ops.mean(x, 1)
4 | ReduceMean | mean_out | ops.mean(x, (0, -1))
4 | ReduceMean | mean_out | ops.mean(x, [])
4 | ReduceMax | max_out | ops.max(x, None)
4 | ReduceMax | max_out | ops.max(x, 1)
4 | ReduceMax | max_out | ops.max(x, (0, -1))
4 | ReduceMax | max_out | ops.max(x, [])
4 | ReduceMin | min_out | ops.min(x, None)
4 | ReduceMin | min_out | ops.min(x, 1)
4 | ReduceMin | min_out | ops.min(x, (0, -1))
4 | ReduceMin | min_out | ops.min(x, [])
4 | ReduceProd | prod_out | ops.prod(x, None)
4 | ReduceProd | prod_out | ops.prod(x, 1)
4 | ReduceProd | prod_out | ops.prod(x, (0, -1))
4 | ReduceProd | prod_out | ops.prod(x, [])
4 | ReduceL1 | l1_out | ops.l1(x, None)
4 | ReduceL1 | l1_out | ops.l1(x, 1)
4 | ReduceL1 | l1_out | ops.l1(x, (0, -1))
4 | ReduceL1 | l1_out | ops.l1(x, [])
4 | ReduceL2 | l2_out | ops.l2(x, None)
4 | ReduceL2 | l2_out | ops.l2(x, 1)
4 | ReduceL2 | l2_out | ops.l2(x, (0, -1))
4 | ReduceL2 | l2_out | ops.l2(x, [])
4 | ReduceLogSum | logsum_out | ops.logsum(x, None)
4 | ReduceLogSum | logsum_out | ops.logsum(x, 1)
4 | ReduceLogSum | logsum_out | ops.logsum(x, (0, -1))
4 | ReduceLogSum | logsum_out | ops.logsum(x, [])
4 | ReduceLogSumExp | logsumexp_out | ops.logsumexp(x, None)
4 | ReduceLogSumExp | logsumexp_out | ops.logsumexp(x, 1)
4 | ReduceLogSumExp | logsumexp_out | ops.logsumexp(x, (0, -1))
4 | ReduceLogSumExp | logsumexp_out | ops.logsumexp(x, [])
4 | ReduceSumSquare | sumsquare_out | ops.sumsquare(x, None)
4 | ReduceSumSquare | sumsquare_out | ops.sumsquare(x, 1)
4 | ReduceSumSquare | sumsquare_out | ops.sumsquare(x, (0, -1))
4 | ReduceSumSquare | sumsquare_out | ops.sumsquare(x, [])
4 | ReduceMedian | median_out median_indices_out | ops.median(x, 1)
4 | ReduceMedian | median_out median_indices_out | ops.median(x, [])
4 | ArgMax | argmax_out | ops.argmax(x)
4 | ArgMin | argmin_out | ops.argmin(x, -1, True)
4 | TopK | topk_out_value topk_out_indices | ops.topk(x, 2, 1, True, True)
4 | CumSum | cumsum_out | ops.cumsum(x, -1)
4 | Histogram | histogram_out | ops.histogram(x, [0.0, 1.0], False)
4 | LambSquare | lamb_square_out | ops.lamb_square(h)
5 | Reshape | x_reshaped | ops.reshape(x, (4, -1))
5 | ReshapeInplace | x_reshaped | ops.reshape_(x, [24])
5 | Reshape | s_reshaped | ops.reshape(s, ())
5 | Reshape | x_reshaped | ops.flatten(x)
5 | ReshapeInplace | x_reshaped | ops.flatten_(x)
5 | Reshape | x_reshaped | ops.squeeze(x)
5 | Reshape | image_reshaped | ops.squeeze(image, [0])
5 | Transpose | x_T | ops.transpose(x)
5 | TransposeInplace | x_T | ops.transpose_(x, (1, 0, 2))
5 | Concat | concat_out | ops.concat([x, y], -1)
5 | ConcatInplace | concat_out | ops.concat_([x, y])
5 | Split | x_split_0 x_split_1 | ops.split(x, 2, -1)
5 | Split | x_split_0 x_split_1 | ops.split(x, [1, 3], 2)
5 | Slice | slice_out | ops.slice(x, 1)
5 | SliceInplace | slice_out | ops.slice_(x, [0, 1], [2, None], axis=[2, 1])
5 | - | - | ops.slice(x)
5 | Subsample | subsample_out | ops.subsample(x, 2)
6 | Gather | gather_out | ops.gather(x, k, 1)
6 | Gather | gather_out | ops.groupedgather(x, k)
6 | Gather | gather_out | ops.groupedgather(x, labels, 1, 2)
6 | PopartTiedGather | tiedgather_out | ops.tied_gather(x, k, 1)
6 | Scatter | scatter_out | ops.scatter(x, i, y)
6 | ScatterReduce | scatterreduce_out | ops.scatter_reduce(x, i, 'sum', axis_size=2)
6 | OneHot | onehot_out | ops.onehot(k, popxl.constant(4), popxl.constant([0.0, 1.0]), -1)
6 | DynamicSlice | dynamic_slice_out | ops.dynamic_slice(x, u, [0, 1], [1, 2], True)
6 | DynamicUpdate | dynamic_update_out | ops.dynamic_update(x, u, row, [0, 1], [1, 2], True)
6 | DynamicUpdateInplace | dynamicupdateinplace_out | ops.dynamic_update_(x, u, row, [0, 1], [1, 2], True)
7 | MatMul | matmul_out | ops.matmul(x, m, 0.5, None, popxl.float32)
7 | MatMul | matmul_pow2scaled_out | ops.matmul_pow2scaled(f8, g8, n)
7 | Pow2ScaleThenCast | h_float8_143 | ops.pow2scale_cast_to_fp8(h, n, popxl.float8_143)
7 | CastThenPow2Scale | f8_float16 | ops.pow2scale_cast_from_fp8(f8, n, popxl.float16)
8 | Conv | conv_out | ops.conv(image, kernel)
8 | ConvTranspose | convtranspose_out | ops.conv_transpose(image, back)
8 | Conv | conv_pow2scaled_out | ops.conv_pow2scaled(i8, w8, n)
8 | ConvTranspose | convtranspose_pow2scaled_out | ops.conv_transpose_pow2scaled(i8, w8, n)
8 | AveragePool | averagepool_out | ops.average_pool(image, (2, 2))
8 | MaxPool | maxpool_out | ops.max_pool(image, (2, 2))
9 | Softmax | softmax_out | ops.softmax(x, 0)
9 | Softmax | softmax_out | ops.softmax(x, 1)
9 | Softmax | softmax_out | ops.softmax(x, 2)
9 | Softmax | softmax_out | ops.softmax(x, -1)
9 | Softmax | softmax_out | ops.softmax(x, -2)
9 | GroupNormalization | group_norm_out group_norm_mean group_norm_inv_std_dev | ops.group_norm(x, ch, ch, 3)
9 | GroupNormalization | group_norm_out group_norm_mean group_norm_inv_std_dev | ops.layer_norm(x, channels, channels)
9 | BatchNormalization | batch_norm_out | ops.batch_norm_inference(x, channels, channels, channels, channels)
9 | Dropout | dropout_out | ops.dropout(x, u, 0.1)
9 | ShapedDropout | shapeddropout_out | ops.shaped_dropout(x, u, (3, 1), 0.1)
9 | Nll | loss | ops.nll_loss(x, labels)
9 | NlllWithSoftmaxGradDirect | loss dx | ops.nll_loss_with_softmax_grad(x, labels)
10 | Resize | interpolate_out | ops.interpolate(image, (1.0, 1.0, 2.0, 2.0))
10 | RoiAlign | roi_align_out | ops.roi_align(image, rois, which, (2, 2), 1.0, 2)
11 | RandomUniform | random_uniform_out | ops.random_uniform(u, (3,))
11 | RandomNormal | random_normal_out | ops.random_normal(u, (3,))
11 | ModifyRandomSeed | modified_seed | ops.split_random_seed(u, 1)
12 | Init | t | ops.init((2, 3), popxl.float16)
12 | Init | made | ops.init((2, 3), popxl.float16, 'made', 'undef', (5, 1))
12 | Init HostLoad | stream_in_hostload | ops.host_load(stream_in)
12 | Init HostLoad | a_hostload | ops.host_load(stream_in, 'a')
12 | HostStore | - | ops.host_store(stream_out, x)
12 | Init RemoteLoad | id_1_offset_offset_remote_loaded | ops.remote_load(buffer, 1)
12 | Init RemoteLoad | a_remote_loaded | ops.remote_load(buffer, n, 'a')
12 | RemoteLoadInplace | remote_load_inplace_out | ops.remote_load_(buffer, 1, x)
12 | RemoteStore | - | ops.remote_store(buffer, 1, x)
12 | IpuCopy | x_c1 | ops.ipu_copy(x, 1, 0)
12 | IoTileCopy | x_iotilecopy | ops.io_tile_copy(x)
12 | RemoteCodeLoad | - | ops.remote_code_load(callee, 'executable')
12 | PrintTensor | print_out | ops.print_tensor(x)
13.1 | Call | callee_out | ops.call(callee, x)
13.2 | Loop | callee_out__t1 | ops.repeat(callee, 2, x)
13.3 | If | callee_out_or_other_out | ops.conditional(yes, callee, other, [x], [x])
14 | AllReduce | all_reduce_out_0 all_reduce_out_1 | c.all_reduce([x, y], [0, 1])
14 | AllReduce | all_reduce_out_0 all_reduce_out_1 | c.all_reduce_identical_inputs([x, y], [0, 1])
14 | AllReduce | all_reduce_out_0 all_reduce_out_1 | c.all_reduce_identical_grad_inputs([x, y], [0, 1])
14 | ReplicatedAllReduce | x_all_reduce | c.replicated_all_reduce(x)
14 | ReplicatedAllReduceInplace | x_all_reduce | c.replicated_all_reduce_(x)
14 | ReplicatedReduceScatter | x_reduce_scattered | c.replicated_reduce_scatter(x)
14 | ReplicatedReduceScatter | x_sharded_slice | c.replica_sharded_slice(x)
14 | ReplicatedReduceScatter ReplicatedAllGather | ? | c.replicated_all_gather(c.replica_sharded_slice(x))
14 | Reshape ReplicatedAllGather Reshape | ? | c.replicated_all_gather(x)
14 | Transpose Reshape ReplicatedAllGather Reshape Transpose | ? | c.replicated_all_gather(x, 1)
14 | Reshape ReplicatedReduceScatter Reshape | ? | c.replicated_slice(x)
14 | Transpose Reshape ReplicatedReduceScatter Reshape Transpose | ? | c.replicated_slice(x, 2)
15 | Accumulate | accumulate__x | v.accumulate_(x, h)
15 | Accumulate | accumulate__x | v.accumulate_(x, y, s)
15 | Accumulate | accumulate_square__x | v.accumulate_square_(x, y)
15 | Accumulate | accumulate_mean__x | v.accumulate_mean_(x, y, 1.0)
15 | Accumulate | accumulate_moving_avg__x | v.accumulate_moving_average_(x, y, 0.9)
15 | Accumulate | accumulate_moving_avg_square__x | v.accumulate_moving_average_square_(x, y, s)
15 | AccumulatorScale | accumulator_scale__x | v.accumulator_scale_(x, 0.5)
15 | AccumulatorScale | accumulator_scale__x | v.accumulator_zero_(x)
15 | PopartSparseAccumulate | sparse_accumulate__x | v.sparse_accumulate_(x, y, u)
15 | CopyVarUpdate | updated__x | v.copy_var_update_(x, y)
15 | AdamUpdater | Updater | v.adam_updater(x, y)
15 | AdamUpdater | Updater | v.lamb_updater(x, y, x, s, 0.1, 0.9, 0.9)
15 | AdamUpdater | Updater | v.adamax_updater(x, y, time_step=s)
15 | AdamVarUpdate | adam_var_update_out | v.adam_var_update(x, y, s, s)
"""
)

# section, name and dtype of each constant that it makes, call
CONSTANTS = rows(
    """
2 | t float16 | ops.log2(h)
3 | t int32 | ops.pow(i, 2)
3 | t float32 | ops.pow(x, 2.0)
3 | - | ops.scaled_add(x, y, 2.0, 3.0)
4 | dim int64 | ops.cumsum(x, 1)
9 | t float32 | ops.nll_loss_with_softmax_grad(x, labels)
9 | - | ops.nll_loss_with_softmax_grad(x, labels, s)
11 | t uint32, t__t0 uint32 | ops.split_random_seed(u, 2)
12 | offset uint32 | ops.remote_load(buffer, 1)
12 | offset uint32 | ops.remote_store(buffer, 1, x)
15 | - | v.accumulate_(x, y, 0.5)
15 | t float32 | v.accumulate_mean_(x, y, 3)
15 | - | v.accumulator_zero_(x)
15 | - | v.adam_updater(x, y, x, s, 0.1, 0.9, 0.99)
15 | - | v.adam_var_update(x, y, s, s, 0.1, 2.0)
"""
)
