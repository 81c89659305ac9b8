// Runs of programs that nobody wrote on values that nobody chose: for tests of what kernels do at their limits.
#pragma once
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/cpu.hpp"
#include "program.hpp"

namespace popart::test {

// Puts a HostLoad behind every stream of the main graph and a HostStore behind every tensor of `results`.
inline void addHostIo(Graph &graph, const std::vector<TensorIndex> &results) {
  for (Tensor *stream : graph.tensorsOfType(TensorType::Stream)) {
    const std::vector<Use> uses = stream->uses();
    const Op *load = graph.addConnectedOp(opDef("HostLoad"), {stream->index()}, {graph.freeId(stream->id + "/loaded")},
                                          {{"stream", stream->id}}, Op::Settings(graph));
    for (const Use &use : uses) graph.replaceUse(use, load->outputs()[0]);
  }
  for (size_t i = 0; i < results.size(); ++i)
    graph.addConnectedOp(opDef("HostStore"), {results[i]}, {}, {{"stream", "result" + std::to_string(i)}},
                         Op::Settings(graph));
}

// Bytes of `info`: numbers around 0 for floats, small integers of both signs and now and then one that no index has.
inline std::vector<char> anyBytes(const TensorInfo &info, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<char> bytes(static_cast<size_t>(info.nbytes()));
  const size_t size = static_cast<size_t>(getDataTypeInfo(info.dataType()).nbytes);
  for (size_t at = 0; at + size <= bytes.size(); at += size) {
    const float number = static_cast<float>(random() % 1000) / 250.0f - 2.0f;
    const int64_t whole = random() % 16 ? static_cast<int64_t>(random() % 9) - 3 : static_cast<int64_t>(random());
    const uint8_t flag = random() % 2;
    const void *value = &whole;
    const double wide = number;
    if (info.dataType() == DataType::FLOAT) value = &number;
    if (info.dataType() == DataType::DOUBLE) value = &wide;
    if (info.dataType() == DataType::BOOL) value = &flag;
    std::copy_n(static_cast<const char *>(value), size, bytes.data() + at);
  }
  return bytes;
}

// Compiles the program, with host operators in it, for the reference alone and for the CPU backend, and runs it once on
// each. A run may end because a value is outside its domain, on both backends or on none: else throws internal_error.
inline void runOnBothBackends(const Ir &ir, uint64_t seed) {
  std::vector<std::string> failures;
  for (const ProgramRun::Backends &backends :
       {ProgramRun::Backends{&ref::backend()}, ProgramRun::Backends{&cpu::backend(), &ref::backend()}}) {
    ProgramRun program(ir, backends);
    for (const auto &input : program.executable().inputs) program.feed(input.id, anyBytes(input.info, seed));
    try {
      program.run();
    } catch (const runtime_error &e) {
      failures.emplace_back(e.what());
    }
  }
  if (failures.size() == 1) throw internal_error("one backend alone reports: {}", failures.front());
}

}  // namespace popart::test
