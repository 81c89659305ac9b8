// GraphTransformer, the inference form of a model, NumericsReport and outputTensors, implemented by the ONNX room.
#include <algorithm>
#include <cmath>

#include <popart/error.hpp>
#include <popart/graphtransformer.hpp>
#include <popart/numerics.hpp>

#include "api/model_outputs.hpp"
#include "backends/ref/ref.hpp"
#include "onnx/describe.hpp"
#include "onnx/inference_form.hpp"
#include "onnx/model_edits.hpp"
#include "onnx/training/trainable_tensors.hpp"
#include "onnx/writer.hpp"

namespace popart {

GraphTransformer::GraphTransformer(const std::string &modelProtoOrFilename)
    : editor_(std::make_unique<onnx::ModelEditor>(modelProtoOrFilename)) {}
GraphTransformer::~GraphTransformer() = default;

std::string GraphTransformer::getModelProto() const { return editor_->serialised(); }
void GraphTransformer::convertFloatsToHalfs() { editor_->convertElements(DataType::FLOAT, DataType::FLOAT16); }
void GraphTransformer::convertUINT8ToINT32() { editor_->convertElements(DataType::UINT8, DataType::INT32); }
void GraphTransformer::convertUINT16ToINT32() { editor_->convertElements(DataType::UINT16, DataType::INT32); }
void GraphTransformer::convertINT8ToINT32() { editor_->convertElements(DataType::INT8, DataType::INT32); }
void GraphTransformer::convertINT16ToINT32() { editor_->convertElements(DataType::INT16, DataType::INT32); }
void GraphTransformer::convertINT64ToINT32(bool clip) {
  editor_->convertElements(DataType::INT64, DataType::INT32, clip ? onnx::OutOfRange::Clip : onnx::OutOfRange::Refuse);
}
void GraphTransformer::convertDoublesToFloats() { editor_->convertElements(DataType::DOUBLE, DataType::FLOAT); }
void GraphTransformer::convertDoublesToHalfs() { editor_->convertElements(DataType::DOUBLE, DataType::FLOAT16); }
void GraphTransformer::convertBFloats16ToFloat32() { editor_->convertElements(DataType::BFLOAT16, DataType::FLOAT); }
void GraphTransformer::removeUnusedInputs() { editor_->removeUnusedInputs(); }
void GraphTransformer::prepareNodesForTraining() { editor_->prepareNodesForTraining(); }
void GraphTransformer::prepareNodesForInference() { editor_->prepareNodesForInference(); }
void GraphTransformer::convertInitializersToConstants(const std::vector<TensorId> &ids) {
  editor_->convertInitializersToConstants(ids);
}
void GraphTransformer::convertAllFixedPointInitializersToConstants() {
  editor_->convertAllFixedPointInitializersToConstants();
}
void GraphTransformer::declareInputs(const std::map<TensorId, std::vector<std::string>> &shapes) {
  editor_->declareInputs(shapes);
}
void GraphTransformer::saveInitializersExternally(const std::vector<TensorId> &ids, const std::string &fileName) {
  editor_->saveInitializersExternally(ids, fileName);
}

std::string inferenceForm(const std::string &modelProtoOrFilename, const InferenceFormOptions &options) {
  return onnx::bytesOf(onnx::inferenceForm(onnx::Model::fromProtoOrFile(modelProtoOrFilename), options, ref::evaluate));
}

void writeInferenceForm(const std::string &modelProtoOrFilename, const std::string &fileName,
                        const InferenceFormOptions &options) {
  std::map<TensorId, onnx::DataPlace> places;
  onnx::writeModel(fileName,
                   onnx::inferenceForm(onnx::Model::fromProtoOrFile(modelProtoOrFilename), options, ref::evaluate), {},
                   places);
}

std::map<std::string, onnx::OutputTensors> outputTensors(const std::string &modelProtoOrFilename,
                                                         const InputShapeInfo &inputShapeInfo, onnx::WeightRole weights,
                                                         const std::set<TensorId> &returned) {
  onnx::BuildOptions options;
  options.returned = returned;
  options.weights = weights;
  options.inputShapeInfo = inputShapeInfo.getInfos();
  options.evaluate = ref::evaluate;
  return onnx::outputTensors(onnx::Model::fromProtoOrFile(modelProtoOrFilename), options);
}

std::vector<TrainableTensor> trainableTensors(std::string_view modelProtoOrFilename,
                                              const std::vector<std::string> &trainable,
                                              const std::vector<std::string> &frozen) {
  return onnx::trainableTensors(onnx::Model::fromProtoOrFile(modelProtoOrFilename), {trainable, frozen}).tensors;
}

namespace numerics {
namespace {

// The values of one initializer in the four models.
std::vector<double> valuesOf(const onnx::Initializers &model, const TensorId &id, const TensorInfo &expected) {
  const TensorData data = model.value(id);
  check(data.info() == expected, "NumericsReport '{}': the models differ: got {} and {}", id, data.info(), expected);
  return data.asDoubles();
}

}  // namespace

NumericsReport::NumericsReport(const std::string &A0, const std::string &A1, const std::string &B0,
                               const std::string &B1) {
  const onnx::Model first = onnx::Model::fromProtoOrFile(A0);
  std::vector<onnx::Initializers> models{onnx::Initializers(first)};
  for (const std::string *source : {&A1, &B0, &B1}) models.emplace_back(onnx::Model::fromProtoOrFile(*source));
  for (const TensorId &id : first.initializerIds()) {
    const TensorInfo info = models[0].value(id).info();
    if (!isFloatingPoint(info.dataType())) continue;
    std::vector<std::vector<double>> values;
    for (const onnx::Initializers &model : models) values.push_back(valuesOf(model, id, info));
    Norms &norms = norms_[id];
    for (size_t i = 0; i < values[0].size(); ++i) {
      const double dA = values[1][i] - values[0][i], dB = values[3][i] - values[2][i];
      norms.a += dA * dA, norms.b += dB * dB, norms.difference += (dA - dB) * (dA - dB);
    }
  }
}

double NumericsReport::Norms::relativeError() const { return difference / (std::sqrt(a) * std::sqrt(b) + 1e-8); }

std::map<TensorId, float> NumericsReport::getRelativeErrors() const {
  std::map<TensorId, float> errors;
  for (const auto &[id, norms] : norms_) errors[id] = static_cast<float>(norms.relativeError());
  return errors;
}

std::string NumericsReport::report(const TensorId &id) const {
  const auto found = norms_.find(id);
  if (found == norms_.end()) throw error("NumericsReport: no floating-point initializer is called '{}'", id);
  const Norms &n = found->second;
  return formatText(
      "{}: |dA| = {}, |dB| = {}, |dA - dB| = {}, relative error = {}",
      {id, toText(std::sqrt(n.a)), toText(std::sqrt(n.b)), toText(std::sqrt(n.difference)), toText(n.relativeError())});
}

std::string NumericsReport::fullReport() const {
  std::vector<std::pair<double, TensorId>> order;
  for (const auto &[id, norms] : norms_) order.emplace_back(-norms.relativeError(), id);
  std::sort(order.begin(), order.end());
  std::string text;
  for (const auto &[ignored, id] : order) text += report(id) + "\n";
  return text;
}

}  // namespace numerics
std::string describeModel(const std::string &modelProtoOrFilename, const InputShapeInfo &shapes) {
  onnx::BuildOptions options;
  options.weights = onnx::WeightRole::Constant;
  options.inputShapeInfo = shapes.getInfos();
  options.evaluate = ref::evaluate;
  return onnx::describeModel(onnx::Model::fromProtoOrFile(modelProtoOrFilename), options);
}

}  // namespace popart
