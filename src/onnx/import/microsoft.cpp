// See microsoft.hpp.
#include "onnx/import/microsoft.hpp"

#include <map>
#include <numeric>

namespace popart::onnx {
namespace microsoft {

Attributes attributesOf(const NodeContext &n, std::initializer_list<const char *> names) {
  Attributes attributes;
  for (const char *name : names)
    if (const AttributeValue *value = n.nodeAttributes().values.find(name)) attributes.set(name, *value);
  return attributes;
}

Attributes windowOf(const NodeContext &n) {
  return attributesOf(n, {"auto_pad", "ceil_mode", "count_include_pad", "dilations", "group", "kernel_shape",
                          "output_padding", "pads", "strides"});
}

Value channelsFirst(const Value &x) {
  x.composer().node().require(x.rank() >= 3, "expected a tensor (N, spatial dimensions, C): got {}", x.info());
  std::vector<int64_t> order(static_cast<size_t>(x.rank()));
  std::iota(order.begin(), order.end(), -1);
  order[0] = 0, order[1] = x.rank() - 1;
  return x.transpose(order);
}

Value channelsLast(const Value &x) {
  std::vector<int64_t> order(static_cast<size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 1);
  order[0] = 0, order.back() = 1;
  return x.transpose(order);
}

}  // namespace microsoft

const char *microsoftRefusal(const std::string &domain, const std::string &type) {
  constexpr const char *kSearch =
      "It is a search around a whole decoder. Run the decoder's own graph, and search in the program that calls it";
  constexpr const char *kOrdered =
      "It is an operator of ONNX Runtime's CUDA provider, for layouts of its integer products. Save the model for the "
      "CPU provider";
  constexpr const char *kUnpadded =
      "It is an operator of ONNX Runtime's CUDA provider, for batches without padding. Save the model with padding";
  constexpr const char *kForeign =
      "It holds a model compiled for a device of another vendor. Take the model it was made from";
  constexpr const char *kShared =
      "Its past is a buffer of the caller that it writes into. Save the model with MultiHeadAttention or Attention";
  constexpr const char *kText = "Text is not a value of a compiled program. Cut the model behind it";
  constexpr const char *kBlockFloats = "Block floating point is a format of other devices. Save the model without it";
  constexpr const char *kSparse =
      "Sparse tensors are not values of a compiled program. Store the matrix as a dense one";
  static const std::map<std::string, const char *> kReasons = {
      {"BeamSearch", kSearch},
      {"GreedySearch", kSearch},
      {"Sampling", kSearch},
      {"WhisperBeamSearch", kSearch},
      {"QOrderedAttention", kOrdered},
      {"QOrderedGelu", kOrdered},
      {"QOrderedLayerNormalization", kOrdered},
      {"QOrderedLongformerAttention", kOrdered},
      {"QOrderedMatMul", kOrdered},
      {"QuantizeWithOrder", kOrdered},
      {"DequantizeWithOrder", kOrdered},
      {"PackedAttention", kUnpadded},
      {"PackedMultiHeadAttention", kUnpadded},
      {"PagedAttention", kUnpadded},
      {"RemovePadding", kUnpadded},
      {"RestorePadding", kUnpadded},
      {"EPContext", kForeign},
      {"Snpe", kForeign},
      {"DecoderMaskedMultiHeadAttention", kShared},
      {"DecoderMaskedSelfAttention", kShared},
      {"DecoderAttention", kShared},
      {"Tokenizer", kText},
      {"MurmurHash3", kText},
      {"QuantizeBFP", kBlockFloats},
      {"DequantizeBFP", kBlockFloats},
      {"SparseToDenseMatMul", kSparse},
      {"SparseAttention", kSparse},
  };
  const auto found = kReasons.find(type);
  return domain != microsoft::kDomain || found == kReasons.end() ? nullptr : found->second;
}

std::vector<ImportRule> microsoftRules() {
  std::vector<ImportRule> rules;
  for (const auto &family :
       {microsoft::activationRules(), microsoft::attentionRules(), microsoft::commonRules(), microsoft::expertRules(),
        microsoft::groupedRules(), microsoft::normRules(), microsoft::packedRules(), microsoft::productRules(),
        microsoft::quantisedRules(), microsoft::signalRules()})
    rules.insert(rules.end(), family.begin(), family.end());
  for (ImportRule &rule : rules)
    if (rule.check == NameCheck::None) rule.check = NameCheck::Exact;
  return rules;
}

}  // namespace popart::onnx
