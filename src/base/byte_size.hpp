// Numbers of bytes: as programs and the environment give them, and what the machine has.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace popart {

// "4096", "64M": a number with K, M or G at the end for powers of 1024. Throws popart::error naming `what`.
int64_t byteSizeFromText(const std::string &text, const std::string &what);

// The least limit of the control groups of this process, as the files below `root` say; nullopt: none.
std::optional<int64_t> groupMemoryLimit(const std::string &root = "");

// Memory this process may come to have: the smallest of the machine's, its control groups' limits and the limit of its
// address space.
int64_t machineMemoryBytes();
// How much of that it could take at this moment without taking it from others.
int64_t freeMemoryBytes();

}  // namespace popart
