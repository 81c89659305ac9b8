"""Devices and limits of popxl sessions: the same rules as for popart's sessions."""

import subprocess
import sys

import numpy as np
import popart
import popxl
import popxl.ops as ops
import pytest

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def program(ipu: int = 0):
    """Double a stream on an IPU."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        into, out = popxl.h2d_stream((2, 3), popxl.float32, "in"), popxl.d2h_stream((2, 3), popxl.float32, "out")
        x = ops.host_load(into)
        with popxl.ipu(ipu):
            y = x + x
        ops.host_store(out, y)
    return ir, into, out


def virtual_ipu():
    return popart.DeviceManager().acquireAvailableDevice(1, connectionType=popart.DeviceConnectionType.OnDemand)


def test_a_device_given_is_attached_inside_with_only():
    ir, into, out = program()
    device = virtual_ipu()
    session = popxl.Session(ir, device)
    assert not device.isAttached and not session.is_attached
    for _ in range(2):
        with session:
            assert device.isAttached and session.is_attached
            np.testing.assert_array_equal(session.run({into: X})[out], 2 * X)
        assert not device.isAttached and not session.is_attached


def test_an_attached_device_attaches_the_session_at_once():
    ir, into, out = program()
    session = popxl.Session(ir, popart.DeviceManager().createCpuDevice())
    assert session.is_attached
    np.testing.assert_array_equal(session.run({into: X})[out], 2 * X)
    with session:
        session.run({into: X})
    assert session.is_attached


def test_a_device_in_use_is_refused():
    device = virtual_ipu()
    session = popxl.Session(program()[0], device)
    with popxl.Session(program()[0], popart.DeviceManager().acquireDeviceById(device.id)):
        with pytest.raises(popart.popart_exception, match="is in use"), session:
            pass
        assert not session.is_attached


def test_ipu_hw_waits_for_a_free_device(monkeypatch):
    monkeypatch.setenv("POPART_VIRTUAL_IPUS", "1")
    monkeypatch.setattr(popxl._session_device, "HW_DEVICE_CONNECTION_TIMEOUT", 0)
    first, second = (popxl.Session(program()[0], "ipu_hw") for _ in range(2))
    with first:
        with pytest.raises(RuntimeError, match="became free in time"), second:
            pass
        assert not second.is_attached
    with second:
        assert second.is_attached


def test_a_program_for_more_ipus_than_there_are_is_refused_when_attached(monkeypatch):
    monkeypatch.setenv("POPART_VIRTUAL_IPUS", "2")
    session = popxl.Session(program(ipu=2)[0], "ipu_hw")
    with pytest.raises(RuntimeError, match="expected 4"), session:
        pass


def test_an_offline_device_compiles_and_does_not_run():
    session = popxl.Session(program()[0], popart.DeviceManager().createOfflineIPUDevice({}))
    with pytest.raises(popart.popart_exception, match="offline device"), session:
        pass
    assert not session.is_attached


def test_the_memory_limit_of_the_environment_holds(monkeypatch):
    monkeypatch.setenv("POPART_MAX_MEMORY", "8")
    with pytest.raises(popart.OutOfMemoryException, match="does not fit the memory limit") as caught:
        popxl.Session(program()[0])
    assert "expected at most 8" in caught.value.getSummaryReport()
    monkeypatch.setenv("POPART_MAX_MEMORY", "64M")
    popxl.Session(program()[0])
    monkeypatch.setenv("POPART_MAX_MEMORY", "lots")
    with pytest.raises(popart.popart_exception, match="max_memory"):
        popxl.Session(program()[0])


LOGGED = """
import numpy as np, popxl, popxl.ops as ops
ir = popxl.Ir()
with ir.main_graph, popxl.in_sequence():
    out = popxl.d2h_stream((3,), popxl.float32, "out")
    ops.host_store(out, popxl.ops.negate(popxl.variable(np.ones(3, np.float32))))
with popxl.Session(ir, "cpu") as session:
    session.run()
"""


def test_compiling_and_loading_are_logged(monkeypatch):
    monkeypatch.setenv("POPART_LOG_LEVEL", "INFO")
    text = subprocess.run([sys.executable, "-c", LOGGED], capture_output=True, text=True, check=True).stderr
    assert "session 'popxl': compiled" in text and "loaded on Device Type:cpu" in text
