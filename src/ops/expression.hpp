// Expression: for writing the element-wise formulas of gradients and decompositions as in a textbook:
//   Expression g(b, b.in(0)), y(b, b.in(1));  b.result(0, g * (1.0 - y * y));
// Each operator emits one op of the catalog; numbers become scalar constants of the operand's element type.
#pragma once
#include <popart/opdef.hpp>

namespace popart::ops {

class Expression {
 public:
  Expression(OpEmitter &emitter, TensorIndex tensor) : emitter_(&emitter), tensor_(tensor) {}
  operator TensorIndex() const { return tensor_; }

  OpEmitter &emitter() const { return *emitter_; }
  Expression number(double value) const { return {*emitter_, emitter_->scalar(type(), value)}; }
  Expression apply(std::string_view op, Attributes attributes = {}) const {
    return {*emitter_, emitter_->emit(op, {tensor_}, std::move(attributes))};
  }
  Expression apply(std::string_view op, Expression other, Attributes attributes = {}) const {
    return {*emitter_, emitter_->emit(op, {tensor_, other.tensor_}, std::move(attributes))};
  }
  DataType type() const { return emitter_->info(tensor_).dataType(); }

 private:
  OpEmitter *emitter_;
  TensorIndex tensor_;
};

inline Expression operator+(Expression a, Expression b) { return a.apply("Add", b); }
inline Expression operator-(Expression a, Expression b) { return a.apply("Sub", b); }
inline Expression operator*(Expression a, Expression b) { return a.apply("Mul", b); }
inline Expression operator/(Expression a, Expression b) { return a.apply("Div", b); }
inline Expression operator+(Expression a, double b) { return a + a.number(b); }
inline Expression operator-(Expression a, double b) { return a - a.number(b); }
inline Expression operator*(Expression a, double b) { return a * a.number(b); }
inline Expression operator/(Expression a, double b) { return a / a.number(b); }
inline Expression operator+(double a, Expression b) { return b.number(a) + b; }
inline Expression operator-(double a, Expression b) { return b.number(a) - b; }
inline Expression operator*(double a, Expression b) { return b.number(a) * b; }
inline Expression operator/(double a, Expression b) { return b.number(a) / b; }
inline Expression operator-(Expression a) { return a.apply("Neg"); }
inline Expression operator<(Expression a, double b) { return a.apply("Less", a.number(b)); }
inline Expression operator>(Expression a, double b) { return a.apply("Greater", a.number(b)); }
inline Expression operator>=(Expression a, double b) { return a.apply("GreaterOrEqual", a.number(b)); }
inline Expression operator<=(Expression a, double b) { return a.apply("LessOrEqual", a.number(b)); }
inline Expression operator&&(Expression a, Expression b) { return a.apply("And", b); }
inline Expression exp(Expression a) { return a.apply("Exp"); }
inline Expression sqrt(Expression a) { return a.apply("Sqrt"); }
inline Expression sigmoid(Expression a) { return a.apply("Sigmoid"); }
inline Expression tanh(Expression a) { return a.apply("Tanh"); }
inline Expression cast(Expression a, DataType type) {
  return a.type() == type ? a : a.apply("Cast", {{"to", int64_t{toOnnxDataType(type)}}});
}
inline Expression select(Expression condition, Expression yes, Expression no) {
  OpEmitter &e = condition.emitter();
  return {e, e.emit("Where", {condition, yes, no})};
}

}  // namespace popart::ops
