// See serialise_batch.hpp. Groups are emitted in order, part after part. A result that is needed whole keeps its
// tensor; only readers in its own group use its parts, all others slice the whole one again.
#include "transforms/serialise_batch.hpp"

#include <algorithm>
#include <climits>

#include "ir/hints.hpp"
#include "transforms/batch_part.hpp"
#include "transforms/copy_op.hpp"

namespace popart::transforms {
namespace {

using Ints = std::vector<int64_t>;
using Parts = std::vector<TensorIndex>;

class BatchCutter {
 public:
  BatchCutter(Graph &graph, const BatchSerialisation &options, const BatchGroups &plan)
      : graph_(graph), options_(options), plan_(plan) {}

  void run() {
    for (const BatchGroup &group : plan_.groups) {
      if (options_.method == BatchSerialisation::Method::Loop)
        takeOver(group, emitPartLoop(graph_, group, plan_));
      else
        unroll(group);
    }
    for (const TensorIndex t : gone_) graph_.eraseTensor(t);
  }

 private:
  bool isDynamic() const { return options_.method == BatchSerialisation::Method::Dynamic; }

  Op::Settings settingsOf(const Op &op) const {
    Op::Settings settings = inheritSettings(op, graph_);
    settings.hints.emplace(kBatchPart, "");
    if (options_.order != BatchSerialisation::Order::Scheduler) settings.sequence = group_->place;
    return settings;
  }

  void unroll(const BatchGroup &group) {
    group_ = &group;
    slices_.clear();
    if (isDynamic()) makeBuffers();
    if (options_.order == BatchSerialisation::Order::CutAhead) cutOperands(0);
    for (int64_t part = 0; part < options_.parts; ++part) {
      if (options_.order == BatchSerialisation::Order::CutAhead && part + 1 < options_.parts) cutOperands(part + 1);
      for (const Op *op : group.ops) emitPart(*op, part);
    }
    std::map<TensorIndex, TensorIndex> whole;
    for (const Op *op : group.ops)
      for (const TensorIndex t : op->outputs())
        if (t.valid() && plan_.whole.count(t)) whole[t] = isDynamic() ? buffers_.at(t) : join(t, *op);
    takeOver(group, whole);
  }

  // ---- operands

  TensorIndex emit(const char *type, const std::vector<TensorIndex> &inputs, const Attributes &attributes,
                   const TensorId &id, const Op &origin) {
    return graph_.addConnectedOp(opDef(type), inputs, {graph_.freeId(id)}, attributes, settingsOf(origin))
        ->outputs()[0];
  }

  TensorIndex offset(int64_t first) {
    TensorIndex &t = offsets_[first];
    if (!t.valid())
      t = graph_.addConstant(graph_.freeId("batchOffset___" + std::to_string(first)),
                             TensorData::of<int64_t>({1}, Ints{first}));
    return t;
  }

  TensorIndex slice(TensorIndex whole, int axis, int64_t part, const Op &reader) {
    Parts &parts = slices_[{whole, axis}];
    parts.resize(static_cast<size_t>(options_.parts));
    TensorIndex &made = parts[static_cast<size_t>(part)];
    if (made.valid()) return made;
    const int64_t size = graph_.info(whole).dim(axis) / options_.parts, first = part * size;
    const TensorId id = graph_.tensor(whole).id + suffix(part);
    if (isDynamic()) return made = emit("DynamicSlice", {whole, offset(first)}, windowAlong(axis, size), id, reader);
    return made = emit("Slice", {whole}, {{"axes", Ints{axis}}, {"starts", Ints{first}}, {"ends", Ints{first + size}}},
                       id, reader);
  }

  TensorIndex operand(const Op &op, InIndex i, int64_t part) {
    const TensorIndex t = op.inputs()[static_cast<size_t>(i)];
    const int axis = plan_.pieces.at(op.index()).in[static_cast<size_t>(i)];
    if (!t.valid() || axis == Pieces::kWhole) return t;
    if (plan_.readsParts(op, i)) return parts_.at(t)[static_cast<size_t>(part)];
    return slice(t, axis, part, op);
  }

  void cutOperands(int64_t part) {
    for (const Op *op : group_->ops)
      for (InIndex i = 0; i < op->inputCount(); ++i)
        if (op->hasInput(i) && !plan_.readsParts(*op, i)) operand(*op, i, part);
  }

  // ---- parts and results

  static std::string suffix(int64_t part) { return "___part" + std::to_string(part); }

  void emitPart(const Op &op, int64_t part) {
    Parts inputs;
    for (InIndex i = 0; i < op.inputCount(); ++i) inputs.push_back(operand(op, i, part));
    const Op *made = copyPart(op, plan_.pieces.at(op.index()), graph_, inputs, settingsOf(op), suffix(part));
    for (size_t o = 0; o < op.outputs().size(); ++o) {
      const TensorIndex t = op.outputs()[o];
      if (!t.valid()) continue;
      parts_[t].push_back(made->outputs()[o]);
      if (const auto buffer = buffers_.find(t); buffer != buffers_.end())
        buffer->second = update(buffer->second, made->outputs()[o], plan_.axes.at(t), part, op);
    }
  }

  TensorIndex join(TensorIndex t, const Op &maker) {
    return emit("Concat", parts_.at(t), {{"axis", int64_t{plan_.axes.at(t)}}}, graph_.tensor(t).id + "___joined",
                maker);
  }

  void makeBuffers() {
    for (const Op *op : group_->ops)
      for (const TensorIndex t : op->outputs()) {
        if (!t.valid() || !plan_.whole.count(t)) continue;
        const TensorInfo &info = graph_.info(t);
        const Attributes attributes{{"shape", info.shape()}, {"dtype", int64_t{toOnnxDataType(info.dataType())}}};
        buffers_[t] = emit("Init", {}, attributes, graph_.tensor(t).id + "___joined", *op);
      }
  }

  TensorIndex update(TensorIndex buffer, TensorIndex value, int axis, int64_t part, const Op &maker) {
    const int64_t size = graph_.info(value).dim(axis);
    const TensorId id = graph_.tensor(value).id + "___joined";
    return emit("DynamicUpdate", {buffer, offset(part * size), value}, windowAlong(axis, size), id, maker);
  }

  // Erases the original ops of the group; results that are needed whole keep their tensors.
  void takeOver(const BatchGroup &group, const std::map<TensorIndex, TensorIndex> &whole) {
    for (auto op = group.ops.rbegin(); op != group.ops.rend(); ++op) {
      const Parts outputs = (*op)->outputs();
      for (size_t o = 0; o < outputs.size(); ++o)
        if (outputs[o].valid()) graph_.disconnectOutput((*op)->index(), static_cast<OutIndex>(o));
      graph_.eraseOp((*op)->index());
      for (const TensorIndex t : outputs)
        if (t.valid() && !whole.count(t)) gone_.push_back(t);
    }
    for (const auto &[t, made] : whole) {
      Op &maker = *graph_.tensor(made).getProducer();
      const OutIndex o = graph_.tensor(made).producerOutput();
      check(graph_.tensor(made).uses().empty(), "{}: internal: a joined result is read", maker.debugName());
      graph_.disconnectOutput(maker.index(), o);
      graph_.eraseTensor(made);
      graph_.connectOutput(maker.index(), o, t);
    }
  }

  Graph &graph_;
  const BatchSerialisation &options_;
  const BatchGroups &plan_;
  const BatchGroup *group_ = nullptr;
  std::map<TensorIndex, Parts> parts_;                   // by result
  std::map<std::pair<TensorIndex, int>, Parts> slices_;  // of the current group, by whole tensor and axis
  std::map<TensorIndex, TensorIndex> buffers_;           // Dynamic: the parts joined so far
  std::map<int64_t, TensorIndex> offsets_;
  std::vector<TensorIndex> gone_;
};

// Numbers the places in the order of the schedule, with gaps for ops of later passes.
void renumber(Graph &graph) {
  int64_t place = 0;
  for (Op *op : graph.getOpSchedule()) op->settings.sequence = place++;
}

}  // namespace

void serialiseBatch(Graph &graph, const BatchSerialisation &options, const std::set<TensorId> &kept,
                    std::optional<int64_t> *firstGradient) {
  const bool hasBackward = firstGradient && firstGradient->has_value();
  const int64_t border = hasBackward ? **firstGradient : LLONG_MAX;
  std::set<TensorIndex> keptTensors;
  for (const TensorId &id : kept)
    if (const TensorIndex t = graph.find(id); t.valid()) keptTensors.insert(t);
  BatchCutter(graph, options, findBatchGroups(graph, options, keptTensors, border)).run();
  const std::vector<Op *> order = graph.getOpSchedule();
  const auto first = std::ranges::find_if(order, [&](const Op *op) { return op->place() >= border; });
  if (hasBackward) *firstGradient = first - order.begin();
  renumber(graph);
}

}  // namespace popart::transforms
