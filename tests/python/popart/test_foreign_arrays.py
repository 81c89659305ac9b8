"""Arrays of other libraries go in and out without a copy: PyTorch, the buffer protocol, DLPack; identity of memory."""

import array
import ctypes
import mmap

import numpy as np
import popart
import popxl
import pytest
import torch
from popxl import ops

WEIGHT = np.arange(12, dtype=np.float32).reshape(3, 4)


def trained(rate=0.5):
    """A session of y = x w with x[2, 3], w[3, 4] and the sum of y as loss: an update takes rate * sum(x) off w."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3], "x")
    w = builder.addInitializedInputTensor(WEIGHT, "w")
    y = builder.aiOnnx.matmul([x, w])
    loss = builder.aiGraphcore.identityloss([y], popart.ReductionType.Sum)
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, {y: popart.AnchorReturnType("All")}),
        loss,
        popart.ConstSGD(rate),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session, y


class OnlyDlpack:
    """An array that gives its memory through DLPack alone."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class OnlyArray:
    """An array that NumPy can read, and no more."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)


def from_array_module(values):
    return memoryview(array.array("f", values.ravel())).cast("B").cast("f", values.shape)


def from_ctypes(values):
    made = (ctypes.c_float * values.shape[1] * values.shape[0])()
    np.asarray(made)[:] = values
    return made


def from_mapping(values):
    mapped = mmap.mmap(-1, values.nbytes)
    mapped[:] = values.tobytes()
    return memoryview(mapped).cast("f", values.shape)


SHARED = {
    "numpy": lambda v: v.copy(),
    "torch": lambda v: torch.from_numpy(v.copy()),
    "parameter": lambda v: torch.nn.Parameter(torch.from_numpy(v.copy())),
    "dlpack of numpy": lambda v: OnlyDlpack(v.copy()),
    "dlpack of torch": lambda v: OnlyDlpack(torch.from_numpy(v.copy())),
    "array": from_array_module,
    "ctypes": from_ctypes,
    "mmap": from_mapping,
}


def values_of(made):
    """A NumPy view of the same memory."""
    if isinstance(made, OnlyDlpack):
        made = made.values
    return made.detach().numpy() if isinstance(made, torch.Tensor) else np.asarray(made)


@pytest.mark.parametrize("kind", SHARED)
def test_step_io_reads_and_writes_the_memory_itself(kind):
    session, y = trained(rate=1e-6)
    given, taken = SHARED[kind](np.ones((2, 3), np.float32)), SHARED[kind](np.zeros((2, 4), np.float32))
    stepio = popart.PyStepIO({"x": given}, {y: taken})
    session.run(stepio)
    np.testing.assert_allclose(values_of(taken), np.ones((2, 3)) @ WEIGHT, rtol=1e-5)
    values_of(given)[:] = 2  # the step IO has no copy: the next run reads this
    session.run(stepio)
    np.testing.assert_allclose(values_of(taken), 2 * np.ones((2, 3)) @ WEIGHT, rtol=1e-5)


@pytest.mark.parametrize("kind", SHARED)
def test_callbacks_give_and_take_memory(kind):
    session, _ = trained()
    given, taken = SHARED[kind](np.ones((2, 3), np.float32)), SHARED[kind](np.zeros((2, 4), np.float32))
    session.run(popart.PyStepIOCallback(lambda *_: given, lambda _: None, lambda _: taken, lambda _: None))
    np.testing.assert_allclose(values_of(taken), np.ones((2, 3)) @ WEIGHT)


@pytest.mark.parametrize("kind", SHARED)
def test_weights_are_read_into_and_written_from_the_memory(kind):
    session, y = trained()
    made = SHARED[kind](np.zeros((3, 4), np.float32))
    weights = popart.PyWeightsIO({"w": made})
    session.weightsToHost()
    session.readWeights(weights)
    np.testing.assert_array_equal(values_of(made), WEIGHT)
    values_of(made)[:] = 3
    session.writeWeights(weights)
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.ones((2, 3), np.float32)}, anchors))
    np.testing.assert_array_equal(anchors[y], np.full((2, 4), 9))


@pytest.mark.parametrize("kind", [*SHARED, "array method"])
def test_initializers_take_any_array(kind):
    builder = popart.Builder()
    made = OnlyArray(WEIGHT) if kind == "array method" else SHARED[kind](WEIGHT)
    w = builder.addInitializedInputTensor(made, "w")
    assert builder.getTensorShape(w) == [3, 4]
    y = builder.aiOnnx.identity([w])
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(1, [y]), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({}, anchors))
    np.testing.assert_array_equal(anchors[y], WEIGHT)


def test_what_may_be_a_copy_is_read_and_not_written():
    session, y = trained()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": OnlyArray(np.ones((2, 3), np.float32))}, anchors))
    np.testing.assert_allclose(anchors[y], np.ones((2, 3)) @ WEIGHT)
    with pytest.raises(popart.popart_exception, match="read-only"):
        popart.PyStepIO({}, {y: OnlyArray(anchors[y])})


@pytest.mark.parametrize("given", [torch.ones(3, 2).t(), OnlyDlpack(np.ones((2, 6), np.float32)[:, ::2])])
def test_other_layouts_are_refused_not_copied(given):
    with pytest.raises(popart.popart_exception, match="'x': the array is not C-contiguous"):
        popart.PyStepIO({"x": given}, {})


def test_layouts_of_size_one_are_contiguous():
    session, y = trained()
    given = torch.ones(2, 1, 3)[:, 0].contiguous().unsqueeze(0).permute(0, 1, 2).as_strided((1, 2, 3), (77, 3, 1))
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": given}, anchors))
    np.testing.assert_allclose(anchors[y], np.ones((2, 3)) @ WEIGHT)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "int32", "int64", "uint8", "bool"])
def test_torch_types(dtype):
    name = {"bool": "BOOL"}.get(dtype, dtype.upper())
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo(name, [4]), "x")
    y = builder.aiOnnx.identity([x])
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(1, [y]), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    given = torch.tensor([0, 1, 2, 3]).to(getattr(torch, dtype))
    taken = torch.empty_like(given)
    session.run(popart.PyStepIO({x: given}, {y: taken}))
    assert torch.equal(given, taken)


def test_memory_of_another_device_is_refused():
    with pytest.raises(popart.popart_exception, match="CPU's memory"):
        popart.PyStepIO({"x": torch.empty(2, 3, device="meta")}, {})


@pytest.mark.parametrize("kind", [*SHARED, "array method"])
def test_popxl_takes_any_array(kind):
    ir = popxl.Ir()
    x = np.ones((2, 3), np.float32)
    make = OnlyArray if kind == "array method" else SHARED[kind]
    with ir.main_graph:
        read = popxl.h2d_stream((2, 3), popxl.float32, name="x")
        written = popxl.d2h_stream((2, 4), popxl.float32, name="y")
        w = popxl.variable(make(WEIGHT), name="w")
        ops.host_store(written, ops.host_load(read) @ w)
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_allclose(session.run({read: make(x)})[written], x @ WEIGHT)
        session.write_variable_data(w, make(2 * WEIGHT))
        np.testing.assert_allclose(session.run({read: make(x)})[written], 2 * x @ WEIGHT)


@pytest.mark.parametrize("kind", ["numpy", "torch", "parameter", "mmap"])
def test_popxl_session_gives_the_engine_the_memory_itself(kind):
    ir = popxl.Ir()
    with ir.main_graph:
        read = popxl.h2d_stream((2, 3), popxl.float32, name="x")
        written = popxl.d2h_stream((2, 3), popxl.float32, name="y")
        ops.host_store(written, ops.host_load(read) + 1)
    given = SHARED[kind](np.ones((2, 3), np.float32))
    with popxl.Session(ir, "cpu") as session:
        layout = session._input_layout[0]
        assert np.shares_memory(session._input_array(*layout, given, True), values_of(given))
        result = np.zeros((2, 3), np.float32)
        session.run_with_outputs({read: given}, {written: result})
    np.testing.assert_array_equal(result, np.full((2, 3), 2))


def test_results_become_tensors_of_torch_without_a_copy():
    session, y = trained()
    anchors = session.initAnchorArrays()
    tensor = torch.from_dlpack(anchors[y])
    session.run(popart.PyStepIO({"x": np.ones((2, 3), np.float32)}, anchors))
    np.testing.assert_array_equal(tensor.numpy(), anchors[y])
    assert tensor.data_ptr() == anchors[y].ctypes.data
