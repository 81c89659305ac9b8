"""popart.data: the IDX reader and its refusals, normalisation, and batches."""

import gzip

import numpy as np
import popart
import popart.data
import pytest


def idx_bytes(array, kind):
    """An IDX file with the given type code."""
    header = bytes([0, 0, kind, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return header + array.tobytes()


def images(count=10, seed=0):
    rng = np.random.default_rng(seed)
    return popart.data.ImageSet(
        rng.integers(0, 256, (count, 4, 3), dtype=np.uint8), np.arange(count, dtype=np.int32) % 10
    )


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize(("kind", "dtype"), [(8, "u1"), (9, "i1"), (11, ">i2"), (12, ">i4"), (13, ">f4"), (14, ">f8")])
def test_idx_files_of_every_type_are_read(tmp_path, kind, dtype, compress):
    array = (np.arange(24).reshape(2, 3, 4) - 5).astype(dtype)
    (tmp_path / "data").write_bytes(compress(idx_bytes(array, kind)))
    read = popart.data.read_idx(tmp_path / "data", rank=3)
    assert read.dtype.isnative
    np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        (lambda b: b"", "an empty file"),
        (lambda b: b[:3], "wrong magic number"),
        (lambda b: b"\1" + b[1:], "wrong magic number"),
        (lambda b: b[:2] + b"\x0a" + b[3:], "wrong magic number"),
        (lambda b: b[:3] + b"\0" + b[4:], "wrong rank"),
        (lambda b: b[:3] + b"\xff" + b[4:], "wrong rank"),
        (lambda b: b[:10], "truncated dimensions"),
        (lambda b: b[:-1], "truncated data"),
        (lambda b: b[:4] + b"\xff" * 8 + b[12:], "truncated data"),
        (lambda b: b + b"\0", "data after the elements"),
        (lambda b: gzip.compress(b)[:-12], "damaged gzip data"),
        (lambda b: gzip.compress(b)[:-8] + b"\xff" * 8, "damaged gzip data"),
    ],
)
def test_damaged_idx_files_are_refused(tmp_path, change, fragment):
    whole = idx_bytes(np.arange(6, dtype=np.uint8).reshape(2, 3), 8)
    (tmp_path / "data").write_bytes(change(whole))
    with pytest.raises(popart.data.IdxFormatError, match=fragment) as caught:
        popart.data.read_idx(tmp_path / "data")
    assert isinstance(caught.value, popart.popart_exception)


def test_rank_is_checked(tmp_path):
    (tmp_path / "data").write_bytes(idx_bytes(np.zeros((2, 3), np.uint8), 8))
    with pytest.raises(popart.data.IdxFormatError, match="wrong rank: got 2, expected 3"):
        popart.data.read_idx(tmp_path / "data", rank=3)


@pytest.mark.parametrize("name", ["t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte.gz"])
def test_image_sets_are_found_under_both_spellings(tmp_path, name):
    data = images()
    (tmp_path / name).write_bytes(idx_bytes(data.images, 8))
    labels = name.replace("images", "labels").replace("idx3", "idx1")
    (tmp_path / labels).write_bytes(gzip.compress(idx_bytes(data.labels.astype(np.uint8), 8)))
    read = popart.data.load_images(tmp_path, "test")
    np.testing.assert_array_equal(read.images, data.images)
    np.testing.assert_array_equal(read.labels, data.labels)


def test_missing_and_unequal_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="train-images-idx3-ubyte"):
        popart.data.load_images(tmp_path, "train")
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx_bytes(images().images, 8))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx_bytes(np.zeros(9, np.uint8), 8))
    with pytest.raises(popart.popart_exception, match="do not fit"):
        popart.data.load_images(tmp_path, "train")


def test_normalised_pixels_have_mean_0_and_deviation_1():
    data = images(200)
    values = popart.data.Normalisation.of(data.images).table()[data.images]
    assert values.dtype == np.float32
    assert abs(values.mean()) < 1e-5
    assert abs(values.std() - 1) < 1e-5


@pytest.mark.parametrize("last", ["drop", "repeat"])
def test_batches_hold_normalised_samples_in_order(last):
    data = images(10)
    norm = popart.data.Normalisation(0.5, 0.25)
    batches = popart.data.Batches(data, 2, 2, normalisation=norm, last=last)
    steps = [(x.copy(), y.copy()) for x, y in batches.epoch()]
    assert len(steps) == len(batches) == (2 if last == "drop" else 3)
    for step, (x, y) in enumerate(steps):
        assert x.shape == (2, 2, 4, 3)
        assert x.flags.c_contiguous
        chosen = np.arange(4 * step, 4 * step + 4) % 10
        expected = (data.images[chosen].reshape(2, 2, 4, 3) / 255 - 0.5) / 0.25
        np.testing.assert_allclose(x, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(y.reshape(-1), data.labels[chosen])


def test_seed_and_epoch_fix_the_order():
    data = images(100)
    first, again, other = (popart.data.Batches(data, 10, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.order(1), again.order(1))
    assert sorted(first.order(0)) == list(range(100))
    assert not np.array_equal(first.order(0), first.order(1))
    assert not np.array_equal(first.order(0), other.order(0))


def test_images_and_labels_stay_together_when_shuffled():
    labels = np.arange(50, dtype=np.int32)
    pixels = np.broadcast_to(labels.astype(np.uint8)[:, None, None], (50, 2, 2))
    norm = popart.data.Normalisation(0.0, 1 / 255)
    for x, y in popart.data.Batches(popart.data.ImageSet(pixels, labels), 5, 2, seed=1, normalisation=norm).epoch(2):
        np.testing.assert_allclose(x[..., 0, 0], y, rtol=1e-6)


@pytest.mark.parametrize(("batch", "per_step", "fragment"), [(0, 1, "at least 1"), (1, 0, "at least 1"), (6, 2, "few")])
def test_impossible_batches_are_refused(batch, per_step, fragment):
    with pytest.raises(popart.popart_exception, match=fragment):
        popart.data.Batches(images(10), batch, per_step)
