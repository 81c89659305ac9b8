// The serialised IR of PopART sessions (_serializeIr, docs/compat/serialised-ir.md): one object, a key per graph
// ("maingraph" for the root), values = ops in schedule order; every leaf value is a string.
#include <nlohmann/json.hpp>
#include <popart/opserialiser.hpp>

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

Json opToJson(const Op &op) {
  Json inputs = Json::array(), outputs = Json::array(), attributes = Json::object();
  for (int i = 0; i < op.inputCount(); ++i) {
    if (!op.hasInput(i)) continue;
    const Tensor &t = *op.inTensor(i);
    inputs.push_back(
        {{"name", t.id}, {"shape", shapeText(t.info.shape())}, {"type", t.info.data_type()}, {"index", toText(i)}});
  }
  for (int i = 0; i < op.outputCount(); ++i)
    if (op.hasOutput(i)) outputs.push_back({{"name", op.outId(i)}, {"index", toText(i)}});
  for (const auto &[name, value] : op.attributes().entries()) attributes[name] = attributeString(value);
  OpSerialiser members;
  op.appendAttributes(members);
  for (const auto &[name, value] : members.attributes()) attributes[name] = value;
  return {
      {"type", op.opType()}, {"name", op.name()}, {"inputs", inputs}, {"outputs", outputs}, {"attributes", attributes}};
}

}  // namespace

std::string serialiseJson(const Ir &ir, const std::string &root) {
  const std::string mainKey = root.empty() || root.starts_with("BuilderGraph_") ? "maingraph" : root;
  Json graphs = Json::object();
  for (const Graph *g : ir.getAllGraphs()) {
    Json ops = Json::array();
    for (const Op *op : g->getOpSchedule()) ops.push_back(opToJson(*op));
    graphs[g->isMain() ? mainKey : g->id] = std::move(ops);
  }
  // Names may hold any bytes; what is no UTF-8 is replaced, so that the result is always valid JSON.
  return graphs.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace popart
