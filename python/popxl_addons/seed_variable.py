"""seed_variable: a seed that the host sets once and that a program keeps from run to run."""

import numpy as np
import popxl
from popxl import ops
from popxl.context import _execution_context
from popxl.tensor import Variable

__all__ = ["seed_variable"]


def seed_variable(seed: int, replica_grouping: popxl.ReplicaGrouping | None = None) -> tuple[Variable, popxl.Tensor]:
    """Make a variable with random seeds.

    The variable ``random_seed`` is in remote memory. The main graph loads it before all other ops and stores it after
    them, so that in-place changes of the loaded tensor are kept for the next run.

    Args:
        seed: seed of the generator that draws the seeds (`popxl.create_seeds`).
        replica_grouping: replicas that share a seed; default: each replica has its own.

    Returns:
        The variable, for `Session.get_tensor_data` and `Session.write_variable_data`, and the loaded tensor: uint32, of
        shape (2,).

    Raises:
        RuntimeError: there is no current graph.
    """
    ir = popxl.gir()
    grouping = ir.replica_grouping(group_size=1) if replica_grouping is None else replica_grouping
    values = popxl.create_seeds(seed, replicas=grouping.num_groups)
    with ir.main_graph:
        buffer = popxl.remote_buffer((2,), popxl.uint32, 1)
        variable = popxl.remote_variable(
            np.asarray(values), buffer, 0, popxl.uint32, "random_seed", replica_grouping=grouping
        )
        with _execution_context(popxl.ExecutionContext.WeightsFromHostFragment):
            loaded = ops.remote_load(buffer, 0, "random_seed")
        with _execution_context(popxl.ExecutionContext.WeightsToHostFragment):
            ops.remote_store(buffer, 0, loaded)
    return variable, loaded
