// From operators to instructions of the element-wise engine.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <popart/graph.hpp>

#include "backends/cpu/vector/element_program.hpp"
#include "ops/shape/strided_view.hpp"

namespace popart::cpu {

// Facts about one input: its element type, how the loop reads it, and its value if it is one known number.
struct ElementInput {
  // Of its memory; if the graph's input has 16 bits, FLOAT values may be rounded to them.
  DataType type = DataType::FLOAT;
  bool isOne = false;  // one value for a whole block (whole tensor, or a row of the loop)
  const TensorData *constant = nullptr;
};

// The computation: `ops` in order. Each reads results of earlier ones, the tensors `inputs` (by position) or constants
// of the graph. Results are the tensors `outputs`.
struct ElementSource {
  // The operand from which an input is read, and the view of it unless it is the whole operand.
  struct Place {
    int operand;
    std::optional<ops::StridedView> view;
  };
  const Graph *graph = nullptr;
  std::vector<const Op *> ops;
  std::vector<TensorIndex> inputs;
  std::vector<TensorIndex> outputs;
  std::vector<Place> places = {};  // by input; empty: input i is operand i
};

// The computation of a whole graph of element-wise ops. Strided views of the graph's inputs become inputs of the
// computation.
ElementSource elementSource(const Graph &body);

// Types of all operators that have instructions.
std::vector<const char *> elementTypes();

// Fills program.code, constants and temporaries, and returns the cost per element. nullopt and a reason if an op or an
// element type has no instruction.
std::optional<int> compileElements(const ElementSource &source, const std::vector<ElementInput> &inputs,
                                   ElementProgram &program, std::string &reason);

}  // namespace popart::cpu
