// Decomposition and clean-up of functional graphs: what is expanded, what is merged, what stays.
#include "lower/decompose.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "../support/program.hpp"

namespace popart {
namespace {

using test::countOps;
using test::opTypes;
using testing::ElementsAre;
using testing::HasSubstr;

// Takes every op but those of some types.
class PickyBackend final : public executable::Backend {
 public:
  explicit PickyBackend(std::set<std::string> refused) : refused_(std::move(refused)) {}
  std::string name() const override { return "picky"; }
  bool supports(const Op &op, std::string &reason) const override {
    if (!refused_.count(op.opType())) return true;
    reason = "not today";
    return false;
  }
  std::shared_ptr<const executable::Kernel> createKernel(const executable::KernelRequest &,
                                                         std::string &) const override {
    return nullptr;
  }

 private:
  std::set<std::string> refused_;
};

std::unique_ptr<Ir> decomposed(std::string_view text, std::set<std::string> refused) {
  std::unique_ptr<Ir> ir = parseIr(text);
  lower::decompose(*ir, PickyBackend(std::move(refused)));
  verify(*ir);
  return ir;
}

std::unique_ptr<Ir> simplified(std::string_view text) {
  std::unique_ptr<Ir> ir = parseIr(text);
  lower::simplify(*ir);
  verify(*ir);
  return ir;
}

constexpr const char *kSubsample = R"(main {
  stream %x : float32[5, 4]
  %y : float32[3, 2] = Subsample(%x) {strides = [2, 3]}
  %z : float32[3, 2] = Relu(%y)
  return %y, %z
})";

TEST(Decompose, ops_the_backend_takes_stay) {
  EXPECT_THAT(opTypes(decomposed(kSubsample, {})->getMainGraph()), ElementsAre("Subsample", "Relu"));
}

TEST(Decompose, ops_it_refuses_become_what_their_rows_say) {
  const std::unique_ptr<Ir> ir = decomposed(kSubsample, {"Subsample"});
  const Graph &main = ir->getMainGraph();
  EXPECT_THAT(opTypes(main), ElementsAre("Slice", "Relu"));
  EXPECT_EQ(main.info(main.outputs()[0]), TensorInfo(DataType::FLOAT, {3, 2}));
  EXPECT_EQ(main.tensor(main.outputs()[0]).getProducer()->opType(), "Slice");
}

TEST(Decompose, ops_without_a_decomposition_are_left_for_another_backend) {
  EXPECT_THAT(opTypes(decomposed(kSubsample, {"Relu"})->getMainGraph()), ElementsAre("Subsample", "Relu"));
}

TEST(Decompose, results_of_a_decomposition_are_decomposed_again) {
  const char *text = R"(main {
    stream %g : float32[2, 3]
    stream %x : float32[2, 3]
    stream %y : float32[3]
    %dx : float32[3] = DivArg1Grad(%g, %x, %y) {fwd_shape = [3]}
    return %dx
  })";
  const std::unique_ptr<Ir> once = decomposed(text, {"DivArg1Grad"});
  ASSERT_EQ(countOps(once->getMainGraph(), "ReduceSumTo"), 1) << print(*once);
  const std::unique_ptr<Ir> twice = decomposed(text, {"DivArg1Grad", "ReduceSumTo"});
  EXPECT_EQ(countOps(twice->getMainGraph(), "ReduceSumTo"), 0) << print(*twice);
  EXPECT_EQ(countOps(twice->getMainGraph(), "ReduceSum"), 1) << print(*twice);
}

TEST(Decompose, constraints_move_to_the_op_that_makes_the_first_result) {
  const std::unique_ptr<Ir> ir = decomposed(R"(main {
    stream %x : float32[5, 4]
    variable %v : float32[2] = [1, 2]
    stream %n : float32[2]
    #1 %y : float32[3, 2] = Subsample(%x) {strides = [2, 3]}
    #2 %w : float32[2] = CopyVarUpdate(%v, %n)
    order #1, #2
    return %y
  })",
                                            {"Subsample"});
  const Graph &main = ir->getMainGraph();
  ASSERT_EQ(main.constraints().size(), 1u);
  EXPECT_EQ(main.op(main.constraints()[0].first).opType(), "Slice");
  EXPECT_EQ(main.op(main.constraints()[0].second).opType(), "CopyVarUpdate");
}

TEST(Simplify, what_computes_nothing_goes) {
  const std::unique_ptr<Ir> ir = simplified(R"(main {
    stream %x : float32[2, 3]
    %a : float32[2, 3] = Identity(%x)
    %b : float32[2, 3] = Sum(%a)
    %c : float32[2, 3] = Cast(%b) {to = 1}
    %d : float32[2, 3] = Relu(%c)
    return %d
  })");
  EXPECT_THAT(opTypes(ir->getMainGraph()), ElementsAre("Relu"));
}

TEST(Simplify, what_attributes_make_an_identity_goes) {
  const std::unique_ptr<Ir> ir = simplified(R"(main {
    stream %x : float32[2, 3]
    %a : float32[2, 3] = Transpose(%x) {perm = [0, 1]}
    %b : float32[2, 3] = Pad(%a) {pads = [0, 0, 0, 0]}
    %c : float32[2, 3] = Slice(%b) {starts = [0], ends = [9]}
    %d : float32[2, 3] = Relu(%c)
    return %d
  })");
  EXPECT_THAT(opTypes(ir->getMainGraph()), ElementsAre("Relu"));
}

TEST(Simplify, views_that_change_the_shape_stay) {
  const std::unique_ptr<Ir> ir = simplified(R"(main {
    stream %x : float32[2, 3]
    %a : float32[3, 2] = Reshape(%x) {allowzero = 0, shape = [3, 2]}
    return %a
  })");
  EXPECT_THAT(opTypes(ir->getMainGraph()), ElementsAre("Reshape"));
}

TEST(Simplify, equal_ops_on_equal_inputs_become_one) {
  const std::unique_ptr<Ir> ir = simplified(R"(main {
    stream %x : float32[2]
    %a : float32[2] = Exp(%x)
    %b : float32[2] = Exp(%x)
    %c : float32[2] = LeakyRelu(%b) {alpha = 0.5f}
    %d : float32[2] = LeakyRelu(%a) {alpha = 0.25f}
    %e : float32[2] = Add(%c, %d)
    return %e
  })");
  EXPECT_EQ(countOps(ir->getMainGraph(), "Exp"), 1) << print(*ir);
  EXPECT_EQ(countOps(ir->getMainGraph(), "LeakyRelu"), 2) << print(*ir);
}

TEST(Simplify, recomputed_copies_are_not_merged_with_their_originals) {
  const std::unique_ptr<Ir> ir = simplified(R"(main {
    stream %x : float32[2]
    %a : float32[2] = Exp(%x) <recompute = "recompute">
    %b : float32[2] = Exp(%x)
    %c : float32[2] = Exp(%x) <recompute = "recomputed">
    %d : float32[2] = Exp(%x) <recompute = "recomputed">
    %s : float32[2] = Sum(%a, %b, %c, %d)
    return %s
  })");
  const Graph &main = ir->getMainGraph();
  EXPECT_EQ(countOps(main, "Exp"), 2) << "originals are one, copies are one: " << print(*ir);
  const Op &sum = *main.tensor(main.outputs()[0]).getProducer();
  EXPECT_EQ(sum.inputs()[0], sum.inputs()[1]);
  EXPECT_EQ(sum.inputs()[2], sum.inputs()[3]);
  EXPECT_NE(sum.inputs()[0], sum.inputs()[2]);
}

TEST(Simplify, random_ops_are_never_merged) {
  const std::unique_ptr<Ir> ir = simplified(R"(main {
    stream %x : float32[2]
    stream %seed : uint32[2]
    %a : float32[2] = RandomNormalLike(%x, %seed)
    %b : float32[2] = RandomNormalLike(%x, %seed)
    %c : float32[2] = Add(%a, %b)
    return %c
  })");
  EXPECT_EQ(countOps(ir->getMainGraph(), "RandomNormalLike"), 2);
}

TEST(Simplify, unused_ops_go_and_effects_stay) {
  const std::unique_ptr<Ir> ir = simplified(R"(main {
    stream %x : float32[2]
    %a : float32[2] = Exp(%x)
    %b : float32[2] = Log(%a)
    %c : float32[2] = Relu(%x)
    HostStore(%c) {stream = "c"}
  })");
  EXPECT_THAT(opTypes(ir->getMainGraph()), ElementsAre("Relu", "HostStore"));
}

TEST(Simplify, twice_is_once) {
  const std::unique_ptr<Ir> ir = simplified(kSubsample);
  const std::string once = print(*ir);
  lower::simplify(*ir);
  EXPECT_EQ(print(*ir), once);
}

}  // namespace
}  // namespace popart
