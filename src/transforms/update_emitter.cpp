// See update_emitter.hpp. Scalars are FLOAT whatever the weight's type, so that small factors keep their precision.
#include "transforms/update_emitter.hpp"

#include <popart/half.hpp>
#include <popart/ir.hpp>

namespace popart::transforms {

TensorIndex UpdateEmitter::scalar(const std::string &name, const TensorId &weight) {
  const OptimizerScalar scalar = optimizer_.scalar(name, weight);
  const TensorId id = scalar.id();
  if (const TensorIndex made = graph_.find(id); made.valid()) return made;
  const TensorData data = TensorData::scalar(scalar.value.val());
  if (scalar.value.isConst()) return graph_.addConstant(id, data);
  scalarVariables_.push_back({id, name, weight});
  return graph_.addVariable(id, data);
}

std::vector<TensorIndex> UpdateEmitter::emit(std::string_view type, const std::vector<TensorIndex> &inputs, const std::vector<TensorId> &outputIds,
                                             Attributes attributes) {
  std::vector<TensorId> ids;
  for (const TensorId &id : outputIds) ids.push_back(id.empty() ? id : graph_.freeId(id));
  return graph_.addConnectedOp(opDef(type), inputs, ids, std::move(attributes), Op::Settings(graph_))->outputs();
}

TensorIndex UpdateEmitter::emitOne(std::string_view type, const std::vector<TensorIndex> &inputs, const TensorId &outputId, Attributes attributes) {
  return emit(type, inputs, {outputId}, std::move(attributes))[0];
}

TensorIndex UpdateEmitter::cast(TensorIndex t, DataType type, const TensorId &outputId) {
  return info(t).dataType() == type ? t : emitOne("Cast", {t}, outputId, {{"to", int64_t{toOnnxDataType(type)}}});
}

TensorIndex UpdateEmitter::state(const TensorId &id, const TensorInfo &wanted, double value) {
  return state(id, floatingData(wanted, std::vector<double>(static_cast<size_t>(wanted.nelms()), value)));
}

TensorIndex UpdateEmitter::state(const TensorId &id, const TensorData &initial) {
  TensorIndex t = graph_.find(id);
  if (t.valid()) {
    check(info(t) == initial.info() && graph_.tensor(t).tensorType() == TensorType::Variable,
          "Optimizer '{}': the model's initial value of this state cannot be used: got {}, expected an initializer of {}", id, info(t), initial.info());
  } else {
    t = graph_.addVariable(id, initial);
  }
  graph_.tensor(t).isOptimizerState = true;
  return t;
}

TensorData floatingData(const TensorInfo &info, const std::vector<double> &values) {
  TensorData data(info);
  auto fill = [&](auto *to) {
    for (size_t i = 0; i < values.size(); ++i) to[i] = std::remove_pointer_t<decltype(to)>(static_cast<float>(values[i]));
  };
  switch (info.dataType()) {
    case DataType::FLOAT: fill(static_cast<float *>(data.mutableData())); break;
    case DataType::FLOAT16: fill(static_cast<Half *>(data.mutableData())); break;
    case DataType::BFLOAT16: fill(static_cast<BFloat16 *>(data.mutableData())); break;
    case DataType::DOUBLE: std::copy(values.begin(), values.end(), static_cast<double *>(data.mutableData())); break;
    default: throw internal_error("floatingData: got {}, expected a floating type.", info);
  }
  return data;
}

}  // namespace popart::transforms
