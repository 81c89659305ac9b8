"""Sessions: attachment, streams, validation, weights."""

import os

import numpy as np
import popxl
import popxl.ops as ops
import pytest
import torch

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def adder(transfers: int = 1):
    """A program that adds a variable to a stream, and counts runs in the variable."""
    ir = popxl.Ir()
    ir.num_host_transfers = transfers
    with ir.main_graph, popxl.in_sequence():
        into, out = popxl.h2d_stream((2, 3), popxl.float32, "in"), popxl.d2h_stream((2, 3), popxl.float32, "out")
        popxl.h2d_stream((2,), popxl.float32, "unused")
        v = popxl.variable(np.float32(1), name="v")
        constant = popxl.constant(np.float32(2), name="c")
        ops.host_store(out, ops.host_load(into) + v)
        ops.add_(v, constant)
    return ir, into, out, v, constant


@pytest.mark.parametrize("device", ["cpu", "ipu_model", "ipu_hw"])
def test_variables_persist_between_runs(device: str):
    ir, into, out, v, constant = adder()
    assert ir.get_all_h2d_streams() == {into} and ir.get_all_d2h_streams() == {out}
    session = popxl.Session(ir, device)
    with session:
        for run in range(3):
            np.testing.assert_array_equal(session.run({into: X})[out], X + 1 + 2 * run)
        assert session.get_tensor_data(v) == 7
        session.write_variable_data(v, 10.0)
        np.testing.assert_array_equal(session.run({into: X})[out], X + 10)
    assert session.get_tensor_data(v) == 12 and session.get_tensor_data(constant) == 2
    with session:
        np.testing.assert_array_equal(session.run({into: X})[out], X + 12)


def test_leaving_without_download_keeps_host_values():
    ir, into, _, v, _ = adder()
    with popxl.Session(ir, weights_to_host_on_exit=False) as session:
        session.run({into: X})
    assert session.get_tensor_data(v) == 1


def test_an_exception_detaches_without_download():
    ir, into, _, v, _ = adder()
    session = popxl.Session(ir)
    with pytest.raises(KeyError), session:
        session.run({into: X})
        raise KeyError
    assert not session.is_attached and session.get_tensor_data(v) == 1


def test_nesting_and_detaching_by_hand():
    ir, into, out, _, _ = adder()
    with popxl.Session(ir) as session:
        with session:
            session.run({into: X})
        assert session.is_attached
        np.testing.assert_array_equal(session.run({into: X})[out], X + 3)
    session.__enter__()
    session._was_attached_stack.pop()
    session._device.detach()
    session._pb_session.setEngineIsLoaded(False)
    assert not session.is_attached


def test_detached_sessions_refuse_to_run():
    ir, into, _, _, _ = adder()
    session = popxl.Session(ir)
    for call in (lambda: session.run({into: X}), session.weights_to_host, session.weights_from_host):
        with pytest.raises(ValueError, match="with session"):
            call()


def test_inputs_are_checked():
    ir, into, out, _, _ = adder()
    with popxl.Session(ir) as session:
        with pytest.raises(ValueError, match="missing"):
            session.run()
        with pytest.raises(ValueError, match="unexpected"):
            session.run({into: X, out: X})
        with pytest.raises(ValueError, match="wrong shape"):
            session.run({into: X.T})
        with pytest.raises(ValueError, match="outputs"):
            session.run_with_outputs({into: X}, {})
        with pytest.raises(ValueError, match="element type"):
            session.run({into: X.astype(np.complex64)})
        np.testing.assert_array_equal(session.run({into: torch.tensor(X)})[out], X + 1)
        np.testing.assert_array_equal(session.run({into: X.astype(np.float64)[None]})[out], X + 3)
        outputs = session.create_host_outputs()
        session.run_with_outputs({into: X.tolist()}, outputs)
        np.testing.assert_array_equal(outputs[out], X + 5)
        assert session.expected_inputs() == {into} and session._full_input_shape((3, 4)) == (3, 4)


def test_transfers_do_not_loop():
    ir, into, out, v, _ = adder(transfers=3)
    data = np.stack([X, X + 10, X + 20])
    with popxl.Session(ir) as session:
        assert session._full_input_shape((2, 3)) == (3, 2, 3)
        got = session.run({into: data})[out]
        np.testing.assert_array_equal(got[0], X + 1)
        assert session.get_tensor_data(v) == 3
        with pytest.raises(ValueError, match="transfers"):
            session.run({into: X})


def test_written_data_is_checked():
    ir, _, _, v, constant = adder()
    session = popxl.Session(ir)
    with pytest.raises(TypeError, match="Variable"):
        session.write_variable_data(constant, 1.0)
    with pytest.raises(TypeError, match="type"):
        session.write_variable_data(v, np.int32(1))
    with pytest.raises(ValueError, match="shape"):
        session.write_variable_data(v, np.ones(1, np.float32))
    with pytest.raises(TypeError):
        session.get_tensor_data(ir.main_graph.get_tensor("in"))
    session.write_variable_data(v, 5)
    assert session.get_tensor_data(v) == 5


def test_construction_errors():
    with pytest.raises(ValueError, match="Unknown device"):
        popxl.Session(adder()[0], "gpu")
    with pytest.raises(RuntimeError, match="no ops"):
        popxl.Session(popxl.Ir())
    ir = adder()[0]
    popxl.Session(ir)
    with pytest.raises(RuntimeError, match="replication"):
        ir.replication_factor = 2


def test_memory_maps_hold_the_weights(tmp_path):
    path = tmp_path / "w.bin"
    data = np.memmap(path, np.float32, "w+", shape=(2, 3))
    data[...] = X
    ir = popxl.Ir()
    with ir.main_graph:
        w = popxl.variable(data)
        ops.add_(w, popxl.constant(np.ones_like(X)))
    with popxl.Session(ir) as session:
        session.run()
    np.testing.assert_array_equal(np.fromfile(path, np.float32).reshape(2, 3), X + 1)


def test_user_data_is_copied():
    ir = popxl.Ir()
    data = X.copy()
    with ir.main_graph:
        w = popxl.variable(data)
        ops.add_(w, popxl.constant(np.ones_like(X)))
    data[...] = 100
    with popxl.Session(ir) as session:
        session.run()
    np.testing.assert_array_equal(session.get_tensor_data(w), X + 1)
    np.testing.assert_array_equal(data, np.full_like(X, 100))


def test_slices_that_no_store_writes_are_zero():
    ir = popxl.Ir()
    ir.num_host_transfers = 3
    with ir.main_graph:
        inputs = popxl.h2d_stream((2,), popxl.float32)
        out = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(out, ops.host_load(inputs) + 1.0)
    with popxl.Session(ir) as session:
        for _ in range(3):
            got = session.run({inputs: np.arange(6, dtype=np.float32).reshape(3, 2)})[out]
            np.testing.assert_array_equal(got, [[1, 2], [0, 0], [0, 0]])


def sums(overlaps: bool):
    """A program that adds up what it loads in a loop, with all that is about overlapping transfers or none of it."""
    ir = popxl.Ir()
    ir.num_host_transfers = 4
    with ir.main_graph:
        into, out = popxl.h2d_stream((3,), popxl.float32, "in"), popxl.d2h_stream((3,), popxl.float32, "out")

        def load():
            if not overlaps:
                return ops.host_load(into)
            with popxl.io_tiles(), popxl.transforms.merge_exchange():
                loaded = ops.host_load(into)
            return ops.io_tile_copy(loaded)

        def body(total):
            with popxl.in_sequence():
                total = load() + total
                ops.host_store(out, total)
            return total

        zero = popxl.constant(np.zeros(3, np.float32))
        ops.repeat(ir.create_graph(body, zero), 4, zero)
    if overlaps:
        options = ir._pb_ir.getSessionOptions()
        options.enablePrefetchDatastreams, options.defaultBufferingDepth, options.numIOTiles = False, 3, 32
    return ir, into, out


def test_data_of_the_host_lie_ready(caplog):
    """Options and contexts about overlapping transfers change nothing, and no thread is made for them."""
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    for overlaps in (False, True):
        ir, into, out = sums(overlaps)
        with caplog.at_level("WARNING"), popxl.Session(ir) as session:
            threads = len(os.listdir("/proc/self/task"))
            np.testing.assert_array_equal(session.run({into: data})[out], np.cumsum(data, 0))
            assert len(os.listdir("/proc/self/task")) == threads
    assert not caplog.text


def test_session_options_that_do_nothing_are_named(caplog):
    ir = popxl.Ir()
    with ir.main_graph:
        _ = popxl.variable(np.ones(2, np.float32)) + 1
    options = ir._pb_ir.getSessionOptions()
    assert options is ir._pb_ir.getSessionOptions()
    options.numIOTiles = 32
    with caplog.at_level("WARNING"):
        popxl.Session(ir, "cpu")
    assert not caplog.text
    ir = popxl.Ir()
    with ir.main_graph:
        _ = popxl.variable(np.ones(2, np.float32)) + 1
    ir._pb_ir.getSessionOptions().enableFloatingPointChecks = True
    with caplog.at_level("WARNING"):
        popxl.Session(ir, "cpu")
    assert "enableFloatingPointChecks" in caplog.text
