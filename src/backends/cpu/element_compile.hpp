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

// What the compiler knows of one input: its element type, how the loop reads it, and its value when that is one known
// number.
struct ElementInput {
  DataType type = DataType::FLOAT;  // of its memory; FLOAT may hold numbers rounded to the 16 bits of the graph's input
  bool isOne = false;               // one value for a whole block (whole tensor, or a loop row)
  const TensorData *constant = nullptr;
};

// The computation: `ops` in order, each reading results of earlier ones, the tensors `inputs` (by position) or
// constants of the graph; results are the tensors `outputs`.
struct ElementSource {
  // The operand that an input is read from, and where, if it is no whole operand.
  struct Place {
    int operand;
    std::optional<ops::StridedView> view;
  };
  const Graph *graph = nullptr;
  std::vector<const Op *> ops;
  std::vector<TensorIndex> inputs;
  std::vector<TensorIndex> outputs;
  std::vector<Place> places = {};  // by input; empty: each is the operand of its number
};

// The whole of a graph of element-wise ops and strided views of its inputs, which are inputs of the computation.
ElementSource elementSource(const Graph &body);

// Types of all operators that have instructions.
std::vector<const char *> elementTypes();

// Fills program.code, constants and temporaries; the result is the cost per element. nullopt and a reason when an op or
// an element type has no instruction.
std::optional<int> compileElements(const ElementSource &source, const std::vector<ElementInput> &inputs,
                                   ElementProgram &program, std::string &reason);

}  // namespace popart::cpu
