// Large constants that several programs of one session have in common are stored once.
#pragma once
#include <memory>
#include <span>

#include "lower/program.hpp"

namespace popart::session {

constexpr int64_t kLargeConstantBytes = int64_t{64} << 10;

// Replaces large constants of `program` by constants of `others` with the same bytes.
lower::Program shareConstants(lower::Program program,
                              std::span<const std::shared_ptr<const executable::Executable>> others);

}  // namespace popart::session
