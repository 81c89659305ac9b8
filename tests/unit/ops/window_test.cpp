// Shape rules of convolution and pooling: padding modes, rounding, completed attributes, refusals.
#include <gtest/gtest.h>

#include "evaluate_op.hpp"

namespace popart::testing {
namespace {

using Ints = std::vector<int64_t>;

struct Inferred {
  Shape shape;
  Attributes attributes;
};

// Infers `type` over float inputs twice: the completed attributes must give the same result again.
Inferred infer(const std::string &type, const Attributes &attributes, const std::vector<Shape> &shapes) {
  Ir ir;
  Graph &graph = ir.getMainGraph();
  std::vector<TensorIndex> in;
  for (size_t i = 0; i < shapes.size(); ++i)
    in.push_back(graph.addInput("in" + std::to_string(i), TensorInfo(DataType::FLOAT, shapes[i])));
  Op *op = graph.addConnectedOp(opDef(type), in, {"out"}, attributes, Op::Settings(graph, "op"));
  const Inferred first{op->outShape(0), op->attributes()};
  op->setup();
  EXPECT_EQ(op->outShape(0), first.shape);
  EXPECT_EQ(op->attributes(), first.attributes);
  return first;
}

Shape shapeOf(const std::string &type, const Attributes &attributes, const std::vector<Shape> &shapes) {
  return infer(type, attributes, shapes).shape;
}

TEST(Window, convolution_completes_its_attributes) {
  const Inferred conv = infer("Conv", {}, {{1, 3, 8, 9}, {4, 3, 3, 2}});
  EXPECT_EQ(conv.shape, (Shape{1, 4, 6, 8}));
  EXPECT_EQ(conv.attributes.getAttribute<Ints>("kernel_shape"), (Ints{3, 2}));
  EXPECT_EQ(conv.attributes.getAttribute<Ints>("pads"), (Ints{0, 0, 0, 0}));
}

TEST(Window, same_padding_puts_the_odd_element_on_the_named_side) {
  const Attributes upper{{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2}}};
  const Attributes lower{{"auto_pad", std::string("SAME_LOWER")}, {"strides", Ints{2}}};
  const Inferred a = infer("Conv", upper, {{1, 1, 8}, {1, 1, 3}}), b = infer("Conv", lower, {{1, 1, 8}, {1, 1, 3}});
  EXPECT_EQ(a.shape, (Shape{1, 1, 4}));
  EXPECT_EQ(a.attributes.getAttribute<Ints>("pads"), (Ints{0, 1}));
  EXPECT_EQ(b.attributes.getAttribute<Ints>("pads"), (Ints{1, 0}));
}

TEST(Window, ceil_mode_leaves_windows_in_the_upper_padding_out) {
  const Attributes ceil{{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"ceil_mode", int64_t{1}}};
  EXPECT_EQ(shapeOf("MaxPool", ceil, {{1, 1, 5}}), (Shape{1, 1, 3}));
  const Attributes padded{
      {"kernel_shape", Ints{2}}, {"strides", Ints{3}}, {"pads", Ints{0, 2}}, {"ceil_mode", int64_t{1}}};
  EXPECT_EQ(shapeOf("MaxPool", padded, {{1, 1, 3}}), (Shape{1, 1, 1}));
}

TEST(Window, transposed_convolution_honours_output_shape_and_padding_mode) {
  const std::vector<Shape> shapes{{1, 2, 3, 3}, {2, 5, 3, 3}};
  EXPECT_EQ(shapeOf("ConvTranspose", {{"strides", Ints{2, 2}}}, shapes), (Shape{1, 5, 7, 7}));
  const Inferred wanted = infer("ConvTranspose", {{"strides", Ints{3, 2}}, {"output_shape", Ints{10, 8}}}, shapes);
  EXPECT_EQ(wanted.shape, (Shape{1, 5, 10, 8}));
  const Inferred same =
      infer("ConvTranspose", {{"strides", Ints{2, 2}}, {"auto_pad", std::string("SAME_UPPER")}}, shapes);
  EXPECT_EQ(same.shape, (Shape{1, 5, 6, 6}));
  EXPECT_EQ(same.attributes.getAttribute<Ints>("pads"), (Ints{0, 0, 1, 1}));
}

TEST(Window, impossible_convolutions_are_refused) {
  EXPECT_THROW(shapeOf("Conv", {}, {{1, 3, 8}, {4, 2, 3}}), error);
  EXPECT_THROW(shapeOf("Conv", {{"group", int64_t{0}}}, {{1, 3, 8}, {4, 3, 3}}), error);
  EXPECT_THROW(shapeOf("Conv", {{"group", int64_t{3}}}, {{1, 3, 8}, {4, 1, 3}}), error);
  EXPECT_THROW(shapeOf("Conv", {}, {{1, 3, 2}, {4, 3, 3}}), error);
  EXPECT_THROW(shapeOf("Conv", {{"strides", Ints{0}}}, {{1, 3, 8}, {4, 3, 3}}), error);
  EXPECT_THROW(shapeOf("Conv", {{"pads", Ints{-1, 0}}}, {{1, 3, 8}, {4, 3, 3}}), error);
  EXPECT_THROW(shapeOf("Conv", {{"strides", Ints{1, 1}}}, {{1, 3, 8}, {4, 3, 3}}), error);
  EXPECT_THROW(shapeOf("Conv", {{"auto_pad", std::string("SAME")}}, {{1, 3, 8}, {4, 3, 3}}), error);
  EXPECT_THROW(shapeOf("Conv", {{"kernel_shape", Ints{5}}}, {{1, 3, 8}, {4, 3, 3}}), error);
  EXPECT_THROW(shapeOf("Conv", {}, {{1, 3, 8}, {4, 3, 3}, {3}}), error);
}

TEST(Window, refusals_name_the_op_and_both_values) {
  try {
    shapeOf("Conv", {}, {{1, 3, 8}, {4, 2, 3}});
    FAIL() << "no error";
  } catch (const error &e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("Conv 'op'"), std::string::npos) << text;
    EXPECT_NE(text.find("got 3 channels, expected 2 x 1"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace popart::testing
