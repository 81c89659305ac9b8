"""Updates of variables; see `popxl.ops.var_updates`."""

from popxl.ops.var_updates import (
    accumulate_,
    accumulate_mean_,
    accumulate_moving_average_,
    accumulate_moving_average_square_,
    accumulate_square_,
    adam_updater,
    adamax_updater,
    copy_var_update_,
    lamb_updater,
)

__all__ = [
    "accumulate_",
    "accumulate_mean_",
    "accumulate_moving_average_",
    "accumulate_moving_average_square_",
    "accumulate_square_",
    "adam_updater",
    "adamax_updater",
    "copy_var_update_",
    "lamb_updater",
]
