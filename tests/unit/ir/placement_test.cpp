// Where tensors are: at the op that makes them, else at the first that reads them; copies, and graphs of moved ops, are
// looked through.
#include <gtest/gtest.h>

#include "ir/placement.hpp"

namespace popart {
namespace {

constexpr const char *kProgram = R"ir(main {
  input %x : float32[2]
  input %read : float32[2]
  input %copied : float32[2]
  input %unused : float32[2]
  %a : float32[2] = Relu(%x) <vgraph = 1>
  %b : float32[2] = Relu(%a) <tiles = "io", vgraph = 2>
  %c : float32[2] = IpuCopy(%read) {destination = 3, source = 1} <vgraph = 3>
  %d : float32[2] = IoTileCopy(%copied) <tiles = "io", vgraph = 0>
  %e : float32[2] = Call(%x) {callee = @"moved", modified = []} <vgraph = 0>
}

graph @"moved" {
  input %moved/x : float32[2]
  %moved/y : float32[2] = Relu(%moved/x) <vgraph = 2>
  return %moved/y
}
)ir";

class Placement : public testing::Test {
 protected:
  std::unique_ptr<Ir> ir = parseIr(kProgram);
  const Tensor &tensor(const TensorId &id) { return *ir->getMainGraph().getTensor(id); }
  TensorPlacement of(const TensorId &id, const std::set<GraphId> &moved = {}) { return placementOf(tensor(id), moved); }
};

TEST_F(Placement, of_results_is_that_of_their_op) {
  EXPECT_EQ(of("a").ipu, 1);
  EXPECT_EQ(of("a").tiles, TileSet::Compute);
  EXPECT_EQ(of("b").ipu, 2);
  EXPECT_EQ(of("b").tiles, TileSet::IO);
}

TEST_F(Placement, of_inputs_is_that_of_their_first_reader) {
  EXPECT_EQ(of("x").ipu, 1);
  EXPECT_FALSE(of("unused").ipu.has_value());
  EXPECT_FALSE(of("unused").tiles.has_value());
}

TEST_F(Placement, of_what_a_copy_reads_is_where_it_comes_from) {
  EXPECT_EQ(of("read").ipu, 1);
  EXPECT_EQ(of("c").ipu, 3);
  EXPECT_EQ(of("copied").tiles, TileSet::Compute);
  EXPECT_EQ(of("d").tiles, TileSet::IO);
}

TEST_F(Placement, of_a_call_is_its_own_but_for_moved_ops) {
  EXPECT_EQ(of("e").ipu, 0);
  EXPECT_EQ(of("e", {"moved"}).ipu, 2);
}

TEST_F(Placement, tensors_without_one_are_together_with_all) {
  EXPECT_TRUE(areTogether({&tensor("a"), &tensor("unused"), &tensor("x")}, {}));
  EXPECT_FALSE(areTogether({&tensor("unused"), &tensor("a"), &tensor("b")}, {}));
  EXPECT_FALSE(areTogether({&tensor("c"), &tensor("d")}, {}));
}

}  // namespace
}  // namespace popart
