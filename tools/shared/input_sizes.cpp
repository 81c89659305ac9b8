#include "shared/input_sizes.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/nearest.hpp"
#include "onnx/describe.hpp"
#include "shared/command.hpp"

namespace popart::tools {
namespace {

using Json = nlohmann::json;
using Sizes = std::map<std::string, Shape>;

constexpr int64_t kLargest = int64_t{1} << 48;  // elements of a tensor
constexpr size_t kMostNames = 20;               // in a message

int64_t wholeNumber(std::string_view text) {  // -1: it is none
  int64_t number = -1;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = failure == std::errc() && end == text.data() + text.size();
  return whole && number <= kLargest ? number : -1;
}

Shape wholeNumbers(const std::string &text, const std::string &option) {
  Shape numbers;
  for (size_t begin = 0; !text.empty() && begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    numbers.push_back(wholeNumber(std::string_view(text).substr(begin, end - begin)));
    if (numbers.back() < 0)
      throw UsageError(
          fmt::format("{}: got '{}', expected whole numbers of 0 to 2^48 with commas between them", option, text));
    begin = end + 1;
  }
  return numbers;
}

// The parts before and after the last '=' of each text.
Sizes sizesOf(const std::vector<std::string> &texts, const std::string &option) {
  Sizes sizes;
  for (const std::string &text : texts) {
    const size_t equals = text.rfind('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError(fmt::format("{}: got '{}', expected NAME=VALUE", option, text));
    sizes[text.substr(0, equals)] = wholeNumbers(text.substr(equals + 1), option);
  }
  return sizes;
}

void checkNames(const std::string &option, const Sizes &given, const std::vector<std::string> &known) {
  for (const auto &[name, ignored] : given) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::vector<std::string> near = nearest(name, known);
    std::string hint = fmt::format(". It has {}", known.size());
    if (!near.empty())
      hint = fmt::format(". Nearest names: {}", fmt::join(near, ", "));
    else if (known.size() <= kMostNames)
      hint = fmt::format(". It has {}", known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
    throw UsageError(fmt::format("{}: the model has no '{}'{}", option, name, hint));
  }
}

struct Declared {
  std::vector<Json> inputs;
  std::vector<std::string> names, leftOut;
};

Declared declaredInputs(const onnx::Model &model, const Sizes &shapes) {
  Declared found;
  for (const Json &input : Json::parse(onnx::describeInputs(model))) {
    const std::string name = input["name"];
    const auto add = [&](const std::string &id) {
      found.inputs.push_back(input);
      found.inputs.back()["name"] = id;
      found.names.push_back(id);
    };
    if (input.contains("sequence")) {
      size_t parts = 0;
      for (; shapes.contains(onnx::elementId(name, parts)); ++parts) add(onnx::elementId(name, parts));
      if (parts == 0) found.leftOut.push_back(onnx::elementId(name, 0));
    } else if (input.contains("optional") && !shapes.contains(name)) {
      found.leftOut.push_back(name);
    } else {
      add(name);
    }
  }
  return found;
}

Sizes checkedSizes(const Declared &declared, const Sizes &shapes, const std::vector<std::string> &texts) {
  Sizes dims = sizesOf(texts, "--dim");
  std::vector<std::string> names = declared.names;
  names.insert(names.end(), declared.leftOut.begin(), declared.leftOut.end());
  checkNames("--shape", shapes, names);
  std::set<std::string> symbols;
  for (const Json &input : declared.inputs)
    for (const Json &dimension : input["shape"])
      if (dimension.is_string() && dimension != "?") symbols.insert(dimension.get<std::string>());
  checkNames("--dim", dims, {symbols.begin(), symbols.end()});
  for (const auto &[name, size] : dims)
    if (size.size() != 1)
      throw UsageError(
          fmt::format("--dim: '{}' is one dimension: got [{}], expected one number", name, fmt::join(size, ", ")));
  return dims;
}

}  // namespace

InputSizes inputSizes(const onnx::Model &model, const std::vector<std::string> &shapeTexts,
                      const std::vector<std::string> &dimTexts) {
  const Sizes shapes = sizesOf(shapeTexts, "--shape");
  const Declared declared = declaredInputs(model, shapes);
  const Sizes dims = checkedSizes(declared, shapes, dimTexts);
  InputSizes result;
  for (const std::string &name : declared.leftOut)
    result.notes.push_back(fmt::format("input '{}' is left out; say its shape with --shape {}=...", name, name));
  for (const Json &input : declared.inputs) {
    const std::string name = input["name"];
    const auto given = shapes.find(name);
    if (input["type"].is_null() || (given == shapes.end() && input["shape"].is_null()))
      throw UsageError(
          fmt::format("input '{}': the model does not say its type and shape. Use --shape, or another export", name));
    Shape shape;
    if (given != shapes.end()) {
      shape = given->second;
    } else {
      for (const Json &dimension : input["shape"]) {
        if (dimension.is_number()) {
          shape.push_back(dimension.get<int64_t>());
          continue;
        }
        const std::string symbol = dimension;
        const auto size = dims.find(symbol);
        if (size == dims.end()) {
          const std::string how = symbol == "?" ? "--shape " + name + "=..." : "--dim " + symbol + "=N";
          result.notes.push_back(fmt::format("input '{}': open dimension {} ({}) is taken as 1; say it with {}", name,
                                             shape.size(), symbol, how));
        }
        shape.push_back(size == dims.end() ? 1 : size->second[0]);
      }
    }
    result.infos[name] = TensorInfo(dataTypeFromString(input["type"].get<std::string>()), shape);
  }
  return result;
}

}  // namespace popart::tools
