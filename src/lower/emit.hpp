// emit: functional flat graphs + layouts → Executable. Chooses a kernel for every op, decides which values share
// memory, plans the arena and writes the steps.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "lower/lower.hpp"

namespace popart::lower {

// Layout of every tensor by graph and tensor index; missing entries are plain.
class Layouts {
 public:
  const executable::Layout &of(const Graph &graph, TensorIndex t) const {
    const auto it = layouts_.find(&graph);
    if (it == layouts_.end() || t.value >= it->second.size()) return kPlain;
    return it->second[t.value];
  }
  void set(const Graph &graph, TensorIndex t, const executable::Layout &layout) {
    auto &list = layouts_[&graph];
    if (list.size() <= t.value) list.resize(t.value + 1);
    list[t.value] = layout;
  }

 private:
  inline static const executable::Layout kPlain{};
  std::map<const Graph *, std::vector<executable::Layout>> layouts_;
};

// Throws popart::error when no backend has a kernel for an op, memory_allocation_err above options.maxMemoryBytes.
std::shared_ptr<executable::Executable> emit(const Ir &flat, const Layouts &layouts, const LowerOptions &options);

}  // namespace popart::lower
