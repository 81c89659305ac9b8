// The remote variables that ops access, themselves or in the graphs that they call.
#pragma once
#include <map>
#include <string>

#include <popart/graph.hpp>

namespace popart::schedule {

// Caches results for each graph; graphs must not change meanwhile.
class RemoteAccesses {
 public:
  // Calls visit(id of the variable, whether it is written) for each.
  template <class Visit>
  void each(const Op &op, Visit visit) {
    if (op.def().base().role() == Role::RemoteLoad) visit(op.attrString("remote_buffer"), false);
    if (op.is(Role::RemoteStore)) visit(op.attrString("remote_buffer"), true);
    if (!op.has(Trait::Call)) return;
    for (const Graph *called : op.getCalledGraphs())
      for (const auto &[variable, writes] : of(*called)) visit(variable, writes);
  }

 private:
  const std::map<std::string, bool> &of(const Graph &graph) {
    const auto [known, fresh] = graphs_.try_emplace(&graph);
    if (fresh)
      for (const Op *op : graph.ops())
        each(*op, [found = &known->second](const std::string &variable, bool writes) { (*found)[variable] |= writes; });
    return known->second;
  }
  std::map<const Graph *, std::map<std::string, bool>> graphs_;
};

}  // namespace popart::schedule
