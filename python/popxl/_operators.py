"""The functions that methods and operators of `Tensor` call.

Tensors are a lower layer than operators and cannot import them. So `popxl.ops` stores its functions here when it is
imported, and so does `popxl._indexing`.
"""

from types import SimpleNamespace

operators = SimpleNamespace()
