// Quantised operators of com.microsoft. Element-wise ones become the operator between DequantizeLinear and
// QuantizeLinear; products are computed on integers.
#include <numeric>

#include <popart/error.hpp>

#include "onnx/import/microsoft_attention.hpp"
#include "onnx/import/quantised.hpp"

namespace popart::onnx::microsoft {
namespace {

constexpr int64_t kQuantiseVersion = 21, kFlatSoftmaxVersion = 11, kSoftmaxVersion = 13;

Value number(const Value &x) { return x.info().nelms() == 1 ? x.reshape({}) : x; }

// Input `i` as floats; its scale and zero point, which may be absent, are the next two.
Value real(Composer &to, int i) {
  const Value zero = to.optionalInput(i + 2);
  return dequantised(to.input(i), zero.valid() ? number(zero) : Value()) * number(to.input(i + 1));
}

// y as integers: the scale is input `scale`, the zero point the next one; without it, 0 of `type`.
Value quantised(Composer &to, const Value &y, int scale, DataType type) {
  const Value zero = to.optionalInput(scale + 1);
  return saturated(y / number(to.input(scale)), zero.valid() ? number(zero) : Value(),
                   zero.valid() ? zero.type() : type);
}

void importQLinearAdd(NodeContext &n) {
  Composer to(n);
  const Value a = real(to, 0), b = real(to, 3);
  to.result(0, quantised(to, n.type() == "QLinearMul" ? a * b : a + b, 6, to.input(0).type()));
}

void importQLinearSigmoid(NodeContext &n) {
  Composer to(n);
  to.result(0, quantised(to, sigmoid(real(to, 0)), 3, to.input(0).type()));
}

void importQLinearLeakyRelu(NodeContext &n) {
  Composer to(n);
  const Value y = real(to, 0).op("LeakyRelu", {}, {{"alpha", n.attr("alpha", 0.01f)}});
  to.result(0, quantised(to, y, 3, to.input(0).type()));
}

// `opset`: the version of the Softmax that was quantised.
void importQLinearSoftmax(NodeContext &n) {
  Composer to(n);
  const bool isFlat = n.attr<int64_t>("opset", kSoftmaxVersion) < kSoftmaxVersion;
  const Value y = to.node({"Softmax", isFlat ? kFlatSoftmaxVersion : kSoftmaxVersion}, {real(to, 0)},
                          {{"axis", n.attr<int64_t>("axis", -1)}});
  to.result(0, quantised(to, y, 3, to.input(0).type()));
}

// Scale and zero point of the result, then three inputs for each part. A part with the same ones does not change.
void importQLinearConcat(NodeContext &n) {
  Composer to(n);
  n.require(n.inputCount() >= 3 && (n.inputCount() - 2) % 3 == 0,
            "the inputs must be scale and zero point of the result, and three for each part: got {}", n.inputCount());
  std::vector<Value> parts;
  for (int i = 2; i < n.inputCount(); i += 3)
    parts.push_back(n.in(i + 1) == n.in(0) && n.in(i + 2) == n.in(1)
                        ? to.input(i)
                        : quantised(to, real(to, i), 0, to.input(i).type()));
  to.result(0, concat(parts, n.axisOf(n.attr<int64_t>("axis", 0), parts.front().rank())));
}

bool isChannelsLast(const NodeContext &n) { return n.attr<int64_t>("channels_last", 0) != 0; }

void importQLinearAveragePool(NodeContext &n) {
  Composer to(n);
  const bool isLast = isChannelsLast(n);
  const Value x = real(to, 0);
  const Value y = to.node({"AveragePool"}, {isLast ? channelsFirst(x) : x}, windowOf(n));
  to.result(0, quantised(to, isLast ? channelsLast(y) : y, 3, to.input(0).type()));
}

void importQLinearGlobalAveragePool(NodeContext &n) {
  Composer to(n);
  const Value x = real(to, 0);
  n.require(x.rank() >= 3, "the input must have at least three dimensions: got {}", x.info());
  std::vector<int64_t> axes(static_cast<size_t>(x.rank() - 2));
  std::iota(axes.begin(), axes.end(), isChannelsLast(n) ? 1 : 2);
  to.result(0, quantised(to, x.op("ReduceMean", {}, {{"axes", axes}}), 3, to.input(0).type()));
}

void importQLinearReduceMean(NodeContext &n) {
  Composer to(n);
  Attributes attributes = {{"keepdims", n.attr<int64_t>("keepdims", 1)}};
  if (n.hasAttr("axes")) attributes.set("axes", n.attr<std::vector<int64_t>>("axes", {}));
  to.result(0, quantised(to, real(to, 0).op("ReduceMean", {}, attributes), 3, to.input(0).type()));
}

void importQLinearWhere(NodeContext &n) {
  Composer to(n);
  to.result(0, quantised(to, where(to.input(0), real(to, 1), real(to, 4)), 7, to.input(1).type()));
}

// As in ai.onnx; on request x and y have channels last.
void importChannelsQLinearConv(NodeContext &n) {
  Attributes attributes = windowOf(n);
  if (!isChannelsLast(n)) return n.importAs({"QLinearConv"}, n.inputs(), attributes);
  Composer to(n);
  std::vector<Value> inputs = {channelsFirst(to.input(0))};
  for (int i = 1; i < n.inputCount(); ++i) inputs.push_back(to.optionalInput(i));
  to.result(0, channelsLast(to.node({"QLinearConv"}, inputs, attributes)));
}

void importQuantise(NodeContext &n) {
  n.importAs({n.type() == "QuantizeLinear" ? "QuantizeLinear" : "DequantizeLinear", kQuantiseVersion}, n.inputs(),
             {{"axis", n.attr<int64_t>("axis", 1)}});
}

// ---- products

// A scale in the form for a product: one number, or one for each of `columns`.
Value columnScale(const NodeContext &n, const Value &scale, int64_t columns) {
  n.require(scale.info().nelms() == 1 || scale.info().nelms() == columns,
            "a scale must be one number or one for each of {} columns: got {}", columns, scale.info());
  return scale.info().nelms() == 1 ? scale.reshape({}) : scale.reshape({columns});
}

// C, if given, is in steps of the product; without a scale of the result it is FLOAT.
void importQGemm(NodeContext &n) {
  constexpr int kAddend = 6, kScale = 7, kZero = 8;
  Composer to(n);
  const auto matrix = [&](int i, const char *attribute) {
    const Value x = to.input(i);
    n.require(x.rank() == 2, "input {} must be a matrix: got {}", i, x.info());
    return n.attr<int64_t>(attribute, 0) != 0 ? x.transpose({1, 0}) : x;
  };
  const Value a = matrix(0, "transA"), b = matrix(3, "transB"), addend = to.optionalInput(kAddend);
  const int64_t columns = b.dim(1);
  Value ratio = number(to.input(1)) * columnScale(n, to.input(4), columns);
  if (const float alpha = n.attr("alpha", 1.0f); alpha != 1) ratio = ratio * alpha;
  const Value scale = to.optionalInput(kScale), given = to.optionalInput(kZero);
  if (scale.valid()) ratio = ratio / number(scale);
  const Value zero = !scale.valid() ? Value() : given.valid() ? number(given) : to.scalar(a.type(), 0);
  const bool isRow =
      !addend.valid() || addend.info().nelms() == 1 || (addend.info().nelms() == columns && addend.dim(-1) == columns);
  if (isRow) {
    const Value bias =
        !addend.valid() ? Value() : addend.reshape(addend.info().nelms() == 1 ? Shape{} : Shape{columns});
    return to.result(0, integerProduct(n, a, b, to.input(2), to.input(5), {bias, ratio, zero}));
  }
  const Value y = (integerProduct(n, a, b, to.input(2), to.input(5)) + addend).cast(DataType::FLOAT) * ratio;
  to.result(0, scale.valid() ? saturated(y, zero, zero.type()) : y);
}

void importMatMulIntegerToFloat(NodeContext &n) {
  Composer to(n);
  const Value y =
      scaledProduct(to.input(0), to.input(1), to.input(2), to.input(3), to.optionalInput(4), to.optionalInput(5));
  const Value bias = to.optionalInput(6);
  to.result(0, bias.valid() ? y + bias : y);
}

// A is quantised to UINT8 by its range.
void importDynamicQuantizeMatMul(NodeContext &n) {
  Composer to(n);
  const QuantisedValue a = quantisedByRange(to.input(0));
  const Value y = scaledProduct(a.numbers, to.input(1), a.scale, to.input(2), a.zero, to.optionalInput(3));
  const Value bias = to.optionalInput(4);
  to.result(0, bias.valid() ? y + bias : y);
}

void importQAttention(NodeContext &n) {
  constexpr int kMask = 5, kInputZero = 6, kWeightZero = 7, kPast = 8;
  Composer to(n);
  const Value x = to.input(0), weight = to.input(1);
  n.require(x.rank() == 3 && weight.rank() == 2 && weight.dim(1) % 3 == 0,
            "expected input (batch, length, size) and weight (size, 3 hidden): got {} and {}", x.info(), weight.info());
  const Value product =
      scaledProduct(x, weight, to.input(3), to.input(4), to.optionalInput(kInputZero), to.optionalInput(kWeightZero));
  const int64_t hidden = weight.dim(1) / 3;
  importProjected(n, to, product + to.input(2), {hidden, hidden, hidden}, kMask, kPast, Value());
}

// (a - a_zero) (b - b_zero) of elements, in INT32.
void importMulInteger(NodeContext &n) {
  Composer to(n);
  const auto moved = [&](int i) {
    const Value x = to.input(i).cast(DataType::INT32), zero = to.optionalInput(i + 1);
    return zero.valid() ? x - number(zero).cast(DataType::INT32) : x;
  };
  to.result(0, moved(0) * moved(2));
}

void importMatMulInteger16(NodeContext &n) {
  Composer to(n);
  to.result(0, matmul(to.input(0).cast(DataType::INT32), to.input(1).cast(DataType::INT32)));
}

void importReduceSumInteger(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0);
  Attributes attributes = {{"keepdims", n.attr<int64_t>("keepdims", 1)}};
  if (n.hasAttr("axes")) attributes.set("axes", n.attr<std::vector<int64_t>>("axes", {}));
  const DataType type = x.type() == DataType::UINT8 ? DataType::UINT32 : DataType::INT32;
  to.result(0, x.cast(DataType::INT32).op("ReduceSum", {}, attributes).cast(type));
}

// After the eight inputs of both forms come a scale for each of inputs 2 to 6, then a zero point for each.
void importQEmbedLayerNormalization(NodeContext &n) {
  constexpr int kScale = 6, kZero = 11;  // from a table's input to those of its scale and zero point
  Composer to(n);
  embedLayerNormalization(n, to, Value(), [&](int i, const Value &elements) {
    const Value zero = to.optionalInput(i + kZero);
    return dequantised(elements, zero.valid() ? number(zero) : Value()) * number(to.input(i + kScale));
  });
}

}  // namespace

std::vector<ImportRule> quantisedRules() {
  const char *const binary = "A A_scale A_zero_point B B_scale B_zero_point C_scale C_zero_point";
  const char *const unary = "X X_scale X_zero_point Y_scale Y_zero_point";
  return {
      {kDomain,
       "QEmbedLayerNormalization",
       importQEmbedLayerNormalization,
       {"input_ids segment_ids word_embedding_quant position_embedding_quant segment_embedding gamma_quant beta_quant "
        "mask word_embedding_scale position_embedding_scale segment_embedding_scale gamma_scale beta_scale "
        "word_embedding_zero_point position_embedding_zero_point segment_embedding_zero_point gamma_zero_point "
        "beta_zero_point",
        "layernorm_out mask_index_out", "epsilon"}},
      {kDomain, "QLinearAdd", importQLinearAdd, {binary, "C"}},
      {kDomain, "QLinearMul", importQLinearAdd, {binary, "C"}},
      {kDomain, "QLinearSigmoid", importQLinearSigmoid, {unary, "Y"}},
      {kDomain, "QLinearLeakyRelu", importQLinearLeakyRelu, {unary, "Y", "alpha"}},
      {kDomain, "QLinearSoftmax", importQLinearSoftmax, {unary, "Y", "axis opset"}},
      {kDomain,
       "QLinearConcat",
       importQLinearConcat,
       {"Y_scale Y_zero_point inputs", "Y", "axis"},
       false,
       {1},
       NameCheck::Variadic},
      {kDomain,
       "QLinearAveragePool",
       importQLinearAveragePool,
       {unary, "Y", "auto_pad ceil_mode channels_last count_include_pad kernel_shape pads strides"}},
      {kDomain, "QLinearGlobalAveragePool", importQLinearGlobalAveragePool, {unary, "Y", "channels_last"}},
      {kDomain,
       "QLinearReduceMean",
       importQLinearReduceMean,
       {"data data_scale data_zero_point reduced_scale reduced_zero_point", "reduced", "axes keepdims"}},
      {kDomain,
       "QLinearWhere",
       importQLinearWhere,
       {"condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point", "Z"}},
      {kDomain,
       "QLinearConv",
       importChannelsQLinearConv,
       {"x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B", "y",
        "auto_pad channels_last dilations group kernel_shape pads strides"}},
      {kDomain, "QuantizeLinear", importQuantise, {"x y_scale y_zero_point", "y", "axis"}},
      {kDomain, "DequantizeLinear", importQuantise, {"x x_scale x_zero_point", "y", "axis"}},
      {kDomain,
       "QGemm",
       importQGemm,
       {"A a_scale a_zero_point B b_scale b_zero_point C y_scale y_zero_point", "Y", "alpha transA transB"}},
      {kDomain,
       "MatMulIntegerToFloat",
       importMatMulIntegerToFloat,
       {"A B a_scale b_scale a_zero_point b_zero_point bias", "Y"}},
      {kDomain, "DynamicQuantizeMatMul", importDynamicQuantizeMatMul, {"A B b_scale b_zero_point bias", "Y"}},
      {kDomain,
       "QAttention",
       importQAttention,
       {"input weight bias input_scale weight_scale mask_index input_zero_point weight_zero_point past",
        "output present", "do_rotary mask_filter_value num_heads past_present_share_buffer scale unidirectional"}},
      {kDomain, "MulInteger", importMulInteger, {"A A_zero_point B B_zero_point", "C"}},
      {kDomain, "MatMulInteger16", importMatMulInteger16, {"A B", "Y"}},
      {kDomain, "ReduceSumInteger", importReduceSumInteger, {"data", "reduced", "axes keepdims"}},
  };
}

}  // namespace popart::onnx::microsoft
