// The reference backend: readable kernels in plain loops. They define what each op means; every other backend is tested
// against them. Accumulation is in double for floating types (float64 exact path for gradient checks), in int64 for
// integers.
#pragma once
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "executable/host_kernel.hpp"

namespace popart::ref {

// One operand of a reference kernel: plain, C order.
struct View {
  TensorInfo info;
  void *data = nullptr;  // null: not connected
  bool connected() const { return data != nullptr; }
  template <class T>
  T *as() const {
    return static_cast<T *>(data);
  }
  const Shape &shape() const { return info.shape(); }
  int64_t size() const { return info.nelms(); }
};

// What a kernel needs of its op when it runs, as values, so that it needs no graph.
struct OpValues {
  explicit OpValues(const Op &op) : type(op.def().base().type()), title(op.name()), attributes(op.attributes()) {}
  std::string type;   // of the row: "Gelu"
  std::string title;  // debug name
  Attributes attributes;
  // These throw popart::error when the attribute is absent or has another type.
  int64_t attrInt(std::string_view name) const { return attributes.getAttribute<int64_t>(name); }
  float attrFloat(std::string_view name) const { return attributes.getAttribute<float>(name); }
  const std::string &attrString(std::string_view name) const { return attributes.getAttribute<std::string>(name); }
  const std::vector<int64_t> &attrInts(std::string_view name) const {
    return attributes.getAttribute<std::vector<int64_t>>(name);
  }
  bool hasAttr(std::string_view name) const { return attributes.hasAttribute(name); }
};

struct Context {
  const OpValues &op;
  std::span<const View> in;  // read only
  std::span<const View> out;
  executable::RunContext &run;
  bool hasIn(int i) const { return i < static_cast<int>(in.size()) && in[i].connected(); }
  bool hasOut(int i) const { return i < static_cast<int>(out.size()) && out[i].connected(); }
  // Reports a value outside its domain: element `position` of input `operand`, in the arithmetic of the result. See
  // ValueFailure.
  void report(executable::FailureKind kind, int operand, int64_t position, int64_t value, int64_t low,
              int64_t high) const noexcept {
    run.report({kind, operand, position, value, low, high});
  }
};

using RefFn = void (*)(const Context &);
struct Entry {
  const char *type;  // base op type: "Gelu"
  RefFn fn;
};

// Each family file defines one table: std::span<const Entry> mathKernels(); … and is listed in ref.cpp.
const executable::Backend &backend();
// Runs one op on host values, for constant folding. Throws popart::error if there is no reference kernel or a value is
// outside its domain.
std::vector<TensorData> evaluate(const Op &op, const std::vector<TensorData> &inputs);

// Calls f(T{}) with the C++ type of `type`: float, double, Half, BFloat16, (u)int8…64, bool.
template <class F>
void dispatchAll(DataType type, F &&f);
template <class F>
void dispatchFloat(DataType type, F &&f);  // throws internal_error for other types
template <class F>
void dispatchNumeric(DataType type, F &&f);
// Type for intermediate values: double for floating types, int64_t for integers, uint64_t for unsigned ones.
template <class T>
struct Accumulator;

}  // namespace popart::ref

#include "backends/ref/dispatch.hpp"
