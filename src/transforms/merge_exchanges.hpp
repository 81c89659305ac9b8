// mergeExchanges: transfers that run next to one another become parts of one exchange (ir/print_hints.hpp), which
// programs see as one MultiExchange.
//
//   %x = HostLoad(); %labels = HostLoad()   ⇒   one exchange of both
#pragma once
#include <popart/graph.hpp>

namespace popart::transforms {

// Neighbours in the schedule that need none of each other's data: transfers of the host, and transfers of remote
// memory for one op, which lowering leaves next to one another wherever it puts that op. Two parts or more make an
// exchange; its number is that of its first part.
void mergeExchanges(Graph &graph);

}  // namespace popart::transforms
