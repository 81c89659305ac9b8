// Runs backwards in program order, so that slices move from the end of a chain of element-wise ops to its start.
#include "lower/slice_operands.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/hints.hpp"
#include "lower/fuse_elementwise.hpp"
#include "ops/numbers.hpp"
#include "ops/shape/slice_range.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

class OperandSlicer {
 public:
  explicit OperandSlicer(Graph &graph) : graph_(graph) {}

  void run() {
    const auto order = schedule::orderOps(graph_);
    for (size_t i = order.size(); i-- > 0;)
      if (graph_.alive(order[i])) passThrough(graph_.op(order[i]));
  }

 private:
  void passThrough(Op &op) {
    if (!isElementwise(op) || op.outputCount() != 1 || op.outRank(0) == 0 || op.settings.hints.count(kKeepApart) ||
        graph_.tensor(op.outputs()[0]).isGraphOutput())
      return;
    const std::vector<Op *> slices = graph_.tensor(op.outputs()[0]).consumerOps();
    if (slices.empty() || !arePieces(op, slices) ||
        !std::ranges::all_of(op.inputs(), [&](TensorIndex t) { return !t.valid() || canSlice(op, t); }))
      return;
    for (Op *slice : slices) compute(op, *slice);
    const std::set<TensorIndex> operands(op.inputs().begin(), op.inputs().end());
    graph_.eraseOpAndOutputs(op.index());
    for (const TensorIndex t : operands)
      if (t.valid()) eraseUnread(t);
  }

  // Erases the slice that made `t`, after its readers were changed to slices of its operand.
  void eraseUnread(TensorIndex t) {
    const Tensor &tensor = graph_.tensor(t);
    if (tensor.uses().empty() && tensor.hasProducer() && !tensor.isGraphOutput() &&
        ops::rangeOfLast(*tensor.getProducer()))
      graph_.eraseOpAndOutputs(tensor.getProducer()->index());
  }

  bool arePieces(const Op &op, const std::vector<Op *> &slices) const {
    std::map<int64_t, int64_t> pieces;  // first element → end
    for (const Op *slice : slices) {
      const auto range = ops::rangeOfLast(*slice);
      if (!range || range->size == 0 || range->size == op.outShape(0).back() || staysApart(op, *slice)) return false;
      if (!pieces.emplace(range->start, range->start + range->size).second) return false;
      const Tensor &piece = *slice->outTensor(0);
      if (piece.isGraphOutput()) return false;
      for (const Op *reader : piece.consumerOps())
        if (!isElementwise(*reader) || reader->outShape(0) != piece.info.shape() || staysApart(op, *reader))
          return false;
    }
    int64_t end = 0;
    for (const auto &[first, behind] : pieces) {
      if (first < end) return false;
      end = behind;
    }
    return true;
  }

  // Single numbers, tensors of one column, and tensors of the size of the result.
  bool canSlice(const Op &op, TensorIndex t) const {
    const Tensor &operand = graph_.tensor(t);
    const Shape &shape = operand.info.shape();
    if (ops::isNumber(operand) || shape.empty() || shape.back() == 1) return true;
    return shape == op.outShape(0) && operand.hasProducer();
  }

  // slice(op(…)) → op(slice(…), …)
  void compute(const Op &op, Op &slice) {
    std::map<TensorIndex, TensorIndex> pieces;  // so that an operand that is read twice is sliced once
    std::vector<TensorIndex> operands;
    for (const TensorIndex t : op.inputs()) {
      const auto [piece, isNew] = pieces.try_emplace(t);
      if (isNew && t.valid()) piece->second = sliced(t, op, slice);
      operands.push_back(piece->second);
    }
    const TensorIndex former = slice.outputs()[0];
    const Op *made = graph_.addConnectedOp(op.def(), operands, {graph_.freeId(slice.outId(0) + "/computed")},
                                           op.attributes(), inheritSettings(op, graph_));
    graph_.replaceTensor(former, made->outputs()[0]);
    graph_.eraseOpAndOutputs(slice.index());
  }

  TensorIndex sliced(TensorIndex t, const Op &op, const Op &slice) {
    const Shape &shape = graph_.info(t).shape();
    if (shape != op.outShape(0) || shape.back() == 1) return t;
    const TensorId id = graph_.freeId(graph_.tensor(t).id + "/slice");
    const Op &producer = *graph_.tensor(t).getProducer();
    if (const auto both = ops::rangeOfLast(producer) ? ops::sliceOfSlice(producer, slice) : std::nullopt) {
      const TensorIndex whole = producer.inputs()[0];
      if (graph_.tensor(whole).tensorType() != TensorType::Variable)
        return graph_.addConnectedOp(slice.def(), {whole}, {id}, *both, inheritSettings(op, graph_))->outputs()[0];
    }
    return graph_.addConnectedOp(slice.def(), {t}, {id}, slice.attributes(), inheritSettings(op, graph_))->outputs()[0];
  }

  Graph &graph_;
};

}  // namespace

void sliceOperands(Ir &flat) {
  for (Graph *graph : flat.getAllGraphs()) OperandSlicer(*graph).run();
}

}  // namespace popart::lower
