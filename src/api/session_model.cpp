// Weights between a session and ONNX model files.
#include <set>

#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "api/session_impl.hpp"
#include "backends/ref/ref.hpp"
#include "base/nearest.hpp"
#include "onnx/inference_form.hpp"
#include "onnx/writer.hpp"

namespace popart {

void Session::resetHostWeights(const std::string &modelProtoOrFilename, const bool ignoreUnknown) {
  if (impl_->mode == Impl::Mode::Inference && impl_->options.constantWeights && impl_->model)
    throw runtime_error(
        "Session '{}': resetHostWeights on constant weights. Set SessionOptions::constantWeights to False",
        impl_->name);
  const onnx::Model other = onnx::Model::fromProtoOrFile(modelProtoOrFilename);
  std::map<TensorId, TensorData> values;
  const onnx::Initializers initializers(other);
  for (const TensorId &id : initializers.ids()) values[id] = initializers.value(id);
  if (impl_->trainable)
    for (const auto &[result, source] : impl_->trainable->separate)
      if (const auto found = values.find(source); found != values.end()) values.emplace(result, found->second);
  // Initializers that are constants of the program are not weights of the session.
  std::set<TensorId> own;
  if (impl_->model)
    for (const TensorId &id : onnx::Initializers(*impl_->model).ids()) own.insert(id);
  for (const auto &[id, value] : values) {
    auto host = impl_->hostWeights.find(id);
    if (host == impl_->hostWeights.end()) {
      if (!ignoreUnknown) impl_->checkConstant(id, value);
      if (ignoreUnknown || own.count(id) || (impl_->model && !isFloatingPoint(value.info().dataType()))) continue;
      std::vector<std::string> names;
      for (const auto &entry : impl_->hostWeights) names.push_back(entry.first);
      throw runtime_error(
          "resetHostWeights '{}': the session has no weight of that name. Pass "
          "ignoreWeightsInModelWithoutCorrespondingHostWeight=True to skip it{}",
          id, nearestText(id, names));
    }
    if (host->second.info() != value.info())
      throw runtime_error("resetHostWeights '{}': another type or shape than the session's: got {}, expected {}", id,
                          value.info(), host->second.info());
  }
  for (const auto &[id, value] : values)
    if (auto host = impl_->hostWeights.find(id); host != impl_->hostWeights.end()) host->second = value;
  impl_->weightsLoaded = false;
}

void Session::Impl::checkConstant(const TensorId &id, const TensorData &value) const {
  if (mode != Mode::Training || !model || !constantWeights.contains(id)) return;
  if (value == onnx::Initializers(*model).value(id)) return;
  throw runtime_error(
      "resetHostWeights '{}': does not train, so it is a constant of the session's program: got other values than the "
      "session's model has. Make a session of the new model, or name it in updatableNamedBuffers",
      id);
}

void Session::modelToHost(const std::string &fileName, const ModelForm form) {
  if (!impl_->model)
    throw runtime_error("Session '{}': modelToHost: the session was not made from an ONNX model", impl_->name);
  impl_->program.requireCompiled("modelToHost");
  impl_->requireUnchangedFiles();
  if (impl_->program.isLoaded()) {
    if (!impl_->job || !impl_->hasReadDevice) weightsToHost();  // in a job, one process may save what all have read
    for (const auto &[id, read] : impl_->streamBuffers) impl_->hostWeights.at(id) = read;
  }
  std::map<TensorId, TensorData> values;
  for (const auto &[id, host] : impl_->hostWeights)
    if (impl_->isModelVariable(id) && !impl_->staysOnDevice(id)) values[id] = host;
  if (form == ModelForm::Training)
    return onnx::writeModel(fileName, *impl_->model, values, impl_->movedPlaces, impl_->trainable.get());
  InferenceFormOptions options;
  options.losses.assign(impl_->losses.begin(), impl_->losses.end());
  std::map<TensorId, onnx::DataPlace> places;
  onnx::writeModel(
      fileName,
      onnx::inferenceForm(onnx::withValues(*impl_->model, values, impl_->trainable.get()), options, ref::evaluate), {},
      places);
}

void Session::updateExternallySavedTensorLocations(const std::string &fromLocation, const std::string &toLocation) {
  if (!impl_->model)
    throw runtime_error(
        "Session '{}': updateExternallySavedTensorLocations: the session was not made from an ONNX model", impl_->name);
  impl_->model = onnx::moveExternalData(*impl_->model, fromLocation, toLocation, impl_->movedPlaces);
}

}  // namespace popart
