// The exceptions of PopART. Three kinds: `error` (the user can fix it), `runtime_error` (device or data at run time),
// `internal_error` (a bug of the library). Messages have the form
//   <op or feature> '<debug name>': <what is wrong>: got <value>, expected <value>. <what to do>
// and are only built if something failed.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <popart/datatype.hpp>

namespace popart {

// The layer that threw an exception; this library's are popart and popart_internal.
enum class ErrorSource { popart = 0, popart_internal, poplar, poplibs, unknown };

// Text of a value for messages. Shapes print as "[2, 3]", types as "float32", strings as they are.
std::string toText(bool v);
std::string toText(int v);
std::string toText(unsigned v);
std::string toText(long v);
std::string toText(unsigned long v);
std::string toText(long long v);
std::string toText(unsigned long long v);
std::string toText(float v);  // shortest text that is parsed to the same value
std::string toText(double v);
std::string toText(DataType v);
std::string toText(const std::vector<int64_t> &v);
std::string toText(const std::vector<std::string> &v);
inline std::string toText(const std::string &v) { return v; }
inline std::string toText(std::string_view v) { return std::string(v); }
inline std::string toText(const char *v) { return v; }
template <class T>
requires requires(const T &v) { v.str(); }
std::string toText(const T &v) { return v.str(); }

// Replaces each "{}" by the next argument. Throws popart::error if the numbers differ.
std::string formatText(std::string_view format, std::initializer_list<std::string> args);

// A number by which a program distinguishes its own errors; 0 if it gives none.
enum class ErrorUid : uint64_t {};

// An error that the user can fix. Base of all exceptions of this library.
class error : public std::runtime_error {
 public:
  // The message: `format` with each "{}" replaced by toText() of the next argument; without arguments, `format` itself.
  template <class... Args>
  explicit error(std::string_view format, const Args &...args)
      : error(Text{}, sizeof...(Args) == 0 ? std::string(format) : formatText(format, {toText(args)...})) {}
  template <class... Args>
  error(ErrorUid uid, std::string_view format, const Args &...args) : error(format, args...) {
    uid_ = uid;
  }
  ~error() override = default;

  // The message. In PopART it is a stack trace, which this library does not record.
  const std::string &stackreport() const { return stackReport_; }
  ErrorUid uid() const { return uid_; }

 protected:
  struct Text {};
  error(Text, const std::string &message);

 private:
  std::string stackReport_;
  ErrorUid uid_{};
};

// A bug of the library: a rule of the IR or of a pass is violated.
class internal_error : public error {
 public:
  template <class... Args>
  explicit internal_error(std::string_view format, const Args &...args) : error(format, args...) {}  // as error()
  template <class... Args>
  internal_error(ErrorUid uid, std::string_view format, const Args &...args)
      : error(uid, format, args...) {}  // as error()
};

// Device or data at run time: the call is possible at another time, or with other arrays.
class runtime_error : public error {
 public:
  template <class... Args>
  explicit runtime_error(std::string_view format, const Args &...args) : error(format, args...) {}  // as error()
  template <class... Args>
  runtime_error(ErrorUid uid, std::string_view format, const Args &...args)
      : error(uid, format, args...) {}  // as error()
};

// The program does not fit the memory limit; thrown by prepareDevice. The message names the largest tensors and
// possible remedies, the report has the sums.
class memory_allocation_err : public error {
 public:
  memory_allocation_err(const std::string &message, std::string summaryReport)
      : error(Text{}, message), summaryReport_(std::move(summaryReport)) {}
  // A copy; the report; the path of a profile, which is always empty.
  virtual std::unique_ptr<memory_allocation_err> clone() const {
    return std::make_unique<memory_allocation_err>(*this);
  }
  virtual std::string getSummaryReport() const { return summaryReport_; }
  virtual std::string getProfilePath() const { return {}; }

 private:
  std::string summaryReport_;
};

// popart_internal for internal_error, popart for the library's other exceptions, unknown for all others.
ErrorSource getErrorSource(const std::exception &e);

// check(ok, "Gelu '{}': ...", name): throws popart::error with the formatted message if `ok` is false.
template <class... Args>
inline void check(bool ok, std::string_view format, const Args &...args) {
  if (!ok) [[unlikely]]
    throw error(format, args...);
}

}  // namespace popart
