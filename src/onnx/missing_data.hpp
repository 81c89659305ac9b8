// The error for a model whose external tensor data is missing.
#pragma once
#include <popart/error.hpp>

namespace popart::onnx {

// Names tensor, location and folder. In Python it is also a RuntimeError, as documented for loading models.
class missing_data_error : public error {
 public:
  using error::error;
};

}  // namespace popart::onnx
