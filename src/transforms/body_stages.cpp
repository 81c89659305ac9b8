// See body_stages.hpp. Stages are raised until nothing changes; then ops without a fixed stage move as late as
// possible.
#include "transforms/body_stages.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/union_find.hpp"
#include "ops/control/loops.hpp"
#include "schedule/remote_accesses.hpp"
#include "transforms/counted_loop.hpp"
#include "transforms/prune.hpp"

namespace popart::transforms {
namespace {

class BodyStages {
 public:
  explicit BodyStages(const Op &loop)
      : loop_(loop),
        body_(bodyOf(loop)),
        order_(body_.getOpSchedule()),
        stage_(body_.opSlots(), 0),
        groups_(body_.opSlots()),
        memory_(body_.tensorSlots()) {}

  std::vector<int64_t> run() {
    for (const Op *op : order_) stage_[op->index().value] = op->settings.pipelineStage.value_or(0);
    groupChangedMemory();
    groupRemoteMemory();
    groupCarriedValues();
    while (raise()) {
    }
    sink();
    return stage_;
  }

 private:
  int64_t &stageOf(OpIndex op) { return stage_[op.value]; }

  // ---- groups: ops that must be in one stage
  void join(const std::vector<const Op *> &ops) {
    for (size_t i = 1; i < ops.size(); ++i) groups_.join(ops[i]->index().value, ops[0]->index().value);
  }

  void groupChangedMemory() {
    for (const Op *op : order_)
      for (InIndex i = 0; i < op->inputCount(); ++i)
        for (OutIndex o = 0; o < op->outputCount(); ++o)
          if (op->hasInput(i) && op->hasOutput(o) && op->aliasesInput(i, o))
            memory_.join(input(*op, i).value, output(*op, o).value);
    std::map<uint32_t, const Op *> lastWriter;  // last writer of memory that is kept for the next iteration
    for (const TensorIndex t : body_.inputs()) lastWriter.emplace(memory_.find(t.value), nullptr);
    for (const Op *op : order_)
      for (InIndex i = 0; i < op->inputCount(); ++i)
        if (op->hasInput(i) && op->modifiesInput(i))
          if (const auto set = lastWriter.find(memory_.find(input(*op, i).value)); set != lastWriter.end())
            set->second = op;
    std::erase_if(lastWriter, [](const auto &entry) { return entry.second == nullptr; });
    std::vector<char> isFinal(body_.tensorSlots(), 0);  // the last value written, and views of it
    std::map<uint32_t, std::vector<const Op *>> users;
    for (const Op *op : order_)
      for (InIndex i = 0; i < op->inputCount(); ++i) {
        if (!op->hasInput(i)) continue;
        const TensorIndex t = input(*op, i);
        const auto set = lastWriter.find(memory_.find(t.value));
        if (set == lastWriter.end()) continue;
        if (!isFinal[t.value]) users[set->first].push_back(op);
        if (set->second != op && !isFinal[t.value]) continue;
        for (OutIndex o = 0; o < op->outputCount(); ++o)
          if (op->hasOutput(o) && op->aliasesInput(i, o)) isFinal[output(*op, o).value] = 1;
      }
    for (const auto &[set, ops] : users) join(ops);
  }

  void groupRemoteMemory() {
    schedule::RemoteAccesses remote;
    std::map<std::string, std::vector<const Op *>> users;
    std::set<std::string> written;
    for (const Op *op : order_)
      remote.each(*op, [&](const std::string &variable, bool writes) {
        users[variable].push_back(op);
        if (writes) written.insert(variable);
      });
    for (const std::string &variable : written) join(users[variable]);
  }

  void groupCarriedValues() {
    const auto carried = static_cast<size_t>(ops::carriedCount(loop_));
    for (size_t i = 0; i < carried; ++i) {
      std::vector<const Op *> users;
      for (const Use &use : body_.tensor(body_.inputs()[i + 2]).uses()) users.push_back(&body_.op(use.op));
      const Op *producer = body_.tensor(body_.outputs()[i + 1]).getProducerUnsafe();
      if (users.empty() || !producer) continue;
      users.push_back(producer);
      join(users);
    }
  }

  // ---- stages
  bool raise() {
    bool changed = false;
    const auto raiseTo = [&](OpIndex op, int64_t stage) {
      if (stageOf(op) >= stage) return;
      stageOf(op) = stage;
      changed = true;
    };
    for (const Op *op : order_)
      for (const TensorIndex t : op->inputs())
        if (t.valid() && body_.tensor(t).hasProducer()) raiseTo(op->index(), stageOf(body_.tensor(t).producerIndex()));
    for (const auto &[before, after] : body_.constraints()) raiseTo(after, stageOf(before));
    std::map<uint32_t, int64_t> highest;
    for (const Op *op : order_) {
      int64_t &stage = highest[groups_.find(op->index().value)];
      stage = std::max(stage, stageOf(op->index()));
    }
    for (const Op *op : order_) raiseTo(op->index(), highest[groups_.find(op->index().value)]);
    return changed;
  }

  void sink() {
    constexpr int64_t kNone = INT64_MAX;
    std::vector<char> floats(body_.opSlots(), 0);
    std::map<uint32_t, int> groupSize;
    for (const Op *op : order_) ++groupSize[groups_.find(op->index().value)];
    for (const Op *op : order_)
      floats[op->index().value] =
          !op->settings.pipelineStage && (op->is(Role::HostLoad) || !hasEffect(*op)) &&
          groupSize[groups_.find(op->index().value)] == 1 && std::ranges::all_of(op->inputs(), [&](TensorIndex t) {
            return !t.valid() || !body_.tensor(t).hasProducer() || floats[body_.tensor(t).producerIndex().value];
          });
    std::vector<int64_t> firstReader(body_.opSlots(), kNone);
    for (const auto &[before, after] : body_.constraints())
      firstReader[before.value] = std::min(firstReader[before.value], stageOf(after));
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const OpIndex op = (*it)->index();
      if (floats[op.value] && firstReader[op.value] != kNone) stageOf(op) = firstReader[op.value];
      for (const TensorIndex t : (*it)->inputs())
        if (t.valid() && body_.tensor(t).hasProducer()) {
          int64_t &first = firstReader[body_.tensor(t).producerIndex().value];
          first = std::min(first, stageOf(op));
        }
    }
  }

  static TensorIndex input(const Op &op, InIndex i) { return op.inputs()[static_cast<size_t>(i)]; }
  static TensorIndex output(const Op &op, OutIndex o) { return op.outputs()[static_cast<size_t>(o)]; }

  const Op &loop_;
  const Graph &body_;
  const std::vector<Op *> order_;
  std::vector<int64_t> stage_;
  UnionFind groups_, memory_;
};

}  // namespace

std::vector<int64_t> stagesOfBody(const Op &loop) { return BodyStages(loop).run(); }

}  // namespace popart::transforms
