// Shape inference for user operators without their own class (docs/custom-operators.md): builders and sessions call the
// function for each node of the operator. An op class with setup() does not need it.
//
//   static popart::RegisterShapeInferenceFunction cubeShapes(Cube, [](popart::ShapeInferenceContext &ctx) {
//     ctx.outInfo(0) = ctx.inInfo(0);
//   });
#pragma once
#include <functional>

#include <popart/op.hpp>

namespace popart {

// A node whose output infos are to be set: assign to outInfo(i).
class ShapeInferenceContext {
 public:
  explicit ShapeInferenceContext(Op &op) : op_(op) {}
  // Throw popart::error if the operand is absent.
  const TensorInfo &inInfo(int i) const { return op_.inInfo(i); }
  DataType inType(int i) const { return inInfo(i).dataType(); }
  const Shape &inShape(int i) const { return inInfo(i).shape(); }
  TensorInfo &outInfo(int i) { return op_.outInfo(i); }
  DataType outType(int i) const { return op_.outTensor(i)->info.dataType(); }
  const Shape &outShape(int i) const { return op_.outShape(i); }
  bool hasInput(int i) const { return op_.hasInput(i); }
  bool hasOutput(int i) const { return op_.hasOutput(i); }
  int getNumOutputs() const { return op_.outputCount(); }
  const Attributes &getAttributes() const { return op_.attributes(); }
  bool hasAttribute(const std::string &name) const { return op_.hasAttr(name); }
  // Attributes::Int, Float, … as in OpCreatorInfo; throws popart::error if absent.
  template <class T>
  T getAttribute(const std::string &name) const {
    return op_.attributes().getAttribute<T>(name);
  }
  template <class T>
  T getAttribute(const std::string &name, const T &whenAbsent) const {
    return op_.attributes().getAttribute<T>(name, whenAbsent);
  }

 private:
  Op &op_;
};

// Sets the info of every output. The call of the session or builder throws its exceptions.
using ShapeInferenceFunction = std::function<void(ShapeInferenceContext &)>;

// Throws popart::error if the operator already has such a function.
void registerShapeInference(const OperatorIdentifier &opid, ShapeInferenceFunction function);

// Registers at static initialisation.
class RegisterShapeInferenceFunction {
 public:
  // Throws popart::error as registerShapeInference
  RegisterShapeInferenceFunction(const OperatorIdentifier &opid, ShapeInferenceFunction function) {
    registerShapeInference(opid, std::move(function));
  }
};

// Copy the type (an unset output becomes a scalar), or the shape (keeping a type that is set). Throw popart::error if
// the input is absent.
inline void propagateElemTypeFromInputToOutput(ShapeInferenceContext &ctx, size_t input, size_t output) {
  TensorInfo &out = ctx.outInfo(static_cast<int>(output));
  out.set(ctx.inType(static_cast<int>(input)), out.isSet() ? out.shape() : Shape{});
}
inline void propagateShapeFromInputToOutput(ShapeInferenceContext &ctx, size_t input, size_t output) {
  TensorInfo &out = ctx.outInfo(static_cast<int>(output));
  const DataType type = out.isSet() ? out.dataType() : ctx.inType(static_cast<int>(input));
  out.set(type, ctx.inShape(static_cast<int>(input)));
}

}  // namespace popart
