"""The pattern SplitGather: gathers of very many positions in pieces, forward and in training, against NumPy."""

import numpy as np
import popart
import pytest

from tests.python.popart.training_runs import ready, training_session

POSITIONS = 70_001  # more than the 65535 of one piece, and no multiple of a piece
RATE = 1e-5


def trained(table: np.ndarray, indices: np.ndarray, split: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows found, the table after one step of SGD on the sum of their squares, and how many gathers there are."""
    builder = popart.Builder()
    where = builder.addInputTensor("INT32", list(indices.shape), "where")
    weight = builder.addInitializedInputTensor(table, "table")
    rows = builder.aiOnnx.gather([weight, where])
    squares = builder.aiOnnx.mul([rows, rows])
    loss = builder.aiGraphcore.identityloss([squares], reduction=popart.ReductionType.Sum)
    patterns = popart.Patterns(popart.PatternsLevel.Default)
    patterns.enablePattern("SplitGather", split)
    optimizer = popart.ConstSGD(RATE)
    session = ready(training_session(builder.getModelProto(), loss, optimizer, anchors=[rows], patterns=patterns))
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({where: indices}, anchors))
    session.weightsToHost()
    weights = {weight: np.empty_like(table)}
    session.readWeights(popart.PyWeightsIO(weights))
    return anchors[rows], weights[weight], session._serializeIr(popart.IrSerializationFormat.JSON).count("Gather")


@pytest.mark.parametrize("shape", [(POSITIONS,), (7, POSITIONS // 7 + 1)])
def test_pieces_give_the_rows_and_the_update_of_numpy(shape):
    rng = np.random.default_rng(3)
    table = rng.standard_normal((50, 3)).astype(np.float32)
    indices = rng.integers(0, 50, shape).astype(np.int32)
    gradient = np.zeros(table.shape)
    np.add.at(gradient, indices, 2 * table[indices].astype(np.float64))
    gathers = {}
    for split in (False, True):
        rows, weights, gathers[split] = trained(table, indices, split)
        np.testing.assert_array_equal(rows, table[indices])
        # each row of the gradient adds up about 1400 equal terms in float32
        np.testing.assert_allclose(weights, table - RATE * gradient, rtol=1e-5, atol=1e-5)
    assert gathers[True] > gathers[False]
