// mergeExchanges: merges consecutive transfers to one exchange (ir/print_hints.hpp), which programs see as one
// MultiExchange.
//
//   %x = HostLoad(); %labels = HostLoad()   ⇒   one exchange of both
#pragma once
#include <popart/graph.hpp>

namespace popart::transforms {

// Merges neighbours in the schedule that do not need each other's data: transfers of the host, and transfers of remote
// memory for one op, which lowering keeps next to each other. An exchange has two parts or more; its number is that of
// its first part.
void mergeExchanges(Graph &graph);

}  // namespace popart::transforms
