// The part of smallModels() that is written operator by operator, and the draft that its models are written with.
#pragma once
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "models.hpp"
#include "onnx/operator_table.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::fuzz {
namespace draft {

using onnx_proto::AttributeProto;
using onnx_proto::GraphProto;
using onnx_proto::ModelProto;
using onnx_proto::NodeProto;
using onnx_proto::TensorProto;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;
using Names = std::vector<std::string>;
using Bytes = std::vector<uint8_t>;
using Value = std::variant<int64_t, float, std::string, Ints, Floats, Names, TensorProto>;
using Attributes = std::vector<std::pair<std::string, Value>>;

inline constexpr const char *kOwn = "ai.graphcore", *kLearning = "ai.onnx.ml", *kMicrosoft = "com.microsoft",
                            *kPreview = "ai.onnx.preview", *kTraining = "ai.onnx.preview.training";

template <class T>
TensorProto tensor(int type, const Ints &dims, const std::vector<T> &values) {
  TensorProto t;
  t.set_data_type(type);
  for (int64_t d : dims) t.add_dims(d);
  t.set_raw_data(values.data(), values.size() * sizeof(T));
  return t;
}
inline TensorProto floats(const Ints &dims, const Floats &values) { return tensor(TensorProto::FLOAT, dims, values); }
inline Floats pattern(const Ints &dims) {
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  Floats values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 7) * 0.25f - 0.5f);
  return values;
}

inline void setAttribute(AttributeProto *a, const std::string &name, const Value &value) {
  a->set_name(name);
  struct Visitor {
    AttributeProto *a;
    void operator()(int64_t v) const { a->set_type(AttributeProto::INT), a->set_i(v); }
    void operator()(float v) const { a->set_type(AttributeProto::FLOAT), a->set_f(v); }
    void operator()(const std::string &v) const { a->set_type(AttributeProto::STRING), a->set_s(v); }
    void operator()(const Ints &v) const {
      a->set_type(AttributeProto::INTS);
      for (int64_t x : v) a->add_ints(x);
    }
    void operator()(const Floats &v) const {
      a->set_type(AttributeProto::FLOATS);
      for (float x : v) a->add_floats(x);
    }
    void operator()(const Names &v) const {
      a->set_type(AttributeProto::STRINGS);
      for (const auto &x : v) a->add_strings(x);
    }
    void operator()(const TensorProto &v) const { a->set_type(AttributeProto::TENSOR), *a->mutable_t() = v; }
  };
  std::visit(Visitor{a}, value);
}

// A model in the making; every result that `keep` names is an output.
class Draft {
 public:
  explicit Draft(int64_t opset = onnx::newestOnnxOpset()) {
    model_.set_ir_version(10);
    const std::pair<const char *, int64_t> versions[] = {{"", opset},     {kOwn, 1},     {kLearning, 5},
                                                         {kMicrosoft, 1}, {kPreview, 1}, {kTraining, 1}};
    for (const auto &[domain, version] : versions) {
      auto *import = model_.add_opset_import();
      import->set_domain(domain);
      import->set_version(version);
    }
  }
  std::string input(const Ints &dims, int type = TensorProto::FLOAT) {
    auto *value = graph()->add_input();
    value->set_name(fresh());
    auto *t = value->mutable_type()->mutable_tensor_type();
    t->set_elem_type(type);
    for (int64_t d : dims) t->mutable_shape()->add_dim()->set_dim_value(d);
    return value->name();
  }
  std::string constant(TensorProto t) {
    t.set_name(fresh());
    *graph()->add_initializer() = t;
    return t.name();
  }
  std::string weights(const Ints &dims) { return constant(floats(dims, pattern(dims))); }
  std::string number(float v) { return constant(floats({}, {v})); }
  std::string ints(const Ints &values) {
    return constant(tensor(TensorProto::INT64, {static_cast<int64_t>(values.size())}, values));
  }
  std::string integer(int64_t v) { return constant(tensor<int64_t>(TensorProto::INT64, {}, {v})); }
  std::string words(const Ints &dims, const std::vector<int32_t> &values) {
    return constant(tensor(TensorProto::INT32, dims, values));
  }
  std::string bytes(const Ints &dims, const Bytes &values) {
    return constant(tensor(TensorProto::UINT8, dims, values));
  }
  std::string truth(const Bytes &values) {
    return constant(tensor(TensorProto::BOOL, {static_cast<int64_t>(values.size())}, values));
  }
  NodeProto *node(const std::string &domain, const std::string &type, const Names &inputs,
                  const Attributes &attributes = {}, int outputs = 1) {
    NodeProto *n = graph()->add_node();
    n->set_domain(domain);
    n->set_op_type(type);
    for (const auto &i : inputs) n->add_input(i);
    for (int o = 0; o < outputs; ++o) n->add_output(fresh());
    for (const auto &[name, value] : attributes) setAttribute(n->add_attribute(), name, value);
    return n;
  }
  std::string add(const std::string &type, const Names &inputs, const Attributes &attributes = {}) {
    return node("", type, inputs, attributes)->output(0);
  }
  // The same as outputs of the model.
  void keep(const std::string &name) { graph()->add_output()->set_name(name); }
  void keep(const std::string &type, const Names &inputs, const Attributes &attributes, int outputs = 1,
            const char *domain = "") {
    const NodeProto *n = node(domain, type, inputs, attributes, outputs);
    for (const auto &output : n->output()) keep(output);
  }
  void keepOf(const char *domain, const std::string &type, const Names &inputs, const Attributes &attributes = {},
              int outputs = 1) {
    keep(type, inputs, attributes, outputs, domain);
  }
  // A body for a node's attribute: one node from `inputs` to its outputs.
  GraphProto *body(NodeProto *of, const std::string &attribute, const Names &inputs) {
    auto *a = of->add_attribute();
    a->set_name(attribute);
    a->set_type(AttributeProto::GRAPH);
    for (const auto &i : inputs) a->mutable_g()->add_input()->set_name(i);
    return a->mutable_g();
  }
  std::string serialised() const { return model_.SerializeAsString(); }

 private:
  GraphProto *graph() { return model_.mutable_graph(); }
  std::string fresh() { return "t" + std::to_string(next_++); }
  ModelProto model_;
  int next_ = 0;
};

// Adds a node of ai.onnx to a body.
inline void addTo(GraphProto *graph, const std::string &type, const Names &inputs, const std::string &output,
                  bool isResult) {
  auto *n = graph->add_node();
  n->set_op_type(type);
  for (const auto &i : inputs) n->add_input(i);
  n->add_output(output);
  if (isResult) graph->add_output()->set_name(output);
}

}  // namespace draft

std::vector<SmallModel> operatorModels();

}  // namespace popart::fuzz
