// Single ops on the CPU backend against the reference backend.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <popart/ir.hpp>

#include "../support/program.hpp"
#include "backends/cpu/cpu.hpp"
#include "support/run_op.hpp"

namespace popart::test {

inline TensorData floats(const Shape &shape, int seed) {
  return TensorData::of<float>(shape, numbers(elementCount(shape), seed));
}

// Why the CPU backend has no kernel for the op as it stands, without fusion or decomposition; empty when it has one.
// op.outputs must be given.
inline std::string refusalOf(const SingleOp &op) {
  Ir ir;
  Graph &graph = ir.getMainGraph();
  std::vector<TensorIndex> inputs;
  std::vector<TensorId> outputs;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    inputs.push_back(op.inputs[i].empty() ? TensorIndex()
                                          : graph.addStream("in" + std::to_string(i), op.inputs[i].info()));
  for (int i = 0; i < op.outputs; ++i) outputs.push_back("out" + std::to_string(i));
  Op *added = graph.addConnectedOp(opDef(op.type), inputs, outputs,
                                   opDef(op.type).completeAttributes(op.attributes, op.type), Op::Settings(graph));
  std::string reason;
  return cpu::backend().supports(*added, reason) ? "" : reason;
}

inline void expectTaken(const SingleOp &op) { EXPECT_EQ(refusalOf(op), "") << op.type; }

// The op is taken, and its results have the reference's types, shapes and values; the tolerance is relative to values
// above 1 and absolute below, NaN equals NaN.
inline void compareWithReference(const SingleOp &op, double tolerance) {
  expectTaken(op);
  const auto got = runOp(op, OpBackend::Best), want = runOp(op, OpBackend::Reference);
  ASSERT_EQ(got.size(), want.size());
  for (size_t o = 0; o < got.size(); ++o) {
    ASSERT_EQ(got[o].info(), want[o].info()) << op.type;
    const auto a = got[o].asDoubles(), b = want[o].asDoubles();
    for (size_t i = 0; i < a.size(); ++i) {
      const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                        std::fabs(a[i] - b[i]) <= tolerance * std::max(1.0, std::fabs(b[i]));
      ASSERT_TRUE(same) << op.type << " output " << o << " [" << i << "]: got " << a[i] << ", expected " << b[i];
    }
  }
}

// The same bits with 1, 2, 3, 8 and 64 threads.
inline void expectSameOnThreads(const SingleOp &op) {
  const auto one = runOp(op, OpRun{OpBackend::Best, OpOperands::Plain, 1, 1});
  for (const int threads : {2, 3, 8, 64}) {
    const auto other = runOp(op, OpRun{OpBackend::Best, OpOperands::Plain, threads, 2});
    ASSERT_EQ(one.size(), other.size());
    for (size_t o = 0; o < one.size(); ++o)
      ASSERT_TRUE(one[o] == other[o]) << op.type << " output " << o << " depends on threads: 1 and " << threads;
  }
}

}  // namespace popart::test
