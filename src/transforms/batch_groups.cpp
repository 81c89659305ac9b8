// See batch_groups.hpp. One walk over the schedule. The level of an op is the number of groups that must be finished
// before it; ops of one level depend on each other only through parts.
#include "transforms/batch_groups.hpp"

#include <algorithm>
#include <tuple>

#include <popart/error.hpp>

#include "ops/pieces.hpp"

namespace popart::transforms {
namespace {

using Scope = std::tuple<VGraphId, ExecutionPhase, PipelineStage>;
constexpr int64_t kNowhere = -1;

class GroupFinder {
 public:
  GroupFinder(const Graph &graph, const BatchSerialisation &options, const std::set<TensorIndex> &kept,
              int64_t firstGradient)
      : graph_(graph), options_(options), kept_(kept), firstGradient_(firstGradient) {}

  BatchGroups run() {
    for (const Tensor *t : graph_.tensorsOfType(TensorType::Stream)) addStream(*t);
    for (Op *op : graph_.getOpSchedule()) visit(*op);
    makeGroups();
    for (const TensorIndex t : graph_.outputs()) needWhole(t);
    for (const TensorIndex t : kept_) needWhole(t);
    return std::move(result_);
  }

 private:
  void addStream(const Tensor &stream) {
    const auto said = options_.axes.find(stream.id);
    const int axis = said == options_.axes.end() ? 0 : said->second;
    if (stream.uses().empty() || stream.info.rank() <= axis) return;
    const int64_t size = stream.info.dim(axis);
    check(
        size >= options_.parts && size % options_.parts == 0,
        "SessionOptions::batchSerializationSettings.factor: the batch of input '{}', axis {} of {}, does not fall into "
        "equal parts: got {} samples and {} parts. Use a factor that divides it, or give the input a batch axis",
        stream.id, axis, stream.info.shape(), size, options_.parts);
    streams_[stream.index()] = axis;
  }

  Scope scopeOf(const Op &op) const {
    const Op::Settings &s = op.settings;
    return {options_.joinsVirtualGraphs ? s.vgraphId.value_or(kNowhere) : kNowhere,
            options_.joinsExecutionPhases ? s.executionPhase.value_or(kNowhere) : kNowhere,
            options_.joinsPipelineStages ? s.pipelineStage.value_or(kNowhere) : kNowhere};
  }
  bool isBackward(const Op &op) const { return op.place() >= firstGradient_; }

  const Op *cutProducer(TensorIndex t) const {
    return result_.axes.count(t) ? graph_.tensor(t).getProducerUnsafe() : nullptr;
  }

  // The axis of the samples of an operand; kWhole: it has none.
  int axisOf(TensorIndex t) const {
    if (const auto stream = streams_.find(t); stream != streams_.end()) return stream->second;
    const auto found = result_.axes.find(t);
    return found == result_.axes.end() ? Pieces::kWhole : found->second;
  }

  std::optional<Pieces> piecesOf(const Op &op) const {
    for (InIndex i = 0; i < op.inputCount(); ++i) {
      const int axis = op.hasInput(i) ? axisOf(op.inputs()[static_cast<size_t>(i)]) : Pieces::kWhole;
      if (axis == Pieces::kWhole) continue;
      std::optional<Pieces> pieces = ops::piecesOf(op, i, axis, options_.parts);
      if (pieces && agrees(op, *pieces)) return pieces;
    }
    return std::nullopt;
  }

  // Whether every operand is divided along the axis of its samples.
  bool agrees(const Op &op, const Pieces &pieces) const {
    for (size_t i = 0; i < op.inputs().size(); ++i) {
      const int axis = op.inputs()[i].valid() ? axisOf(op.inputs()[i]) : Pieces::kWhole;
      if (axis != Pieces::kWhole && pieces.in[i] != Pieces::kWhole && pieces.in[i] != axis) return false;
    }
    return true;
  }

  bool passesParts(const Op &from, const Op &to, TensorIndex t, int axis) const {
    return axis == result_.axes.at(t) && !kept_.count(t) && scopeOf(from) == scopeOf(to) &&
           (options_.method != BatchSerialisation::Method::Loop || isBackward(from) == isBackward(to));
  }

  // The number of groups that must be finished before the whole tensor is available.
  int64_t levelOfWhole(TensorIndex t) const {
    if (const Op *producer = cutProducer(t)) return levels_.at(producer->index()) + 1;
    const Op *producer = graph_.tensor(t).getProducerUnsafe();
    return producer ? levels_.at(producer->index()) : 0;
  }

  void needWhole(TensorIndex t) {
    if (cutProducer(t)) result_.whole.insert(t);
  }

  void visit(Op &op) {
    const std::optional<Pieces> pieces = piecesOf(op);
    int64_t level = 0;
    for (size_t i = 0; i < op.inputs().size(); ++i) {
      const TensorIndex t = op.inputs()[i];
      if (!t.valid()) continue;
      const Op *producer = cutProducer(t);
      if (producer && pieces && passesParts(*producer, op, t, pieces->in[i])) {
        level = std::max(level, levels_.at(producer->index()));
      } else {
        level = std::max(level, levelOfWhole(t));
        needWhole(t);
      }
    }
    levels_[op.index()] = level;
    if (!pieces) return;
    for (size_t o = 0; o < op.outputs().size(); ++o)
      if (op.outputs()[o].valid()) result_.axes[op.outputs()[o]] = pieces->out[o];
    result_.pieces.emplace(op.index(), *pieces);
    members_[{isBackward(op), level, scopeOf(op)}].push_back(&op);
  }

  void makeGroups() {
    for (auto &[key, ops] : members_) {
      BatchGroup group{std::move(ops), 0};
      group.place = group.ops.front()->place();
      for (const Op *op : group.ops) {
        group.place = std::min(group.place, op->place());
        result_.groupOf[op->index()] = result_.groups.size();
        for (const TensorIndex t : op->outputs())
          if (t.valid()) result_.madeIn[t] = result_.groups.size();
      }
      for (const Op *op : group.ops)
        for (const TensorIndex t : op->inputs()) {
          const Op *producer = t.valid() ? graph_.tensor(t).getProducerUnsafe() : nullptr;
          if (producer && !result_.pieces.count(producer->index()))
            group.place = std::max(group.place, producer->place());
        }
      result_.groups.push_back(std::move(group));
    }
    // A tensor that several groups need whole is not also passed on in parts.
    if (options_.method == BatchSerialisation::Method::Loop)
      for (const auto &[t, axis] : result_.axes)
        for (const Use &use : graph_.tensor(t).uses()) {
          const auto reader = result_.groupOf.find(use.op);
          if (reader == result_.groupOf.end() || reader->second != result_.madeIn.at(t)) needWhole(t);
        }
  }

  const Graph &graph_;
  const BatchSerialisation &options_;
  const std::set<TensorIndex> &kept_;
  const int64_t firstGradient_;
  std::map<TensorIndex, int> streams_;  // the axis of their samples
  std::map<OpIndex, int64_t> levels_;
  std::map<std::tuple<bool, int64_t, Scope>, std::vector<Op *>> members_;
  BatchGroups result_;
};

}  // namespace

bool BatchGroups::readsParts(const Op &op, InIndex i) const {
  const TensorIndex t = op.inputs()[static_cast<size_t>(i)];
  const auto made = axes.find(t);
  if (made == axes.end() || made->second != pieces.at(op.index()).in[static_cast<size_t>(i)]) return false;
  return !whole.count(t) || madeIn.at(t) == groupOf.at(op.index());
}

BatchGroups findBatchGroups(const Graph &graph, const BatchSerialisation &options, const std::set<TensorIndex> &kept,
                            int64_t firstGradient) {
  return GroupFinder(graph, options, kept, firstGradient).run();
}

}  // namespace popart::transforms
