"""DFT, STFT, windows and MelWeightMatrix against NumPy and PyTorch; gradients by finite differences."""

import numpy as np
import popart
import pytest
import torch

from tests.python.onnx.single_node import Node, check_gradients, values

RNG = np.random.default_rng(9)


def signal(*shape, parts=1):
    return RNG.standard_normal((*shape, parts)).astype(np.float32)


def joined(x):
    return x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0]


def parted(z):
    return np.stack([z.real, z.imag], -1)


def dft(x, axis=-2, length=None, opset=20, **attributes):
    if opset < 20:
        inputs, constant = [x] + ([] if length is None else [np.array(length)]), [1]
        return Node("DFT", inputs, attributes | {"axis": axis}, opset=opset, constant=constant[: len(inputs) - 1])
    inputs = [x, None if length is None else np.array(length), np.array(axis)]
    return Node("DFT", inputs, attributes, opset=opset, constant=[2] if length is None else [1, 2])


@pytest.mark.parametrize("size", [1, 2, 7, 12, 67, 96, 128, 150, 210])
@pytest.mark.parametrize("parts", [1, 2])
def test_transforms(size, parts):
    """Prime lengths, short ones and those with factors."""
    x = signal(2, size, 3, parts=parts)
    for inverse in (0, 1):
        expected = (np.fft.ifft if inverse else np.fft.fft)(joined(x).astype(np.complex128), axis=1)
        (got,) = values(dft(x, 1, inverse=inverse))
        np.testing.assert_allclose(got, parted(expected), rtol=1e-4, atol=1e-5 * size)


@pytest.mark.parametrize("size", [6, 9, 80, 100])
def test_real_signals_and_their_half_spectra(size):
    x = signal(3, size)
    (half,) = values(dft(x, onesided=1))
    np.testing.assert_allclose(half, parted(np.fft.rfft(x[..., 0])), rtol=1e-4, atol=1e-4)
    (back,) = values(dft(half, length=size, onesided=1, inverse=1))
    np.testing.assert_allclose(back, x, rtol=1e-4, atol=1e-4)
    (even,) = values(dft(half, onesided=1, inverse=1))
    np.testing.assert_allclose(even[..., 0], np.fft.irfft(joined(half)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("length", [3, 5, 11])
def test_lengths(length):
    """Cut or filled with zeros."""
    x = signal(2, 5, parts=2)
    np.testing.assert_allclose(values(dft(x, length=length))[0], parted(np.fft.fft(joined(x), length)), atol=1e-5)
    spectrum = np.fft.irfft(joined(x), length)
    (got,) = values(dft(x, length=length, onesided=1, inverse=1))
    np.testing.assert_allclose(got[..., 0], spectrum, atol=1e-5)


def test_version_17_has_the_axis_as_attribute():
    x = signal(2, 5, 4)
    for axis in (1, 2, -2, 0):
        expected = np.fft.fft(x[..., 0], axis=axis if axis >= 0 else 2)
        np.testing.assert_allclose(values(dft(x, axis, opset=17))[0], parted(expected), atol=1e-5)


@pytest.mark.parametrize("size", [5, 72])
def test_gradients(size):
    check_gradients(dft(signal(2, size)), [0])
    check_gradients(dft(signal(2, size, parts=2), inverse=1), [0])
    check_gradients(dft(signal(2, size), onesided=1), [0])
    check_gradients(dft(signal(2, size, parts=2), onesided=1, inverse=1), [0])


@pytest.mark.parametrize("one_sided", [0, 1])
@pytest.mark.parametrize("windowed", [False, True])
def test_stft(one_sided, windowed):
    x = signal(2, 40)
    window = RNG.random(12).astype(np.float32) if windowed else None
    node = Node("STFT", [x, np.array(5), window, np.array(12)], {"onesided": one_sided}, opset=17, constant=[1, 3])
    given = torch.ones(12) if window is None else torch.from_numpy(window)
    expected = torch.stft(
        torch.from_numpy(x[..., 0]), 12, 5, window=given, center=False, onesided=bool(one_sided), return_complex=True
    )
    np.testing.assert_allclose(values(node)[0], parted(expected.numpy().transpose(0, 2, 1)), rtol=1e-4, atol=1e-4)
    check_gradients(node, [0, 2] if windowed else [0])


def test_stft_of_a_complex_signal():
    x = signal(1, 20, parts=2)
    node = Node("STFT", [x, np.array(4), None, np.array(8)], {"onesided": 0}, opset=17, constant=[1, 3])
    frames = np.stack([joined(x)[0, i : i + 8] for i in range(0, 13, 4)])
    np.testing.assert_allclose(values(node)[0][0], parted(np.fft.fft(frames)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("size", [2, 9])
def test_windows(periodic, size):
    for name, window in (("Hann", torch.hann_window), ("Blackman", torch.blackman_window)):
        node = Node(f"{name}Window", [np.array(size)], {"periodic": periodic}, opset=17, constant=[0])
        np.testing.assert_allclose(values(node)[0], window(size, bool(periodic)).numpy(), atol=1e-6)
    node = Node("HammingWindow", [np.array(size)], {"periodic": periodic}, opset=17, constant=[0])
    expected = torch.hamming_window(size, bool(periodic), 25 / 46, 21 / 46).numpy()
    np.testing.assert_allclose(values(node)[0], expected, atol=1e-6)


@pytest.mark.parametrize(("periodic", "expected"), [(0, 1.0), (1, 0.0)])
def test_windows_of_one_sample(periodic, expected):
    """A symmetric one is its middle, a periodic one its first sample."""
    node = Node("HannWindow", [np.array(1)], {"periodic": periodic}, opset=17, constant=[0])
    np.testing.assert_array_equal(values(node)[0], [expected])


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (dft(signal(2, 3, parts=3)), "last dimension"),
        (dft(signal(2, 3), axis=2), "axis"),
        (dft(signal(2, 3), length=0), "dft_length"),
        (dft(signal(2, 3, parts=2), onesided=1), "real signal"),
        (Node("HannWindow", [np.array(-1)], opset=17, constant=[0]), "size"),
        (Node("STFT", [signal(1, 4), np.array(2), None, np.array(9)], opset=17, constant=[1, 3]), "frame"),
    ],
)
def test_refusals(node, text):
    with pytest.raises(popart.popart_exception, match=text):
        values(node)
