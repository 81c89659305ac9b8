# ruff: noqa: E501, SIM905
"""Operator methods of the builder: one row per method, from which ``builder.py`` makes the methods of every opset.

A signature lists the attributes after ``args`` in their positional order, as a Python parameter list. If
``num_outputs`` is first, the caller passes the number of outputs and the method always returns a list.
"""

from typing import NamedTuple


class Method(NamedTuple):
    """A builder method: ONNX operator type, opsets that have it, and its signatures by the first opset of each form."""

    op_type: str
    first_opset: int
    last_opset: int
    signatures: dict[int, str]
    outputs: int = 1
    has_args: bool = True
    kinds: dict[str, str] | None = None  # types of the attributes; None: by their names and defaults
    inputs: str = ""  # names of the inputs, in the form of `onnx_forms.Form`


AI_ONNX: dict[str, Method] = {
    "abs": Method("Abs", 6, 11, {6: ""}),
    "acos": Method("Acos", 7, 11, {7: ""}),
    "acosh": Method("Acosh", 9, 11, {9: ""}),
    "add": Method("Add", 6, 11, {6: "axis=None, broadcast=0", 7: ""}),
    "argmax": Method("ArgMax", 6, 11, {6: "axis=0, keepdims=1"}),
    "argmin": Method("ArgMin", 6, 11, {6: "axis=0, keepdims=1"}),
    "asin": Method("Asin", 7, 11, {7: ""}),
    "asinh": Method("Asinh", 9, 11, {9: ""}),
    "atan": Method("Atan", 7, 11, {7: ""}),
    "atanh": Method("Atanh", 9, 11, {9: ""}),
    "averagepool": Method(
        "AveragePool",
        6,
        11,
        {
            6: "kernel_shape, pads=[], strides=[]",
            7: "kernel_shape, count_include_pad=0, pads=[], strides=[]",
            10: "kernel_shape, ceil_mode=0, count_include_pad=0, pads=[], strides=[]",
        },
    ),
    "batchnormalization": Method(
        "BatchNormalization",
        6,
        11,
        {
            6: "num_outputs, epsilon=1e-5, is_test=0, momentum=0.9, spatial=1",
            7: "num_outputs, epsilon=1e-5, momentum=0.9, spatial=1",
            9: "num_outputs, epsilon=1e-5, momentum=0.9",
        },
    ),
    "bitshift": Method("BitShift", 11, 11, {11: "direction"}),
    "cast": Method("Cast", 6, 11, {6: "to"}),
    "ceil": Method("Ceil", 6, 11, {6: ""}),
    "clip": Method("Clip", 6, 11, {6: "max=3.4028234663852886e38, min=-3.4028234663852886e38", 11: ""}),
    "compress": Method("Compress", 9, 11, {9: "axis=None"}),
    "concat": Method("Concat", 6, 11, {6: "axis"}),
    "concatfromsequence": Method("ConcatFromSequence", 11, 11, {11: "axis, new_axis=0"}),
    "constant": Method("Constant", 6, 11, {6: "value", 11: "value, is_value_sparse=False"}, has_args=False),
    "constantofshape": Method("ConstantOfShape", 9, 10, {9: "value"}),
    "conv": Method("Conv", 6, 11, {6: "dilations=[], group=1, kernel_shape=[], pads=[], strides=[]"}),
    "convinteger": Method(
        "ConvInteger", 10, 11, {10: 'auto_pad="NOTSET", dilations=[], group=1, kernel_shape=[], pads=[], strides=[]'}
    ),
    "convtranspose": Method(
        "ConvTranspose",
        6,
        11,
        {6: "dilations=[], group=1, kernel_shape=[], output_padding=[], output_shape=[], pads=[], strides=[]"},
    ),
    "cos": Method("Cos", 7, 11, {7: ""}),
    "cosh": Method("Cosh", 9, 11, {9: ""}),
    "cumsum": Method("CumSum", 11, 11, {11: "exclusive=0, reverse=0"}),
    "depthtospace": Method("DepthToSpace", 6, 11, {6: "blocksize", 11: 'blocksize, mode="DCR"'}),
    "dequantizelinear": Method("DequantizeLinear", 10, 11, {10: ""}),
    "det": Method("Det", 11, 11, {11: ""}),
    "div": Method("Div", 6, 11, {6: "axis=None, broadcast=0", 7: ""}),
    "dropout": Method("Dropout", 6, 11, {6: "num_outputs, is_test=0, ratio=0.5", 7: "num_outputs, ratio=0.5"}),
    "dynamicquantizelinear": Method("DynamicQuantizeLinear", 11, 11, {11: ""}, outputs=3),
    "elu": Method("Elu", 6, 11, {6: "alpha=1.0"}),
    "equal": Method("Equal", 6, 11, {6: "axis=None, broadcast=0", 7: ""}),
    "erf": Method("Erf", 9, 11, {9: ""}),
    "exp": Method("Exp", 6, 11, {6: ""}),
    "expand": Method("Expand", 8, 11, {8: ""}),
    "eyelike": Method("EyeLike", 9, 11, {9: "dtype=None, k=0"}),
    "flatten": Method("Flatten", 6, 11, {6: "axis=1"}),
    "floor": Method("Floor", 6, 11, {6: ""}),
    "gather": Method("Gather", 6, 11, {6: "axis=0"}),
    "gatherelements": Method("GatherElements", 11, 11, {11: "axis=0"}),
    "gathernd": Method("GatherND", 11, 11, {11: ""}),
    "gemm": Method(
        "Gemm",
        6,
        11,
        {6: "alpha=1.0, beta=1.0, broadcast=0, transA=0, transB=0", 7: "alpha=1.0, beta=1.0, transA=0, transB=0"},
    ),
    "globalaveragepool": Method("GlobalAveragePool", 6, 11, {6: ""}),
    "globallppool": Method("GlobalLpPool", 6, 11, {6: "p=2"}),
    "globalmaxpool": Method("GlobalMaxPool", 6, 11, {6: ""}),
    "greater": Method("Greater", 6, 11, {6: "axis=None, broadcast=0", 7: ""}),
    "gru": Method(
        "GRU",
        6,
        11,
        {
            6: 'num_outputs, activation_alpha=[], activation_beta=[], activations=[], clip=None, direction="forward", hidden_size=None, linear_before_reset=0, output_sequence=0',
            7: 'num_outputs, activation_alpha=[], activation_beta=[], activations=[], clip=None, direction="forward", hidden_size=None, linear_before_reset=0',
        },
    ),
    "hardmax": Method("Hardmax", 6, 11, {6: "axis=1"}),
    "hardsigmoid": Method("HardSigmoid", 6, 11, {6: "alpha=0.2, beta=0.5"}),
    "identity": Method("Identity", 6, 11, {6: ""}),
    "instancenormalization": Method("InstanceNormalization", 6, 11, {6: "epsilon=1e-5"}),
    "isinf": Method("IsInf", 10, 11, {10: "detect_negative=1, detect_positive=1"}),
    "isnan": Method("IsNaN", 9, 11, {9: ""}),
    "leakyrelu": Method("LeakyRelu", 6, 11, {6: "alpha=0.01"}),
    "less": Method("Less", 6, 11, {6: "axis=None, broadcast=0", 7: ""}),
    "log": Method("Log", 6, 11, {6: ""}),
    "logical_and": Method("And", 6, 11, {6: "axis=None, broadcast=0", 7: ""}),
    "logical_if": Method("If", 6, 11, {6: "num_outputs, else_branch, then_branch"}),
    "logical_not": Method("Not", 6, 11, {6: ""}),
    "logical_or": Method("Or", 6, 11, {6: "axis=None, broadcast=0", 7: ""}),
    "logical_xor": Method("Xor", 6, 11, {6: "axis=None, broadcast=0", 7: ""}),
    "logsoftmax": Method("LogSoftmax", 6, 11, {6: "axis=1"}),
    "loop": Method("Loop", 6, 11, {6: "num_outputs, body"}),
    "lpnormalization": Method("LpNormalization", 6, 11, {6: "axis=-1, p=2"}),
    "lppool": Method("LpPool", 6, 11, {6: 'kernel_shape, auto_pad="NOTSET", p=2, pads=[], strides=[]'}),
    "lrn": Method("LRN", 6, 11, {6: "size, alpha=0.0001, beta=0.75, bias=1.0"}),
    "lstm": Method(
        "LSTM",
        6,
        11,
        {
            6: 'num_outputs, activation_alpha=[], activation_beta=[], activations=[], clip=None, direction="forward", hidden_size=None, input_forget=0, output_sequence=0',
            7: 'num_outputs, activation_alpha=[], activation_beta=[], activations=[], clip=None, direction="forward", hidden_size=None, input_forget=0',
        },
    ),
    "matmul": Method("MatMul", 6, 11, {6: ""}),
    "matmulinteger": Method("MatMulInteger", 10, 11, {10: ""}),
    "max": Method("Max", 6, 11, {6: ""}),
    "maxpool": Method(
        "MaxPool",
        6,
        11,
        {
            6: "kernel_shape, pads=[], strides=[]",
            8: "num_outputs, kernel_shape, pads=[], storage_order=0, strides=[]",
            10: "num_outputs, kernel_shape, ceil_mode=0, dilations=[], pads=[], storage_order=0, strides=[]",
        },
    ),
    "maxroipool": Method("MaxRoiPool", 6, 11, {6: "pooled_shape, spatial_scale=1.0"}),
    "maxunpool": Method("MaxUnpool", 9, 11, {9: "kernel_shape, pads=[], strides=[]"}),
    "mean": Method("Mean", 6, 11, {6: ""}),
    "meanvariancenormalization": Method("MeanVarianceNormalization", 9, 11, {9: "axes=[]"}),
    "min": Method("Min", 6, 11, {6: ""}),
    "mod": Method("Mod", 10, 11, {10: "fmod=0"}),
    "mul": Method("Mul", 6, 11, {6: "axis=None, broadcast=0", 7: ""}),
    "multinomial": Method("Multinomial", 7, 11, {7: "dtype=6, sample_size=1, seed=None"}),
    "neg": Method("Neg", 6, 11, {6: ""}),
    "nonmaxsuppression": Method("NonMaxSuppression", 10, 11, {10: "center_point_box=0"}),
    "nonzero": Method("NonZero", 9, 11, {9: ""}),
    "onehot": Method("OneHot", 9, 11, {9: "axis=-1"}),
    "pad": Method("Pad", 6, 11, {6: 'pads, mode="constant", value=0.0', 11: 'mode="constant"'}),
    "pow": Method("Pow", 6, 11, {6: "axis=None, broadcast=0", 7: ""}),
    "prelu": Method("PRelu", 6, 11, {6: ""}),
    "qlinearconv": Method(
        "QLinearConv", 10, 11, {10: 'auto_pad="NOTSET", dilations=[], group=1, kernel_shape=[], pads=[], strides=[]'}
    ),
    "qlinearmatmul": Method("QLinearMatMul", 10, 11, {10: ""}),
    "quantizelinear": Method("QuantizeLinear", 10, 11, {10: ""}),
    "randomnormal": Method(
        "RandomNormal", 6, 11, {6: "shape, dtype=1, mean=0.0, scale=1.0, seed=None"}, has_args=False
    ),
    "randomnormallike": Method("RandomNormalLike", 6, 11, {6: "dtype=None, mean=0.0, scale=1.0, seed=None"}),
    "randomuniform": Method(
        "RandomUniform", 6, 11, {6: "shape, dtype=1, high=1.0, low=0.0, seed=None"}, has_args=False
    ),
    "randomuniformlike": Method("RandomUniformLike", 6, 11, {6: "dtype=None, high=1.0, low=0.0, seed=None"}),
    "range": Method("Range", 11, 11, {11: ""}),
    "reciprocal": Method("Reciprocal", 6, 11, {6: ""}),
    "reducel1": Method("ReduceL1", 6, 11, {6: "axes=None, keepdims=1"}),
    "reducel2": Method("ReduceL2", 6, 11, {6: "axes=None, keepdims=1"}),
    "reducelogsum": Method("ReduceLogSum", 6, 11, {6: "axes=None, keepdims=1"}),
    "reducelogsumexp": Method("ReduceLogSumExp", 6, 11, {6: "axes=None, keepdims=1"}),
    "reducemax": Method("ReduceMax", 6, 11, {6: "axes=None, keepdims=1"}),
    "reducemean": Method("ReduceMean", 6, 11, {6: "axes=None, keepdims=1"}),
    "reducemin": Method("ReduceMin", 6, 11, {6: "axes=None, keepdims=1"}),
    "reduceprod": Method("ReduceProd", 6, 11, {6: "axes=None, keepdims=1"}),
    "reducesum": Method("ReduceSum", 6, 11, {6: "axes=None, keepdims=1"}),
    "reducesumsquare": Method("ReduceSumSquare", 6, 11, {6: "axes=None, keepdims=1"}),
    "relu": Method("Relu", 6, 11, {6: ""}),
    "reshape": Method("Reshape", 6, 11, {6: ""}),
    "resize": Method(
        "Resize",
        10,
        11,
        {
            10: 'mode="nearest"',
            11: 'coordinate_transformation_mode="half_pixel", cubic_coeff_a=-0.75, exclude_outside=0, extrapolation_value=0.0, mode="nearest", nearest_mode="round_prefer_floor"',
        },
    ),
    "reversesequence": Method("ReverseSequence", 10, 11, {10: "batch_axis=1, time_axis=0"}),
    "rnn": Method(
        "RNN",
        6,
        11,
        {
            6: 'num_outputs, activation_alpha=[], activation_beta=[], activations=[], clip=None, direction="forward", hidden_size=None, output_sequence=0',
            7: 'num_outputs, activation_alpha=[], activation_beta=[], activations=[], clip=None, direction="forward", hidden_size=None',
        },
    ),
    "roialign": Method(
        "RoiAlign", 10, 11, {10: 'mode="avg", output_height=1, output_width=1, sampling_ratio=0, spatial_scale=1.0'}
    ),
    "round": Method("Round", 11, 11, {11: ""}),
    "scan": Method(
        "Scan",
        8,
        11,
        {
            8: "num_outputs, body, num_scan_inputs, directions=[]",
            9: "num_outputs, body, num_scan_inputs, scan_input_axes=[], scan_input_directions=[], scan_output_axes=[], scan_output_directions=[]",
        },
    ),
    "scatter": Method("Scatter", 9, 11, {9: "axis=0"}),
    "scatterelements": Method("ScatterElements", 11, 11, {11: "axis=0"}),
    "scatternd": Method("ScatterND", 11, 11, {11: ""}),
    "selu": Method("Selu", 6, 11, {6: "alpha=1.67326, gamma=1.0507"}),
    "sequenceat": Method("SequenceAt", 11, 11, {11: ""}),
    "sequenceconstruct": Method("SequenceConstruct", 11, 11, {11: ""}),
    "sequenceempty": Method("SequenceEmpty", 11, 11, {11: "dtype=None"}, has_args=False),
    "sequenceerase": Method("SequenceErase", 11, 11, {11: ""}),
    "sequenceinsert": Method("SequenceInsert", 11, 11, {11: ""}),
    "sequencelength": Method("SequenceLength", 11, 11, {11: ""}),
    "shape": Method("Shape", 6, 11, {6: ""}),
    "shrink": Method("Shrink", 9, 11, {9: "bias=0.0, lambd=0.5"}),
    "sigmoid": Method("Sigmoid", 6, 11, {6: ""}),
    "sign": Method("Sign", 9, 11, {9: ""}),
    "sin": Method("Sin", 7, 11, {7: ""}),
    "sinh": Method("Sinh", 9, 11, {9: ""}),
    "size": Method("Size", 6, 11, {6: ""}),
    "slice": Method("Slice", 6, 11, {6: "ends, starts, axes=[]", 10: ""}),
    "softmax": Method("Softmax", 6, 11, {6: "axis=1"}),
    "softplus": Method("Softplus", 6, 11, {6: ""}),
    "softsign": Method("Softsign", 6, 11, {6: ""}),
    "spacetodepth": Method("SpaceToDepth", 6, 11, {6: "blocksize"}),
    "split": Method("Split", 6, 11, {6: "num_outputs, axis=0, split=[]"}),
    "splittosequence": Method("SplitToSequence", 11, 11, {11: "axis=0, keepdims=1"}),
    "sqrt": Method("Sqrt", 6, 11, {6: ""}),
    "squeeze": Method("Squeeze", 6, 11, {6: "axes=[]"}),
    "stringnormalizer": Method(
        "StringNormalizer", 10, 11, {10: 'case_change_action="NONE", is_case_sensitive=0, locale=None, stopwords=[]'}
    ),
    "sub": Method("Sub", 6, 11, {6: "axis=None, broadcast=0", 7: ""}),
    "sum": Method("Sum", 6, 11, {6: ""}),
    "tan": Method("Tan", 7, 11, {7: ""}),
    "tanh": Method("Tanh", 6, 11, {6: ""}),
    "tfidfvectorizer": Method(
        "TfIdfVectorizer",
        9,
        11,
        {
            9: "max_gram_length, max_skip_count, min_gram_length, mode, ngram_counts, ngram_indexes, pool_int64s=[], pool_strings=[], weights=[]"
        },
    ),
    "thresholdedrelu": Method("ThresholdedRelu", 10, 11, {10: "alpha=1.0"}),
    "tile": Method("Tile", 6, 11, {6: ""}),
    "topk": Method("TopK", 6, 11, {6: "k, axis=-1", 10: "axis=-1", 11: "axis=-1, largest=1, sorted=1"}, outputs=2),
    "transpose": Method("Transpose", 6, 11, {6: "perm=[]"}),
    "unique": Method("Unique", 11, 11, {11: "num_outputs, axis=None, sorted=1"}),
    "unsqueeze": Method("Unsqueeze", 6, 11, {6: "axes"}),
    "upsample": Method(
        "Upsample",
        6,
        11,
        {6: 'height_scale, width_scale, mode="nearest"', 7: 'scales, mode="nearest"', 9: 'mode="nearest"'},
    ),
    "where": Method("Where", 9, 11, {9: ""}),
}

# Attributes whose type does not follow from a number alone. The value of all others decides: integers, strings or
# lists.
FLOAT_ATTRIBUTES = frozenset(
    "alpha beta bias clip cubic_coeff_a epsilon extrapolation_value gamma height_scale high increment lambd lambda_ low "
    "max mean min modulus momentum ratio scale scale0 scale1 seed spatial_scale value width_scale".split()
)
FLOATS_ATTRIBUTES = frozenset("activation_alpha activation_beta availableMemoryProportions scales weights".split())
STRING_ATTRIBUTES = frozenset("direction locale mode planType".split())
LIST_ATTRIBUTES = frozenset(
    "axes dimensions ends kernel_shape ngram_counts ngram_indexes pads pooled_shape shape sizes starts strides".split()
)
STRINGS_ATTRIBUTES = frozenset("activations partialsTypes pool_strings stopwords".split())

AI_GRAPHCORE: dict[str, Method] = {
    name: Method(op_type, 1, 1, {1: signature}, outputs)
    for name, op_type, outputs, signature in [
        ("abort", "Abort", 0, ""),
        ("atan2", "Atan2", 1, ""),
        ("batchnormalization", "BatchNormalization", 1, "num_outputs, epsilon=1e-5, momentum=0.9"),
        ("bitwiseand", "BitwiseAnd", 1, ""),
        ("bitwisenot", "BitwiseNot", 1, ""),
        ("bitwiseor", "BitwiseOr", 1, ""),
        ("bitwisexnor", "BitwiseXnor", 1, ""),
        ("bitwisexor", "BitwiseXor", 1, ""),
        ("bucketize", "Bucketize", 1, "right=0"),
        ("copyvarupdate", "CopyVarUpdate", 1, ""),
        ("ctcbeamsearchdecoder", "CtcBeamSearchDecoder", 3, "blank=0, beam_width=100, top_paths=1"),
        ("ctcloss", "Ctc", 1, 'reduction=1, blank=0, outDataType="UNDEFINED", zeroInfinity=0'),
        ("depthtospace", "DepthToSpace", 1, "blocksize, mode"),
        ("detach", "Detach", 1, ""),
        ("dynamicadd", "DynamicAdd", 1, "axes, sizes"),
        ("dynamicslice", "DynamicSlice", 1, "axes, sizes, noOverlap=0"),
        ("dynamicupdate", "DynamicUpdate", 1, "axes, sizes, noOverlap=0"),
        ("dynamiczero", "DynamicZero", 1, "axes, sizes"),
        ("expm1", "Expm1", 1, ""),
        ("fmod", "Fmod", 1, ""),
        ("gelu", "Gelu", 1, ""),
        ("geluerf", "GeluErf", 1, ""),
        ("groupedgather", "GroupedGather", 1, "axis=0, group_size=1"),
        (
            "groupedscatterreduce",
            "GroupedScatterReduce",
            1,
            "axis_size, axis=-1, reduction=0, group_size=1, enable_index_broadcast=1",
        ),
        ("groupnormalization", "GroupNormalization", 3, "num_groups, epsilon=1e-5"),
        ("identityloss", "IdentityLoss", 1, "reduction=1"),
        ("incrementmod", "IncrementMod", 1, "increment, modulus"),
        ("l1loss", "L1", 1, "lambda_, reduction=1"),
        ("log1p", "Log1p", 1, ""),
        ("lstm", "LSTM", 2, "outputFullSequence=1"),
        ("nearbyint", "NearbyInt", 1, ""),
        ("nllloss", "Nll", 1, "reduction=1, ignoreIndex=None, inputIsLogProbability=0"),
        ("nop", "Nop", 1, ""),
        ("normalize_image", "NormalizeImage", 1, "scale=1.0"),
        ("reducemedian", "ReduceMedian", 2, "axes=None, keepdims=1"),
        ("remainder", "Remainder", 1, ""),
        ("replicatedallreduce", "ReplicatedAllReduce", 1, "collectiveOperator=None, commGroup=None"),
        ("replicatedreducescatter", "ReplicatedReduceScatter", 1, "collectiveOperator=None, commGroup=None"),
        ("reshape", "Reshape", 1, "shape"),
        ("reverse", "Reverse", 1, "dimensions"),
        ("round", "Round", 1, ""),
        ("scale", "Scale", 1, "scale"),
        ("scaledadd", "ScaledAdd", 1, "scale0=1.0, scale1=1.0"),
        ("scatterreduce", "ScatterReduce", 1, "axis_size, axis=-1, reduction=0, enable_index_broadcast=1"),
        ("sequenceslice", "SequenceSlice", 1, "zeroUnused=0"),
        ("shapeddropout", "ShapedDropout", 1, "shape, ratio=0.5"),
        ("slice", "Slice", 1, "ends, starts, axes=[]"),
        ("sort", "Sort", 2, "axis=-1, descending=0, stable=0"),
        ("splinebasis", "SplineBasis", 2, "degree"),
        ("splineweighting", "SplineWeighting", 1, ""),
        ("subsample", "Subsample", 1, "strides"),
        ("swish", "Swish", 1, ""),
        ("tensorremap", "TensorRemap", 1, "remap_type=0"),
    ]
}
