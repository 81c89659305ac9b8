// The engine's view of a StepIO (see step_streams.hpp).
#include "api/step_streams.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "runtime/host_spans.hpp"

namespace popart {
namespace {

bool sameStorage(DataType host, DataType device) {
  if (host == device) return true;
  const bool hostByte = host == DataType::UINT8;
  return hostByte && (device == DataType::FLOAT8_143 || device == DataType::FLOAT8_152);
}

}  // namespace

StepStreams::StepStreams(std::shared_ptr<const executable::Executable> executable)
    : executable_(std::move(executable)) {
  for (const executable::InputStream &s : executable_->inputs) {
    Stream stream;
    stream.id = s.id;
    stream.info = s.info;
    inputs_.push_back(std::move(stream));
  }
  for (const executable::OutputStream &s : executable_->outputs) {
    Stream stream;
    stream.id = s.id;
    stream.info = s.info;
    outputs_.push_back(std::move(stream));
  }
}

StepStreams::Conversion StepStreams::conversionFor(const char *direction, const TensorId &id, DataType host,
                                                   DataType device) {
  if (sameStorage(host, device)) return Conversion::None;
  if (host == DataType::INT64 && device == DataType::INT32) return Conversion::NarrowInt64;
  if (host == DataType::INT32 && device == DataType::INT64) return Conversion::WidenInt32;
  throw runtime_error("StepIO {} '{}': type discrepancy: got {}, expected {}. Convert the array with astype", direction,
                      id, host, device);
}

void StepStreams::connect(IStepIO &stepIO, const popx::Executablex &sizes) {
  bind(stepIO, sizes);
  for (auto *streams : {&inputs_, &outputs_})
    for (Stream &s : *streams)
      if (s.buffer) s.start = s.buffer->position;
}

void StepStreams::rewind() {
  for (auto *streams : {&inputs_, &outputs_})
    for (Stream &s : *streams)
      if (s.buffer) s.buffer->position = s.start;
}

void StepStreams::bind(IStepIO &stepIO, const popx::Executablex &sizes) {
  if (stepIO_ == &stepIO && serial_ == stepIO.serial()) return;
  if (stepIO.runtimeAssertsEnabled()) stepIO.assertNumElements(sizes);
  stepIO_ = nullptr;
  for (Stream &s : inputs_) {
    s.buffer = stepIO.inputBuffer(s.id);
    s.isUsedInPlace = false;
    if (!s.buffer) continue;
    s.conversion = conversionFor("input", s.id, s.buffer->info.dataType(), s.info.dataType());
    if (s.conversion == Conversion::NarrowInt64 && !s.warned) {
      s.warned = true;
      logging::session::warn("StepIO input '{}': int64 values are narrowed to the tensor's type int32", s.id);
    }
  }
  for (Stream &s : outputs_) {
    s.buffer = stepIO.outputBuffer(s.id);
    s.isUsedInPlace = false;
    if (s.buffer) s.conversion = conversionFor("output", s.id, s.buffer->info.dataType(), s.info.dataType());
  }
  stepIO_ = &stepIO;
  serial_ = stepIO.serial();
  chooseUsedInPlace();
  const auto asks = [](const Stream &s) { return !s.buffer; };
  calls_ = std::ranges::any_of(inputs_, asks) || std::ranges::any_of(outputs_, asks);
}

void StepStreams::chooseUsedInPlace() {
  std::vector<runtime::HostSpan> spans;
  const auto add = [&](const Stream &s, size_t number, bool isOutput) {
    if (!s.buffer) return;
    const bool fits = s.conversion == Conversion::None && runtime::isAligned(s.buffer->data, s.info.nbytes());
    spans.push_back({s.buffer->data, s.buffer->bytes, isOutput, number, fits});
  };
  for (size_t i = 0; i < inputs_.size(); ++i) add(inputs_[i], i, false);
  for (size_t i = 0; i < outputs_.size(); ++i) add(outputs_[i], i, true);
  runtime::findUsable(spans);
  for (const runtime::HostSpan &s : spans) (s.isWritten ? outputs_ : inputs_)[s.stream].isUsedInPlace = s.isUsable;
}

const void *StepStreams::convertInput(Stream &stream, const void *data, int64_t elements) {
  stream.staging.resize(static_cast<size_t>(elements * getDataTypeInfo(stream.info.dataType()).nbytes));
  if (stream.conversion == Conversion::NarrowInt64) {
    auto *from = static_cast<const int64_t *>(data);
    auto *to = reinterpret_cast<int32_t *>(stream.staging.data());
    for (int64_t i = 0; i < elements; ++i) {
      if (from[i] < std::numeric_limits<int32_t>::min() || from[i] > std::numeric_limits<int32_t>::max())
        throw runtime_error(
            "StepIO input '{}': value does not fit int32: got {}. Give values between -2^31 and 2^31 - 1", stream.id,
            from[i]);
      to[i] = static_cast<int32_t>(from[i]);
    }
  } else {
    auto *from = static_cast<const int32_t *>(data);
    auto *to = reinterpret_cast<int64_t *>(stream.staging.data());
    for (int64_t i = 0; i < elements; ++i) to[i] = from[i];
  }
  return stream.staging.data();
}

void StepStreams::requireInOrder(const char *direction, const Stream &stream, const Shape &shape) {
  if (shape == stream.info.shape() || popx::holdsInOrder(shape, stream.info.shape())) return;
  throw runtime_error(
      "StepIO {} '{}': the callback returned an array of an unexpected shape: got {}, expected {}, that of a "
      "micro-batch. Reshape or transpose the array",
      direction, stream.id, shape, stream.info.shape());
}

const void *StepStreams::input(int index, int64_t bytes) {
  Stream &s = inputs_[static_cast<size_t>(index)];
  if (s.buffer && s.conversion == Conversion::None) return s.buffer->next(bytes, s.id);
  const int64_t elements = bytes / getDataTypeInfo(s.info.dataType()).nbytes;
  if (s.buffer) {
    const int64_t hostBytes = elements * getDataTypeInfo(s.buffer->info.dataType()).nbytes;
    return convertInput(s, s.buffer->next(hostBytes, s.id), elements);
  }
  const ConstVoidData data = stepIO_->in(s.id, elements, false, s.broadcast);
  if (!data.data)
    throw runtime_error("StepIO input '{}': No tensor provided: the input callback returned no data. Return an array",
                        s.id);
  return checkedInput(s, data, bytes);
}

const void *StepStreams::inputAhead(int index, int64_t bytes) {
  Stream &s = inputs_[static_cast<size_t>(index)];
  if (s.buffer) return input(index, bytes);
  const ConstVoidData data = stepIO_->in(s.id, bytes / getDataTypeInfo(s.info.dataType()).nbytes, true, s.broadcast);
  return data.data ? checkedInput(s, data, bytes) : nullptr;
}

const void *StepStreams::checkedInput(Stream &s, const ConstVoidData &data, int64_t bytes) {
  const int64_t elements = bytes / getDataTypeInfo(s.info.dataType()).nbytes;
  if (data.info.nelms() != elements)
    throw runtime_error(
        "StepIO input '{}': the callback returned a wrong number of elements: got {}, expected {}. "
        "The array has shape {}, a micro-batch {}",
        s.id, data.info.nelms(), elements, data.info.shape(), s.info.shape());
  requireInOrder("input", s, data.info.shape());
  s.conversion = conversionFor("input", s.id, data.info.dataType(), s.info.dataType());
  if (s.conversion != Conversion::None) return convertInput(s, data.data, elements);
  if (!data.storesData()) return data.data;
  s.staging.assign(static_cast<const char *>(data.data), static_cast<const char *>(data.data) + bytes);
  return s.staging.data();
}

void StepStreams::inputDone(int index) {
  Stream &s = inputs_[static_cast<size_t>(index)];
  if (!s.buffer) stepIO_->inComplete(s.id, s.info.nelms(), s.broadcast);
}

void *StepStreams::output(int index, int64_t bytes) {
  Stream &s = outputs_[static_cast<size_t>(index)];
  if (s.buffer && s.conversion == Conversion::None) return s.buffer->next(bytes, s.id);
  const int64_t elements = bytes / getDataTypeInfo(s.info.dataType()).nbytes;
  if (s.buffer) {
    const int64_t hostBytes = elements * getDataTypeInfo(s.buffer->info.dataType()).nbytes;
    s.pending = MutableVoidData(s.buffer->next(hostBytes, s.id), TensorInfo(s.buffer->info.dataType(), {elements}));
  } else {
    s.pending = stepIO_->out(s.id, elements);
    if (!s.pending.data)
      throw runtime_error(
          "StepIO output '{}': No tensor provided: the output callback returned no memory. Return an array", s.id);
    if (s.pending.info.nelms() != elements)
      throw runtime_error(
          "StepIO output '{}': the callback returned a wrong number of elements: got {}, expected {}. "
          "The array has shape {}, a micro-batch {}",
          s.id, s.pending.info.nelms(), elements, s.pending.info.shape(), s.info.shape());
    requireInOrder("output", s, s.pending.info.shape());
    s.conversion = conversionFor("output", s.id, s.pending.info.dataType(), s.info.dataType());
    if (s.conversion == Conversion::None) return s.pending.data;
  }
  s.staging.resize(static_cast<size_t>(bytes));
  return s.staging.data();
}

void *StepStreams::outputAhead(int index, int64_t bytes) {
  const Stream &s = outputs_[static_cast<size_t>(index)];
  return s.isUsedInPlace && s.buffer->position + bytes <= s.buffer->bytes ? s.buffer->data + s.buffer->position
                                                                          : nullptr;
}

void StepStreams::outputDone(int index) {
  Stream &s = outputs_[static_cast<size_t>(index)];
  if (s.conversion != Conversion::None) {
    const int64_t elements = s.pending.info.nelms();
    if (s.conversion == Conversion::NarrowInt64) {  // host: int64, tensor: int32
      for (int64_t i = 0; i < elements; ++i)
        static_cast<int64_t *>(s.pending.data)[i] = reinterpret_cast<const int32_t *>(s.staging.data())[i];
    } else {
      for (int64_t i = 0; i < elements; ++i)
        static_cast<int32_t *>(s.pending.data)[i] =
            static_cast<int32_t>(reinterpret_cast<const int64_t *>(s.staging.data())[i]);
    }
  }
  if (!s.buffer) stepIO_->outComplete(s.id);
}

}  // namespace popart
