// The error for a program whose structure depends on a value that is computed at run time.
#pragma once
#include <popart/error.hpp>

namespace popart {

// Names the value that must be known when the graph is built. The caller may make it a constant and try again.
class unknown_value_error : public error {
 public:
  using error::error;
};

}  // namespace popart
