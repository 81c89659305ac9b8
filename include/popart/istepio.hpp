// IStepIO: the source of inputs and the target of anchors of Session::run (docs/compat/sessions.md). A step processes
// one micro-batch of one replica at a time: in / inComplete for inputs, out / outComplete for anchors.
#pragma once
#include <string>
#include <vector>

#include <popart/error.hpp>
#include <popart/names.hpp>
#include <popart/voiddata.hpp>

namespace popart {

namespace popx {
class Executablex;  // the sizes that a compiled session expects; see StepIOSizes in src/api
}

// A whole host buffer that steps read or write in order, starting again at its beginning after its end.
struct SequentialBuffer {
  char *data = nullptr;  // not owned
  TensorInfo info;       // of the whole buffer
  int64_t bytes = 0;     // size of the buffer
  int64_t position = 0;  // in bytes
  // Returns the start of the next `size` bytes, and advances. Throws popart::runtime_error if they would exceed the
  // buffer.
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

// The interface between a session and the host's data. Calls come from the thread that called Session::run.
class IStepIO {
 public:
  IStepIO();  // assigns a new serial number
  IStepIO(const IStepIO &) = delete;
  IStepIO &operator=(const IStepIO &) = delete;
  virtual ~IStepIO() = default;
  // Values of the next micro-batch; the data must be valid until inComplete. `prefetch`: the call is ahead of need. A
  // null pointer then means that they are not available yet; the program calls again without `prefetch` when it needs
  // them.
  virtual ConstVoidData in(TensorId id, int64_t numElements, bool prefetch, const bool isBroadcast = false) = 0;
  // the step has read the data of the last in()
  virtual void inComplete(TensorId id, int64_t numElements, const bool isBroadcast = false) = 0;
  // Memory for the next value of an anchor.
  virtual MutableVoidData out(TensorId id, int64_t numElements) = 0;
  virtual void outComplete(TensorId) {}  // the value is written
  // Throws popart::runtime_error if a buffer has another number of elements than the step needs, or has them in another
  // order (docs/compat/sessions.md). A session calls it when it uses the StepIO for the first time.
  virtual void assertNumElements(const popx::Executablex &) const {}

  void enableRuntimeAsserts(bool enable) { runtimeAsserts_ = enable; }
  bool runtimeAssertsEnabled() const { return runtimeAsserts_; }

  // The buffer of a tensor, if there is one: sessions then use it directly instead of in() and out(). The pointer must
  // be valid as long as the IStepIO.
  virtual SequentialBuffer *inputBuffer(const TensorId &) { return nullptr; }
  virtual SequentialBuffer *outputBuffer(const TensorId &) { return nullptr; }
  virtual size_t inputCount() const { return 0; }                       // number of input arrays
  virtual bool providesInput(const TensorId &) const { return false; }  // whether one of them is the input's
  // Unique among all IStepIOs of the process.
  uint64_t serial() const { return serial_; }

 private:
  bool runtimeAsserts_ = true;
  uint64_t serial_;
};

// Host arrays of weights by name, for Session::readWeights and writeWeights.
class IWeightsIO {
 public:
  virtual ~IWeightsIO() = default;
  virtual bool contains(TensorId id) const = 0;  // whether weight(id) returns one
  // Throws popart::runtime_error if there is none.
  virtual MutableVoidData weight(TensorId id) const = 0;
  // Whether weight(id) must not be written: readWeights then refuses it.
  virtual bool isReadOnly(TensorId) const { return false; }
  // Names that readWeights and writeWeights check against the session's variables; empty: no check.
  virtual std::vector<TensorId> ids() const { return {}; }
};

}  // namespace popart
