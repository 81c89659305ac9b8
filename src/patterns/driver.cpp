// The rewrite driver: pattern by pattern in order of priority, op by op in creation order, in rounds until nothing
// changes. An op opts out of a pattern by its excludePatterns setting. A limit on the rounds turns a pair of rewrites
// that undo each other into an error.
#include <algorithm>

#include <popart/ir.hpp>

#include "ir/decomposed.hpp"
#include "ir/hints.hpp"
#include "patterns/pattern.hpp"

namespace popart::patterns {
namespace {

constexpr int kMaxRounds = 100;
constexpr Trait kNoOps{};  // traits of ops that patterns do not change

bool writesTo(const Graph &graph, TensorIndex t) {
  const auto &uses = graph.tensor(t).uses();
  return std::any_of(uses.begin(), uses.end(), [&](const Use &u) { return graph.op(u.op).modifiesInput(u.input); });
}

template <class Apply>
int applyToOps(Graph &graph, const std::string &name, Trait spared, Apply &&apply) {
  int count = 0;
  for (uint32_t i = 0; i < graph.opSlots(); ++i) {
    const OpIndex index{i};
    if (!graph.alive(index)) continue;
    Op &op = graph.op(index);
    if (op.settings.excludePatterns.count(name) || op.has(spared)) continue;
    if (apply(op)) ++count;
  }
  return count;
}

int applyUserPattern(Graph &graph, const UserPattern &user, Trait spared, const Rewriter &rewriter) {
  return applyToOps(graph, user.name, spared, [&](Op &op) {
    if (!user.pattern->matches(&op)) return false;
    for (const Tensor *t : user.pattern->touches(&op))
      if (rewriter.isKept(t->index())) return false;
    return user.pattern->apply(&op);
  });
}

int applyEnabled(Graph &graph, const Patterns &patterns, const std::set<TensorId> &anchors, Trait spared) {
  const Rewriter rewriter(graph, anchors);
  int total = 0;
  for (int round = 0; round < kMaxRounds; ++round) {
    int changed = 0;
    for (const PatternRow &row : allPatterns()) {
      if (!row.rewrite || !patterns.isPatternEnabled(row.name)) continue;
      changed += applyToOps(graph, row.name, spared, [&](Op &op) { return row.rewrite(op, rewriter); });
    }
    for (const UserPattern &user : userPatterns())
      if (patterns.isPatternEnabled(user.name)) changed += applyUserPattern(graph, user, spared, rewriter);
    if (!changed) return total;
    total += changed;
  }
  throw error(
      "Patterns '{}': rewriting does not come to an end: got {} rounds. A user pattern probably undoes another one",
      graph.getGraphString(), kMaxRounds);
}

bool expands(const PatternRow &row, const Op &op) {
  return std::string_view(row.expands).find(" " + op.opid.type + " ") != std::string_view::npos &&
         (!*row.hint || op.settings.hints.contains(row.hint));
}

int expandEnabled(Graph &graph, const Patterns &patterns) {
  int expanded = 0;
  for (const PatternRow &row : allPatterns()) {
    if (!*row.expands || !patterns.isPatternEnabled(row.name)) continue;
    expanded += applyToOps(graph, row.name, kNoOps, [&](Op &op) {
      if (!expands(row, op) || !op.def().hasDecomposition()) return false;
      expandOp(graph, op);
      return true;
    });
  }
  return expanded;
}

}  // namespace

void checkExcluded(const Graph &graph, const Patterns &patterns) {
  for (const Op *op : graph.ops())
    for (const std::string &name : op->settings.excludePatterns) {
      try {
        static_cast<void>(patterns.isPatternEnabled(name));
      } catch (const error &e) {
        throw error("Builder::excludePatterns on {}: {}", op->debugName(), e.what());
      }
    }
}

bool Rewriter::isKept(TensorIndex t) const {
  const Tensor &tensor = graph_.tensor(t);
  return anchors_.count(tensor.id) || tensor.isGraphOutput() || tensor.isGraphInput();
}

bool Rewriter::onlyFeeds(TensorIndex t, const Op &op) const {
  if (isKept(t)) return false;
  const auto &uses = graph_.tensor(t).uses();
  return std::all_of(uses.begin(), uses.end(), [&](const Use &u) { return u.op == op.index(); });
}

bool Rewriter::mergeThrough(Op &op) const {
  const TensorIndex in = op.inputs()[0], out = op.outputs()[0];
  if (writesTo(graph_, in) || writesTo(graph_, out)) return false;
  if (!isKept(in) && graph_.tensor(in).hasProducer()) {
    Op &producer = *graph_.tensor(in).getProducer();
    const OutIndex o = graph_.tensor(in).producerOutput();
    for (int i = 0; i < producer.inputCount(); ++i)
      if (producer.hasInput(i) && producer.aliasesInput(i, o) && producer.modifiesInput(i)) return false;
    graph_.eraseOp(op.index());
    graph_.disconnectOutput(producer.index(), o);
    graph_.replaceUses(in, out);
    graph_.eraseTensor(in);
    graph_.connectOutput(producer.index(), o, out);
    return true;
  }
  if (isKept(out)) return false;
  graph_.eraseOp(op.index());
  graph_.replaceUses(out, in);
  graph_.eraseTensor(out);
  return true;
}

Op *Rewriter::replaceOp(Op &op, std::string_view type, const std::vector<TensorIndex> &inputs,
                        Attributes attributes) const {
  Op *made = graph_.addOp(opDef(type), std::move(attributes), inheritSettings(op, graph_));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].valid()) graph_.connectInput(made->index(), static_cast<InIndex>(i), inputs[i]);
  const std::vector<TensorIndex> outputs = op.outputs();
  graph_.moveConstraints(op.index(), made->index());
  graph_.eraseOp(op.index());
  for (size_t o = 0; o < outputs.size(); ++o)
    if (outputs[o].valid()) graph_.connectOutput(made->index(), static_cast<OutIndex>(o), outputs[o]);
  made->setup();
  return made;
}

int applyPatterns(Graph &graph, const Patterns &patterns, const std::set<TensorId> &anchors) {
  return applyEnabled(graph, patterns, anchors, kNoOps);
}

void requireExpansions(const Ir &ir, const Patterns &patterns) {
  std::vector<PatternRow> missing;
  for (const PatternRow &row : allPatterns())
    if (row.needed && !patterns.isPatternEnabled(row.name)) missing.push_back(row);
  if (missing.empty()) return;
  for (const Graph *graph : ir.getAllGraphs())
    for (const Op *op : graph->ops())
      for (const PatternRow &row : missing)
        check(!expands(row, *op) || op->settings.hints.contains(kComposed),
              "{}: the pattern '{}', which expands this operator, is off, and there is no kernel for it. Turn the "
              "pattern on",
              op->debugName(), row.name);
}

void expandOp(Graph &graph, Op &op) {
  const auto firstNew = static_cast<uint32_t>(graph.opSlots());
  const std::vector<TensorIndex> results = decomposed(graph, op), old = op.outputs();
  const Op::Settings settings = inheritSettings(op, graph);
  const OpIndex last = graph.tensor(results[0]).producerIndex();
  graph.moveConstraints(op.index(), last.valid() && last.value >= firstNew ? last : op.index());
  graph.eraseOp(op.index());
  for (size_t o = 0; o < old.size(); ++o) {
    if (!old[o].valid()) continue;
    const Tensor &fresh = graph.tensor(results[o]);
    const OpIndex producer = fresh.producerIndex();
    if (producer.valid() && producer.value >= firstNew) {  // the old tensor replaces the new one
      const OutIndex output = fresh.producerOutput();
      graph.replaceUses(results[o], old[o]);
      graph.disconnectOutput(producer, output);
      graph.eraseTensor(results[o]);
      graph.connectOutput(producer, output, old[o]);
    } else {
      const Op *identity = graph.addOp(opDef("Identity"), {}, settings);
      graph.connectInput(identity->index(), 0, results[o]);
      graph.connectOutput(identity->index(), 0, old[o]);
    }
  }
}

int applyInPlace(Graph &graph, const Patterns &patterns) {
  int expanded = 0;
  while (const int more = expandEnabled(graph, patterns)) expanded += more;
  return expanded + applyEnabled(graph, patterns, {}, Trait::NeverFolded);
}

}  // namespace popart::patterns
