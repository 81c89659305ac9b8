// IStepIO: where Session::run takes inputs from and puts anchors (docs/compat/sessions.md). A step asks for one
// micro-batch of one replica at a time: in / inComplete for inputs, out / outComplete for anchors.
#pragma once
#include <string>
#include <vector>

#include <popart/error.hpp>
#include <popart/names.hpp>
#include <popart/voiddata.hpp>

namespace popart {

namespace popx {
class Executablex;  // the sizes a compiled session expects; see StepIOSizes in src/api
}

// A whole host buffer that steps consume front to back, starting again at its front when its end is reached.
struct SequentialBuffer {
  char *data = nullptr;  // not owned
  TensorInfo info;       // of the whole buffer
  int64_t bytes = 0;     // size of the buffer
  int64_t position = 0;  // in bytes
  // Start of the next `size` bytes, and moves on. Throws popart::runtime_error when they would pass the buffer's end.
  char *next(int64_t size, const TensorId &id) {
    if (position + size > bytes)
      throw runtime_error(
          "StepIO tensor '{}': the buffer is too small: got {} bytes, {} of them left, expected {} more", id, bytes,
          bytes - position, size);
    char *start = data + position;
    position += size;
    if (position == bytes) position = 0;
    return start;
  }
};

// The contract between a session and the host's data. The thread that calls Session::run makes the calls.
class IStepIO {
 public:
  IStepIO();  // takes a new serial number
  IStepIO(const IStepIO &) = delete;
  IStepIO &operator=(const IStepIO &) = delete;
  virtual ~IStepIO() = default;
  // Values of the next micro-batch; the data stays valid until inComplete. `prefetch`: ahead of need; a null pointer
  // then says that they are not available yet, and they are asked for again without it when the program needs them.
  virtual ConstVoidData in(TensorId id, int64_t numElements, bool prefetch, const bool isBroadcast = false) = 0;
  // the step has read the data of the last in()
  virtual void inComplete(TensorId id, int64_t numElements, const bool isBroadcast = false) = 0;
  // Memory to write the next value of an anchor to.
  virtual MutableVoidData out(TensorId id, int64_t numElements) = 0;
  virtual void outComplete(TensorId) {}  // the value is written
  // Throws popart::runtime_error when a buffer has another number of elements than the step needs, or holds them in
  // another order (docs/compat/sessions.md). Called when a session meets the StepIO for the first time.
  virtual void assertNumElements(const popx::Executablex &) const {}

  void enableRuntimeAsserts(bool enable) { runtimeAsserts_ = enable; }
  bool runtimeAssertsEnabled() const { return runtimeAsserts_; }

  // The buffer behind a tensor, when there is one: then sessions use it directly instead of in() and out().
  // The pointer stays valid as long as the IStepIO.
  virtual SequentialBuffer *inputBuffer(const TensorId &) { return nullptr; }
  virtual SequentialBuffer *outputBuffer(const TensorId &) { return nullptr; }
  virtual size_t inputCount() const { return 0; }                       // arrays of inputs
  virtual bool providesInput(const TensorId &) const { return false; }  // whether one is the input's
  // Differs for every IStepIO of the process.
  uint64_t serial() const { return serial_; }

 private:
  bool runtimeAsserts_ = true;
  uint64_t serial_;
};

// Host arrays of weights by name, for Session::readWeights and writeWeights.
class IWeightsIO {
 public:
  virtual ~IWeightsIO() = default;
  virtual bool contains(TensorId id) const = 0;  // whether weight(id) gives one
  // Throws popart::runtime_error when there is none.
  virtual MutableVoidData weight(TensorId id) const = 0;
  // Whether weight(id) may only be read: then readWeights refuses it.
  virtual bool isReadOnly(TensorId) const { return false; }
  // Names that readWeights and writeWeights check against the session's variables; none: nothing is checked.
  virtual std::vector<TensorId> ids() const { return {}; }
};

}  // namespace popart
