// What the builder stores in the metadata of graph inputs, as lists of integers.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "onnx/model_content.hpp"

namespace popart::onnx {

// For an initialised input: its VariableSettings, as the numbers of the tensor fact "replicas".
constexpr const char *kReplicasKey = "popart.replicas";
// For an input: its InputSettings as [TileSet, ExchangeStrategy, ReplicatedStreamMode].
constexpr const char *kInputSettingsKey = "popart.inputSettings";

// The numbers under `key`; nullopt if the input has no such entry. Throws popart::error for an invalid entry.
std::optional<std::vector<int64_t>> metadataNumbers(const onnx_proto::ValueInfoProto &input, std::string_view key);

}  // namespace popart::onnx
