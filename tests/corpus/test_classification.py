"""What trains in files of today's tools: the parameters of the module that was exported, and nothing else."""

import pytest

from tests.corpus.checks import classification_differs
from tests.corpus.table import FILES

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, id=file.name, marks=[pytest.mark.slow] if file.slow else [])
        for file in FILES.values()
        if file.trains
    ],
)
def test_what_trains_is_what_the_module_calls_parameters(file, tmp_path):
    assert not classification_differs(file, file.make(tmp_path))
