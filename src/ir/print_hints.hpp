// Keys of Op::Settings::hints that control how graphs are printed.
#pragma once
#include <string>
#include <vector>

#include <popart/op.hpp>

namespace popart {

// Number of the MultiExchange that an op belongs to: its parts run next to each other and are printed as one op.
inline constexpr char kExchangeHint[] = "exchange";
// A Call or If in a gradient graph, added by differentiation: a call is printed without the called graph, an If as
// IfGrad.
inline constexpr char kGradientCallHint[] = "gradient_call";

// The number; empty if the op belongs to none.
inline std::string exchangeOf(const Op &op) {
  const auto found = op.settings.hints.find(kExchangeHint);
  return found == op.settings.hints.end() ? "" : found->second;
}

// The end of the ops that are printed as one: after `first`, or after its neighbours of the same exchange.
inline size_t endOfExchange(const std::vector<Op *> &ops, size_t first) {
  const std::string exchange = exchangeOf(*ops[first]);
  size_t last = first + 1;
  while (!exchange.empty() && last < ops.size() && exchangeOf(*ops[last]) == exchange) ++last;
  return last;
}

}  // namespace popart
