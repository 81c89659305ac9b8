// Binding of the Ir: module popart_core.ir.
#pragma once
#include <nanobind/nanobind.h>

namespace popart::python {

// Adds the submodule `ir` to popart_core.
void bindIr(nanobind::module_ &module);

}  // namespace popart::python
