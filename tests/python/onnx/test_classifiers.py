"""Classifiers and support vector machines of ai.onnx.ml: labels and scores of ONNX Runtime."""

import itertools

import numpy as np
import onnxruntime
import popart
import popart.backend
import pytest
from scipy import stats

from onnx import ModelProto, TensorProto, ValueInfoProto, helper

TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
WORDS = ("one", "zwei", "三", "four")


def seeded(*parts):
    return np.random.default_rng([ord(c) for c in str(parts)])


def model(operator, x, attributes, version=1, outputs=("y", "z")) -> ModelProto:
    attributes = {k: v for k, v in attributes.items() if not (isinstance(v, list) and not v)}
    node = helper.make_node(operator, ["x"], list(outputs), domain="ai.onnx.ml", **attributes)
    given = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    text = "classlabels_strings" in attributes
    kinds = {"y": TensorProto.STRING if text else TensorProto.INT64, "z": TensorProto.FLOAT}
    if len(outputs) == 1:
        kinds["y"] = TensorProto.FLOAT
    results = [helper.make_tensor_value_info(name, kinds[name], None) for name in outputs]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(helper.make_graph([node], "g", [given], results), opset_imports=opsets, ir_version=8)


def ours(proto, x):
    return list(popart.backend.prepare(proto).run([x]))


def theirs(proto, x):
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)
    assert got.dtype == expected.dtype and got.shape == expected.shape


def check(operator, x, attributes, version=1, labels=None):
    """Labels and scores are those of ONNX Runtime; PROBIT is an approximation there, so its arguments are compared.

    With `labels` the label has to be that of the largest score there.
    """
    proto = model(operator, x, attributes, version)
    got = ours(proto, x)
    probit = attributes.get("post_transform") == "PROBIT"
    expected = theirs(model(operator, x, attributes | {"post_transform": "NONE"}, version) if probit else proto, x)
    np.testing.assert_array_equal(got[0], expected[0] if labels is None else np.take(labels, expected[1].argmax(1)))
    if probit:
        with np.errstate(invalid="ignore"):
            expected[1] = stats.norm.ppf(expected[1].astype(np.float64)).astype(np.float32)
    close(got[1], expected[1])
    return got


# ---- linear


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_linear(transform, classes, dtype):
    rng = seeded(transform, classes)
    x = (rng.standard_normal((7, 4)) * (1 if np.dtype(dtype).kind == "f" else 5)).astype(dtype)
    attributes = {
        "coefficients": rng.standard_normal(classes * 4).tolist(),
        "intercepts": rng.standard_normal(classes).tolist(),
        "classlabels_ints": [7, -3, 20][:classes],
        "post_transform": transform,
    }
    check("LinearClassifier", x, attributes)


@pytest.mark.parametrize("transform", TRANSFORMS[:4])
@pytest.mark.parametrize("labels", [[], [5, 7]])
def test_linear_with_one_score(transform, labels):
    x = np.array([[-2.0, 0], [0, 0], [0.25, 0], [0.75, 0], [2, 0]], np.float32)
    attributes = {"coefficients": [1.0, 0.0], "intercepts": [0.0], "post_transform": transform}
    check("LinearClassifier", x, attributes | {"classlabels_ints": labels})


def test_one_sample_is_a_row():
    x = np.array([2.0, 1.0], np.float32)
    check("LinearClassifier", x, {"coefficients": [1.0, 0.0], "intercepts": [0.0], "classlabels_ints": [3, 4]})


def test_probit_is_the_quantile():
    """Beside SciPy, far into both tails, and at their ends; ONNX Runtime is some thousandths off."""
    x = np.array([[0.5], [1e-11], [1e-7], [0.025], [0.3], [0.7], [0.99999], [0], [1], [-0.5], [1.5]], np.float32)
    attributes = {"coefficients": [1.0], "intercepts": [0.0], "post_transform": "PROBIT"}
    (_, got) = ours(model("LinearClassifier", x, attributes), x)
    with np.errstate(invalid="ignore"):
        expected = stats.norm.ppf(x.astype(np.float64))
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
    (_, rough) = theirs(model("LinearClassifier", x, attributes), x)
    np.testing.assert_allclose(got[2:6], rough[2:6], rtol=5e-3)
    both = attributes | {"classlabels_ints": [0, 1]}
    np.testing.assert_allclose(ours(model("LinearClassifier", x, both), x)[1][3:6], got[3:6] * [-1, 1], rtol=1e-4)


def test_zeros_stay_zeros_in_softmax_zero():
    x = np.array([[0.0, 0.0], [0.0, 1.0], [-3.0, 0.0]], np.float32)
    attributes = {"coefficients": [1.0, 0.0, 0.0, 1.0], "intercepts": [0.0, 0.0], "classlabels_ints": [0, 1]}
    (_, got) = ours(model("LinearClassifier", x, attributes | {"post_transform": "SOFTMAX_ZERO"}), x)
    np.testing.assert_array_equal(got, [[0, 0], [0, 1], [1, 0]])


# ---- labels that are text


@pytest.mark.parametrize("operator", ["LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"])
@pytest.mark.parametrize("classes", [2, 3])
def test_labels_that_are_text(operator, classes):
    rng = seeded(operator, classes)
    x = rng.standard_normal((9, 3)).astype(np.float32)
    attributes = {"classlabels_strings": list(WORDS[:classes])}
    if operator == "LinearClassifier":
        attributes |= {"coefficients": rng.standard_normal(classes * 3).tolist(), "intercepts": [0.0] * classes}
    elif operator == "SVMClassifier":
        attributes |= machine(classes, [2, 1, 3][:classes], 3, "RBF", rng)
    else:
        attributes |= forest(4, 2, 3, range(classes) if classes > 2 else [0], rng)
    got = check(operator, x, attributes)
    assert got[0].dtype == object and len(set(got[0])) > 1


def test_text_and_scores_go_on():
    """Maps of scores and text made of labels, as pipelines of scikit-learn are exported."""
    x = seeded("pipeline").standard_normal((5, 3)).astype(np.float32)
    attributes = {"coefficients": np.eye(3).ravel().tolist(), "intercepts": [0.0] * 3, "post_transform": "SOFTMAX"}
    proto = model("LinearClassifier", x, attributes | {"classlabels_strings": list(WORDS[:3])})
    zipped = helper.make_node("ZipMap", ["z"], ["maps"], domain="ai.onnx.ml", classlabels_strings=list(WORDS[:3]))
    proto.graph.node.extend([zipped, helper.make_node("Identity", ["y"], ["label"])])
    row = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    proto.graph.output[1].CopyFrom(helper.make_value_info("maps", helper.make_sequence_type_proto(row)))
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("label", TensorProto.STRING, ["N"]))
    got, expected = ours(proto, x), theirs(proto, x)
    assert got[0].tolist() == expected[0].tolist() == [max(row, key=row.get) for row in got[1]]
    for a, b in zip(got[1], expected[1], strict=True):
        assert list(a) == list(WORDS[:3])
        np.testing.assert_allclose([a[k] for k in a], [b[k] for k in a], rtol=1e-5)


def test_a_session_says_where_text_is_made():
    x = np.zeros((1, 1), np.float32)
    proto = model("LinearClassifier", x, {"coefficients": [1.0, 2.0], "classlabels_strings": ["a", "b"]})
    with pytest.raises(popart.popart_exception, match="labels that are text are the host's"):
        popart.InferenceSession(
            proto.SerializeToString(),
            popart.DataFlow(1, {"z": popart.AnchorReturnType("All")}),
            popart.DeviceManager().createCpuDevice(),
        )


# ---- support vectors


def machine(classes, per_class, features, kernel, rng, probabilities=False, positive=False):
    vectors, pairs = sum(per_class), classes * (classes - 1) // 2
    coefficients = rng.standard_normal((classes - 1) * vectors)
    made = {
        "kernel_type": kernel,
        "kernel_params": [0.4, 0.3, 3.0],
        "coefficients": (np.abs(coefficients) if positive else coefficients).tolist(),
        "support_vectors": rng.standard_normal(vectors * features).tolist(),
        "vectors_per_class": list(per_class),
        "rho": (rng.standard_normal(pairs) * 0.2).tolist(),
    }
    if probabilities:
        made |= {"prob_a": (-1 - rng.random(pairs)).tolist(), "prob_b": (rng.standard_normal(pairs) / 5).tolist()}
    return made


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("per_class", [(2, 3), (3, 1, 2), (2, 2, 1, 4), (2, 0, 3)])
@pytest.mark.parametrize("probabilities", [False, True])
def test_pairs_of_classes(kernel, per_class, probabilities):
    rng = seeded(kernel, per_class, probabilities)
    classes = len(per_class)
    x = rng.standard_normal((12, 3)).astype(np.float32)
    attributes = machine(classes, per_class, 3, kernel, rng, probabilities)
    attributes["classlabels_ints"] = [4, 2, 9, -1][:classes]
    got = check("SVMClassifier", x, attributes)
    if probabilities:
        np.testing.assert_allclose(got[1].sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize("transform", TRANSFORMS[1:4])
@pytest.mark.parametrize("per_class", [(2, 3), (3, 1, 2)])
@pytest.mark.parametrize("probabilities", [False, True])
@pytest.mark.parametrize("positive", [False, True])
def test_scores_of_pairs_are_transformed(transform, per_class, probabilities, positive):
    rng = seeded(transform, per_class, probabilities)
    attributes = machine(len(per_class), per_class, 2, "RBF", rng, probabilities, positive)
    attributes |= {"classlabels_ints": list(range(len(per_class))), "post_transform": transform}
    check("SVMClassifier", rng.standard_normal((6, 2)).astype(np.float32), attributes)


def test_many_classes():
    """Probabilities of more classes than rounds take; a call with other samples uses the same program."""
    rng = seeded("many")
    attributes = machine(12, [3] * 12, 4, "RBF", rng, True) | {"classlabels_ints": list(range(12))}
    check("SVMClassifier", rng.standard_normal((30, 4)).astype(np.float32), attributes)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("classes", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_machines_without_vectors(transform, classes, dtype):
    """A row of coefficients for each class."""
    rng = seeded(transform, classes)
    attributes = {
        "coefficients": rng.standard_normal(classes * 3).tolist(),
        "kernel_type": "LINEAR",
        "kernel_params": [0.0, 0.0, 0.0],
        "rho": [0.3],
        "post_transform": transform,
        "classlabels_ints": [5, 6, 7][:classes],
    }
    # Of two classes ONNX Runtime gives the second whenever a score is positive.
    labels = attributes["classlabels_ints"] if classes == 2 else None
    check("SVMClassifier", (rng.standard_normal((8, 3)) * 2).astype(dtype), attributes, labels=labels)


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("one_class", [0, 1])
def test_regression(kernel, one_class):
    rng = seeded(kernel)
    x = rng.standard_normal((20, 3)).astype(np.float32)
    attributes = {"kernel_type": kernel, "kernel_params": [0.5, 0.1, 2.0], "rho": [-0.2], "one_class": one_class,
                  "coefficients": rng.standard_normal(5).tolist(), "n_supports": 5,
                  "support_vectors": rng.standard_normal(15).tolist()}  # fmt: skip
    proto = model("SVMRegressor", x, attributes, outputs=["y"])
    (got,), (expected,) = ours(proto, x), theirs(proto, x)
    close(got, expected)
    assert not one_class or set(got.ravel()) == {-1, 1}


def test_regression_without_vectors():
    x = seeded("plain").standard_normal((4, 2)).astype(np.float32)
    attributes = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "coefficients": [1.0, -0.5], "rho": [0.2]}
    proto = model("SVMRegressor", x, attributes, outputs=["y"])
    close(ours(proto, x)[0], theirs(proto, x)[0])


def test_distances_keep_their_digits():
    """Samples far from the origin and near each other."""
    x = (1000 + seeded("far").standard_normal((6, 3))).astype(np.float32)
    attributes = {"kernel_type": "RBF", "kernel_params": [0.5, 0.0, 0.0], "rho": [0.0], "n_supports": 2,
                  "coefficients": [1.0, 0.5], "support_vectors": x[:2].ravel().tolist()}  # fmt: skip
    (got,) = ours(model("SVMRegressor", x, attributes, outputs=["y"]), x)
    squares = ((x[:, None].astype(np.float64) - x[None, :2]) ** 2).sum(-1)
    np.testing.assert_allclose(got[:, 0], np.exp(-0.5 * squares) @ [1.0, 0.5], rtol=1e-5)


# ---- trees


def forest(trees, depth, features, ids, rng, positive=True):
    """Full trees whose leaves have a weight for each of the classes `ids`."""
    nodes, leaves, inner = [], [], 2**depth - 1
    for tree in range(trees):
        for i in range(2 * inner + 1):
            leaf = i >= inner
            nodes.append((tree, i, 0 if leaf else int(rng.integers(features)), 0.0 if leaf else rng.standard_normal(),
                          "LEAF" if leaf else "BRANCH_LEQ", 0 if leaf else 2 * i + 1, 0 if leaf else 2 * i + 2,
                          int(i % 2)))  # fmt: skip
            if leaf:
                leaves += [(tree, i, c, rng.random() / trees if positive else rng.standard_normal()) for c in ids]
    names = ["treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
             "missing_value_tracks_true"]  # fmt: skip
    lists = {f"nodes_{name}": list(column) for name, column in zip(names, zip(*nodes, strict=True), strict=True)}
    names = ["treeids", "nodeids", "ids", "weights"]
    return lists | {f"class_{name}": list(c) for name, c in zip(names, zip(*leaves, strict=True), strict=True)}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_trees_of_many_classes(transform, positive, dtype):
    rng = seeded(transform, positive)
    x = (rng.standard_normal((15, 3)) * 2).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x[2, 1] = np.nan
    attributes = forest(4, 3, 3, range(4), rng, positive)
    attributes |= {"classlabels_int64s": [3, 1, 8, 5], "post_transform": transform}
    check("TreeEnsembleClassifier", x, attributes, 3)
    base = [0.5, 0.0, 0.25, -0.125]
    check("TreeEnsembleClassifier", x, attributes | {"base_values": base}, 3)


ONE_SCORE = itertools.product([0, 1], [False, True], TRANSFORMS[:4], [[], [0.25]])


@pytest.mark.parametrize(("named", "positive", "transform", "base"), list(ONE_SCORE))
def test_two_classes_with_one_score(named, positive, transform, base):
    if named == 1:
        base = []  # ONNX Runtime leaves it out there
    rng = seeded(named, positive, transform)
    attributes = forest(3, 2, 3, [named], rng, positive)
    attributes |= {"classlabels_int64s": [3, 1], "post_transform": transform, "base_values": base}
    check("TreeEnsembleClassifier", rng.standard_normal((15, 3)).astype(np.float32), attributes)


def test_two_classes_with_two_scores():
    """The label is that of the larger score; ONNX Runtime gives 0 or 1, whatever the labels are."""
    rng = seeded("two")
    x = rng.standard_normal((15, 3)).astype(np.float32)
    attributes = forest(3, 2, 3, [0, 1], rng) | {"classlabels_int64s": [3, 1]}
    proto = model("TreeEnsembleClassifier", x, attributes)
    got, expected = ours(proto, x), theirs(proto, x)
    close(got[1], expected[1])
    np.testing.assert_array_equal(got[0], np.array([3, 1])[expected[1].argmax(1)])
    assert len(set(got[0])) == 2


def test_classes_that_no_leaf_names():
    """Leaves with negative weights for two of four classes: the others have score 0 and are no top classes."""
    rng = seeded("few")
    attributes = forest(2, 2, 3, [1, 2], rng, False)
    attributes["class_weights"] = [-abs(w) for w in attributes["class_weights"]]
    attributes["classlabels_int64s"] = [3, 1, 8, 5]
    got = check("TreeEnsembleClassifier", rng.standard_normal((15, 3)).astype(np.float32), attributes)
    assert set(got[0]) <= {1, 8}


def test_trees_in_double():
    """Splits that are one float are two doubles."""
    rng = seeded("double")
    attributes = forest(3, 3, 2, range(3), rng)
    attributes["classlabels_int64s"] = [0, 1, 2]
    for name in ("nodes_values", "class_weights"):
        values = attributes.pop(name)
        attributes[f"{name}_as_tensor"] = helper.make_tensor(name, TensorProto.DOUBLE, [len(values)], values)
    splits = np.array(attributes["nodes_values_as_tensor"].double_data)
    x = np.repeat(np.concatenate([splits, np.nextafter(splits, 9)])[:, None], 2, axis=1)
    proto = model("TreeEnsembleClassifier", x, attributes, 3)
    got, expected = ours(proto, x), theirs(proto, x)
    np.testing.assert_array_equal(got[0], expected[0])
    close(got[1], expected[1])


@pytest.mark.parametrize("transform", range(5))
def test_ensemble_transforms(transform):
    """TreeEnsemble of version 5: its type is that of X."""
    attributes = {
        "n_targets": 3, "tree_roots": [0], "post_transform": transform, "aggregate_function": 1,
        "nodes_modes": helper.make_tensor("m", TensorProto.UINT8, [1], [0]), "nodes_featureids": [0],
        "nodes_truenodeids": [0], "nodes_trueleafs": [1], "nodes_falsenodeids": [1], "nodes_falseleafs": [1],
        "leaf_targetids": [0, 2],
    }  # fmt: skip
    for dtype in (np.float32, np.float64, np.float16):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        own = attributes | {
            "nodes_splits": helper.make_tensor("s", kind, [1], [0.5]),
            "leaf_weights": helper.make_tensor("w", kind, [2], [0.25, 0.75]),
        }
        proto = model("TreeEnsemble", np.zeros((2, 1), dtype), own, 5, ["y"])
        proto.graph.output[0].CopyFrom(ValueInfoProto(name="y"))
        (got,) = ours(proto, np.array([[0.0], [1.0]], dtype))
        y = np.array([[0.25, 0, 0], [0, 0, 0.75]])
        powers = np.exp(y)
        zero = np.where(y == 0, 0, powers)
        name = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")[transform]
        expected = {"NONE": y, "SOFTMAX": powers / powers.sum(1, keepdims=True), "LOGISTIC": 1 / (1 + np.exp(-y)),
                    "SOFTMAX_ZERO": zero / zero.sum(1, keepdims=True), "PROBIT": stats.norm.ppf(y)}[name]  # fmt: skip
        assert got.dtype == dtype
        np.testing.assert_allclose(got, expected, rtol=2e-3 if dtype == np.float16 else 1e-6)


# ---- damaged models

LINEAR = {"coefficients": [1.0, 2.0, 3.0, 4.0], "intercepts": [0.0, 0.0], "classlabels_ints": [0, 1]}
MACHINE = machine(2, [1, 1], 2, "RBF", np.random.default_rng(0), True) | {"classlabels_ints": [0, 1]}
TREES = forest(2, 1, 2, [0, 1], np.random.default_rng(0)) | {"classlabels_int64s": [0, 1]}
REGRESSION = {"kernel_type": "RBF", "kernel_params": [1.0, 0.0, 0.0], "rho": [0.0], "n_supports": 1,
              "coefficients": [1.0], "support_vectors": [0.0, 1.0]}  # fmt: skip
DAMAGED = [
    ("LinearClassifier", LINEAR, {"coefficients": [1.0, 2.0, 3.0]}, "coefficients must be 2 times the features"),
    ("LinearClassifier", LINEAR, {"coefficients": []}, "coefficients must be 2 times"),
    ("LinearClassifier", LINEAR, {"classlabels_ints": [1]}, "got 1 for 2 scores"),
    ("LinearClassifier", LINEAR, {"post_transform": "RELU"}, "post_transform: got 'RELU', expected NONE"),
    ("LinearClassifier", LINEAR, {"classlabels_strings": ["a", "b"]}, "got both, classlabels_strings and classlabels"),
    ("LinearRegressor", {"coefficients": [1.0]}, {"targets": 1 << 62}, "coefficients must be 46"),
    ("LinearRegressor", {"coefficients": [1.0]}, {"targets": -1}, "coefficients must be -1 times"),
    ("SVMClassifier", MACHINE, {"vectors_per_class": [1, -1]}, "vectors_per_class: got -1"),
    ("SVMClassifier", MACHINE, {"vectors_per_class": [1 << 62, 1 << 62]}, "vectors_per_class: got 4611686018427387904"),
    ("SVMClassifier", MACHINE, {"vectors_per_class": [1, 2]}, "support_vectors: got 4 numbers, expected 6"),
    ("SVMClassifier", MACHINE, {"vectors_per_class": [2]}, "one number for each of two labels or more: got 1 for 2"),
    ("SVMClassifier", MACHINE, {"coefficients": [1.0]}, "coefficients: got 1 numbers, expected 2"),
    ("SVMClassifier", MACHINE, {"rho": []}, "rho: got 0 numbers, expected 1"),
    ("SVMClassifier", MACHINE, {"prob_b": []}, "prob_b: got 0 numbers, expected 1"),
    ("SVMClassifier", MACHINE, {"kernel_params": [1.0]}, "kernel_params: got 1 numbers, expected gamma"),
    ("SVMClassifier", MACHINE, {"kernel_type": "SINE"}, "kernel_type: got 'SINE', expected LINEAR"),
    ("SVMClassifier", MACHINE, {"classlabels_ints": []}, "needs labels: attribute classlabels_ints"),
    ("SVMClassifier", MACHINE, {"classlabels_ints": [0] * 9000, "vectors_per_class": [1] * 9000}, "pairs of classes"),
    ("SVMRegressor", REGRESSION, {"n_supports": 1 << 40}, "n_supports: got 1099511627776"),
    ("SVMRegressor", REGRESSION, {"n_supports": -1}, "n_supports: got -1"),
    ("SVMRegressor", REGRESSION, {"n_supports": 0}, "kernel_type: got 'RBF', expected LINEAR without support vectors"),
    ("SVMRegressor", REGRESSION, {"support_vectors": [1.0]}, "support_vectors: got 1 numbers, expected 2"),
    ("SVMRegressor", REGRESSION, {"rho": []}, "needs attribute rho"),
    ("TreeEnsembleClassifier", TREES, {"class_ids": [0, 1] * 3 + [0, 2]}, "class_ids: got 2, expected 0 to 1"),
    ("TreeEnsembleClassifier", TREES, {"class_ids": [0]}, "lists class_.* must be as long as each other"),
    ("TreeEnsembleClassifier", TREES, {"class_nodeids": [9] * 8}, "tree 0 has no node 9"),
    ("TreeEnsembleClassifier", TREES, {"base_values": [1.0]}, "base_values: got 1 numbers, expected none or one for"),
    ("TreeEnsembleClassifier", TREES, {"classlabels_int64s": []}, "needs labels: attribute classlabels_int64s"),
    ("TreeEnsembleClassifier", TREES, {"nodes_truenodeids": [0] * 6}, "node 0 of the forest is never reached"),
    ("TreeEnsembleClassifier", TREES, {"nodes_modes": ["BRANCH_MEMBER"] * 6}, "'BRANCH_MEMBER' belongs to"),
    ("TreeEnsembleClassifier", TREES, {"nodes_modes": ["LEAF"]}, "lists of nodes must be as long as nodes_treeids"),
    ("TreeEnsembleClassifier", TREES, {"nodes_featureids": [1 << 50] * 6}, "feature of a node: got 1125899906842624"),
]


@pytest.mark.parametrize(
    ("operator", "attributes", "changed", "said"), DAMAGED, ids=[f"{d[0]}-{i}" for i, d in enumerate(DAMAGED)]
)
def test_damaged_models_are_refused(operator, attributes, changed, said):
    x = np.zeros((3, 2), np.float32)
    outputs = ["y"] if "Regressor" in operator else ["y", "z"]
    with pytest.raises(popart.popart_exception, match=said) as refused:
        ours(model(operator, x, attributes | changed, 1, outputs), x)
    assert operator in str(refused.value)
