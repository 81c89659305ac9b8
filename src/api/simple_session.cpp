// Trainer and Predictor over sessions (see simple_session.hpp).
#include <popart/simple_session.hpp>

#include <numeric>

#include <popart/error.hpp>

namespace popart {
namespace {

std::shared_ptr<DeviceInfo> deviceOrCpu(std::shared_ptr<DeviceInfo> device) {
  return device ? device : DeviceManager::createDeviceManager().createCpuDevice();
}

AnchorReturnTypeMap allOf(const std::vector<TensorId> &ids) {
  AnchorReturnTypeMap anchors;
  for (const TensorId &id : ids) anchors.emplace(id, AnchorReturnType("All"));
  return anchors;
}

}  // namespace

SpanIO::SpanIO(const StepInputs &inputs, const StepOutputs &outputs) {
  // StepIOGeneric reads inputs only
  for (const auto &[id, values] : inputs) addInput(id, const_cast<void *>(values.data()), values.info());
  for (const auto &[id, values] : outputs) addOutput(id, values.data(), values.info());
}

void run(Session &session, const StepInputs &inputs, const StepOutputs &outputs) {
  SpanIO io(inputs, outputs);
  session.run(io);
}

LossObject nllLoss(const TensorId &probabilities, const TensorId &labels) {
  return {"Nll", {probabilities, labels}, "loss", 1.0f, ReductionType::Mean};
}

LossObject l1Loss(const TensorId &values, float lambda) {
  return {"L1", {values}, "loss", lambda, ReductionType::Mean};
}

Trainer::Trainer(const std::string &model, const TrainingSpec &spec, const Optimizer &optimizer)
    : loss_(spec.loss.output) {
  check(!loss_.empty(), "Trainer: no loss: got an empty name. Use nllLoss or l1Loss, or name a tensor of the model");
  std::vector<TensorId> returned = spec.outputs;
  returned.push_back(loss_);
  const DataFlow dataFlow(spec.batchesPerStep, allOf(returned));
  InputShapeInfo shapes;
  for (const auto &[id, info] : spec.inputShapes) shapes.add(id, info);
  auto device = deviceOrCpu(spec.device);
  session_ = spec.loss.type.empty()
                 ? TrainingSession::createFromOnnxModel(model, dataFlow, loss_, optimizer, device, shapes, spec.options)
                 : TrainingSession::createFromOnnxModel(model, dataFlow, std::vector<LossObject>{spec.loss}, optimizer,
                                                        device, shapes, spec.options);
  session_->prepareDevice();
  session_->weightsFromHost();
  batches_ = spec.batchesPerStep * spec.options.getAccumulationFactor();
}

float Trainer::step(const StepInputs &inputs, const StepOutputs &outputs) {
  class LossIO : public SpanIO {
   public:
    LossIO(const StepInputs &in, const StepOutputs &out) : SpanIO(in, out) {}
    void setLosses(const TensorId &loss, TensorData &values) { addOutput(loss, values.mutableData(), values.info()); }
  } io(inputs, outputs);
  session_->setInputShapes(io);
  if (losses_.empty()) losses_ = TensorData(TensorInfo(session_->getInfo(loss_).dataType(), {batches_}));
  io.setLosses(loss_, losses_);
  session_->run(io);
  const std::vector<double> values = losses_.asDoubles();
  return static_cast<float>(std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()));
}

void Trainer::save(const std::string &fileName) { session_->modelToHost(fileName); }

Predictor::Predictor(const std::string &model, const std::vector<TensorId> &outputs, const SessionOptions &options,
                     std::shared_ptr<DeviceInfo> device)
    : session_(InferenceSession::createFromOnnxModel(model, DataFlow(1, allOf(outputs)), deviceOrCpu(std::move(device)),
                                                     InputShapeInfo(), options)) {
  session_->prepareDevice();
}

void Predictor::run(const StepInputs &inputs, const StepOutputs &outputs) { popart::run(*session_, inputs, outputs); }

}  // namespace popart
