// A graph in which cycles of a pipeline run: where stages are called, values put into rings and taken out again.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <popart/graph.hpp>

namespace popart::transforms {

// Ops are added in program order; each call runs behind the one before.
class CycleSite {
 public:
  // `loop`: the loop that the cycles replace. In its own graph, ops take its place in program order.
  CycleSite(Graph &site, const Op &loop) : graph(site), loop_(loop) {}

  // The ops that follow belong to cycle `cycle`, or to `cycle` + iteration (INT64 scalar) in the body of a loop.
  void begin(int64_t cycle, TensorIndex iteration = {});

  // INT64 scalar: the number of the cycle `cycles` before this one.
  TensorIndex numberBefore(int64_t cycles);
  const Op &call(const Graph &callee, const std::vector<TensorIndex> &inputs, const std::vector<TensorId> &outputs,
                 const std::vector<int64_t> &modified, int64_t stage);
  // An op of this site runs behind the calls so far, and those that come run behind it.
  void follow(const Op &op);
  OpIndex first() const { return first_; }  // of the calls
  OpIndex last() const { return last_; }

  // A ring of `rows` values; the value of cycle c is row c modulo `rows`.
  TensorIndex makeRing(const TensorId &id, const TensorInfo &value, int64_t rows);
  void stash(TensorIndex ring, TensorIndex value, int64_t rows, const TensorId &id);
  TensorIndex restore(TensorIndex ring, int64_t cyclesAgo, int64_t rows, const TensorId &id);

  Graph &graph;
  std::map<TensorIndex, TensorIndex> values;  // of tensors of the old body: the last one made, or their ring

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
