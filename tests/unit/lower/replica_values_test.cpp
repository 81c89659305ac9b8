// Which values replicas share: from where data differ it spreads through ops, variables, loops and branches, until a
// collective joins it.
#include "lower/replica_values.hpp"

#include <set>

#include <gtest/gtest.h>
#include <popart/ir.hpp>

namespace popart::lower {
namespace {

// Ids of the tensors of one kind, of all graphs.
std::set<TensorId> tensorsThat(ReplicaValue::Kind kind, std::string_view text) {
  const std::unique_ptr<Ir> ir = parseIr(text);
  const ReplicaValues values(*ir);
  std::set<TensorId> found;
  for (const Graph *graph : schedule::programGraphs(*ir))
    for (const Tensor *t : graph->tensors())
      if (values.of(*graph, t->index()).kind == kind) found.insert(t->id);
  return found;
}

std::set<TensorId> differing(std::string_view text) { return tensorsThat(ReplicaValue::Differs, text); }

using Ids = std::set<TensorId>;

TEST(ReplicaValues, data_differ_until_they_are_joined) {
  EXPECT_EQ(differing(R"(main {
  stream %in : float16[4]
  stream %rate : float16[]
  variable %w : float16[4] = 1
  %x = HostLoad() {stream = "in"}
  %lr = HostLoad() {stream = "rate"}
  %g = Mul(%x, %w)
  %all = ReplicatedAllReduce(%g) {group_size = 2, op = "Add", stride = 1}
  %part = ReplicatedReduceScatter(%g) {group_size = 2, op = "Add", stride = 1}
  %whole = ReplicatedAllGather(%part) {group_size = 2, op = "Local", stride = 1}
  %own = ReplicatedAllReduce(%g) {group_size = 1, op = "Add", stride = 1}
  %step = Mul(%all, %lr)
  %w2 = Sub(%w, %step)
  VariableAssign(%w, %w2)
  HostStore(%whole) {stream = "whole"}
  HostStore(%own) {stream = "own"}
})"),
            (Ids{"x", "g", "own"}));
}

TEST(ReplicaValues, variables_are_what_is_written_to_them) {
  EXPECT_EQ(differing(R"(main {
  stream %in : float16[4]
  variable %sum : float16[4] = 0
  variable %mine : float16[4] <replicas = [1, 1, 1, 0]> = 0
  %x = HostLoad() {stream = "in"}
  %a = Exp(%sum)
  %b = Exp(%mine)
  %next = Add(%sum, %x)
  VariableAssign(%sum, %next)
  HostStore(%a) {stream = "a"}
  HostStore(%b) {stream = "b"}
})"),
            (Ids{"x", "sum", "a", "next"}));
}

// State in parts over pairs of four replicas.
TEST(ReplicaValues, parts_stay_parts_until_their_group_joins_them) {
  constexpr std::string_view kProgram = R"(main {
  stream %in : float16[4]
  variable %w : float16[4] = 1
  variable %state : float16[2] <replicas = [0, 3, 0, 0]> = as float16[4, 2] [0, 0, 0, 0, 0, 0, 0, 0]
  %x = HostLoad() {stream = "in"}
  %g = Mul(%x, %w)
  %part = ReplicatedReduceScatter(%g) {group_size = 2, op = "Add", stride = 1}
  %sum = ReplicatedAllReduce(%part) {group_size = 2, op = "Add", stride = 2}
  %mine = ReplicatedReduceScatter(%w) {group_size = 2, op = "Local", stride = 1}
  %next = Add(%state, %sum)
  %step = Add(%next, %mine)
  %w2 = ReplicatedAllGather(%step) {group_size = 2, op = "Local", shape = [4], stride = 1}
  %norm = ReplicatedAllReduce(%next) {group_size = 4, op = "Add", stride = 1}
  VariableAssign(%state, %next)
  VariableAssign(%w, %w2)
  HostStore(%norm) {stream = "norm"}
})";
  EXPECT_EQ(differing(kProgram), (Ids{"x", "g"}));
  EXPECT_EQ(tensorsThat(ReplicaValue::Parts, kProgram), (Ids{"state", "part", "sum", "mine", "next", "step"}));
}

TEST(ReplicaValues, loops_and_branches_pass_on_what_they_are_given) {
  EXPECT_EQ(differing(R"(main {
  stream %in : float16[4]
  stream %which : bool[]
  variable %w : float16[4] = 1
  %x = HostLoad() {stream = "in"}
  %c = HostLoad() {stream = "which"}
  %first, %second, %rows = Loop(_, _, %w, %w) {body = @body, carried = 2, trip_count = 3}
  %y = If(%c, %first, %x) {else_branch = @no, then_branch = @yes}
  HostStore(%y) {stream = "y"}
  HostStore(%rows) {stream = "rows"}
  HostStore(%second) {stream = "second"}
}

graph @body {
  input %body/i : int64[]
  input %body/cond : bool[]
  input %body/a : float16[4]
  input %body/b : float16[4]
  %body/seed = Cast(%body/i) {to = 10}
  %body/a2 = Add(%body/a, %body/seed)
  %body/b2 = Exp(%body/b)
  return %body/cond, %body/a2, %body/b2, %body/b2
}

graph @yes {
  input %yes/x : float16[4]
  %yes/y = Exp(%yes/x)
  return %yes/y
}

graph @no {
  input %no/x : float16[4]
  %no/y = Exp(%no/x)
  return %no/y
})"),
            (Ids{"x", "no/x", "no/y", "y"}));
}

TEST(ReplicaValues, a_sharded_loss_and_its_gradient_follow_their_logits) {
  EXPECT_EQ(differing(R"(main {
  stream %in : float16[4, 8]
  stream %labels : int32[4]
  %x = HostLoad() {stream = "in"}
  %l = HostLoad() {stream = "labels"}
  %loss, %p = CrossEntropySharded(%x, %l) {group_size = 2, stride = 1}
  HostStore(%loss) {stream = "loss"}
  HostStore(%p) {stream = "p"}
})"),
            (Ids{"x", "l", "loss", "p"}));
}

}  // namespace
}  // namespace popart::lower
