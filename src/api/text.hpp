// Work on text that sessions do before and after their programs.
#pragma once
#include <string>
#include <vector>

namespace popart {

// Which of `texts` (UTF-8) the RE2 expression `pattern` matches as a whole (ONNX RegexFullMatch-20). Time is linear in
// the length of a text whatever the pattern. Throws popart::error for a pattern that is none, or needs more than 8 MiB.
std::vector<bool> fullMatches(const std::string &pattern, const std::vector<std::string> &texts);

}  // namespace popart
