// See batch_part.hpp. In a loop, the iteration is the number of the part; results are stacked by iteration, and then
// rearranged along the axis of their samples.
#include "transforms/batch_part.hpp"

#include "transforms/batch_groups.hpp"
#include "transforms/copy_op.hpp"
#include "transforms/counted_loop.hpp"

namespace popart::transforms {
namespace {

using Ints = std::vector<int64_t>;

class PartLoop {
 public:
  PartLoop(Graph &graph, const BatchGroup &group, const BatchGroups &plan)
      : graph_(graph),
        group_(group),
        plan_(plan),
        parts_(plan.pieces.at(group.ops[0]->index()).count),
        settings_(settingsAt(*group.ops[0])),
        loop_(*addCountedLoop(graph, parts_, settings_)),
        body_(bodyOf(loop_)) {}

  std::map<TensorIndex, TensorIndex> run() {
    for (const Op *op : group_.ops) copyIntoBody(*op);
    std::vector<TensorIndex> whole;
    for (const Op *op : group_.ops)
      for (const TensorIndex t : op->outputs())
        if (t.valid() && plan_.whole.count(t)) whole.push_back(t);
    for (size_t i = 0; i < whole.size(); ++i) {
      body_.markOutput(made_.at(whole[i]));
      graph_.createOutput(loop_.index(), static_cast<OutIndex>(i),
                          graph_.freeId(graph_.tensor(whole[i]).id + "___stacked"));
    }
    loop_.setup();
    std::map<TensorIndex, TensorIndex> result;
    for (size_t i = 0; i < whole.size(); ++i) result[whole[i]] = unstack(loop_.outputs()[i], whole[i]);
    return result;
  }

 private:
  Op::Settings settingsAt(const Op &op) const {
    Op::Settings settings = inheritSettings(op, graph_);
    settings.name = "batch";
    settings.sequence = group_.place;
    return settings;
  }

  TensorIndex inBody(TensorIndex t) {
    TensorIndex &known = passed_[t];
    if (known.valid()) return known;
    const Tensor &tensor = graph_.tensor(t);
    if (tensor.tensorType() == TensorType::Const)
      return known = body_.addConstant(body_.freeId(tensor.id), tensor.tensorData());
    return known = body_.inputs()[static_cast<size_t>(passIn(loop_, t))];
  }

  TensorIndex offset(int64_t size, const Op &origin) {
    TensorIndex &known = offsets_[size];
    if (known.valid()) return known;
    const TensorIndex factor = body_.addConstant(body_.freeId("samples"), TensorData::of<int64_t>({}, Ints{size}));
    return known = body_
                       .addConnectedOp(opDef("Mul"), {body_.inputs()[0], factor}, {body_.freeId("first")}, {},
                                       copySettings(origin, body_))
                       ->outputs()[0];
  }

  TensorIndex slice(TensorIndex t, int axis, const Op &reader) {
    TensorIndex &known = slices_[{t, axis}];
    if (known.valid()) return known;
    const TensorIndex whole = inBody(t);
    const int64_t size = graph_.info(t).dim(axis) / parts_;
    return known = body_
                       .addConnectedOp(opDef("DynamicSlice"), {whole, offset(size, reader)},
                                       {body_.freeId(graph_.tensor(t).id + "___part")}, windowAlong(axis, size),
                                       copySettings(reader, body_))
                       ->outputs()[0];
  }

  void copyIntoBody(const Op &op) {
    const Pieces &pieces = plan_.pieces.at(op.index());
    std::vector<TensorIndex> inputs;
    for (InIndex i = 0; i < op.inputCount(); ++i) {
      const TensorIndex t = op.inputs()[static_cast<size_t>(i)];
      const int axis = pieces.in[static_cast<size_t>(i)];
      if (!t.valid())
        inputs.push_back(t);
      else if (axis == Pieces::kWhole)
        inputs.push_back(inBody(t));
      else
        inputs.push_back(plan_.readsParts(op, i) ? made_.at(t) : slice(t, axis, op));
    }
    const Op *copy = copyPart(op, pieces, body_, inputs, copySettings(op, body_), "");
    for (size_t o = 0; o < op.outputs().size(); ++o)
      if (op.outputs()[o].valid()) made_[op.outputs()[o]] = copy->outputs()[o];
  }

  TensorIndex emit(const char *type, TensorIndex t, const Attributes &attributes, const TensorId &id) {
    return graph_.addConnectedOp(opDef(type), {t}, {graph_.freeId(id)}, attributes, settings_)->outputs()[0];
  }

  // (parts, d0, …, n / parts, …) -> (d0, …, n, …)
  TensorIndex unstack(TensorIndex stacked, TensorIndex t) {
    const int axis = plan_.axes.at(t);
    const TensorId id = graph_.tensor(t).id;
    if (axis > 0) {
      Ints order;
      for (int64_t i = 1; i <= graph_.info(t).rank(); ++i) order.push_back(i);
      order.insert(order.begin() + axis, 0);
      stacked = emit("Transpose", stacked, {{"perm", order}}, id + "___moved");
    }
    return emit("Reshape", stacked, {{"shape", graph_.info(t).shape()}, {"allowzero", int64_t{1}}}, id + "___joined");
  }

  Graph &graph_;
  const BatchGroup &group_;
  const BatchGroups &plan_;
  const int64_t parts_;
  const Op::Settings settings_;
  Op &loop_;
  Graph &body_;
  std::map<TensorIndex, TensorIndex> passed_, made_;
  std::map<std::pair<TensorIndex, int>, TensorIndex> slices_;
  std::map<int64_t, TensorIndex> offsets_;  // offset of the current part, by its size
};

}  // namespace

Op *copyPart(const Op &op, const Pieces &pieces, Graph &graph, const std::vector<TensorIndex> &inputs,
             const Op::Settings &settings, const std::string &suffix) {
  Op *copy = copyOp(op, graph, inputs, settings, suffix);
  for (const auto &[name, at] : pieces.sizes) {
    Ints sizes = op.attrInts(name);
    sizes[static_cast<size_t>(at)] = op.outInfo(0).dim(pieces.out[0]) / pieces.count;
    copy->mutableAttributes().set(name, sizes);
  }
  copy->setup();
  for (OutIndex o = 0; o < op.outputCount(); ++o) {
    if (!op.hasOutput(o)) continue;
    Shape expected = op.outShape(o);
    expected[static_cast<size_t>(pieces.out[static_cast<size_t>(o)])] /= pieces.count;
    if (copy->outShape(o) != expected)
      throw internal_error("{}: a part of it has another shape than its row says: got {}, expected {}", op.debugName(),
                           copy->outShape(o), expected);
  }
  return copy;
}

Attributes windowAlong(int64_t axis, int64_t size) { return {{"axes", Ints{axis}}, {"sizes", Ints{size}}}; }

std::map<TensorIndex, TensorIndex> emitPartLoop(Graph &graph, const BatchGroup &group, const BatchGroups &plan) {
  return PartLoop(graph, group, plan).run();
}

}  // namespace popart::transforms
