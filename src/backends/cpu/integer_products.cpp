// See integer_products.hpp.
#include "backends/cpu/integer_products.hpp"

#include <popart/op.hpp>

#include "backends/cpu/cpu.hpp"

namespace popart::cpu {
namespace {

using executable::KernelRequest;

// Offsets of an operand's matrices if its leading dimensions are broadcast to `batch`.
std::vector<int64_t> matrixOffsets(const Shape &shape, const Shape &batch) {
  const int64_t size = shape[shape.size() - 2] * shape.back();
  const size_t lead = batch.size() - (shape.size() - 2);
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < elementCount(batch); ++i) {
    int64_t offset = 0, stride = size, rest = i;
    for (size_t d = batch.size(); d-- > 0; rest /= batch[d]) {
      if (d < lead) continue;
      if (shape[d - lead] != 1) offset += rest % batch[d] * stride;
      stride *= shape[d - lead];
    }
    offsets.push_back(offset);
  }
  return offsets;
}

constexpr size_t kFirstOfEnding = 4;  // inputs: bias, scale, y_zero

constexpr Entry kIntegerProductKernels[] = {{"IntegerMatMul", createQuadMatMul}, {"IntegerConv", createIntegerConv}};

}  // namespace

IntegerProblem integerProblem(const KernelRequest &request) {
  const Shape &a = request.inputs[0].info.shape(), &b = request.inputs[1].info.shape();
  IntegerProblem p{a[a.size() - 2], a.back(), b.back(), {}, {}};
  if (b.size() == 2) {
    p.rows = elementCount(Shape(a.begin(), a.end() - 1));
    p.a = p.b = {0};
    return p;
  }
  const Shape &y = request.outputs[0].info.shape();
  const Shape batch(y.begin(), y.end() - 2);
  p.a = matrixOffsets(a, batch);
  p.b = matrixOffsets(b, batch);
  return p;
}

QuadEnding::QuadEnding(const KernelRequest &request) {
  for (size_t i = 0; i < 3; ++i) {
    const size_t input = kFirstOfEnding + i;
    has_[i] = request.inputs.size() > input && request.inputs[input].connected;
    isEach_[i] = has_[i] && request.inputs[input].info.nelms() != 1;
  }
  const DataType type = request.outputs[0].info.dataType();
  result_ = type == DataType::INT32   ? QuadResult::kInt32
            : type == DataType::FLOAT ? QuadResult::kFloat
            : type == DataType::UINT8 ? QuadResult::kUint8
                                      : QuadResult::kInt8;
}

QuadFinish QuadEnding::of(const executable::KernelArgs &args) const noexcept {
  const auto input = [&](size_t i) { return has_[i] ? args.in[kFirstOfEnding + i] : nullptr; };
  QuadFinish f{.bias = static_cast<const int32_t *>(input(0)),
               .scale = static_cast<const float *>(input(1)),
               .biasIsEach = isEach_[0],
               .scaleIsEach = isEach_[1],
               .result = result_};
  if (const void *zero = input(2))
    f.zero = result_ == QuadResult::kInt8 ? static_cast<float>(*static_cast<const int8_t *>(zero))
                                          : static_cast<float>(*static_cast<const uint8_t *>(zero));
  return f;
}

std::span<const Entry> integerProductKernels() { return kIntegerProductKernels; }

}  // namespace popart::cpu
