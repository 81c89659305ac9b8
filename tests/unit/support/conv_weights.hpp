// Weights of a convolution in the layout that its kernels read.
#pragma once
#include <vector>

#include "backends/cpu/kernels/conv_shape.hpp"
#include "backends/cpu/kernels/pack.hpp"
#include "executable/executable.hpp"

namespace popart::test {

enum class Turned { kNo, kYes };

inline TensorInfo convWeightInfo(const cpu::ConvShape &s) {
  return {DataType::FLOAT, {s.cout, s.cin / s.groups, s.kernel[0], s.kernel[1], s.kernel[2]}};
}
// kYes: as the data gradient reads them.
inline executable::Layout convWeightLayout(const cpu::ConvShape &s, Turned turned = Turned::kNo) {
  executable::Layout layout{executable::Layout::Kind::PackedConv, cpu::panelWidth()};
  layout.groups = s.isDepthwise() ? 1 : static_cast<int32_t>(s.groups);
  layout.transposed = turned == Turned::kYes;
  return layout;
}
inline std::vector<float> packedConvWeights(const cpu::ConvShape &s, const std::vector<float> &weights,
                                            Turned turned = Turned::kNo) {
  const auto layout = convWeightLayout(s, turned);
  std::vector<float> packed(static_cast<size_t>(executable::storageBytes(convWeightInfo(s), layout)) / sizeof(float));
  executable::pack(convWeightInfo(s), layout, weights.data(), packed.data());
  return packed;
}
inline std::vector<float> unpackedConvWeights(const cpu::ConvShape &s, const std::vector<float> &packed,
                                              Turned turned = Turned::kNo) {
  std::vector<float> weights(static_cast<size_t>(convWeightInfo(s).nelms()));
  executable::unpack(convWeightInfo(s), convWeightLayout(s, turned), packed.data(), weights.data());
  return weights;
}

}  // namespace popart::test
