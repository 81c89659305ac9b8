"""What notebooks show: small tables, with texts escaped, that load nothing."""

from __future__ import annotations

import html5lib
import numpy as np
import popart
import popxl
import pytest
from popart._notebook import MOST_LINES, MOST_ROWS, facts_html, folded_html, listed, rows_html
from popxl import ops

from tests.python.popart.test_profile import made, step_of

ODD = '<b>"odd" & name</b>'
ACTIVE = ("script", "link", "img", "iframe", "style")


def shown(thing) -> tuple[list[list[str]], str]:
    """Rows of the table and all text of what a notebook shows; it is valid HTML and loads nothing."""
    text = thing if isinstance(thing, str) else thing._repr_html_()
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parseFragment(text)
    for element in tree.iter():
        assert not isinstance(element.tag, str) or element.tag not in ACTIVE, element.tag
        assert not element.get("src") and not element.get("href")
    rows = [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]
    return rows, "".join(tree.itertext())


def named_model() -> bytes:
    """A product of an input with an odd name."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3], ODD)
    y = builder.aiOnnx.matmul([x, builder.addInitializedInputTensor(np.eye(3, dtype=np.float32), "w")])
    builder.addOutputTensor(y)
    return builder.getModelProto()


def test_sessions():
    session = made(name=ODD)
    rows, text = shown(session)
    assert f"TrainingSession '{ODD}'" in text
    assert ["state", "prepared"] in rows and ["batches a step", "1"] in rows and ["device", "Cpu"] in rows


def test_models_and_trainers():
    model = popart.load(named_model())
    rows, _ = shown(model)
    assert rows[0] == [f"input {ODD}", "float32 (2, 3)"] and rows[1][0] == "outputs"
    trainer = popart.Trainer(named_model(), "mse", popart.optim.SGD(lr=0.1))
    rows, text = shown(trainer)
    assert [f"input {ODD}", "float32 (batch, 3)"] in rows and ["weights", "1"] in rows and "popart.Trainer" in text


def test_builders():
    rows, _ = shown(popart.Builder())
    assert rows == [["inputs", "none"], ["outputs", "none"]]


@pytest.mark.parametrize("is_model", [False, True])
def test_reports(is_model):
    device = popart.DeviceManager().createIpuModelDevice({}) if is_model else None
    session = made(name=ODD, device=device)
    report = session.profile(step_of(session), runs=1)
    rows, text = shown(report)
    assert f"Report of '{ODD}'" in text
    facts = dict(rows)
    assert ("estimate of a run" in facts) == is_model
    assert int(facts["steps"]) == report.compilation.graph.numComputeSets and "run" in facts


def test_programs_of_popxl():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.h2d_stream((2, 3), popxl.float32, "x")
        w = popxl.variable(np.eye(3, dtype=np.float32), name="w")
        y = popxl.d2h_stream((2, 3), popxl.float32, "y")
        loaded = ops.host_load(x)
        square = ir.create_graph(lambda a, b: ops.gelu(ops.matmul(a, b)), loaded, w)
        (result,) = ops.call(square, loaded, w)
        ops.host_store(y, result)
    rows, text = shown(ir)
    assert rows[0] == ["graph", "ops", "inputs", "outputs"] and f"Ir {ir.id}" in text
    assert ["main", "4", "0", "0"] in rows  # Init and HostLoad, Call, HostStore
    assert [square.id, "2", "2", "1"] in rows
    rows, text = shown(ir.main_graph)
    assert ["variable w", "float32 (2, 3)"] not in rows and ["variable w", "float32 (3, 3)"] in rows
    rows, text = shown(square)
    assert [row[1] for row in rows] == ["float32 (2, 3)", "float32 (3, 3)", "float32 (2, 3)"]
    assert "2 ops" in text and "Gelu" in text and "MatMul" in text
    with popxl.Session(ir, "cpu") as session:
        rows, text = shown(session)
        kinds = {row[0]: row[2:] for row in rows[1:]}
        assert kinds == {"input": ["float32", "(2, 3)"], "output": ["float32", "(2, 3)"]} and ", attached" in text
    assert "not attached" in shown(session)[1]


def test_long_tables_and_texts_end():
    rows, _ = shown(rows_html("t", ("a", "b"), [(i, ODD) for i in range(MOST_ROWS + 5)]))
    assert len(rows) == 1 + MOST_ROWS + 1 and rows[-1] == ["and 5 more"] and rows[1] == ["0", ODD]
    _, text = shown(folded_html("t", "\n".join(map(str, range(MOST_LINES + 7)))))
    assert text.endswith("and 7 more lines") and f"\n{MOST_LINES - 1}\n" in text
    assert listed(list("abcdefghij")) == "a, b, c, d, e, f, g, h and 2 more"
    assert shown(facts_html("t", [("left out", ""), ("zero", 0)]))[0] == [["zero", "0"]]
