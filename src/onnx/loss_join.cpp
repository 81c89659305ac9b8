// A walk from the loss to the reductions that make it.
#include "onnx/loss_join.hpp"

#include <algorithm>

#include "onnx/training/operand_slots.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

using Kind = LossJoin::Kind;

const onnx_proto::AttributeProto *attributeOf(const FlatNode &node, const char *name) {
  if (!node.proto) return nullptr;
  const auto &all = node.proto->attribute();
  const auto found = std::ranges::find_if(all, [&](const auto &attribute) { return attribute.name() == name; });
  return found == all.end() ? nullptr : &*found;
}

// "sum", "mean" or "none", of ONNX's operators and of PopART's.
std::string reductionOf(const FlatNode &node) {
  const onnx_proto::AttributeProto *reduction = attributeOf(node, "reduction");
  if (!reduction) return "mean";
  if (!reduction->s().empty()) return reduction->s();
  constexpr const char *kNames[] = {"sum", "mean", "none"};
  return reduction->i() >= 0 && reduction->i() < 3 ? kNames[reduction->i()] : "none";
}

class LossWalk {
 public:
  explicit LossWalk(const Model &model) : content_(model.content()), model_(flatModel(content_)) {}

  LossJoin of(const TensorId &loss) {
    const auto found = std::ranges::find(model_.nameOf, loss);
    if (found == model_.nameOf.end()) return {};
    LossJoin join;
    join.kind = follow(static_cast<int>(found - model_.nameOf.begin()), join);
    return join;
  }

 private:
  const FlatNode *producer(int value) const {
    const int node = value < 0 ? -1 : model_.producer[static_cast<size_t>(value)];
    return node < 0 ? nullptr : &model_.nodes[static_cast<size_t>(node)];
  }
  bool isStatic(int value) const { return value < 0 || model_.isStatic[static_cast<size_t>(value)]; }
  static int input(const FlatNode &node, size_t i) { return i < node.inputs.size() ? node.inputs[i] : -1; }
  TensorId nameOf(int value) const { return value < 0 ? "" : model_.nameOf[static_cast<size_t>(value)]; }

  // The value behind moves of elements and constant factors.
  int behindFactors(int value) const {
    while (const FlatNode *node = producer(value)) {
      const bool isMove = node->type == "Neg" || readingOf(*node, 0) == Reading::Carried;
      if (!isMove && node->type != "Mul" && node->type != "Div") break;
      const bool isSecond = node->type == "Mul" && isStatic(input(*node, 0));
      if (!isMove && !isStatic(input(*node, isSecond ? 0 : 1))) break;
      value = input(*node, isSecond ? 1 : 0);
    }
    return value;
  }

  Kind follow(int value, LossJoin &join) const {
    const FlatNode *node = producer(behindFactors(value));
    if (!node || isStatic(value)) return Kind::Mean;  // a penalty of weights is the same in all parts
    if (isOneOf(node->type, {"Add", "Sub", "Sum"})) return ofTerms(*node, join);
    if (node->type == "ReduceSum") return isMeanOfSamples(input(*node, 0)) ? Kind::Mean : Kind::Sum;
    if (isOneOf(node->type, {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", "Nll"})) {
      if (const std::string reduction = reductionOf(*node); reduction != "mean")
        return reduction == "sum" ? Kind::Sum : Kind::Mean;
      return ofClasses(*node, join);
    }
    if (isOneOf(node->type, {"L1", "IdentityLoss", "Ctc"}) && reductionOf(*node) == "sum") return Kind::Sum;
    return Kind::Mean;
  }

  Kind ofClasses(const FlatNode &node, LossJoin &join) const {
    const onnx_proto::AttributeProto *ignored = attributeOf(node, node.type == "Nll" ? "ignoreIndex" : "ignore_index");
    CountedMean mean{nameOf(input(node, 1)), nameOf(input(node, 2)), ignored ? ignored->i() : 0, ignored != nullptr};
    if (!mean.ignores && mean.weight.empty()) return Kind::Mean;
    join.counted.push_back(std::move(mean));
    return Kind::Counted;
  }

  Kind ofTerms(const FlatNode &node, LossJoin &join) const {
    std::vector<Kind> kinds;
    for (const int term : node.inputs) kinds.push_back(follow(term, join));
    const auto is = [&](Kind kind) { return std::ranges::find(kinds, kind) != kinds.end(); };
    if (is(Kind::Mixed) || (is(Kind::Sum) && (is(Kind::Mean) || is(Kind::Counted)))) return Kind::Mixed;
    return kinds.empty() ? Kind::Mean : is(Kind::Sum) ? Kind::Sum : Kind::Mean;
  }

  // Whether the samples were averaged before: a mean over axis 0 or over all axes.
  bool isMeanOfSamples(int value) const {
    const FlatNode *node = producer(behindFactors(value));
    if (!node || node->type != "ReduceMean") return false;
    if (const onnx_proto::AttributeProto *axes = attributeOf(*node, "axes"))
      return std::ranges::find(axes->ints(), 0) != axes->ints().end();
    const std::vector<int64_t> axes = integersOf(input(*node, 1));
    return axes.empty() || std::ranges::find(axes, 0) != axes.end();
  }

  // Of an initializer or constant; empty for others.
  std::vector<int64_t> integersOf(int value) const {
    if (value < 0) return {};
    if (const FlatNode *node = producer(value)) {
      const onnx_proto::AttributeProto *given = attributeOf(*node, "value");
      return given ? tensorData(given->t(), nameOf(value), content_).asInts() : std::vector<int64_t>{};
    }
    const auto &all = content_.proto->graph().initializer();
    const auto found = std::ranges::find_if(all, [&](const auto &tensor) { return tensor.name() == nameOf(value); });
    return found == all.end() ? std::vector<int64_t>{} : tensorData(*found, nameOf(value), content_).asInts();
  }

  const ModelContent &content_;
  FlatModel model_;
};

}  // namespace

LossJoin lossJoin(const Model &model, const TensorId &loss) { return LossWalk(model).of(loss); }

}  // namespace popart::onnx
