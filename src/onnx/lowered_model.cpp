// See lowered_model.hpp. Names in ONNX are unique over a graph and the bodies in it, but names in our graphs are not: a
// name that is already used gets the id of its graph as prefix.
#include "onnx/lowered_model.hpp"

#include <set>
#include <unordered_map>

#include <popart/error.hpp>

#include "ir/facts.hpp"
#include "ir/layer_names.hpp"
#include "onnx/builder_state.hpp"
#include "onnx/model_content.hpp"
#include "onnx/writer.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

constexpr int64_t kMostElements = 16;  // limit for values that are always included

class LoweredModel {
 public:
  LoweredModel(const Ir &ir, const schedule::Schedule &schedule, PrintData values,
               const std::function<StepFacts(const Op &)> &facts)
      : ir_(ir), schedule_(schedule), values_(values), facts_(facts) {}

  std::string write() {
    onnx_proto::ModelProto model;
    model.set_ir_version(10);
    model.set_producer_name("popart");
    model.set_doc_string("a lowered program: its operators are those of the device, and it can only be looked at");
    for (const char *domain : {"", kLoweredDomain}) {
      auto *import = model.add_opset_import();
      import->set_domain(domain);
      import->set_version(*domain ? 1 : 21);
    }
    writeGraph(ir_.getMainGraph(), *model.mutable_graph());
    return serialised(model);
  }

 private:
  void writeGraph(const Graph &graph, onnx_proto::GraphProto &proto) {
    proto.set_name(graph.isMain() ? "main" : graph.id);
    std::set<TensorIndex> ends(graph.inputs().begin(), graph.inputs().end());
    ends.insert(graph.outputs().begin(), graph.outputs().end());
    for (TensorIndex t : graph.inputs()) writeInfo(graph.tensor(t), *proto.add_input());
    for (const Tensor *t : graph.tensors()) {
      if (t->hasProducer() && !ends.contains(t->index())) writeInfo(*t, *proto.add_value_info());
      const bool isRead = !t->uses().empty() || t->isGraphOutput();
      if (!t->hasProducer() && !t->isGraphInput() && isRead) writeValue(*t, *proto.add_initializer());
    }
    for (OpIndex o : orderOf(graph)) writeNode(graph.op(o), *proto.add_node());
    for (TensorIndex t : graph.outputs()) writeInfo(graph.tensor(t), *proto.add_output());
  }

  // Bodies of fused operators are not in any schedule.
  std::vector<OpIndex> orderOf(const Graph &graph) const {
    const auto found = schedule_.orders.find(graph.id);
    return found == schedule_.orders.end() ? schedule::orderOps(graph) : found->second;
  }

  void writeNode(const Op &op, onnx_proto::NodeProto &node) {
    node.set_name(op.str());
    node.set_op_type(op.opType());
    node.set_domain(kLoweredDomain);
    node.set_doc_string(stepTitle(op.str(), op.name()));
    for (int i = 0; i < op.inputCount(); ++i) node.add_input(op.hasInput(i) ? nameOf(*op.inTensor(i)) : "");
    for (int i = 0; i < op.outputCount(); ++i) node.add_output(op.hasOutput(i) ? nameOf(*op.outTensor(i)) : "");
    for (const auto &[name, value] : op.attributes().entries()) writeAttribute(name, value, node);
    for (const auto &[name, value] : facts_(op)) writeAttribute("step." + name, value, node);
  }

  void writeAttribute(const std::string &name, const AttributeValue &value, onnx_proto::NodeProto &node) {
    std::visit(
        [&](const auto &v) {
          using Value = std::decay_t<decltype(v)>;
          auto &attribute = *node.add_attribute();
          if constexpr (std::is_same_v<Value, GraphRef>) {
            attribute.set_name(name);
            attribute.set_type(onnx_proto::AttributeProto::GRAPH);
            writeGraph(ir_.getGraph(v.id), *attribute.mutable_g());
          } else if constexpr (std::is_same_v<Value, TensorData>) {
            attribute.set_name(name);
            attribute.set_type(onnx_proto::AttributeProto::TENSOR);
            writeData(v.info(), v, *attribute.mutable_t());
          } else {
            fillAttribute(attribute, name, v);
          }
        },
        value);
  }

  void writeInfo(const Tensor &tensor, onnx_proto::ValueInfoProto &info) {
    info.set_name(nameOf(tensor));
    if (!tensor.layout.empty()) info.set_doc_string("layout of the device: " + tensor.layout);
    if (!tensor.info.isSet()) return;
    auto &type = *info.mutable_type()->mutable_tensor_type();
    type.set_elem_type(toOnnxDataType(tensor.info.dataType()));
    auto &shape = *type.mutable_shape();
    for (const int64_t size : tensor.info.shape()) shape.add_dim()->set_dim_value(size);
  }

  void writeValue(const Tensor &tensor, onnx_proto::TensorProto &proto) {
    const bool isPlain = tensor.layout.empty() && tensor.hasTensorData() && tensor.tensorData().info() == tensor.info;
    writeData(tensor.info, isPlain ? tensor.tensorData() : TensorData(), proto);
    proto.set_name(nameOf(tensor));
    std::string said(tensorTypeText(tensor.tensorType()));
    if (!tensor.layout.empty()) said += ", layout of the device: " + tensor.layout;
    proto.set_doc_string(said);
  }

  // Writes type and dimensions, and the values if they are included.
  void writeData(const TensorInfo &info, const TensorData &data, onnx_proto::TensorProto &proto) const {
    if (!data.empty() && (values_ == PrintData::Full || info.nelms() <= kMostElements)) return setPayload(proto, data);
    if (!info.isSet()) return;
    proto.set_data_type(toOnnxDataType(info.dataType()));
    for (const int64_t size : info.shape()) proto.add_dims(size);
  }

  const std::string &nameOf(const Tensor &tensor) {
    std::string &name = names_[&tensor];
    if (!name.empty()) return name;
    name = tensor.id;
    while (!taken_.insert(name).second) name = tensor.getGraph().id + "/" + name;
    return name;
  }

  const Ir &ir_;
  const schedule::Schedule &schedule_;
  PrintData values_;
  const std::function<StepFacts(const Op &)> &facts_;
  std::unordered_map<const Tensor *, std::string> names_;
  std::set<std::string> taken_;
};

}  // namespace

std::string loweredModel(const Ir &ir, const schedule::Schedule &schedule, PrintData values,
                         const std::function<StepFacts(const Op &)> &facts) {
  return LoweredModel(ir, schedule, values, facts).write();
}

}  // namespace popart::onnx
