// One constraint per (reader, update) pair, unless the reader needs the new value, directly or through other ops. Then
// the element-wise ops of updates get the place in program order of the last op they wait for, so that the scheduler
// runs them as soon as they are ready.
#include "lower/order_updates.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "lower/fuse_elementwise.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

int64_t placeOf(const Op &op) { return op.settings.sequence >= 0 ? op.settings.sequence : op.index().value; }

// Ops whose results nothing but updates of variables read.
std::vector<char> updateOps(const Graph &graph, const std::vector<OpIndex> &order) {
  std::vector<char> found(graph.opSlots(), 0);
  for (size_t i = order.size(); i-- > 0;) {
    const Op &op = graph.op(order[i]);
    bool onlyUpdates = !op.hasSideEffect() && !op.has(Trait::HostIo);
    bool read = false;
    for (TensorIndex t : op.outputs()) {
      if (!t.valid()) continue;
      onlyUpdates &= !graph.tensor(t).isGraphOutput();
      for (const Use &use : graph.tensor(t).uses()) read = true, onlyUpdates &= found[use.op.value] != 0;
    }
    found[order[i].value] = op.is("VariableAssign") || (onlyUpdates && read);
  }
  return found;
}

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

void runUpdatesEarly(Ir &flat) {
  Graph &graph = flat.getMainGraph();
  const std::vector<OpIndex> order = schedule::orderOps(graph);
  const std::vector<char> updates = updateOps(graph, order);
  for (OpIndex o : order) {
    Op &op = graph.op(o);
    if (!updates[o.value] || !(op.is("FusedElementwise") || isElementwise(op))) continue;
    int64_t last = -1;
    for (TensorIndex t : op.inputs())
      if (t.valid() && graph.tensor(t).hasProducer())
        last = std::max(last, placeOf(graph.op(graph.tensor(t).producerIndex())));
    if (last >= 0 && last < placeOf(op)) op.settings.sequence = last;
  }
}

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
