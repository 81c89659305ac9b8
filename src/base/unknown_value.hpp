// The refusal of a program whose structure depends on a value that the run computes.
#pragma once
#include <popart/error.hpp>

namespace popart {

// Names what must be known when the graph is built. Who runs the program may make it a constant and try again.
class unknown_value_error : public error {
 public:
  using error::error;
};

}  // namespace popart
