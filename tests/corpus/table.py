"""The corpus: every file by name."""

from collections.abc import Iterable

from tests.corpus import oddities, of_onnx_runtime, of_sklearn, of_torch
from tests.corpus.files import File


def _by_name(*groups: Iterable[File]) -> dict[str, File]:
    files = [file for group in groups for file in group]
    found = {file.name: file for file in files}
    assert len(found) == len(files), "two files have one name"
    return found


FILES: dict[str, File] = _by_name(of_torch.rows(), of_sklearn.rows(), of_onnx_runtime.rows(), oddities.rows())
