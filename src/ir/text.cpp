// Writes names, values and attributes. Invariant: a text written with PrintData::Full is read back to the same
// bytes.
#include "ir/text.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <popart/half.hpp>

#include "base/hash.hpp"
#include "base/small_types.hpp"

namespace popart {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";
constexpr int64_t kListLimit = 64;     // longer values are written as hexadecimal bytes
constexpr int64_t kSummaryLimit = 16;  // longer values are written as a hash in summaries

std::string hexNumber(uint64_t value, int digits) {
  std::string text(digits, '0');
  for (int i = digits; i-- > 0; value >>= 4) text[i] = kHexDigits[value & 15];
  return text;
}

template <class T>
T elementAt(const TensorData &data, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data.data()) + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

std::string doubleText(double value) {
  return std::isnan(value) ? "nan." + hexNumber(std::bit_cast<uint64_t>(value), 16) : toText(value);
}

template <class T>
std::string sixteenBitText(const TensorData &data, int64_t i) {
  const uint16_t bits = elementAt<uint16_t>(data, i);
  const float value = T::fromBits(bits);
  return std::isnan(value) ? "nan." + hexNumber(bits, 4) : toText(value);
}

// Whether bits outside of a code are set; printing as numbers would lose them.
bool hasStrayBits(const TensorData &data) {
  const SmallFormat *format = smallFormat(data.info().dataType());
  if (!format || format->bits == 8) return false;
  const auto *bytes = static_cast<const uint8_t *>(data.data());
  return std::any_of(bytes, bytes + data.nbytes(), [&](uint8_t byte) { return byte >> format->bits != 0; });
}

std::string smallText(const SmallFormat &format, uint8_t byte) {
  const float value = smallValues(format.type)[byte];
  return std::isnan(value) ? "nan." + hexNumber(byte, 2) : toText(value);
}

std::string elementText(const TensorData &data, int64_t i) {
  if (const SmallFormat *format = smallFormat(data.info().dataType()))
    return smallText(*format, elementAt<uint8_t>(data, i));
  switch (data.info().dataType()) {
    case DataType::BOOL:
    case DataType::UINT8:
      return toText(static_cast<unsigned>(elementAt<uint8_t>(data, i)));
    case DataType::INT8:
      return toText(static_cast<int>(elementAt<int8_t>(data, i)));
    case DataType::UINT16:
      return toText(static_cast<unsigned>(elementAt<uint16_t>(data, i)));
    case DataType::INT16:
      return toText(static_cast<int>(elementAt<int16_t>(data, i)));
    case DataType::INT32:
      return toText(elementAt<int32_t>(data, i));
    case DataType::UINT32:
      return toText(elementAt<uint32_t>(data, i));
    case DataType::INT64:
      return toText(elementAt<int64_t>(data, i));
    case DataType::UINT64:
      return toText(elementAt<uint64_t>(data, i));
    case DataType::FLOAT:
      return floatText(elementAt<float>(data, i));
    case DataType::DOUBLE:
      return doubleText(elementAt<double>(data, i));
    case DataType::FLOAT16:
      return sixteenBitText<Half>(data, i);
    case DataType::BFLOAT16:
      return sixteenBitText<BFloat16>(data, i);
    default:
      throw internal_error("IR text: elements of type {} have no text", data.info().dataType());
  }
}

bool hasElementText(DataType type) { return typeBit(type) & (kAllTypes | kSmallTypes); }

bool allEqual(const TensorData &data) {
  const size_t size = static_cast<size_t>(data.info().getDataTypeInfo().nbytes),
               bytes = static_cast<size_t>(data.nbytes());
  const char *p = static_cast<const char *>(data.data());
  return bytes >= size && std::memcmp(p, p + size, bytes - size) == 0;
}

std::string hexBytes(const TensorData &data) {
  const auto *p = static_cast<const unsigned char *>(data.data());
  std::string text(static_cast<size_t>(data.nbytes()) * 2, '0');
  for (size_t i = 0; i < text.size(); i += 2, ++p) text[i] = kHexDigits[*p >> 4], text[i + 1] = kHexDigits[*p & 15];
  return text;
}

template <class List, class Write>
std::string listText(const List &list, Write write) {
  std::string text = "[";
  for (size_t i = 0; i < list.size(); ++i) text += (i ? ", " : "") + write(list[i]);
  return text + "]";
}

struct AttributeWriter {
  PrintData print;
  std::string operator()(int64_t v) const { return toText(v); }
  std::string operator()(float v) const { return floatText(v) + "f"; }
  std::string operator()(const std::string &v) const { return quotedText(v); }
  std::string operator()(const std::vector<int64_t> &v) const { return toText(v); }
  std::string operator()(const std::vector<float> &v) const { return "f" + listText(v, floatText); }
  std::string operator()(const std::vector<std::string> &v) const { return "s" + listText(v, quotedText); }
  std::string operator()(const TensorData &v) const {
    return "tensor " + (v.info().isSet() ? infoText(v.info()) : "none") +
           (v.empty() ? "" : " = " + valuesText(v, print));
  }
  std::string operator()(const GraphRef &v) const { return nameText('@', v.id); }
};

}  // namespace

std::string floatText(float value) {
  return std::isnan(value) ? "nan." + hexNumber(std::bit_cast<uint32_t>(value), 8) : toText(value);
}

bool isPlainName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), isNameCharacter) &&
         name.find("//") == std::string_view::npos;
}

bool isPlainWord(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), isWordCharacter);
}

std::string quotedText(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (byte < 0x20 || byte >= 0x7f) {
      result += "\\x" + hexNumber(byte, 2);
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string nameText(char sigil, std::string_view name) {
  return sigil + (isPlainName(name) ? std::string(name) : quotedText(name));
}

std::string infoText(const TensorInfo &info) {
  const std::string text = toText(info.dataType()) + toText(info.shape());
  return info.metaShape().empty() ? text : text + " of " + toText(info.metaShape());
}

uint64_t contentHash(const TensorData &data) { return hashOfBytes(data.data(), static_cast<size_t>(data.nbytes())); }

std::string valuesText(const TensorData &data, PrintData print, const ValueNumbers *numbers) {
  const int64_t count = data.info().nelms();
  if (count == 0) return "[]";
  const bool text = hasElementText(data.info().dataType()) && !hasStrayBits(data);
  if (text && allEqual(data)) return elementText(data, 0);
  if (print == PrintData::Summary && count > kSummaryLimit) {
    const auto found = numbers ? numbers->find({data.data(), data.nbytes()}) : ValueNumbers::const_iterator();
    return "hash " + hexNumber(numbers && found != numbers->end() ? found->second : contentHash(data), 16);
  }
  if (!text || count > kListLimit) return "hex \"" + hexBytes(data) + "\"";
  std::string list = "[";
  for (int64_t i = 0; i < count; ++i) list += (i ? ", " : "") + elementText(data, i);
  return list + "]";
}

std::string attributeText(const AttributeValue &value, PrintData print) {
  return std::visit(AttributeWriter{print}, value);
}

std::string attributesText(const Attributes &attributes, PrintData print) {
  std::string text;
  for (const auto &[name, value] : attributes.entries())
    text += (text.empty() ? "" : ", ") + (isPlainWord(name) ? name : quotedText(name)) + " = " +
            attributeText(value, print);
  return text;
}

}  // namespace popart
