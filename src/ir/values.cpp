// Values from text. Invariant: memory is allocated only after as many elements were seen in the text, or within a
// budget.
#include "ir/values.hpp"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include <popart/error.hpp>
#include <popart/half.hpp>

#include "base/small_types.hpp"
#include "ir/lexer.hpp"

namespace popart {
namespace {

template <class T>
T numberFromText(std::string_view text, int base = 10) {
  T value{};
  const char *end = text.data() + text.size();
  std::from_chars_result read;
  if constexpr (std::is_integral_v<T>) {
    read = std::from_chars(text.data(), end, value, base);
  } else {
    read = std::from_chars(text.data(), end, value);
  }
  check(read.ec != std::errc::result_out_of_range, "number '{}' is out of range", text);
  check(read.ec == std::errc() && read.ptr == end, "not a number: got '{}'", text);
  return value;
}

// "nan.7fc00000": a NaN with its bits.
template <class Bits>
bool bitsFromText(std::string_view text, Bits &bits) {
  if (text.substr(0, 4) != "nan.") return false;
  check(text.size() == 4 + 2 * sizeof(Bits), "NaN '{}': expected {} hexadecimal digits", text, 2 * sizeof(Bits));
  bits = numberFromText<Bits>(text.substr(4), 16);
  return true;
}

template <class Float, class Bits>
Float floatingFromText(std::string_view text) {
  Bits bits;
  return bitsFromText(text, bits) ? std::bit_cast<Float>(bits) : numberFromText<Float>(text);
}

template <class SixteenBit>
uint16_t sixteenBitsFromText(std::string_view text) {
  uint16_t bits;
  return bitsFromText(text, bits) ? bits : SixteenBit(numberFromText<float>(text)).bits();
}

template <class T>
void store(T value, char *to) {
  std::memcpy(to, &value, sizeof(T));
}

// Refuses a number that rounds beyond the largest one of the format, or is not an integer of its range.
uint8_t smallFromText(const SmallFormat &format, std::string_view text) {
  uint8_t code;
  if (format.isFloat && bitsFromText(text, code)) return code;
  const auto value = numberFromText<double>(text);
  code = smallCode(format, value, {.saturate = false, .exponent = SmallRounding::Exponent::Nearest});
  const double read = static_cast<double>(smallValues(format.type)[code]);
  check(format.isFloat ? std::isfinite(read) == std::isfinite(value) : read == value, "number '{}' is out of range",
        text);
  return code;
}

void storeElement(DataType type, std::string_view word, char *to) {
  if (const SmallFormat *format = smallFormat(type)) return store(smallFromText(*format, word), to);
  switch (type) {
    case DataType::BOOL: {
      const auto v = numberFromText<uint8_t>(word);
      check(v <= 1, "a bool is 0 or 1: got {}", word);
      return store(v, to);
    }
    case DataType::UINT8:
      return store(numberFromText<uint8_t>(word), to);
    case DataType::INT8:
      return store(numberFromText<int8_t>(word), to);
    case DataType::UINT16:
      return store(numberFromText<uint16_t>(word), to);
    case DataType::INT16:
      return store(numberFromText<int16_t>(word), to);
    case DataType::UINT32:
      return store(numberFromText<uint32_t>(word), to);
    case DataType::INT32:
      return store(numberFromText<int32_t>(word), to);
    case DataType::UINT64:
      return store(numberFromText<uint64_t>(word), to);
    case DataType::INT64:
      return store(numberFromText<int64_t>(word), to);
    case DataType::FLOAT:
      return store(floatFromText(word), to);
    case DataType::DOUBLE:
      return store(floatingFromText<double, uint64_t>(word), to);
    case DataType::FLOAT16:
      return store(sixteenBitsFromText<Half>(word), to);
    case DataType::BFLOAT16:
      return store(sixteenBitsFromText<BFloat16>(word), to);
    default:
      throw error("values of type {} are written as hex \"…\"", type);
  }
}

void checkHasElements(const TensorInfo &info) {
  check(info.getDataTypeInfo().nbytes > 0, "values of type {} cannot be given", info.dataType());
}

}  // namespace

float floatFromText(std::string_view text) { return floatingFromText<float, uint32_t>(text); }
int64_t intFromText(std::string_view text) { return numberFromText<int64_t>(text); }

TensorData valuesFromWords(const TensorInfo &info, const std::vector<std::string_view> &words) {
  checkHasElements(info);
  check(static_cast<int64_t>(words.size()) == info.nelms(), "wrong number of values for {}: got {}, expected {}", info,
        words.size(), info.nelms());
  TensorData data(info);
  const size_t size = static_cast<size_t>(info.getDataTypeInfo().nbytes);
  char *to = static_cast<char *>(data.mutableData());
  for (std::string_view word : words) storeElement(info.dataType(), word, to), to += size;
  return data;
}

TensorData valuesFilled(const TensorInfo &info, std::string_view word, int64_t byteBudget) {
  checkHasElements(info);
  check(info.nbytes() <= byteBudget,
        "equal values for {} exceed what one text may fill: {} bytes are left. Write them as hex \"…\"", info,
        byteBudget);
  char element[16] = {};
  storeElement(info.dataType(), word, element);
  TensorData data(info);
  const size_t size = static_cast<size_t>(info.getDataTypeInfo().nbytes);
  char *to = static_cast<char *>(data.mutableData());
  for (int64_t i = 0; i < info.nelms(); ++i, to += size) std::memcpy(to, element, size);
  return data;
}

TensorData valuesFromHex(const TensorInfo &info, std::string_view digits) {
  checkHasElements(info);
  check(digits.size() == static_cast<size_t>(info.nbytes()) * 2,
        "wrong number of hexadecimal digits for {}: got {}, expected {}", info, digits.size(), info.nbytes() * 2);
  TensorData data(info);
  auto *to = static_cast<unsigned char *>(data.mutableData());
  for (size_t i = 0; i < digits.size(); i += 2, ++to) {
    const int high = hexDigit(digits[i]), low = hexDigit(digits[i + 1]);
    check(high >= 0 && low >= 0, "hexadecimal digits expected: got '{}'", digits.substr(i, 2));
    *to = static_cast<unsigned char>(high * 16 + low);
    check(info.dataType() != DataType::BOOL || *to <= 1, "a bool is 0 or 1: got '{}'", digits.substr(i, 2));
  }
  return data;
}

}  // namespace popart
