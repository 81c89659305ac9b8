// See merge_updates.hpp. Chains of one kind are divided into ranges of elements, one for each merged update. For each
// op of the chain, all ranges are emitted before single ops that read them.
#include "transforms/merge_updates.hpp"

#include <algorithm>

#include <popart/ir.hpp>

#include "transforms/copy_op.hpp"
#include "transforms/update_chains.hpp"

namespace popart::transforms {
namespace {

using Ints = std::vector<int64_t>;
using Kind = ChainOperand::Kind;

// Elements `from` to `to` of a weight.
struct Stretch {
  size_t chain;
  int64_t from, to;
  int64_t size() const { return to - from; }
};
using Group = std::vector<Stretch>;  // ranges that are updated together
using Chains = std::vector<const UpdateChain *>;

class ChainMerger {
 public:
  ChainMerger(Graph &graph, const Chains &chains, const std::vector<Group> &groups, const std::set<TensorId> &kept)
      : graph_(graph), chains_(chains), groups_(groups), kept_(kept), merged_(chains[0]->ops.size()) {}

  void run() {
    for (size_t at = 0; at < merged_.size(); ++at)
      if (chains_[0]->ops[at].merges)
        for (size_t g = 0; g < groups_.size(); ++g) merged_[at].push_back(mergeAt(at, g));
    for (size_t at = merged_.size(); at-- > 0;)
      if (chains_[0]->ops[at].merges)
        for (size_t c = 0; c < chains_.size(); ++c) replace(at, c);
  }

 private:
  const Op &opOf(size_t at, size_t chain) const { return *chains_[chain]->ops[at].op; }

  TensorIndex emit(const char *type, const std::vector<TensorIndex> &inputs, const TensorId &id, const Op &origin,
                   const Attributes &attributes) {
    return graph_
        .addConnectedOp(opDef(type), inputs, {graph_.freeId(id)}, attributes, inheritSettings(origin, graph_, "merged"))
        ->outputs()[0];
  }

  // Elements of `t` as one flat range. Views: in the memory of `t`, so that they can be written.
  enum class As { Views, Values };
  TensorIndex flat(TensorIndex t, const Stretch &stretch, const Op &origin, As as) {
    const TensorId id = graph_.tensor(t).id;
    const int64_t elements = graph_.info(t).nelms();
    const bool views = as == As::Views;
    if (graph_.info(t).rank() != 1)
      t = emit(views ? "ReshapeInplace" : "Reshape", {t}, id + "___flat", origin,
               {{"shape", Ints{elements}}, {"allowzero", int64_t{1}}});
    if (stretch.size() == elements) return t;
    return emit(views ? "SliceInplace" : "Slice", {t}, id + "___stretch", origin,
                {{"axes", Ints{0}}, {"starts", Ints{stretch.from}}, {"ends", Ints{stretch.to}}});
  }

  TensorIndex joined(const std::vector<TensorIndex> &tensors, size_t group, const Op &origin, As as) {
    std::vector<TensorIndex> stretches;
    for (const Stretch &stretch : groups_[group])
      stretches.push_back(flat(tensors[stretch.chain], stretch, origin, as));
    if (stretches.size() == 1) return stretches[0];
    return emit(as == As::Views ? "ConcatInplace" : "Concat", stretches,
                graph_.tensor(tensors[groups_[group][0].chain]).id + "___joined", origin, {{"axis", int64_t{0}}});
  }

  // The view of the variable for ops of one context.
  TensorIndex view(size_t variable, size_t group, const Op &reader) {
    TensorIndex &made = views_[{variable, group, reader.settings.executionContext}];
    if (made.valid()) return made;
    std::vector<TensorIndex> variables;
    for (const UpdateChain *chain : chains_) variables.push_back(chain->variables[variable]);
    return made = joined(variables, group, reader, As::Views);
  }

  // Index of the variable whose new value the operand is.
  size_t variableOf(const ChainOperand &operand) const {
    if (operand.kind == Kind::Variable) return operand.at;
    const ChainOp &maker = chains_[0]->ops[operand.at];
    for (const AliasDef &alias : maker.op->def().aliasRules())
      if (alias.modifies && alias.output == operand.output)
        return variableOf(maker.operands[static_cast<size_t>(alias.input)]);
    throw internal_error("{}: its result is not a new value of a variable", maker.op->debugName());
  }

  TensorIndex operand(size_t at, size_t input, size_t group) {
    const ChainOperand &from = chains_[0]->ops[at].operands[input];
    const size_t first = groups_[group][0].chain;
    const Op &op = opOf(at, first);
    switch (from.kind) {
      case Kind::Absent:
      case Kind::Shared:
        return op.inputs()[input];
      case Kind::Variable:
        return view(from.at, group, op);
      case Kind::Result: {
        const bool sameContext = opOf(from.at, first).settings.executionContext == op.settings.executionContext;
        if (!sameContext) return view(variableOf(from), group, op);
        if (chains_[0]->ops[from.at].merges)
          return merged_[from.at][group]->outputs()[static_cast<size_t>(from.output)];
        break;
      }
      case Kind::Own:
      case Kind::Outside:
        break;
    }
    std::vector<TensorIndex> values;
    for (size_t c = 0; c < chains_.size(); ++c) values.push_back(opOf(at, c).inputs()[input]);
    return joined(values, group, op, As::Values);
  }

  const Op *mergeAt(size_t at, size_t group) {
    const Op &op = opOf(at, groups_[group][0].chain);
    std::vector<TensorIndex> inputs;
    for (size_t i = 0; i < op.inputs().size(); ++i) inputs.push_back(operand(at, i, group));
    Op *made = copyOp(op, graph_, inputs, inheritSettings(op, graph_, "merged"), "___merged");
    made->setup();
    return made;
  }

  // The part of a merged result that single ops, or the host, read.
  TensorIndex resultOf(size_t at, OutIndex output, size_t chain) {
    const Op &op = opOf(at, chain);
    std::vector<TensorIndex> stretches;
    for (size_t g = 0; g < groups_.size(); ++g) {
      int64_t place = 0;
      const TensorIndex whole = merged_[at][g]->outputs()[static_cast<size_t>(output)];
      for (const Stretch &stretch : groups_[g]) {
        if (stretch.chain == chain)
          stretches.push_back(
              emit("Slice", {whole}, op.outId(output) + "___stretch", op,
                   {{"axes", Ints{0}}, {"starts", Ints{place}}, {"ends", Ints{place + stretch.size()}}}));
        place += stretch.size();
      }
    }
    TensorIndex t = stretches[0];
    if (stretches.size() > 1) t = emit("Concat", stretches, op.outId(output) + "___joined", op, {{"axis", int64_t{0}}});
    return emit("Reshape", {t}, op.outId(output) + "___single", op,
                {{"shape", op.outShape(output)}, {"allowzero", int64_t{1}}});
  }

  // Removes the single op; results that are read stay. Later ops of the chain are removed first.
  void replace(size_t at, size_t chain) {
    Op &op = graph_.op(opOf(at, chain).index());
    for (OutIndex o = 0; o < op.outputCount(); ++o) {
      if (!op.hasOutput(o)) continue;
      const TensorIndex t = op.outputs()[static_cast<size_t>(o)];
      const bool stays = kept_.count(graph_.tensor(t).id) || !graph_.tensor(t).uses().empty();
      const TensorIndex made = stays ? resultOf(at, o, chain) : TensorIndex{};
      graph_.disconnectOutput(op.index(), o);
      if (stays) {
        Op &maker = *graph_.tensor(made).getProducer();
        graph_.disconnectOutput(maker.index(), 0);
        graph_.eraseTensor(made);
        graph_.connectOutput(maker.index(), 0, t);
      } else {
        graph_.eraseTensor(t);
      }
    }
    graph_.eraseOp(op.index());
  }

  Graph &graph_;
  const Chains &chains_;
  const std::vector<Group> &groups_;
  const std::set<TensorId> &kept_;
  std::vector<std::vector<const Op *>> merged_;  // by op of the chain, by group
  std::map<std::tuple<size_t, size_t, ExecutionContext>, TensorIndex> views_;
};

// ---- which ranges are updated together

int64_t bytesOf(const Graph &graph, const UpdateChain &chain) { return graph.info(chain.variables[0]).nbytes(); }

std::vector<Group> exactGroups(const Graph &graph, const Chains &chains, int64_t bytes) {
  const int64_t size = bytesOf(graph, *chains[0]) / chains[0]->elements;
  const int64_t most = std::max<int64_t>(bytes / size, 1);
  std::vector<Group> groups(1);
  int64_t room = most;
  for (size_t c = 0; c < chains.size(); ++c)
    for (int64_t from = 0; from < chains[c]->elements;) {
      if (room == 0) groups.emplace_back(), room = most;
      const int64_t to = std::min(chains[c]->elements, from + room);
      groups.back().push_back({c, from, to});
      room -= to - from;
      from = to;
    }
  return groups;
}

// Bytes that are alive after each op of the schedule.
class Liveness {
 public:
  explicit Liveness(const Graph &graph) : graph_(graph) {
    const std::vector<Op *> order = graph.getOpSchedule();
    for (size_t i = 0; i < order.size(); ++i) places_[order[i]->index()] = i;
    std::vector<int64_t> change(order.size() + 1, 0);
    for (const Tensor *t : graph.tensors()) {
      if (!t->hasProducer() || !t->info.isSet()) continue;
      size_t last = places_.at(t->producerIndex());
      change[last] += t->info.nbytes();
      for (const Use &use : t->uses()) last = std::max(last, places_.at(use.op));
      change[last + 1] -= t->info.nbytes();
    }
    int64_t alive = 0;
    for (size_t i = 0; i < order.size(); ++i) alive_.push_back(alive += change[i]);
    if (!alive_.empty()) peak_ = *std::ranges::max_element(alive_);
  }
  // The position after which all gradients of a chain exist.
  size_t placeOf(const UpdateChain &chain) const {
    size_t place = 0;
    for (const ChainOp &link : chain.ops)
      for (size_t i = 0; i < link.operands.size(); ++i)
        if (link.operands[i].kind == Kind::Outside)
          if (const Tensor &t = graph_.tensor(link.op->inputs()[i]); t.hasProducer())
            place = std::max(place, places_.at(t.producerIndex()));
    return place;
  }
  // Bytes below the peak at a position.
  int64_t room(size_t place) const { return alive_.empty() ? 0 : peak_ - alive_[place]; }

 private:
  const Graph &graph_;
  std::map<OpIndex, size_t> places_;
  std::vector<int64_t> alive_;
  int64_t peak_ = 0;
};

std::vector<Group> looseGroups(const Graph &graph, const Chains &chains, const UpdateMerging &options) {
  const Liveness liveness(graph);
  std::vector<std::pair<size_t, size_t>> order;  // place of the gradient, chain
  for (size_t c = 0; c < chains.size(); ++c) order.emplace_back(liveness.placeOf(*chains[c]), c);
  std::ranges::sort(order);
  std::vector<Group> groups;
  int64_t waiting = 0;
  for (const auto &[place, c] : order) {
    const int64_t most = std::min(options.bytes, liveness.room(place) + options.overPeak);
    if (groups.empty() || waiting + bytesOf(graph, *chains[c]) > most) groups.emplace_back(), waiting = 0;
    groups.back().push_back({c, 0, chains[c]->elements});
    waiting += bytesOf(graph, *chains[c]);
  }
  return groups;
}

std::vector<Group> groupsOf(const Graph &graph, const Chains &chains, const UpdateMerging &options) {
  switch (options.sizes) {
    case UpdateMerging::Sizes::Exact:
      return exactGroups(graph, chains, options.bytes);
    case UpdateMerging::Sizes::Loose:
      return looseGroups(graph, chains, options);
    case UpdateMerging::Sizes::All:
      break;
  }
  std::vector<Group> groups(1);
  for (size_t c = 0; c < chains.size(); ++c) groups[0].push_back({c, 0, chains[c]->elements});
  return groups;
}

}  // namespace

int mergeUpdates(Graph &graph, const UpdateMerging &options, int64_t firstUpdate, const std::set<TensorId> &alone,
                 const std::set<TensorId> &kept) {
  const std::vector<UpdateChain> chains = findUpdateChains(graph, firstUpdate, alone);
  std::vector<Chains> kinds;
  for (const UpdateChain &chain : chains) {
    const auto kind =
        std::ranges::find_if(kinds, [&](const Chains &others) { return sameKind(graph, *others[0], chain); });
    if (kind == kinds.end())
      kinds.push_back({&chain});
    else
      kind->push_back(&chain);
  }
  std::vector<std::vector<Group>> groups;
  for (const Chains &kind : kinds)
    groups.push_back(kind.size() > 1 ? groupsOf(graph, kind, options) : std::vector<Group>{});
  int merged = 0;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const bool any = std::ranges::any_of(groups[i], [](const Group &group) { return group.size() > 1; });
    if (!any) continue;
    ChainMerger(graph, kinds[i], groups[i], kept).run();
    merged += static_cast<int>(kinds[i].size());
  }
  return merged;
}

}  // namespace popart::transforms
