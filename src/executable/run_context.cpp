// Order and wording of failures at run time.
#include "executable/run_context.hpp"

#include <tuple>

#include <popart/error.hpp>

namespace popart::executable {
namespace {

using popart::toText;

std::string where(const ValueFailure &f) {
  return " at element " + toText(f.position) + " of input " + toText(f.operand);
}

std::string outOfRange(const ValueFailure &f, const char *what, const char *advice) {
  const std::string got = std::string(": ") + what + " is out of range: got " + toText(f.value) + where(f);
  if (f.high < f.low) return got + ", but no value is allowed: the axis is empty. " + advice;
  return got + ", expected " + toText(f.low) + " to " + toText(f.high) + ". " + advice;
}

std::string notFinite(const ValueFailure &f, const char *what) {
  return std::string(": its result '") + f.tensor + "' is not finite: got " + what + " at element " +
         toText(f.position) + ", and none in its operands, expected numbers. Look at the operands' range, or turn " +
         "enableFloatingPointChecks off";
}

std::string describe(const ValueFailure &f) {
  switch (f.kind) {
    case FailureKind::Index:
      return outOfRange(f, "an index", "Check the indices");
    case FailureKind::Label:
      return outOfRange(
          f, "a label",
          "Check the labels, give the one to leave out as the label to ignore, or set "
          "engineOptions[\"ignore_out_of_range_labels\"] to \"true\": then such a label has no loss and no "
          "gradient");
    case FailureKind::Offset:
      return outOfRange(f, "the start of a window", "The window must be inside the tensor; check the offset");
    case FailureKind::DivisionByZero:
      return ": an integer is divided by zero: got divisor 0 for element " + toText(f.position) +
             " of the result, expected another divisor. Check the divisor, or divide in a floating type";
    case FailureKind::QuotientOverflow:
      return ": the quotient does not fit its type: got " + toText(f.value) + " divided by -1 for element " +
             toText(f.position) + " of the result, expected at least " + toText(f.low) +
             " as dividend. Check the operands, or divide in a wider type";
    case FailureKind::NotANumber:
      return notFinite(f, "NaN");
    case FailureKind::Infinity:
      return notFinite(f, "an infinity");
    case FailureKind::Log2Scale:
      return ": the log2 scale is out of range: got " + toText(f.value) + ", expected " + toText(f.low) + " to " +
             toText(f.high) + ". Change it, or turn throwIfLog2ScaleTensorNotInRange off";
    case FailureKind::Abort:
      return f.operand < 0
                 ? ": the program stops here, as it was built to"
                 : std::string(
                       ": the program stops here because its condition is true. Look at the operators that compute it");
  }
  return "";
}

}  // namespace

void RunContext::report(const ValueFailure &failure) noexcept {
  const auto key = [](int link, const ValueFailure &f) { return std::tuple(link, f.position, f.operand); };
  if (state_ == State::Text || (state_ == State::Value && key(failedLink_, first_) <= key(link_, failure))) return;
  state_ = State::Value;
  first_ = failure;
  failedLink_ = link_;
  failed_->store(true, std::memory_order_relaxed);
}

void RunContext::reportText(const std::string &op, const char *what) noexcept {
  if (state_ != State::Good) return;
  state_ = State::Text;
  failedLink_ = link_;
  failed_->store(true, std::memory_order_relaxed);
  try {
    text_ = op + ": " + what;
  } catch (const std::exception &) {
    text_.clear();  // out of memory: the message is only the step's name
  }
}

bool RunContext::precedes(const RunContext &other) const noexcept {
  const auto key = [](const RunContext &c) {
    return std::tuple(c.failedLink_, c.state_ == State::Text ? 0 : c.first_.position, c.first_.operand);
  };
  return key(*this) < key(other);
}

std::string RunContext::message(const std::string &step) const {
  if (state_ == State::Text) return text_.empty() ? step + ": the kernel threw an exception" : text_;
  if (first_.subject) return first_.subject + describe(first_);
  const bool isAlone = !first_.type || step.rfind(std::string(first_.type) + " ", 0) == 0;
  return (isAlone ? step : std::string(first_.type) + " in " + step) + describe(first_);
}

void RunContext::raise(const std::string &step) const {
  const std::string text = message(step);
  const bool byDevice = first_.kind == FailureKind::Log2Scale || first_.kind == FailureKind::Abort;
  if (state_ == State::Value && byDevice) throw application_error("{}", text);
  throw runtime_error("{}", text);
}

void RunContext::clear() noexcept {
  state_ = State::Good;
  link_ = failedLink_ = 0;
  text_.clear();
}

}  // namespace popart::executable
