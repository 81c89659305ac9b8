// Shapes of a model's inputs from texts as the commands take them: --shape INPUT=D,D and --dim NAME=N.
#pragma once
#include <map>
#include <string>
#include <vector>

#include <popart/names.hpp>

namespace popart::onnx {

// Numbers of 0 to 2^48 with commas between them; none for an empty text. Throws popart::error naming `option`.
std::vector<int64_t> wholeNumbers(const std::string &text, const std::string &option);

// `inputs` is JSON in all that follows, as describeInputs gives it, or a part of that. All throw popart::error for
// names that the inputs do not have, and for sizes that are no numbers.

struct GivenSizes {
  std::map<TensorId, Shape> shapes;
  std::map<std::string, int64_t> dims;
};
// Sizes as the texts say, of inputs that are tensors.
GivenSizes givenSizes(const std::string &inputs, const std::vector<std::string> &shapes,
                      const std::vector<std::string> &dims);

struct InputSizes {
  struct Input {
    TensorId id;
    std::string type;
    Shape shape;
  };
  std::vector<Input> inputs;       // all that a run has
  std::vector<std::string> notes;  // on open dimensions that are taken as 1, and on inputs left out
};
// The tensors of a sequence are "name/0", "name/1", … as far as `shapes` names them; an optional input is there when
// `shapes` names it. Throws popart::error for an input of which nothing says the type or the shape as well.
InputSizes inputSizes(const std::string &inputs, const std::vector<std::string> &shapes,
                      const std::vector<std::string> &dims);

}  // namespace popart::onnx
