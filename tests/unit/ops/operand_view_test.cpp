// Views of operands: through slices, transposes and rows, and what attention refuses.
#include "ops/fused/operand_view.hpp"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <popart/ir.hpp>

#include "../support/message_of.hpp"

namespace popart::ops {
namespace {

std::optional<OperandView> through(const OperandView &view, const Shape &shape, int64_t offset, Shape strides) {
  return viewThrough(view, shape, {offset, std::move(strides)});
}

void expectView(const std::optional<OperandView> &view, int64_t offset, const Shape &sizes, const Shape &strides) {
  ASSERT_TRUE(view);
  EXPECT_EQ(view->offset, offset);
  EXPECT_EQ(view->sizes, sizes);
  EXPECT_EQ(view->strides, strides);
}

TEST(OperandView, passes_a_slice_of_columns) {
  // The second third of (2, 5, 24), as two heads of four.
  const OperandView heads{0, {2, 2, 5, 4}, {40, 4, 8, 1}};
  expectView(through(heads, {2, 5, 8}, 8, {120, 24, 1}), 8, {2, 2, 5, 4}, {120, 4, 24, 1});
}

TEST(OperandView, passes_a_row_and_a_transpose) {
  // Row 1 of (3, 2, 4), and that of a transposed (2, 3, 4).
  expectView(through(wholeOf({2, 4}), {2, 4}, 8, {4, 1}), 8, {2, 4}, {4, 1});
  expectView(through(wholeOf({2, 4}), {2, 4}, 4, {12, 1}), 4, {2, 4}, {12, 1});
}

TEST(OperandView, keeps_an_offset_of_its_own) {
  const OperandView last{14, {2}, {1}};  // elements 14 and 15 of (4, 4)
  expectView(through(last, {4, 4}, 1, {10, 2}), 1 + 3 * 10 + 2 * 2, {2}, {2});
}

TEST(OperandView, repeated_and_single_elements_have_no_stride) {
  expectView(through({0, {3, 1, 4}, {0, 4, 1}}, {1, 4}, 0, {8, 2}), 0, {3, 1, 4}, {0, 0, 2});
}

TEST(OperandView, there_is_none_across_a_border) {
  const Shape shape{3, 4};                                   // of a slice of (3, 6)
  EXPECT_FALSE(through({0, {12}, {1}}, shape, 0, {6, 1}));   // three rows
  EXPECT_FALSE(through({3, {2}, {1}}, shape, 0, {6, 1}));    // the end of a row and the start of the next
  EXPECT_FALSE(through({0, {2}, {3}}, {3, 2}, 0, {6, 1}));   // a row and a half
  EXPECT_FALSE(through(wholeOf(shape), shape, 5, {6, -1}));  // backwards
}

TEST(OperandView, is_an_attribute) {
  const OperandView view{5, {2, 3}, {7, 1}};
  EXPECT_EQ(toInts(view), (std::vector<int64_t>{5, 2, 3, 7, 1}));
  const OperandView turned = permuted(view, {1, 0});
  EXPECT_EQ(turned.sizes, (Shape{3, 2}));
  EXPECT_EQ(turned.strides, (Shape{1, 7}));
}

std::string attention(const std::string &attributes) {
  return fmt::format(R"(main {{
  stream %in : float32[4, 12]
  %x = HostLoad() {{stream = "in"}}
  %y = FusedAttention(%x, %x, %x) {{{}view_k = [4, 4, 4, 1, 12], view_v = [8, 4, 4, 12, 1]}}
  HostStore(%y) {{stream = "y"}}
}}
)",
                     attributes);
}

TEST(OperandView, of_attention_stays_inside_its_operand) {
  EXPECT_NO_THROW(parseIr(attention("view_q = [0, 4, 4, 12, 1], ")));
  const auto expectRefused = [](const std::string &attributes, const std::string &fragment) {
    const std::string message = test::messageOf([&] { parseIr(attention(attributes)); });
    EXPECT_NE(message.find(fragment), std::string::npos) << message;
  };
  const std::string kOutside = "view_q is not inside a tensor of 48 elements";
  for (const char *view : {"[9, 4, 4, 12, 1]", "[-1, 4, 4, 12, 1]", "[48, 1, 1, 0, 0]", "[0, 5, 4, 12, 1]",
                           "[0, 4, 4, 12, -1]", "[0, -4, 4, 12, 1]", "[0, 4611686018427387904, 4, 4, 1]",
                           "[0, 4, 4, 9223372036854775807, 1]", "[9223372036854775807, 4, 4, 12, 1]"})
    expectRefused(fmt::format("view_q = {}, ", view), kOutside);
  expectRefused("view_q = [0, 4, 4, 12], ", "view_q has 4 numbers");
  expectRefused("view_q = [0, 4, 12], ", "view_q has 3 numbers");
  expectRefused("view_q = [0, 4611686018427387904, 4, 0, 1], ", "more than 2^48 elements");
  expectRefused("perm_q = [1, 0], view_q = [0, 4, 4, 12, 1], ", "it has perm_q and view_q");
}

}  // namespace
}  // namespace popart::ops
