// Shape rules and parts of rows that operator families share. Every rule reads only infos and attributes and reports
// failures through InferContext::fail, so that the message names the op.
#pragma once
#include <vector>

#include <popart/opdef.hpp>

namespace popart::ops {

// The types of products with a scale, as in PopART.
constexpr TypeSet kFloat8Types = typeBit(DataType::FLOAT8_143) | typeBit(DataType::FLOAT8_152);
// The largest number of elements of a tensor, as in TensorInfo.
constexpr int64_t kMostElements = int64_t{1} << 48;

// Fails unless input `input` is an INT32 scalar.
void requireLog2Scale(const InferContext &c, int input);

// Output 0 has the NumPy-broadcast shape of all connected inputs from `first` on and the type of input `first`.
void inferBroadcast(InferContext &c);
// Like inferBroadcast, with BOOL elements.
void inferBroadcastBool(InferContext &c);
// Output 0 has the shape of input 0 and BOOL elements.
void inferLikeBool(InferContext &c);
// The broadcast shape of inputs [first, count); fails with both shapes in the message.
Shape broadcastShape(const InferContext &c, int first, int count);

// The element type with the ONNX number in attribute `name`; fails, with the name of the op, if there is no such type.
DataType typeOfAttribute(const InferContext &c, std::string_view name);

// Axes of attribute "axes" normalised, sorted and checked for range and repetition; all axes when the attribute is
// absent (none with noop_with_empty_axes = 1). An empty list reduces nothing.
std::vector<int64_t> reductionAxes(const Attributes &attributes, int64_t rank);
std::vector<int64_t> reductionAxes(const InferContext &c);  // of input 0; failures name the op
Shape reducedShape(const Shape &shape, const std::vector<int64_t> &axes, bool keepDims);
// The sizes of the `count` pieces of an axis of `size` elements: attribute "split", or equal parts, of which the last
// ones are smaller or empty if the size is no multiple (ONNX Split-18).
std::vector<int64_t> splitSizes(const Attributes &attributes, int64_t size, int64_t count);
// The axis in [-rank, rank), normalised; throws popart::error for another one.
int64_t axisOf(const Attributes &attributes, int64_t rank);

// Costs. Every arithmetic operation and every function (exp, log, division) counts as one.
CostFn perElement(double n);  // `n` operations for each element of the largest operand
CostFn movesData();           // no operations; reads no more than it writes
// A multiply-add for each of `terms` terms of each of `results` results.
double productFlops(int64_t results, int64_t terms);
double bodyFlops(const Op &op);  // of the graphs that the op's attributes name

// Conditions for identityIf.
bool always(const Op &op);
bool hasOneInput(const Op &op);  // connected

// The inverse of a view in memory order: Reshape to the input's shape.
std::vector<TensorIndex> reshapeBack(OpEmitter &e, const std::vector<TensorIndex> &inputs, TensorIndex written);

// Emits a zero tensor of `type` and `shape`.
TensorIndex emitZeros(OpEmitter &e, DataType type, const Shape &shape);
// Emits Reshape unless `t` already has this shape.
TensorIndex emitReshape(OpEmitter &e, TensorIndex t, const Shape &shape);
// Emits ReduceSumTo unless `t` already has this shape.
TensorIndex emitReduceSumTo(OpEmitter &e, TensorIndex t, const Shape &shape);
// Emits Cast unless `t` already has this type.
TensorIndex emitCast(OpEmitter &e, TensorIndex t, DataType type);

}  // namespace popart::ops
