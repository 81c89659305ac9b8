// A program as numbers and texts that do not depend on ids: graphs are numbered by first call, ops are in program
// order, tensors are numbered by first mention. This stream defines structural equality; comparison and hashes both
// read it.
#pragma once
#include <functional>
#include <string_view>

#include <popart/ir.hpp>

namespace popart {

class CanonicalSink {
 public:
  virtual ~CanonicalSink() = default;
  virtual void number(int64_t v) = 0;
  virtual void text(std::string_view v) = 0;
  virtual void values(const TensorData &v) = 0;          // consts and tensor attributes
  virtual void variableValues(const TensorData &v) = 0;  // initial values of variables
};

// The main graph, the graphs it calls in order of first mention, then uncalled graphs (and what they call) by id.
void writeCanonical(const Ir &ir, CanonicalSink &sink);
// One graph and the graphs it calls.
void writeCanonical(const Graph &graph, CanonicalSink &sink);

}  // namespace popart
