"""Drawings of losses."""

import sys

import numpy as np
import popart
import pytest
from matplotlib.figure import Figure


def test_losses_and_their_running_mean(tmp_path):
    values = np.linspace(2.0, 0.5, 300)
    axes = popart.plot.losses(values, tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    each, mean = axes.get_lines()
    assert np.array_equal(each.get_ydata(), values)
    window = 300 // popart.plot.POINTS
    expected = [values[i - window + 1 : i + 1].mean() for i in range(window - 1, 300)]
    assert np.array_equal(mean.get_xdata(), np.arange(window - 1, 300))
    assert np.allclose(mean.get_ydata(), expected)


def test_axes_of_the_caller():
    given = Figure().subplots()
    assert popart.plot.losses([1.0], axes=given) is given
    assert [list(line.get_ydata()) for line in given.get_lines()] == [[1.0], [1.0]]


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]]])
def test_what_is_no_list_of_losses(values):
    with pytest.raises(ValueError, match="expected a list of at least one loss"):
        popart.plot.losses(values)


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        popart.plot.losses([1.0])
