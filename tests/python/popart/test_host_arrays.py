"""Programs read and write the arrays of a step where they lie; nobody can tell but by the time it takes."""

import mmap

import numpy as np
import popart
import pytest


def session_of(build, shapes, batches=1, returns=None):
    """A session of ``build(builder, inputs) -> outputs``; names of inputs and outputs."""
    builder = popart.Builder()
    inputs = [builder.addInputTensor(popart.TensorInfo("FLOAT", shape)) for shape in shapes]
    outputs = build(builder, inputs)
    for output in outputs:
        builder.addOutputTensor(output)
    flow = popart.DataFlow(batches, {output: returns or popart.AnchorReturnType("All") for output in outputs})
    session = popart.InferenceSession(builder.getModelProto(), flow, popart.DeviceManager().createCpuDevice())
    session.prepareDevice()
    return session, inputs, outputs


def chain(builder, inputs):
    """Operators that may work in place on what was loaded."""
    y = builder.aiOnnx.relu([inputs[0]])
    z = builder.aiOnnx.add([y, inputs[1]])
    return [z, builder.aiOnnx.neg([z])]


def random(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def aligned(count, offset=0):
    """``count`` numbers that begin `offset` bytes behind a multiple of 64."""
    memory = np.zeros(4 * count + 192, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    return memory[start : start + 4 * count].view(np.float32)


@pytest.mark.parametrize("shape", [(3,), (4, 4), (64, 33), (300, 1000)])
@pytest.mark.parametrize("offset", [0, 4, 16, 48])
def test_inputs_keep_their_values(shape, offset):
    session, names, outputs = session_of(chain, [shape, shape])
    given = []
    for i in range(2):
        array = aligned(int(np.prod(shape)), offset).reshape(shape)
        array[...] = random(*shape) + i
        given.append(array)
    before = [array.copy() for array in given]
    anchors = session.initAnchorArrays()
    for _ in range(2):
        session.run(popart.PyStepIO(dict(zip(names, given, strict=True)), anchors))
        expected = np.maximum(before[0], 0) + before[1]
        np.testing.assert_array_equal(anchors[outputs[0]], expected)
        np.testing.assert_array_equal(anchors[outputs[1]], -expected)
    for array, old in zip(given, before, strict=True):
        np.testing.assert_array_equal(array, old)


@pytest.mark.parametrize("first", [0, 16, 32, 64, 4096])
def test_results_may_lie_on_inputs(first):
    """A result that covers a part of an input that is still read: here all of it is read by the last operator."""

    def build(builder, inputs):
        doubled = builder.aiOnnx.add([inputs[0], inputs[0]])
        return [doubled, builder.aiOnnx.sub([doubled, builder.aiOnnx.transpose([inputs[0]], [1, 0])])]

    session, (name,), outputs = session_of(build, [(64, 64)])
    memory = aligned(3 * 4096)
    x = memory[4096 : 2 * 4096].reshape(64, 64)
    x[...] = random(64, 64)
    start = 4096 + first // 4 - (0 if first < 4096 else 2048)
    on_input = memory[start : start + 4096].reshape(64, 64)
    value = x.copy()
    anchors = session.initAnchorArrays()
    anchors[outputs[0]] = on_input
    session.run(popart.PyStepIO({name: x}, anchors))
    np.testing.assert_array_equal(on_input, value + value)
    np.testing.assert_array_equal(anchors[outputs[1]], value + value - value.T)


def test_one_array_is_input_and_result():
    """As a state that is carried from run to run by the host."""
    session, (name,), (output,) = session_of(lambda b, i: [b.aiOnnx.matmul([i[0], i[0]])], [(32, 32)])
    state = aligned(32 * 32).reshape(32, 32)
    state[...] = random(32, 32) / 6
    expected = state.copy()
    step = popart.PyStepIO({name: state}, {output: state})
    for _ in range(3):
        session.run(step)
        expected = (expected.astype(np.float64) @ expected).astype(np.float32)
        np.testing.assert_allclose(state, expected, rtol=1e-4, atol=1e-5)


def test_one_array_is_two_inputs():
    session, names, (output, _) = session_of(chain, [(64, 64), (64, 64)])
    x = aligned(4096).reshape(64, 64)
    x[...] = random(64, 64)
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({name: x for name in names}, anchors))
    np.testing.assert_array_equal(anchors[output], np.maximum(x, 0) + x)


@pytest.mark.parametrize("returned", ["All", "Final", "EveryN", "Sum"])
def test_batches_of_a_step(returned):
    returns = popart.AnchorReturnType(returned, 2) if returned == "EveryN" else popart.AnchorReturnType(returned)
    session, names, (output, _) = session_of(chain, [(32, 48), (32, 48)], 4, returns)
    a, b = random(4, 32, 48), random(48, 32, 4).reshape(4, 32, 48)
    anchors = session.initAnchorArrays()
    step = popart.PyStepIO(dict(zip(names, (a, b), strict=True)), anchors)
    every = np.maximum(a, 0) + b
    expected = {"All": every, "Final": every[-1], "EveryN": every[1::2], "Sum": every.sum(0)}[returned]
    for _ in range(2):
        session.run(step)
        np.testing.assert_allclose(anchors[output], expected, rtol=1e-6, atol=1e-6)


def test_other_arrays_in_the_next_run():
    session, names, outputs = session_of(chain, [(64, 64), (64, 64)])
    kept = []
    for run in range(4):
        given = [aligned(4096, 4 * (run % 3)).reshape(64, 64) for _ in names]
        for i, array in enumerate(given):
            array[...] = random(64, 64) * (run + 1) + i
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO(dict(zip(names, given, strict=True)), anchors))
        kept.append((anchors, np.maximum(given[0], 0) + given[1]))
    for anchors, expected in kept:  # later runs left the arrays of earlier ones alone
        np.testing.assert_array_equal(anchors[outputs[0]], expected)
        np.testing.assert_array_equal(anchors[outputs[1]], -expected)


def test_a_result_that_is_an_input():
    session, (name,), outputs = session_of(
        lambda b, i: [b.reshape_const(b.aiOnnx, [i[0]], [4, 16]), b.aiOnnx.identity([i[0]])], [(8, 8)]
    )
    x = random(8, 8)
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({name: x}, anchors))
    np.testing.assert_array_equal(anchors[outputs[0]], x.reshape(4, 16))
    np.testing.assert_array_equal(anchors[outputs[1]], x)


def test_callbacks_own_their_arrays():
    """What a callback gives is copied: it may use its memory for the next value."""
    session, _, (output, negative) = session_of(chain, [(16, 16), (16, 16)], 3)
    buffer, results, calls = np.zeros((16, 16), np.float32), [], []

    def give(name, is_prefetch):
        buffer[...] = len(calls)
        calls.append(name)
        return buffer

    def take(name):
        results.append((name, np.zeros((16, 16), np.float32)))
        return results[-1][1]

    session.run(popart.PyStepIOCallback(give, lambda _: None, take, lambda _: None))
    sums = [array[0, 0] for name, array in results if name == output]
    assert sums == [4 * batch + 1 for batch in range(3)]
    assert [array[0, 0] for name, array in results if name == negative] == [-value for value in sums]


@pytest.mark.parametrize("count", [4, 20, 1004])
def test_nothing_after_an_array_is_touched(count):
    """Arrays end where the memory of the process ends: a kernel that touched more would end it."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    pages = []

    def at_the_end():
        size = -(-4 * count // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = mmap.mmap(-1, size + mmap.PAGESIZE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        assert libc.mprotect(ctypes.c_void_p(base + size), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
        pages.append((memory, base + size))
        return np.frombuffer(memory, np.float32, count, size - 4 * count)

    def build(builder, inputs):
        rows = builder.reshape_const(builder.aiOnnx, [inputs[0]], [4, count // 4])
        columns = builder.reshape_const(builder.aiOnnx, [inputs[1]], [count // 4, 4])
        product = builder.aiOnnx.matmul([rows, columns])
        return [builder.aiOnnx.add(inputs), product, builder.aiOnnx.softmax([rows])]

    session, names, outputs = session_of(build, [(count,), (count,)])
    given = [at_the_end() for _ in names]
    for i, array in enumerate(given):
        array[...] = random(count) + i
    anchors = session.initAnchorArrays()
    anchors[outputs[0]] = at_the_end()
    session.run(popart.PyStepIO(dict(zip(names, given, strict=True)), anchors))
    np.testing.assert_array_equal(anchors[outputs[0]], given[0] + given[1])
    np.testing.assert_allclose(
        anchors[outputs[1]], given[0].reshape(4, -1) @ given[1].reshape(-1, 4), rtol=1e-4, atol=1e-4
    )
    del given, anchors
    for _, end in pages:  # mmap cannot be closed while it is exported; make the guard page usable again
        assert libc.mprotect(ctypes.c_void_p(end), ctypes.c_size_t(mmap.PAGESIZE), 3) == 0
