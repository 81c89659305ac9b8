// Operators of com.microsoft: what ONNX Runtime's optimizer and quantizer write, and further ones of its documentation
// (ContribOperators.md of ONNX Runtime). Each family has a file; this is what they share.
#pragma once
#include <string>
#include <vector>

#include "onnx/compose.hpp"

namespace popart::onnx {

// Why an operator of com.microsoft is not read, with what to do; nullptr where nothing is known about it.
const char *microsoftRefusal(const std::string &domain, const std::string &type);

namespace microsoft {

constexpr const char *kDomain = "com.microsoft";

std::vector<ImportRule> activationRules();  // microsoft_activations.cpp
std::vector<ImportRule> attentionRules();   // microsoft_attention.cpp
std::vector<ImportRule> commonRules();      // microsoft_common.cpp
std::vector<ImportRule> groupedRules();     // microsoft_grouped.cpp
std::vector<ImportRule> normRules();        // microsoft_norm.cpp
std::vector<ImportRule> packedRules();      // microsoft_packed.cpp
std::vector<ImportRule> productRules();     // microsoft_products.cpp
std::vector<ImportRule> quantisedRules();   // microsoft_quantised.cpp
std::vector<ImportRule> signalRules();      // microsoft_signals.cpp

// Those of the node's attributes that have one of these names.
Attributes attributesOf(const NodeContext &n, std::initializer_list<const char *> names);
// The attributes that Conv, ConvTranspose and pools of ai.onnx have.
Attributes windowOf(const NodeContext &n);
// Channels first from channels last, and back, of any number of dimensions.
Value channelsFirst(const Value &x);
Value channelsLast(const Value &x);

}  // namespace microsoft
}  // namespace popart::onnx
