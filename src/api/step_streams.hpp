// StepStreams: supplies the engine's streams from an IStepIO, and checks sizes, wrap-around and element types (see
// docs/compat/sessions.md). The buffers of a StepIO are resolved once for each pair of session and StepIO; after that a
// stream costs one addition and one comparison.
#pragma once
#include <memory>
#include <vector>

#include <popart/istepio.hpp>

#include "api/stepio_sizes.hpp"
#include "executable/executable.hpp"
#include "runtime/engine.hpp"

namespace popart {

// Lives as long as the engine that it supplies.
class StepStreams : public runtime::StreamSource {
 public:
  explicit StepStreams(std::shared_ptr<const executable::Executable> executable);
  // From now on streams use `stepIO`. Throws runtime_error for missing tensors, element types that do not match, and
  // arrays that do not match `sizes`. A StepIO is checked only once, as its arrays stay the same.
  void connect(IStepIO &stepIO, const popx::Executablex &sizes);
  // Resets buffers to their state at connect(): values that a run took before it ended early count as not taken.
  void rewind();

  // Like runtime::StreamSource; throw runtime_error when a buffer is used up or a callback provides none.
  const void *input(int stream, int64_t bytes) override;
  const void *inputAhead(int stream, int64_t bytes) override;
  void inputDone(int stream) override;
  bool inputStays(int stream) const override { return inputs_[static_cast<size_t>(stream)].isUsedInPlace; }
  void *output(int stream, int64_t bytes) override;
  void outputDone(int stream) override;
  void *outputAhead(int stream, int64_t bytes) override;
  bool callsHost() const override { return calls_; }

 private:
  // The difference between the host's elements and the stream's.
  enum class Conversion : uint8_t { None, NarrowInt64, WidenInt32 };
  struct Stream {
    TensorId id;
    TensorInfo info;
    bool broadcast = false;
    SequentialBuffer *buffer = nullptr;  // null: request one from the IStepIO each time
    int64_t start = 0;                   // position in the buffer when the run began
    Conversion conversion = Conversion::None;
    std::vector<char> staging;
    MutableVoidData pending;  // an output whose staging buffer is copied when it is done
    bool warned = false;
    bool isUsedInPlace = false;  // the program works in the buffer itself
  };
  // Throws runtime_error unless an array of a callback holds a micro-batch in the right order.
  static void requireInOrder(const char *direction, const Stream &stream, const Shape &shape);
  static Conversion conversionFor(const char *direction, const TensorId &id, DataType host, DataType device);
  void bind(IStepIO &stepIO, const popx::Executablex &sizes);
  void chooseUsedInPlace();
  const void *convertInput(Stream &stream, const void *data, int64_t elements);
  const void *checkedInput(Stream &stream, const ConstVoidData &data, int64_t bytes);

  std::shared_ptr<const executable::Executable> executable_;
  std::vector<Stream> inputs_, outputs_;
  IStepIO *stepIO_ = nullptr;
  uint64_t serial_ = 0;
  bool calls_ = false;  // some stream has no buffer
};

}  // namespace popart
