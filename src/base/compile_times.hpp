// CompileTimes: what a compiler did and when, in the order in which it ended. For reports; no result depends on it.
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace popart {

struct CompileTimes {
  using Clock = std::chrono::steady_clock;
  struct Span {
    std::string group, name;  // "Fuse", "fuseEpilogues"
    Clock::time_point begin, end;
  };
  std::vector<Span> spans;
};

}  // namespace popart
