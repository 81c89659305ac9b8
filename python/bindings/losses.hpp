// See losses.cpp.
#pragma once
#include "bindings.hpp"

namespace popart::python {

void bindLosses(nb::module_ &m);

}  // namespace popart::python
