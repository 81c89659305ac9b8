// Cast: conversion of the element type. Floats become integers by truncation toward zero; a number becomes true as BOOL
// if it is not 0.
#include "ops/math/cast.hpp"

#include <popart/error.hpp>
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

constexpr TypeSet kCastTypes = kAllTypes | kSmallTypes;

void castGradient(VjpBuilder &b) {
  const DataType from = b.inInfo(0).dataType(), to = b.outInfo(0).dataType();
  if (!isFloatingPoint(from) || !isFloatingPoint(to)) return;
  check(!isSmall(from) && !isSmall(to),
        "Cast '{}': values of type {} have no gradient: got a cast from {} to {}. Detach its input", b.op().debugName(),
        isSmall(to) ? to : from, from, to);
  b.grad(0, b.emit("CastGrad", {b.gradOut(0)}, {{"to", int64_t{toOnnxDataType(from)}}}));
}

}  // namespace

SmallRounding smallRounding(const Attributes &attributes) {
  SmallRounding rounding;
  rounding.saturate = attributes.getAttribute<int64_t>("saturate", 1) != 0;
  const auto mode = attributes.getAttribute<std::string>("round_mode", "up");
  check(mode == "up" || mode == "down" || mode == "nearest",
        "Cast: attribute round_mode is unknown: got '{}', expected 'up', 'down' or 'nearest'", mode);
  using enum SmallRounding::Exponent;
  rounding.exponent = mode == "up" ? Up : mode == "down" ? Down : Nearest;
  return rounding;
}

OpDefs castOps() {
  auto infer = [](InferContext &c) {
    const DataType to = typeOfAttribute(c, "to");
    c.require((typeBit(to) & kCastTypes) != 0, "there is no cast to this type: got {}, expected a number or bool type",
              to);
    if (isSmall(to)) smallRounding(c.attrs());
    c.out(0, to, c.shape(0));
  };
  OpDef cast = OpDef("ai.onnx", "Cast", {6, 9, 13, 19, 21, 23, 24, 25, 28})
                   .input("x", kCastTypes)
                   .output("y")
                   .attrRequired("to", AttributeType::Int)
                   .attrOptional("saturate", AttributeType::Int)
                   .attrOptional("round_mode", AttributeType::String)
                   .infer(infer)
                   .traits(Trait::Elementwise | Trait::Conversion)
                   .identityIf(always)
                   .vjp(castGradient)
                   .doc(
                       "Converts elements to the type with ONNX number `to`; saturate and round_mode apply only to "
                       "floats of at most 8 bits.");
  OpDef grad = OpDef("ai.graphcore", "CastGrad", {1})
                   .input("grad", kFloats)
                   .output("dx")
                   .attrRequired("to", AttributeType::Int)
                   .infer(infer)
                   .traits(Trait::Elementwise | Trait::Gradient | Trait::Conversion)
                   .notOnnx()
                   .decompose([](DecomposeBuilder &b) {
                     b.result(0, b.emit("Cast", {b.in(0)}, {{"to", b.attrs().getAttribute<int64_t>("to")}}));
                   })
                   .doc("Gradient of Cast: cast back.");
  OpDef bits =
      OpDef("ai.onnx", "BitCast", {26})
          .input("x", kCastTypes)
          .output("y")
          .attrRequired("to", AttributeType::Int)
          .infer([](InferContext &c) {
            const DataType to = typeOfAttribute(c, "to");
            c.require((typeBit(to) & (kNumeric | kSmallTypes)) != 0,
                      "bits cannot be read as this type: got {}, expected a number type", to);
            c.require(bitsOf(to) == bitsOf(c.type(0)), "the types differ in size: got {} to {}", c.type(0), to);
            c.out(0, to, c.shape(0));
          })
          .traits(Trait::Conversion)
          .identityIf(always)
          .cost(movesData())
          .stopsGrad()
          .doc("Reinterprets the bits of each element as another type of the same size.");
  return {cast, grad, bits};
}

}  // namespace popart::ops
