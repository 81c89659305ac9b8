// See recompute.hpp. Decisions are about memory: a view is kept or recomputed together with the tensor that it views.
// Ops are visited backwards to find the first reader of each copy, then forwards to make the copies.
#include "transforms/recompute.hpp"

#include <algorithm>
#include <climits>
#include <map>

#include "base/union_find.hpp"
#include "ir/layer_names.hpp"
#include "transforms/checkpoints.hpp"
#include "transforms/copy_op.hpp"
#include "transforms/prune.hpp"

namespace popart::transforms {
namespace {

constexpr int kNever = INT_MAX;

class Recomputer {
 public:
  Recomputer(Graph &graph, const RecomputeOptions &options)
      : graph_(graph),
        options_(options),
        order_(graph.getOpSchedule()),
        storage_(graph.tensorSlots()),
        kept_(graph.tensorSlots(), 0),
        readBackward_(graph.tensorSlots(), 0),
        firstReader_(graph.opSlots(), kNever),
        memory_(graph.tensorSlots()) {}

  Recomputation run() {
    findStorage();
    findNarrowedVariables();
    findWrites();
    keepWhatMustStay();
    if (options_.rule == RecomputeRule::Standard) keepBetween(standardSegments());
    if (options_.rule == RecomputeRule::Chosen) keepCheckpoints();
    if (options_.rule == RecomputeRule::Stages) keepBetween(stages());
    findFirstReaders();
    copyOps();
    return result_;
  }

 private:
  bool isForward(const Op &op) const { return op.place() < options_.firstGradient; }
  bool isRecomputed(TensorIndex t) const {
    const Op *producer = t.valid() ? graph_.tensor(t).getProducerUnsafe() : nullptr;
    return producer && isForward(*producer) && !kept_[storage_[t.value]];
  }

  void findStorage() {
    for (uint32_t t = 0; t < storage_.size(); ++t) storage_[t] = t;
    for (const Op *op : order_)
      if (isForward(*op)) {
        forward_.push_back(op);
        if (isViewOfFirst(*op)) storage_[op->outputs()[0].value] = storage_[op->inputs()[0].value];
      }
  }

  // Casts of variables to narrower types, and the transposes and views before them.
  void findNarrowedVariables() {
    for (const Op *cast : forward_) {
      if (!cast->has(Trait::Conversion) || cast->outInfo(0).nbytes() >= cast->inInfo(0).nbytes()) continue;
      std::vector<const Op *> chain{cast};
      const Tensor *t = cast->inTensor(0);
      for (const Op *op = t->getProducerUnsafe(); op && (op->is(Role::Transpose) || isViewOfFirst(*op));
           op = t->getProducerUnsafe()) {
        chain.push_back(op);
        t = op->inTensor(0);
      }
      if (t->tensorType() == TensorType::Variable) narrowsVariable_.insert(chain.begin(), chain.end());
    }
  }
  bool isMarked(const Op &op) const {
    return op.settings.recomputeType == RecomputeType::Recompute || narrowsVariable_.contains(&op);
  }

  // Memory that forward ops write. A copy must read the same values as its original.
  void findWrites() {
    std::vector<std::pair<uint32_t, size_t>> writes;
    for (size_t at = 0; at < forward_.size(); ++at) {
      const Op *op = forward_[at];
      for (InIndex i = 0; i < op->inputCount(); ++i) {
        if (!op->hasInput(i)) continue;
        if (op->modifiesInput(i)) writes.emplace_back(op->inputs()[static_cast<size_t>(i)].value, at);
        for (OutIndex o = 0; o < op->outputCount(); ++o)
          if (op->hasOutput(o) && op->aliasesInput(i, o))
            memory_.join(op->inputs()[static_cast<size_t>(i)].value, op->outputs()[static_cast<size_t>(o)].value);
      }
    }
    for (const auto &[t, at] : writes) lastWrite_[memory_.find(t)] = at;
  }

  void keep(TensorIndex t) {
    if (t.valid()) kept_[storage_[t.value]] = 1;
  }

  // Whether the op makes a chosen tensor, or only tensors that the backward pass does not read, so that only recomputed
  // ops may need it.
  bool makesChosen(const Op &op) const {
    const auto isChosen = [&](TensorIndex t) { return t.valid() && options_.chosen.contains(graph_.tensor(t).id); };
    const auto isRead = [&](TensorIndex t) { return t.valid() && readBackward_[t.value]; };
    return std::ranges::any_of(op.outputs(), isChosen) || std::ranges::none_of(op.outputs(), isRead);
  }

  bool wantsToRepeat(const Op &op) const {
    if (isMarked(op)) return true;
    switch (options_.rule) {
      case RecomputeRule::Marked:
        return false;
      case RecomputeRule::Norms:
        return op.isNorm();
      case RecomputeRule::Chosen:
        return makesChosen(op);
      case RecomputeRule::Standard:
      case RecomputeRule::Stages:
      case RecomputeRule::All:
        return true;
    }
    return false;
  }

  void keepWhatMustStay() {
    for (const Op *op : order_)
      if (!isForward(*op))
        for (const TensorIndex t : op->inputs())
          if (t.valid()) readBackward_[storage_[t.value]] = 1;
    for (uint32_t t = 0; t < kept_.size(); ++t)
      if (const TensorIndex i{t}; graph_.alive(i)) {
        const Op *producer = graph_.tensor(i).getProducerUnsafe();
        kept_[t] = !producer || !isForward(*producer);  // views of it are kept too
      }
    for (const TensorId &id : options_.anchors)
      if (const TensorIndex t = graph_.find(id); t.valid()) keep(t);
    for (const TensorIndex t : graph_.outputs()) keep(t);
    for (const Op *op : forward_)
      if (!mayRepeat(*op) || (!isViewOfFirst(*op) && !wantsToRepeat(*op)))
        for (const TensorIndex t : op->outputs()) keep(t);
  }

  // ---- segments, by position in the forward pass

  // Keeps values that one segment makes and another one reads, and all values of the last segment. Marked ops are
  // recomputed in every segment.
  void keepBetween(const std::vector<int> &segments) {
    const int last = segments.empty() ? 0 : *std::max_element(segments.begin(), segments.end());
    std::vector<int> madeIn(storage_.size(), last);
    for (size_t i = 0; i < forward_.size(); ++i) {
      const Op &op = *forward_[i];
      for (const TensorIndex t : op.inputs())
        if (t.valid() && madeIn[storage_[t.value]] != segments[i]) keep(t);
      if (isViewOfFirst(op)) continue;
      const bool stays = segments[i] == last && !isMarked(op);
      for (const TensorIndex t : op.outputs()) {
        if (!t.valid()) continue;
        madeIn[t.value] = segments[i];
        if (stays) keep(t);
      }
    }
  }

  // Memory that forward ops fill and that may be recomputed; with `withKept`, also memory that is kept for the backward
  // pass in any case.
  struct Values {
    std::vector<ForwardValue> values;
    std::vector<TensorIndex> tensors;  // by value
  };
  Values forwardValues(bool withKept) const {
    Values result;
    std::vector<int> valueOf(storage_.size(), -1);
    for (int i = 0; i < static_cast<int>(forward_.size()); ++i) {
      const Op &op = *forward_[static_cast<size_t>(i)];
      const auto first = static_cast<int>(result.values.size());
      if (!isViewOfFirst(op))
        for (const TensorIndex t : op.outputs()) {
          if (!t.valid() || (kept_[t.value] && !(withKept && readBackward_[t.value]))) continue;
          valueOf[t.value] = static_cast<int>(result.values.size());
          result.values.push_back(
              {i, i, graph_.info(t).nbytes(), readBackward_[t.value] != 0, {}, kept_[t.value] != 0});
          result.tensors.push_back(t);
        }
      for (const TensorIndex t : op.inputs()) {
        const int v = t.valid() ? valueOf[storage_[t.value]] : -1;
        if (v < 0) continue;
        result.values[static_cast<size_t>(v)].lastRead = i;
        for (int m = first; m < static_cast<int>(result.values.size()); ++m)
          result.values[static_cast<size_t>(v)].makes.push_back(m);
      }
    }
    return result;
  }

  std::vector<int> standardSegments() const {
    const Values all = forwardValues(false);
    const std::vector<int> cuts =
        chooseCheckpoints(static_cast<int>(forward_.size()), all.values, LastSegment::Kept).cuts;
    std::vector<int> segments(forward_.size());
    for (size_t i = 0, cut = 0; i < segments.size(); ++i) {
      segments[i] = static_cast<int>(cut);
      if (cut < cuts.size() && static_cast<int>(i) == cuts[cut]) ++cut;
    }
    return segments;
  }

  void keepCheckpoints() {
    const Values all = forwardValues(true);
    const Checkpoints chosen = chooseCheckpoints(static_cast<int>(forward_.size()), all.values, LastSegment::WherePays);
    for (size_t v = 0; v < all.tensors.size(); ++v)
      if (chosen.isKept[v] && !isMarked(*graph_.tensor(all.tensors[v]).getProducer())) keep(all.tensors[v]);
  }

  // An op without a stage belongs to the latest stage of its operands.
  std::vector<int> stages() const {
    std::vector<int> stageOf(graph_.opSlots(), 0), result;
    for (const Op *op : forward_) {
      int stage = 0;
      for (const TensorIndex t : op->inputs())
        if (t.valid() && graph_.tensor(t).hasProducer())
          stage = std::max(stage, stageOf[graph_.tensor(t).producerIndex().value]);
      if (op->settings.pipelineStage) stage = static_cast<int>(*op->settings.pipelineStage);
      result.push_back(stageOf[op->index().value] = stage);
    }
    return result;
  }

  // ---- copies

  // For each recomputed op, the position of the first op that needs its copy.
  void findFirstReaders() {
    for (int i = static_cast<int>(order_.size()); i-- > 0;) {
      const Op &op = *order_[static_cast<size_t>(i)];
      const int needed = isForward(op) ? firstReader_[op.index().value] : i;
      if (needed == kNever) continue;
      for (const TensorIndex t : op.inputs())
        if (isRecomputed(t)) {
          int &first = firstReader_[graph_.tensor(t).producerIndex().value];
          first = std::min(first, needed);
        }
    }
  }

  void copyOps() {
    // The copy is placed after the op that runs before its first reader. An op may run later than its place, if it
    // waits for others, so the latest place up to that position is used.
    std::vector<int64_t> latest(order_.size());
    int64_t place = 0;
    for (size_t i = 0; i < order_.size(); ++i) latest[i] = place = std::max(place, order_[i]->place());
    for (size_t at = 0; at < forward_.size(); ++at) {
      const int first = firstReader_[forward_[at]->index().value];
      if (first != kNever) copy(at, latest[static_cast<size_t>(first) - 1]);
    }
  }

  void copy(size_t at, int64_t place) {
    const Op &op = *forward_[at];
    std::vector<TensorIndex> inputs;
    for (const TensorIndex t : op.inputs()) inputs.push_back(isRecomputed(t) ? copies_.at(t) : asReadAt(at, t));
    Op::Settings settings = inheritSettings(op, graph_, kRecomputedSuffix);
    settings.recomputeType = RecomputeType::Recomputed;
    settings.sequence = place;
    const Op &made = *copyOp(op, graph_, inputs, settings, "___recomputed");
    ++result_.copies;
    result_.cost += costOf(made);
    for (size_t o = 0; o < op.outputs().size(); ++o) {
      const TensorIndex t = op.outputs()[o];
      if (!isRecomputed(t)) continue;
      copies_[t] = made.outputs()[o];
      for (const Use &use : std::vector<Use>(graph_.tensor(t).uses()))
        if (!isForward(graph_.op(use.op))) graph_.replaceUse(use, made.outputs()[o]);
    }
  }

  // The tensor that a forward op reads: itself or, if a later op writes to its memory, a copy made before the write.
  TensorIndex asReadAt(size_t at, TensorIndex t) {
    if (!t.valid()) return t;
    const auto write = lastWrite_.find(memory_.find(t.value));
    if (write == lastWrite_.end() || write->second <= at) return t;
    const Op &op = *forward_[at];
    return graph_
        .addConnectedOp(opDef("Identity"), {t}, {graph_.freeId(graph_.tensor(t).id + "___before")}, {},
                        inheritSettings(op, graph_, "before"))
        ->outputs()[0];
  }

  Graph &graph_;
  const RecomputeOptions &options_;
  const std::vector<Op *> order_;
  std::vector<const Op *> forward_;            // in order
  std::set<const Op *> narrowsVariable_;       // forward ops that make a narrower form of a variable
  std::vector<uint32_t> storage_;              // by tensor: the one whose memory it shares
  std::vector<char> kept_;                     // by representative of the memory
  std::vector<char> readBackward_;             // the same
  std::vector<int> firstReader_;               // by op: position in `order_`
  UnionFind memory_;                           // tensors that share memory through in-place ops
  std::map<uint32_t, size_t> lastWrite_;       // by representative of such a set: position in `forward_`
  std::map<TensorIndex, TensorIndex> copies_;  // of forward tensors
  Recomputation result_;
};

}  // namespace

bool isViewOfFirst(const Op &op) { return op.has(Trait::View) && op.hasInput(0) && op.hasOutput(0); }

bool mayRepeat(const Op &op) {
  return op.settings.recomputeType != RecomputeType::Checkpoint && !op.has(Trait::HostIo) && op.canRecompute() &&
         !hasEffect(op);
}

Recomputation recompute(Graph &graph, const RecomputeOptions &options) { return Recomputer(graph, options).run(); }

}  // namespace popart::transforms
