// See text.hpp. RE2 does not backtrack, so the pattern of a model cannot make a run hang.
#include "api/text.hpp"

#include <re2/re2.h>

#include <popart/error.hpp>

namespace popart {

std::vector<bool> fullMatches(const std::string &pattern, const std::vector<std::string> &texts) {
  RE2::Options options;
  options.set_log_errors(false);
  const RE2 expression(pattern, options);
  check(expression.ok(), "RegexFullMatch: pattern '{}' is no RE2 expression: {}", pattern.substr(0, 200),
        expression.error());
  std::vector<bool> matches;
  for (const std::string &text : texts) matches.push_back(RE2::FullMatch(text, expression));
  return matches;
}

}  // namespace popart
