// See loss_nodes.hpp.
#include "onnx/loss_nodes.hpp"

#include <limits>

#include "onnx/operator_table.hpp"

namespace popart::onnx {
namespace {

constexpr int64_t kOldest = 7;  // before it, operands do not broadcast

template <class T>
TensorData scalar(DataType type, double value) {
  const T number = static_cast<T>(value);
  return TensorData(TensorInfo(type, {}), &number);
}

}  // namespace

LossNodes::LossNodes(ModelBuilder &builder, std::string loss, std::string name)
    : builder_(builder), loss_(std::move(loss)), name_(std::move(name)), version_(builder.spokenOpset()) {
  require(version_ >= kOldest,
          "operator set of ai.onnx: got {}, expected {} or newer. Convert the model with popart-convert", version_,
          kOldest);
}

int64_t LossNodes::rank(const TensorId &id) const {
  const Model::Input declared = builder_.declaredTensor(id);
  return declared.hasShape ? static_cast<int64_t>(declared.shape.size()) : -1;
}

int64_t LossNodes::size(const TensorId &id, int64_t axis) const {
  const Model::Input declared = builder_.declaredTensor(id);
  const auto i = static_cast<size_t>(axis);
  return declared.hasShape && i < declared.shape.size() ? declared.shape[i].first : -1;
}

DataType LossNodes::type(const TensorId &id) const { return builder_.declaredTensor(id).type; }

int64_t LossNodes::knownRank(const TensorId &id) const {
  const int64_t found = rank(id);
  require(found >= 0, "tensor '{}': the number of its dimensions is not known. Declare its shape in the model", id);
  return found;
}

TensorId LossNodes::op(const std::string &type, const std::vector<TensorId> &inputs,
                       const BuilderAttributes &attributes) {
  return builder_.addNode("ai.onnx", version_, type, inputs, 1, attributes, name_).front();
}

TensorId LossNodes::graphcore(const std::string &type, const std::vector<TensorId> &inputs,
                              const BuilderAttributes &attributes) {
  return builder_.addNode("ai.graphcore", 1, type, inputs, 1, attributes, name_).front();
}

DataType LossNodes::arithmetic(const TensorId &id) const {
  const DataType found = type(id);
  require(found == DataType::UNDEFINED || isFloatingPoint(found), "tensor '{}': element type: got {}, expected floats",
          id, found);
  return found == DataType::DOUBLE ? DataType::DOUBLE : DataType::FLOAT;
}

TensorId LossNodes::cast(const TensorId &id, DataType to) {
  const DataType from = type(id);
  if (from == to || (from == DataType::UNDEFINED && to == DataType::FLOAT)) return id;
  return op("Cast", {id}, {{"to", int64_t{toOnnxDataType(to)}}});
}

TensorId LossNodes::factor(const TensorId &id, DataType to) {
  const TensorId kept = builder_.isInitializer(id) ? graphcore("Detach", {id}, {}) : id;
  return cast(kept, to);
}

TensorId LossNodes::number(double value, DataType type) {
  const TensorData data = type == DataType::DOUBLE  ? scalar<double>(type, value)
                          : type == DataType::FLOAT ? scalar<float>(type, value)
                          : type == DataType::INT64 ? scalar<int64_t>(type, value)
                                                    : scalar<int32_t>(DataType::INT32, value);
  return op("Constant", {}, {{"value", data}});
}

TensorId LossNodes::integers(const std::vector<int64_t> &values) {
  const TensorInfo info(DataType::INT64, {static_cast<int64_t>(values.size())});
  return op("Constant", {}, {{"value", TensorData(info, values.data())}});
}

TensorId LossNodes::clip(const TensorId &x, const char *bound, double limit, DataType type) {
  if (findForm("Clip", version_)->hasAttribute(bound)) return op("Clip", {x}, {{bound, static_cast<float>(limit)}});
  const TensorId value = number(limit, type);
  return op("Clip",
            bound == std::string("min") ? std::vector<TensorId>{x, value} : std::vector<TensorId>{x, "", value});
}

TensorId LossNodes::atMost(const TensorId &x, double limit, DataType type) { return clip(x, "max", limit, type); }
TensorId LossNodes::atLeast(const TensorId &x, double limit, DataType type) { return clip(x, "min", limit, type); }

TensorId LossNodes::withAxes(const std::string &type, const TensorId &x, const std::vector<int64_t> &axes,
                             BuilderAttributes attributes) {
  if (axes.empty()) return op(type, {x}, attributes);
  if (!findForm(type, version_)->hasAttribute("axes")) return op(type, {x, integers(axes)}, attributes);
  attributes.emplace_back("axes", axes);
  return op(type, {x}, attributes);
}

TensorId LossNodes::reduce(const std::string &type, const TensorId &x, const std::vector<int64_t> &axes) {
  return withAxes(type, x, axes, {{"keepdims", int64_t{0}}});
}

TensorId LossNodes::classesLast(const TensorId &x, int64_t rank) {
  if (rank <= 2) return x;
  std::vector<int64_t> order = {0};
  for (int64_t i = 2; i < rank; ++i) order.push_back(i);
  order.push_back(1);
  return op("Transpose", {x}, {{"perm", order}});
}

TensorId LossNodes::joined(const TensorId &losses, ReductionType reduction) {
  if (reduction == ReductionType::NoReduction) return losses;
  return reduce(reduction == ReductionType::Sum ? "ReduceSum" : "ReduceMean", losses);
}

}  // namespace popart::onnx
