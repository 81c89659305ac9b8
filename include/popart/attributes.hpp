// Attributes of an op: a small ordered list of (name, value). The names, types and defaults of an op's attributes are
// declared once, in its OpDef; equality, hashing, printing, parsing, ONNX import and builder keyword arguments all use
// this list.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <popart/error.hpp>
#include <popart/names.hpp>
#include <popart/tensordata.hpp>

namespace popart {

// A subgraph that an attribute refers to (body of Loop, branches of If, callee of Call).
struct GraphRef {
  GraphId id;  // of a graph in the same Ir
  bool operator==(const GraphRef &) const = default;
};

// The value types of ONNX attributes; integers are 64 bit, floats 32 bit.
using AttributeValue = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                                    std::vector<std::string>, TensorData, GraphRef>;

// Same order as AttributeValue's alternatives.
enum class AttributeType { Int, Float, String, Ints, Floats, Strings, Tensor, Graph };

// The list itself: at most one value per name, sorted by name.
class Attributes {
 public:
  // The names PopART's custom-op code uses as template arguments of getAttribute.
  using Int = int64_t;
  using Float = float;
  using String = std::string;
  using Ints = std::vector<int64_t>;
  using Floats = std::vector<float>;
  using Strings = std::vector<std::string>;
  using Graph = GraphRef;
  using Entry = std::pair<std::string, AttributeValue>;

  Attributes() = default;
  Attributes(std::initializer_list<Entry> entries) {  // the last of two entries of one name counts
    for (auto &e : entries) set(e.first, e.second);
  }

  const AttributeValue *find(std::string_view name) const;  // null if absent; valid until the next set or erase
  bool hasAttribute(std::string_view name) const { return find(name) != nullptr; }
  void set(std::string_view name, AttributeValue value);  // inserts or replaces; entries stay sorted by name
  void erase(std::string_view name);                      // no effect if it is absent
  const std::vector<Entry> &entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }

  // Throws popart::error if the attribute is absent (first form) or has another type.
  template <class T>
  const T &getAttribute(std::string_view name) const {
    const AttributeValue *v = find(name);
    if (!v) throw error("attribute '{}' is missing", name);
    const T *typed = std::get_if<T>(v);
    if (!typed) throw error("attribute '{}' has another type than the one asked for", name);
    return *typed;
  }
  template <class T>
  T getAttribute(std::string_view name, const T &fallback) const {
    return hasAttribute(name) ? getAttribute<T>(name) : fallback;
  }

  bool operator==(const Attributes &) const = default;

 private:
  std::vector<Entry> entries_;
};

}  // namespace popart
