// Operators whose result depends only on attributes or shapes: Constant, ConstantOfShape, Range, Shape, Size.
#include <algorithm>
#include <cmath>

#include "ops/catalog.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

int64_t rangeLength(InferContext &c, const TensorData &start, const TensorData &limit, const TensorData &delta) {
  if (isFloatingPoint(start.info().dataType())) {
    const double step = delta.asDoubles()[0];
    c.require(step != 0, "delta is 0: got 0, expected another number");
    const double length = std::ceil((limit.asDoubles()[0] - start.asDoubles()[0]) / step);
    c.require(length < 4e18, "the range is too long: got {} elements", length);
    return length > 0 ? static_cast<int64_t>(length) : 0;
  }
  const int64_t from = start.asInts()[0], to = limit.asInts()[0], step = delta.asInts()[0];
  c.require(step != 0, "delta is 0: got 0, expected another number");
  if (step > 0 ? to <= from : to >= from) return 0;
  const uint64_t distance = step > 0 ? static_cast<uint64_t>(to) - static_cast<uint64_t>(from)
                                     : static_cast<uint64_t>(from) - static_cast<uint64_t>(to);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const uint64_t length = (distance - 1) / stride + 1;
  c.require(length < (uint64_t{1} << 62), "the range is too long: got {} elements", length);
  return static_cast<int64_t>(length);
}

void inferRange(InferContext &c) {
  const TensorData &start = c.attrs().getAttribute<TensorData>("start"),
                   &limit = c.attrs().getAttribute<TensorData>("limit"),
                   &delta = c.attrs().getAttribute<TensorData>("delta");
  for (const TensorData *t : {&start, &limit, &delta}) {
    c.require(t->info().nelms() == 1, "start, limit and delta are not scalars: got {}, expected one element",
              t->info().shape());
    c.require(t->info().dataType() == start.info().dataType(),
              "types of start, limit and delta differ: got {} and {}, expected equal types", start.info().dataType(),
              t->info().dataType());
  }
  c.require((typeBit(start.info().dataType()) & kNumeric) != 0,
            "there is no range of this type: got {}, expected a number type", start.info().dataType());
  c.out(0, start.info().dataType(), {rangeLength(c, start, limit, delta)});
}

OpDef metadataRow(const char *type, std::vector<OpVersion> versions) {
  return OpDef("ai.onnx", type, std::move(versions))
      .input("data", kStoredTypes)
      .output("result")
      .traits(Trait::Metadata)
      .stopsGrad();
}

}  // namespace

OpDefs constantOps() {
  const float zero = 0;
  return {
      OpDef("ai.onnx", "Constant", {1, 9, 11, 12, 13, 19, 21, 23, 24, 25})
          .output("output")
          .attrRequired("value", AttributeType::Tensor)
          .infer([](InferContext &c) { c.out(0, c.attrs().getAttribute<TensorData>("value").info()); })
          .traits(Trait::Init)
          .stopsGrad()
          .doc("The tensor `value`."),
      OpDef("ai.onnx", "ConstantOfShape", {9, 20, 21, 23, 24, 25})
          .output("output")
          .attrRequired("shape", AttributeType::Ints)
          .attr("value", TensorData::of<float>({1}, std::span<const float>(&zero, 1)))
          .constInput(0, "shape", 9)
          .infer([](InferContext &c) {
            const TensorInfo &value = c.attrs().getAttribute<TensorData>("value").info();
            c.require(value.nelms() == 1, "value has more than one element: got {}, expected one", value.shape());
            c.out(0, value.dataType(), c.attrInts("shape"));
          })
          .traits(Trait::Init)
          .stopsGrad()
          .doc("A tensor of `shape` filled with `value`."),
      OpDef("ai.onnx", "Range", {11})
          .output("output")
          .attrRequired("start", AttributeType::Tensor)
          .attrRequired("limit", AttributeType::Tensor)
          .attrRequired("delta", AttributeType::Tensor)
          .constInput(0, "start", 11)
          .constInput(1, "limit", 11)
          .constInput(2, "delta", 11)
          .infer(inferRange)
          .traits(Trait::Init)
          .stopsGrad()
          .doc("start, start + delta, … up to limit, which is excluded."),
      metadataRow("Shape", {1, 13, 15, 19, 21, 23, 24, 25})
          .attr("start", int64_t{0})
          .attrOptional("end", AttributeType::Int)
          .infer([](InferContext &c) {
            const int64_t rank = c.in(0).rank();
            auto clamp = [rank](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
            const int64_t start = clamp(c.attrInt("start")), end = c.hasAttr("end") ? clamp(c.attrInt("end")) : rank;
            c.out(0, DataType::INT64, {std::max<int64_t>(0, end - start)});
          })
          .doc("The sizes of dimensions start to end of the input, as INT64."),
      metadataRow("Size", {1, 13, 19, 21, 23, 24, 25})
          .infer([](InferContext &c) { c.out(0, DataType::INT64, {}); })
          .doc("The number of elements of the input, as INT64."),
  };
}

}  // namespace popart::ops
