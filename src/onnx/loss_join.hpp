// How the losses of the parts of a batch join to that of the batch: read from the nodes that compute a loss.
#pragma once
#include <string>
#include <vector>

#include "onnx/reader.hpp"

namespace popart::onnx {

// A mean over class numbers that does not count all of them in the same way.
struct CountedMean {
  TensorId labels;
  TensorId weight;          // by class; empty: all count 1
  int64_t ignoreIndex = 0;  // this class number does not count
  bool ignores = false;     // whether there is such a number
};

struct LossJoin {
  enum class Kind {
    Mean,     // the loss of the batch is the mean of those of equal parts; also of losses that are not understood
    Sum,      // it is their sum
    Counted,  // it is the mean of parts that count as much as `counted` says; there is one
    Mixed,    // it has terms of which some are sums and others are not
  };
  Kind kind = Kind::Mean;
  std::vector<CountedMean> counted;  // in the loss
};

// Of a tensor of the main graph. Constant factors and moves of elements are followed.
LossJoin lossJoin(const Model &model, const TensorId &loss);

}  // namespace popart::onnx
