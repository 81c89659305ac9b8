// Keys of Op::Settings::hints that decide how schedules are printed.
#pragma once

namespace popart {

// Number of the MultiExchange that an op is a part of: its parts run next to one another and are printed as one op.
inline constexpr char kExchangeHint[] = "exchange";
// A call that differentiation made in a gradient graph: it is printed without the graph that it calls.
inline constexpr char kGradientCallHint[] = "gradient_call";

}  // namespace popart
