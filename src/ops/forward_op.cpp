// See forward_op.hpp. The forward op is in a separate program that is destroyed after the check.
#include "ops/forward_op.hpp"

#include <popart/error.hpp>
#include <popart/graph.hpp>
#include <popart/op.hpp>

namespace popart::ops {
namespace {

// `given`, and those attributes of `from` that `row` has too.
Attributes sharedAttributes(const OpDef &row, const Attributes &from, Attributes given) {
  for (const auto &[name, value] : from.entries())
    if (row.findAttribute(name) && !given.hasAttribute(name)) given.set(name, value);
  return given;
}

}  // namespace

TensorInfo forwardInfo(const InferContext &c, DataType type) {
  try {
    return TensorInfo(type, c.attrInts("fwd_shape"));
  } catch (const error &e) {
    c.fail("fwd_shape: {}, expected the shape of the forward tensor", e.what());
  }
}

TensorInfo forwardInfo(const InferContext &c) { return forwardInfo(c, c.type(0)); }

ForwardOp::ForwardOp(InferContext &c, const std::string &type, const std::vector<TensorInfo> &inputs, Attributes more,
                     int outputs)
    : context_(c) {
  const OpDef &row = opDef(type);
  Graph &graph = ir_.getMainGraph();
  std::vector<TensorIndex> tensors;
  for (const TensorInfo &info : inputs)
    tensors.push_back(info.isSet() ? graph.addInput("in" + std::to_string(tensors.size()), info) : TensorIndex{});
  std::vector<TensorId> ids;
  for (int i = 0; i < outputs; ++i) ids.push_back("out" + std::to_string(i));
  try {
    op_ = graph.addConnectedOp(row, tensors, ids, sharedAttributes(row, c.attrs(), std::move(more)),
                               Op::Settings(graph, c.op().name()));
  } catch (const error &e) {
    c.fail("it is the gradient of no {}: {}", type, e.what());
  }
  for (const auto &[name, value] : op_->attributes().entries()) {
    const AttributeValue *own = c.attrs().find(name);
    const AttributeDef *known = c.op().def().findAttribute(name);
    if (known && known->type == static_cast<AttributeType>(value.index()) && !(own && *own == value))
      c.op().mutableAttributes().set(name, value);
  }
}

const ForwardOp &ForwardOp::gives(int output, int input) const {
  if (!context_.hasIn(input)) return *this;
  const TensorInfo &given = context_.in(input), &expected = op_->outInfo(output);
  context_.require(given.dataType() == expected.dataType() && given.shape() == expected.shape(),
                   "input {} does not fit output {} of its {}: got {}, expected {}. Give the tensors and attributes of "
                   "one {}",
                   input, output, op_->opType(), given, expected, op_->opType());
  return *this;
}

void inferGradientOf(InferContext &c, const std::string &type, const std::vector<TensorInfo> &inputs, Attributes more) {
  ForwardOp(c, type, inputs, std::move(more)).gives(0, 0);
  c.out(0, inputs.front());
}

}  // namespace popart::ops
