"""Optimizers as modules."""
