"""Ops that the CPU backend may leave to the reference, with the reasons; everything else must run on the backend."""

# (op type, part of the backend's reason) -> why that is good enough
ALLOWED: dict[tuple[str, str], str] = {
    ("Constant", ""): "folded at compile time, except in tests",
    ("ConstantOfShape", ""): "folded at compile time",
    ("Range", ""): "its operands are constants, so it is folded at compile time",
    ("Shape", ""): "known at compile time, and folded",
    ("Size", ""): "known at compile time, and folded",
    ("Cast", "float64"): "float64 runs on the reference backend by design",
    ("Clip", "int64"): "clamps of index tensors: a few elements",
    ("Pow", "floating base"): "integer powers: shape arithmetic, a few elements",
    ("IncrementMod", "of int"): "counts steps: one element",
    ("IncrementMod", "of uint"): "counts steps: one element",
    ("LayerNormalization", "broadcast over the normalised"): "exporters write scale and bias in the normalised shape",
    ("LayerNormalizationGrad", "broadcast over the normalised"): "as LayerNormalization",
    ("LayerNormalization", "float32 only"): "16-bit form of the row above",
    ("LayerNormalizationGrad", "float32 only"): "16-bit form of the row above",
    ("RoiAlign", "no millions of samples"): "maxima over bins with thousands of samples each, which no network uses",
    ("RoiAlignGrad", "no millions of samples"): "as RoiAlign",
    ("GetRandomSeed", ""): "two numbers, once per run or micro-batch",
    ("ModifyRandomSeed", ""): "two numbers",
    ("ReplicaRandomSeed", ""): "two numbers, once per run",
    ("FloatingPointCheck", ""): "reads the two numbers that FirstNonFinite found; that operator has a kernel",
    ("PrintTensor", ""): "formatting the text takes most of the time",
    ("Abort", ""): "one element, and the run ends there",
    ("CheckRange", ""): "checks lengths of sequences: one number per sample",
    ("CtcBeamSearchDecoder", ""): "a search with a map of prefixes, for inference only, once per sample",
    **{
        ("Where", f"no {kind}"): "only copies elements; no network of the benchmarks uses it"
        for kind in ("float8", "float6", "float4", "int4", "uint4", "int2", "uint2", "complex")
    },
    ("ScatterReduceGradOp", "Sum only"): "products, extremes and last writes need the whole contribution list",
}


def is_allowed(op: str, reason: str) -> bool:
    """Whether the fallback of `op` (its text: type, dot, number) with `reason` is written down above."""
    op_type = op.split(".")[0].split(" ")[0]
    return any(op_type == name and part in reason for name, part in ALLOWED)
