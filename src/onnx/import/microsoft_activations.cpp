// Activations of com.microsoft, and operators that ONNX Runtime fuses with them: biases, softmax, dropout.
#include <popart/error.hpp>

#include "onnx/import/microsoft.hpp"

namespace popart::onnx::microsoft {
namespace {

void importGelu(NodeContext &n) {
  Composer to(n);
  to.result(0, to.input(0).op("GeluErf"));
}

void importBiasGelu(NodeContext &n) {
  Composer to(n);
  to.result(0, (to.input(0) + to.input(1)).op("GeluErf"));
}

// The tanh approximation.
void importFastGelu(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0), bias = to.optionalInput(1);
  to.result(0, (bias.valid() ? x + bias : x).op("Gelu"));
}

void importQuickGelu(NodeContext &n) {
  Composer to(n);
  to.result(0, to.input(0).op("Swish", {}, {{"alpha", n.attr("alpha", 1.702f)}}));
}

// left * gelu(right) of the halves of x + bias.
void importBiasSplitGelu(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0) + to.input(1);
  n.require(x.rank() >= 1 && x.dim(-1) % 2 == 0, "the last dimension must be even: got {}", x.info());
  const int64_t half = x.dim(-1) / 2;
  const std::vector<Value> parts = x.split(x.rank() - 1, {half, half});
  to.result(0, parts[0] * parts[1].op("GeluErf"));
}

void importBiasAdd(NodeContext &n) {
  Composer to(n);
  to.result(0, to.input(0) + to.input(1) + to.input(2));
}

void importGatedAdd(NodeContext &n) {
  Composer to(n);
  to.result(0, to.input(0) + to.input(1) * to.input(2));
}

// silu(scale x).
void importScaledSilu(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0);
  const Value scaled = n.hasIn(1) ? (x.cast(DataType::FLOAT) * to.input(1).cast(DataType::FLOAT)).cast(x.type())
                                  : x * n.attr("alpha", 1.0f);
  to.result(0, scaled.op("Swish", {}, {{"alpha", 1.0f}}));
}

// Softmax over all dimensions from `axis` on. If the bias has size 1 in the dimensions along which it is broadcast,
// both forms of broadcasting are NumPy's.
void importBiasSoftmax(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0), sum = x + to.input(1);
  n.require(sum.shape() == x.shape(), "the bias must broadcast to the data: got {} for {}", n.info(1), x.info());
  constexpr int64_t kFlattens = 11;  // the newest version whose softmax works on a matrix
  to.result(0, to.node({"Softmax", kFlattens}, {sum}, {{"axis", n.attr<int64_t>("axis", 1)}}));
}

// A bit for each element, 32 in a number, the first in the lowest bit.
Value bitsOf(const Value &mask) {
  constexpr int64_t kBits = 32;
  Composer &to = mask.composer();
  const int64_t count = mask.info().nelms(), words = (count + kBits - 1) / kBits;
  Value flat = mask.cast(DataType::INT64).reshape({count});
  if (words * kBits > count) flat = concat({flat, to.zeros(DataType::INT64, {words * kBits - count})}, 0);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < kBits; ++i) places.push_back(int64_t{1} << i);
  return (flat.reshape({words, kBits}) * to.ints(places)).sum({1}, false).cast(DataType::UINT32);
}

// Dropout of data [+ bias] [+ residual afterwards]; `ratio`: the first of the inputs ratio and training_mode.
void importDropout(NodeContext &n, const Value &x, const Value &residual, int ratio, bool packsMask) {
  Composer to(n);
  constexpr int64_t kVersion = 13;
  Attributes attributes;
  if (const AttributeValue *seed = n.attributes().find("seed")) attributes.set("seed", *seed);
  const int outputs = n.hasOut(1) ? 2 : 1;
  const std::vector<Value> dropped =
      to.nodes({"Dropout", kVersion}, {x, to.optionalInput(ratio), to.optionalInput(ratio + 1)}, outputs, attributes);
  to.result(0, residual.valid() ? dropped[0] + residual : dropped[0]);
  if (outputs == 2) to.result(1, packsMask ? bitsOf(dropped[1]) : dropped[1]);
}

void importBiasDropout(NodeContext &n) {
  Composer to(n);
  importDropout(n, to.input(0) + to.input(1), to.optionalInput(2), 3, n.type() == "BitmaskBiasDropout");
}

void importBitmaskDropout(NodeContext &n) {
  Composer to(n);
  importDropout(n, to.input(0), Value(), 1, true);
}

}  // namespace

std::vector<ImportRule> activationRules() {
  const OperatorNames biasDropout = {"data bias residual ratio training_mode", "output mask", "seed"};
  return {{kDomain, "Gelu", importGelu, {"X", "Y"}},
          {kDomain, "BiasGelu", importBiasGelu, {"A B", "C"}},
          {kDomain, "FastGelu", importFastGelu, {"X bias", "Y"}},
          {kDomain, "QuickGelu", importQuickGelu, {"X", "Y", "alpha"}},
          {kDomain, "BiasSplitGelu", importBiasSplitGelu, {"X bias", "Y"}},
          {kDomain, "BiasAdd", importBiasAdd, {"X bias skip", "Y"}},
          {kDomain, "GatedAdd", importGatedAdd, {"X Y gate", "output"}},
          {kDomain, "ScaledSiLU", importScaledSilu, {"X scale", "Y", "alpha"}},
          {kDomain, "BiasSoftmax", importBiasSoftmax, {"data bias", "output", "axis is_inner_broadcast"}},
          {kDomain, "BiasDropout", importBiasDropout, biasDropout},
          {kDomain, "BitmaskBiasDropout", importBiasDropout, biasDropout},
          {kDomain, "BitmaskDropout", importBitmaskDropout, {"data ratio training_mode", "output mask", "seed"}}};
}

}  // namespace popart::onnx::microsoft
