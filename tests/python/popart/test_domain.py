"""Values outside their domain end the run they are in, with an error that names op, value and range; the session stays.

One operator at a time, on each backend: tests/cases/ops/domain.py.
"""

import threading

import numpy as np
import popart
import pytest

TABLE = np.arange(15, dtype=np.float32).reshape(5, 3)
FEATURES, CLASSES, BATCH = 6, 4, 3


def prepared(builder, outputs, batches=1):
    """An inference session of the builder's model."""
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(batches, {o: popart.AnchorReturnType("All") for o in outputs}),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    return session, session.initAnchorArrays()


def lookup():
    """A session of y = table[i]."""
    builder = popart.Builder()
    i = builder.addInputTensor("INT32", [4], "i")
    y = builder.aiOnnx.gather([builder.addInitializedInputTensor(TABLE, "table"), i], debugContext="lookup")
    builder.addOutputTensor(y)
    session, anchors = prepared(builder, [y])

    def run(*indices):
        session.run(popart.PyStepIO({i: np.array(indices, np.int32)}, anchors))
        return anchors[y].copy()

    return run


def test_message_names_op_value_position_and_range():
    with pytest.raises(popart.popart_runtime_error) as caught:
        lookup()(0, 1, -6, 9)
    assert str(caught.value).startswith("Gather 'lookup")
    assert "got -6 at element 2 of input 1, expected -5 to 4" in str(caught.value)


def test_session_runs_on_after_a_bad_run():
    run = lookup()
    for _ in range(2):
        np.testing.assert_array_equal(run(4, -5, 0, -1), TABLE[[4, -5, 0, -1]])
        with pytest.raises(popart.popart_runtime_error, match="got 5 at element 3"):
            run(0, 1, 2, 5)


class Classifier:
    """A linear classifier with momentum in a training session of `batches` batches per step."""

    def __init__(self, batches=1, **loss):
        builder = popart.Builder()
        self.x = builder.addInputTensor("FLOAT", [BATCH, FEATURES], "x")
        self.labels = builder.addInputTensor("INT32", [BATCH], "labels")
        weights = np.linspace(-1, 1, FEATURES * CLASSES, dtype=np.float32).reshape(FEATURES, CLASSES)
        w = builder.addInitializedInputTensor(weights, "w")
        probs = builder.aiOnnx.softmax([builder.aiOnnx.matmul([self.x, w])])
        self.loss = builder.aiGraphcore.nllloss([probs, self.labels], debugContext="loss", **loss)
        self.session = popart.TrainingSession(
            builder.getModelProto(),
            popart.DataFlow(batches, [self.loss]),
            self.loss,
            popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, False)}),
            deviceInfo=popart.DeviceManager().createCpuDevice(),
        )
        self.session.prepareDevice()
        self.session.weightsFromHost()
        self.anchors = self.session.initAnchorArrays()

    def train(self, labels, seed=0):
        """One step on random data with these labels, [batches, BATCH]."""
        labels = np.array(labels, np.int32)
        data = np.random.default_rng(seed).normal(size=(*labels.shape, FEATURES)).astype(np.float32)
        self.session.run(popart.PyStepIO({self.x: data, self.labels: labels}, self.anchors))

    def weights(self):
        self.session.weightsToHost()
        w = np.empty((FEATURES, CLASSES), np.float32)
        self.session.readWeights(popart.PyWeightsIO({"w": w}))
        return w


@pytest.mark.parametrize("bad", [-1, CLASSES])
def test_a_bad_label_leaves_weights_and_momentum_as_they_were(bad):
    disturbed, undisturbed = Classifier(), Classifier()
    for seed in range(3):
        for model in (disturbed, undisturbed):
            model.train([0, CLASSES - 1, 1], seed)
        with pytest.raises(popart.popart_runtime_error, match=rf"a label is out of range: got {bad} at element 1"):
            disturbed.train([0, bad, 1], seed + 10)
    np.testing.assert_array_equal(disturbed.weights(), undisturbed.weights())


def test_batches_before_the_bad_one_have_updated_the_weights():
    disturbed, undisturbed = Classifier(3), Classifier(1)
    with pytest.raises(popart.popart_runtime_error, match="a label is out of range: got 7"):
        disturbed.train([[0, 1, 2], [3, 7, 3], [0, 0, 0]])
    data = np.random.default_rng(0).normal(size=(3, BATCH, FEATURES)).astype(np.float32)[0]
    undisturbed.session.run(
        popart.PyStepIO({undisturbed.x: data, undisturbed.labels: np.array([0, 1, 2], np.int32)}, undisturbed.anchors)
    )
    np.testing.assert_array_equal(disturbed.weights(), undisturbed.weights())


def test_arrays_of_a_failed_run_are_read_from_their_start_again():
    builder = popart.Builder()
    i = builder.addInputTensor("INT32", [2], "i")
    y = builder.aiOnnx.gather([builder.addInitializedInputTensor(TABLE, "table"), i])
    builder.addOutputTensor(y)
    session, anchors = prepared(builder, [y], 3)
    indices = np.array([[0, 1], [2, 9], [3, 4]], np.int32)
    io = popart.PyStepIO({i: indices}, anchors)
    for _ in range(2):
        indices[1, 1] = 9
        with pytest.raises(popart.popart_runtime_error, match="got 9 at element 1"):
            session.run(io)
        indices[1, 1] = 3
        session.run(io)
        np.testing.assert_array_equal(anchors[y], TABLE[indices])


def test_the_ignored_label_may_be_any_number():
    model = Classifier(ignoreIndex=-1)
    model.train([0, -1, 1])
    assert np.isfinite(model.weights()).all()
    with pytest.raises(popart.popart_runtime_error, match="got -2 at element 1 of input 1, expected 0 to 3"):
        model.train([0, -2, 1])


def test_a_fused_chain_names_the_division():
    builder = popart.Builder()
    a, b = (builder.addInputTensor("INT32", [2, 3], name) for name in "ab")
    quotient = builder.aiOnnx.div([builder.aiOnnx.add([a, a]), builder.aiOnnx.sub([b, a])], debugContext="share")
    y = builder.aiOnnx.add([builder.aiOnnx.mul([quotient, a]), b])
    builder.addOutputTensor(y)
    session, anchors = prepared(builder, [y])
    left = np.array([[1, -2, 3], [4, 5, -6]], np.int32)
    right = np.array([[3, 1, 2], [5, 1, 6]], np.int32)
    session.run(popart.PyStepIO({a: left, b: right}, anchors))
    expected = np.trunc(2 * left / (right - left)).astype(np.int32) * left + right
    np.testing.assert_array_equal(anchors[y], expected)
    with pytest.raises(popart.popart_runtime_error, match=r"^Div in .*divided by zero.*element 4 of the result"):
        session.run(popart.PyStepIO({a: left, b: np.where(left == 5, 5, right).astype(np.int32)}, anchors))
    session.run(popart.PyStepIO({a: left, b: right}, anchors))
    np.testing.assert_array_equal(anchors[y], expected)


def test_sessions_on_two_threads_fail_for_themselves():
    good, bad = lookup(), lookup()
    failures, wrong = [], []

    def run_good():
        for _ in range(200):
            if not np.array_equal(good(1, 2, 3, 4), TABLE[1:]):
                wrong.append("values")

    def run_bad():
        for _ in range(200):
            try:
                bad(1, 2, 3, 5)
                wrong.append("no error")
            except popart.popart_runtime_error as problem:
                failures.append(str(problem))

    threads = [threading.Thread(target=f) for f in (run_good, run_bad)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert len(failures) == 200 and len(set(failures)) == 1
