"""popart-convert takes every file of the corpus to each of its forms; those that keep the types keep the results."""

from dataclasses import replace

import pytest

from tests.corpus.checks import differences, ours, output_names
from tests.corpus.conversions import CONVERSIONS, check_conversions
from tests.corpus.table import FILES

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]
QUICK = [file for file in FILES.values() if not file.slow]
DEFAULT = {file.name for file in QUICK[:: max(1, len(QUICK) // 12)]}


def params(files):
    return [pytest.param(f, id=f.name, marks=[] if f.name in DEFAULT else [pytest.mark.slow]) for f in files.values()]


@pytest.mark.parametrize("file", params(FILES))
def test_every_conversion_of_a_file(file, tmp_path):
    made = file.make(tmp_path)
    path = made.path
    if path is None:
        path = tmp_path / "model.onnx"
        path.write_bytes(made.model)
    feeds, names = made.draw(), output_names(made.source)
    expected = ours(made, feeds, names)

    def check(form):
        converted = replace(made, model=form.read_bytes(), path=form)
        assert differences(ours(converted, feeds, names), expected, file.near, names) == []

    refused = check_conversions(path, tmp_path / "converted", check)
    assert len(refused) < len(CONVERSIONS)
