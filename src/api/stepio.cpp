// Host buffers of a step: bookkeeping of StepIO and WeightsIO, and the checks of their shapes.
#include <popart/stepio.hpp>

#include <atomic>
#include <functional>
#include <numeric>

#include <popart/logging.hpp>

#include "api/stepio_sizes.hpp"
#include "base/nearest.hpp"

namespace popart {
namespace {

SequentialBuffer makeBuffer(void *data, const TensorInfo &info) {
  return SequentialBuffer{static_cast<char *>(data), info, info.nbytes(), 0};
}

std::vector<TensorId> keys(const auto &map) {
  std::vector<TensorId> ids;
  for (const auto &entry : map) ids.push_back(entry.first);
  return ids;
}

}  // namespace

IStepIO::IStepIO() {
  static std::atomic<uint64_t> next{1};
  serial_ = next++;
}

void StepIOGeneric::addInput(const TensorId &id, void *data, const TensorInfo &info) {
  inputs_[id] = makeBuffer(data, info);
}
void StepIOGeneric::addOutput(const TensorId &id, void *data, const TensorInfo &info) {
  outputs_[id] = makeBuffer(data, info);
}

SequentialBuffer *StepIOGeneric::inputBuffer(const TensorId &id) {
  auto it = inputs_.find(id);
  if (it == inputs_.end())
    throw runtime_error("StepIO: No tensor '{}' provided among the inputs. Inputs given are {}; add this one", id,
                        keys(inputs_));
  return &it->second;
}

SequentialBuffer *StepIOGeneric::outputBuffer(const TensorId &id) {
  auto it = outputs_.find(id);
  if (it == outputs_.end())
    throw runtime_error(
        "StepIO: No tensor '{}' provided among the outputs. Outputs given are {}; every anchor needs one", id,
        keys(outputs_));
  return &it->second;
}

ConstVoidData StepIOGeneric::in(TensorId id, int64_t numElements, bool, const bool) {
  SequentialBuffer *buffer = inputBuffer(id);
  const int64_t size = numElements * getDataTypeInfo(buffer->info.dataType()).nbytes;
  return ConstVoidData(buffer->next(size, id), TensorInfo(buffer->info.dataType(), {numElements}));
}

MutableVoidData StepIOGeneric::out(TensorId id, int64_t numElements) {
  SequentialBuffer *buffer = outputBuffer(id);
  const int64_t size = numElements * getDataTypeInfo(buffer->info.dataType()).nbytes;
  return MutableVoidData(buffer->next(size, id), TensorInfo(buffer->info.dataType(), {numElements}));
}

void StepIOGeneric::assertNumElements(const popx::Executablex &executable) const {
  for (const auto &[id, buffer] : inputs_) executable.checkInput(id, buffer.info.shape());
  for (const auto &[id, buffer] : outputs_) executable.checkOutput(id, buffer.info.shape());
}

StepIO::StepIO(std::map<TensorId, IArray &> inputs, std::map<TensorId, IArray &> outputs) {
  for (auto &[id, array] : inputs) addInput(id, array.data(), TensorInfo(array.dataType(), array.shape()));
  for (auto &[id, array] : outputs) addOutput(id, array.data(), TensorInfo(array.dataType(), array.shape()));
}

MutableVoidData WeightsIO::weight(TensorId id) const {
  auto it = weights_.find(id);
  if (it == weights_.end())
    throw runtime_error("WeightsIO: No tensor '{}' provided. Weights given are {}", id, keys(weights_));
  return it->second;
}

std::vector<TensorId> WeightsIO::ids() const {
  std::vector<TensorId> names;
  for (const auto &entry : weights_) names.push_back(entry.first);
  return names;
}

void WeightsIO::insert(TensorId id, MutableVoidData weight) {
  if (!weights_.emplace(id, weight).second)
    throw runtime_error("WeightsIO: there is a tensor '{}' already. Insert each weight once", id);
}

namespace popx {

namespace {

Shape behind(const Shape &leading, const Shape &shape) {
  Shape result;
  for (const int64_t d : leading)
    if (d != 1) result.push_back(d);
  result.insert(result.end(), shape.begin(), shape.end());
  return result;
}

int64_t elementsOf(const Shape &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

bool holdsInOrder(const Shape &got, const Shape &expected) {
  if (elementsOf(got) != elementsOf(expected)) return false;
  if (elementsOf(got) == 0) return true;
  auto next = expected.begin();
  for (const int64_t size : got) {
    int64_t joined = 1;
    while (joined < size) joined *= *next++;  // the products of all are equal
    if (joined != size) return false;
  }
  return true;
}

Shape Executablex::expectedInputShape(const Input &input) const {
  return behind({batchesPerStep, accumulationFactor, input.broadcast ? 1 : replicationFactor}, input.info.shape());
}

Shape Executablex::expectedOutputShape(const Output &output) const {
  switch (output.returned.id()) {
    case AnchorReturnTypeId::All:
      return behind({batchesPerStep, accumulationFactor, replicationFactor}, output.info.shape());
    case AnchorReturnTypeId::EveryN:
      return behind({batchesPerStep / output.returned.rp(), accumulationFactor, replicationFactor},
                    output.info.shape());
    default:
      return behind({replicationFactor}, output.info.shape());
  }
}

void Executablex::fillWholeShapes() {
  for (auto &[id, input] : inputs) input.whole = expectedInputShape(input);
  for (auto &[id, output] : outputs) output.whole = expectedOutputShape(output);
}

void Executablex::checkUnread(const TensorId &id) const {
  if (weights.count(id))
    throw runtime_error(
        "StepIO input '{}': it is a weight of the model, and no input of the compiled program: {}. Leave it out, and "
        "set its value with writeWeights or resetHostWeights",
        id,
        trains ? "training sessions keep weights on the device"
               : "the model does not list its initializer among the graph inputs");
  if (!modelInputs.count(id))
    throw runtime_error("StepIO input '{}': no such input stream{}", id,
                        nearestText(id, keys(inputs), "input streams"));
  if (warned_.insert(id).second)
    logging::session::warn("StepIO input '{}': the compiled program does not read it; the values given are not used",
                           id);
}

void Executablex::checkInput(const TensorId &id, const Shape &shape) const {
  auto it = inputs.find(id);
  if (it == inputs.end()) return checkUnread(id);
  const Shape &expected = it->second.whole;
  if (shape == expected) return;
  if (elementsOf(shape) != elementsOf(expected))
    throw runtime_error(
        "StepIO input '{}': unexpected number of elements: got {}, expected {} = tensor elements {} x replication "
        "factor {} x accumulation factor {} x batches per step {}. The array has shape {}, a step takes {}",
        id, elementsOf(shape), elementsOf(expected), it->second.info.nelms(),
        it->second.broadcast ? 1 : replicationFactor, accumulationFactor, batchesPerStep, shape, expected);
  if (!holdsInOrder(shape, expected))
    throw runtime_error(
        "StepIO input '{}': unexpected shape: got {}, expected {}: the tensor's shape {} with dimensions in front for "
        "batches per step {}, accumulation factor {} and replication factor {}. Reshape or transpose the array",
        id, shape, expected, it->second.info.shape(), batchesPerStep, accumulationFactor,
        it->second.broadcast ? 1 : replicationFactor);
}

void Executablex::checkOutput(const TensorId &id, const Shape &shape) const {
  auto it = outputs.find(id);
  if (it == outputs.end())
    throw runtime_error("StepIO output '{}': the tensor is not an anchor{}", id,
                        nearestText(id, keys(outputs), "anchors"));
  const Shape &expected = it->second.whole;
  if (shape == expected) return;
  if (elementsOf(shape) != elementsOf(expected))
    throw runtime_error(
        "StepIO output '{}': unexpected number of elements: got {}, expected {} for return type {} with tensor "
        "elements {}, replication factor {}, accumulation factor {}, batches per step {}. The array has shape {}, a "
        "step makes {}, as Session::initAnchorArrays does",
        id, elementsOf(shape), elementsOf(expected), toText(it->second.returned.id()), it->second.info.nelms(),
        replicationFactor, accumulationFactor, batchesPerStep, shape, expected);
  if (!holdsInOrder(shape, expected))
    throw runtime_error(
        "StepIO output '{}': unexpected shape: got {}, expected {} for return type {} of a tensor of shape {}, as "
        "Session::initAnchorArrays makes it. Give an array of that shape",
        id, shape, expected, toText(it->second.returned.id()), it->second.info.shape());
}

}  // namespace popx
}  // namespace popart
