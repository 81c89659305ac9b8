"""The order of weight fragments: loads run before the rest of the main graph, stores after it.

On an IPU these ops are separate programs. Here they are the start and the end of each run. The result is the same,
because remote memory keeps what was stored.
"""

import itertools
from typing import Any

from popart_core import _ir as _core

from popxl.context import _EXECUTION_CONTEXTS

FROM_HOST = _EXECUTION_CONTEXTS.index("WeightsFromHostFragment")
TO_HOST = _EXECUTION_CONTEXTS.index("WeightsToHostFragment")


def order_fragments(main_graph: Any) -> None:
    """Add the constraints that make ops of weight fragments run first and last.

    Args:
        main_graph: the main graph of the core.
    """
    contexts = {op.id: op.executionContext() for op in main_graph.getOps()}
    first = [i for i, context in contexts.items() if context == FROM_HOST]
    last = [i for i, context in contexts.items() if context == TO_HOST]
    others = [i for i, context in contexts.items() if context not in (FROM_HOST, TO_HOST)]
    # Each kind becomes a chain, and one end of it is ordered against all other ops: one constraint for each op.
    pairs = [*itertools.pairwise(first), *itertools.pairwise(last)]
    pairs += [(i, last[0]) for i in others if last] + [(first[-1], i) for i in others if first]
    if first and last:
        pairs.append((first[-1], last[0]))
    present = set(_core.constraints(main_graph)) if pairs else set()
    for before, after in pairs:
        if (before, after) not in present:
            main_graph.addConstraint(before, after)
