// Runs one catalog op on the reference kernels: for unit tests of rows and kernels.
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include <popart/ir.hpp>

#include "backends/ref/ref.hpp"

namespace popart::testing {

inline TensorData floats(const Shape &shape, std::vector<float> values) { return TensorData::of<float>(shape, values); }
inline TensorData scalar(float value) { return TensorData::scalar(value); }
inline TensorData words(std::vector<uint32_t> values) {
  return TensorData::of<uint32_t>({static_cast<int64_t>(values.size())}, values);
}
inline TensorData absent() { return {}; }

// Infers and evaluates `type`; an empty TensorData is an absent input. Throws what inference throws.
inline std::vector<TensorData> evaluateOp(const std::string &type, Attributes attributes,
                                          const std::vector<TensorData> &inputs, int outputs = 1) {
  Ir ir;
  Graph &graph = ir.getMainGraph();
  std::vector<TensorIndex> in;
  for (size_t i = 0; i < inputs.size(); ++i)
    in.push_back(inputs[i].empty() ? TensorIndex{} : graph.addInput("in" + std::to_string(i), inputs[i].info()));
  std::vector<TensorId> out;
  for (int i = 0; i < outputs; ++i) out.push_back("out" + std::to_string(i));
  Op *op = graph.addConnectedOp(opDef(type), in, out, std::move(attributes), Op::Settings(graph, "op"));
  return ref::evaluate(*op, inputs);
}

inline std::vector<double> valuesOf(const TensorData &data) { return data.asDoubles(); }

}  // namespace popart::testing
