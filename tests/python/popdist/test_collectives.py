"""Collectives of hosts: of one process, and of several members, which are threads here. The oracle is NumPy."""

import functools
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import popart_testing
import popdist
import pytest

F32 = np.float32


@pytest.fixture
def on_members():
    """Calls a function with its number on each of several members, and returns what each returns or raises."""

    def run(size, function):
        job = popart_testing.JobOfThreads(size)

        def one(rank):
            job.enter(rank)
            try:
                return function(rank)
            except (ValueError, TypeError) as error:
                return error
            finally:
                job.leave()

        with ThreadPoolExecutor(size) as pool:
            return list(pool.map(one, range(size)))

    return run


# ---- one process


@pytest.mark.parametrize("value", [np.arange(6, dtype=F32).reshape(2, 3), np.array(3, np.int64), [1.5, 2.5]])
def test_one_process_gets_what_it_gave(value):
    expected = np.asarray(value)
    for op in ("sum", "mean", "min", "max"):
        result = popdist.allReduce(value, op)
        np.testing.assert_array_equal(result, expected)
        assert result is not value
    np.testing.assert_array_equal(popdist.allGather(value), expected[None])
    np.testing.assert_array_equal(popdist.broadcast(value), expected)


def test_results_are_arrays_of_their_own():
    value = np.ones(3, F32)
    for result in (popdist.allReduce(value), popdist.allGather(value)[0], popdist.broadcast(value)):
        result += 1
    np.testing.assert_array_equal(value, 1)


def test_a_function_runs_on_the_only_instance():
    def scaled(value, *, by):
        popdist.synchronize()
        return popdist.allReduce(value * by)

    np.testing.assert_array_equal(popdist.execute_on_instances({0}, scaled, np.ones(2), by=3), [3, 3])
    with pytest.raises(ZeroDivisionError):
        popdist.execute_on_instances({0}, lambda: 1 / 0)
    with pytest.raises(ValueError, match=r"instances: got \[1\], expected some of \[0\]"):
        popdist.execute_on_instances({1}, scaled, 1)
    with pytest.raises(ValueError, match=r"got \[\]"):
        popdist.execute_on_instances(set(), scaled, 1)


def test_the_only_instance_can_be_registered():
    popdist.registerCommunicator({0}, 7)
    popdist.registerCommunicator({0})
    assert popdist.defaultCommunicatorId() == 0
    for communicator in (None, 0, 7):
        np.testing.assert_array_equal(popdist.allGather(np.ones(2), communicator=communicator), np.ones((1, 2)))


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: popdist.allReduce([1], "product"), ValueError, "op: got 'product', expected one of 'sum', 'mean'"),
        (lambda: popdist.allReduce([True]), TypeError, "got booleans for 'sum'"),
        (lambda: popdist.allReduce([1j], "max"), TypeError, r"got complex128 \[1\] for 'max'"),
        (lambda: popdist.allReduce(["text"]), TypeError, r"got <U4 \[1\] for 'sum', expected numbers"),
        (lambda: popdist.allGather([object()]), TypeError, "got an array of object"),
        (lambda: popdist.broadcast([1], root=1), ValueError, "root: got 1, expected a member of 0 to 0"),
        (lambda: popdist.allGather([1], communicator=3), ValueError, "communicator: got 3, expected one that is regis"),
    ],
)
def test_bad_calls_are_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


# ---- several members


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("dtype", [F32, np.float16, np.int32, np.uint8])
def test_members_join_their_arrays(on_members, dtype, size):
    parts = [np.arange(4).astype(dtype).reshape(2, 2) + dtype(rank) for rank in range(size)]
    total = functools.reduce(np.add, parts)
    for op, expected in {
        "sum": total,
        "mean": total / size,
        "min": np.minimum.reduce(parts),
        "max": np.maximum.reduce(parts),
    }.items():
        for result in on_members(size, lambda rank, op=op: popdist.allReduce(parts[rank], op)):
            np.testing.assert_array_equal(result, expected, strict=True)
    for result in on_members(size, lambda rank: popdist.allGather(parts[rank])):
        np.testing.assert_array_equal(result, np.stack(parts), strict=True)
    for result in on_members(size, lambda rank: popdist.broadcast(parts[rank], root=size - 1)):
        np.testing.assert_array_equal(result, parts[-1], strict=True)


def test_sums_have_the_bits_of_the_tree(on_members):
    """Five members: ((0 + 1) + (2 + 3)) + 4."""
    parts = np.random.default_rng(1).normal(size=(5, 1000)).astype(F32)
    expected = ((parts[0] + parts[1]) + (parts[2] + parts[3])) + parts[4]
    assert expected.tobytes() != functools.reduce(np.add, parts).tobytes()
    for result in on_members(5, lambda rank: popdist.allReduce(parts[rank])):
        assert result.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_sums_of_16_bits_are_rounded_once(on_members, dtype):
    parts = np.random.default_rng(2).normal(size=(4, 500)).astype(dtype)
    wide = parts.astype(F32)
    expected = ((wide[0] + wide[1]) + (wide[2] + wide[3])).astype(dtype)
    for result in on_members(4, lambda rank: popdist.allReduce(parts[rank])):
        assert result.dtype == dtype and result.tobytes() == expected.tobytes()


def test_arrays_that_differ_are_refused_on_all_members(on_members):
    for odd in (np.ones(3, F32), np.ones(2, np.float64)):
        errors = on_members(3, lambda rank, odd=odd: popdist.allReduce(odd if rank == 1 else np.ones(2, F32)))
        assert len({str(error) for error in errors}) == 1
        assert f"Instance 1 calls allReduce 'sum' of {odd.dtype} {list(odd.shape)}" in str(errors[0])
        assert "instance 0 calls allReduce 'sum' of float32 [2]" in str(errors[0])


def test_calls_that_differ_are_refused_on_all_members(on_members):
    calls = [popdist.allGather, functools.partial(popdist.broadcast, root=1)]
    for error in on_members(2, lambda rank: calls[rank](np.ones(2, F32))):
        assert "Instance 1 calls broadcast from 1 of float32 [2], but instance 0 calls allGather" in str(error)
    calls = [popdist.synchronize, lambda: popdist.allGather(np.ones(2, F32))]
    for error in on_members(2, lambda rank: calls[rank]()):
        assert "Instance 1 calls allGather of float32 [2], but instance 0 calls synchronize." in str(error)


def test_a_function_on_some_members_meets_those_alone(on_members):
    def inner(rank):
        whole = popdist.allGather(np.array(rank))
        first = popdist.execute_on_instances({1}, popdist.allGather, np.array(rank))
        return whole.tolist(), None if first is None else first.tolist(), popdist.broadcast(np.array(rank), 1).item()

    results = on_members(4, lambda rank: popdist.execute_on_instances({1, 3}, inner, rank))
    assert results == [None, ([1, 3], [1], 3), None, ([1, 3], None, 3)]


def test_registered_members(on_members):
    def program(rank):
        popdist.registerCommunicator({0, 2}, 5)
        others = popdist.allGather(np.array(rank)).tolist()
        try:
            return others, popdist.allGather(np.array(rank), communicator=5).tolist()
        except ValueError as error:
            return others, str(error)

    member, other = ([0, 1, 2], [0, 2]), ([0, 1, 2], "communicator: got 5, which this instance is not a member of.")
    assert on_members(3, program) == [member, other, member]


def test_a_registered_communicator_must_be_inside(on_members):
    def program(rank):
        popdist.registerCommunicator({0, 1}, 5)
        return popdist.execute_on_instances({0}, popdist.allGather, np.array(rank), communicator=5)

    refused, other = on_members(2, program)
    assert "got 5 of instances [0, 1], expected some of the instances [0]" in str(refused) and other is None
