// Keys of Op::Settings::hints that decide how graphs are printed, and what they say.
#pragma once
#include <string>
#include <vector>

#include <popart/op.hpp>

namespace popart {

// Number of the MultiExchange that an op is a part of: its parts run next to one another and are printed as one op.
inline constexpr char kExchangeHint[] = "exchange";
// A Call or If that differentiation made in a gradient graph: a call is printed without the graph that it calls, an If
// as IfGrad.
inline constexpr char kGradientCallHint[] = "gradient_call";

// The number; empty: the op is a part of none.
inline std::string exchangeOf(const Op &op) {
  const auto found = op.settings.hints.find(kExchangeHint);
  return found == op.settings.hints.end() ? "" : found->second;
}

// Where what is printed as one op ends: behind `first`, or behind the neighbours of the same exchange.
inline size_t endOfExchange(const std::vector<Op *> &ops, size_t first) {
  const std::string exchange = exchangeOf(*ops[first]);
  size_t last = first + 1;
  while (!exchange.empty() && last < ops.size() && exchangeOf(*ops[last]) == exchange) ++last;
  return last;
}

}  // namespace popart
