// RunContext: what a kernel knows about its run, and where it reports a value outside its domain.
//
// Kernels cannot throw. A kernel that finds an invalid index, label or divisor reports it, continues without accessing
// memory outside of its operands, and leaves an unspecified result. After each step the engine checks for reports, and
// ends the run with runtime_error if there are any. Without a report this check is the only cost.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include <popart/error.hpp>

namespace popart::executable {

class Collectives;

// What is wrong with a value.
enum class FailureKind : uint8_t {
  Index,             // of a gather or scatter: expected low to high
  Label,             // of a loss: expected low to high
  Offset,            // of a window: expected low to high
  DivisionByZero,    // of integers
  QuotientOverflow,  // the smallest integer divided by -1
  NotANumber,        // in a result whose operands had none
  Infinity,          // the same
  Log2Scale,         // of FLOAT8 values: expected low to high
  Abort,             // the program stops itself: the value of its condition
};

// An error that the device itself raises during a run; poplar_application_runtime_error in Python.
class application_error : public runtime_error {
  using runtime_error::runtime_error;
};

// A value outside its domain. Plain data, so that a report allocates nothing.
struct ValueFailure {
  FailureKind kind = FailureKind::Index;
  int32_t operand = 0;        // input of the kernel with the value
  int64_t position = 0;       // element of that input in C order; for arithmetic, element of the result
  int64_t value = 0;          // the value itself; QuotientOverflow: the dividend
  int64_t low = 0, high = 0;  // expected range, both ends included, for kinds that have one
  // Texts, alive as long as the kernel:
  const char *type = nullptr;     // of the operator, if a kernel computes several
  const char *subject = nullptr;  // the op that failed ("Log 'y'"), if a kernel checks the result of another op …
  const char *tensor = nullptr;   // … which is in this tensor
};

// One thread's view of a run. It is private to the thread, like scratch memory, so a report needs no lock.
class alignas(64) RunContext {
 public:
  // `failed` is shared by all threads of the run: set by the first report.
  explicit RunContext(std::atomic<bool> &failed, int replica = 0, Collectives *collectives = nullptr)
      : failed_(&failed), collectives_(collectives), replica_(replica) {}

  int replica() const noexcept { return replica_; }
  Collectives *collectives() const noexcept { return collectives_; }  // null: the run has one replica
  // Starts kernel `link` of several that run as one step; reports of earlier kernels take precedence.
  void enterLink(int link) noexcept { link_ = link; }

  // Keeps the report of the earliest link and, within a link, that of the smallest position. May be called any number
  // of times.
  void report(const ValueFailure &failure) noexcept;
  // A failure with a message: the exception of a user's kernel. The first one is kept.
  void reportText(const std::string &op, const char *what) noexcept;

  // Throws runtime_error with the message about a step (application_error for errors of the device itself).
  [[noreturn]] void raise(const std::string &step) const;
  bool hasFailure() const noexcept { return state_ != State::Good; }
  // Whether this context's failure precedes the other one's; both must have one.
  bool precedes(const RunContext &other) const noexcept;
  // The message about a step; `step` is its op's name: "Gather 'lookup'".
  std::string message(const std::string &step) const;
  void clear() noexcept;

 private:
  enum class State : uint8_t { Good, Value, Text };

  std::atomic<bool> *failed_;
  Collectives *collectives_;
  int replica_;
  int link_ = 0, failedLink_ = 0;
  State state_ = State::Good;
  ValueFailure first_;
  std::string text_;
};

}  // namespace popart::executable
