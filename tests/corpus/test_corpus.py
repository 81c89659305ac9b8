"""Files of today's tools load, equal ONNX Runtime, train as PyTorch does and are saved for use.

The table is in table.py; `python -m tests.corpus.report` prints the counts, also for onnx2torch.
"""

import pytest
import torch

from tests.corpus.checks import differs_from_onnx_runtime, train_by_trainer, training_differs
from tests.corpus.table import FILES

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]


def params(files):
    return [pytest.param(f, id=f.name, marks=[pytest.mark.slow] if f.slow else []) for f in files]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)


@pytest.mark.parametrize("file", params(FILES.values()))
def test_file(file, tmp_path):
    made = file.make(tmp_path)
    assert not differs_from_onnx_runtime(file, made)
    if file.trains:
        training, saved = training_differs(file, made, tmp_path)
        assert (training, saved) == ([], [])


@pytest.mark.parametrize("file", params([f for f in FILES.values() if f.trains and not f.slow][::9]))
def test_trainer_trains_as_the_module(file, tmp_path):
    assert training_differs(file, file.make(tmp_path), tmp_path, train_by_trainer) == ([], [])
