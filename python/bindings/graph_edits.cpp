// What transforms written in Python need of graphs besides building them: copies of ops in other graphs, erasing ops,
// order constraints, hints of ops.
#include "graph_handles.hpp"
#include "ir/hints.hpp"
#include "ir/print_hints.hpp"
#include "patterns/pattern.hpp"
#include "schedule/schedule.hpp"
#include "transforms/copy_op.hpp"

using namespace nb::literals;

namespace popart::python {
namespace {

Op *copyIntoGraph(const Op &op, Graph &graph, const std::vector<std::optional<TensorId>> &inputs,
                  const std::vector<TensorId> &outputs) {
  std::vector<TensorIndex> indices;
  for (const auto &id : inputs) indices.push_back(id ? graph.getTensor(*id)->index() : TensorIndex{});
  Op *copy = transforms::copyOp(op, graph, indices, copySettings(op, graph));
  size_t next = 0;
  for (int o = 0; o < copy->outputCount(); ++o)
    if (copy->hasOutput(o) && copy->outId(o) != outputs.at(next++))
      graph.renameTensor(copy->outputs()[o], outputs[next - 1]);
  return copy;
}

void eraseOps(Graph &graph, const std::set<OpId> &ids) {
  for (Op *op : graph.ops())
    if (ids.count(op->id)) graph.eraseOp(op->index());
}

std::vector<std::pair<OpId, OpId>> constraints(const Graph &graph) {
  std::vector<std::pair<OpId, OpId>> result;
  for (const auto &[before, after] : graph.constraints()) result.emplace_back(graph.op(before).id, graph.op(after).id);
  return result;
}

std::vector<std::pair<OpId, OpId>> orderEdges(const Graph &graph) {
  std::vector<std::pair<OpId, OpId>> result;
  for (const auto &[before, after] : schedule::orderEdges(graph))
    result.emplace_back(graph.op(before).id, graph.op(after).id);
  return result;
}

void applyPatterns(Graph &graph, const Patterns &chosen) {
  patterns::applyInPlace(graph, chosen);
  verify(graph);
}

}  // namespace

void bindGraphEdits(nb::module_ &m) {
  m.def("copyOp", &copyIntoGraph, "op"_a, "graph"_a, "inputs"_a, "outputs"_a, nb::rv_policy::reference,
        "Copies an op into another graph of the Ir. inputs: tensor ids of that graph, None where the op has none; "
        "outputs: new ids for the results, one per connected output.");
  m.def("eraseOps", &eraseOps, "graph"_a, "ids"_a,
        "Erases ops; tensors that they made stay as names that no op may read any more.");
  m.def("applyPatterns", &applyPatterns, "graph"_a, "patterns"_a,
        "Rewrites a graph as the patterns say; its inputs and outputs stay the same tensors.");
  m.def(
      "moveConstraints",
      [](Graph &graph, OpId from, OpId to) {
        const Op *source = findOp(graph, from), *target = findOp(graph, to);
        check(source && target, "graph '{}': no such ops: got {} and {}", graph.id, from, to);
        graph.moveConstraints(source->index(), target->index());
      },
      "graph"_a, "before"_a, "after"_a, "Gives the order constraints of one op to another.");
  m.def("constraints", &constraints, "graph"_a, "Order constraints as pairs of op ids (before, after).");
  m.def("orderEdges", &orderEdges, "graph"_a,
        "Pairs of op ids (before, after): data, constraints, and memory that one of the two changes.");
  m.def(
      "place", [](const Op &op) { return op.place(); }, "op"_a,
      "Position in program order, which decides between ops that are free.");
  m.def(
      "setPlace", [](Op &op, int64_t place) { op.settings.sequence = place; }, "op"_a, "place"_a,
      "Gives the op a position in program order.");
  m.def(
      "setExchange", [](Op &op, OpId exchange) { op.settings.hints[kExchangeHint] = std::to_string(exchange); }, "op"_a,
      "exchange"_a, "Makes the op a part of a MultiExchange of this number.");
  m.def(
      "setStage",
      [](Op &op, const std::string &cycle, const std::string &stage) {
        if (!cycle.empty()) op.settings.hints[kCycle] = cycle;
        if (!stage.empty()) op.settings.hints[kLane] = stage;
      },
      "op"_a, "cycle"_a, "stage"_a,
      "Says which cycle and stage of a pipeline a call runs; empty: the only cycle of its graph, no stage.");
  m.def(
      "setRing", [](Op &op, bool writes) { op.settings.hints[kRing] = writes ? kWritesRow : kReadsRow; }, "op"_a,
      "writes"_a, "Says that the op writes or reads a row of a ring, never one that is read or written in its cycle.");
  m.def(
      "hasAttribute", [](const Op &op, const std::string &name) { return op.def().findAttribute(name) != nullptr; },
      "op"_a, "name"_a, "Whether the row of the op has this attribute.");
}

}  // namespace popart::python
