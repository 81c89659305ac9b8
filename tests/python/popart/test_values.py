"""Value classes, enumerations, devices, options and exceptions of the module popart."""

import numpy as np
import popart
import pytest


def test_data_type_numbers_are_the_documented_ones():
    assert int(popart.DataType.FLOAT) == 11
    assert popart.DataType.UNDEFINED.value == 18
    assert popart.MergeVarUpdateType.Off.value == 0
    assert popart.ScatterReduction.NoReduction.value == 4


def test_tensor_info_takes_numpy_types_and_arrays():
    info = popart.TensorInfo(np.float32, (2, 3))
    assert (info.data_type(), info.data_type_lcase(), info.shape(), info.nbytes()) == ("FLOAT", "float32", [2, 3], 24)
    assert popart.TensorInfo(np.zeros((2, 3), np.float32)) == info
    assert popart.TensorInfo("INT64", [4]).dataType() == popart.DataType.INT64
    with pytest.raises(TypeError):
        popart.TensorInfo(1)
    with pytest.raises(KeyError):
        popart.TensorInfo(float, [2])
    with pytest.raises(popart.popart_exception):
        info.dim(2)


@pytest.mark.parametrize("arguments", [("everyn",), ("EveryN", 0), ("All", 2), ("Some",)])
def test_anchor_return_type_refuses(arguments):
    with pytest.raises(popart.popart_exception):
        popart.AnchorReturnType(*arguments)


@pytest.mark.parametrize(("steps", "period"), [(0, 1), (2, 3), (3, 2)])
def test_data_flow_refuses_periods_that_do_not_fit(steps, period):
    with pytest.raises(popart.popart_exception):
        popart.DataFlow(steps, {"a": popart.AnchorReturnType("EveryN", period)})


def test_data_flow_lists_sorted_anchors():
    flow = popart.DataFlow(2, ["b", "a"])
    assert flow.anchors() == ["a", "b"]
    assert flow.art("a").id() == popart.AnchorReturnTypeId.All


def test_arrays_must_be_contiguous():
    array = np.zeros((4, 4), np.float32)[:, ::2]
    with pytest.raises(popart.popart_exception, match="C-contiguous"):
        popart.PyStepIO({"x": array}, {})
    with pytest.raises(popart.popart_exception, match="C-contiguous"):
        popart.PyWeightsIO({"x": array})


def test_get_tensor_info_refuses_float64():
    with pytest.raises(popart.popart_exception, match="registered"):
        popart.getTensorInfo(np.zeros(3))
    assert popart.getTensorInfo(np.zeros((2, 1), bool)).data_type() == "BOOL"


def test_options_are_live_objects():
    options = popart.SessionOptions()
    options.engineOptions["key"] = "value"
    assert options.engineOptions["key"] == "value"
    options.weightTensorLocationSettings.minElementsForOffChip = 7
    assert options.weightTensorLocationSettings.minElementsForOffChip == 7
    options.tensorLocationSettingsOverride["w"] = popart.TensorLocation(popart.TensorStorage.OffChip)
    assert options.tensorLocationSettingsOverride["w"].storage == popart.TensorStorage.OffChip
    with pytest.raises(AttributeError):
        options.noSuchOption = 1


def test_devices_are_exclusive_and_come_back():
    manager = popart.DeviceManager()
    with manager.acquireAvailableDevice(2) as device:
        assert (device.numIpus, device.type) == (2, popart.DeviceType.Ipu)
        assert repr(device).startswith("Device Type:ipu Connection Type:always Id:")
        assert manager.tryAcquireDeviceById(device.driverIds[0]) is None
    assert manager.tryAcquireDeviceById(device.driverIds[0]) is not None
    with pytest.raises(popart.popart_exception, match="power of two"):
        manager.acquireAvailableDevice(3)
    with pytest.raises(popart.popart_exception, match="invalid option"):
        manager.createIpuModelDevice({"bla": 1})


def test_device_manager_methods_can_be_replaced(monkeypatch):
    method = popart.DeviceManager.tryAcquireAvailableDevice
    assert method.__name__ == "tryAcquireAvailableDevice"
    assert method.__doc__ and method.__qualname__ and method.__module__
    monkeypatch.setattr(popart.DeviceManager, "tryAcquireAvailableDevice", lambda self, n: ("mine", n))
    assert popart.DeviceManager().tryAcquireAvailableDevice(4) == ("mine", 4)


def test_exceptions_have_the_documented_bases():
    with pytest.raises(popart.popart_internal_exception, match=r"boom \{\}"):
        popart._throw_popart_internal_error("boom {}")
    assert issubclass(popart.popart_runtime_error, popart.popart_exception)
    with pytest.raises(popart.poplar_system_runtime_error) as caught:
        popart._throw_recoverable_runtime_error("x")
    assert caught.value.recoveryAction == popart.RecoveryAction.IPU_RESET


def test_reserved_prefixes():
    assert popart.reservedGradientPrefix() == "Gradient___"
    assert popart.reservedDefaultScaledLearningRate0Prefix() == "scaledLearningRate0___default___"


def test_input_settings_keyword_is_misspelt_as_upstream():
    settings = popart.InputSettings(relicatedStreamMode=popart.ReplicatedStreamMode.Broadcast)
    assert settings.replicatedStreamMode() == popart.ReplicatedStreamMode.Broadcast
