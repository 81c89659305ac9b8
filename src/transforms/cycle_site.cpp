// See cycle_site.hpp. Outside of the loop of full cycles, the numbers of cycles are constants.
#include "transforms/cycle_site.hpp"

#include <popart/ir.hpp>

#include "ir/hints.hpp"

namespace popart::transforms {

void CycleSite::begin(int64_t cycle, TensorIndex iteration) {
  cycle_ = cycle;
  iteration_ = iteration;
}

Op::Settings CycleSite::settings(const std::string &name) const {
  if (&graph == &loop_.getGraph()) return inheritSettings(loop_, graph, name);
  return {graph, name};
}

TensorIndex CycleSite::emit(const char *type, const std::vector<TensorIndex> &inputs, const TensorId &id,
                            Attributes attributes) {
  return graph.addConnectedOp(opDef(type), inputs, {graph.freeId(id)}, std::move(attributes), settings({}))
      ->outputs()[0];
}

TensorIndex CycleSite::number(int64_t value) {
  TensorIndex &t = numbers_[value];
  if (!t.valid()) t = graph.addConstant(graph.freeId(std::to_string(value)), TensorData::scalar(value));
  return t;
}

TensorIndex CycleSite::numberBefore(int64_t cycles) {
  const int64_t offset = cycle_ - cycles;
  if (!iteration_.valid()) return number(offset);
  if (offset == 0) return iteration_;
  TensorIndex &t = sums_[offset];
  if (!t.valid()) t = emit("Add", {iteration_, number(offset)}, "microBatch");
  return t;
}

TensorIndex CycleSite::rowOf(int64_t cyclesAgo, int64_t rows) {
  const int64_t offset = (cycle_ - cyclesAgo) % rows;  // no row is read before the end of the first cycle
  if (!iteration_.valid()) return number(offset);
  TensorIndex &t = rows_[{offset, rows}];
  if (!t.valid()) {
    const TensorIndex sum = offset == 0 ? iteration_ : numberBefore(cycle_ - offset);
    t = emit("Remainder", {sum, number(rows)}, "row");
  }
  return t;
}

const Op &CycleSite::call(const Graph &callee, const std::vector<TensorIndex> &inputs,
                          const std::vector<TensorId> &outputs, const std::vector<int64_t> &modified, int64_t stage) {
  Op::Settings own = settings("stage" + std::to_string(stage));
  own.hints[kLane] = std::to_string(stage);
  if (!iteration_.valid()) own.hints[kCycle] = std::to_string(cycle_);
  const Op &call = *graph.addConnectedOp(opDef("Call"), inputs, outputs,
                                         {{"callee", GraphRef{callee.id}}, {"modified", modified}}, own);
  follow(call);
  return call;
}

void CycleSite::follow(const Op &op) {
  if (last_.valid()) graph.addConstraint(last_, op.index());
  if (!first_.valid()) first_ = op.index();
  last_ = op.index();
}

TensorIndex CycleSite::makeRing(const TensorId &id, const TensorInfo &value, int64_t rows) {
  Shape shape = value.shape();
  shape.insert(shape.begin(), rows);
  return emit("Init", {}, id, {{"shape", shape}, {"dtype", int64_t{toOnnxDataType(value.dataType())}}});
}

void CycleSite::stash(TensorIndex ring, TensorIndex value, int64_t rows, const TensorId &id) {
  Shape shape = graph.info(value).shape();
  shape.insert(shape.begin(), 1);
  const TensorIndex row = emit("Reshape", {value}, graph.tensor(value).id + "___row", {{"shape", shape}});
  emit("DynamicUpdateInplace", {ring, rowOf(0, rows), row}, id,
       {{"axes", std::vector<int64_t>{0}}, {"sizes", std::vector<int64_t>{1}}});
}

TensorIndex CycleSite::restore(TensorIndex ring, int64_t cyclesAgo, int64_t rows, const TensorId &id) {
  return emit("Gather", {ring, rowOf(cyclesAgo, rows)}, id, {{"axis", int64_t{0}}});
}

}  // namespace popart::transforms
