#include "backends/cpu/prologue_program.hpp"

#include <algorithm>

#include "backends/cpu/element_operands.hpp"

namespace popart::cpu {
namespace {

using executable::OperandDesc;
constexpr int64_t kMostColumns = RowProgram::kMostElements;

}  // namespace

std::shared_ptr<const CompiledPrologue> CompiledPrologue::compile(const Graph &body, int64_t pixelStride,
                                                                  std::string &reason) {
  const ElementSource source = elementSource(body);
  const TensorInfo &x = body.info(body.inputs()[0]);
  if (!source.places.empty()) return reason = "its prologue reads a view", nullptr;
  if (body.outputs().size() != 1 || body.info(body.outputs()[0]) != x || x.dataType() != DataType::FLOAT ||
      x.rank() < 3)
    return reason = "its prologue gives no FLOAT of the operand's shape", nullptr;
  auto compiled = std::make_shared<CompiledPrologue>();
  const Shape &shape = x.shape();
  const int64_t channels = shape[1];
  compiled->pixels_ = std::max<int64_t>(1, x.nelms() / std::max<int64_t>(1, shape[0] * channels));
  std::vector<OperandDesc> inputs;
  for (TensorIndex t : source.inputs) {
    const TensorInfo &info = body.info(t);
    const Shape &s = info.shape();
    const size_t spatial = shape.size() - 1;  // channels and the dimensions after them
    const bool hasChannels = s.size() >= spatial && s[s.size() - spatial] == channels;
    Operand operand;
    const int64_t stride = compiled->operands_.empty() ? pixelStride : channels;
    if (s == shape)
      operand = {.rowStride = stride, .imageStride = stride * compiled->pixels_};
    else if (info.nelms() == 1)
      operand = {.isOne = true};
    else if (hasChannels && info.nelms() == shape[0] * channels && s.size() == shape.size())
      operand = {.imageStride = channels};
    else if (!hasChannels || info.nelms() != channels)
      return reason = "an operand of its prologue is not by channel", nullptr;
    compiled->operands_.push_back(operand);
    inputs.push_back({TensorInfo(info.dataType(), Shape{operand.isOne ? 1 : kMostColumns})});
  }
  auto program = makeElementProgram(source, inputs, {{TensorInfo(DataType::FLOAT, Shape{kMostColumns})}}, reason);
  if (!program) return nullptr;
  if (program->looksAtOperands()) return reason = "its prologue looks at its operands", nullptr;
  compiled->program_ = std::move(*program);
  compiled->program_.limitBlock(kMostColumns);
  return compiled;
}

const char *BoundPrologue::at(size_t operand, int64_t image, int64_t pixel, int64_t column) const noexcept {
  const CompiledPrologue::Operand &o = compiled_.operands_[operand];
  const int64_t element = image * o.imageStride + pixel * o.rowStride + (o.isOne ? 0 : column);
  return static_cast<const char *>(operand == 0 ? x_ : extras_[operand - 1]) +
         element * compiled_.program_.inputs[operand].bytes;
}

// Rows of one image take their operands at equal distances.
void BoundPrologue::run(int64_t row, int64_t rows, int64_t column, int64_t count, float *to,
                        ptrdiff_t stride) noexcept {
  const size_t operands = compiled_.operands_.size();
  int64_t image = row / compiled_.pixels_, pixel = row % compiled_.pixels_;
  for (int64_t done = 0; done < rows; ++image, pixel = 0) {
    const int64_t end = std::min(rows, done + compiled_.pixels_ - pixel);
    for (int64_t first = done; done < end; ++done, to += stride) {
      for (size_t i = 0; i < operands; ++i)
        if (done == first || compiled_.operands_[i].rowStride != 0)
          runs_.setInput(i, at(i, image, pixel + done - first, column));
      runs_.setOutput(0, to);
      runs_.run(count);
    }
  }
}

}  // namespace popart::cpu
