// Kernels cost what the rows of their ops state, whichever backend made them.
#include "executable/cost.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include <popart/graph.hpp>

#include "../support/message_of.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/layouts/panels.hpp"
#include "backends/ref/ref.hpp"
#include "lower/kernel_cache.hpp"
#include "support/counting_device/reversed.hpp"

namespace popart {
namespace {

using executable::Backend;
using executable::Kernel;
using executable::KernelRequest;
using testing::HasSubstr;

// A kernel of every family of the CPU backend that once stated its own figures, and of some that never did.
constexpr std::string_view kProgram = R"(main {
  stream %x : float32[2, 8, 10, 12] <layout = "channels_last">
  stream %w : float32[6, 8, 3, 3] <layout = "WEIGHTS">
  stream %g : float32[2, 6, 8, 10] <layout = "channels_last">
  stream %a : float32[3, 40, 70]
  stream %b : float32[3, 70, 50]
  stream %v : float32[70]
  stream %i : int64[9]
  %conv : float32[2, 6, 8, 10] <layout = "channels_last"> = FusedConv(%x, %w) {kernel_shape = [3, 3]}
  %packed : float32[6, 8, 3, 3] <layout = "WEIGHTS"> = ConvWeightsGrad(%g, %x) {fwd_shape = [6, 8, 3, 3]}
  %product : float32[3, 40, 50] = MatMul(%a, %b)
  %column : float32[3, 40] = MatMul(%a, %v)
  %rows : float32[9, 40, 70] = Gather(%a, %i) {axis = 0}
  %turned : float32[70, 3, 40] = Transpose(%a) {perm = [2, 0, 1]}
  %wide : float32[5, 3, 40, 70] = Expand(%a) {shape = [5, 3, 40, 70]}
  %both : float32[3, 80, 70] = Concat(%a, %a) {axis = 1}
  %piece : float32[3, 40, 9] = Slice(%a) {starts = [4], ends = [13], axes = [2]}
  %sum : float32[3, 70] = ReduceSum(%a) {axes = [1], keepdims = 0}
  %soft : float32[3, 40, 70] = Softmax(%a) {axis = -1}
  %gelu : float32[3, 40, 70] = Gelu(%a)
  return %conv, %packed, %product, %column, %rows, %turned, %wide, %both, %piece, %sum, %soft, %gelu
})";

std::unique_ptr<Ir> program() {
  const std::string weights = cpu::convPanels({6, 8, 3, 3}, 1, cpu::Transposed::kNo)->name();
  std::string text(kProgram);
  for (size_t at; (at = text.find("WEIGHTS")) != std::string::npos;) text.replace(at, 7, weights);
  return parseIr(text);
}

TEST(KernelCost, is_what_the_row_states) {
  const auto ir = program();
  for (const Op *op : ir->getMainGraph().ops()) {
    const KernelRequest request = executable::requestOf(*op);
    std::string reason;
    const auto kernel = cpu::backend().createKernel(request, reason);
    ASSERT_TRUE(kernel) << op->str() << ": " << reason;
    const Cost cost = costOf(*op);
    EXPECT_TRUE(kernel->hasCost());
    EXPECT_GT(kernel->bytes(), 0) << op->str();
    EXPECT_EQ(kernel->flops(), cost.flops) << op->str();
    double padding = 0;
    for (const auto *operands : {&request.inputs, &request.outputs})
      for (const auto &o : *operands)
        padding += static_cast<double>(executable::storageBytes(o.info, o.layout) - o.info.nbytes());
    EXPECT_EQ(padding > 0, op->is(Role::FusedConv) || op->is(Role::ConvWeightsGrad)) << "6 filters in a panel";
    EXPECT_EQ(kernel->bytes(), cost.bytesRead + cost.bytesWritten + padding) << op->str();
  }
}

// The tensor is usually updated in place.
TEST(KernelCost, of_operators_on_windows_is_that_of_the_window) {
  const auto ir = parseIr(R"(main {
    stream %t : float32[100, 3, 8]
    stream %o : uint32[1]
    stream %s : float32[2, 3, 8]
    %slice : float32[2, 3, 8] = DynamicSlice(%t, %o) {axes = [0], sizes = [2]}
    %updated : float32[100, 3, 8] = DynamicUpdate(%t, %o, %s) {axes = [-3], sizes = [2]}
    %added : float32[100, 3, 8] = DynamicAdd(%t, %o, %s) {axes = [0], sizes = [2]}
    %cleared : float32[100, 3, 8] = DynamicZero(%t, %o) {axes = [0], sizes = [2]}
    return %slice, %updated, %added, %cleared
  })");
  constexpr double kWindow = 4 * 2 * 3 * 8;  // bytes
  std::map<std::string, double> moved;
  for (const Op *op : ir->getMainGraph().ops()) {
    std::string reason;
    const auto kernel = cpu::backend().createKernel(executable::requestOf(*op), reason);
    ASSERT_TRUE(kernel) << op->str() << ": " << reason;
    moved[op->opType()] = kernel->bytes() / kWindow;
  }
  EXPECT_EQ(moved, (std::map<std::string, double>{
                       {"DynamicSlice", 2}, {"DynamicUpdate", 2}, {"DynamicAdd", 3}, {"DynamicZero", 1}}));
}

TEST(KernelCost, of_chains_and_fused_kernels_is_that_of_their_bodies) {
  const auto ir = parseIr(R"(main {
    stream %a : float32[6, 16, 24]
    stream %b : float32[6, 24, 16]
    stream %c : float32[16]
    %y : float32[6, 16, 16] = DepthFirst(%a, %b, %c) {body = @chain, parts = 6}
    return %y
  }
  graph @chain {
    input %p : float32[6, 16, 24]
    input %q : float32[6, 24, 16]
    input %r : float32[16]
    %s : float32[6, 16, 16] = FusedMatMul(%p, %q, %r) {epilogue = @e}
    %t : float32[6, 16, 16] = Softmax(%s) {axis = -1}
    return %t
  }
  graph @e {
    input %u : float32[6, 16, 16]
    input %v : float32[16]
    %z : float32[6, 16, 16] = Add(%u, %v)
    return %z
  })");
  std::string reason;
  const Op &op = *ir->getMainGraph().ops().front();
  const auto kernel = cpu::backend().createKernel(executable::requestOf(op), reason);
  ASSERT_TRUE(kernel) << reason;
  constexpr double kValues = 6 * 16 * 16;
  EXPECT_EQ(kernel->flops(), kValues * (2 * 24 + 1 + 5));
  EXPECT_EQ(kernel->bytes(), 4 * (2.0 * 6 * 16 * 24 + 16 + kValues)) << "what lies inside a chain is not moved";
}

// Kernels that read an operand several times say so on top.
TEST(KernelCost, counts_further_passes) {
  const auto ir = parseIr(R"(main {
    stream %g : float32[64, 256]
    stream %x : float32[64, 256]
    stream %scale : float32[256]
    %dx : float32[64, 256] = LayerNormalizationGrad(%g, %x, %scale)
    %dx2 : float32[64, 256], %dscale : float32[256], %dbias : float32[256] = LayerNormalizationGrad(%g, %x, %scale)
    return %dx, %dx2, %dscale, %dbias
  })");
  constexpr double kBytes = 4 * 64 * 256;
  for (const Op *op : ir->getMainGraph().ops()) {
    std::string reason;
    const auto kernel = cpu::backend().createKernel(executable::requestOf(*op), reason);
    ASSERT_TRUE(kernel) << reason;
    const Cost cost = costOf(*op);
    EXPECT_EQ(kernel->bytes(), cost.bytesRead + cost.bytesWritten + (op->outputCount() > 1 ? 2 * kBytes : 0));
  }
}

TEST(KernelCost, comes_with_kernels_of_every_backend) {
  const auto ir = parseIr("main {\n stream %x : float32[5, 7]\n %y : float32[5, 7] = Relu(%x)\n return %y\n}");
  const Op &op = *ir->getMainGraph().ops().front();
  const auto reversing = test::reversingBackend(cpu::backend());
  KernelRequest reversed = executable::requestOf(op);
  reversed.inputs[0].layout = test::reversed();
  std::string reason;
  const auto reference = ref::backend().createKernel(executable::requestOf(op), reason);
  EXPECT_EQ(reference->flops(), 35);
  EXPECT_EQ(reference->bytes(), 2 * 4 * 35);
  const auto converting = reversing->createKernel(reversed, reason);
  ASSERT_TRUE(converting) << reason;
  EXPECT_EQ(converting->flops(), 35);
  EXPECT_EQ(converting->bytes(), 2 * 4 * 35 + 4 * 3) << "three places of padding";
}

// Makes kernels and forgets their cost.
class ForgetfulBackend final : public Backend {
 public:
  std::string name() const override { return "forgetful"; }
  bool supports(const Op &, std::string &) const override { return true; }
  std::shared_ptr<const Kernel> createKernel(const KernelRequest &, std::string &) const override {
    class Nothing final : public Kernel {
      std::string name() const override { return "nothing"; }
    };
    return std::make_shared<Nothing>();
  }
};

TEST(KernelCost, is_asked_for_when_a_program_is_lowered) {
  const auto ir = parseIr("main {\n stream %x : float32[5, 7]\n %y : float32[5, 7] = Relu(%x)\n return %y\n}");
  const ForgetfulBackend backend;
  const lower::KernelCache cache(backend, 1);
  EXPECT_THAT(test::messageOf([&] {
                std::string reason;
                cache.createKernel(executable::requestOf(*ir->getMainGraph().ops().front()), reason);
              }),
              HasSubstr("backend forgetful: kernel 'nothing' has no cost"));
}

}  // namespace
}  // namespace popart
