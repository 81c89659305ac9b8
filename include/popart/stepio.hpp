// StepIO and StepIOCallback: host buffers, or callbacks, for Session::run; WeightsIO for readWeights and writeWeights
// (docs/compat/sessions.md).
#pragma once
#include <functional>
#include <map>

#include <popart/iarray.hpp>
#include <popart/stepio_generic.hpp>

namespace popart {

// Sizes: an input has all micro-batches of the step, an anchor the values that its AnchorReturnType keeps. The arrays
// must outlive the StepIO.
class StepIO : public StepIOGeneric {
 public:
  // Keeps pointers to the arrays' data; Session::run checks types and shapes.
  StepIO(std::map<TensorId, IArray &> inputs, std::map<TensorId, IArray &> outputs);
};

// Calls the program for each value: one call per micro-batch, from the thread that runs. Sizes are not checked.
class StepIOCallback : public IStepIO {
 public:
  using InputCallback = std::function<ConstVoidData(TensorId, bool)>;  // (id, is a prefetch)
  using InputCompleteCallback = std::function<void(TensorId)>;      // the values of the last input call have been read
  using OutputCallback = std::function<MutableVoidData(TensorId)>;  // memory for the next value
  using OutputCompleteCallback = std::function<void(TensorId)>;     // it has been written

  StepIOCallback(InputCallback inputCallback, InputCompleteCallback inputCompleteCallback,
                 OutputCallback outputCallback, OutputCompleteCallback outputCompleteCallback)
      : input_(std::move(inputCallback)),
        inputComplete_(std::move(inputCompleteCallback)),
        output_(std::move(outputCallback)),
        outputComplete_(std::move(outputCompleteCallback)) {}

  ConstVoidData in(TensorId id, int64_t, bool prefetch, const bool = false) override {
    return input_(std::move(id), prefetch);
  }
  void inComplete(TensorId id, int64_t, const bool = false) override { inputComplete_(std::move(id)); }
  MutableVoidData out(TensorId id, int64_t) override { return output_(std::move(id)); }
  void outComplete(TensorId id) override { outputComplete_(std::move(id)); }

 private:
  InputCallback input_;
  InputCompleteCallback inputComplete_;
  OutputCallback output_;
  OutputCompleteCallback outputComplete_;
};

// Arrays that the caller owns, by name of the weight.
class WeightsIO : public IWeightsIO {
 public:
  bool contains(TensorId id) const override { return weights_.count(id) != 0; }
  MutableVoidData weight(TensorId id) const override;
  std::vector<TensorId> ids() const override;
  // Throws popart::runtime_error if there already is a weight of that id.
  void insert(TensorId id, MutableVoidData weight);

 private:
  std::map<TensorId, MutableVoidData> weights_;
};

}  // namespace popart
