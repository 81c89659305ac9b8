// CompileTimes: the steps of a compilation with their times, in the order in which they ended. Only for reports.
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
