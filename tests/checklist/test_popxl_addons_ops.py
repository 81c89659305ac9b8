"""Operators, layers and optimizers of `popxl_addons` are those of the reference sheet."""

import inspect

import popxl
import popxl_addons as addons
import pytest
from popxl_addons.ops import fp8_utils

from tests.checklist import popxl_addons_ops as sheet
from tests.checklist.test_popart_python_refusals import refuses
from tests.checklist.test_popxl_addons import parameters, resolve, written


@pytest.mark.parametrize(("module", "name", "text"), [row[1:] for row in sheet.CALLS])
def test_signature(module, name, text):
    assert parameters(inspect.signature(resolve(module, name))) == written(text)


@pytest.mark.parametrize(("module", "name"), [(m, n) for m, names in sheet.NAMES.items() for n in names.split()])
def test_name(module, name):
    assert resolve(module, name) is not None


@pytest.mark.parametrize("name", sheet.FORMATS)
def test_format(name):
    assert getattr(fp8_utils, name) == sheet.FORMATS[name]
    assert getattr(fp8_utils, name)._fields == tuple(sheet.FORMAT_FIELDS.split())


@pytest.mark.parametrize("row", sheet.OP_TYPES, ids=lambda row: f"{row[0]} {row[1]}")
def test_op_type(row):
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        y = row[2](sheet.scope())
        op = y._pb_tensor.getProducer()
        assert (op.opType(), op.opDomain()) == (row[1], sheet.DOMAIN)
        assert f"{row[1]}." in addons.GraphWithNamedArgs(ir.main_graph).print_schedule()


@pytest.mark.parametrize("row", sheet.VARIABLES, ids=lambda row: f"{row[0]} {[v[:2] for v in row[4]]}")
def test_variables_of_a_layer(row):
    _, make, shape, dtype, expected = row
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        factories, graph = make(ir).create_graph(popxl.TensorSpec(shape, dtype))
        assert [(n, f.shape, f.dtype) for n, f in factories.to_dict().items()] == expected
        assert list(graph.args.to_dict()) == [row[0] for row in expected]


@pytest.mark.parametrize("row", sheet.REFUSALS, ids=lambda row: f"{row.section} {row.situation}")
def test_refusal(row):
    refuses(row)
