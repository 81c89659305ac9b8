// Replacing ops by one that may be refused.
#include "lower/try_replace.hpp"

#include <gtest/gtest.h>

#include "../support/program.hpp"

namespace popart {
namespace {

constexpr const char *kProgram = R"(main {
  stream %x : float32[2]
  %a : float32[2] = Neg(%x)
  %b : float32[2] = Exp(%a) <name = "exp">
  %c : float32[2] = Relu(%b)
  return %b, %c
})";

struct Replaced {
  std::unique_ptr<Ir> ir = parseIr(kProgram);
  Graph &graph = ir->getMainGraph();
  Op &old = *graph.tensor(graph.find("b")).getProducer();
  Op *run(bool accepts) {
    return lower::tryReplace(graph, {opDef("Tanh"), {graph.find("x")}, {}, inheritSettings(old, graph), old.outputs()},
                             [&](const Op &made) {
                               EXPECT_EQ(made.outId(0), "b") << "the new op has the id while it is judged";
                               return accepts;
                             });
  }
};

TEST(TryReplace, AnAcceptedOpTakesIdReadersAndGraphOutputs) {
  Replaced r;
  Op *made = r.run(true);
  ASSERT_NE(made, nullptr);
  r.graph.eraseOpAndOutputs(r.old.index());
  verify(*r.ir);
  EXPECT_EQ(made->outId(0), "b");
  EXPECT_EQ(made->name(), "exp");
  EXPECT_EQ(r.graph.outputs()[0], made->outputs()[0]);
  EXPECT_EQ(r.graph.tensor(r.graph.find("c")).getProducer()->inId(0), "b");
}

TEST(TryReplace, ARefusedOpLeavesTheGraphAsItWas) {
  Replaced r;
  EXPECT_EQ(r.run(false), nullptr);
  verify(*r.ir);
  EXPECT_EQ(print(*r.ir), print(*parseIr(kProgram)));
}

}  // namespace
}  // namespace popart
