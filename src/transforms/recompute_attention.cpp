// See recompute_attention.hpp.
#include "transforms/recompute_attention.hpp"

#include <set>
#include <vector>

namespace popart::transforms {
namespace {

class AttentionMarks {
 public:
  AttentionMarks(Graph &graph, int64_t firstGradient) : graph_(graph), firstGradient_(firstGradient) {}

  void run() {
    static const OpDef &softmax = opDef("Softmax");
    for (Op *op : graph_.ops()) {
      if (!isForward(*op) || &op->def().base() != &softmax) continue;
      if (normalizeAxis(op->attrInt("axis"), op->outRank(0), "axis") != op->outRank(0) - 1) continue;
      Op *weighted = onlyForwardReader(op->outputs()[0]);
      std::vector<Op *> made{op, weighted};
      std::set<TensorIndex> seen;
      if (weighted && weighted->is(Role::MatMul) && weighted->inputs()[0] == op->outputs()[0] &&
          findProduct(op->inputs()[0], seen, made))
        for (Op *o : made)
          if (o->settings.recomputeType == RecomputeType::Undefined)
            o->settings.recomputeType = RecomputeType::Recompute;
    }
  }

 private:
  bool isForward(const Op &op) const { return op.place() < firstGradient_; }

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

  // Goes back from scores along values of as many elements to the product that they come from.
  bool findProduct(TensorIndex t, std::set<TensorIndex> &seen, std::vector<Op *> &made) const {
    Op *op = graph_.tensor(t).getProducerUnsafe();
    if (!op || !seen.insert(t).second) return false;
    const bool found = op->is(Role::MatMul) || comesFromProduct(*op, seen, made);
    if (found) made.push_back(op);
    return found;
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

void recomputeAttention(Graph &graph, int64_t firstGradient) { AttentionMarks(graph, firstGradient).run(); }

}  // namespace popart::transforms
