// LoadOrder: which values of the host a run of an executable loads for certain, in order. Loads in branches, in loops
// of unknown length and behind them are not certain.
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
  std::optional<Load> next() const;  // none: what follows is not certain
  void advance();                    // past next(), which there is

 private:
  // A load, or a loop over some.
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

// Whether a run moves more than one value of some stream: only then something can be done ahead.
bool movesSeveralValues(const Executable &executable);

}  // namespace popart::executable
