"""Operators of ai.onnx.ml over numbers, beside ONNX Runtime."""

import time

import numpy as np
import onnxruntime
import popart
import popart.backend
import pytest

from onnx import TensorProto, helper

RNG = np.random.default_rng(4)
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model(operator, inputs, attributes, version=3, result=FLOAT):
    """One node as a model; `result`: element type of its output."""
    names = [f"in{i}" for i in range(len(inputs))]
    node = helper.make_node(operator, names, ["y"], domain="ai.onnx.ml", **attributes)
    given = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, inputs, strict=True)
    ]
    graph = helper.make_graph([node], "g", given, [helper.make_tensor_value_info("y", result, None)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def check(operator, inputs, attributes, version=3, result=FLOAT):
    """The node gives what ONNX Runtime gives."""
    proto = model(operator, inputs, attributes, version, result)
    (got,) = popart.backend.prepare(proto).run(list(inputs))
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {f"in{i}": a for i, a in enumerate(inputs)})
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    assert got.shape == expected.shape
    return got


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


NODES = {
    "features": ("ArrayFeatureExtractor", [normal(4, 6), np.array([[1, 5, 0]])], {}),
    "features of one": ("ArrayFeatureExtractor", [normal(6), np.array([[1, 5, 0]])], {}),
    "binary": ("Binarizer", [normal(4, 6)], {"threshold": 0.3}),
    "scaled": ("Scaler", [normal(4, 3)], {"offset": [0.5, -1.0, 2.0], "scale": [2.0, 0.1, -3.0]}),
    "scaled alike": ("Scaler", [np.array([[3, -4]])], {"offset": [0.5], "scale": [2.0]}),
    "greatest": ("Normalizer", [normal(4, 3)], {"norm": "MAX"}),
    "sum": ("Normalizer", [np.array([[1.0, -2.0], [0.0, 0.0]], np.float32)], {"norm": "L1"}),
    "length": ("Normalizer", [normal(4, 3)], {"norm": "L2"}),
    "joined": ("FeatureVectorizer", [normal(4, 3), normal(4, 2)], {"inputdimensions": [3, 2]}),
    "missing": (
        "Imputer",
        [np.array([[1, np.nan], [np.nan, 4]], np.float32)],
        {"imputed_value_floats": [7.0, 8.0], "replaced_value_float": float("nan")},
    ),
    "linear": (
        "LinearRegressor",
        [normal(4, 3)],
        {"coefficients": [1.0, -2.0, 0.5, 3.0, 1.0, 0.0], "intercepts": [0.1, -0.2], "targets": 2},
    ),
}


@pytest.mark.parametrize("name", NODES)
def test_against_onnx_runtime(name):
    operator, inputs, attributes = NODES[name]
    check(operator, inputs, attributes, version=1)


def test_integers_keep_their_digits():
    """ONNX Runtime has neither operator for integers."""
    x = np.array([[-1, 0, 2**53 + 1]])
    binary = model("Binarizer", [x], {"threshold": -0.5}, 1, INT64)
    np.testing.assert_array_equal(popart.backend.prepare(binary).run([x])[0], [[0, 1, 1]])
    imputed = {"imputed_value_int64s": [2**53 + 3], "replaced_value_int64": 2**53 + 1}
    got = popart.backend.prepare(model("Imputer", [x], imputed, 1, INT64)).run([x])[0]
    np.testing.assert_array_equal(got, [[-1, 0, 2**53 + 3]])


def test_labels():
    x = np.array([[1.5, np.nan], [2.0, -3.0]], np.float32)
    to_ints = {"keys_floats": [2.0, 1.5, float("nan")], "values_int64s": [10, 20, 30], "default_int64": -7}
    assert check("LabelEncoder", [x], to_ints, version=4, result=INT64).tolist() == [[20, 30], [10, -7]]
    to_floats = {"keys_int64s": [4, 2], "values_floats": [0.5, 0.25], "default_float": 9.0}
    assert check("LabelEncoder", [np.array([2, 4, 5])], to_floats, version=2).tolist() == [0.25, 0.5, 9.0]


def test_large_dictionaries_are_searched():
    """Keys in any order, the last of equal ones, between and beyond keys; the time does not grow with the product."""
    keys = RNG.permutation(40_000) * 3 - 50_000
    keys[7] = keys[30_000]
    x = RNG.integers(-60_000, 80_000, (500, 400))
    x[0, :50] = keys[:50]
    attributes = {"keys_int64s": keys.tolist(), "values_int64s": list(range(keys.size)), "default_int64": 2**60 + 1}
    start = time.monotonic()
    (got,) = popart.backend.prepare(model("LabelEncoder", [x], attributes, 2, INT64)).run([x])
    assert time.monotonic() - start < 20
    table = dict(zip(keys.tolist(), range(keys.size), strict=True))
    np.testing.assert_array_equal(got.ravel(), [table.get(v, 2**60 + 1) for v in x.ravel().tolist()])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dictionaries_of_numbers_that_are_none(dtype):
    """Infinities and NaN as keys, zeros of both signs as one."""
    keys = np.array([np.inf, np.nan, 0.0, -np.inf, 1.5], dtype)
    kind = helper.np_dtype_to_tensor_dtype(keys.dtype)
    attributes = {
        "keys_tensor": helper.make_tensor("k", kind, [5], keys),
        "values_tensor": helper.make_tensor("v", INT64, [5], [1, 2, 3, 4, 5]),
        "default_tensor": helper.make_tensor("d", INT64, [1], [9]),
    }
    x = np.array([-0.0, 1.5, np.nan, -np.inf, np.inf, 1.25, 3e38], dtype)
    (got,) = popart.backend.prepare(model("LabelEncoder", [x], attributes, 4, INT64)).run([x])
    assert got.tolist() == [3, 5, 2, 4, 1, 9, 9]
    only = {"keys_tensor": helper.make_tensor("k", kind, [1], keys[1:2])}
    only |= {"values_tensor": helper.make_tensor("v", INT64, [1], [2]), "default_tensor": attributes["default_tensor"]}
    (got,) = popart.backend.prepare(model("LabelEncoder", [x], only, 4, INT64)).run([x])
    assert got.tolist() == [9, 9, 2, 9, 9, 9, 9]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"values_int64s": [1]}, "and as many values"),
        ({"keys_int64s": None, "keys_floats": [1.0, 2.0]}, "keys of the type of X"),
        ({"default_tensor": helper.make_tensor("d", INT64, [2], [1, 2])}, "expected one value"),
        ({"keys_int64s": None}, "needs attribute keys_floats, keys_int64s or keys_tensor"),
    ],
)
def test_damaged_dictionaries_are_refused(changed, said):
    attributes = {"keys_int64s": [1, 2], "values_int64s": [3, 4]} | changed
    attributes = {name: value for name, value in attributes.items() if value is not None}
    x = np.array([1, 2])
    with pytest.raises(popart.popart_exception, match=said):
        popart.backend.prepare(model("LabelEncoder", [x], attributes, 4, INT64)).run([x])


def test_one_hot():
    check("OneHotEncoder", [np.array([[3, 1], [9, 2]])], {"cats_int64s": [1, 2, 3]}, version=1)


def forest_attributes(trees, depth, features, targets, mode):
    """Full trees with random features and splits, as TreeEnsembleRegressor takes them."""
    nodes, leaves = [], []
    inner = 2**depth - 1
    for tree in range(trees):
        for i in range(2 * inner + 1):
            leaf = i >= inner
            nodes.append(
                (tree, i, 0 if leaf else RNG.integers(features), 0.0 if leaf else RNG.standard_normal(),
                 "LEAF" if leaf else mode, 0 if leaf else 2 * i + 1, 0 if leaf else 2 * i + 2, int(i % 3 == 0))
            )  # fmt: skip
            leaves += [(tree, i, target, RNG.standard_normal()) for target in range(targets) if leaf]
    names = ["treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
             "missing_value_tracks_true"]  # fmt: skip
    lists = {f"nodes_{name}": list(column) for name, column in zip(names, zip(*nodes, strict=True), strict=True)}
    names = ["treeids", "nodeids", "ids", "weights"]
    lists |= {f"target_{name}": list(column) for name, column in zip(names, zip(*leaves, strict=True), strict=True)}
    numbers = {k: [v.item() if isinstance(v, np.generic) else v for v in column] for k, column in lists.items()}
    return {**numbers, "n_targets": targets}


@pytest.mark.parametrize("mode", ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"])
def test_trees_branch_as_their_mode_says(mode):
    attributes = forest_attributes(3, 3, 4, 1, mode)
    x = normal(20, 4)
    x[3, 1] = x[7, 0] = np.nan
    for feature, split in zip(attributes["nodes_featureids"], attributes["nodes_values"], strict=True):
        x[feature % 20, feature] = split
    check("TreeEnsembleRegressor", [x], attributes, version=1)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 3])
def test_trees_are_combined(aggregate, targets):
    attributes = forest_attributes(5, 2, 4, targets, "BRANCH_LEQ")
    base = [0.5, -0.25, 2.0][:targets]
    check("TreeEnsembleRegressor", [normal(9, 4)], {**attributes, "aggregate_function": aggregate, "base_values": base})


def test_trees_of_any_shape():
    """A leaf alone, and a tree that only grows to one side."""
    deep = {
        "n_targets": 1,
        "nodes_treeids": [0] + [1] * 41,
        "nodes_nodeids": [0, *range(41)],
        "nodes_featureids": [0] * 42,
        "nodes_values": [0.0] + [float(i // 2) for i in range(41)],
        "nodes_modes": ["LEAF"] + ["BRANCH_LT" if i % 2 == 0 and i < 40 else "LEAF" for i in range(41)],
        "nodes_truenodeids": [0] + [i + 1 if i % 2 == 0 and i < 40 else 0 for i in range(41)],
        "nodes_falsenodeids": [0] + [i + 2 if i % 2 == 0 and i < 40 else 0 for i in range(41)],
        "target_treeids": [0] + [1] * 21,
        "target_nodeids": [0, *range(1, 41, 2), 40],
        "target_ids": [0] * 22,
        "target_weights": [100.0, *(float(i) for i in range(21))],
    }
    got = check("TreeEnsembleRegressor", [np.arange(-1, 22, 0.5, dtype=np.float32)[:, None]], deep)
    assert got.min() == 100 and got.max() == 120


def test_nodes_of_trees_in_any_order():
    attributes = forest_attributes(3, 2, 4, 1, "BRANCH_LEQ")
    x, order = normal(9, 4), RNG.permutation(len(attributes["nodes_treeids"]))
    (expected,) = popart.backend.prepare(model("TreeEnsembleRegressor", [x], attributes)).run([x])
    mixed = {k: [v[i] for i in order] if k.startswith("nodes_") else v for k, v in attributes.items()}
    (got,) = popart.backend.prepare(model("TreeEnsembleRegressor", [x], mixed)).run([x])
    np.testing.assert_allclose(got, expected, rtol=1e-6)  # ONNX Runtime takes the first node of a tree as its root


def test_forest_of_sets():
    """TreeEnsemble-5: leaves in lists of their own, a branch on membership."""
    attributes = {
        "n_targets": 4, "aggregate_function": 1, "membership_values": helper.make_tensor(
            "m", FLOAT, (8,), [1.2, 3.7, 8, 9, float("nan"), 12, 7, float("nan")]),
        "nodes_missing_value_tracks_true": None, "nodes_hitrates": None, "post_transform": 0, "tree_roots": [0],
        "nodes_modes": helper.make_tensor("modes", TensorProto.UINT8, (3,), [0, 6, 6]),
        "nodes_featureids": [0, 0, 0], "nodes_splits": helper.make_tensor("s", FLOAT, (3,), [11, 232344, float("nan")]),
        "nodes_truenodeids": [1, 0, 1], "nodes_trueleafs": [0, 1, 1], "nodes_falsenodeids": [2, 2, 3],
        "nodes_falseleafs": [0, 1, 1], "leaf_targetids": [0, 1, 2, 3],
        "leaf_weights": helper.make_tensor("w", FLOAT, (4,), [1, 10, 1000, 100]),
    }  # fmt: skip
    attributes = {k: v for k, v in attributes.items() if v is not None}
    x = np.array([1.2, 3.4, -0.12, np.nan, 12, 7], np.float32)[:, None]
    proto = model("TreeEnsemble", [x], attributes, version=5)
    (got,) = popart.backend.prepare(proto).run([x])
    expected = np.zeros((6, 4), np.float32)
    for row, (target, weight) in enumerate([(0, 1), (2, 1000), (2, 1000), (3, 100), (1, 10), (2, 1000)]):
        expected[row, target] = weight
    expected[2:, :] = 0  # the other rows by the rules of the nodes
    for row, value in list(enumerate(x[:, 0]))[2:]:
        member = {True: ((1.2, 3.7, 8, 9), 0, 2), False: ((12, 7), 1, 3)}[bool(value <= 11)]
        leaf = member[1] if any(np.float32(m) == value for m in member[0]) else member[2]
        expected[row, leaf] = (1, 10, 1000, 100)[leaf]
    np.testing.assert_array_equal(got, expected)


TWICE = {
    "nodes_treeids": [0] * 4, "nodes_nodeids": [0, 1, 2, 3], "nodes_featureids": [0] * 4, "nodes_values": [0.0] * 4,
    "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 2, 0, 0],
    "nodes_falsenodeids": [1, 3, 0, 0],
}  # fmt: skip
REFUSED = [
    (TWICE, "node 1 of the forest is reached twice"),
    ({"nodes_truenodeids": [0, 0, 0]}, "node 0 of the forest is never reached"),
    ({"nodes_modes": ["BRANCH_LEQ"] * 2 + ["LEAF"], "nodes_truenodeids": [1, 0, 0]}, "tree 0 has no root"),
    ({"nodes_modes": ["LEAF"] * 3}, "tree 0 has two nodes that no branch leads to, 1 is the second"),
    ({"nodes_truenodeids": [9, 0, 0]}, "tree 0 has no node 9"),
    ({"nodes_featureids": [7, 0, 0]}, "feature of a node: got 7, expected less than 2"),
    ({"nodes_modes": ["BRANCH_MAYBE", "LEAF", "LEAF"]}, "'BRANCH_MAYBE' does not exist"),
    ({"nodes_values": [1.0]}, "lists of nodes must be as long as nodes_treeids, 3: got 1"),
    ({"target_ids": [0, 5]}, "target_ids: got 5, expected 0 to 0"),
    ({"n_targets": 2**31}, "weights of a forest"),
    ({"post_transform": "RELU"}, "got 'RELU', expected NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or PROBIT"),
]


@pytest.mark.parametrize(("changed", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_damaged_trees_are_refused(changed, said):
    attributes = {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0],
        "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0],
    } | changed  # fmt: skip
    with pytest.raises(popart.popart_exception, match=said):
        popart.backend.prepare(model("TreeEnsembleRegressor", [normal(3, 2)], attributes)).run([normal(3, 2)])
