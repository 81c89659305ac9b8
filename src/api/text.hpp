// Text operations that sessions do before and after their programs.
#pragma once
#include <string>
#include <vector>

namespace popart {

// Which of `texts` (UTF-8) the RE2 expression `pattern` matches as a whole (ONNX RegexFullMatch-20). The time is linear
// in the length of a text for every pattern. Throws popart::error for an invalid pattern, or one that needs more than
// 8 MiB.
std::vector<bool> fullMatches(const std::string &pattern, const std::vector<std::string> &texts);

}  // namespace popart
