// Cast: conversion of the element type. Floats become integers by truncation toward zero, anything becomes BOOL by "is
// not 0".
#include "ops/catalog.hpp"
#include "ops/rules.hpp"

namespace popart::ops {

OpDefs castOps() {
  auto infer = [](InferContext &c) {
    const DataType to = typeOfAttribute(c, "to");
    c.require((typeBit(to) & kAllTypes) != 0, "there is no cast to this type: got {}, expected a number or bool type",
              to);
    c.out(0, to, c.shape(0));
  };
  OpDef cast = OpDef("ai.onnx", "Cast", {6, 9, 13, 19, 21, 23, 24, 25})
                   .input("x", kAllTypes)
                   .output("y")
                   .attrRequired("to", AttributeType::Int)
                   .attrOptional("saturate", AttributeType::Int)
                   .attrOptional("round_mode", AttributeType::String)
                   .infer(infer)
                   .traits(Trait::Elementwise | Trait::Conversion)
                   .identityIf(always)
                   .vjp([](VjpBuilder &b) {
                     const DataType from = b.inInfo(0).dataType();
                     if (!isFloatingPoint(from) || !isFloatingPoint(b.outInfo(0).dataType())) return;
                     b.grad(0, b.emit("CastGrad", {b.gradOut(0)}, {{"to", int64_t{toOnnxDataType(from)}}}));
                   })
                   .doc(
                       "Converts elements to the type with ONNX number `to`; saturate and round_mode concern 8-bit "
                       "floats only.");
  OpDef grad = OpDef("ai.graphcore", "CastGrad", {1})
                   .input("grad", kFloats)
                   .output("dx")
                   .attrRequired("to", AttributeType::Int)
                   .infer(infer)
                   .traits(Trait::Elementwise | Trait::Gradient)
                   .notOnnx()
                   .decompose([](DecomposeBuilder &b) {
                     b.result(0, b.emit("Cast", {b.in(0)}, {{"to", b.attrs().getAttribute<int64_t>("to")}}));
                   })
                   .doc("Gradient of Cast: cast back.");
  OpDef bits = OpDef("ai.onnx", "BitCast", {26})
                   .input("x", kAllTypes)
                   .output("y")
                   .attrRequired("to", AttributeType::Int)
                   .infer([](InferContext &c) {
                     const DataType to = typeOfAttribute(c, "to");
                     c.require((typeBit(to) & kNumeric) != 0,
                               "bits cannot be read as this type: got {}, expected a number type", to);
                     c.require(getDataTypeInfo(to).nbytes == getDataTypeInfo(c.type(0)).nbytes,
                               "the types differ in size: got {} to {}", c.type(0), to);
                     c.out(0, to, c.shape(0));
                   })
                   .traits(Trait::Conversion)
                   .identityIf(always)
                   .cost(movesData())
                   .stopsGrad()
                   .doc("The bits of each element read as an element of another type of the same size.");
  return {cast, grad, bits};
}

}  // namespace popart::ops
