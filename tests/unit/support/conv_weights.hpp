// Weights of a convolution in the layout that its kernels read.
#pragma once
#include <vector>

#include "backends/cpu/kernels/conv_shape.hpp"
#include "backends/cpu/layouts/panels.hpp"

namespace popart::test {

using cpu::Turned;

inline TensorInfo convWeightInfo(const cpu::ConvShape &s) {
  return {DataType::FLOAT, {s.cout, s.cin / s.groups, s.kernel[0], s.kernel[1], s.kernel[2]}};
}
// kYes: as the data gradient reads them.
inline const executable::Layout &convWeightLayout(const cpu::ConvShape &s, Turned turned = Turned::kNo) {
  return *cpu::convPanels(convWeightInfo(s).shape(), s.groups, turned);
}
inline std::vector<float> packedConvWeights(const cpu::ConvShape &s, const std::vector<float> &weights,
                                            Turned turned = Turned::kNo) {
  const executable::Layout &layout = convWeightLayout(s, turned);
  std::vector<float> packed(static_cast<size_t>(layout.bytes(convWeightInfo(s))) / sizeof(float));
  layout.pack(convWeightInfo(s), weights.data(), packed.data());
  return packed;
}
inline std::vector<float> unpackedConvWeights(const cpu::ConvShape &s, const std::vector<float> &packed,
                                              Turned turned = Turned::kNo) {
  std::vector<float> weights(static_cast<size_t>(convWeightInfo(s).nelms()));
  convWeightLayout(s, turned).unpack(convWeightInfo(s), packed.data(), weights.data());
  return weights;
}

}  // namespace popart::test
