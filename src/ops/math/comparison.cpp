// Comparison, logical and bitwise operators, element-wise with NumPy broadcasting. None has a gradient.
#include "ops/catalog.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

constexpr char kNoGradient[] = "the result is a step function of its inputs; detach it from the loss";

OpDef broadcastRow(const char *type, std::vector<OpVersion> versions, TypeSet types, InferFn infer) {
  return OpDef("ai.onnx", type, std::move(versions))
      .input("a", types, "T")
      .input("b", types, "T")
      .output("y")
      .infer(std::move(infer))
      .traits(Trait::Elementwise)
      .noGrad(kNoGradient);
}
OpDef notRow(const char *type, std::vector<OpVersion> versions, TypeSet types) {
  return OpDef("ai.onnx", type, std::move(versions))
      .input("x", types)
      .output("y")
      .traits(Trait::Elementwise)
      .noGrad(kNoGradient);
}

}  // namespace

OpDefs comparisonOps() {
  const OpVersion since = 18;
  return {
      broadcastRow("Equal", {1, 7, 11, 13, 19}, kAllTypes, inferBroadcastBool).traits(Trait::Commutative).doc("a = b."),
      broadcastRow("Less", {1, 7, 9, 13}, kNumeric, inferBroadcastBool).doc("a < b."),
      broadcastRow("LessOrEqual", {12, 16}, kNumeric, inferBroadcastBool).doc("a <= b."),
      broadcastRow("Greater", {1, 7, 9, 13}, kNumeric, inferBroadcastBool).doc("a > b."),
      broadcastRow("GreaterOrEqual", {12, 16}, kNumeric, inferBroadcastBool).doc("a >= b."),
      broadcastRow("And", {1, 7}, kBool, inferBroadcastBool).traits(Trait::Commutative).doc("a and b."),
      broadcastRow("Or", {1, 7}, kBool, inferBroadcastBool).traits(Trait::Commutative).doc("a or b."),
      broadcastRow("Xor", {1, 7}, kBool, inferBroadcastBool).traits(Trait::Commutative).doc("Either a or b."),
      notRow("Not", {1}, kBool).doc("not x."),
      broadcastRow("BitwiseAnd", {since}, kInts, inferBroadcast)
          .traits(Trait::Commutative)
          .onnx("ai.graphcore", "BitwiseAnd", {1})
          .doc("Bitwise and."),
      broadcastRow("BitwiseOr", {since}, kInts, inferBroadcast)
          .traits(Trait::Commutative)
          .onnx("ai.graphcore", "BitwiseOr", {1})
          .doc("Bitwise or."),
      broadcastRow("BitwiseXor", {since}, kInts, inferBroadcast)
          .traits(Trait::Commutative)
          .onnx("ai.graphcore", "BitwiseXor", {1})
          .doc("Bitwise exclusive or."),
      broadcastRow("BitwiseXnor", {1}, kInts, inferBroadcast)
          .traits(Trait::Commutative)
          .notOnnx()
          .onnx("ai.graphcore", "BitwiseXnor", {1})
          .doc("Bitwise equality: 1 where the bits of both are equal."),
      notRow("BitwiseNot", {since}, kInts).onnx("ai.graphcore", "BitwiseNot", {1}).doc("Bitwise not."),
      broadcastRow("BitShift", {11}, kUnsignedInts, inferBroadcast)
          .attrRequired("direction", AttributeType::String)
          .infer([](InferContext &c) {
            const std::string &direction = c.attrString("direction");
            c.require(direction == "LEFT" || direction == "RIGHT",
                      "unknown direction: got '{}', expected LEFT or RIGHT", direction);
            inferBroadcast(c);
          })
          .doc("a shifted by b bits; shifting by the width of the type or more gives 0."),
  };
}

}  // namespace popart::ops
