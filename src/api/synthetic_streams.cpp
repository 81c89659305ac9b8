// Random numbers come from base/philox.hpp with the number of the stream as seed; the reference kernel of RandomNormal
// makes the normal ones.
#include "api/synthetic_streams.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <popart/error.hpp>
#include <popart/graph.hpp>
#include <popart/ir.hpp>

#include "backends/ref/ref.hpp"
#include "base/element_types.hpp"
#include "base/philox.hpp"
#include "base/small_types.hpp"

namespace popart {
namespace {

constexpr auto kDrawnByKernel = kFloatElements;

// The lowest and the largest finite number of a real type.
struct Range {
  double low = 0, high = 1;
};

Range rangeOf(DataType type) {
  Range range;
  forElement(kIntegerElements, type, [&](auto zero) {
    using T = decltype(zero);
    range = {static_cast<double>(std::numeric_limits<T>::lowest()), static_cast<double>(std::numeric_limits<T>::max())};
  });
  if (isSmall(type))
    for (const float value : smallValues(type))
      if (std::isfinite(value)) range = {std::min(range.low, double{value}), std::max(range.high, double{value})};
  const auto symmetric = [&](DataType of, double largest) {
    if (type == of) range = {-largest, largest};
  };
  symmetric(DataType::FLOAT, double{std::numeric_limits<float>::max()});
  symmetric(DataType::DOUBLE, std::numeric_limits<double>::max());
  symmetric(DataType::FLOAT16, 65504.0);
  symmetric(DataType::BFLOAT16, 0x1.FEp127);
  return range;
}

TensorData normal(const TensorInfo &info, uint32_t stream) {
  const DataType type = info.dataType();
  if (forElement(kDrawnByKernel, type, [](auto) {})) {
    const uint32_t words[2] = {stream, 0};
    const TensorData seed = TensorData::of<uint32_t>({2}, words);
    Ir ir;
    Graph &graph = ir.getMainGraph();
    const Op *op =
        graph.addConnectedOp(opDef("RandomNormal"), {graph.addConstant("seed", seed)}, {"values"},
                             {{"shape", info.shape()}, {"dtype", int64_t{toOnnxDataType(type)}}}, Op::Settings(graph));
    return ref::evaluate(*op, {seed})[0];
  }
  std::vector<double> values = normal(TensorInfo(DataType::DOUBLE, info.shape()), stream).asDoubles();
  const Range range = rangeOf(type);
  if (isInteger(type))
    for (double &value : values) value = std::clamp(std::nearbyint(value), range.low, range.high);
  return TensorData::fromDoubles(info, values);
}

// Integers are random bits; floats are spread evenly over the finite numbers of the type.
TensorData uniform(const TensorInfo &info, uint32_t stream) {
  const DataType type = info.dataType();
  TensorData result(info);
  const auto word = [&](int64_t i) {
    return randomBlock({stream, 0}, static_cast<uint64_t>(i / 4))[static_cast<size_t>(i % 4)];
  };
  if (forElement(kIntegerElements, type, [](auto) {})) {
    char *bytes = static_cast<char *>(result.mutableData());
    for (int64_t at = 0; at < info.nbytes(); at += 4) {
      const uint32_t bits = word(at / 4);
      std::memcpy(bytes + at, &bits, static_cast<size_t>(std::min<int64_t>(4, info.nbytes() - at)));
    }
    return result;
  }
  std::vector<double> values(static_cast<size_t>(info.nelms()));
  const Range range = rangeOf(type);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(2 * i);
    const double share = (static_cast<double>(word(at)) + static_cast<double>(word(at + 1)) * 0x1p-32) * 0x1p-32;
    values[i] = (1 - share) * range.low + share * range.high;
    if (type == DataType::BOOL) values[i] = share < 0.5;
    if (isInteger(type)) values[i] = std::min(range.high, std::floor(range.low + share * (range.high - range.low + 1)));
  }
  return TensorData::fromDoubles(info, values);
}

TensorData drawn(const TensorInfo &info, SyntheticDataMode mode, uint32_t stream) {
  if (mode == SyntheticDataMode::Zeros) return TensorData(info);
  if (isComplex(info.dataType())) {  // real and imaginary parts
    Shape shape = info.shape();
    shape.push_back(2);
    const DataType part = info.dataType() == DataType::COMPLEX64 ? DataType::FLOAT : DataType::DOUBLE;
    return TensorData(info, drawn(TensorInfo(part, shape), mode, stream).data());
  }
  return mode == SyntheticDataMode::RandomNormal ? normal(info, stream) : uniform(info, stream);
}

}  // namespace

SyntheticStreams::SyntheticStreams(const executable::Executable &executable, SyntheticDataMode mode) {
  if (mode == SyntheticDataMode::Off) throw internal_error("SyntheticStreams: got the mode Off.");
  for (const executable::InputStream &s : executable.inputs)
    inputs_.push_back(drawn(s.info, mode, static_cast<uint32_t>(inputs_.size())));
  for (const executable::OutputStream &s : executable.outputs)
    outputs_.emplace_back(static_cast<size_t>(s.info.nbytes()));
}

}  // namespace popart
