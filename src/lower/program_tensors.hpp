// Numbers for the tensors of all graphs that run, so that a pass can put tensors of different graphs into one set; and
// loop-carried values, which have four names each.
#pragma once
#include <unordered_map>
#include <vector>

#include <popart/ir.hpp>

#include "schedule/schedule.hpp"

namespace popart::lower {

class ProgramTensors {
 public:
  explicit ProgramTensors(const Ir &program) : graphs_(schedule::programGraphs(program)) {
    for (const Graph *graph : graphs_) {
      first_.emplace(graph, size_);
      size_ += static_cast<uint32_t>(graph->tensorSlots());
    }
  }
  const std::vector<Graph *> &graphs() const { return graphs_; }
  uint32_t size() const { return size_; }  // numbers are below this; tensors made later have none
  uint32_t number(const Graph &graph, TensorIndex t) const { return first_.at(&graph) + t.value; }

 private:
  std::vector<Graph *> graphs_;
  std::unordered_map<const Graph *, uint32_t> first_;
  uint32_t size_ = 0;
};

// One loop-carried value.
struct Carried {
  int input;           // of the loop
  TensorIndex outer;   // the loop's input
  TensorIndex inner;   // input of the body
  TensorIndex next;    // output of the body
  TensorIndex result;  // output of the loop; invalid when not connected
  int output;          // of the body
};

// In the order of the loop's inputs.
inline std::vector<Carried> carriedBy(const Op &loop) {
  const Graph &body = *loop.getCalledGraphs().front();
  std::vector<Carried> result;
  for (int i = 2; i < loop.inputCount(); ++i) {
    const int output = i - 1;
    result.push_back({i, loop.inputs()[static_cast<size_t>(i)], body.inputs()[static_cast<size_t>(i)],
                      body.outputs()[static_cast<size_t>(output)],
                      loop.hasOutput(i - 2) ? loop.outputs()[static_cast<size_t>(i - 2)] : TensorIndex{}, output});
  }
  return result;
}

}  // namespace popart::lower
