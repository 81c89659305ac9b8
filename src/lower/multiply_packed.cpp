#include "lower/multiply_packed.hpp"

#include <algorithm>
#include <optional>

#include "lower/try_replace.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

constexpr int kPacked = 0, kScale = 1, kZero = 2;  // inputs of DequantizePacked

const TensorData *constantOf(const Graph &graph, TensorIndex t) {
  const Tensor &tensor = graph.tensor(t);
  return tensor.tensorType() == TensorType::Const ? &tensor.tensorData() : nullptr;
}

bool isOutput(const Graph &graph, TensorIndex t) {
  return std::ranges::find(graph.outputs(), t) != graph.outputs().end();
}

// A product of a matrix, or stack of matrices, and the transposed result of DequantizePacked.
bool isPlainProduct(const Op &op) {
  return op.is(Role::FusedMatMul) && op.attrInt("trans_a") == 0 && op.attrInt("trans_b") != 0 &&
         !op.hasAttr("perm_a") && !op.hasAttr("perm_b") && !op.hasAttr("perm_out") &&
         op.inInfo(0).dataType() == DataType::FLOAT && op.inRank(1) == 2;
}

// The numbers that an op unpacks from a constant, unscaled: with scale 1 and without a zero point.
std::optional<TensorData> plainNumbers(const Op &unpack) {
  const Graph &graph = unpack.getGraph();
  if (!unpack.is(Role::DequantizePacked) || unpack.hasInput(kZero) || unpack.attrFloat("zero_point") != 0) return {};
  const TensorData *packed = constantOf(graph, unpack.inputs()[kPacked]),
                   *scale = constantOf(graph, unpack.inputs()[kScale]);
  if (!packed || !scale || !std::ranges::all_of(scale->asDoubles(), [](double v) { return v == 1; })) return {};
  const Shape &shape = unpack.outShape(0);
  const int64_t bits = unpack.attrInt("bits"), perByte = 8 / bits, bytes = unpack.inShape(kPacked)[1];
  TensorData numbers(TensorInfo(DataType::UINT8, shape));
  auto *to = static_cast<uint8_t *>(numbers.mutableData());
  const auto *from = static_cast<const uint8_t *>(packed->data());
  for (int64_t r = 0; r < shape[0]; ++r)
    for (int64_t c = 0; c < shape[1]; ++c)
      *to++ = static_cast<uint8_t>((from[r * bytes + c / perByte] >> (c % perByte * bits)) & ((1 << bits) - 1));
  return numbers;
}

// Erases ops whose results nothing reads, the last ones first.
void eraseUnread(Graph &graph, std::initializer_list<Op *> ops) {
  for (Op *op : ops) {
    if (!op || !graph.tensor(op->outputs()[0]).uses().empty() || isOutput(graph, op->outputs()[0])) return;
    graph.eraseOpAndOutputs(op->index());
  }
}

void readPacked(Graph &graph, Op &product, const executable::Backend &backend) {
  Op *unpack = graph.tensor(product.inputs()[1]).getProducerUnsafe();
  if (!unpack || !unpack->is(Role::DequantizePacked)) return;
  for (int i : {kPacked, kScale})
    if (!constantOf(graph, unpack->inputs()[static_cast<size_t>(i)])) return;
  std::vector<TensorIndex> inputs = {product.inputs()[0], unpack->inputs()[kPacked], unpack->inputs()[kScale], {}};
  Op *unpackZeros = nullptr;
  TensorIndex made;
  if (unpack->hasInput(kZero)) {
    inputs.back() = unpack->inputs()[kZero];
    unpackZeros = graph.tensor(inputs.back()).getProducerUnsafe();
    if (unpackZeros) {
      const auto numbers = plainNumbers(*unpackZeros);
      if (!numbers) return;
      inputs.back() = made = graph.addConstant(graph.freeId(unpackZeros->outId(0) + "/numbers"), *numbers);
    } else if (!constantOf(graph, inputs.back())) {
      return;
    }
  }
  inputs.insert(inputs.end(), product.inputs().begin() + 2, product.inputs().end());
  Attributes attributes = unpack->attributes();
  if (product.hasAttr("epilogue")) attributes.set("epilogue", product.attributes().getAttribute<GraphRef>("epilogue"));
  const Op *replaced =
      tryReplace(graph, {opDef("PackedMatMul"), inputs, attributes, inheritSettings(product, graph), product.outputs()},
                 [&](const Op &op) {
                   std::string reason;
                   return backend.supports(op, reason);
                 });
  if (replaced) {
    graph.eraseOpAndOutputs(product.index());
    eraseUnread(graph, {unpack, unpackZeros});
  } else if (made.valid()) {
    graph.eraseTensor(made);
  }
}

}  // namespace

void multiplyPacked(Ir &flat, const executable::Backend &backend) {
  for (Graph *graph : flat.getAllGraphs())
    for (OpIndex o : schedule::orderOps(*graph))
      if (graph->alive(o) && isPlainProduct(graph->op(o))) readPacked(*graph, graph->op(o), backend);
}

}  // namespace popart::lower
