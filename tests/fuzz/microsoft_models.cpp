// See microsoft_models.hpp. Each operator that the importer knows has at least one node.
#include "microsoft_models.hpp"

#include "operator_models.hpp"

namespace popart::fuzz {
namespace {

using namespace draft;
using namespace std::string_literals;

// The nodes of a model, all of com.microsoft, all with results that are outputs of the model.
struct Node {
  const char *type;
  Names inputs;
  Attributes attributes = {};
  int outputs = 1;
};
std::string modelOf(Draft &d, const std::vector<Node> &nodes) {
  for (const Node &n : nodes) d.keepOf(kMicrosoft, n.type, n.inputs, n.attributes, n.outputs);
  return d.serialised();
}

constexpr int64_t kZero = 0, kOne = 1, kTwo = 2;

std::string activationsModel() {
  Draft d;
  const std::string x = d.input({2, 4}), w = d.weights({4});
  return modelOf(d, {
                        {"Gelu", {x}},
                        {"BiasGelu", {x, w}},
                        {"FastGelu", {x, w}},
                        {"QuickGelu", {x}, {{"alpha", 0.7f}}},
                        {"BiasSplitGelu", {x, w}},
                        {"BiasAdd", {x, w, x}},
                        {"GatedAdd", {x, x, d.weights({2, 1})}},
                        {"ScaledSiLU", {x}, {{"alpha", 0.3f}}},
                        {"ScaledSiLU", {x, d.number(0.5f)}},
                        {"BiasSoftmax", {x, w}, {{"axis", kOne}, {"is_inner_broadcast", kZero}}},
                        {"BiasDropout", {x, w, x, d.number(0.25f), d.constant(tensor<uint8_t>(9, {}, {1}))}, {}, 2},
                        {"BitmaskBiasDropout", {x, w, x}, {}, 2},
                        {"BitmaskDropout", {x}, {{"seed", kTwo}}, 2},
                    });
}

std::string attentionsModel() {
  Draft d;
  const std::string x = d.input({1, 2, 4}), mask = d.words({1, 3}, {1, 1, 0});
  const std::string shared = d.weights({1, 2, 2}), past = d.weights({1, 1, 2, 2}), next = d.input({1, 1, 4});
  const std::string heads = d.input({1, 2, 2, 4}), table = d.weights({4, 1}), state = d.weights({2, 1, 2, 1, 2});
  const std::string one = d.weights({1, 1, 2}), lengths = d.words({1}, {2});
  const Attributes two = {{"num_heads", kTwo}}, grouped = {{"num_heads", kTwo}, {"kv_num_heads", kOne}};
  const Attributes rotary = {
      {"num_heads", kTwo}, {"kv_num_heads", kOne}, {"do_rotary", kOne}, {"local_window_size", kTwo}};
  return modelOf(
      d, {
             {"Attention", {x, d.weights({4, 12}), d.weights({12}), mask, state}, two, 2},
             {"Attention",
              {x, d.weights({4, 10})},
              {{"num_heads", kTwo}, {"qkv_hidden_sizes", Ints{4, 4, 2}}, {"unidirectional", kOne}}},
             {"MultiHeadAttention", {x, d.weights({1, 3, 4}), d.weights({1, 3, 4}), d.weights({12}), mask}, two},
             {"MultiHeadAttention", {d.input({1, 2, 2, 3, 2})}, two},
             {"GroupQueryAttention", {x, shared, shared, "", "", d.words({1}, {1}), d.words({}, {2})}, grouped, 3},
             {"GroupQueryAttention", {next, one, one, past, past, lengths, d.words({}, {3}), table, table}, rotary, 3},
             {"RotaryEmbedding", {x, d.ints({1}), table, table}, {{"interleaved", kOne}}},
             {"MRotaryEmbedding",
              {x, d.constant(tensor<int64_t>(TensorProto::INT64, {3, 1, 2}, {0, 1, 2, 3, 0, 1})), table, table},
              {{"num_heads", kTwo}, {"mrope_section", Ints{1, 0, 0}}}},
             {"GemmaRotaryEmbedding", {x, heads, heads, heads, heads}, {}, 2},
             {"LinearAttention",
              {x, x, x, "", d.weights({1, 2, 2}), d.weights({1, 2, 2})},
              {{"q_num_heads", kTwo}, {"kv_num_heads", kTwo}, {"update_rule", "gated_delta"s}},
              2},
             {"CausalConvWithState",
              {d.input({1, 2, 3}), d.weights({2, 1, 2}), d.weights({2}), d.weights({1, 2, 1})},
              {{"activation", "silu"s}},
              2},
         });
}

std::string normsModel() {
  Draft d;
  const std::string x = d.input({1, 2, 4}), image = d.input({1, 2, 2, 4}), w = d.weights({4});
  const std::string words = d.input({3, 4}), ids = d.words({1, 2}, {1, 0});
  const std::string numbers = d.bytes({3, 4}, Bytes(12, 9)), small = d.bytes({4}, {1, 2, 3, 4});
  const std::string s = d.constant(floats({}, {0.1f})), z = d.bytes({}, {3});
  return modelOf(
      d, {
             {"SkipLayerNormalization", {x, x, w, w, w}, {{"epsilon", 0.1f}}, 4},
             {"SkipSimplifiedLayerNormalization", {x, d.weights({2, 4}), w, w}},
             {"EmbedLayerNormalization", {ids, ids, words, d.weights({3, 4}), d.weights({2, 4}), w, w, ids}, {}, 3},
             {"QEmbedLayerNormalization",
              {ids, "", numbers, d.bytes({2, 4}, Bytes(8, 7)), "", small, small, ids, s, s, "", s, s, z, z, "", z, z},
              {},
              2},
             {"GroupNorm", {image, w, w}, {{"groups", kTwo}, {"activation", kOne}}},
             {"SkipGroupNorm", {image, w, w, d.weights({1, 4}), w}, {{"groups", kTwo}}, 2},
             {"GatedRMSNorm", {x, d.weights({2}), x}, {{"activation", "sigmoid"s}}},
         });
}

std::string productsModel() {
  Draft d;
  const std::string a = d.input({2, 3}), b = d.weights({3, 2}), c = d.weights({2}), kernel = d.weights({2, 2, 2, 2});
  const std::string image = d.input({1, 3, 3, 2}), long16 = d.input({2, 16}), packed = d.bytes({2, 1, 8}, Bytes(16, 5));
  const Ints square = {2, 2};
  const Attributes blocks = {{"K", int64_t{16}}, {"N", kTwo}, {"bits", int64_t{4}}, {"block_size", int64_t{16}}};
  return modelOf(
      d,
      {
          {"FusedConv",
           {d.input({1, 2, 3}), d.weights({2, 2, 2}), c, d.weights({1, 2, 2})},
           {{"activation", "LeakyRelu"s}, {"activation_params", Floats{0.2f}}}},
          {"NhwcFusedConv", {image, kernel, c, d.weights({1, 2, 2, 2})}, {{"activation", "Relu"s}}},
          {"NhwcConv", {image, kernel}, {{"strides", square}}},
          {"NhwcMaxPool", {d.input({1, 3, 3, 2}, TensorProto::UINT8)}, {{"kernel_shape", square}}},
          {"ConvTransposeWithDynamicPads",
           {d.input({1, 1, 2, 2}), d.weights({1, 1, 2, 2}), d.ints({1, 0, 0, 1})},
           {{"strides", square}}},
          {"FusedGemm", {a, b, c}, {{"activation", "LeakyRelu"s}, {"activation_alpha", 0.3f}, {"beta", 2.0f}}},
          {"FusedMatMul", {a, a}, {{"transB", kOne}, {"alpha", 0.5f}}},
          {"FusedMatMul", {d.input({2, 2, 3}), d.weights({2, 3, 2})}, {{"transBatchA", kOne}}},
          {"TransposeMatMul", {a, a}, {{"transA", kOne}}},
          {"FusedMatMulActivation", {a, b}, {{"activation", "Softmax"s}, {"activation_axis", int64_t{-1}}}},
          {"GemmFastGelu", {a, b, c}},
          {"MatMulNBits", {long16, packed, d.weights({2, 1}), d.bytes({2}, {8, 7}), "", c}, blocks},
          {"MatMulNBits", {long16, packed, d.weights({2, 1}), "", d.words({16}, std::vector<int32_t>(16, 0))}, blocks},
          {"MatMulBnb4",
           {long16, d.bytes({8}, Bytes(8, 0x5c)), d.weights({1})},
           {{"K", int64_t{16}}, {"N", kOne}, {"block_size", int64_t{16}}, {"quant_type", kOne}}},
          {"GatherBlockQuantized",
           {d.bytes({3, 8}, Bytes(24, 0x3a)), d.ints({0, -1}), d.weights({3, 1}), d.bytes({3, 1}, {7, 8, 9})},
           {{"bits", int64_t{4}}, {"block_size", int64_t{16}}}},
      });
}

std::string expertsModel() {
  Draft d;
  const std::string x = d.input({2, 4}), shares = d.input({2, 2});
  const std::string first = d.bytes({2, 2, 2}, Bytes(8, 0x3a)), second = d.bytes({2, 4, 1}, Bytes(8, 0x5c));
  return modelOf(d, {
                        {"MoE",
                         {x, shares, d.weights({2, 3, 4}), d.weights({2, 3}), d.weights({2, 4, 3})},
                         {{"k", kTwo}, {"activation_type", "silu"s}}},
                        {"QMoE",
                         {x, shares, first, d.weights({2, 2}), "", second, d.weights({2, 4}), d.weights({2, 4})},
                         {{"k", kOne}, {"expert_weight_bits", int64_t{4}}, {"activation_type", "relu"s}}},
                    });
}

std::string quantisationModel() {
  Draft d;
  const std::string a = d.input({2, 3}, TensorProto::UINT8), image = d.input({1, 2, 2, 2}, TensorProto::UINT8);
  const std::string x = d.input({2, 3}), s = d.number(0.1f), t = d.number(0.2f), z = d.bytes({}, {3});
  const std::string b = d.bytes({3, 2}, {1, 2, 3, 4, 5, 6}), w = d.weights({2});
  const std::string each = d.constant(floats({1}, {0.01f})), middle = d.bytes({1}, {128});
  const Ints square = {2, 2};
  return modelOf(
      d,
      {
          {"QLinearAdd", {a, s, z, a, t, z, s, z}},
          {"QLinearMul", {a, s, z, a, t, z, s, z}},
          {"QLinearSigmoid", {a, s, z, t, z}},
          {"QLinearLeakyRelu", {a, s, z, t, z}, {{"alpha", 0.2f}}},
          {"QLinearSoftmax", {a, s, z, t, z}, {{"opset", int64_t{12}}, {"axis", kOne}}},
          {"QLinearConcat", {s, z, a, s, z, a, t, z}, {{"axis", kOne}}},
          {"QLinearAveragePool", {image, s, z, t, z}, {{"kernel_shape", square}, {"channels_last", kOne}}},
          {"QLinearGlobalAveragePool", {image, s, z, t, z}, {{"channels_last", kZero}}},
          {"QLinearReduceMean", {a, s, z, t, z}, {{"axes", Ints{1}}, {"keepdims", kZero}}},
          {"QLinearWhere", {d.truth({1, 0, 1}), a, s, z, a, t, z, s, z}},
          {"QLinearConv",
           {image, s, z, d.bytes({1, 2, 1, 1}, {4, 5}), s, z, t, z, d.words({1}, {2})},
           {{"channels_last", kOne}}},
          {"QuantizeLinear", {x, s, z}},
          {"DequantizeLinear", {a, s, z}},
          {"QGemm", {a, s, z, b, t, z, d.words({2}, {1, -1}), s, z}, {{"alpha", 0.5f}}},
          {"MatMulIntegerToFloat", {a, b, s, t, z, z, w}},
          {"DynamicQuantizeMatMul", {x, b, s, z, w}},
          {"QAttention",
           {d.input({1, 2, 3}, TensorProto::UINT8), d.bytes({3, 12}, Bytes(36, 120)), d.weights({12}), s, t, "", z, z},
           {{"num_heads", kTwo}, {"unidirectional", kOne}},
           2},
          {"MulInteger", {a, z, a, z}},
          {"MatMulInteger16", {d.input({2, 3}, TensorProto::INT16), d.input({3, 2}, TensorProto::INT16)}},
          {"ReduceSumInteger", {a}, {{"axes", Ints{1}}, {"keepdims", kZero}}},
          {"DynamicQuantizeLSTM",
           {d.input({2, 1, 3}), d.bytes({1, 3, 8}, Bytes(24, 130)), d.bytes({1, 2, 8}, Bytes(16, 120)),
            d.weights({1, 16}), "", "", "", "", each, middle, each, middle},
           {{"hidden_size", kTwo}},
           3},
      });
}

std::string commonModel() {
  Draft d;
  const std::string x = d.input({2, 3}), c = d.input({1, 3, 2}), image = d.input({1, 1, 2, 2});
  const std::string pads = d.constant(tensor<int64_t>(TensorProto::INT64, {1, 4}, {1, 0, 0, 1}));
  const Attributes transform = {{"signal_ndim", kOne}, {"onesided", kOne}, {"normalized", kZero}};
  return modelOf(d,
                 {
                     {"Trilu", {x, d.integer(1)}, {{"upper", kZero}}},
                     {"Range", {d.integer(1), d.integer(7), d.integer(2)}},
                     {"Unique", {d.weights({5})}, {}, 3},
                     {"Pad", {x, pads, d.number(2)}, {{"mode", "constant"s}}},
                     {"ExpandDims", {x, d.words({}, {1})}},
                     {"GatherND", {x, d.ints({1})}},
                     {"Inverse", {d.input({2, 2})}},
                     {"CDist", {x, d.weights({2, 3})}, {{"metric", "euclidean"s}}},
                     {"IsAllFinite", {x, c}},
                     {"TorchEmbedding", {x, d.ints({1, 0}), d.integer(1)}},
                     {"UnfoldTensor", {x}, {{"dim", kOne}, {"size", kTwo}, {"step", kOne}}},
                     {"Rfft", {x}, transform},
                     {"Irfft", {c}, transform},
                     {"ComplexMul", {c, c}},
                     {"ComplexMulConj", {c, c}},
                     {"GridSample", {image, d.weights({1, 1, 2, 2})}, {{"padding_mode", "border"s}}},
                     {"CropAndResize",
                      {image, d.constant(floats({1, 4}, {0, 0.1f, 1, 0.8f})), d.words({1}, {0}), d.words({2}, {1, 2})},
                      {{"mode", "bilinear"s}, {"extrapolation_value", 0.5f}}},
                 });
}

}  // namespace

std::vector<SmallModel> microsoftModels() {
  return {{"ms activate", activationsModel()}, {"ms attend", attentionsModel()}, {"ms norms", normsModel()},
          {"ms products", productsModel()},    {"ms experts", expertsModel()},   {"ms quantise", quantisationModel()},
          {"ms common", commonModel()}};
}

}  // namespace popart::fuzz
