// Sizes in bytes: from text of programs and the environment, and the memory of the machine.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace popart {

// "4096", "64M": a number with K, M or G at the end for powers of 1024. Throws popart::error naming `what`.
int64_t byteSizeFromText(const std::string &text, const std::string &what);

// The smallest memory limit of the control groups of this process, from files below `root`; nullopt: no limit.
std::optional<int64_t> groupMemoryLimit(const std::string &root = "");

// Memory that this process may use: the smallest of the machine's memory, the limits of its control groups and the
// limit of its address space.
int64_t machineMemoryBytes();
// How much of that is free now, so that no other process loses memory.
int64_t freeMemoryBytes();

}  // namespace popart
