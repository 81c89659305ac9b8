// Element-wise operators and Gemm: old broadcasting attributes, limits as inputs, composite operators.
#include <cmath>
#include <limits>

#include <popart/error.hpp>

#include "base/small_types.hpp"
#include "onnx/import/dequantised.hpp"
#include "onnx/importer.hpp"

namespace popart::onnx {
namespace {

// Gemm: alpha * op(A) . op(B) + beta * C  ->  (Transpose) MatMul, Scale, (Scale) Add.
TensorIndex scaled(NodeContext &n, TensorIndex t, float factor) {
  if (factor == 1.0f) return t;
  if (isFloatingPoint(n.info(t).dataType())) return n.emit("Scale", {t}, {{"scale", factor}});
  return n.emit("Mul", {t, n.literalLike(t, factor)});
}

TensorIndex matrixOperand(NodeContext &n, int input, const char *transpose) {
  n.require(n.info(input).rank() == 2, "input {} must be a matrix: got {}", input, n.info(input));
  if (n.attr<int64_t>(transpose, 0) == 0) return n.in(input);
  const TensorIndex transposed = n.emit("Transpose", {n.in(input)}, {{"perm", std::vector<int64_t>{1, 0}}});
  rememberTransposed(n, n.in(input), transposed);
  return transposed;
}

void importGemm(NodeContext &n) {
  const float alpha = n.attr("alpha", 1.0f);
  const float beta = n.attr("beta", 1.0f);
  const TensorIndex a = matrixOperand(n, 0, "transA");
  const TensorIndex b = packedOperand(n, a, matrixOperand(n, 1, "transB"));
  const bool addsC = n.hasIn(2) && beta != 0.0f;
  if (alpha == 1.0f && !addsC) return n.result(0, "MatMul", {a, b});
  const TensorIndex product = n.emit("MatMul", {a, b});
  if (addsC) return n.result(0, "Add", {scaled(n, product, alpha), scaled(n, n.in(2), beta)});
  n.resultTensor(0, scaled(n, product, alpha));
}

void importMatMul(NodeContext &n) {
  const TensorIndex b = packedOperand(n, n.in(0), n.in(1));
  if (b == n.in(1)) return importRegular(n);
  n.result(0, "MatMul", {n.in(0), b});
}

// Opset 6: `broadcast` = 1 aligns B's dimensions with those of A from `axis` on (default: the last ones).
void importLegacyBroadcast(NodeContext &n) {
  const bool broadcasts = n.attr<int64_t>("broadcast", 0) != 0;
  const int64_t axisAttribute = n.attr<int64_t>("axis", std::numeric_limits<int64_t>::max());
  n.attributes().erase("broadcast");
  n.attributes().erase("axis");
  n.attributes().erase("consumed_inputs");
  if (n.opset() >= 7) return importRegular(n);
  const int64_t rankA = n.info(0).rank();
  const int64_t rankB = n.info(1).rank();
  if (!broadcasts) {
    n.require(n.info(0).shape() == n.info(1).shape(), "shapes differ and broadcast is 0: got {} and {}", n.info(0),
              n.info(1));
    return n.results(n.type(), {n.in(0), n.in(1)});
  }
  n.require(rankB <= rankA, "second input has more dimensions than the first: got {} and {}", n.info(0), n.info(1));
  int64_t axis = rankA - rankB;
  if (axisAttribute != std::numeric_limits<int64_t>::max())
    axis = axisAttribute < 0 ? axisAttribute + rankA : axisAttribute;
  n.require(axis >= 0 && axis + rankB <= rankA, "attribute axis is out of range: got {} for shapes {} and {}", axis,
            n.info(0), n.info(1));
  Shape shape = n.info(1).shape();
  shape.insert(shape.end(), rankA - axis - rankB, 1);
  const TensorIndex b = shape == n.info(1).shape()
                            ? n.in(1)
                            : n.emit("Reshape", {n.in(1)}, {{"shape", shape}, {"allowzero", int64_t{1}}});
  n.results(n.type(), {n.in(0), b});
}

// compat: FLOAT16 times one FLOAT number, on either side, is FLOAT16, as in PopART
// (tests/python/onnx/test_mixed_products.py). The product is rounded once.
void importMul(NodeContext &n) {
  const auto isNumber = [&](int i) { return n.info(i).dataType() == DataType::FLOAT && n.info(i).nelms() == 1; };
  for (const int half : {0, 1}) {
    if (n.info(half).dataType() != DataType::FLOAT16 || !isNumber(1 - half)) continue;
    const auto as = [](DataType type) { return Attributes{{"to", int64_t{toOnnxDataType(type)}}}; };
    const TensorIndex wide = n.emit("Cast", {n.in(half)}, as(DataType::FLOAT));
    const TensorIndex product = n.emit("Mul", {wide, n.in(1 - half)});
    return n.result(0, "Cast", {product}, as(DataType::FLOAT16));
  }
  importLegacyBroadcast(n);
}

void importClip(NodeContext &n) {
  Attributes limits;
  if (n.opset() < 11) {
    for (const char *name : {"min", "max"})
      if (n.hasAttr(name) && std::abs(n.attr(name, 0.0f)) < std::numeric_limits<float>::max())
        limits.set(name, n.attr(name, 0.0f));
    return n.result(0, "Clip", {n.in(0)}, limits);
  }
  bool fixed = n.info(0).dataType() == DataType::FLOAT || n.info(0).dataType() == DataType::FLOAT16;
  for (int i : {1, 2}) fixed = fixed && (!n.hasIn(i) || n.isConstant(n.in(i)));
  if (fixed) {
    if (n.hasIn(1)) limits.set("min", static_cast<float>(n.constantNumber(1)));
    if (n.hasIn(2)) limits.set("max", static_cast<float>(n.constantNumber(2)));
    return n.result(0, "Clip", {n.in(0)}, limits);
  }
  // min(max(x, low), high), in this order: with low > high the result is high.
  if (n.hasIn(1) && n.hasIn(2)) return n.result(0, "Min", {n.emit("Max", {n.in(0), n.in(1)}), n.in(2)});
  if (n.hasIn(1)) return n.result(0, "Max", {n.in(0), n.in(1)});
  if (n.hasIn(2)) return n.result(0, "Min", {n.in(0), n.in(2)});
  n.resultTensor(0, n.in(0));
}

// Since version 28 floor division can be applied to floating-point numbers.
void importMod(NodeContext &n) {
  const bool signOfDividend = n.attr<int64_t>("fmod", 0) != 0;
  n.require(signOfDividend || n.opset() >= 28 || (typeBit(n.info(0).dataType()) & kFloats) == 0,
            "attribute fmod must be 1 for floating-point numbers before version 28: got 0 for {}. Set it, or use "
            "Remainder of ai.graphcore for the sign of the divisor",
            n.info(0));
  n.result(0, signOfDividend ? "Fmod" : "Remainder", {n.in(0), n.in(1)});
}

// The unsigned type of the same size; the type itself if it is not a signed integer.
DataType unsignedLike(DataType type) {
  switch (type) {
    case DataType::INT8:
      return DataType::UINT8;
    case DataType::INT16:
      return DataType::UINT16;
    case DataType::INT32:
      return DataType::UINT32;
    case DataType::INT64:
      return DataType::UINT64;
    default:
      return type;
  }
}

// BitShift-28 of signed integers: bits move as in unsigned ones; a right shift of a negative number fills with ones,
// x >> y = ~(~x >> y). A negative count becomes one larger than the width.
void importBitShift(NodeContext &n) {
  const DataType type = n.info(0).dataType(), bits = unsignedLike(type);
  if (bits == type) return importRegular(n);
  n.require(n.info(1).dataType() == type, "inputs differ in type: got {} and {}", n.info(0), n.info(1));
  const Attributes direction = n.attributes();
  auto cast = [&](TensorIndex t, DataType to) { return n.emit("Cast", {t}, {{"to", int64_t{toOnnxDataType(to)}}}); };
  auto shifted = [&](TensorIndex t) {
    return cast(n.emit("BitShift", {cast(t, bits), cast(n.in(1), bits)}, direction), type);
  };
  if (n.attr<std::string>("direction", "") != "RIGHT") return n.resultTensor(0, shifted(n.in(0)));
  const TensorIndex negative = n.emit("Less", {n.in(0), n.literalLike(n.in(0), 0.0)});
  const TensorIndex inverted = n.emit("BitwiseNot", {n.in(0)});
  const TensorIndex result = shifted(n.emit("Where", {negative, inverted, n.in(0)}));
  n.result(0, "Where", {negative, n.emit("BitwiseNot", {result}), result});
}

// PRelu-6: one slope per channel, dimension 1; from opset 7 on slopes broadcast from the right.
void importPRelu(NodeContext &n) {
  n.attributes().erase("consumed_inputs");
  const int64_t rank = n.info(0).rank();
  if (n.opset() >= 7 || n.info(1).rank() != 1 || n.info(1).nelms() == 1 || rank <= 2)
    return n.result(0, "PRelu", {n.in(0), n.in(1)});
  Shape shape(static_cast<size_t>(rank - 1), 1);
  shape[0] = n.info(1).nelms();
  n.result(0, "PRelu", {n.in(0), n.emit("Reshape", {n.in(1)}, {{"shape", shape}})});
}

void importRound(NodeContext &n) { n.result(0, "NearbyInt", {n.in(0)}); }

void importGelu(NodeContext &n) {
  const std::string approximate = n.attr<std::string>("approximate", "none");
  n.require(approximate == "none" || approximate == "tanh",
            "attribute approximate is unknown: got '{}', expected 'none' or 'tanh'", approximate);
  n.result(0, approximate == "tanh" ? "Gelu" : "GeluErf", {n.in(0)});
}

// Attributes saturate and round_mode only affect small types.
void castTo(NodeContext &n, DataType type) {
  Attributes attributes = {{"to", int64_t{toOnnxDataType(type)}}};
  for (const char *name : {"saturate", "round_mode"})
    if (const AttributeValue *value = n.attributes().find(name); value && isSmall(type)) attributes.set(name, *value);
  n.result(0, "Cast", {n.in(0)}, std::move(attributes));
}

void importCast(NodeContext &n) {
  n.require(n.hasAttr("to"), "attribute 'to' is missing: expected an ONNX type number");
  castTo(n, fromOnnxDataType(static_cast<int>(n.attr<int64_t>("to", 0))));
}

void importCastLike(NodeContext &n) { castTo(n, n.info(1).dataType()); }

// Whether `to` can represent every number of `from`.
bool isWidened(DataType from, DataType to) {
  return isFloatingPoint(from) && !isSmall(from) && isFloatingPoint(to) &&
         getDataTypeInfo(from).nbytes < getDataTypeInfo(to).nbytes;
}

// Small types can only be converted, so the test is on floats with their values. If x was widened by a Cast (PyTorch
// exports torch.isinf of a float as IsInf of a DOUBLE), the test is on the original values.
void importFloatTest(NodeContext &n) {
  TensorIndex x = n.in(0);
  const Op *cast = n.graph().tensor(x).getProducerUnsafe();
  if (cast && cast->is("Cast") && isWidened(cast->inInfo(0).dataType(), n.info(x).dataType())) x = cast->inputs()[0];
  if (isSmall(n.info(x).dataType())) x = n.emit("Cast", {x}, {{"to", int64_t{toOnnxDataType(DataType::FLOAT)}}});
  n.result(0, n.type(), {x}, n.attributes());
}

// With one input the operator is the identity.
void importVariadic(NodeContext &n) {
  n.attributes().erase("consumed_inputs");
  if (n.inputCount() == 1) return n.resultTensor(0, n.in(0));
  importRegular(n);
}

void importPow(NodeContext &n) {
  if (n.opset() < 7) return importLegacyBroadcast(n);
  n.result(0, "Pow", {n.in(0), n.in(1)});
}

// Swish-24: x * sigmoid(alpha * x).
void importSwish(NodeContext &n) {
  const float alpha = n.attr("alpha", 1.0f);
  if (alpha == 1.0f) return n.result(0, "Swish", {n.in(0)});
  n.result(0, "Mul", {n.in(0), n.emit("Sigmoid", {scaled(n, n.in(0), alpha)})});
}

}  // namespace

std::vector<ImportRule> mathRules() {
  std::vector<ImportRule> rules = {
      {"ai.onnx", "Gemm", importGemm},         {"ai.onnx", "Mul", importMul},
      {"ai.onnx", "Clip", importClip},         {"ai.onnx", "Mod", importMod},
      {"ai.onnx", "Round", importRound},       {"ai.onnx", "Gelu", importGelu},
      {"ai.onnx", "Cast", importCast},         {"ai.onnx", "CastLike", importCastLike},
      {"ai.onnx", "Pow", importPow},           {"ai.onnx", "Swish", importSwish},
      {"ai.onnx", "BitShift", importBitShift}, {"ai.onnx", "PRelu", importPRelu},
      {"ai.onnx", "IsNaN", importFloatTest},   {"ai.onnx", "IsInf", importFloatTest},
      {"ai.onnx", "MatMul", importMatMul},
  };
  for (const char *type : {"Add", "Sub", "Div", "And", "Or", "Xor", "Equal", "Greater", "Less"})
    rules.push_back({"ai.onnx", type, importLegacyBroadcast});
  for (const char *type : {"Sum", "Mean", "Max", "Min"}) rules.push_back({"ai.onnx", type, importVariadic});
  return rules;
}

}  // namespace popart::onnx
