// Programs that the tests of this room share.
#pragma once
#include <memory>
#include <string>

#include <popart/ir.hpp>

namespace popart::test {

// Two graphs; leaves of every kind, optional operands, several outputs, settings, an order constraint.
inline const std::string kProgram = R"ir(main {
  input %x : float32[2, 3]
  stream %batch : float32[2, 3]
  const %half : float32[] = 0.5
  variable %w : float32[3, 2] <optimizer_state = 1, replicas = [0, 1, 2, 1]> = [1, 2, 3, 4, 5, -0.1]
  #1 %loaded : float32[2, 3] = HostLoad() {stream = "batch"}
  %y : float32[2, 2] = MatMul(%x, %w) <name = "fc/MatMul", stage = 1, vgraph = 0>
  %"odd name" : float32[2, 1], %i : int64[2, 1] = TopK(%y) {axis = -1, index_type = 7, k = 1, largest = 1, sorted = 1}
  %z : float32[2, 2] = Call(%y, %half) {callee = @"f_subgraph(0)", modified = []}
  _, %k : float32[] = Call(%y, %half) {callee = @"f_subgraph(0)", modified = []}
  #2 HostStore(%z) {stream = "z"} <hints = s["availableMemoryProportion", "0.6"]>
  order #1, #2
  return %z, %"odd name"
}

graph @"f_subgraph(0)" {
  input %f/a : float32[2, 2] <by_reference = 1>
  input %f/b : float32[]
  %f/c : float32[2, 2] = Mul(%f/a, %f/b)
  return %f/c, %f/b
}
)ir";

// The first op of this type.
inline Op &onlyOp(const Ir &ir, std::string_view type) { return *ir.opsOfType(type).at(0); }

}  // namespace popart::test
