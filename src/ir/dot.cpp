// Graphviz drawing of one graph: boxes are ops, ellipses are graph outputs and tensors without a producer, edges carry
// types and shapes, dashed edges are order constraints.
#include "ir/program_order.hpp"
#include "ir/text.hpp"

namespace popart {
namespace {

// Quoted for dot; "\n" separates lines of a label and must reach dot as it is.
std::string label(const std::string &first, const std::string &second) {
  std::string text = quotedText(first);
  if (second.empty()) return text;
  text.pop_back();
  return text + "\\n" + quotedText(second).substr(1);
}

std::string opNode(OpIndex o) { return "op" + toText(o.value); }
std::string tensorNode(TensorIndex t) { return "t" + toText(t.value); }
std::string infoOf(const Tensor &t) { return t.info.isSet() ? infoText(t.info) : "?"; }

}  // namespace

std::string toDot(const Graph &graph) {
  std::string text =
      "digraph " + quotedText(graph.isMain() ? "main" : graph.id) + " {\n  node [shape=box, fontname=\"monospace\"];\n";
  for (const Op *op : programOrder(graph))
    text += "  " + opNode(op->index()) + " [label=" + label(op->str(), op->name()) + "];\n";
  for (const Tensor *t : graph.tensors()) {
    const bool leaf = !t->hasProducer(), output = t->isGraphOutput();
    if (leaf || output)
      text += "  " + tensorNode(t->index()) + " [shape=ellipse" + (output ? ", style=bold" : "") +
              ", label=" + label(t->id, infoOf(*t)) + "];\n";
    const std::string from = leaf ? tensorNode(t->index()) : opNode(t->producerIndex());
    for (const Use &use : t->uses())
      text += "  " + from + " -> " + opNode(use.op) + " [label=" + label(leaf ? toText(use.input) : infoOf(*t), "") +
              "];\n";
    if (!leaf && output) text += "  " + from + " -> " + tensorNode(t->index()) + ";\n";
  }
  for (const auto &[before, after] : graph.constraints())
    text += "  " + opNode(before) + " -> " + opNode(after) + " [style=dashed];\n";
  return text + "}\n";
}

}  // namespace popart
