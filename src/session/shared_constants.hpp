// Large constants that several programs of one session have in common are in memory once.
#pragma once
#include <memory>
#include <span>

#include "lower/program.hpp"

namespace popart::session {

constexpr int64_t kLargeConstantBytes = int64_t{64} << 10;

// `program`, of whose large constants those with the bytes of one of `others` are that one.
lower::Program shareConstants(lower::Program program,
                              std::span<const std::shared_ptr<const executable::Executable>> others);

}  // namespace popart::session
