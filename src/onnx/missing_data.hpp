// The refusal of a model whose external tensor data is not there.
#pragma once
#include <popart/error.hpp>

namespace popart::onnx {

// Names tensor, location and folder. In Python a RuntimeError besides, as documented for loading models.
class missing_data_error : public error {
 public:
  using error::error;
};

}  // namespace popart::onnx
