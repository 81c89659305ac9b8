// Message formatting for the exception classes.
#include <popart/error.hpp>

#include <charconv>

namespace popart {
namespace {

template <class T>
std::string number(T v) {
  char buffer[64];
  auto [end, ec] = std::to_chars(buffer, buffer + sizeof buffer, v);
  return std::string(buffer, end);
}

template <class T>
std::string list(const std::vector<T> &v) {
  std::string text = "[";
  for (size_t i = 0; i < v.size(); ++i) text += (i ? ", " : "") + toText(v[i]);
  return text + "]";
}

}  // namespace

std::string toText(bool v) { return v ? "true" : "false"; }
std::string toText(int v) { return number(v); }
std::string toText(unsigned v) { return number(v); }
std::string toText(long v) { return number(v); }
std::string toText(unsigned long v) { return number(v); }
std::string toText(long long v) { return number(v); }
std::string toText(unsigned long long v) { return number(v); }
std::string toText(float v) { return number(v); }
std::string toText(double v) { return number(v); }
std::string toText(DataType v) { return getDataTypeInfo(v).lcase; }
std::string toText(const std::vector<int64_t> &v) { return list(v); }
std::string toText(const std::vector<std::string> &v) { return list(v); }

std::string formatText(std::string_view format, std::initializer_list<std::string> args) {
  std::string out;
  auto next = args.begin();
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '{' && i + 1 < format.size() && format[i + 1] == '}') {
      if (next == args.end()) throw error("bad message format (too few arguments): " + std::string(format));
      out += *next++;
      ++i;
    } else {
      out += format[i];
    }
  }
  if (next != args.end()) throw error("bad message format (too many arguments): " + std::string(format));
  return out;
}

error::error(Text, const std::string &message) : std::runtime_error(message), stackReport_(message) {}

ErrorSource getErrorSource(const std::exception &e) {
  if (dynamic_cast<const internal_error *>(&e)) return ErrorSource::popart_internal;
  if (dynamic_cast<const error *>(&e)) return ErrorSource::popart;
  return ErrorSource::unknown;
}

}  // namespace popart
