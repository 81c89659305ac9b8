// Tensors that share memory are a piece: views, and results of existing in-place ops. The op that reads a piece last in
// the schedule may write it if data makes that op run after all other readers.
#include "transforms/in_place.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include <popart/ir.hpp>

#include "base/union_find.hpp"

namespace popart::transforms {
namespace {

// Bounds of the search for other readers; tensors with more do not change.
constexpr size_t kMostReaders = 8;
constexpr int kMostVisits = 64;

bool showsMemory(const Op &op, InIndex in, OutIndex out) {
  return (in == 0 && out == 0 && op.has(Trait::View)) || op.aliasesInput(in, out);
}

class InPlace {
 public:
  InPlace(Graph &graph, const std::set<TensorId> &kept)
      : graph_(graph), pieces_(graph.tensorSlots()), order_(graph.getOpSchedule()), place_(graph.opSlots(), -1) {
    for (size_t i = 0; i < order_.size(); ++i) place_[order_[i]->index().value] = static_cast<int>(i);
    for (const Op *op : order_) joinPieces(*op);
    facts_.resize(graph.tensorSlots());
    for (const Tensor *t : graph.tensors()) {
      // Loops have their own memory for results, including variables.
      if (!t->hasProducer() || t->getProducer()->has(Trait::Call) || kept.contains(t->id)) factOf(*t).isKept = true;
      if (t->isGraphOutput()) factOf(*t).isOutput = true;
    }
    for (const Op *op : order_) addReads(*op);
  }

  int run() {
    int changed = 0;
    for (Op *op : order_)
      if (const OpDef *variant = variantOf(*op)) op->setDef(*variant), ++changed;
    return changed;
  }

 private:
  // Facts of one piece, stored for its representative.
  struct Facts {
    bool isKept = false;
    bool isOutput = false;            // it is an output of the graph, whose memory the caller chooses
    std::vector<const Op *> readers;  // in the order of the schedule, up to one more than kMostReaders
  };

  Facts &factOf(const Tensor &t) { return facts_[pieces_.find(t.index().value)]; }

  void joinPieces(const Op &op) {
    for (InIndex i = 0; i < op.inputCount(); ++i)
      for (OutIndex o = 0; o < op.outputCount(); ++o)
        if (op.hasInput(i) && op.hasOutput(o) && showsMemory(op, i, o))
          pieces_.join(op.outputs()[static_cast<size_t>(o)].value, op.inputs()[static_cast<size_t>(i)].value);
  }

  void addReads(const Op &op) {
    for (InIndex i = 0; i < op.inputCount(); ++i) {
      if (!op.hasInput(i)) continue;
      Facts &facts = factOf(*op.inTensor(i));
      if (op.modifiesInput(i)) facts.isKept = true;  // the program already determines what is written there
      if (facts.readers.size() > kMostReaders) {
        facts.isKept = true;
      } else if (facts.readers.empty() || facts.readers.back() != &op) {
        facts.readers.push_back(&op);
      }
    }
  }

  // The row of the in-place variant for the op; null: none.
  const OpDef *variantOf(const Op &op) {
    if (op.isUserOp() || op.settings.excludePatterns.contains("InPlace") || !op.hasOutput(0)) return nullptr;
    const InplaceDef *best = nullptr;
    float most = 0;
    for (const InplaceDef &variant : op.def().inplaces()) {
      const auto own = op.settings.inplacePreferences.find(variant.type);
      const float preference = own == op.settings.inplacePreferences.end() ? variant.priority : own->second;
      if (preference > most && mayWrite(op, variant)) best = &variant, most = preference;
    }
    return best ? &opDef(best->type) : nullptr;
  }

  bool mayWrite(const Op &op, const InplaceDef &variant) {
    if (!writes(opDef(variant.type)) || !op.hasInput(variant.input)) return false;
    const Tensor &operand = *op.inTensor(variant.input);
    if (operand.info != op.outInfo(0) || factOf(*op.outTensor(0)).isOutput) return false;
    const uint32_t piece = pieces_.find(operand.index().value);
    for (InIndex i = 0; i < op.inputCount(); ++i)
      if (i != variant.input && op.hasInput(i) && pieces_.find(op.inputs()[static_cast<size_t>(i)].value) == piece)
        return false;
    const Facts &facts = facts_[piece];
    if (facts.isKept || facts.isOutput || facts.readers.back() != &op) return false;
    return std::ranges::all_of(facts.readers, [&](const Op *reader) { return reader == &op || leadsTo(*reader, op); });
  }

  static bool writes(const OpDef &variant) {
    return std::ranges::any_of(variant.aliasRules(), [](const AliasDef &a) { return a.modifies; });
  }

  // Whether `last` depends on `op`, and so always runs after it; also false if the search is stopped early.
  bool leadsTo(const Op &op, const Op &last) const {
    std::vector<const Op *> stack{&op};
    std::set<const Op *> seen;
    int visits = 0;
    while (!stack.empty()) {
      const Op *next = stack.back();
      stack.pop_back();
      for (const TensorIndex t : next->outputs()) {
        if (!t.valid()) continue;
        for (const Use &use : graph_.tensor(t).uses()) {
          const Op *reader = &graph_.op(use.op);
          if (reader == &last) return true;
          if (++visits > kMostVisits) return false;
          if (placeOf(*reader) < placeOf(last) && seen.insert(reader).second) stack.push_back(reader);
        }
      }
    }
    return false;
  }

  int placeOf(const Op &op) const { return place_[op.index().value]; }

  Graph &graph_;
  UnionFind pieces_;  // of tensors
  const std::vector<Op *> order_;
  std::vector<int> place_;  // of ops, in the order
  std::vector<Facts> facts_;
};

}  // namespace

int computeInPlace(Graph &graph, const std::set<TensorId> &kept) { return InPlace(graph, kept).run(); }

}  // namespace popart::transforms
