// What the builder keeps of graph inputs in their metadata, as lists of whole numbers.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "onnx/model_content.hpp"

namespace popart::onnx {

// Of an initialised input: its VariableSettings, as the numbers of the tensor fact "replicas".
constexpr const char *kReplicasKey = "popart.replicas";
// Of an input: its InputSettings as [TileSet, ExchangeStrategy, ReplicatedStreamMode].
constexpr const char *kInputSettingsKey = "popart.inputSettings";

// The numbers under `key`; nullopt when the input has no such entry. Throws popart::error for anything else.
std::optional<std::vector<int64_t>> metadataNumbers(const onnx_proto::ValueInfoProto &input, std::string_view key);

}  // namespace popart::onnx
