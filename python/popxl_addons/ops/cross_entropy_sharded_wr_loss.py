"""Cross entropy of logits whose classes are divided among the IPUs of one replica."""

from collections.abc import Sequence

import popxl
from popart_core import popart_exception
from popxl import ops
from popxl.errors import UndefinedValue
from popxl.ops.utils import emit


def cross_entropy_sharded_wr_loss(
    logits: Sequence[popxl.Tensor], indices: Sequence[popxl.Tensor], ipus: Sequence[int] | None = None
) -> popxl.Tensor:
    """Return the cross entropy of each sample, with the class axis sharded over IPUs.

    Args:
        logits: part i of the classes, of shape (n, c_i), on IPU i of `ipus`; the c_i may differ.
        indices: labels over all classes of shape (n,), one copy on each IPU.
        ipus: IPUs of the parts, default those of their tensors.

    Returns:
        The loss of shape (n,), on the first IPU; every part of the logits has a gradient.

    Raises:
        ValueError: lengths differ, an IPU is not known, or labels are not on the IPU of their logits.
        popart_exception: types or shapes do not fit.
    """
    if ipus is None:
        ipus = [_ipu_of(t) for t in logits]
        of_labels = [_ipu_of(t) for t in indices]
        if len(indices) == len(logits) and of_labels != ipus:
            raise ValueError(f"cross_entropy_sharded_wr_loss: logits are on IPUs {ipus}, indices on {of_labels}.")
    if not len(logits) == len(indices) == len(ipus) > 0:
        raise ValueError(
            "cross_entropy_sharded_wr_loss: got "
            f"{len(logits)} logits, {len(indices)} indices and {len(ipus)} IPUs, expected the same number, 1 or more."
        )
    for t in indices:
        if t.spec != indices[0].spec or t.rank != 1:
            raise popart_exception(f"cross_entropy_sharded_wr_loss: indices differ: got {t}, expected {indices[0]}.")
    with popxl.ipu(ipus[0]):
        parts = [logits[0], *(ops.ipu_copy(t, ipus[0], ipu) for t, ipu in zip(logits[1:], ipus[1:]))]
        inputs = {"indices": indices[0], **{f"logits[{i}]": t for i, t in enumerate(parts)}}
        names = [f"{parts[0].name}_loss", f"{parts[0].name}_negative_log_softmax"]
        return emit("CrossEntropyShardedWR", inputs, names)[0]


def _ipu_of(t: popxl.Tensor) -> int:
    try:
        return t.ipu
    except UndefinedValue as e:
        raise ValueError(f"cross_entropy_sharded_wr_loss: the IPU of {t} is unknown. Pass `ipus`.") from e
