"""Cases of connectionist temporal classification and its beam search, and of Bucketize."""

import itertools
from collections import defaultdict

import numpy as np
import torch

from tests.cases.case import Case, floats, ints, seeded
from tests.cases.torch_oracle import with_torch

STEPS, BATCH, CLASSES, TARGETS = 6, 3, 4, 2
LOG_PROBS = np.log(seeded("ctc").dirichlet(np.ones(CLASSES), (STEPS, BATCH))).astype(np.float32)
LABELS = np.array([[1, 2], [2, 2], [3, 1]], np.uint32)
INPUT_LENGTHS = np.array([6, 5, 4], np.uint32)
TARGET_LENGTHS = np.array([2, 2, 1], np.uint32)
IMPOSSIBLE = np.array([6, 2, 4], np.uint32)  # two equal labels need a blank between them


def torch_loss(reduction="mean", blank=0, zero_infinity=False):
    """PyTorch's loss of these operands."""

    def run(log_probs, targets, input_lengths, target_lengths):
        return torch.nn.functional.ctc_loss(
            log_probs, targets.long(), input_lengths.long(), target_lengths.long(), blank, reduction, zero_infinity
        )

    return with_torch(run)


def ctc(reduction, torch_reduction, lengths=INPUT_LENGTHS, gradients=(0,), **attributes):
    """One case: options by the names of both."""
    oracle = torch_loss(torch_reduction, attributes.get("blank", 0), bool(attributes.get("zeroInfinity", 0)))
    labels = LABELS if attributes.get("blank", 0) == 0 else LABELS - np.uint32(1)
    # Sums over all alignments of small numbers, in the type of the operands.
    return Case(
        "Ctc",
        [LOG_PROBS, labels, lengths, TARGET_LENGTHS],
        {"reduction": reduction} | attributes,
        oracle,
        gradients=gradients,
        dtypes=["float32", "float64"],
        name=",".join([reduction, *map(str, lengths), *(f"{k}={v}" for k, v in attributes.items())]),
    )


def best_labels(log_probs, lengths, paths):
    """Probabilities of all label sequences by going through all alignments; the best ones in order."""
    result = []
    for n, steps in enumerate(lengths):
        total = defaultdict(float)
        for alignment in itertools.product(range(log_probs.shape[2]), repeat=int(steps)):
            labels = tuple(k for k, _ in itertools.groupby(alignment) if k != 0)
            total[labels] += np.exp(sum(log_probs[t, n, k] for t, k in enumerate(alignment)))
        result.append(sorted(total.items(), key=lambda item: -item[1])[:paths])
    return result


def searched(log_probs, lengths):
    """Two best paths in the layout of the operator."""
    found = best_labels(log_probs, lengths, 2)
    probs = np.array([[np.log(p) for _, p in sample] for sample in found])
    sizes = np.array([[len(labels) for labels, _ in sample] for sample in found], np.uint32)
    decoded = np.zeros((len(found), 2, log_probs.shape[0]), np.uint32)
    for n, sample in enumerate(found):
        for p, (labels, _) in enumerate(sample):
            decoded[n, p, : len(labels)] = labels
    return probs, sizes, decoded


def bucketize(right):
    return with_torch(lambda x, b: torch.bucketize(x, b, right=right, out_int32=True))


BOUNDARIES = np.array([-1.0, 0.5, 0.5, 1.75], np.float32)
EDGES = np.array([[-2.0, -1.0, 0.5], [0.6, 1.75, 9.0]], np.float32)
UNSORTED = np.array([2.0, -1.0, 0.0, -3.0, 1.0], np.float32)

CASES = [
    ctc("Mean", "mean"),
    ctc("Sum", "sum"),
    ctc("NoReduction", "none"),
    ctc("Sum", "sum", blank=3),
    ctc("NoReduction", "none", lengths=IMPOSSIBLE, gradients=()),
    ctc("Mean", "mean", lengths=IMPOSSIBLE, zeroInfinity=1),
    Case("Ctc", [LOG_PROBS, LABELS, INPUT_LENGTHS, TARGET_LENGTHS], {"blank": 4}, refuses="blank"),
    Case("Ctc", [LOG_PROBS, LABELS[:2], INPUT_LENGTHS, TARGET_LENGTHS], refuses="targets"),
    Case("Ctc", [LOG_PROBS, LABELS + np.uint32(3), INPUT_LENGTHS, TARGET_LENGTHS], fails="input 1", dtypes=["float32"]),
    Case(
        "CtcBeamSearchDecoder",
        [LOG_PROBS[:5], np.array([5, 4, 2], np.uint32)],
        {"beam_width": 500, "top_paths": 2},
        searched,
        dtypes=["float32", "float64"],
    ),
    Case("CtcBeamSearchDecoder", [LOG_PROBS, INPUT_LENGTHS], {"beam_width": 2, "top_paths": 3}, refuses="top_paths"),
    Case("Bucketize", [EDGES, BOUNDARIES], {}, bucketize(False), dtypes=["float32", "float64"]),
    Case("Bucketize", [EDGES, BOUNDARIES], {"right": 1}, bucketize(True), dtypes=["float32", "float64"]),
    Case("Bucketize", [floats(4, 5), UNSORTED], {}, bucketize(False), name="unsorted", dtypes=["float32"]),
    Case("Bucketize", [ints(3, 4), ints(1)], {}, bucketize(False)),
    Case("Bucketize", [EDGES, BOUNDARIES], {"right": 2}, refuses="right"),
    Case("Bucketize", [EDGES, EDGES], refuses="one dimension"),
]
