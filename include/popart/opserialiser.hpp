// OpSerialiser: a user-written op reports its own members by name. An op overrides Op::appendAttributes (and
// appendOutlineAttributes, for members that determine whether two ops are equal) and calls os.appendAttribute("alpha",
// alpha_).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <popart/error.hpp>

namespace popart {

// The target of an op's appendAttributes.
class OpSerialiserBase {
 public:
  virtual ~OpSerialiserBase() = default;
  // Numbers, texts, Shapes and other types that toText takes; bools print as 0 and 1.
  template <class T>
  void appendAttribute(const std::string &name, const T &value) {
    append(name, textOf(value));
  }

 private:
  virtual void append(const std::string &name, std::string value) = 0;

  template <class T>
  static std::string textOf(const T &value) {
    if constexpr (std::is_enum_v<T>)
      return toText(static_cast<long long>(value));
    else if constexpr (std::is_arithmetic_v<T> && std::is_integral_v<T>)
      return toText(static_cast<long long>(value));
    else
      return toText(value);
  }
  template <class T>
  static std::string textOf(const std::optional<T> &value) {
    return value ? textOf(*value) : std::string("none");
  }
  template <class T>
  static std::string textOf(const std::vector<T> &values) {
    std::string text = "[";
    for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + textOf(static_cast<T>(values[i]));
    return text + "]";
  }
  template <class K, class V>
  static std::string textOf(const std::map<K, V> &values) {
    std::string text = "{";
    for (const auto &[key, value] : values) text += (text.size() > 1 ? ", " : "") + textOf(key) + ": " + textOf(value);
    return text + "}";
  }
};

// Collects the attributes in the order of the calls.
class OpSerialiser : public OpSerialiserBase {
 public:
  const std::vector<std::pair<std::string, std::string>> &attributes() const { return attributes_; }

 private:
  void append(const std::string &name, std::string value) override { attributes_.emplace_back(name, std::move(value)); }
  std::vector<std::pair<std::string, std::string>> attributes_;
};

}  // namespace popart
