// Operators that select by value and whose results have room for the largest possible selection: Unique and
// NonMaxSuppression. The importer makes the results of ONNX's operators from these (src/onnx/import/selections.cpp).
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

constexpr TypeSet kCounts = typeBit(DataType::INT64);

void requireOne(const InferContext &c, int input, const char *name) {
  c.require(!c.hasIn(input) || c.in(input).nelms() == 1, "{} must be one number: got {}", name,
            c.hasIn(input) ? c.in(input) : TensorInfo());
}

// n log n comparisons of rows.
void sortCost(const Op &op, Cost &c) {
  double steps = 1;
  for (int64_t rows = op.outInfo(0).nelms(); rows > 1; rows /= 2) ++steps;
  c.flops = steps * static_cast<double>(op.inInfo(0).nelms());
}

OpDef uniqueRow() {
  return OpDef("popart", "Unique", {1})
      .input("x", kAllTypes)
      .input("length", kCounts, "", Arity::Optional)
      .output("first")
      .output("inverse")
      .output("counts")
      .output("count")
      .attr("axis", int64_t{0})
      .attr("sorted", int64_t{1})
      .infer([](InferContext &c) {
        c.require(c.in(0).rank() > 0, "needs at least one dimension: got a scalar");
        requireOne(c, 1, "length");
        const int64_t rows = c.shape(0)[static_cast<size_t>(c.axis("axis", c.in(0).rank()))];
        for (int i = 0; i < 3; ++i) c.out(i, DataType::INT64, {rows});
        c.out(3, DataType::INT64, {});
      })
      .cost(sortCost)
      .notOnnx()
      .stopsGrad()
      .doc(
          "For the different rows along an axis: the position of the first one of each, the number of its value for "
          "each row, how often each occurs, and how many there are; the rest is zeros. Only the first `length` rows "
          "are read.");
}

void inferNonMaxSuppression(InferContext &c) {
  const Shape &boxes = c.shape(0), &scores = c.shape(1);
  c.require(boxes.size() == 3 && boxes[2] == 4 && scores.size() == 3 && boxes[0] == scores[0] && boxes[1] == scores[2],
            "boxes and scores must be (batches, boxes, 4) and (batches, classes, boxes): got {} and {}", c.in(0),
            c.in(1));
  requireOne(c, 2, "max_output_boxes_per_class");
  requireOne(c, 3, "iou_threshold");
  requireOne(c, 4, "score_threshold");
  const int64_t most = c.attrInt("most");
  c.require(most >= 0 && most <= boxes[1], "attribute 'most' must be between 0 and the number of boxes: got {} of {}",
            most, boxes[1]);
  c.out(0, DataType::INT64, {scores[0], scores[1], most});
  c.out(1, DataType::INT64, {scores[0], scores[1]});
}

OpDef nonMaxSuppressionRow() {
  return OpDef("popart", "NonMaxSuppression", {1})
      .input("boxes", kFloats, "T")
      .input("scores", kFloats, "T")
      .input("max_output_boxes_per_class", kCounts, "", Arity::Optional)
      .input("iou_threshold", kFloats, "", Arity::Optional)
      .input("score_threshold", kFloats, "", Arity::Optional)
      .output("selected")
      .output("counts")
      .attr("center_point_box", int64_t{0})
      .attrRequired("most", AttributeType::Int)
      .infer(inferNonMaxSuppression)
      // Compares each box with those that are kept.
      .cost([](const Op &op, Cost &c) {
        c.flops = 8.0 * static_cast<double>(op.inInfo(1).nelms()) * static_cast<double>(op.attrInt("most") + 1);
      })
      .notOnnx()
      .stopsGrad()
      .doc(
          "For each batch and class the boxes with the best scores that overlap no better box, at most `most`, best "
          "first and then zeros; and their number.");
}

}  // namespace

OpDefs selectionOps() { return {uniqueRow(), nonMaxSuppressionRow()}; }

}  // namespace popart::ops
