"""The check that names what a wheel of the stable ABI cannot use."""

from tools.checks.stable_abi import check_file


def test_names_outside_of_the_stable_abi_are_found():
    code = "nb::object o;\nPyTuple_SET_ITEM(t, 0, o);\nPyTuple_SetItem(t, 0, o);  // not PyTuple_SET_ITEM\n"
    assert check_file("a.cpp", code) == [
        "a.cpp:2: PyTuple_SET_ITEM is not known to be in the stable ABI of Python 3.12. Use another, or look it up and "
        "add it to tools/checks/stable_abi.py."
    ]
