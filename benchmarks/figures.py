"""Figures of the measurements: times, differences of results, memory."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from processes import WorkerFailed


def figures(times_ms: list[float]) -> dict[str, Any]:
    """Median and best of a list of times."""
    return {"median_ms": statistics.median(times_ms), "best_ms": min(times_ms), "calls": len(times_ms)}


def spread(turns_ms: list[list[float]]) -> float:
    """The range of the medians of turns: the largest minus the smallest, as a share of the median of all calls."""
    medians = [statistics.median(turn) for turn in turns_ms]
    return (max(medians) - min(medians)) / statistics.median([time for turn in turns_ms for time in turn])


def geometric_mean(ratios: list[float]) -> float | None:
    """The geometric mean of ratios; None if there are none."""
    return statistics.geometric_mean(ratios) if ratios else None


def largest_difference(result: Sequence[float] | np.ndarray, expected: Sequence[float] | np.ndarray) -> float:
    """Largest difference, relative to the largest expected magnitude; infinite when sizes differ or a value is NaN."""
    ours, theirs = (np.asarray(values, dtype=np.float64).reshape(-1) for values in (result, expected))
    if ours.size != theirs.size or np.isnan(ours).any() or np.isnan(theirs).any():
        return float("inf")
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite]):
        return float("inf")
    scale = np.abs(theirs[finite]).max(initial=0.0) or 1.0
    return float(np.abs(ours[finite] - theirs[finite]).max(initial=0.0) / scale)


def attempt(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """The result of `work`, or its error text."""
    try:
        return work(*arguments)
    except WorkerFailed as error:
        return {"error": str(error)}


def with_ratio(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry with the ratio of the best peer's median to ours."""
    medians = [peer["median_ms"] for peer in entry["peers"].values() if "median_ms" in peer]
    ours = entry["ours"].get("median_ms")
    return {**entry, "ratio_to_best_peer": min(medians) / ours if medians and ours else None, "share_of_limit": None}


def memory_figures(answer: dict[str, Any]) -> dict[str, Any]:
    """The session's prediction and the growth of the process, from the worker's answer."""
    reported = answer["reported"]
    return {
        "predicted_peak_bytes": reported["predicted peak"],
        "measured_growth_bytes": answer["growth"],
        "measured_peak_bytes": answer["peak"],
        "predicted_by_measured": reported["predicted peak"] / answer["peak"],
        "arena_to_largest_live_set": reported["activations"] / max(1, reported["largest live set"]),
        "reported": reported,
    }
