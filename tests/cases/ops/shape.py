"""Cases of operators that move elements."""

import numpy as np

from tests.cases.case import Case, bools, floats, ints


def moved(type, arrays, attributes, function, gradients=(0,), **more):
    return Case(type, arrays, attributes, function, gradients=gradients, **more)


X = floats(2, 3, 4)
IMAGE = floats(2, 8, 2, 3)
EMPTY = np.zeros((0, 3), np.float32)


def depth_to_space(x, b, crd):
    n, c, h, w = x.shape
    if crd:
        return x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // b**2, h * b, w * b)
    return x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)


def space_to_depth(x, b, depth_first=False):
    n, c, h, w = x.shape
    order = (0, 1, 3, 5, 2, 4) if depth_first else (0, 3, 5, 1, 2, 4)
    return x.reshape(n, c, h // b, b, w // b, b).transpose(order).reshape(n, c * b * b, h // b, w // b)


VIEWS = [
    moved("Reshape", [X], {"shape": [4, 6]}, lambda x: x.reshape(4, 6)),
    moved("Reshape", [X], {"shape": [0, -1]}, lambda x: x.reshape(2, 12)),
    moved("Reshape", [floats(1, 1)], {"shape": []}, lambda x: x.reshape(())),
    Case("Reshape", [EMPTY], {"shape": [3, 0], "allowzero": 1}, lambda x: x.reshape(3, 0)),
    Case("Reshape", [bools(4)], {"shape": [2, 2]}, lambda x: x.reshape(2, 2)),
    Case("Reshape", [X], {"shape": [5, 5]}, refuses="element counts differ"),
    Case("Reshape", [X], {"shape": [-1, -1]}, refuses="more than one -1"),
    Case("Reshape", [X], {"shape": [5, -1]}, refuses="cannot be filled"),
    Case("Reshape", [X], {"shape": [-2, 12]}, refuses="negative dimension"),
    moved("Squeeze", [floats(1, 3, 1)], {}, lambda x: x.reshape(3)),
    moved("Squeeze", [floats(1, 3, 1)], {"axes": [-1]}, lambda x: x.reshape(1, 3)),
    Case("Squeeze", [floats(1, 3, 1)], {"axes": [1]}, refuses="more than one element"),
    moved("Unsqueeze", [floats(3, 2)], {"axes": [0, -1]}, lambda x: x[None, :, :, None]),
    Case("Unsqueeze", [floats(3)], {"axes": [0, 0]}, refuses="repeated"),
    moved("Identity", [X], {}, lambda x: x),
    Case("Identity", [ints(3)], {}, lambda x: x),
    Case("Detach", [X], {}, lambda x: x),
    Case("Nop", [X], {}, lambda x: x),
    Case("StraightThrough", [floats(2, 3), floats(2, 3)], {}, lambda _x, value: value),
    Case("StraightThrough", [floats(2, 3), floats(3)], {}, refuses="one type and shape"),
    moved("Transpose", [X], {}, lambda x: x.transpose()),
    moved("Transpose", [X], {"perm": [1, 2, 0]}, lambda x: x.transpose(1, 2, 0)),
    Case("Transpose", [ints(3, 5, dtype="uint8")], {"perm": [1, 0]}, lambda x: x.T),
    Case("Transpose", [X], {"perm": [0, 1, 1]}, refuses="not a permutation"),
    moved("DepthToSpace", [IMAGE], {"blocksize": 2}, lambda x: depth_to_space(x, 2, False)),
    moved("DepthToSpace", [IMAGE], {"blocksize": 2, "mode": "CRD"}, lambda x: depth_to_space(x, 2, True)),
    moved("SpaceToDepth", [floats(1, 2, 4, 6)], {"blocksize": 2}, lambda x: space_to_depth(x, 2)),
    moved("SpaceToDepth", [floats(1, 2, 4, 6)], {"blocksize": 2, "mode": "CRD"}, lambda x: space_to_depth(x, 2, True)),
    Case("SpaceToDepth", [IMAGE], {"blocksize": 1, "mode": "ABC"}, refuses="unknown mode"),
    Case("DepthToSpace", [IMAGE], {"blocksize": 3}, refuses="do not split"),
]

JOINS = [
    moved(
        "Concat", [floats(2, 3), floats(2, 1), floats(2, 2)], {"axis": -1}, lambda *a: np.concatenate(a, 1), [0, 1, 2]
    ),
    moved("Concat", [floats(1, 3), floats(4, 3)], {"axis": 0}, lambda *a: np.concatenate(a), [0, 1]),
    Case("Concat", [ints(2), ints(3)], {"axis": 0}, lambda *a: np.concatenate(a)),
    Case("Concat", [floats(2, 3), floats(3, 3)], {"axis": 1}, refuses="differ outside axis"),
    moved("Split", [floats(2, 6)], {"axis": 1}, lambda x: tuple(np.split(x, 3, 1)), outputs=3),
    moved("Split", [floats(7, 2)], {"axis": 0, "split": [2, 5]}, lambda x: (x[:2], x[2:]), outputs=2),
    Case("Split", [floats(7)], {}, lambda x: (x[:3], x[3:6], x[6:]), outputs=3),
    Case("Split", [floats(7)], {"split": [3, 3]}, refuses="do not add up", outputs=2),
]


INTERLEAVED = {"inputs": [0, 1] * 4 + [1, 1], "channels": [0, 1, 1, 2, 2, 3, 3, 4, 0, 0]}


def interleaved(x, y):
    return np.stack([x[:, 0], y[:, 1], x[:, 1], y[:, 2], x[:, 2], y[:, 3], x[:, 3], y[:, 4], y[:, 0], y[:, 0]], 1)


PICKS = [
    *[
        Case("PickChannels", [x, y], INTERLEAVED, interleaved, name=name)
        for name, x, y in [
            ("floats", floats(2, 4, 3, 5), floats(2, 5, 3, 5)),
            ("rows", floats(3, 4), floats(3, 5)),
            ("bytes", ints(1, 4, 7, dtype="int8"), ints(1, 5, 7, dtype="int8")),
            ("long", ints(1, 4, 7, dtype="int64"), ints(1, 5, 7, dtype="int64")),
        ]
    ],
    Case("PickChannels", [floats(2, 3, 4)], {"inputs": [], "channels": []}, refuses="needs channels"),
    Case("PickChannels", [floats(2, 3, 4)], {"inputs": [0], "channels": [3]}, refuses="none of theirs"),
    Case("PickChannels", [floats(2, 3, 4)], {"inputs": [1], "channels": [0]}, refuses="none of theirs"),
    Case("PickChannels", [floats(2, 3, 4)], {"inputs": [0], "channels": [0, 1]}, refuses="an input for each"),
    Case("PickChannels", [floats(2, 3, 4), floats(2, 3, 5)], {"inputs": [0], "channels": [0]}, refuses="shapes differ"),
]


def replace(where):
    def replaced(whole, part):
        result = whole.copy()
        result[where] = part
        return result

    return replaced


SLICES = [
    moved("Slice", [X], {"starts": [1], "ends": [3], "axes": [2]}, lambda x: x[:, :, 1:3]),
    moved("Slice", [X], {"starts": [0, -3], "ends": [1, 2**62]}, lambda x: x[:1, -3:]),
    moved("Slice", [floats(7, 5)], {"starts": [1, 4], "ends": [7, -6], "steps": [2, -2]}, lambda x: x[1:7:2, ::-2]),
    moved("Slice", [floats(10)], {"starts": [-2], "ends": [-(2**63)], "steps": [-3]}, lambda x: x[-2::-3]),
    moved("Slice", [floats(4)], {"starts": [2], "ends": [2]}, lambda x: x[2:2]),
    moved(
        "Slice", [floats(4, 3)], {"starts": [1], "ends": [9], "steps": [2**63 - 1]}, lambda x: x[1:2], name="huge-step"
    ),
    Case("Slice", [bools(5)], {"starts": [9], "ends": [-9], "steps": [-1]}, lambda x: x[::-1]),
    Case("Slice", [X], {"starts": [0], "ends": [1, 2]}, refuses="differ in length"),
    Case("Slice", [X], {"starts": [0], "ends": [1], "steps": [0]}, refuses="a step is 0"),
    Case("Slice", [X], {"starts": [0], "ends": [1], "axes": [3]}, refuses="axes"),
    moved(
        "SliceUpdate",
        [X, floats(2, 3, 2)],
        {"starts": [1], "ends": [3], "axes": [2]},
        replace(np.s_[:, :, 1:3]),
        (0, 1),
    ),
    moved(
        "SliceUpdate",
        [floats(7, 5), floats(3, 3)],
        {"starts": [1, 4], "ends": [7, -6], "steps": [2, -2]},
        replace(np.s_[1:7:2, ::-2]),
        (0, 1),
    ),
    Case("SliceUpdate", [ints(5), ints(0)], {"starts": [2], "ends": [2]}, lambda whole, part: whole),
    Case("SliceUpdate", [X, floats(2, 3, 3)], {"starts": [1], "ends": [3], "axes": [2]}, refuses="shape of the slice"),
    moved("Subsample", [floats(5, 6)], {"strides": [2, 4]}, lambda x: x[::2, ::4]),
    moved("Subsample", [floats(5, 6)], {"strides": [3]}, lambda x: x[::3]),
    moved("Subsample", [floats(5, 6)], {"strides": [2**63 - 1, 5]}, lambda x: x[:1, ::5], name="huge-stride"),
    Case("Subsample", [X], {"strides": [0]}, refuses="not positive"),
    moved("Reverse", [X], {"dimensions": [0, 2]}, lambda x: x[::-1, :, ::-1]),
    moved("Reverse", [X], {"dimensions": []}, lambda x: x),
    Case("Reverse", [X], {"dimensions": [1, 1]}, refuses="repeated"),
]


def pad(widths, mode, **more):
    return lambda x: np.pad(x, widths, mode=mode, **more)


EXPANSIONS = [
    moved("Expand", [floats(3, 1)], {"shape": [2, 1, 4]}, lambda x: np.broadcast_to(x, (2, 3, 4))),
    moved("Expand", [floats(3, 4)], {"shape": [1]}, lambda x: x),
    Case("Expand", [floats(3)], {"shape": [2]}, refuses="do not broadcast"),
    moved("Tile", [floats(2, 3)], {"repeats": [2, 3]}, lambda x: np.tile(x, (2, 3))),
    moved("Tile", [floats(2, 3)], {"repeats": [1, 0]}, lambda x: x[:, :0]),
    Case("Tile", [floats(2, 3)], {"repeats": [2]}, refuses="not as many repeats"),
    moved(
        "Pad",
        [floats(2, 3)],
        {"pads": [1, 0, 2, 3], "value": 1.5},
        pad([(1, 2), (0, 3)], "constant", constant_values=1.5),
    ),
    moved("Pad", [floats(4, 3)], {"pads": [-1, 1, -2, -1]}, lambda x: np.pad(x[1:2], [(0, 0), (1, 0)])[:, :3]),
    moved("Pad", [floats(3, 4)], {"pads": [2, 1, 1, 2], "mode": "reflect"}, pad([(2, 1), (1, 2)], "reflect")),
    moved("Pad", [floats(3, 2)], {"pads": [5, 0, 4, 0], "mode": "reflect"}, pad([(5, 4), (0, 0)], "reflect")),
    moved("Pad", [floats(3, 4)], {"pads": [2, 1, 1, 2], "mode": "edge"}, pad([(2, 1), (1, 2)], "edge")),
    moved("Pad", [floats(3, 4)], {"pads": [4, 1, 1, 9], "mode": "wrap"}, pad([(4, 1), (1, 9)], "wrap")),
    moved(
        "Pad", [floats(2, 3, 4)], {"pads": [1, 2], "axes": [-2], "mode": "edge"}, pad([(0, 0), (1, 2), (0, 0)], "edge")
    ),
    Case("Pad", [ints(3)], {"pads": [1, 1], "value": 7.0}, pad([(1, 1)], "constant", constant_values=7)),
    *[
        Case("Pad", [ints(3, 4, dtype=dtype)], {"pads": [1, 0, 0, 2], "value": 3.0, "mode": mode})
        for dtype in ("int8", "uint8", "int16", "int64", "uint64")
        for mode in ("constant", "reflect")
    ],
    Case("Pad", [bools(3, 4)], {"pads": [1, 0, 0, 2], "value": 1.0}),
    *[
        Case("Pad", [floats(70, 41, 37)], {"pads": [2, 3, 4, 5, 6, 7], "mode": mode})
        for mode in ("edge", "wrap", "reflect")
    ],
    Case("Pad", [floats(70, 41, 37)], {"pads": [2, -3, 4, 5, 6, -7], "value": 0.5}),
    Case("Pad", [floats(3)], {"pads": [1]}, refuses="wrong length"),
    Case("Pad", [floats(3)], {"pads": [1, 1], "mode": "mirror"}, refuses="unknown mode"),
    Case("Pad", [floats(3)], {"pads": [-2, -2]}, refuses="negative size"),
]

CONSTANTS = [
    Case("Constant", [], {"value": X}, lambda: X, name="float32"),
    Case("ConstantOfShape", [], {"shape": [2, 3], "value": np.array([7], np.int64)}, lambda: np.full((2, 3), 7)),
    Case("ConstantOfShape", [], {"shape": [2]}, lambda: np.zeros(2, np.float32)),
    Case("Range", [], {"start": np.array(2), "limit": np.array(11), "delta": np.array(3)}, lambda: np.arange(2, 11, 3)),
    Case(
        "Range", [], {"start": np.array(5), "limit": np.array(-2), "delta": np.array(-2)}, lambda: np.arange(5, -2, -2)
    ),
    Case(
        "Range",
        [],
        {"start": np.float32(0.5), "limit": np.float32(2.0), "delta": np.float32(0.25)},
        lambda: np.arange(0.5, 2.0, 0.25, np.float32),
        name="float32",
    ),
    Case("Range", [], {"start": np.array(0), "limit": np.array(1), "delta": np.array(0)}, refuses="delta is 0"),
    Case("Shape", [X], {}, lambda x: np.array([2, 3, 4])),
    Case("Shape", [X], {"start": -2}, lambda x: np.array([3, 4])),
    Case("Shape", [X], {"start": 1, "end": -1}, lambda x: np.array([3])),
    Case("Size", [X], {}, lambda x: np.array(24)),
]

CASES = VIEWS + JOINS + PICKS + SLICES + EXPANSIONS + CONSTANTS
