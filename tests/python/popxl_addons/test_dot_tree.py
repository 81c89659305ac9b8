"""DotTree: ordered trees of named leaves."""

import copy

import popxl
import pytest
from popxl_addons.dot_tree import DotTree, sanitise, to_mapping
from popxl_addons.named_replica_grouping import NamedReplicaGrouping
from popxl_addons.named_tensors import NamedTensorData, NamedTensors, print_named_tensors
from popxl_addons.utils import OrderedDict


def tree(**leaves):
    return DotTree.from_dict(leaves)


def nested():
    return DotTree.from_dict({"a": 1, "b.c": 2, "b.d.e": 3})


# ---- insert and update
def test_keys():
    t = DotTree()
    for key in ("x", "_y", "if", "0", "12", "a.0.if"):
        t.insert(key, key)
    t.insert(3, "three")
    assert t.keys() == ["x", "_y", "if", "0", "12", "a", "3"]
    for key in ("1a", "a-b", "", "b.", ".b", "b..c", "b.1a", -1, "x y"):
        with pytest.raises(ValueError, match="negative: got -1" if key == -1 else "not a valid python identifier"):
            t.insert(key, 0)


def test_insert():
    t = nested()
    for key in ("a", "b.x", "b"):
        with pytest.raises(ValueError, match="already exists"):
            t.insert(key, 0)
    below = t.b
    t.insert("b.x", 4, overwrite=True)
    assert t.b is not below and below.keys() == ["c", "d"]  # merged into a copy
    assert t.to_dict() == {"a": 1, "b.c": 2, "b.d.e": 3, "b.x": 4}
    t.insert("a.leaf", 5, overwrite=True)  # a leaf in the way becomes a tree
    assert t["a.leaf"] == 5
    t.insert("b", 6, overwrite=True)  # without a dot the whole subtree goes
    assert t.to_dict() == {"a.leaf": 5, "b": 6}
    t = nested()
    with pytest.raises(ValueError, match="identifier"):
        t.insert("b.d.1x", 0, overwrite=True)
    assert t.to_dict() == nested().to_dict()  # rolled back


def test_update():
    t, other = nested(), tree(**{"b.z": 9, "q": 8})
    with pytest.raises(ValueError, match="already exists"):
        t.update(other)
    t.update(other, overwrite=True)
    assert t.to_dict() == {"a": 1, "b.z": 9, "q": 8}  # not merged
    other.insert("b.y", 1, overwrite=True)
    assert "b.y" not in t
    assert DotTree(a=1, b=DotTree(c=2)).to_dict() == {"a": 1, "b.c": 2}


# ---- get
def test_get():
    t = DotTree.from_dict({"0.w": 1, "2.w": 2, "x.y": 3})
    assert t.get(0) is t["0"] is t.get("0") and t[-1] is t[2] and t["0.w"] == 1 and t.x.y == 3
    assert getattr(t, "x.y") == 3
    for key in (1, "1", -2, "z", "x.z", "-1"):
        with pytest.raises(KeyError):
            t.get(key)
        assert key not in t
    with pytest.raises(KeyError, match=r"not a sub-DotTree: 'y'"):
        t.get("x.y.z")
    with pytest.raises(KeyError, match=r"z.*Available: .*x\.y"):
        t.get("z")
    with pytest.raises(AttributeError, match=r"zz.*x\.y"):
        _ = t.zz
    assert "x.y" in t and 0 in t and "0.w" in t
    with pytest.raises(ValueError, match="max"):
        DotTree(a=1).get(-1)
    methods = DotTree(get=1, keys=2)
    assert callable(methods.get) and methods["get"] == 1 and methods.get("keys") == 2


def test_pop():
    t = nested()
    assert t.pop("b.d.e") == 3 and t.b.d.keys() == [] and t.keys_flat() == ["a", "b.c"]
    assert t.pop("b").to_dict() == {"c": 2}
    for key in ("b", "a.x", "z.y"):
        with pytest.raises(KeyError):
            t.pop(key)
    with pytest.raises(AttributeError):
        t.pop(0)


# ---- whole trees
def test_views():
    t = nested()
    assert (t.keys(), t.len(), t.keys_flat(), t.values_flat(), t.len_flat()) == (
        *(["a", "b"], 2, ["a", "b.c", "b.d.e"], [1, 2, 3], 3),
    )
    assert t.values() == [1, t.b] and type(t.to_dict()) is OrderedDict
    assert DotTree(a=DotTree(), b=1).to_dict() == {"b": 1}  # empty subtrees vanish


def test_copies():
    t = NamedTensorData.from_dict({"a.b": [1]})
    other = t.copy()
    other.a.insert("c", 2)
    assert type(other) is type(other.a) is NamedTensorData and t.keys_flat() == ["a.b"] and other.a.b is t.a.b
    for function in (copy.copy, copy.deepcopy):
        with pytest.raises(RecursionError):
            function(t)


def test_filter_keys():
    t = DotTree.from_dict({"0.w": 1, "1.w": 2, "x.y": 3})
    assert t.filter_keys(["x.y", 1]).to_dict() == {"x.y": 3, "1.w": 2}
    with pytest.raises(ValueError, match="duplicate"):
        t.filter_keys(["x.y", "x.y"])
    with pytest.raises(KeyError):
        t.filter_keys(["q"])


def test_from_dict():
    assert DotTree.from_dict({0: "a", "1.x": "b"}).to_dict() == {"0": "a", "1.x": "b"}
    with pytest.raises(AttributeError, match="leaf"):
        DotTree.from_dict({"a": 1, "a.b": 2})
    for repeated in ({1: 0, "1": 0}, {"a.b": 1, "a": 2}):
        with pytest.raises(ValueError, match="exists"):
            DotTree.from_dict(repeated)


def test_packing():
    t = DotTree.from_dict({"10": 1, "2": 2, "b.a": 3, "a": 4})
    packed = t.unpack()
    assert isinstance(packed, zip)
    names, leaves = packed
    assert (names, leaves) == (("10", "2", "a", "b.a"), (1, 2, 4, 3))
    assert DotTree().unpack() == ([], [])
    assert DotTree.pack(["a", "b.c", "d"], [1, 2]).to_dict() == {"a": 1, "b.c": 2}
    assert DotTree.pack(["a", "a"], [1, 2]).to_dict() == {"a": 2}
    numbered = DotTree.pack([0, 1, 10], "abc")
    assert (numbered[-1], numbered[1], numbered.len()) == ("c", "b", 3)
    assert t.map(str).to_dict() == {"10": "1", "2": "2", "b.a": "3", "a": "4"}
    assert t.to_mapping(tree(a="x", q="y")) == to_mapping(t, tree(a="x", q="y")) == {4: "x"}


def test_clearing():
    t = nested()
    below = t.b
    t._clear()
    assert t.b is below and t.keys() == ["b"] and below.keys() == ["d"] and t.to_dict() == {}


def test_printed_forms():
    assert repr(nested()) == "DotTree({\na: 1,\nb.c: 2,\nb.d.e: 3,\n})"
    assert repr(NamedTensors()) == "NamedTensors({})"
    assert str(nested()) == "{'a': 1, 'b.c': 2, 'b.d.e': 3}"
    assert (repr(OrderedDict(a="x", b=2)), repr(OrderedDict())) == ("{\na: x,\nb: 2,\n}", "{}")


def test_python_protocols():
    t = DotTree()
    assert t and not hasattr(DotTree, "__len__") and not hasattr(DotTree, "__iter__")
    with pytest.raises(TypeError):
        len(t)
    with pytest.raises(KeyError):
        list(DotTree.from_dict({"0": 1, "1": 2}))


def test_sanitise():
    assert [sanitise(n) for n in ("a.b", "1 a.b", "x/y-z", "ok_1")] == ["a_b", "_1_a_b", "x_y_z", "ok_1"]


# ---- trees of tensors and groupings
def test_named_tensors(capfd):
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        first, second = popxl.variable(1.0, name="z"), popxl.variable(2.0, name="a")
        t = NamedTensors.from_dict({"x.one": first, "two": second})
        assert t.tensors == (second, first)  # by the name of the tensor
        assert type(t.named_tensors) is dict and list(t.named_tensors.items()) == [("x.one", first), ("two", second)]
        assert t.remap({first: second, second: first}).to_dict() == {"x.one": second, "two": first}
        with pytest.raises(KeyError):
            t.remap({first: second})
        printed = print_named_tensors(t)
        assert list(printed.to_dict()) == ["x.one", "two"] and printed.two is not second
        group = ir.replica_grouping(group_size=1)
        assert NamedReplicaGrouping.build_groups(t.to_dict().keys(), group).to_dict() == {"x.one": group, "two": group}
    with popxl.Session(ir, "cpu") as session:
        session.run()
    starts = [line.split(":")[0] for line in capfd.readouterr().err.splitlines()]
    printed_names = [start for start in starts if start in ("x.one", "two")]  # between lines of the log
    assert sorted(printed_names) == ["two", "two", "x.one", "x.one"]  # two replicas, which run at the same time
    assert (printed_names[0], printed_names[-1]) == ("x.one", "two")
