"""Modules: names, containers, lists, caches; graphs with names; functions that share graphs; streams."""

import gc
import inspect
import weakref
from functools import partial

import numpy as np
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest
from popxl_addons.module import NameScopeMeta

SPEC = popxl.TensorSpec((2, 4), popxl.float32)


class Linear(addons.Module):
    def __init__(self, features=4, **kwargs):
        super().__init__(**kwargs)
        self.features = features

    def build(self, x: popxl.Tensor, scale: float = 1.0) -> popxl.Tensor:
        w = self.add_variable_input("weight", partial(np.ones, (x.shape[-1], self.features)), x.dtype)
        return x @ w * scale


class Net(addons.Module):
    def __init__(self):
        self.plain = 3  # may come before super().__init__()
        super().__init__()
        self.fc1, self.fc2 = Linear(8), Linear()

    def build(self, x):
        return self.fc2(ops.relu(self.fc1(x)))


@pytest.fixture
def ir():
    ir = popxl.Ir()
    with ir.main_graph:
        yield ir


# ---- names and containers
def test_names(ir):
    facts, graph = Net().create_graph(SPEC)
    assert [t.id for t in graph.graph.inputs] == [
        *["Net_subgraph(0)/x", "Net_subgraph(0)/fc1/weight", "Net_subgraph(0)/fc2/weight"]
    ]
    assert list(facts.to_dict()) == list(graph.args.to_dict()) == ["fc1.weight", "fc2.weight"]
    assert [t.name for t in facts.init().tensors] == ["fc1.weight", "fc2.weight"]
    assert graph.graph.name == "Net_subgraph(0)" and type(Net()) is not type(addons.Module) is NameScopeMeta
    assert list(inspect.signature(Linear().build).parameters) == ["x", "scale"]
    assert Linear.build.__name__ == "build"


def test_name_scopes(ir):
    module = Linear()
    module.set_name_scope("here")
    _, graph = module.create_graph(SPEC)
    assert graph.graph.inputs[1].id == "Linear_subgraph(0)/here/weight"

    class Below(Linear):
        def build(self, x):
            return super().build(x)

    assert Below().create_graph(SPEC)[1].graph.inputs[1].name == "weight"


def test_containers_are_cleared_and_copied(ir):
    module = Net()
    facts, graph = module.create_graph(SPEC)
    facts.pop("fc1.weight")
    again, _ = module.create_graph(SPEC)
    assert list(again.to_dict()) == ["fc1.weight", "fc2.weight"] and "fc1.weight" in graph.args
    with pytest.raises(ValueError, match="fc1"):
        module.fc1 = Linear()

    class Early(addons.Module):
        def __init__(self):
            self.fc = Linear()

    with pytest.raises(AttributeError):
        Early()


def test_modules_assigned_in_build(ir):
    class Late(addons.Module):
        def build(self, x):
            self.fc = Linear()
            return self.fc(x)

    module = Late()
    assert list(module.create_graph(SPEC)[0].to_dict()) == ["fc.weight"]
    with pytest.raises(ValueError, match="fc"):
        module.create_graph(SPEC)


def test_a_failed_build(ir):
    class Failing(addons.Module):
        fails = True

        def build(self, x):
            w = self.add_variable_input("w", lambda: np.ones(4, np.float32), x.dtype)
            if self.fails:
                raise KeyError("build")
            return x * w

    module = Failing()
    with pytest.raises(KeyError, match="build"):
        module.create_graph(SPEC)
    module.fails = False
    assert list(module.create_graph(SPEC)[0].to_dict()) == ["w"] and popxl.gcg() is ir.main_graph


def test_containers_without_build(ir):
    class Model(addons.Module):
        def __init__(self, facts):
            super().__init__()
            self.facts = facts
            self.enc = addons.Module()

        def build(self, x):
            args = self.enc.add_variable_inputs("head", self.facts)
            return x @ args.weight

    facts, _ = Linear().create_graph(SPEC)
    model = Model(facts)
    for _ in range(2):
        made, graph = model.create_graph(SPEC)
        assert list(made.to_dict()) == list(graph.args.to_dict()) == ["enc.head.weight"]
    with pytest.raises(NotImplementedError):
        addons.Module().build()


def test_outlined_graphs(ir):
    class Outlined(addons.Module):
        def build(self, x):
            facts, layer = Linear().create_graph(x)
            for i in range(2):
                (x,) = layer.bind(self.add_variable_inputs(i, facts)).call(x)
            return x

    module = Outlined()
    facts, graph = module.create_graph(SPEC)
    assert list(facts.to_dict()) == list(module.create_graph(SPEC)[0].to_dict()) == ["0.weight", "1.weight"]
    assert [t.name for t in graph.graph.inputs] == ["x", "weight", "weight__t0"]
    made = facts.init()
    assert made[1].weight.name == "1.weight"


def test_adding_variables(ir):
    class Adds(addons.Module):
        def build(self, x):
            first = self.add_variable_input("a.b", lambda: np.ones(4, np.float32), x.dtype, by_ref=True)
            with pytest.raises(ValueError, match="'a'"):
                self.add_variable_input("a.b", lambda: np.ones(4, np.float32), x.dtype)
            second = self.add_variable_input("a.b", lambda: np.ones(4, np.float32), x.dtype, overwrite=True)
            factory = addons.VariableFactory(lambda: np.ones(4, np.float32), name="own")
            third, fourth = self.add_variable_factory(factory), self.add_variable_factory(factory, "given")
            with pytest.raises(ValueError, match="-1"):
                self.add_variable_inputs(-1, addons.NamedVariableFactories())
            self.kept = (first, second, third, fourth)
            return x

    module = Adds()
    facts, graph = module.create_graph(SPEC)
    assert list(facts.to_dict()) == ["a.b", "own", "given"]
    assert graph.args.a.b is module.kept[1] and module.kept[0] in graph.graph._by_ref_inputs
    assert [t.name for t in graph.graph.inputs[1:]] == ["a.b", "a.b__t0", "own", "own__t1"]


def test_sharded_variables():
    class Shards(addons.Module):
        def build(self, x):
            self.add_replica_sharded_variable_input("w", lambda: np.ones((2, 4), np.float32), x.dtype)
            self.add_replica_sharded_variable_input("v", lambda: np.ones((2, 4), np.float32), x.dtype, shard_over=2)

    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        facts, graph = Shards().create_graph(SPEC)
    assert [(t.shape, t.meta_shape) for t in graph.graph.inputs[1:]] == [((2,), (2, 4)), ((4,), (2, 4))]
    assert facts.w.next_data().shape == (2, 4)


# ---- lists
def test_lists(ir):
    layers = addons.Module.from_list([Linear(2), Linear(3)])
    assert [m.features for m in layers] == [2, 3] and layers[1] is layers.get("1") is getattr(layers, "1")

    class Stack(addons.Module):
        def __init__(self):
            super().__init__()
            self.layers = addons.Module.from_list([Linear(), Linear()])
            self.hidden = [Linear()]

        def build(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    facts, graph = Stack().create_graph(SPEC)
    assert list(facts.to_dict()) == ["layers.0.weight", "layers.1.weight"]
    assert graph.graph.inputs[1].name == "0/weight"  # the container itself is not built
    with pytest.raises(AttributeError):
        list(Net())


def test_lists_of_factories(ir):
    factories = [addons.VariableFactory(lambda: np.ones(4, np.float32), name=name) for name in "ab"]

    class Takes(addons.Module):
        def build(self, x):
            self.made = addons.Module.from_variable_factories(factories)
            return x * self.made[0] * self.made["1"]

    facts, _ = Takes().create_graph(SPEC)
    assert list(facts.to_dict()) == ["made.0", "made.1"]


# ---- graphs with names
def test_bound_graphs(ir):
    class Two(addons.Module):
        def build(self, x, y):
            w = self.add_variable_input("w", lambda: np.full(3, 2, np.float32), x.dtype)
            return x * w, y + w

    v, other = (popxl.variable(np.full(3, n, np.float32)) for n in (5, 7))
    facts, graph = Two().create_graph(v, v)
    bound = graph.bind(facts.init())
    x, y = graph.graph.inputs[:2]
    assert bound.graph is graph.graph and list(bound.args) == [graph.args.w]
    streams = []
    for outputs in (
        *[bound.call(v, other), bound.call([v, other]), bound.call(v, args={y: other}), bound.call(v, [other])],
        bound.bind({graph.args.w: other}).call(v, v),
        bound.call(v, v, args={graph.args.w: other}),  # wins over what is bound
        graph.call(v, v, args={graph.args.w: other}),
        graph.call_with_info(v, v, other).outputs,
    ):
        assert isinstance(outputs, tuple)
        streams += [popxl.d2h_stream(t.shape, t.dtype) for t in outputs]
        for stream, t in zip(streams[-2:], outputs, strict=True):
            ops.host_store(stream, t)
    expected = {**dict(zip(graph.graph.outputs, (v, other), strict=True)), x: v, y: other, **bound.args}
    assert bound.subgraph_io_map(v, other, outs=[v, other]) == expected
    assert bound.subgraph_io_map([v, other], outs=(v, other)) == expected
    with pytest.raises(TypeError):
        bound.subgraph_io_map(v, other)
    with pytest.raises(ValueError, match="missing"):
        graph.bind(addons.NamedTensors(unknown=v)).call(v, v)  # other names are ignored
    with popxl.Session(ir, "cpu") as session:
        got = session.run()
    pairs = [(float(got[a][0]), float(got[b][0])) for a, b in zip(streams[::2], streams[1::2], strict=True)]
    assert pairs == [(10, 9)] * 4 + [(35, 12)] * 4


def test_numbers_become_constants(ir):
    graph = addons.GraphWithNamedArgs(ir.create_graph(lambda a, b: a * b, *[popxl.TensorSpec((), popxl.float32)] * 2))
    (y,) = graph.call(3, 2.5)
    stream = addons.host_store(y)
    with popxl.Session(ir, "cpu") as session:
        assert session.run()[stream] == 7.5


def test_wrappers(ir):
    _, graph = Linear().create_graph(SPEC)
    with pytest.raises(AttributeError, match="grad_graph_info"):
        _ = graph.grad_graph_info
    bwd = graph.autodiff()
    info = bwd.grad_graph_info
    graph.grad_graph_info = info
    assert graph.grad_graph_info is info and graph.autodiff_applied and not bwd.autodiff_applied
    copied = graph.copy()
    copied.args.insert("more", graph.graph.inputs[0])
    assert copied.graph is graph.graph and "more" not in graph.args and not copied.autodiff_applied
    with pytest.raises(Exception, match="from_module"):
        copied.autodiff(method="build_grad")
    wrapped = addons.GraphWithNamedArgs.from_grad_graph(info)
    assert wrapped.graph == bwd.graph and wrapped.args.to_dict() == {} and wrapped.called_graphs_grad_info == {}
    plain = addons.GraphWithNamedArgs(graph.graph, called_graphs_grad_info={graph: bwd})
    assert plain.called_graphs_grad_info == {graph.graph: info}


def test_schedules(ir):
    class Outer(addons.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = Linear(3)

        def build(self, x):
            x = self.fc1(x)
            facts, layer = Linear(3).create_graph(x)
            (y,) = layer.bind(self.add_variable_inputs("fc2", facts)).call(x)
            return y

    _, graph = Outer().create_graph(SPEC)
    assert graph.print_schedule() == "\n".join(
        [
            "Graph : test_schedules.Outer_subgraph(0)",
            "  (%1, fc1.weight=%2, fc2.weight=%3) -> (%7) {",
            "    MatMul.100 (%1 [(2, 4) float32], %2 [(4, 3) float32]) -> (%4 [(2, 3) float32])",
            "    Mul.101 (%4 [(2, 3) float32], %5 [() float32]) -> (%6 [(2, 3) float32])",
            "    Call.104(Linear_subgraph(1)) (%6 [(2, 3) float32], %3 [(3, 3) float32]) -> (%7 [(2, 3) float32])",
            "  }",
        ]
    )
    assert graph.autodiff().graph.name == "test_schedules.Outer_subgraph(0)_bwd"


# ---- caches
def test_cached_graphs(ir):
    module = Linear(cache=True)
    x = popxl.variable(np.ones((2, 4), np.float32))
    facts, first = module.create_graph(SPEC)
    again, second = module.create_graph(x)
    assert first.graph is second.graph and facts is not again and facts.weight is again.weight
    assert first.args.weight is second.args.weight
    _, keyword = module.create_graph(x=x)
    _, default = module.create_graph(x, 1.0)
    with popxl.ipu(1):
        _, on_ipu = module.create_graph(x)
    with popxl.io_tiles():
        _, on_tiles = module.create_graph(x)
    graphs = [g.graph for g in (first, keyword, default, on_ipu, on_tiles)]
    assert len({g.id for g in graphs}) == 5
    assert Linear(cache=addons.GraphCache()).create_graph(x)[1].graph not in graphs  # a cache given is a truth value
    with pytest.raises(TypeError):
        module.create_graph(x, np.ones(2))
    with pytest.raises(TypeError):
        module.create_graph(x, ir.replica_grouping())


def test_equal_modules_share_graphs(ir):
    class Equal(Linear):
        def __hash__(self):
            return 3

        def __eq__(self, other):
            return True

    cache = addons.GraphCache()
    assert cache.create_graph(Equal(), SPEC) is cache.create_graph(Equal(), SPEC)
    assert cache.create_graph(Linear(), SPEC) is not cache.create_graph(Linear(), SPEC)


def test_graphs_of_programs_that_are_gone():
    cache = addons.GraphCache()
    ir = popxl.Ir()
    with ir.main_graph:
        cache.create_graph(ops.relu, SPEC)
    assert len(cache._graphs) == 1
    gone = weakref.ref(ir)
    del ir
    gc.collect()
    assert gone() is None and len(cache._graphs) == 0


def test_hashes(ir):
    x = popxl.variable(np.ones((2, 4), np.float32))
    y = popxl.variable(np.zeros((2, 4), np.float32))
    same = addons.argument_hash
    assert same(x) == same(y) == same(SPEC) == addons.tensor_hash(x)
    assert same(x) != same(popxl.TensorSpec((2, 4), popxl.float16)) and same(x) != same(x.reshape((8,)))
    assert same(popxl.TensorSpec((8,), popxl.float32)) != same(popxl.TensorSpec((8,), popxl.float32, (2, 4)))
    assert same([x, 1]) == same((y, 1)) and same([x, 1]) != same([1, x])
    assert same({"a": x, "b": 1}) == same({"a": y, "b": 1}) != same({"b": 1, "a": y})
    _, graph = Linear().create_graph(SPEC)
    assert same(graph) == same(graph.copy()) and same(graph.bind()) == same(graph.bind())
    assert same(graph.bind(addons.NamedTensors(weight=x))) == same(graph.bind(addons.NamedTensors(weight=y)))
    assert same(graph.bind(addons.NamedTensors(weight=x))) != same(graph.bind())
    for unhashable in (np.ones(2), ir.replica_grouping(), {1}):
        with pytest.raises(TypeError):
            same(unhashable)

    def f(a, b=2):
        return a

    assert list(addons.bound_arguments(f, 1, b=3)) == ["args", "kwargs"]
    assert addons.get_function_hash(f, x) == addons.get_function_hash(f, y) != addons.get_function_hash(f, x, 2)


def test_decorated_functions(ir):
    @addons.function
    def scaled(x, y):
        """Text."""
        return x * y, x

    x = popxl.variable(np.ones((2, 4), np.float32))
    result = scaled(x, x)
    assert isinstance(result, tuple) and len(result) == 2 and scaled.__doc__ == "Text."
    scaled(*result)
    assert [g.name for g in ir.main_graph.called_graphs] == ["test_decorated_functions.scaled_subgraph(0)"]


# ---- streams
def test_streams(ir):
    inputs = addons.InputStreams(a=((2,), popxl.float32), b=((3,), popxl.int32), c=((), popxl.float16))
    assert [type(s) for s in inputs] == [popxl.HostToDeviceStream] * 3
    assert (inputs.b, inputs["b"], inputs[-2]) == (inputs[1],) * 3 and inputs[1:] == [inputs.b, inputs.c]
    assert (inputs.b.shape, inputs.b.dtype, inputs.b.tensor_id) == ((3,), popxl.int32, "b")
    assert list(inputs.keys()) == ["a", "b", "c"] and dict(inputs.items()) == dict(zip("abc", inputs, strict=True))
    assert list(inputs.values()) == list(inputs) and len(inputs) == 3 and "a" in inputs
    with pytest.raises(AttributeError, match=r"zz.*a.*b.*c"):
        _ = inputs.zz
    with pytest.raises(KeyError, match=r"zz.*a.*b.*c"):
        _ = inputs["zz"]
    assert addons.InputStreams(idx=((2,), popxl.int32)).idx.shape == (2,)  # a name that nanoGPT gives
    outputs = addons.OutputStreams.from_streams([popxl.d2h_stream((2,), popxl.float32, "out")])
    assert isinstance(outputs, addons.OutputStreams) and outputs.out is outputs[0]
    assert isinstance(outputs.out, popxl.DeviceToHostStream)


def test_streams_of_single_tensors(ir):
    data, stream, t = addons.host_load(np.arange(3.0), popxl.float16, "x")
    assert data.dtype == np.float16 and stream.tensor_id == "x_stream" and (t.shape, t.dtype) == ((3,), popxl.float16)
    doubled = t + t
    out = addons.ops.host_store(doubled)
    assert out.tensor_id == f"{doubled.name}_stream"
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run({stream: data})[out], [0, 2, 4])
