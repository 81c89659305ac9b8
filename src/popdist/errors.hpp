// Errors that Python programs expect as classes of their own, beyond what C++ programs see of them.
#pragma once
#include <stdexcept>

namespace popdist {

// TypeError: elements of a type that a collective cannot take.
struct type_error : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};
// FileNotFoundError.
struct missing_file_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// NotImplementedError: what cannot be offered.
struct unsupported_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace popdist
