// See pipeline_loop.hpp. Stage graphs are made first. Cycles then call them in two graphs: the one around the loop, and
// the body of the new loop.
#include "transforms/pipeline_loop.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <popart/error.hpp>

#include "ops/control/loops.hpp"
#include "transforms/body_stages.hpp"
#include "transforms/copy_op.hpp"
#include "transforms/counted_loop.hpp"
#include "transforms/cycle_site.hpp"
#include "transforms/prune.hpp"
#include "transforms/variables.hpp"

namespace popart::transforms {
namespace {

// One stage as a separate graph. Inputs and outputs are given as tensors of the loop's body, in order.
struct Stage {
  Graph *graph = nullptr;
  std::vector<TensorIndex> inputs, outputs;
  std::set<TensorIndex> modified;  // inputs of the body that it writes
};

class Pipeliner {
 public:
  Pipeliner(Ir &ir, Op &loop)
      : ir_(ir),
        loop_(loop),
        outer_(loop.getGraph()),
        body_(bodyOf(loop)),
        count_(loop.attrInt("trip_count")),
        carried_(static_cast<size_t>(ops::carriedCount(loop))),
        stageOf_(stagesOfBody(loop)) {
    for (const Op *op : body_.ops()) stages_.resize(std::max(stages_.size(), stageIndex(*op) + 1));
  }

  void run() {
    check(count_ >= stages(), "pipeline '{}': too few micro-batches for {} stages: got {}, expected {} or more",
          loop_.debugName(), stages(), count_, stages());
    findInvariant();
    findCrossings();
    makeStages();
    CycleSite around(outer_, loop_);
    for (size_t i = 2; i < body_.inputs().size(); ++i) around.values[body_.inputs()[i]] = loop_.inputs()[i];
    makeRings(around);
    for (int64_t c = 0; c + 1 < stages(); ++c) {
      around.begin(c);
      emitCycle(around, 0, c);
    }
    emitLoop(around);
    for (int64_t c = count_; c + 1 < count_ + stages(); ++c) {
      around.begin(c);
      emitCycle(around, c - count_ + 1, stages() - 1);
    }
    replaceLoop(around);
  }

 private:
  int64_t stages() const { return static_cast<int64_t>(stages_.size()); }
  size_t stageIndex(const Op &op) const { return static_cast<size_t>(stageOf_[op.index().value]); }
  bool isInput(TensorIndex t) const { return !body_.tensor(t).hasProducer(); }
  // The outputs of the loop whose value is `t`.
  std::vector<size_t> resultsOf(TensorIndex t) const {
    std::vector<size_t> results;
    for (size_t i = 0; i < carried_; ++i)
      if (body_.outputs()[i + 1] == t) results.push_back(i);
    return results;
  }

  // Ops with the same result in every iteration, such as the transpose of a weight: each stage that reads them gets its
  // own copy.
  void findInvariant() {
    isInvariant_.assign(body_.opSlots(), 0);
    std::set<TensorIndex> changing{body_.inputs()[0]};
    for (size_t i = 0; i < carried_; ++i) changing.insert(body_.inputs()[i + 2]);
    for (const Op *op : body_.ops())
      for (InIndex i = 0; i < op->inputCount(); ++i)
        if (op->hasInput(i) && op->modifiesInput(i)) changing.merge(changedBy(*op, i));
    for (const Op *op : body_.getOpSchedule())
      isInvariant_[op->index().value] =
          op->inputCount() > 0 && !op->has(Trait::HostIo) && !hasEffect(*op) &&
          std::ranges::none_of(op->outputs(), [&](TensorIndex t) { return t.valid() && !resultsOf(t).empty(); }) &&
          std::ranges::all_of(op->inputs(), [&](TensorIndex t) {
            if (!t.valid()) return true;
            return isInput(t) ? changing.count(t) == 0 : isInvariant(*body_.tensor(t).getProducer());
          });
  }
  bool isInvariant(const Op &op) const { return isInvariant_[op.index().value] != 0; }

  // Tensors that later stages read, and the largest number of cycles in between.
  void findCrossings() {
    for (const Op *op : body_.ops())
      for (const TensorIndex t : op->inputs()) {
        if (!t.valid() || isInput(t) || isInvariant(*op) || isInvariant(*body_.tensor(t).getProducer())) continue;
        const int64_t cycles = stageOf_[op->index().value] - stageOf_[body_.tensor(t).producerIndex().value];
        if (cycles > 0) delay_[t] = std::max(delay_[t], cycles);
      }
  }
  bool isStashed(TensorIndex t) const {
    const auto found = delay_.find(t);
    return found != delay_.end() && found->second > 1;
  }

  // ---- stages
  void makeStages() {
    for (size_t s = 0; s < stages_.size(); ++s)
      stages_[s].graph = &ir_.createGraph(ir_.createUniqueSubgraphId("pipelineStage" + std::to_string(s)));
    std::map<OpIndex, OpIndex> copies;
    for (const Op *op : body_.getOpSchedule())
      if (!isInvariant(*op)) copies[op->index()] = copyInto(stageIndex(*op), *op);
    for (const auto &[before, after] : body_.constraints())
      if (copies.count(before) && copies.count(after) && stageOf_[before.value] == stageOf_[after.value])
        stages_[static_cast<size_t>(stageOf_[before.value])].graph->addConstraint(copies[before], copies[after]);
    for (const Op *op : body_.ops())
      for (const TensorIndex t : op->outputs()) {
        if (!t.valid() || (!delay_.count(t) && resultsOf(t).empty())) continue;
        Stage &stage = stages_[stageIndex(*op)];
        stage.outputs.push_back(t);
        stage.graph->markOutput(made_.at({stageIndex(*op), t}));
      }
    for (Stage &stage : stages_)
      for (const TensorIndex t : stage.modified) stage.graph->tensor(inputOf(stage, t)).byReference = true;
  }

  OpIndex copyInto(size_t s, const Op &op) {
    Stage &stage = stages_[s];
    std::vector<TensorIndex> inputs;
    for (const TensorIndex t : op.inputs()) inputs.push_back(t.valid() ? inStage(s, t) : TensorIndex{});
    for (InIndex i = 0; i < op.inputCount(); ++i)
      if (op.hasInput(i) && op.modifiesInput(i)) stage.modified.merge(changedBy(op, i));
    const Op *copy = copyOp(op, *stage.graph, inputs, copySettings(op, *stage.graph));
    for (size_t o = 0; o < op.outputs().size(); ++o)
      if (op.outputs()[o].valid()) made_[{s, op.outputs()[o]}] = copy->outputs()[o];
    return copy->index();
  }

  TensorIndex inStage(size_t s, TensorIndex t) {
    if (const auto it = made_.find({s, t}); it != made_.end()) return it->second;
    const Tensor &tensor = body_.tensor(t);
    Graph &graph = *stages_[s].graph;
    if (tensor.tensorType() == TensorType::Const)
      return made_[{s, t}] = graph.addConstant(graph.freeId(tensor.id), tensor.tensorData());
    if (t == body_.inputs()[1])  // true as long as the loop runs
      return made_[{s, t}] = graph.addConstant(graph.freeId(tensor.id), TensorData::scalar(true));
    if (const Op *producer = tensor.getProducerUnsafe(); producer && isInvariant(*producer)) {
      copyInto(s, *producer);
      return made_.at({s, t});
    }
    stages_[s].inputs.push_back(t);
    return made_[{s, t}] = graph.addInput(graph.freeId(tensor.id), tensor.info);
  }

  static TensorIndex inputOf(const Stage &stage, TensorIndex t) {
    const auto at = std::ranges::find(stage.inputs, t) - stage.inputs.begin();
    return stage.graph->inputs()[static_cast<size_t>(at)];
  }

  // The inputs of the body whose memory an op changes through its input `i`.
  std::set<TensorIndex> changedBy(const Op &op, InIndex i) const {
    std::set<TensorIndex> inputs = memoryShownBy(body_, op.inputs()[static_cast<size_t>(i)]);
    std::erase_if(inputs, [&](TensorIndex t) { return body_.tensor(t).tensorType() == TensorType::Const; });
    return inputs;
  }

  // ---- cycles
  void makeRings(CycleSite &site) {
    for (const auto &[t, cycles] : delay_)
      if (cycles > 1) site.values[t] = site.makeRing("Stashed___" + body_.tensor(t).id, body_.info(t), cycles);
  }

  // Later stages first: they read results of the previous cycle.
  void emitCycle(CycleSite &site, int64_t first, int64_t last) {
    for (int64_t s = last; s >= first; --s) callStage(site, s);
  }

  void callStage(CycleSite &site, int64_t s) {
    const Stage &stage = stages_[static_cast<size_t>(s)];
    std::vector<TensorIndex> inputs;
    std::vector<int64_t> modified;
    for (const TensorIndex t : stage.inputs) {
      if (stage.modified.count(t)) modified.push_back(static_cast<int64_t>(inputs.size()));
      inputs.push_back(valueFor(site, s, t));
    }
    std::vector<TensorId> ids;
    for (const TensorIndex t : stage.outputs) {
      TensorId id = site.graph.freeId(body_.tensor(t).id);
      while (std::ranges::find(ids, id) != ids.end()) id = site.graph.freeId(id + "/next");
      ids.push_back(id);
    }
    const Op &call = site.call(*stage.graph, inputs, ids, modified, s);
    for (size_t o = 0; o < stage.outputs.size(); ++o) {
      const TensorIndex t = stage.outputs[o], value = call.outputs()[o];
      for (const size_t result : resultsOf(t)) site.values[body_.inputs()[result + 2]] = value;
      if (isStashed(t)) {
        site.stash(site.values.at(t), value, delay_.at(t), "Stashed___" + body_.tensor(t).id);
      } else if (delay_.count(t)) {
        site.values[t] = value;
      }
    }
  }

  TensorIndex valueFor(CycleSite &site, int64_t s, TensorIndex t) {
    if (t == body_.inputs()[0]) return site.numberBefore(s);
    if (!isStashed(t)) return site.values.at(t);
    const int64_t cycles = s - stageOf_[body_.tensor(t).producerIndex().value];
    return site.restore(site.values.at(t), cycles, delay_.at(t), "Restored___" + body_.tensor(t).id);
  }

  // ---- the loop of full cycles
  // Whether iterations read the value that the previous one left, or the last iteration computes the loop's result.
  bool isCarried(size_t result) const {
    const Op *producer = body_.tensor(body_.outputs()[result + 1]).getProducerUnsafe();
    return producer && (stageIndex(*producer) == 0 || !body_.tensor(body_.inputs()[result + 2]).uses().empty());
  }

  void emitLoop(CycleSite &around) {
    std::vector<TensorIndex> carried;  // tensors of the old body
    for (const auto &[t, cycles] : delay_)
      if (cycles == 1) carried.push_back(t);
    for (size_t i = 0; i < carried_; ++i)
      if (isCarried(i)) carried.push_back(body_.inputs()[i + 2]);
    Op::Settings settings = inheritSettings(loop_, outer_);
    Op &loop = *addCountedLoop(outer_, count_ - stages() + 1, settings);
    Graph &body = bodyOf(loop);
    CycleSite inside(body, loop_);
    const auto take = [&](TensorIndex t) {
      const InIndex input = passIn(loop, around.values.at(t));
      inside.values[t] = body.inputs()[static_cast<size_t>(input)];
      return input;
    };
    for (const TensorIndex t : carried) take(t);
    loop.mutableAttributes().set("carried", static_cast<int64_t>(carried.size()));
    std::vector<InIndex> modified;
    for (const auto &[t, cycles] : delay_)
      if (cycles > 1) modified.push_back(take(t));
    for (size_t i = 2; i < body_.inputs().size(); ++i) {
      const TensorIndex t = body_.inputs()[i];
      const auto reads = [&](const Stage &stage) { return std::ranges::find(stage.inputs, t) != stage.inputs.end(); };
      if (inside.values.count(t) || std::ranges::none_of(stages_, reads)) continue;
      const InIndex input = take(t);
      if (std::ranges::any_of(stages_, [&](const Stage &stage) { return stage.modified.count(t) != 0; }))
        modified.push_back(input);
    }
    inside.begin(stages() - 1, body.inputs()[0]);
    emitCycle(inside, 0, stages() - 1);
    for (const TensorIndex t : carried) body.markOutput(inside.values.at(t));
    writeThrough(loop, modified);
    for (size_t i = 0; i < carried.size(); ++i) {
      const TensorIndex t = carried[i];
      const TensorIndex result =
          outer_.addTensor(outer_.freeId(body_.tensor(t).id), body_.info(t), TensorType::ActGrad);
      outer_.connectOutput(loop.index(), static_cast<OutIndex>(i), result);
      around.values[t] = result;
    }
    loop.setup();
    around.follow(loop);
  }

  void replaceLoop(const CycleSite &around) {
    for (size_t i = 0; i < carried_; ++i)
      if (loop_.hasOutput(static_cast<OutIndex>(i)))
        outer_.replaceTensor(loop_.outputs()[i], around.values.at(body_.inputs()[i + 2]));
    const auto constraints = outer_.constraints();
    for (const auto &[before, after] : constraints) {
      if (after == loop_.index()) outer_.addConstraint(before, around.first());
      if (before == loop_.index()) outer_.addConstraint(around.last(), after);
    }
    const GraphId old = body_.id;
    const std::vector<TensorIndex> inputs = loop_.inputs();
    outer_.eraseOpAndOutputs(loop_.index());
    ir_.removeGraph(old);
    for (const TensorIndex t : inputs)
      if (t.valid() && outer_.alive(t) && outer_.tensor(t).tensorType() == TensorType::Const &&
          outer_.tensor(t).uses().empty() && !outer_.tensor(t).isGraphOutput())
        outer_.eraseTensor(t);
  }

  Ir &ir_;
  Op &loop_;
  Graph &outer_, &body_;
  const int64_t count_;
  const size_t carried_;
  const std::vector<int64_t> stageOf_;  // by op of the body
  std::vector<Stage> stages_;
  std::vector<char> isInvariant_;                               // by op of the body
  std::map<TensorIndex, int64_t> delay_;                        // in cycles, of values that cross stages
  std::map<std::pair<size_t, TensorIndex>, TensorIndex> made_;  // (stage, tensor of the body) → tensor of its graph
};

bool isPipeline(const Op &loop) {
  if (ops::iterationCount(loop) < 0) return false;
  const Graph &body = bodyOf(loop);
  if (body.outputs().size() != static_cast<size_t>(ops::carriedCount(loop)) + 1) return false;
  std::set<PipelineStage> stages;
  for (const Op *op : body.ops())
    if (op->settings.pipelineStage) stages.insert(*op->settings.pipelineStage);
  return stages.size() > 1;
}

}  // namespace

int pipelineLoops(Ir &ir) {
  int count = 0;
  for (Op *loop : ir.opsOfType("Loop"))
    if (isPipeline(*loop)) Pipeliner(ir, *loop).run(), ++count;
  return count;
}

}  // namespace popart::transforms
