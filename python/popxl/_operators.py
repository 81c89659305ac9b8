"""The functions that methods and operators of tensors call.

Tensors are below operators, so the operators come to them: `popxl.ops` puts its functions here when it is imported, and
`popxl._indexing` its own.
"""

from types import SimpleNamespace

operators = SimpleNamespace()
