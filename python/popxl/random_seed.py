"""Host side of random seeds: a seed is a pair of 32-bit words, the high word first."""

import numpy as np

MAX_UINT64 = 2**64 - 1


def uint64_to_two_uint32(num: int) -> tuple[int, int]:
    """Split a 64-bit number into its (high, low) 32-bit words.

    Returns:
        (high, low).

    Raises:
        ValueError: `num` is negative or needs more than 64 bits.
    """
    if num < 0:
        raise ValueError(f"Number must be non-negative: got {num}.")
    if num.bit_length() > 64:
        raise ValueError(f"Number must fit in 64 bits: got {num}.")
    return num >> 32, num & 0xFFFFFFFF


def two_uint32_to_uint64(a: int, b: int) -> int:
    """Join the high word `a` and the low word `b`.

    Returns:
        The number below 2^64.

    Raises:
        ValueError: a word is outside 0..2^32-1.
    """
    for word in (a, b):
        if not 0 <= word < 2**32:
            raise ValueError(f"Number must be a 32-bit unsigned integer: got {word}.")
    return (a << 32) | b


def create_seeds(
    seed: int, offset: int = 0, batches_per_step: int = 1, gradient_accumulation_factor: int = 1, replicas: int = 1
) -> np.ndarray:
    """Draw seeds for every batch, accumulation step and replica.

    Args:
        seed: seed of NumPy's generator.
        offset: added to `seed`, for example the number of the step.
        batches_per_step: size of the first dimension.
        gradient_accumulation_factor: size of the second dimension.
        replicas: size of the third dimension.

    Returns:
        uint32 array of shape (batches_per_step, gradient_accumulation_factor, replicas, 2) without dimensions
        of size 1.
    """
    count = batches_per_step * gradient_accumulation_factor * replicas
    rng = np.random.default_rng(seed + offset)
    draws = rng.integers(0, MAX_UINT64, size=count, dtype=np.uint64, endpoint=True)
    words = np.array([uint64_to_two_uint32(int(d)) for d in draws], dtype=np.uint32)
    return words.reshape(batches_per_step, gradient_accumulation_factor, replicas, 2).squeeze()
