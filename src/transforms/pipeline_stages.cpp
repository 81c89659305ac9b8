// See pipeline_stages.hpp. Checks run in the documented order: placement first, depth last.
#include "transforms/pipeline_stages.hpp"

#include <algorithm>
#include <map>

#include <popart/error.hpp>

#include "transforms/virtual_graphs.hpp"

namespace popart::transforms {
namespace {

using VirtualGraphIds = std::set<VGraphId>;

std::string idText(const std::optional<int64_t> &id) { return id ? std::to_string(*id) : "none"; }
std::string listText(const VirtualGraphIds &ids) { return toText(std::vector<int64_t>(ids.begin(), ids.end())); }

VirtualGraphIds virtualGraphsOf(const Graph &main) {
  VirtualGraphIds ids;
  for (const Op *op : main.ops())
    if (op->settings.vgraphId) ids.insert(*op->settings.vgraphId);
  return ids;
}

VirtualGraphIds readersOf(const Tensor &t) {
  VirtualGraphIds ids;
  for (const Use &use : t.uses())
    if (const auto &id = t.getGraph().op(use.op).settings.vgraphId) ids.insert(*id);
  return ids;
}

void checkMarks(const Graph &main) {
  for (const Op *op : main.ops())
    check(
        op->settings.recomputeType != RecomputeType::Recompute,
        "SessionOptions::enablePipelining: '{}' is marked to be computed again: got Builder::recomputeOutput, expected "
        "no mark. Set autoRecomputation to Pipeline instead",
        op->debugName());
}

void checkAllStaged(const Graph &main) {
  const std::vector<Op *> ops = main.ops();
  const auto isOpen = [](const Op *op) { return !op->settings.pipelineStage.has_value(); };
  if (const auto open = std::ranges::find_if(ops, isOpen); open != ops.end())
    throw error(
        "SessionOptions::enablePipelining: only some operations have a pipeline stage: got {} of {}, expected all or "
        "none. The first without one is '{}'. Give it one with Builder::pipelineStage",
        static_cast<int64_t>(ops.size()) - std::ranges::count_if(ops, isOpen), ops.size(), (*open)->debugName());
  for (const Op *op : ops)
    check(*op->settings.pipelineStage >= 0, "'{}': wrong pipeline stage: got {}, expected 0 or more", op->debugName(),
          *op->settings.pipelineStage);
}

void checkStagesGoForward(const Graph &main) {
  for (const Op *op : main.ops())
    for (const TensorIndex t : op->inputs()) {
      const Op *producer = t.valid() ? main.tensor(t).getProducerUnsafe() : nullptr;
      check(!producer || *producer->settings.pipelineStage <= *op->settings.pipelineStage,
            "SessionOptions::enablePipelining: tensor '{}' goes back to an earlier pipeline stage: '{}' of stage {} "
            "makes it, '{}' of stage {} reads it (virtual graphs {} and {}). Give operations stages with "
            "Builder::pipelineStage that never fall along the model",
            main.tensor(t).id, producer ? producer->debugName() : "", producer ? *producer->settings.pipelineStage : 0,
            op->debugName(), *op->settings.pipelineStage, idText(producer ? producer->settings.vgraphId : std::nullopt),
            idText(op->settings.vgraphId));
    }
}

void checkOneVirtualGraphEach(const Graph &main) {
  std::map<PipelineStage, const Op *> first;
  for (const Op *op : main.ops()) {
    const Op *other = first.emplace(*op->settings.pipelineStage, op).first->second;
    check(
        other->settings.vgraphId == op->settings.vgraphId,
        "SessionOptions::enablePipelining: the operations of pipeline stage {} are on different virtual graphs: got {} "
        "for '{}' and {} for '{}'. Put all operations of a stage on one",
        *op->settings.pipelineStage, idText(other->settings.vgraphId), other->debugName(),
        idText(op->settings.vgraphId), op->debugName());
  }
}

void checkReaders(const Graph &main) {
  for (const Tensor *t : main.tensors()) {
    if (!isOfOneVirtualGraph(*t)) continue;
    const VirtualGraphIds ids = readersOf(*t);
    check(
        ids.size() < 2,
        "SessionOptions::enablePipelining: the variable '{}' is shared by stages on different virtual graphs: got {}, "
        "expected one. Put its readers on one virtual graph",
        t->id, listText(ids));
  }
}

void checkCalled(const Op &caller) {
  for (const Graph *graph : caller.getCalledGraphs())
    for (const Op *op : graph->ops()) {
      check(
          op->settings.vgraphId == caller.settings.vgraphId,
          "SessionOptions::enablePipelining: '{}' of subgraph '{}' is not on the virtual graph of '{}', which runs it: "
          "got {}, expected {}. Give operations of subgraphs the virtual graph of their caller",
          op->debugName(), graph->id, caller.debugName(), idText(op->settings.vgraphId),
          idText(caller.settings.vgraphId));
      checkCalled(*op);
    }
}

void checkDepth(const Graph &main, const PipelineRules &rules) {
  const int64_t stages = stageCount(main), least = leastDepth(stages, rules.trains);
  check(
      rules.depth >= least,
      "SessionOptions::enablePipelining: {} is too small for {} pipeline stages{}: got {}, expected {} or more. Raise "
      "it, or use fewer stages",
      rules.depthOf, stages, rules.trains ? " and their backward pass" : "", rules.depth, least);
}

// ---- the backward pass

// The stages that read results of a copy, directly or through other copies. A copy runs in one stage.
class CopyStages {
 public:
  explicit CopyStages(Graph &main) : main_(main) {}

  void run() {
    const std::vector<Op *> order = main_.getOpSchedule();
    for (auto it = order.rbegin(); it != order.rend(); ++it)
      if ((*it)->settings.recomputeType == RecomputeType::Recomputed) place(**it);
  }

 private:
  void place(Op &copy) {
    const Op *reader = nullptr;
    for (const TensorIndex t : copy.outputs()) {
      if (!t.valid()) continue;
      for (const Use &use : main_.tensor(t).uses()) {
        const Op &user = main_.op(use.op);
        if (!user.settings.pipelineStage) continue;
        check(!reader || reader->settings.pipelineStage == user.settings.pipelineStage,
              "SessionOptions::autoRecomputation: '{}' would have to be computed again in two pipeline stages: '{}' of "
              "stage {} and '{}' of stage {} read '{}'. Set autoRecomputation to Pipeline, or cut the stages elsewhere",
              copy.debugName(), reader ? reader->debugName() : "", reader ? *reader->settings.pipelineStage : 0,
              user.debugName(), *user.settings.pipelineStage, main_.tensor(t).id);
        reader = &user;
      }
    }
    if (reader) copy.settings.pipelineStage = reader->settings.pipelineStage;
  }

  Graph &main_;
};

// An anchored tensor cannot be restored in place, but RecomputationType.Pipeline restores all stashed tensors in place.
void checkAnchorsAreNotStashed(const Graph &main, int64_t firstGradient, const std::set<TensorId> &anchors) {
  for (const TensorId &id : anchors) {
    const TensorIndex t = main.find(id);
    const Op *producer = t.valid() ? main.tensor(t).getProducerUnsafe() : nullptr;
    if (!producer || producer->place() >= firstGradient || !producer->settings.pipelineStage) continue;
    for (const Use &use : main.tensor(t).uses()) {
      const Op &reader = main.op(use.op);
      check(reader.place() < firstGradient || reader.settings.pipelineStage == producer->settings.pipelineStage,
            "SessionOptions::autoRecomputation Pipeline: the anchor '{}' is stashed between stage {}, which makes it, "
            "and stage {}, where '{}' reads it. Anchor another tensor, or set autoRecomputation to NoRecompute",
            id, *producer->settings.pipelineStage, idText(reader.settings.pipelineStage), reader.debugName());
    }
  }
}

}  // namespace

int64_t leastDepth(int64_t forward, bool trains) { return trains ? 2 * (forward - 1) + 1 : forward; }

int64_t stageCount(const Graph &main) {
  int64_t count = 0;
  for (const Op *op : main.ops()) count = std::max(count, op->settings.pipelineStage.value_or(-1) + 1);
  return count;
}

void inferPipelineStages(Graph &main) {
  const std::vector<Op *> order = main.getOpSchedule();
  if (std::ranges::any_of(order, [](const Op *op) { return op->settings.pipelineStage.has_value(); })) return;
  std::map<VGraphId, VirtualGraphIds> before;  // for each virtual graph those that it reads from
  for (const Op *op : order) {
    if (!op->settings.vgraphId) return;
    VirtualGraphIds &sources = before[*op->settings.vgraphId];
    for (const TensorIndex t : op->inputs())
      if (const Op *producer = t.valid() ? main.tensor(t).getProducerUnsafe() : nullptr)
        if (producer->settings.vgraphId != op->settings.vgraphId) sources.insert(*producer->settings.vgraphId);
  }
  std::map<VGraphId, PipelineStage> stages;
  while (!before.empty()) {
    auto next = std::ranges::find_if(before, [&](const auto &entry) {
      return std::ranges::all_of(entry.second, [&](VGraphId source) { return stages.count(source) != 0; });
    });
    if (next == before.end()) next = before.begin();  // values move in a circle; checkPipeline names one that goes back
    stages.emplace(next->first, static_cast<PipelineStage>(stages.size()));
    before.erase(next);
  }
  for (Op *op : order) op->settings.pipelineStage = stages.at(*op->settings.vgraphId);
}

void checkPipeline(const Graph &main, const PipelineRules &rules) {
  const VirtualGraphIds placed = virtualGraphsOf(main);
  check(placed.size() > 1 || rules.form == PipelineRules::Form::Explicit,
        "SessionOptions::enablePipelining requires operations on two virtual graphs or more: got {}. Place them with "
        "Builder::virtualGraph",
        listText(placed));
  if (rules.trains) checkMarks(main);
  checkAllStaged(main);
  checkStagesGoForward(main);
  checkOneVirtualGraphEach(main);
  checkReaders(main);
  for (const Op *op : main.ops()) checkCalled(*op);
  checkDepth(main, rules);
}

void stageBackwardPass(Graph &main, int64_t firstGradient, const PipelineRules &rules,
                       const std::set<TensorId> &anchors) {
  int64_t forward = 0;
  for (const Op *op : main.ops())
    if (op->place() < firstGradient) forward = std::max(forward, op->settings.pipelineStage.value_or(0) + 1);
  for (Op *op : main.ops())
    if (op->place() >= firstGradient && op->settings.pipelineStage)
      op->settings.pipelineStage = 2 * (forward - 1) - *op->settings.pipelineStage;
  CopyStages(main).run();
  if (rules.stashesInputsOnly) checkAnchorsAreNotStashed(main, firstGradient, anchors);
}

}  // namespace popart::transforms
