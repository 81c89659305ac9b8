"""Timers, weights by variable, printing, FLOPs, seeds, run_module."""

import logging
import os
import subprocess
import sys
import types

import numpy as np
import popart._internal.ir as _ir
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest
from popxl_addons import debugging
from popxl_addons.testing_utils import TensorInput, ops_of_type, run_module
from popxl_addons.utils import null_context

RNG = np.random.default_rng(8)


# ---- utils
def test_timer(caplog, monkeypatch):
    wandb = types.ModuleType("wandb")
    wandb.run = types.SimpleNamespace(summary={})
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    with caplog.at_level(logging.INFO):
        with addons.timer("My Long Task"):
            assert "My Long Task" in caplog.text
        assert caplog.records[-1].name == "root" and caplog.records[-1].levelno == logging.INFO
        assert "My Long Task" in caplog.messages[-1] and "0.00" in caplog.messages[-1]
        assert list(wandb.run.summary) == ["my_long_task_mins"]
        with addons.timer(), addons.timer("Silent", log_to_wandb=False):
            pass
        assert "0.00" in caplog.messages[-1] and len(wandb.run.summary) == 1
        count = len(caplog.messages)
        with pytest.raises(KeyError), addons.timer("Failing"):
            raise KeyError
        assert len(caplog.messages) == count + 1
    wandb.run = None
    with addons.timer("Without a run"), null_context():
        pass


def test_weights_dict():
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        a = popxl.variable(np.zeros((2, 3), np.float32), name="a")
        groups = popxl.variable(np.zeros((2, 4), np.float16), replica_grouping=ir.replica_grouping(group_size=1))
        ops.add(a, a)
    value = np.ones((2, 3), np.float32)
    weights = addons.WeightsDict({a: value})
    weights.update({groups: np.ones((2, 4), np.float16)})  # the shape on the host
    assert list(weights) == list(weights.keys()) == [a, groups] and len(weights) == 2 and weights[a] is value
    assert weights.dict == dict(weights.items())
    for wrong, text in ((value.astype(np.float64), "float64"), (np.ones((3, 2), np.float32), r"\(3, 2\).*|.*\(2, 3\)")):
        with pytest.raises(ValueError, match=text):
            weights[a] = wrong
    with pytest.raises(ValueError, match=r"\(4,\)"):
        weights[groups] = np.ones(4, np.float16)
    session = popxl.Session(ir, "cpu")
    session.write_variables_data(weights)
    np.testing.assert_array_equal(session.get_tensor_data(a), value)


def test_names_and_classes():
    assert addons.suffix_graph_name("Net_subgraph(12)_bwd_subgraph(0)", "x") == "Net_bwd_x"
    assert addons.duplicate_items([3, 1, 3, 2, 1, 3]) == [3, 1] and addons.duplicate_items([]) == []

    class Base:
        def f(self):
            pass

    class Same(Base):
        pass

    class Other(Base):
        def f(self):
            pass

    assert addons.overrides(Other, Base, "f") and not addons.overrides(Same, Base, "f")
    ordered = addons.OrderedDict(a=1, b=2)
    assert ordered.idx(1) == 2 and ordered.idx(-1) == 2


def test_commit_of_the_current_folder(tmp_path):
    program = "import popxl_addons, os; os.chdir('/'); print(popxl_addons.GIT_COMMIT)"

    def commit(folder):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=folder, env=environment, text=True, capture_output=True, check=True
        )
        return done.stdout.strip()

    assert commit(tmp_path) == "None"
    git = ["git", "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "m"], cwd=tmp_path, check=True)
    (tmp_path / "below").mkdir()
    head = subprocess.run([*git, "rev-parse", "HEAD"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert commit(tmp_path / "below") == head.stdout[:7]


# ---- printing
@pytest.mark.parametrize(("threshold", "printed"), [("TRACE", 3), ("DEBUG", 2), ("INFO", 1), ("WARN", 0)])
def test_printing_by_level(monkeypatch, capfd, threshold, printed):
    monkeypatch.setattr(debugging, "_LEVEL", debugging._LEVELS[threshold])
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.float32(7), name="x")
        for level in ("TRACE", "DEBUG", "INFO"):
            addons.print_tensor(x, f"{level} title", level=level)
        assert (addons.print_tensor(x) is x) == (printed < 2)  # DEBUG unless said otherwise
        ops.add(x, x)
        with pytest.raises(KeyError):
            addons.print_tensor(x, level="LOUD")
    with popxl.Session(ir, "cpu") as session:
        session.run()
    err = capfd.readouterr().err
    assert [level for level in ("TRACE", "DEBUG", "INFO") if f"{level} title" in err] == ["TRACE", "DEBUG", "INFO"][
        3 - printed :
    ]


def test_printing_text(monkeypatch, capfd):
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.float32(7), name="x")
        addons.print_text("quiet")
        addons.print_text("loud", level="WARN")
        addons.print_text("value", x, "INFO")
        ops.add(x, x)
    with popxl.Session(ir, "cpu") as session:
        session.run()
    err = capfd.readouterr().err
    assert "loud" in err and "value: 7" in err and "quiet" not in err


def test_unknown_level_in_the_environment():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "MODEL_LOG_LEVEL": "LOUD"}
    done = subprocess.run(
        [sys.executable, "-c", "import popxl_addons"], env=environment, text=True, capture_output=True
    )
    assert done.returncode and "KeyError: 'LOUD'" in done.stderr


# ---- FLOPs
class Linear(addons.Module):
    def build(self, x):
        w = self.add_variable_input("w", lambda: np.ones((x.shape[-1], 4), np.float32), x.dtype)
        return x @ w + w[0]


def flops_program(replication=1):
    ir = popxl.Ir(replication)
    with ir.main_graph:
        x = popxl.variable(np.ones((2, 8), np.float32))
        facts, graph = Linear().create_graph(x)
        (y,) = graph.bind(facts.init()).call(x)
        body = ir.create_graph(lambda t: t * 2.0, y)
        (y,) = ops.repeat(body, 3, y)
        ops.add(y, y)
        ops.relu(y)
        ops.add_(y, y)
    return ir, graph.graph


def test_flops():
    ir, graph = flops_program()
    ids = {op.opType(): op.id for g in (ir.main_graph, graph) for op in g._pb_graph.getOps()}
    product, bias = 2 * 8 * 2 * 4, 2 * 4
    (mul,) = (op.id for g in ir._pb_ir.getAllGraphs() for op in g.getOps() if op.opType() == "Mul")
    inner = addons.evaluate_FLOPs(addons.GraphWithNamedArgs(graph))
    assert inner == addons.evaluate_FLOPs(graph)
    add = next(op.id for op in graph._pb_graph.getOps() if op.opType() == "Add")
    assert inner == {"MatMul": {ids["MatMul"]: product}, "Add": {add: bias}, "TOT": product + bias}
    whole = addons.evaluate_FLOPs(ir.main_graph)
    call, loop = f"Call_{ids['Call']}(Linear)", ids["Loop"]
    outer_add = next(op.id for op in ir.main_graph._pb_graph.getOps() if op.opType() == "Add")
    assert whole["MatMul"] == {call: {ids["MatMul"]: product}}
    assert whole["Add"] == {call: {add: bias}, outer_add: 8}
    ((loop_key, in_loop),) = whole["Mul"].items()
    assert loop_key.startswith(f"Loop_{loop}(") and "_subgraph(" not in loop_key
    ((call_key, counts),) = in_loop.items()
    assert call_key.startswith("Call_") and counts == {mul: 3 * 8}
    assert list(whole)[-1] == "TOT" and whole["TOT"] == product + bias + 8 + 24 == addons.total_FLOPs(ir)
    ir, _ = flops_program(2)
    assert addons.total_FLOPs(ir) == addons.evaluate_ir_FLOPs(ir)["TOT"] == 2 * whole["TOT"]
    assert addons.evaluate_FLOPs(popxl.Ir().main_graph) == {"TOT": 0}


def test_flops_of_norms():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones((2, 6, 4), np.float32))
        scale = popxl.variable(np.ones(6, np.float32))
        ops.group_norm(x, scale, scale, 3)
    e, means, outputs = 6 * 4 // 3, 2 * 3, 2 * 6 * 4
    assert addons.total_FLOPs(ir) == 3 * e + 2 * means + 4 * outputs


def test_printed_flops(capsys):
    counts = {"Add": {7: 10, "Call_1(f)": {8: 890}}, "MatMul": {9: 9072}, "TOT": 9972}
    addons.print_FLOPs(counts)
    by_type = [[cell.strip() for cell in line.split("|")] for line in capsys.readouterr().out.splitlines()]
    assert by_type[0] == ["Op Type", "FLOPs", "%"]
    assert by_type[2:] == [["MatMul", "9.072E+03", "91.0"], ["Add", "0.900E+03", "9.0"]]
    addons.print_FLOPs(counts, "flat", "K")
    flat = [[cell.strip() for cell in line.split("|")] for line in capsys.readouterr().out.splitlines()]
    assert flat[0] == ["Op Type", "FLOPs", "Op Name"]
    assert flat[2:] == [
        ["TOT", "9.972E+03", "TOT"],
        ["MatMul", "9.072E+03", "MatMul.9"],
        ["Add", "0.890E+03", "Add.Call_1(f).8"],
        ["Add", "0.010E+03", "Add.7"],
        ["TOT", "9.972E+03", ""],
    ]
    with pytest.raises(ValueError, match="mode"):
        addons.print_FLOPs(counts, "other")


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        *[(9072, "nearest3", "9.072E+03"), (900, "nearest3", "0.900E+03"), (12, "nearest3", "12.000E+00")],
        *[(0, "nearest3", "0.000E+00"), (-5, "nearest3", "-5.000E+00"), (0.5, "nearest3", "0.500E+00")],
        *[(0.002, "nearest3", "2.000E-03"), (123456, "nearest3", "0.123E+06"), (2.5e9, "K", "2500000.000E+03")],
        *[(2.5e9, "M", "2500.000E+06"), (2.5e9, "G", "2.500E+09"), (2.5e9, "T", "0.003E+12")],
    ],
)
def test_scientific_form(value, form, text):
    assert addons.format_flops_scientific(value, form) == text


def test_unknown_form():
    with pytest.raises(ValueError, match="'P'"):
        addons.format_flops_scientific(1, "P")


# ---- seeds
@pytest.mark.parametrize("replicas", [1, 2])
def test_seed_variable(replicas):
    ir = popxl.Ir(replicas)
    with ir.main_graph, popxl.in_sequence():
        variable, seed = addons.seed_variable(3)
        used, following = ops.split_random_seed(seed)
        ops.var_updates.copy_var_update_(seed, following)
        stream = popxl.d2h_stream((2,), popxl.uint32)
        ops.host_store(stream, used)
    assert (variable.name, variable.dtype, variable.shape) == ("random_seed", popxl.uint32, (2,))
    assert (seed.dtype, seed.shape) == (popxl.uint32, (2,)) and seed is not variable
    first = popxl.create_seeds(3, replicas=replicas)
    session = popxl.Session(ir, "cpu")
    np.testing.assert_array_equal(session.get_tensor_data(variable), first)
    with session:
        runs = [session.run()[stream].copy() for _ in range(2)]
        after = session.get_tensor_data(variable).copy()
        assert (runs[0] != runs[1]).any() and (after != first).any()  # carried on from run to run
        session.write_variable_data(variable, first)
        np.testing.assert_array_equal(session.run()[stream], runs[0])
        np.testing.assert_array_equal(session.run()[stream], runs[1])
    np.testing.assert_array_equal(session.get_tensor_data(variable), after)


def test_seed_shared_by_replicas_in_a_repeated_program():
    ir = popxl.Ir(2)
    ir.num_host_transfers = 3
    with ir.main_graph, popxl.in_sequence():
        _, seed = addons.seed_variable(9, ir.replica_grouping())
        used, following = ops.split_random_seed(seed)
        ops.var_updates.copy_var_update_(seed, following)
        stream = popxl.d2h_stream((2,), popxl.uint32)
        ops.host_store(stream, used)
    from popxl_addons.transforms.repeat_graph import repeat_graph

    repeat_graph(ir.main_graph, 3)
    with popxl.Session(ir, "cpu") as session:
        seeds = np.concatenate([session.run()[stream] for _ in range(2)])
    assert seeds.shape == (6, 2, 2)
    np.testing.assert_array_equal(seeds[:, 0], seeds[:, 1])
    assert len(np.unique(seeds[:, 0], axis=0)) == 6


# ---- testing_utils
class Scaled(addons.Module):
    def build(self, x, factor, y=None):
        w = self.add_variable_input("w", lambda: np.full(x.shape, 2), x.dtype)
        return x * w * factor, x if y is None else y


def test_run_module():
    x = RNG.normal(size=(2, 3)).astype(np.float32)
    first, second = run_module(Scaled(), TensorInput(x), 5.0)
    np.testing.assert_allclose(first, x * 10, rtol=1e-6)
    np.testing.assert_array_equal(second, x)
    y = np.arange(3)
    first, second = run_module(
        Scaled(),
        TensorInput(x, popxl.float16),
        0.5,
        y=TensorInput(y),
        weights=lambda variables: {variables.w: np.full((2, 3), 4, np.float16)},
    )
    assert first.dtype == np.float16 and second.dtype == np.int32
    np.testing.assert_allclose(first, x.astype(np.float16) * np.float16(2), rtol=1e-3)
    np.testing.assert_array_equal(second, y)


def test_ops_of_a_type():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones(2, np.float32))
        ops.relu(x + x + x)
    assert ops_of_type(ir.main_graph._pb_graph.getOps(), _ir.op.AddOp) == 2
