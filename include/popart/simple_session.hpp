// Trainer and Predictor: a model file trained or run over vectors, arrays and spans, in a few lines:
//   Trainer trainer("model.onnx", {.loss = namedLoss("cross_entropy")}, optim::AdamW({.lr = 1e-3f}));
//   float loss = trainer.step({{"images", images}, {"labels", labels}});
//   trainer.save("trained.onnx");
// They stand on sessions, which stay reachable for everything else.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include <popart/session.hpp>
#include <popart/stepio.hpp>
#include <popart/stepio_generic.hpp>

namespace popart {

// Values that a step reads: every micro-batch of the step after the other, in C order. The memory is the caller's and
// must stay until the step is done.
class InputValues {
 public:
  // From a vector, array or span of int8_t … uint64_t, float, double, bool or Half.
  template <std::ranges::contiguous_range Range>
  InputValues(const Range &values)
      : data_(std::ranges::data(values)),
        info_(getDataType<std::ranges::range_value_t<Range>>(), {static_cast<int64_t>(std::ranges::size(values))}) {}
  // The same of a shape, which sessions of open shapes (Session::setInputShapes) need where more than one dimension is
  // open. Throws popart::error for another number of values.
  template <std::ranges::contiguous_range Range>
  InputValues(const Range &values, const Shape &shape) : InputValues(values) {
    const TensorInfo shaped(info_.dataType(), shape);
    if (shaped.nelms() != info_.nelms())
      throw error("InputValues: the shape does not fit the values: got {} for {} values", shaped, info_.nelms());
    info_ = shaped;
  }
  const void *data() const { return data_; }
  const TensorInfo &info() const { return info_; }  // rank 1 unless a shape was given

 private:
  const void *data_;
  TensorInfo info_;
};

// Memory that a step writes: what the tensor's AnchorReturnType keeps, in C order. As InputValues otherwise.
class OutputValues {
 public:
  // From a vector, array or span that is not const.
  template <std::ranges::contiguous_range Range>
  OutputValues(Range &&values)
      : data_(std::ranges::data(values)),
        info_(getDataType<std::ranges::range_value_t<Range>>(), {static_cast<int64_t>(std::ranges::size(values))}) {}
  void *data() const { return data_; }
  const TensorInfo &info() const { return info_; }  // rank 1

 private:
  void *data_;
  TensorInfo info_;
};

// What a step reads and writes, by tensor name.
using StepInputs = std::map<TensorId, InputValues>;
using StepOutputs = std::map<TensorId, OutputValues>;

// The values of one step for Session::run.
class SpanIO : public StepIOGeneric {
 public:
  // Keeps pointers to the values.
  SpanIO(const StepInputs &inputs, const StepOutputs &outputs);
};

// One step of a session. Throws as Session::run.
void run(Session &session, const StepInputs &inputs, const StepOutputs &outputs);

// Losses to add to a model, with the mean over their elements; the loss tensor is called "loss".
LossObject nllLoss(const TensorId &probabilities, const TensorId &labels);  // labels: INT32 class numbers
LossObject l1Loss(const TensorId &values, float lambda = 1.0f);             // lambda · |values|

LossObject modelLoss(const TensorId &loss);  // no loss to add: a tensor of the model
// A loss by name with its default settings (popart/losses.hpp), such as "cross_entropy", of an output of the model;
// none: the only one, or the first of a float type. It adds the inputs that it reads; the first is called "labels".
LossObject namedLoss(const std::string &name, const TensorId &output = {});

// What a Trainer needs beside model and optimizer.
struct TrainingSpec {
  LossObject loss;                                  // of one of the functions above
  int batchesPerStep = 1;                           // micro-batches per step
  std::vector<TensorId> outputs = {};               // tensors that steps return: every step needs memory for them
  std::map<TensorId, TensorInfo> inputShapes = {};  // of inputs that the model leaves open
  SessionOptions options = {};                      // of the session
  std::shared_ptr<DeviceInfo> device = nullptr;     // null: the CPU
  int accumulation = 1;                             // micro-batches of an update, over which gradients are averaged
  int replicas = 1;                                 // copies of the program; gradients are averaged over them too
  std::optional<uint64_t> seed = {};                // of random numbers; none: another one each time
  // Names or patterns of the tensors that train (empty: as classified, see trainabletensor.hpp) and of those that do
  // not, in addition to those of `options`.
  std::vector<std::string> trainable = {}, frozen = {};
};

// A step of Trainer::fit.
struct StepReport {
  int epoch;       // from 0 on
  int64_t step;    // of the epoch, from 0 on
  int64_t update;  // steps so far, this one included
  float loss;      // mean of the step
};

// Trains a model. One thread at a time.
class Trainer {
 public:
  // `model`: name of a file or ModelProto bytes. Builds, compiles and loads. Throws as
  // TrainingSession::createFromOnnxModel, Session::prepareDevice and attachLoss.
  Trainer(const std::string &model, const TrainingSpec &spec, const Optimizer &optimizer);
  // Works through batchesPerStep updates of `accumulation` micro-batches on each replica; returns the mean of their
  // losses. Throws as Session::run.
  float step(const StepInputs &inputs, const StepOutputs &outputs = {});
  // The inputs of a step; none: the epoch is over.
  using Batches = std::function<std::optional<StepInputs>(int epoch, int64_t step)>;
  // Steps through all batches of each epoch; returns the mean loss of the steps of each. `onStep` is told of each step
  // and ends the training by returning false. Only without outputs. Throws as step.
  std::vector<float> fit(int epochs, const Batches &batches,
                         const std::function<bool(const StepReport &)> &onStep = {});
  // The loss of one batch, and the outputs, with the weights as they are and no training. The program for it is
  // compiled at the first call and gets the weights by name. Throws as Session::run, and popart::error when the loss is
  // one that the model does not hold (nllLoss, l1Loss).
  float evaluate(const StepInputs &inputs, const StepOutputs &outputs = {});
  // From now on with these numbers, such as another learning rate. Throws as TrainingSession::updateOptimizerFromHost.
  void setOptimizer(const Optimizer &optimizer) { session_->updateOptimizerFromHost(&optimizer); }
  // The model with its weights as they are now, as an ONNX file. Throws as Session::modelToHost.
  void save(const std::string &fileName, ModelForm form = ModelForm::Training);
  TrainingSession &session() { return *session_; }

 private:
  // What evaluate needs to make its session, and the session.
  struct Evaluation {
    std::string model;
    AnchorReturnTypeMap anchors;
    InputShapeInfo shapes;
    SessionOptions options;
    std::shared_ptr<DeviceInfo> device;
    bool hasLoss;  // the loss is a tensor of the model
    std::unique_ptr<InferenceSession> session;
  };
  void takeWeights();  // from session_ into evaluation_.session

  std::unique_ptr<TrainingSession> session_;
  TensorId loss_;
  int64_t batches_ = 1;           // micro-batches per step, of all replicas
  TensorData losses_;             // one of each; empty before the first step
  std::optional<uint64_t> seed_;  // to be set once the program is loaded
  Evaluation evaluation_;
};

// Runs a model. One thread at a time.
class Predictor {
 public:
  // `outputs`: tensors to return, each whole. Throws as InferenceSession::createFromOnnxModel and
  // Session::prepareDevice. A null device: the CPU.
  Predictor(const std::string &model, const std::vector<TensorId> &outputs, const SessionOptions &options = {},
            std::shared_ptr<DeviceInfo> device = nullptr);
  // One batch. Every output named to the constructor needs memory. Throws as Session::run.
  void run(const StepInputs &inputs, const StepOutputs &outputs);
  InferenceSession &session() { return *session_; }

 private:
  std::unique_ptr<InferenceSession> session_;
};

}  // namespace popart
