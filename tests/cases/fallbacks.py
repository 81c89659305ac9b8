"""Ops that the CPU backend may leave to the reference, with the reasons; everything else must run on the backend."""

# (op type, part of the backend's reason) -> why that is good enough
ALLOWED: dict[tuple[str, str], str] = {
    ("Constant", ""): "folded at compile time in every program but a test's",
    ("ConstantOfShape", ""): "folded at compile time",
    ("Range", ""): "its operands are constants: folded at compile time",
    ("Shape", ""): "known at compile time: folded",
    ("Size", ""): "known at compile time: folded",
    ("Cast", "float64"): "float64 is computed by the reference on purpose",
    ("Clip", "int64"): "clamps of index tensors: a few elements",
    ("Pow", "floating base"): "integer powers: shape arithmetic, a few elements",
    ("IncrementMod", "of int"): "counts steps: one element",
    ("IncrementMod", "of uint"): "counts steps: one element",
    ("LayerNormalization", "broadcast over the normalised"): "exporters give scale and bias the normalised shape",
    ("LayerNormalizationGrad", "broadcast over the normalised"): "as LayerNormalization",
    ("LayerNormalization", "float32 only"): "16-bit form of the row above",
    ("LayerNormalizationGrad", "float32 only"): "16-bit form of the row above",
    ("RoiAlign", "no millions of samples"): "maxima of bins with thousands of samples each: no network has them",
    ("RoiAlignGrad", "no millions of samples"): "as RoiAlign",
    ("GetRandomSeed", ""): "two numbers, once in a run or micro-batch",
    ("ModifyRandomSeed", ""): "two numbers",
    ("ReplicaRandomSeed", ""): "two numbers, once in a run",
    ("FloatingPointCheck", ""): "looks at the two numbers that FirstNonFinite found, which has a kernel",
    ("PrintTensor", ""): "making the text takes the time",
    ("Abort", ""): "one element, and what would follow is not run",
    ("CheckRange", ""): "lengths of sequences: one for each sample",
    ("CtcBeamSearchDecoder", ""): "a search with a map of prefixes: inference only, once for each sample",
    **{
        ("Where", f"no {kind}"): "a choice between elements that are moved only; no network of the benchmarks has it"
        for kind in ("float8", "float6", "float4", "int4", "uint4", "int2", "uint2", "complex")
    },
    ("ScatterReduceGradOp", "Sum only"): "products, extremes and last writes need the whole contribution list",
}


def is_allowed(op: str, reason: str) -> bool:
    """Whether the fallback of `op` (its text: type, dot, number) with `reason` is written down above."""
    op_type = op.split(".")[0].split(" ")[0]
    return any(op_type == name and part in reason for name, part in ALLOWED)
