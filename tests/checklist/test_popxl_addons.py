"""The names, signatures and members of the package `popxl_addons` are those of its reference sheet."""

import importlib
import inspect
import subprocess
import sys

import numpy as np
import popxl
import popxl_addons as addons
import pytest

from tests.checklist import popxl_addons as sheet


def resolve(module, name):
    value = importlib.import_module(f"popxl_addons.{module}")
    for part in name.split("."):
        value = getattr(value, part)
    return value


def parameters(signature):
    """Kind counts only for * and **; parameters of our own may follow, with defaults."""
    star = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    given = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    return [(p.name, p.kind if p.kind in star else None, p.default) for p in given]


def written(text):
    scope = {"popxl": popxl}
    exec(f"def f({text}): pass", scope)
    return parameters(inspect.signature(scope["f"]))


@pytest.mark.parametrize("name", [name for names in sheet.TOP.values() for name in names.split()])
def test_name_of_the_package(name):
    assert hasattr(addons, name)


@pytest.mark.parametrize("name", sheet.NOT_TOP.split())
def test_name_of_a_module_only(name):
    assert not hasattr(addons, name) or inspect.ismodule(getattr(addons, name))


@pytest.mark.parametrize("name", sheet.SUB_MODULES.split())
def test_sub_module(name):
    assert getattr(addons, name) is importlib.import_module(f"popxl_addons.{name}")


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in sheet.MODULES.items() for name in names.split()]
)
def test_name_in_a_module(module, name):
    assert resolve(module, name) is not None


@pytest.mark.parametrize(("module", "name", "text"), [row[1:] for row in sheet.CALLS])
def test_signature(module, name, text):
    own, wanted = parameters(inspect.signature(resolve(module, name))), written(text)
    empty = inspect.Parameter.empty
    accepted = [(*p[:2], empty if w[2] is empty else p[2]) for p, w in zip(own, wanted, strict=False)]
    assert accepted == wanted
    assert all(default is not empty for _, _, default in own[len(wanted) :])


@pytest.mark.parametrize(
    ("module", "owner", "name"), [(*row[1:3], name) for row in sheet.MEMBERS for name in row[3].split()]
)
def test_member(module, owner, name):
    assert hasattr(resolve(module, owner), name)


class One(addons.Module):
    def build(self, x):
        return x * self.add_variable_input("w", lambda: np.ones(2, np.float32), x.dtype)


@pytest.mark.parametrize(("text", "name"), [(row[1], name) for row in sheet.ATTRIBUTES for name in row[2].split()])
def test_attribute(text, name):
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones(2, np.float32))
        module = One()
        _, graph = module.create_graph(x)
        scope = {"addons": addons, "x": x, "module": module, "graph": graph, "data": np.ones(2)}
        scope["buffer"] = popxl.remote_buffer((2,), popxl.float32)
        assert hasattr(eval(text, scope), name)


# ---- functions with the name of their module
@pytest.mark.parametrize("order", ["", "import popxl_addons.transforms.autodiff, popxl_addons.seed_variable; "])
def test_names_that_shadow_modules(order):
    program = f"""{order}
import popxl_addons as addons
from popxl_addons.transforms.autodiff import autodiff
from popxl_addons.seed_variable import seed_variable
from popxl_addons.ops.cross_entropy import cross_entropy
from popxl_addons.ops.fp8_amax_scale import fp8_amax_scale
assert addons.autodiff is addons.transforms.autodiff is autodiff
assert addons.seed_variable is seed_variable
assert addons.fp8_amax_scale is addons.ops.fp8_amax_scale is fp8_amax_scale
assert addons.cross_entropy is addons.ops.cross_entropy is cross_entropy
assert addons.host_load is addons.ops.host_load is not addons.popxl.ops.host_load
"""
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_import_needs_no_optional_package():
    program = """
import sys
for name in ("git", "wandb", "mpi4py", "scipy", "more_itertools", "typing_extensions", "torch", "cppimport"):
    sys.modules[name] = None
import popxl_addons
import popxl_addons.testing_utils, popxl_addons.rts
assert "popxl_addons.layers" not in sys.modules and "popxl_addons.ops.rotary_pos_embed" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(sys.path)})
