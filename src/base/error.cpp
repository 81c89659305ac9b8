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

namespace {

// Bytes of the UTF-8 sequence at `at`; 0 if it is invalid.
size_t sequenceLength(const std::string &text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xc2 && lead < 0xe0 ? 2
                        : lead >= 0xe0 && lead < 0xf0 ? 3
                        : lead >= 0xf0 && lead < 0xf5 ? 4
                                                      : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[at + i]) & 0xc0) != 0x80) return 0;
  const auto second = length > 2 ? static_cast<unsigned char>(text[at + 1]) : 0;
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool outside = (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f);
  return overlong || outside ? 0 : length;
}

// Names in messages come from files; this makes one line of valid UTF-8 of any bytes.
std::string printable(const std::string &message) {
  std::string text;
  for (size_t at = 0; at < message.size();) {
    const size_t length = sequenceLength(message, at);
    const bool control =
        length == 1 && static_cast<unsigned char>(message[at]) < 0x20 && message[at] != '\n' && message[at] != '\t';
    if (length == 0 || control)
      text += '?';
    else
      text.append(message, at, length);
    at += length == 0 ? 1 : length;
  }
  return text;
}

}  // namespace

error::error(Text, const std::string &message) : std::runtime_error(printable(message)), stackReport_(what()) {}

ErrorSource getErrorSource(const std::exception &e) {
  if (dynamic_cast<const internal_error *>(&e)) return ErrorSource::popart_internal;
  if (dynamic_cast<const error *>(&e)) return ErrorSource::popart;
  return ErrorSource::unknown;
}

}  // namespace popart
