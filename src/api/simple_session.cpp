// Trainer and Predictor, implemented with sessions (see simple_session.hpp).
#include <popart/simple_session.hpp>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>

#include <popart/builder.hpp>
#include <popart/error.hpp>
#include <popart/losses.hpp>

#include <fmt/format.h>

#include "onnx/loss_join.hpp"

namespace popart {
namespace {

std::shared_ptr<DeviceInfo> deviceOrCpu(std::shared_ptr<DeviceInfo> device) {
  return device ? device : DeviceManager::createDeviceManager().createCpuDevice();
}

const std::string kNamed = "named:";  // prefix of the name in the type of a loss that attachLoss adds

// The model with the named loss added to it; `loss` then refers to that loss.
std::string withNamedLoss(const std::string &model, LossObject &loss) {
  const auto builder = Builder::createFromOnnxModel(model);
  loss = modelLoss(attachLoss(*builder, loss.type.substr(kNamed.size()), loss.inputs.at(0)).loss);
  return builder->getModelProto();
}

AnchorReturnTypeMap allOf(const std::vector<TensorId> &ids) {
  AnchorReturnTypeMap anchors;
  for (const TensorId &id : ids) anchors.emplace(id, AnchorReturnType("All"));
  return anchors;
}

// How the losses of the parts of an update join to that of all samples.
onnx::LossJoin joinOf(const std::string &model, const LossObject &loss, const TrainingSpec &spec) {
  if (spec.accumulation * spec.replicas <= 1 || !loss.type.empty()) return {};
  onnx::LossJoin join = onnx::lossJoin(onnx::Model::fromProtoOrFile(model), loss.output);
  const std::string got = fmt::format("Trainer: accumulation and replicas: got {} and {}, expected 1: the loss '{}'",
                                      spec.accumulation, spec.replicas, loss.output);
  check(join.kind != onnx::LossJoin::Kind::Mixed,
        "{} adds sums over samples to means or penalties, so the losses of micro-batches cannot be joined", got);
  for (const onnx::CountedMean &mean : join.counted)
    check(mean.weight.empty(), "{} has class weights, so the losses of micro-batches cannot be joined", got);
  return join;
}

// The numbers of labels that do not count, of one micro-batch after the other.
template <class T>
std::vector<int64_t> ignoredBy(const InputValues &labels, int64_t ignored, int64_t batches) {
  const auto size = static_cast<size_t>(labels.info().nelms() / batches);
  std::vector<int64_t> counts;
  const std::span<const T> all(static_cast<const T *>(labels.data()), size * static_cast<size_t>(batches));
  for (size_t start = 0; start < all.size(); start += size)
    counts.push_back(std::ranges::count(all.subspan(start, size), static_cast<T>(ignored)));
  return counts;
}

SessionOptions optionsOf(const TrainingSpec &spec, ReductionType reduction) {
  SessionOptions options = spec.options;
  if (spec.accumulation > 1 || spec.replicas > 1) options.accumulationAndReplicationReductionType = reduction;
  if (spec.accumulation > 1) {
    options.enableGradientAccumulation = true;
    options.accumulationFactor = spec.accumulation;
  }
  if (spec.replicas > 1) {
    options.enableReplicatedGraphs = true;
    options.replicatedGraphCount = spec.replicas;
  }
  std::ranges::copy(spec.trainable, std::back_inserter(options.trainableTensors));
  std::ranges::copy(spec.frozen, std::back_inserter(options.frozenTensors));
  return options;
}

class LossIO : public SpanIO {
 public:
  using SpanIO::SpanIO;
  void setLosses(const TensorId &loss, TensorData &values) { addOutput(loss, values.mutableData(), values.info()); }
};

float meanOf(const TensorData &losses) {
  const std::vector<double> values = losses.asDoubles();
  return static_cast<float>(std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()));
}

}  // namespace

SpanIO::SpanIO(const StepInputs &inputs, const StepOutputs &outputs) {
  // StepIOGeneric does not write to inputs
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

LossObject modelLoss(const TensorId &loss) { return {"", {}, loss}; }

LossObject namedLoss(const std::string &name, const TensorId &output) { return {kNamed + name, {output}, {}}; }

Trainer::Trainer(const std::string &source, const TrainingSpec &spec, const Optimizer &optimizer) : seed_(spec.seed) {
  LossObject loss = spec.loss;
  const std::string model = loss.type.starts_with(kNamed) ? withNamedLoss(source, loss) : source;
  loss_ = loss.output;
  check(!loss_.empty(), "Trainer: no loss: got an empty name. Use namedLoss, nllLoss, l1Loss or modelLoss");
  check(spec.accumulation >= 1 && spec.replicas >= 1,
        "Trainer: accumulation and replicas: got {} and {}, expected 1 or more", spec.accumulation, spec.replicas);
  std::vector<TensorId> returned = spec.outputs;
  returned.push_back(loss_);
  const DataFlow dataFlow(spec.batchesPerStep, allOf(returned));
  InputShapeInfo shapes;
  for (const auto &[id, info] : spec.inputShapes) shapes.add(id, info);
  auto device = deviceOrCpu(spec.device);
  const onnx::LossJoin join = joinOf(model, loss, spec);
  const bool isSum = join.kind == onnx::LossJoin::Kind::Sum;
  for (const onnx::CountedMean &mean : join.counted)
    if (mean.ignores) ignored_.emplace_back(mean.labels, mean.ignoreIndex);
  const SessionOptions options = optionsOf(spec, isSum ? ReductionType::Sum : ReductionType::Mean);
  const bool hasLoss = loss.type.empty();
  session_ = hasLoss ? TrainingSession::createFromOnnxModel(model, dataFlow, loss_, optimizer, device, shapes, options)
                     : TrainingSession::createFromOnnxModel(model, dataFlow, std::vector<LossObject>{loss}, optimizer,
                                                            device, shapes, options);
  session_->prepareDevice();
  session_->weightsFromHost();
  batches_ = spec.batchesPerStep * options.getAccumulationFactor() * options.getLocalReplicationFactor();
  if (isSum) summed_ = batches_ / spec.batchesPerStep;
  evaluation_ = {model, allOf(returned), shapes, spec.options, spec.device, hasLoss, nullptr};
}

void Trainer::requireSameCounts(const StepInputs &inputs) const {
  for (const auto &[labels, ignored] : ignored_) {
    const auto given = inputs.find(labels);
    if (given == inputs.end() || given->second.info().nelms() % batches_ != 0 || given->second.info().nelms() == 0)
      continue;
    const DataType type = given->second.info().dataType();
    const std::vector<int64_t> counts = type == DataType::INT64   ? ignoredBy<int64_t>(given->second, ignored, batches_)
                                        : type == DataType::INT32 ? ignoredBy<int32_t>(given->second, ignored, batches_)
                                                                  : std::vector<int64_t>{0};
    check(std::ranges::all_of(counts, [&](int64_t count) { return count == counts.front(); }),
          "Trainer: '{}': micro-batches ignore different numbers of labels: got {}, expected equal numbers, as their "
          "losses are averaged. Set accumulation and replicas to 1",
          labels, counts);
  }
}

float Trainer::step(const StepInputs &inputs, const StepOutputs &outputs) {
  requireSameCounts(inputs);
  LossIO io(inputs, outputs);
  session_->setInputShapes(io);
  if (seed_) session_->setRandomSeed(*std::exchange(seed_, std::nullopt));
  if (losses_.empty()) losses_ = TensorData(TensorInfo(session_->getInfo(loss_).dataType(), {batches_}));
  io.setLosses(loss_, losses_);
  session_->run(io);
  return meanOf(losses_) * static_cast<float>(summed_);
}

std::vector<float> Trainer::fit(int epochs, const Batches &batches,
                                const std::function<bool(const StepReport &)> &onStep) {
  std::vector<float> means;
  int64_t update = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    double sum = 0;
    int64_t step = 0;
    bool goesOn = true;
    while (goesOn) {
      const std::optional<StepInputs> inputs = batches(epoch, step);
      if (!inputs) break;
      const float loss = this->step(*inputs);
      sum += loss;
      goesOn = !onStep || onStep({epoch, step, ++update, loss});
      ++step;
    }
    check(step > 0, "Trainer: fit: epoch {} has no batches: got none, expected one or more", epoch);
    means.push_back(static_cast<float>(sum / static_cast<double>(step)));
    if (!goesOn) break;
  }
  return means;
}

void Trainer::takeWeights() {
  InferenceSession &to = *evaluation_.session;
  const std::vector<TensorId> known = session_->variableIds();
  std::map<TensorId, TensorData> values;
  for (const TensorId &id : to.variableIds())
    if (std::ranges::find(known, id) != known.end()) values.emplace(id, TensorData(to.hostWeights().at(id).info()));
  WeightsIO io;
  for (auto &[id, value] : values) io.insert(id, {value.mutableData(), value.info()});
  session_->weightsToHost();
  session_->readWeights(io);
  to.writeWeights(io);
  to.weightsFromHost();
}

float Trainer::evaluate(const StepInputs &inputs, const StepOutputs &outputs) {
  Evaluation &e = evaluation_;
  check(e.hasLoss,
        "Trainer: evaluate: the loss '{}' is not a tensor of the model. Add a loss to the model and name its tensor",
        loss_);
  if (!e.session) {
    e.options.constantWeights = false;
    e.session = InferenceSession::createFromOnnxModel(e.model, DataFlow(1, e.anchors), deviceOrCpu(e.device), e.shapes,
                                                      e.options);
    e.session->prepareDevice();
  }
  LossIO io(inputs, outputs);
  e.session->setInputShapes(io);
  takeWeights();
  TensorData loss(TensorInfo(e.session->getInfo(loss_).dataType(), {1}));
  io.setLosses(loss_, loss);
  e.session->run(io);
  return meanOf(loss);
}

void Trainer::save(const std::string &fileName, ModelForm form) { session_->modelToHost(fileName, form); }

Predictor::Predictor(const std::string &model, const std::vector<TensorId> &outputs, const SessionOptions &options,
                     std::shared_ptr<DeviceInfo> device)
    : session_(InferenceSession::createFromOnnxModel(model, DataFlow(1, allOf(outputs)), deviceOrCpu(std::move(device)),
                                                     InputShapeInfo(), options)) {
  session_->prepareDevice();
}

void Predictor::run(const StepInputs &inputs, const StepOutputs &outputs) { popart::run(*session_, inputs, outputs); }

}  // namespace popart
