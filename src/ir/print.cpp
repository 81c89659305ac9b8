// Text form of graphs and programs (grammar: text.hpp). Deterministic: leaves in creation order, ops in program order,
// independent of addresses and hash order. Illegal graphs are printed too, so that error reports can show them.
#include <map>

#include "ir/facts.hpp"
#include "ir/program_order.hpp"
#include "ir/text.hpp"

namespace popart {
namespace {

constexpr std::string_view kByHash = "hash ";

class Printer {
 public:
  // `table`: collects the values that are shown by hash; null: they are not collected.
  Printer(const Graph &graph, PrintData data, ValueTable *table = nullptr, bool variables = true,
          const ValueNumbers *numbers = nullptr)
      : graph_(graph), data_(data), table_(table), variables_(variables), numbers_(numbers) {}

  std::string run() {
    text_ = (graph_.isMain() ? "main" : "graph " + nameText('@', graph_.id)) + " {\n";
    const std::vector<Op *> ops = programOrder(graph_);
    numberOrderedOps(ops);
    printLeaves();
    for (const Op *op : ops) printOp(*op);
    for (const auto &[before, after] : graph_.constraints())
      text_ += "  order #" + toText(labels_.at(before)) + ", #" + toText(labels_.at(after)) + "\n";
    for (size_t i = 0; i < graph_.outputs().size(); ++i)
      text_ += (i == 0 ? "  return " : ", ") + operand(graph_.outputs()[i]);
    if (!graph_.outputs().empty()) text_ += "\n";
    text_ += "}\n";
    return std::move(text_);
  }

 private:
  void numberOrderedOps(const std::vector<Op *> &ops) {
    for (const auto &[before, after] : graph_.constraints()) labels_[before] = labels_[after] = 0;
    int next = 1;
    for (const Op *op : ops) {
      auto it = labels_.find(op->index());
      if (it != labels_.end()) it->second = next++;
    }
  }

  std::string operand(TensorIndex t) const { return graph_.alive(t) ? nameText('%', graph_.tensor(t).id) : "_"; }

  static std::string facts(const Attributes &list) {
    const std::string text = attributesText(list, PrintData::Full);
    return text.empty() ? "" : " <" + text + ">";
  }

  std::string declaration(const Tensor &t) const {
    return nameText('%', t.id) + (t.info.isSet() ? " : " + infoText(t.info) : "") + facts(tensorFacts(t));
  }

  void printLeaf(const Tensor &t, const std::string &keywords) {
    text_ += "  " + keywords + " " + declaration(t);
    if (t.hasTensorData() && (variables_ || t.tensorType() != TensorType::Variable)) text_ += " = " + typedValues(t);
    text_ += "\n";
  }

  // Values have the tensor's own info unless said otherwise (a variable with one value per replica group).
  std::string typedValues(const Tensor &t) {
    const TensorInfo &info = t.tensorData().info();
    return (info == t.info ? "" : "as " + infoText(info) + " ") + values(t.tensorData());
  }

  std::string values(const TensorData &data) {
    std::string text = valuesText(data, data_, numbers_);
    if (table_ && text.starts_with(kByHash))
      table_->emplace(std::stoull(text.substr(kByHash.size()), nullptr, 16), data);
    return text;
  }

  void printLeaves() {
    std::vector<char> isInput(graph_.tensorSlots(), 0);
    for (TensorIndex t : graph_.inputs()) {
      if (!graph_.alive(t)) continue;
      isInput[t.value] = 1;
      const TensorType type = graph_.tensor(t).tensorType();
      printLeaf(graph_.tensor(t), type == TensorType::ActGrad ? "input" : "input " + std::string(tensorTypeText(type)));
    }
    for (const Tensor *t : graph_.tensors())
      if (!t->hasProducer() && !isInput[t->index().value]) printLeaf(*t, std::string(tensorTypeText(t->tensorType())));
  }

  std::string outputList(const Op &op) const {
    int count = op.outputCount();
    while (count > 0 && !op.hasOutput(count - 1)) --count;
    std::string text;
    for (int i = 0; i < count; ++i) text += (i ? ", " : "") + (op.hasOutput(i) ? declaration(*op.outTensor(i)) : "_");
    return count > 0 ? text + " = " : "";
  }

  void printOp(const Op &op) {
    const auto label = labels_.find(op.index());
    text_ += label == labels_.end() ? "  " : "  #" + toText(label->second) + " ";
    const std::string &type = op.isUserOp() ? op.def().type() : op.opType();
    text_ += outputList(op) + (isPlainWord(type) ? type : quotedText(type)) + "(";
    for (int i = 0; i < op.inputCount(); ++i) text_ += (i ? ", " : "") + operand(op.inputs()[i]);
    text_ += ")";
    const std::string attributes = attributesText(op.attributes(), data_);
    if (table_)
      for (const auto &[name, value] : op.attributes().entries())
        if (const auto *data = std::get_if<TensorData>(&value); data && !data->empty()) values(*data);
    if (!attributes.empty()) text_ += " {" + attributes + "}";
    text_ += facts(settingsFacts(op.settings)) + "\n";
  }

  const Graph &graph_;
  const PrintData data_;
  ValueTable *const table_;
  const bool variables_;
  const ValueNumbers *const numbers_;
  std::string text_;
  std::map<OpIndex, int> labels_;
};

}  // namespace

std::string print(const Graph &graph, PrintData data) { return Printer(graph, data).run(); }

std::string print(const Ir &ir, PrintData data) {
  std::string text;
  for (const Graph *g : ir.getAllGraphs()) text += (text.empty() ? "" : "\n") + print(*g, data);
  return text;
}

std::string printWithTable(const Ir &ir, ValueTable &table, bool variables, const ValueNumbers *numbers) {
  std::string text;
  for (const Graph *g : ir.getAllGraphs())
    text += (text.empty() ? "" : "\n") + Printer(*g, PrintData::Summary, &table, variables, numbers).run();
  return text;
}

}  // namespace popart
