"""popdist.popart: session options and devices, and what sessions make of them."""

import popart
import popdist
import popdist.popart as popdist_popart
import pytest


@pytest.mark.parametrize("total, local, offset", [(1, 1, 0), (4, 4, 0), (8, 2, 6), (4, 1, 3)])
def test_options_follow_the_job(poprun_sets, total, local, offset):
    poprun_sets(NUM_TOTAL_REPLICAS=total, NUM_LOCAL_REPLICAS=local, REPLICA_INDEX_OFFSET=offset)
    options = popart.SessionOptions()
    assert popdist_popart.configureSessionOptions(options) is options
    assert (options.enableReplicatedGraphs, options.replicatedGraphCount) == (local > 1, local)
    assert options.enableDistributedReplicatedGraphs == (total > local)
    assert (options.globalReplicationFactor, options.globalReplicaOffset) == (total, offset)


def test_options_of_a_plain_process_stay_as_they_are():
    options, plain = popdist_popart.configureSessionOptions(popart.SessionOptions()), popart.SessionOptions()
    for name in ("enableReplicatedGraphs", "replicatedGraphCount", "globalReplicationFactor", "globalReplicaOffset"):
        assert getattr(options, name) == getattr(plain, name), name


@pytest.mark.parametrize("local, variable, argument, ipus", [(1, 1, 0, 1), (2, 1, 0, 2), (2, 2, 0, 4), (2, 1, 4, 8)])
def test_the_device_has_the_ipus_of_the_local_replicas(poprun_sets, local, variable, argument, ipus):
    poprun_sets(NUM_TOTAL_REPLICAS=local, NUM_LOCAL_REPLICAS=local, NUM_IPUS_PER_REPLICA=variable)
    with popdist_popart.getDevice(argument) as device:
        assert device.numIpus == ipus and device.isAttached
        assert device.connectionType == popart.DeviceConnectionType.Always


def test_devices_are_attached_as_asked_for():
    with popdist_popart.getDevice(2, popart.DeviceConnectionType.OnDemand) as device:
        assert device.connectionType == popart.DeviceConnectionType.OnDemand and not device.isAttached


def test_devices_that_are_in_use_are_not_given():
    with popdist_popart.getDevice() as first, popdist_popart.getDevice() as second:
        assert first.id != second.id
        with popart.DeviceManager().acquireDeviceById(popdist.getDeviceId()) as third:
            assert third.id not in (first.id, second.id)


def test_devices_that_are_not_there_are_refused(poprun_sets):
    poprun_sets(NUM_TOTAL_REPLICAS=64, NUM_LOCAL_REPLICAS=64)
    with pytest.raises(
        RuntimeError, match=r"no device with 64 IPUs, for 64 local replicas\. Set POPART_VIRTUAL_IPUS=64"
    ):
        popdist.getDeviceId()
    with pytest.raises(popart.popart_exception, match="power of two: got 192"):
        popdist.getDeviceId(3)
    with pytest.raises(ValueError, match="ipusPerReplica: got -1"):
        popdist.getDeviceId(-1)


def session(options, device):
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]))
    y = builder.aiOnnx.relu([x])
    flow = popart.DataFlow(1, {y: popart.AnchorReturnType("ALL")})
    return popart.InferenceSession(builder.getModelProto(), flow, device, userOptions=options)


def test_sessions_of_one_instance_run_its_replicas(poprun_sets):
    poprun_sets(NUM_TOTAL_REPLICAS=2, NUM_LOCAL_REPLICAS=2)
    popdist.init()
    options = popdist_popart.configureSessionOptions(popart.SessionOptions())
    with popdist_popart.getDevice() as device:
        made = session(options, device)
        made.prepareDevice()
        assert {array.shape for array in made.initAnchorArrays().values()} == {(2, 2)}
