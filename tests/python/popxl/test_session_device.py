"""A session takes the device that is assigned to it, and refuses one that is too small."""

import numpy as np
import popart
import popxl
import pytest
from popxl import ops


def doubled(replicas=1):
    """A program that returns 2 x."""
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph:
        stream = popxl.h2d_stream((3,), popxl.float32)
        x = ops.host_load(stream)
        result = popxl.d2h_stream(x.shape, x.dtype)
        ops.host_store(result, x + x)
    return ir, stream, result


@pytest.mark.parametrize("assigned", ["device", "cpu"])
def test_a_device_may_be_assigned_before_the_session_attaches(assigned):
    """A device that is attached is taken at once, as by the constructor."""
    ir, stream, result = doubled()
    session = popxl.Session(ir, "cpu")
    device = popart.DeviceManager().createCpuDevice() if assigned == "device" else assigned
    session.device = device
    assert session.is_attached == (assigned == "device")
    with session:
        assert session.device is device or assigned == "cpu"
        np.testing.assert_array_equal(session.run({stream: np.ones(3, np.float32)})[result], [2, 2, 2])
        with pytest.raises(ValueError, match="the session is attached"):
            session.device = device


def test_an_unknown_device_is_refused():
    session = popxl.Session(doubled()[0], "cpu")
    with pytest.raises(ValueError, match="Unknown device: got 'gpu'"):
        session.device = "gpu"


def test_a_device_with_fewer_ipus_than_replicas_is_refused():
    ir, _, _ = doubled(replicas=4)
    manager = popart.DeviceManager()
    with pytest.raises(popart.popart_exception, match="got 2 IPUs, expected 4"):
        popxl.Session(ir, manager.createIpuModelDevice({"numIPUs": 2}))
    session = popxl.Session(ir, manager.createIpuModelDevice({"numIPUs": 4}))
    assert session.is_attached
