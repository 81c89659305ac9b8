// See reduce_precision.hpp. One walk in order of execution. Two facts about each tensor are known before its readers
// are visited: whether it exists in 16 bits, and whether it depends on a parameter.
#include "transforms/reduce_precision.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <popart/error.hpp>
#include <popart/half.hpp>
#include <popart/ir.hpp>

#include "base/half_types.hpp"

namespace popart::transforms {
namespace {

// The largest finite number of the type; constants beyond it stay FLOAT.
double largest(DataType type) { return type == DataType::FLOAT16 ? 65504.0 : 3.3895313892515355e38; }

class Reducer {
 public:
  Reducer(Graph &graph, DataType type, const std::set<TensorId> &kept) : graph_(graph), type_(type), kept_(kept) {}

  int run() {
    for (const Tensor *t : graph_.tensors())
      if (t->tensorType() == TensorType::Variable) ofNetwork_.insert(t->index());
    for (Op *op : graph_.getOpSchedule()) {
      const bool fromNetwork =
          std::ranges::any_of(op->inputs(), [&](TensorIndex t) { return t.valid() && ofNetwork_.contains(t); });
      const std::vector<TensorIndex> outputs = op->outputs();
      if (computesReduced(*op)) reduce(*op);
      for (TensorIndex t : outputs)
        if (t.valid() && fromNetwork) ofNetwork_.insert(t);
    }
    return reduced_;
  }

 private:
  bool isFloat(TensorIndex t) const { return t.valid() && graph_.info(t).dataType() == DataType::FLOAT; }

  bool isReduced(TensorIndex t) const { return t.valid() && reducedForm_.contains(t) && !isKept(t); }
  bool isKept(TensorIndex t) const { return kept_.contains(graph_.tensor(t).id); }

  bool mayRound(TensorIndex t) const {
    if (isReduced(t) || ofNetwork_.contains(t)) return true;
    const Tensor &tensor = graph_.tensor(t);
    if (tensor.tensorType() != TensorType::Const) return false;
    const std::vector<double> values = tensor.tensorData().asDoubles();
    return std::ranges::all_of(values, [&](double v) { return std::abs(v) <= largest(type_); });
  }

  bool computesReduced(const Op &op) const {
    const Precision precision = op.def().precision();
    if (precision == Precision::Full || op.isUserOp()) return false;
    bool anyFloat = false, anyReduced = false;
    for (InIndex i = 0; i < op.inputCount(); ++i) {
      if (!op.hasInput(i) || !isFloatingPoint(op.inInfo(i).dataType())) continue;
      const TensorIndex t = op.inputs()[static_cast<size_t>(i)];
      if (!isFloat(t)) return false;
      anyFloat = true;
      anyReduced |= isReduced(t);
      if (precision == Precision::Follows && takesReduced(op, i) && !mayRound(t)) return false;
    }
    return anyFloat && (precision == Precision::Reduced || anyReduced);
  }

  // Parameters and statistics of normalisations stay FLOAT if the row accepts another type for them than for the data.
  static bool takesReduced(const Op &op, InIndex i) {
    const auto &rows = op.def().inputs();
    const InputDef &row = rows[std::min(static_cast<size_t>(i), rows.size() - 1)];
    const bool isNorm = op.has(Trait::Norm);
    return !isNorm || i == 0 || (!row.typeVar.empty() && row.typeVar == rows[0].typeVar);
  }

  void reduce(Op &op) {
    std::vector<TensorIndex> inputs = op.inputs();
    for (InIndex i = 0; i < op.inputCount(); ++i)
      if (isFloat(inputs[static_cast<size_t>(i)]) && takesReduced(op, i))
        inputs[static_cast<size_t>(i)] = reducedForm(inputs[static_cast<size_t>(i)], op);
    std::vector<TensorId> ids(static_cast<size_t>(op.outputCount()));
    for (OutIndex o = 0; o < op.outputCount(); ++o)
      if (op.hasOutput(o)) ids[static_cast<size_t>(o)] = graph_.freeId(op.outId(o) + suffix());
    Op &made = *graph_.addConnectedOp(op.def(), inputs, ids, op.attributes(), inheritSettings(op, graph_));
    for (OutIndex o = 0; o < op.outputCount(); ++o)
      if (op.hasOutput(o)) giveBack(op, made, o);
    graph_.moveConstraints(op.index(), made.index());
    graph_.eraseOp(op.index());
    ++reduced_;
  }

  // The result keeps its tensor, which is now the output of a Cast; results of other types are taken over unchanged.
  void giveBack(Op &op, Op &made, OutIndex o) {
    const TensorIndex old = op.outputs()[static_cast<size_t>(o)], fresh = made.outputs()[static_cast<size_t>(o)];
    graph_.disconnectOutput(op.index(), o);
    if (graph_.info(fresh) == graph_.info(old)) {
      graph_.disconnectOutput(made.index(), o);
      graph_.eraseTensor(fresh);
      graph_.connectOutput(made.index(), o, old);
      return;
    }
    Op &cast = *graph_.addOp(opDef("Cast"), {{"to", int64_t{toOnnxDataType(DataType::FLOAT)}}},
                             inheritSettings(made, graph_, "Cast"));
    graph_.connectInput(cast.index(), 0, fresh);
    graph_.connectOutput(cast.index(), 0, old);
    reducedForm_[old] = fresh;
  }

  // The tensor in 16 bits: the result of a converted op, a constant, or one Cast for all readers.
  TensorIndex reducedForm(TensorIndex t, const Op &reader) {
    if (isReduced(t)) return reducedForm_.at(t);
    if (const auto found = casts_.find(t); found != casts_.end()) return found->second;
    const Tensor &tensor = graph_.tensor(t);
    const TensorId id = graph_.freeId(tensor.id + suffix());
    TensorIndex made;
    if (tensor.tensorType() == TensorType::Const) {
      made = graph_.addConstant(id, rounded(tensor.tensorData()));
    } else {
      const Op *producer = tensor.getProducerUnsafe();
      const Op &origin = producer ? *producer : reader;
      made = graph_
                 .addConnectedOp(opDef("Cast"), {t}, {id}, {{"to", int64_t{toOnnxDataType(type_)}}},
                                 inheritSettings(origin, graph_, "Cast"))
                 ->outputs()[0];
    }
    casts_[t] = made;
    return made;
  }

  TensorData rounded(const TensorData &values) const {
    TensorData result(TensorInfo(type_, values.info().shape()));
    const auto *from = static_cast<const float *>(values.data());
    auto *to = static_cast<uint16_t *>(result.mutableData());
    const auto round = type_ == DataType::FLOAT16 ? floatToHalfBits : floatToBFloat16Bits;
    std::transform(from, from + values.info().nelms(), to, round);
    return result;
  }

  std::string suffix() const { return type_ == DataType::FLOAT16 ? "/float16" : "/bfloat16"; }

  Graph &graph_;
  const DataType type_;
  const std::set<TensorId> &kept_;
  std::set<TensorIndex> ofNetwork_;                 // tensors that depend on a parameter
  std::map<TensorIndex, TensorIndex> reducedForm_;  // results of converted ops → the same in 16 bits
  std::map<TensorIndex, TensorIndex> casts_;        // FLOAT tensors → the same in 16 bits, rounded
  int reduced_ = 0;
};

}  // namespace

int reducePrecision(Graph &graph, DataType type, const std::set<TensorId> &kept) {
  check(isHalf(type), "reducePrecision: got {}, expected FLOAT16 or BFLOAT16", type);
  return Reducer(graph, type, kept).run();
}

}  // namespace popart::transforms
