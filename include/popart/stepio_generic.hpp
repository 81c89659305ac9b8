// StepIOGeneric: an IStepIO over one buffer per tensor; StepIO (C++) and PyStepIO (Python) fill it.
#pragma once
#include <map>

#include <popart/istepio.hpp>

namespace popart {

// Does not own the buffers; each is read or written from its start to its end (SequentialBuffer).
class StepIOGeneric : public IStepIO {
 public:
  // Throw popart::runtime_error ("No tensor … provided") for an unknown id.
  ConstVoidData in(TensorId id, int64_t numElements, bool prefetch, const bool isBroadcast = false) override;
  void inComplete(TensorId, int64_t, const bool = false) override {}
  MutableVoidData out(TensorId id, int64_t numElements) override;
  void assertNumElements(const popx::Executablex &executable) const override;
  SequentialBuffer *inputBuffer(const TensorId &id) override;
  SequentialBuffer *outputBuffer(const TensorId &id) override;
  size_t inputCount() const override { return inputs_.size(); }
  bool providesInput(const TensorId &id) const override { return inputs_.contains(id); }

 protected:
  void addInput(const TensorId &id, void *data, const TensorInfo &info);
  void addOutput(const TensorId &id, void *data, const TensorInfo &info);

 private:
  std::map<TensorId, SequentialBuffer> inputs_, outputs_;
};

}  // namespace popart
