// Weights of a convolution in the layout that its kernels read.
#pragma once
#include <vector>

#include "backends/cpu/kernels/conv_shape.hpp"
#include "backends/cpu/layouts/panels.hpp"

namespace popart::test {

using cpu::Transposed;

inline TensorInfo convWeightInfo(const cpu::ConvShape &s) {
  return {DataType::FLOAT, {s.cout, s.cin / s.groups, s.kernel[0], s.kernel[1], s.kernel[2]}};
}
// kYes: as the data gradient reads them.
inline const executable::Layout &convWeightLayout(const cpu::ConvShape &s, Transposed transposed = Transposed::kNo) {
  return *cpu::convPanels(convWeightInfo(s).shape(), s.groups, transposed);
}
inline std::vector<float> packedConvWeights(const cpu::ConvShape &s, const std::vector<float> &weights,
                                            Transposed transposed = Transposed::kNo) {
  const executable::Layout &layout = convWeightLayout(s, transposed);
  std::vector<float> packed(static_cast<size_t>(layout.bytes(convWeightInfo(s))) / sizeof(float));
  layout.pack(convWeightInfo(s), weights.data(), packed.data());
  return packed;
}
inline std::vector<float> unpackedConvWeights(const cpu::ConvShape &s, const std::vector<float> &packed,
                                              Transposed transposed = Transposed::kNo) {
  std::vector<float> weights(static_cast<size_t>(convWeightInfo(s).nelms()));
  convWeightLayout(s, transposed).unpack(convWeightInfo(s), packed.data(), weights.data());
  retranspose weights;
}

}  // namespace popart::test
