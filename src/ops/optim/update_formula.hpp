// UpdateFormula: for writing the decomposition of an optimizer row as in a textbook. It computes in float32 (in float64
// for float64 and integer variables) for all element types of the operands; the result is cast to the variable's type.
#pragma once
#include <optional>

#include <popart/graph.hpp>

#include "ops/expression.hpp"
#include "ops/rules.hpp"

namespace popart::ops {

// `value` if the op's input "due" is absent or true; if it is false, the old value of the operand that output `output`
// changes. `value` for an output that changes no operand.
TensorIndex whereDue(DecomposeBuilder &b, int output, TensorIndex value);

class UpdateFormula {
 public:
  // A scalar parameter: a known number, or a tensor.
  struct Factor {
    std::optional<double> number;
    std::optional<Expression> tensor;
    bool isNumber(double value) const { return number && *number == value; }
  };

  explicit UpdateFormula(DecomposeBuilder &b) : b_(b) {
    const DataType type = b.outInfo(0).dataType();
    arithmetic_ = type == DataType::DOUBLE || isInteger(type) ? DataType::DOUBLE : DataType::FLOAT;
  }

  // Operand `input` in the arithmetic type.
  Expression operand(int input) { return {b_, cast(b_.in(input), arithmetic_)}; }
  // The tensor of input `input` as a rank-0 value, otherwise the attribute `name`, otherwise `fallback`.
  Factor factor(int input, const char *name, double fallback = 0.0) {
    if (b_.hasIn(input) && b_.graph().tensor(b_.in(input)).tensorType() == TensorType::Const)
      return {b_.graph().tensor(b_.in(input)).tensorData().asDoubles()[0], std::nullopt};
    if (b_.hasIn(input)) return {std::nullopt, Expression(b_, emitReshape(b_, cast(b_.in(input), arithmetic_), {}))};
    return {b_.attrs().hasAttribute(name) ? b_.attrs().getAttribute<float>(name) : fallback, std::nullopt};
  }
  Expression value(const Factor &f) { return f.tensor ? *f.tensor : Expression(b_, b_.scalar(arithmetic_, *f.number)); }
  // f · x; x itself when f is known to be 1.
  Expression times(const Factor &f, Expression x) { return f.isNumber(1) ? x : x * value(f); }
  // 1 - f
  Factor complement(const Factor &f) {
    if (f.number) return {1.0 - *f.number, std::nullopt};
    return {std::nullopt, 1.0 - *f.tensor};
  }
  void result(Expression e, int output = 0) {
    const TensorInfo &info = b_.outInfo(output);
    b_.result(output, whereDue(b_, output, emitReshape(b_, cast(e, info.dataType()), info.shape())));
  }

 private:
  TensorIndex cast(TensorIndex t, DataType to) {
    return b_.info(t).dataType() == to ? t : b_.emit("Cast", {t}, {{"to", int64_t{toOnnxDataType(to)}}});
  }

  DecomposeBuilder &b_;
  DataType arithmetic_;
};

}  // namespace popart::ops
