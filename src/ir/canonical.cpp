// The canonical stream leaves out: ids of tensors, ops and graphs, debug names and scopes, and the order in which
// leaves were added.
#include "ir/canonical.hpp"

#include <unordered_map>

#include <popart/opserialiser.hpp>

#include "ir/facts.hpp"
#include "ir/program_order.hpp"
#include "ir/text.hpp"

namespace popart {
namespace {

// The description that the class of a user op returns.
std::string outlineText(const Op &op) {
  OpSerialiser serialiser;
  op.appendOutlineAttributes(serialiser);
  std::string text;
  for (const auto &[name, value] : serialiser.attributes()) text += name + "=" + value + ";";
  return text;
}

class Writer {
 public:
  explicit Writer(CanonicalSink &sink) : sink_(sink) {}

  void write(const Graph &root) {
    numberOf(root);
    for (; written_ < graphs_.size(); ++written_) writeGraph(*graphs_[written_]);
  }

 private:
  int64_t numberOf(const Graph &graph) {
    const auto [it, fresh] = graphNumbers_.emplace(&graph, static_cast<int64_t>(graphs_.size()));
    if (fresh) graphs_.push_back(&graph);
    return it->second;
  }

  void writeGraph(const Graph &graph) {
    tensorNumbers_.assign(graph.tensorSlots(), -1);
    nextTensor_ = 0;
    const std::vector<Op *> ops = programOrder(graph);
    std::vector<int64_t> opNumbers(graph.opSlots(), -1);
    for (size_t n = 0; n < ops.size(); ++n) opNumbers[ops[n]->index().value] = static_cast<int64_t>(n);
    sink_.number(static_cast<int64_t>(ops.size()));
    writeTensors(graph, graph.inputs());
    // Outputs first, because an op may read the result of an op that is later in program order.
    for (const Op *op : ops) writeOutputs(*op);
    for (const Op *op : ops) writeOp(*op);
    sink_.number(static_cast<int64_t>(graph.constraints().size()));
    for (const auto &[before, after] : graph.constraints())
      sink_.number(opNumbers[before.value]), sink_.number(opNumbers[after.value]);
    writeTensors(graph, graph.outputs());
    sink_.number(static_cast<int64_t>(graph.tensors().size()));
    for (const Tensor *t : graph.tensors())
      if (tensorNumbers_[t->index().value] < 0) writeTensor(*t);
  }

  void writeTensors(const Graph &graph, const std::vector<TensorIndex> &list) {
    sink_.number(static_cast<int64_t>(list.size()));
    for (TensorIndex t : list) t.valid() ? writeTensor(graph.tensor(t)) : sink_.number(-1);
  }

  // Writes everything about the tensor when it is first mentioned, later only its number.
  void writeTensor(const Tensor &t) {
    int64_t &number = tensorNumbers_[t.index().value];
    const bool fresh = number < 0;
    if (fresh) number = nextTensor_++;
    sink_.number(number);
    if (!fresh) return;
    sink_.number(static_cast<int64_t>(t.tensorType()));
    writeInfo(t.info);
    sink_.text(attributesText(tensorFacts(t), PrintData::Full));
    sink_.number(t.hasTensorData());
    if (!t.hasTensorData()) return;
    writeInfo(t.tensorData().info());
    t.tensorType() == TensorType::Variable ? sink_.variableValues(t.tensorData()) : sink_.values(t.tensorData());
  }

  void writeInfo(const TensorInfo &info) {
    sink_.number(static_cast<int64_t>(info.dataType()));
    for (const Shape *shape : {&info.shape(), &info.metaShape()}) {
      sink_.number(static_cast<int64_t>(shape->size()));
      for (int64_t d : *shape) sink_.number(d);
    }
  }

  void writeOutputs(const Op &op) {
    int count = op.outputCount();
    while (count > 0 && !op.hasOutput(count - 1)) --count;
    writeTensors(op.getGraph(), {op.outputs().begin(), op.outputs().begin() + count});
  }

  void writeOp(const Op &op) {
    sink_.text(op.isUserOp() ? op.def().type() : op.opType());
    if (op.isUserOp()) sink_.text(outlineText(op));
    writeTensors(op.getGraph(), op.inputs());
    sink_.number(static_cast<int64_t>(op.attributes().entries().size()));
    for (const auto &[name, value] : op.attributes().entries()) {
      sink_.text(name);
      sink_.number(static_cast<int64_t>(value.index()));
      writeAttribute(op, value);
    }
    Attributes facts = settingsFacts(op.settings);
    facts.erase("name");
    facts.erase("scope");
    sink_.text(attributesText(facts, PrintData::Full));
  }

  void writeAttribute(const Op &op, const AttributeValue &value) {
    if (const auto *graph = std::get_if<GraphRef>(&value)) {
      const Ir &ir = op.getIr();
      ir.hasGraph(graph->id) ? sink_.number(numberOf(ir.getGraph(graph->id))) : sink_.text(graph->id);
    } else if (const auto *data = std::get_if<TensorData>(&value)) {
      writeInfo(data->info());
      sink_.number(!data->empty());
      if (!data->empty()) sink_.values(*data);
    } else {
      sink_.text(attributeText(value, PrintData::Full));
    }
  }

  CanonicalSink &sink_;
  std::unordered_map<const Graph *, int64_t> graphNumbers_;
  std::vector<const Graph *> graphs_;
  size_t written_ = 0;
  std::vector<int64_t> tensorNumbers_;
  int64_t nextTensor_ = 0;
};

}  // namespace

void writeCanonical(const Ir &ir, CanonicalSink &sink) {
  Writer writer(sink);
  writer.write(ir.getMainGraph());
  for (const Graph *g : ir.getAllGraphs()) writer.write(*g);
}

void writeCanonical(const Graph &graph, CanonicalSink &sink) { Writer(sink).write(graph); }

}  // namespace popart
