// One constraint per (reader, update) pair, unless the reader needs the new value, directly or through other ops.
#include "lower/order_updates.hpp"

#include <set>
#include <vector>

namespace popart::lower {
namespace {

// The op that makes a variable's new value, when nothing but the assignment reads what it makes; nullptr otherwise.
// Constraints in front of such ops cannot close a circle.
Op *soleUpdate(const Op &assign) {
  Op *update = assign.inTensor(1)->getProducerUnsafe();
  if (!update) return nullptr;
  for (int o = 0; o < update->outputCount(); ++o) {
    if (!update->hasOutput(o)) continue;
    for (const Op *reader : update->outTensor(o)->consumerOps())
      if (!reader->is("VariableAssign")) return nullptr;
  }
  return update;
}

}  // namespace

void orderUpdates(Ir &flat) {
  Graph &graph = flat.getMainGraph();
  if (!graph.constraints().empty()) return;  // the program states its own order; never risk a cycle with it
  std::vector<std::pair<OpIndex, OpIndex>> pairs;
  for (Op *assign : graph.ops()) {
    if (!assign->is("VariableAssign")) continue;
    Op *update = soleUpdate(*assign);
    if (!update) continue;
    for (const Op *reader : assign->inTensor(0)->consumerOps())
      if (reader != assign && reader != update) pairs.emplace_back(reader->index(), update->index());
  }
  // An update that reads another variable that is updated too could close a circle of constraints: leave such pairs
  // out.
  std::set<uint32_t> updates;
  for (const auto &pair : pairs) updates.insert(pair.second.value);
  for (const auto &[reader, update] : pairs)
    if (!updates.count(reader.value)) graph.addConstraint(reader, update);
}

}  // namespace popart::lower
