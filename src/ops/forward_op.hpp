// Shape rules of gradient rows. What a gradient op is given must be what its forward op takes and gives: the forward
// row's own rule runs on these infos, so that an operator has one shape rule. Kernels of gradients rely on it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <popart/ir.hpp>
#include <popart/opdef.hpp>

namespace popart::ops {

// The forward tensor that attribute "fwd_shape" of c's op describes. Fails naming the op for a negative dimension and
// for more elements than a tensor may have.
TensorInfo forwardInfo(const InferContext &c, DataType type);
TensorInfo forwardInfo(const InferContext &c);  // with the type of input 0

// The forward op of a gradient op, as far as the gradient op knows it.
class ForwardOp {
 public:
  // Infers row `type` for `inputs` (an unset info: not connected) and `outputs` outputs. Its attributes are `more` and
  // those of c's op that the row has too; the latter go back to c's op as inference completes them. An input that the
  // gradient op does not know may be any that gives the gradient's shape. Fails naming c's op when the row refuses.
  ForwardOp(InferContext &c, const std::string &type, const std::vector<TensorInfo> &inputs, Attributes more = {},
            int outputs = 1);
  // Requires that input `input` of c's op, where connected, has the type and shape of forward output `output`: it is
  // that output, or its gradient.
  const ForwardOp &gives(int output, int input) const;
  const TensorInfo &output(int i) const { return op_->outInfo(i); }

 private:
  InferContext &context_;
  Ir ir_;
  const Op *op_;
};

// The rule of a gradient row with the gradient of forward output 0 as input 0: output 0 has the info of forward input
// 0.
void inferGradientOf(InferContext &c, const std::string &type, const std::vector<TensorInfo> &inputs,
                     Attributes more = {});

}  // namespace popart::ops
