// See open_shapes.hpp.
#include "api/open_shapes.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "base/environment.hpp"
#include "lower/stochastic_rounding.hpp"

namespace popart {
namespace {

using Input = onnx::Model::Input;

int64_t elementsOf(std::span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// The shape as the model declares it: "[batch, 8]".
std::string declaredShape(const Input &input) {
  if (!input.hasShape) return "any shape";
  std::vector<std::string> dimensions;
  for (const auto &[size, symbol] : input.shape)
    dimensions.push_back(size >= 0 ? std::to_string(size) : symbol.empty() ? "?" : symbol);
  return toText(dimensions);
}

}  // namespace

int maxShapePrograms(const SessionOptions &options) {
  const auto given = options.engineOptions.find("max_shape_programs");
  if (given == options.engineOptions.end()) return 0;
  return environment::parsePositive(given->second, "engineOptions: max_shape_programs");
}

Session::OpenShapes::OpenShapes(std::string session, const SessionOptions &options, const onnx::Model &model,
                                const DataFlow &dataFlow, const InputShapeInfo &given)
    : name_(std::move(session)),
      most_(maxShapePrograms(options)),
      given_(given),
      inputs_(model.inputs()),
      batches_(int64_t{dataFlow.batchesPerStep()} * options.getAccumulationFactor()),
      replicas_(options.getLocalReplicationFactor()) {
  Symbols known;
  for (const Input &input : inputs_)
    if (given.has(input.id) && given.get(input.id).rank() == static_cast<int64_t>(input.shape.size()))
      for (size_t i = 0; i < input.shape.size(); ++i)
        if (!input.shape[i].second.empty()) known.emplace(input.shape[i].second, given.get(input.id).shape()[i]);
  std::erase_if(inputs_, [&](const Input &input) {
    const auto isKnown = [&](const auto &d) { return d.first >= 0 || known.contains(d.second); };
    return given.has(input.id) || (input.hasShape && std::ranges::all_of(input.shape, isKnown));
  });
  for (const auto &[id, settings] : model.inputSettings())
    if (settings.replicatedStreamMode() == ReplicatedStreamMode::Broadcast) broadcast_.insert(id);
}

bool Session::OpenShapes::anyOpen() const { return most_ > 0 && !inputs_.empty(); }

void Session::OpenShapes::takeWeights(const onnx::Model &model) {
  if (!anyOpen()) inputs_.clear();  // the shapes are fixed
  weights_ = model.inputsWithValues();
  most_ = std::max(most_, 2);  // one program with them and one without
}

bool Session::OpenShapes::mayDiffer(const IStepIO &stepIO, const Program &current) const {
  if (!inputs_.empty()) return true;
  return settled_ != stepIO.serial() && stepIO.inputCount() != current->sizes.inputs.size();
}

bool Session::OpenShapes::prepare(bool loadEngine, const Program &current) {
  prepared = true;
  loads_ = loadEngine;
  others_.clear();
  return !current.get();
}

void Session::OpenShapes::setDevice(std::shared_ptr<DeviceInfo> deviceInfo) {
  device_ = std::move(deviceInfo);
  others_.clear();
}

Session::OpenShapes::Symbols Session::OpenShapes::symbolsOf(const Key &shapes) const {
  Symbols symbols;
  for (const Input &input : inputs_) {
    const auto entry = shapes.find(input.id);
    if (entry == shapes.end() || !input.hasShape) continue;
    check(entry->second.rank() == static_cast<int64_t>(input.shape.size()),
          "Session '{}': input '{}': wrong number of dimensions: got {}, expected {}", name_, input.id, entry->second,
          declaredShape(input));
    for (size_t i = 0; i < input.shape.size(); ++i)
      if (!input.shape[i].second.empty()) symbols.emplace(input.shape[i].second, entry->second.shape()[i]);
  }
  return symbols;
}

Session::OpenShapes::Key Session::OpenShapes::resolve(const InputShapeInfo &shapes) const {
  Key key;
  for (const Input &input : inputs_)
    if (shapes.has(input.id)) {
      const TensorInfo &info = shapes.get(input.id);
      const DataType type = input.type == DataType::UNDEFINED ? info.dataType() : input.type;
      key.emplace(input.id, TensorInfo(type, info.shape()));
    }
  const Symbols symbols = symbolsOf(key);
  std::vector<TensorId> ids;
  for (const auto &entry : key) ids.push_back(entry.first);
  for (const Input &input : inputs_) {
    if (key.contains(input.id)) continue;
    Shape shape;
    for (const auto &[size, symbol] : input.shape) {
      const auto known = symbols.find(symbol);
      check(
          size >= 0 || known != symbols.end(),
          "Session '{}': setInputShapes: the shape of input '{}' is missing: got shapes of {}, and the model declares "
          "{}. Add its shape",
          name_, input.id, ids, declaredShape(input));
      shape.push_back(size >= 0 ? size : known->second);
    }
    check(input.hasShape && input.type != DataType::UNDEFINED,
          "Session '{}': setInputShapes: the type and shape of input '{}' are missing, and the model does not declare "
          "them. Add them",
          name_, input.id);
    key.emplace(input.id, TensorInfo(input.type, shape));
  }
  for (const Input &weight : weights_)
    if (shapes.has(weight.id)) key.emplace(weight.id, shapes.get(weight.id));
  return key;
}

Session::OpenShapes::Key Session::OpenShapes::resolve(IStepIO &stepIO) const {
  Key key;
  for (const Input &input : inputs_) {
    const SequentialBuffer *array = stepIO.inputBuffer(input.id);
    if (const auto inUse = current_.find(input.id); !array && inUse != current_.end()) {
      key.insert(*inUse);
      continue;
    }
    check(array != nullptr,
          "Session '{}': input '{}': its shape is not known: the step IO calls back and has no array for it. Call "
          "setInputShapes before run",
          name_, input.id);
    key.emplace(input.id, infoOf(input, *array));
  }
  for (const Input &weight : weights_)
    if (stepIO.providesInput(weight.id)) key.emplace(weight.id, infoOf(weight, *stepIO.inputBuffer(weight.id)));
  return key;
}

TensorInfo Session::OpenShapes::infoOf(const Input &input, const SequentialBuffer &array) const {
  const DataType type = input.type == DataType::UNDEFINED ? array.info.dataType() : input.type;
  return {type, shapeOf(input, array.info.shape())};
}

// `array` without its leading dimensions for micro-batches: either these dimensions, or a multiple of the micro-batch's
// first dimension.
Shape Session::OpenShapes::shapeOf(const Input &input, const Shape &array) const {
  if (!input.isOpen()) {
    Shape shape;
    for (const auto &dimension : input.shape) shape.push_back(dimension.first);
    return shape;
  }
  const int64_t values = batches_ * (broadcast_.contains(input.id) ? 1 : replicas_);
  const size_t rank = input.hasShape ? input.shape.size() : array.size();
  if (array.size() == 1 && rank != 1) {  // a flat array
    int64_t known = values, open = 0;
    for (const auto &dimension : input.shape) dimension.first < 0 ? ++open : known *= dimension.first;
    if (open == 1 && known > 0 && array[0] % known == 0) {
      Shape shape;
      for (const auto &dimension : input.shape)
        shape.push_back(dimension.first < 0 ? array[0] / known : dimension.first);
      return shape;
    }
  }
  if (array.size() >= rank) {
    const std::span<const int64_t> whole(array);
    const size_t leading = array.size() - rank;
    if (elementsOf(whole.first(leading)) == values) return {array.begin() + static_cast<int64_t>(leading), array.end()};
    if (leading == 0 && rank > 0 && array[0] % values == 0) {
      Shape shape = array;
      shape[0] /= values;
      return shape;
    }
    if (!input.hasShape)
      for (size_t i = 1; i <= array.size(); ++i)
        if (elementsOf(whole.first(i)) == values) return {array.begin() + static_cast<int64_t>(i), array.end()};
  }
  throw error(
      "Session '{}': input '{}': the array's shape does not say that of a micro-batch: got {} for {} of them, and the "
      "model declares {}. Give an array of shape [{}, *micro-batch], or call setInputShapes",
      name_, input.id, array, values, declaredShape(input), values);
}

std::unique_ptr<Session::Impl> Session::OpenShapes::take(const Key &shapes) {
  for (auto kept = others_.begin(); kept != others_.end(); ++kept) {
    if (kept->shapes != shapes) continue;
    std::unique_ptr<Impl> program = std::move(kept->program);
    others_.erase(kept);
    return program;
  }
  return nullptr;
}

std::unique_ptr<Session::Impl> Session::OpenShapes::makeFor(const Key &shapes, const Impl *current) const {
  InputShapeInfo infos = given_;
  for (const auto &[id, info] : shapes) infos.add(id, info);
  std::set<TensorId> fed;
  for (const Input &weight : weights_)
    if (shapes.contains(weight.id)) fed.insert(weight.id);
  std::unique_ptr<Impl> made = make(infos, fed, device_);
  if (current) made->job = current->job;
  if (!prepared) return made;
  if (current && current->program.isCompiled()) made->otherPrograms.push_back(current->program.executable());
  for (const Kept &kept : others_)
    if (kept.program->program.isCompiled()) made->otherPrograms.push_back(kept.program->program.executable());
  made->compile();
  made->otherPrograms.clear();
  return made;
}

void Session::OpenShapes::use(const Key &shapes, Program &current, Session &session) {
  if (current.get() && shapes == current_) return;
  settled_ = 0;
  std::unique_ptr<Impl> next = take(shapes);
  if (!next) next = makeFor(shapes, current.get());
  if (prepared && loads_ && next->options.compileEngine && !next->program.isLoaded()) next->load();
  const bool isFirst = !current.get();
  if (!isFirst) {
    next->takeStateOf(*current);
    others_.push_front({current_, std::unique_ptr<Impl>(current.release())});
    while (static_cast<int>(others_.size()) >= most_) others_.pop_back();
  }
  current = Program(std::move(next));
  current_ = shapes;
  if (isFirst && sendsWeights) session.weightsFromHost();
}

void Session::Impl::takeStateOf(Impl &from) {
  model = from.model;  // with the data files of its weights
  if (from.optimizer) optimizer = from.optimizer->clone();
  seed = from.seed;
  rngState = from.rngState;
  for (auto &[id, values] : hostWeights)
    if (const auto known = from.hostWeights.find(id); known != from.hostWeights.end()) values = known->second;
  streamBuffers = from.streamBuffers;
  allReplicas = from.allReplicas;
  hostWeightsInSync = from.hostWeightsInSync;
  hasReadDevice = from.hasReadDevice;
  if (!from.program.isLoaded()) return;
  if (!program.isLoaded()) load();
  if (const int state = from.program.findVariable(lower::kRngState); state >= 0)
    from.program.readVariable(state, rngState.data());
  writeRngState();
  for (const auto &entry : hostWeights)
    if (const int source = from.program.findVariable(entry.first); source >= 0)
      if (const int target = program.findVariable(entry.first); target >= 0)
        writeToDevice(target, from.deviceValues(source));
  weightsLoaded = from.weightsLoaded;
  hostWeightsInSync = from.hostWeightsInSync;
  hasReadDevice = from.hasReadDevice;
  if (from.hasWeights) from.program.unload();
}

// ---- of Session ---------------------------------------------------------------------------------

Session::Program::Program(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Program::~Program() = default;
Session::Program::Program(Program &&) noexcept = default;
Session::Program &Session::Program::operator=(Program &&) noexcept = default;
Session::Impl *Session::Program::release() { return impl_.release(); }

void Session::Program::throwNone() {
  throw runtime_error(
      "Session: the model leaves dimensions of its inputs open, and no shapes are known yet. Call setInputShapes, or "
      "run "
      "once");
}

bool Session::hasOpenShapes() const { return open_ && open_->anyOpen(); }

void Session::setInputShapes(const InputShapeInfo &shapes) {
  if (open_) open_->use(open_->resolve(shapes), impl_, *this);
}

void Session::setInputShapes(IStepIO &stepIO) {
  if (!open_ || !open_->mayDiffer(stepIO, impl_)) return;
  open_->use(open_->resolve(stepIO), impl_, *this);
  open_->settle(stepIO);
}

}  // namespace popart
