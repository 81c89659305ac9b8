// Builds the cycles of a pipeline in a graph: calls of stages, and writes and reads of ring buffers.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <popart/graph.hpp>

namespace popart::transforms {

// Ops are added in program order; each call runs after the previous one.
class CycleSite {
 public:
  // `loop`: the loop that the cycles replace. In the graph of the loop, ops take its place in program order.
  CycleSite(Graph &site, const Op &loop) : graph(site), loop_(loop) {}

  // The following ops belong to cycle `cycle`, or in the body of a loop to `cycle` + iteration (INT64 scalar).
  void begin(int64_t cycle, TensorIndex iteration = {});

  // INT64 scalar: the number of the current cycle minus `cycles`.
  TensorIndex numberBefore(int64_t cycles);
  const Op &call(const Graph &callee, const std::vector<TensorIndex> &inputs, const std::vector<TensorId> &outputs,
                 const std::vector<int64_t> &modified, int64_t stage);
  // Makes `op` run after the previous calls and before the following ones.
  void follow(const Op &op);
  OpIndex first() const { return first_; }  // the first call
  OpIndex last() const { return last_; }

  // Makes a ring buffer of `rows` values; the value of cycle c is row c modulo `rows`.
  TensorIndex makeRing(const TensorId &id, const TensorInfo &value, int64_t rows);
  void stash(TensorIndex ring, TensorIndex value, int64_t rows, const TensorId &id);
  TensorIndex restore(TensorIndex ring, int64_t cyclesAgo, int64_t rows, const TensorId &id);

  Graph &graph;
  std::map<TensorIndex, TensorIndex> values;  // of tensors of the old body: the last value, or the ring buffer

 private:
  TensorIndex number(int64_t value);
  TensorIndex rowOf(int64_t cyclesAgo, int64_t rows);
  Op::Settings settings(const std::string &name) const;
  TensorIndex emit(const char *type, const std::vector<TensorIndex> &inputs, const TensorId &id,
                   Attributes attributes = {});

  const Op &loop_;
  int64_t cycle_ = 0;
  TensorIndex iteration_;
  OpIndex first_, last_;
  std::map<int64_t, TensorIndex> numbers_, sums_;            // constants; iteration plus a number
  std::map<std::pair<int64_t, int64_t>, TensorIndex> rows_;  // iteration plus a number, modulo another
};

}  // namespace popart::transforms
