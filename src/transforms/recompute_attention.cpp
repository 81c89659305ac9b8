// See recompute_attention.hpp.
#include "transforms/recompute_attention.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "ops/numbers.hpp"

namespace popart::transforms {
namespace {

class AttentionMarks {
 public:
  AttentionMarks(Graph &graph, int64_t firstGradient) : graph_(graph), firstGradient_(firstGradient) {}

  void run(WhichAttention which) {
    static const OpDef &softmax = opDef("Softmax");
    for (Op *op : graph_.ops()) {
      if (!isForward(*op) || &op->def().base() != &softmax) continue;
      if (normalizeAxis(op->attrInt("axis"), op->outRank(0), "axis") != op->outRank(0) - 1) continue;
      Op *weighted = onlyForwardReader(op->outputs()[0]);
      std::vector<Op *> made{op, weighted};
      std::set<TensorIndex> seen;
      if (weighted && weighted->is(Role::MatMul) && weighted->inputs()[0] == op->outputs()[0] &&
          findProduct(op->inputs()[0], seen, made) &&
          (which == WhichAttention::All || std::ranges::any_of(made, isMarked)))
        for (Op *o : made)
          if (o->settings.recomputeType == RecomputeType::Undefined)
            o->settings.recomputeType = RecomputeType::Recompute;
    }
  }

 private:
  bool isForward(const Op &op) const { return op.place() < firstGradient_; }
  static bool isMarked(const Op *op) { return op->settings.recomputeType == RecomputeType::Recompute; }

  Op *onlyForwardReader(TensorIndex t) const {
    Op *reader = nullptr;
    for (const Use &use : graph_.tensor(t).uses()) {
      Op &op = graph_.op(use.op);
      if (!isForward(op)) continue;
      if (reader) return nullptr;
      reader = &op;
    }
    return reader;
  }

  // Follows values with the number of elements of the scores back to the product that they are computed from.
  bool findProduct(TensorIndex t, std::set<TensorIndex> &seen, std::vector<Op *> &made) const {
    Op *op = graph_.tensor(t).getProducerUnsafe();
    if (!op || !seen.insert(t).second) return false;
    const bool isProduct = op->is(Role::MatMul);
    if (!isProduct && !comesFromProduct(*op, seen, made)) return false;
    made.push_back(op);
    if (isProduct)
      for (TensorIndex operand : op->inputs()) addFactors(operand, made);
    return true;
  }
  // Adds the multiplications by a number that make the operand, and the transposes after them.
  void addFactors(TensorIndex operand, std::vector<Op *> &made) const {
    size_t needed = made.size();
    for (Op *op = graph_.tensor(operand).getProducerUnsafe(); op;) {
      made.push_back(op);
      TensorIndex source;
      if (op->is(Role::Transpose)) {
        source = op->inputs()[0];
      } else if (source = scaledBy(*op); source.valid()) {
        needed = made.size();
      } else {
        break;
      }
      op = graph_.tensor(source).getProducerUnsafe();
    }
    made.resize(needed);
  }
  // The operand that the op multiplies by a number; invalid for other ops.
  TensorIndex scaledBy(const Op &op) const {
    for (TensorIndex t : op.inputs())
      if (t.valid() && ops::factorOf(graph_, op, t)) return t;
    return {};
  }
  bool comesFromProduct(const Op &op, std::set<TensorIndex> &seen, std::vector<Op *> &made) const {
    if (!op.has(Trait::Elementwise) && !op.has(Trait::View)) return false;
    for (TensorIndex input : op.inputs())
      if (input.valid() && graph_.info(input).nelms() == op.outInfo(0).nelms() && findProduct(input, seen, made))
        return true;
    return false;
  }

  Graph &graph_;
  const int64_t firstGradient_;
};

}  // namespace

void recomputeAttention(Graph &graph, int64_t firstGradient, WhichAttention which) {
  AttentionMarks(graph, firstGradient).run(which);
}

}  // namespace popart::transforms
