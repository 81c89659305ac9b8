"""Files that Python writes appear whole or not at all, whoever writes at the same time."""

import threading

import numpy as np
import pytest
from popart._files import replacing


def test_writers_of_one_file_do_not_meet(tmp_path):
    """Each writes in two halves while the others do: one of them stays, whole."""
    target = tmp_path / "values"
    barrier = threading.Barrier(4)

    def write(number):
        with replacing(target) as file:
            for _ in range(2):
                barrier.wait()
                file.write(bytes([number]) * 100_000)
                file.flush()

    writers = [threading.Thread(target=write, args=[number]) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    content = target.read_bytes()
    assert len(content) == 200_000 and len(set(content)) == 1
    assert list(tmp_path.iterdir()) == [target]


def test_nothing_stays_of_a_writer_that_fails(tmp_path):
    target = tmp_path / "values.npz"
    target.write_bytes(b"before")
    with pytest.raises(ValueError, match="Object arrays"), replacing(target) as file:
        np.savez(file, a=np.ones(3), b=np.array([object()]), allow_pickle=False)
    assert target.read_bytes() == b"before" and list(tmp_path.iterdir()) == [target]
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "absent" / "values") as file:
        file.write(b"x")
    with pytest.raises(KeyboardInterrupt), replacing(target) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert target.read_bytes() == b"before" and list(tmp_path.iterdir()) == [target]
