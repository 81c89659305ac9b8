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
#include <utility>
#include <vector>

#include <popart/session.hpp>
#include <popart/stepio.hpp>
#include <popart/stepio_generic.hpp>

namespace popart {

// Values that a step reads: all micro-batches of the step, one after the other, in C order. The caller owns the memory,
// which must be valid until the step is done.
class InputValues {
 public:
  // From a vector, array or span of int8_t … uint64_t, float, double, bool or Half.
  template <std::ranges::contiguous_range Range>
  InputValues(const Range &values)
      : data_(std::ranges::data(values)),
        info_(getDataType<std::ranges::range_value_t<Range>>(), {static_cast<int64_t>(std::ranges::size(values))}) {}
  // The same with a shape, which sessions of open shapes (Session::setInputShapes) need if more than one dimension is
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

// Memory that a step writes: the values that the tensor's AnchorReturnType keeps, in C order. Otherwise as InputValues.
class OutputValues {
 public:
  // From a non-const vector, array or span.
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

// Values that a step reads and writes, by tensor name.
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
// empty: the only one, or the first one of a float type. It adds the inputs that it reads; the first one is called
// "labels".
LossObject namedLoss(const std::string &name, const TensorId &output = {});

// Settings of a Trainer, in addition to model and optimizer.
struct TrainingSpec {
  LossObject loss;                                  // from one of the functions above
  int batchesPerStep = 1;                           // micro-batches per step
  std::vector<TensorId> outputs = {};               // tensors that steps return: every step must get memory for them
  std::map<TensorId, TensorInfo> inputShapes = {};  // of inputs that the model leaves open
  SessionOptions options = {};                      // of the session
  std::shared_ptr<DeviceInfo> device = nullptr;     // null: the CPU
  // Micro-batches of an update, and copies of the program. The update is that of all samples: gradients are averaged,
  // or added if the loss is a sum. Trainer refuses a loss that adds sums to means, or that has class weights, and step
  // refuses labels of which parts ignore different numbers: their losses cannot be joined.
  int accumulation = 1, replicas = 1;
  std::optional<uint64_t> seed = {};  // of random numbers; none: another one each time
  // Names or patterns of the tensors that train (empty: as classified, see trainabletensor.hpp) and of those that do
  // not, in addition to those of `options`.
  std::vector<std::string> trainable = {}, frozen = {};
};

// A step of Trainer::fit.
struct StepReport {
  int epoch;       // from 0
  int64_t step;    // within the epoch, from 0
  int64_t update;  // steps so far, including this one
  float loss;      // mean over the step
};

// Trains a model. One thread at a time.
class Trainer {
 public:
  // `model`: name of a file or ModelProto bytes. Builds, compiles and loads. Throws as
  // TrainingSession::createFromOnnxModel, Session::prepareDevice and attachLoss.
  Trainer(const std::string &model, const TrainingSpec &spec, const Optimizer &optimizer);
  // Runs batchesPerStep updates of `accumulation` micro-batches on each replica; returns the mean of the
  // losses of the updates. Throws as Session::run, and popart::error for labels that cannot be joined (TrainingSpec).
  float step(const StepInputs &inputs, const StepOutputs &outputs = {});
  // Returns the inputs of a step, or nullopt if the epoch is over.
  using Batches = std::function<std::optional<StepInputs>(int epoch, int64_t step)>;
  // Runs a step for each batch of each epoch; returns the mean loss of the steps of each epoch. Calls `onStep` after
  // each step; training ends if it returns false. Only without outputs. Throws as step.
  std::vector<float> fit(int epochs, const Batches &batches,
                         const std::function<bool(const StepReport &)> &onStep = {});
  // The loss of one batch, and the outputs, with the current weights and without training. The program for it is
  // compiled at the first call and gets the weights by name. Throws as Session::run, and popart::error if the loss is
  // not part of the model (nllLoss, l1Loss).
  float evaluate(const StepInputs &inputs, const StepOutputs &outputs = {});
  // Sets the numbers of later steps, such as another learning rate. Throws as TrainingSession::updateOptimizerFromHost.
  void setOptimizer(const Optimizer &optimizer) { session_->updateOptimizerFromHost(&optimizer); }
  // Writes the model with its current weights as an ONNX file. Throws as Session::modelToHost.
  void save(const std::string &fileName, ModelForm form = ModelForm::Training);
  TrainingSession &session() { return *session_; }

 private:
  // Arguments with which evaluate() creates its session, and the session.
  struct Evaluation {
    std::string model;
    AnchorReturnTypeMap anchors;
    InputShapeInfo shapes;
    SessionOptions options;
    std::shared_ptr<DeviceInfo> device;
    bool hasLoss;  // whether the loss is a tensor of the model
    std::unique_ptr<InferenceSession> session;
  };
  void takeWeights();  // copies weights from session_ to evaluation_.session
  void requireSameCounts(const StepInputs &inputs) const;

  std::unique_ptr<TrainingSession> session_;
  TensorId loss_;
  int64_t batches_ = 1;  // micro-batches per step, of all replicas
  int64_t summed_ = 1;   // micro-batches whose losses are added: those of an update if the loss is a sum
  // Labels, and the class number that does not count, of means in the loss; empty if updates have one part.
  std::vector<std::pair<TensorId, int64_t>> ignored_;
  TensorData losses_;             // one for each micro-batch; empty before the first step
  std::optional<uint64_t> seed_;  // to be set after the program is loaded
  Evaluation evaluation_;
};

// Runs a model. One thread at a time.
class Predictor {
 public:
  // `outputs`: tensors to return, each completely. Throws as InferenceSession::createFromOnnxModel and
  // Session::prepareDevice. A null device: the CPU.
  Predictor(const std::string &model, const std::vector<TensorId> &outputs, const SessionOptions &options = {},
            std::shared_ptr<DeviceInfo> device = nullptr);
  // Runs one batch. Every output of the constructor must get memory. Throws as Session::run.
  void run(const StepInputs &inputs, const StepOutputs &outputs);
  InferenceSession &session() { return *session_; }

 private:
  std::unique_ptr<InferenceSession> session_;
};

}  // namespace popart
