// LoadOrder: the host values that a run of an executable certainly loads, in order. Loads in branches, in loops of
// unknown length, and after these are not certain.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "executable/executable.hpp"

namespace popart::executable {

class LoadOrder {
 public:
  struct Load {
    int stream;
    bool entersLoop;  // in the first iteration of the innermost loop around it
  };

  LoadOrder() = default;
  explicit LoadOrder(const Executable &executable);
  void restart();                    // to the first load of a run
  std::optional<Load> next() const;  // nullopt: the loads that follow are not certain
  void advance();                    // past next(), which must not be nullopt

 private:
  // A load, or a loop over loads.
  struct Node {
    int stream = -1;
    int64_t trips = 1;
    std::vector<Node> body;
  };
  struct Frame {
    const Node *loop;
    int64_t iteration;
    size_t at;  // in its body
  };
  class Reader;
  void settle();

  Node main_;
  std::vector<Frame> frames_;
};

// Whether a run transfers more than one value of some stream; otherwise nothing can be fetched ahead.
bool movesSeveralValues(const Executable &executable);

}  // namespace popart::executable
