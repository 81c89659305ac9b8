// The serialised IR of PopART sessions (_serializeIr, docs/compat/serialised-ir.md): one object, a key per graph
// ("maingraph" for the root), values = ops in schedule order; every leaf value is a string.
#include <span>

#include <nlohmann/json.hpp>
#include <popart/opserialiser.hpp>

#include "ir/print_hints.hpp"
#include "ir/text.hpp"

namespace popart {
namespace {

using Json = nlohmann::ordered_json;

// "[2 3]"
std::string shapeText(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? " " : "") + toText(shape[i]);
  return text + "]";
}

std::string attributeString(const AttributeValue &value) {
  if (const auto *text = std::get_if<std::string>(&value)) return *text;
  if (const auto *number = std::get_if<float>(&value)) return toText(*number);
  if (const auto *graph = std::get_if<GraphRef>(&value)) return graph->id;
  return attributeText(value, PrintData::Summary);
}

Json inputToJson(const Op &op, InIndex i, size_t index) {
  const Tensor &t = *op.inTensor(i);
  return {{"name", t.id}, {"shape", shapeText(t.info.shape())}, {"type", t.info.data_type()}, {"index", toText(index)}};
}

Json opToJson(const Op &op) {
  Json inputs = Json::array(), outputs = Json::array(), attributes = Json::object();
  for (int i = 0; i < op.inputCount(); ++i)
    if (op.hasInput(i)) inputs.push_back(inputToJson(op, i, static_cast<size_t>(i)));
  for (int i = 0; i < op.outputCount(); ++i)
    if (op.hasOutput(i)) outputs.push_back({{"name", op.outId(i)}, {"index", toText(i)}});
  for (const auto &[name, value] : op.attributes().entries()) attributes[name] = attributeString(value);
  OpSerialiser members;
  op.appendAttributes(members);
  for (const auto &[name, value] : members.attributes()) attributes[name] = value;
  return {
      {"type", op.opType()}, {"name", op.name()}, {"inputs", inputs}, {"outputs", outputs}, {"attributes", attributes}};
}

// The parts of one exchange, with the operands and results of all, numbered consecutively.
Json exchangeToJson(std::span<Op *const> parts) {
  Json inputs = Json::array(), outputs = Json::array();
  for (const Op *op : parts) {
    for (int i = 0; i < op->inputCount(); ++i)
      if (op->hasInput(i)) inputs.push_back(inputToJson(*op, i, inputs.size()));
    for (int i = 0; i < op->outputCount(); ++i)
      if (op->hasOutput(i)) outputs.push_back({{"name", op->outId(i)}, {"index", toText(outputs.size())}});
  }
  return {{"type", "MultiExchange"},
          {"name", ""},
          {"inputs", inputs},
          {"outputs", outputs},
          {"attributes", Json::object()}};
}

}  // namespace

std::string serialiseJson(const Ir &ir, const std::string &root, bool inOrder) {
  const std::string mainKey = root.empty() || root.starts_with("BuilderGraph_") ? "maingraph" : root;
  Json graphs = Json::object();
  for (const Graph *g : ir.getAllGraphs()) {
    Json ops = Json::array();
    const std::vector<Op *> order = inOrder ? g->getOpSchedule() : g->ops();
    for (size_t first = 0; first < order.size();) {
      const size_t last = endOfExchange(order, first);
      ops.push_back(last - first > 1 ? exchangeToJson(std::span(order).subspan(first, last - first))
                                     : opToJson(*order[first]));
      first = last;
    }
    graphs[g->isMain() ? mainKey : g->id] = std::move(ops);
  }
  // Names may contain any bytes. Invalid UTF-8 is replaced, so that the result is always valid JSON.
  return graphs.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace popart
