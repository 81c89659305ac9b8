"""Switches for the fully connected pass, under the module name that programs import."""

from popxl_addons.transforms.tile_hints import disable_fc_pass, enable_fc_pass

__all__ = ["disable_fc_pass", "enable_fc_pass"]
