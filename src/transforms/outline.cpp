// See outline.hpp. A schedule becomes a sequence of numbers, the same for equal operators, in which repeats are
// searched.
// A repeat is a candidate. Its places are classified by how operators are connected within the place:
//
//   a  b  c | a  b  c       a: MatMul(x, w1)   b: Relu(a)   c: Add(b, x)
//   outside values are numbered by first use: x = 0, w1 = 1; the connections are 0 1, op 0, op 1 0
//
// Candidates are taken in the order of their savings, (places - 1) * value. Comparing the places of a candidate costs
// steps that are counted; when a budget proportional to the number of operators is used up, the rest does not change.
#include "transforms/outline.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "ir/facts.hpp"
#include "ir/text.hpp"
#include "transforms/repeats.hpp"

namespace popart::transforms {
namespace {

constexpr int64_t kStepsPerOp = 200;  // budget of steps for comparing places

// The value of an operator; products, convolutions and normalisations always have the high value.
double valueOf(const Op &op) {
  double elements = 0;
  for (InIndex i = 0; i < op.inputCount(); ++i)
    if (op.hasInput(i)) elements += static_cast<double>(op.inInfo(i).nelms());
  for (OutIndex o = 0; o < op.outputCount(); ++o)
    if (op.hasOutput(o)) elements += static_cast<double>(op.outInfo(o).nelms());
  const bool combines = !op.has(Trait::Elementwise) && costOf(op).flops > elements;
  return combines || op.isNorm() ? double{Op::getHighSubgraphValue()} : double{op.getSubgraphValue()};
}

class Outliner {
 public:
  Outliner(Ir &ir, Graph &graph, float threshold) : ir_(ir), graph_(graph), threshold_(threshold) {}

  void run() {
    ops_ = graph_.getOpSchedule();
    const std::vector<int> sequence = numbers();
    value_.assign(1, 0.0);
    for (const Op *op : ops_) value_.push_back(value_.back() + valueOf(*op));
    repeats_ = findRepeats(sequence);
    std::ranges::stable_sort(repeats_.found, std::greater(), [&](const Repeat &r) { return mostSaved(r); });
    taken_.assign(ops_.size(), 0);
    budget_ = kStepsPerOp * static_cast<int64_t>(ops_.size());
    for (const Repeat &repeat : repeats_.found) {
      if (budget_ <= 0) break;
      if (valueBetween(placeOf(repeat), repeat.length) > double{threshold_}) tryRepeat(repeat);
    }
    if (classes_.empty()) return;
    // Calls take the places of their operators, so that everything runs in the same order as before.
    for (size_t i = 0; i < ops_.size(); ++i) ops_[i]->settings.sequence = static_cast<int64_t>(i);
    for (const std::vector<Place> &places : classes_) replace(places);
  }

 private:
  // A range of the schedule, and the outside values that it reads, by first use.
  struct Place {
    int first = 0, length = 0;
    std::vector<TensorIndex> reads;
  };

  // ---- operators as numbers
  bool staysOutside(const Op &op) const {
    if (op.isUserOp() || !op.isOutlineable() || op.hasSideEffect() || op.outputCount() == 0 ||
        constrained_.count(op.index()))
      return true;
    if (op.has(Trait::Call) || op.has(Trait::HostIo)) return true;
    return std::ranges::any_of(op.def().aliasRules(), [&](const AliasDef &alias) {
      return alias.input == AliasDef::kEveryInput || op.hasInput(alias.input);
    });
  }

  static std::string keyOf(const Op &op) {
    Attributes facts = settingsFacts(op.settings);
    facts.erase("name");
    facts.erase("scope");
    std::string key = op.opType() + '{' + attributesText(op.attributes(), PrintData::Full) + '}' +
                      attributesText(facts, PrintData::Full);
    for (InIndex i = 0; i < op.inputCount(); ++i) key += '<' + (op.hasInput(i) ? infoText(op.inInfo(i)) : "");
    for (OutIndex o = 0; o < op.outputCount(); ++o) key += '>' + (op.hasOutput(o) ? infoText(op.outInfo(o)) : "");
    return key;
  }

  std::vector<int> numbers() {
    for (const auto &[before, after] : graph_.constraints()) constrained_.insert(before), constrained_.insert(after);
    std::map<std::string, int> known;
    std::vector<int> result;
    position_.assign(graph_.opSlots(), -1);
    for (size_t i = 0; i < ops_.size(); ++i) {
      position_[ops_[i]->index().value] = static_cast<int>(i);
      const int fresh = static_cast<int>(i);
      result.push_back(staysOutside(*ops_[i]) ? fresh : known.emplace(keyOf(*ops_[i]), fresh).first->second);
    }
    return result;
  }

  // ---- choice
  int placeOf(const Repeat &r) const { return repeats_.suffixes[static_cast<size_t>(r.first)]; }
  double valueBetween(int first, int length) const {
    return value_[static_cast<size_t>(first + length)] - value_[static_cast<size_t>(first)];
  }
  double mostSaved(const Repeat &r) const {
    const int places = std::min(r.last - r.first + 1, static_cast<int>(ops_.size()) / r.length);
    return (places - 1) * valueBetween(placeOf(r), r.length);
  }

  void tryRepeat(const Repeat &repeat) {
    std::vector<int> positions(repeats_.suffixes.begin() + repeat.first, repeats_.suffixes.begin() + repeat.last + 1);
    budget_ -= static_cast<int64_t>(positions.size());
    std::ranges::sort(positions);
    std::map<std::vector<int>, std::vector<Place>> classes;
    int end = 0;
    for (const int p : positions) {
      if (budget_ <= 0) break;
      if (p < end || !isFree(p, repeat.length)) continue;
      Place place{p, repeat.length, {}};
      classes[connections(place)].push_back(std::move(place));
      end = p + repeat.length;
    }
    for (auto &[form, places] : classes) {
      if (places.size() < 2) continue;
      for (const Place &place : places) std::fill_n(taken_.begin() + place.first, static_cast<size_t>(place.length), 1);
      classes_.push_back(std::move(places));
    }
  }

  bool isFree(int first, int length) {
    for (int i = first; i < first + length; ++i) {
      --budget_;
      if (taken_[static_cast<size_t>(i)]) return false;
    }
    return true;
  }

  // The source of each operand: -1 absent, an even number: value from outside, an odd one: result of the place.
  std::vector<int> connections(Place &place) {
    std::map<TensorIndex, int> known;
    for (int i = 0; i < place.length; ++i)
      for (TensorIndex t : ops_[static_cast<size_t>(place.first + i)]->outputs())
        if (t.valid()) known.emplace(t, 2 * static_cast<int>(known.size()) + 1);
    std::vector<int> form;
    for (int i = 0; i < place.length; ++i)
      for (TensorIndex t : ops_[static_cast<size_t>(place.first + i)]->inputs()) {
        --budget_;
        if (!t.valid()) {
          form.push_back(-1);
          continue;
        }
        const auto [it, isNew] = known.emplace(t, 2 * static_cast<int>(place.reads.size()));
        if (isNew) place.reads.push_back(t);
        form.push_back(it->second);
      }
    return form;
  }

  // ---- replacement
  bool isReadOutside(TensorIndex t, const Place &place) const {
    const Tensor &tensor = graph_.tensor(t);
    return tensor.isGraphOutput() || std::ranges::any_of(tensor.uses(), [&](const Use &use) {
             const int at = use.op.value < position_.size() ? position_[use.op.value] : -1;  // a call
             return at < place.first || at >= place.first + place.length;
           });
  }

  // Operator (counted from the first of the place) and output of each result that is read outside in some place.
  std::vector<std::pair<int, OutIndex>> results(const std::vector<Place> &places) const {
    std::set<std::pair<int, OutIndex>> found;
    for (const Place &place : places)
      for (int i = 0; i < place.length; ++i) {
        const Op &op = *ops_[static_cast<size_t>(place.first + i)];
        for (OutIndex o = 0; o < op.outputCount(); ++o)
          if (op.hasOutput(o) && isReadOutside(op.outputs()[o], place)) found.emplace(i, o);
      }
    return {found.begin(), found.end()};
  }

  void replace(const std::vector<Place> &places) {
    const std::vector<std::pair<int, OutIndex>> outputs = results(places);
    const Graph &callee = makeGraph(places[0], outputs);
    for (const Place &place : places) call(callee, place, outputs);
  }

  Graph &makeGraph(const Place &place, const std::vector<std::pair<int, OutIndex>> &outputs) {
    Graph &callee = ir_.createGraph(ir_.createUniqueSubgraphId("outlined"));
    std::map<TensorIndex, TensorIndex> inside;
    auto idFor = [&](TensorIndex t) { return callee.freeId(callee.addScope(graph_.removeScope(graph_.tensor(t).id))); };
    for (TensorIndex t : place.reads) inside[t] = callee.addInput(idFor(t), graph_.info(t));
    for (int i = 0; i < place.length; ++i) {
      const Op &op = *ops_[static_cast<size_t>(place.first + i)];
      std::unique_ptr<Op> clone = op.clone();
      clone->settings = copySettings(op, callee);
      Op *copy = callee.addOp(std::move(clone));
      for (InIndex in = 0; in < op.inputCount(); ++in)
        if (op.hasInput(in)) callee.connectInput(copy->index(), in, inside.at(op.inputs()[in]));
      for (OutIndex o = 0; o < op.outputCount(); ++o) {
        if (!op.hasOutput(o)) continue;
        inside[op.outputs()[o]] = callee.createOutput(copy->index(), o, idFor(op.outputs()[o]));
        callee.tensor(inside[op.outputs()[o]]).info = op.outInfo(o);
      }
    }
    for (const auto &[i, o] : outputs)
      callee.markOutput(inside.at(ops_[static_cast<size_t>(place.first + i)]->outputs()[o]));
    return callee;
  }

  void call(const Graph &callee, const Place &place, const std::vector<std::pair<int, OutIndex>> &outputs) {
    const Op &first = *ops_[static_cast<size_t>(place.first)];
    Op *call = graph_.addOp(opDef("Call"), {{"callee", GraphRef{callee.id}}}, inheritSettings(first, graph_));
    for (size_t i = 0; i < place.reads.size(); ++i)
      graph_.connectInput(call->index(), static_cast<InIndex>(i), place.reads[i]);
    for (size_t n = 0; n < outputs.size(); ++n) {
      const Op &maker = *ops_[static_cast<size_t>(place.first + outputs[n].first)];
      const TensorIndex t = maker.outputs()[outputs[n].second];
      graph_.disconnectOutput(maker.index(), outputs[n].second);
      graph_.connectOutput(call->index(), static_cast<OutIndex>(n), t);
    }
    const std::vector<Op *> inside = callee.ops();  // in the order of the place
    std::map<OpId, std::string> names;
    for (size_t i = 0; i < inside.size(); ++i)
      names.emplace(inside[i]->id, ops_[static_cast<size_t>(place.first) + i]->name());
    call->settings.namesInside = std::make_shared<const std::map<OpId, std::string>>(std::move(names));
    for (int i = place.length; i-- > 0;) graph_.eraseOpAndOutputs(ops_[static_cast<size_t>(place.first + i)]->index());
    call->setup();
  }

  Ir &ir_;
  Graph &graph_;
  const double threshold_;
  std::vector<Op *> ops_;      // the schedule
  std::vector<int> position_;  // positions in the schedule, by op index
  std::set<OpIndex> constrained_;
  std::vector<double> value_;  // value of all operators before a position
  Repeats repeats_;
  std::vector<char> taken_;  // by position
  int64_t budget_ = 0;
  std::vector<std::vector<Place>> classes_;  // classes that become graphs
};

}  // namespace

void outline(Ir &ir, float threshold) {
  for (Graph *graph : ir.getAllGraphs()) Outliner(ir, *graph, threshold).run();
}

}  // namespace popart::transforms
