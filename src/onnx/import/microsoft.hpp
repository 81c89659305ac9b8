// Operators of com.microsoft: those that ONNX Runtime's optimizer and quantizer write, and others in its documentation
// (ContribOperators.md of ONNX Runtime). Each family has a file; this file has the shared parts.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "onnx/compose.hpp"

namespace popart::onnx {

// Why an operator of com.microsoft is not supported, with a remedy; nullptr if nothing is known about it.
const char *microsoftRefusal(const std::string &domain, const std::string &type);

namespace microsoft {

constexpr const char *kDomain = "com.microsoft";

std::vector<ImportRule> activationRules();  // microsoft_activations.cpp
std::vector<ImportRule> attentionRules();   // microsoft_attention.cpp
std::vector<ImportRule> commonRules();      // microsoft_common.cpp
std::vector<ImportRule> expertRules();      // microsoft_experts.cpp
std::vector<ImportRule> groupedRules();     // microsoft_grouped.cpp
std::vector<ImportRule> normRules();        // microsoft_norm.cpp
std::vector<ImportRule> packedRules();      // microsoft_packed.cpp
std::vector<ImportRule> productRules();     // microsoft_products.cpp
std::vector<ImportRule> quantisedRules();   // microsoft_quantised.cpp
std::vector<ImportRule> signalRules();      // microsoft_signals.cpp

// The node's attributes with one of these names.
Attributes attributesOf(const NodeContext &n, std::initializer_list<const char *> names);
// The attributes that Conv, ConvTranspose and pools of ai.onnx have.
Attributes windowOf(const NodeContext &n);
// EmbedLayerNormalization and its quantised form; inputs 0 to 7 are the same in both. `asFloats`: elements of input `i`
// as floats. Without positionIds, the first rows of the table of positions are used.
using AsFloats = std::function<Value(int i, const Value &elements)>;
void embedLayerNormalization(NodeContext &n, Composer &to, const Value &positionIds, const AsFloats &asFloats);
// Rows of `columns` numbers from packed rows (rows, bytes), the first in the low bits: (number - zero) scale, with a
// scale and a zero point (or `middle`) for each block.
Value unpackedRows(const Value &packed, const Value &scale, const Value &zero, int64_t bits, int64_t block,
                   int64_t columns, double middle);
// The packed numbers, with the type `type`.
Value packedNumbers(const Value &packed, DataType type, int64_t bits, int64_t columns);
// Converts channels last to channels first, and back, for any number of dimensions.
Value channelsFirst(const Value &x);
Value channelsLast(const Value &x);

}  // namespace microsoft
}  // namespace popart::onnx
