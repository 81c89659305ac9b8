// ForwardOp: shape rules of gradient rows. The inputs of a gradient op must match the inputs and outputs of its forward
// op. The rule of the forward row runs on these infos, so an operator has only one shape rule. Kernels of gradients
// rely on this.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <popart/ir.hpp>
#include <popart/opdef.hpp>

namespace popart::ops {

// The forward tensor that attribute "fwd_shape" of c's op describes. Fails, with the name of the op, for a negative
// dimension and for more elements than a tensor may have.
TensorInfo forwardInfo(const InferContext &c, DataType type);
TensorInfo forwardInfo(const InferContext &c);  // with the type of input 0

// The forward op of a gradient op, with the inputs that the gradient op knows.
class ForwardOp {
 public:
  // Infers row `type` for `inputs` (an unset info: not connected) and `outputs` outputs. Its attributes are `more`, and
  // those of c's op that the row has too; inference completes the latter in c's op as well. An input that the gradient
  // op does not know may be any that gives the gradient's shape. Fails, with the name of c's op, when the row refuses.
  ForwardOp(InferContext &c, const std::string &type, const std::vector<TensorInfo> &inputs, Attributes more = {},
            int outputs = 1);
  // Requires that input `input` of c's op, if connected, has the type and shape of forward output `output`: the input
  // is that output, or its gradient.
  const ForwardOp &gives(int output, int input) const;
  const TensorInfo &output(int i) const { return op_->outInfo(i); }

 private:
  InferContext &context_;
  Ir ir_;
  const Op *op_;
};

// The rule of a gradient row whose input 0 is the gradient of forward output 0: output 0 has the info of forward input
// 0.
void inferGradientOf(InferContext &c, const std::string &type, const std::vector<TensorInfo> &inputs,
                     Attributes more = {});

}  // namespace popart::ops
