// Exchanges of host and remote memory that a program merges: ops of one graph that run next to one another and that
// schedules print as one MultiExchange.
#pragma once

namespace popart {

inline constexpr char kExchangeHint[] = "exchange";  // key of Op::Settings::hints; the number of the MultiExchange

}  // namespace popart
