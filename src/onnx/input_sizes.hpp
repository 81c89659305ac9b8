// Shapes of a model's inputs from the texts of command-line options: --shape INPUT=D,D and --dim NAME=N.
#pragma once
#include <map>
#include <string>
#include <vector>

#include <popart/names.hpp>

namespace popart::onnx {

// Numbers from 0 to 2^48, separated by commas; none for an empty text. Throws popart::error with `option`.
std::vector<int64_t> wholeNumbers(const std::string &text, const std::string &option);

// In all functions below, `inputs` is the JSON of describeInputs, or a part of it. All throw popart::error for unknown
// names and for sizes that are no numbers.

struct GivenSizes {
  std::map<TensorId, Shape> shapes;
  std::map<std::string, int64_t> dims;
};
// The sizes that the texts state, for inputs that are tensors.
GivenSizes givenSizes(const std::string &inputs, const std::vector<std::string> &shapes,
                      const std::vector<std::string> &dims);

struct InputSizes {
  struct Input {
    TensorId id;
    std::string type;
    Shape shape;
  };
  std::vector<Input> inputs;       // all inputs of a run
  std::vector<std::string> notes;  // about open dimensions that are set to 1, and about inputs that are left out
};
// The tensors of a sequence are "name/0", "name/1", …, as many as `shapes` names; an optional input is present if
// `shapes` names it. Also throws popart::error for an input whose type or shape is not stated anywhere.
InputSizes inputSizes(const std::string &inputs, const std::vector<std::string> &shapes,
                      const std::vector<std::string> &dims);

}  // namespace popart::onnx
