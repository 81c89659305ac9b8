#include "onnx/input_sizes.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <popart/error.hpp>

#include "base/nearest.hpp"
#include "onnx/reader.hpp"

namespace popart::onnx {
namespace {

using Json = nlohmann::json;
using SizesByName = std::map<std::string, Shape>;

constexpr int64_t kLargestSize = int64_t{1} << 48;  // elements of a tensor
constexpr size_t kMostNames = 20;                   // in a message

int64_t wholeNumber(std::string_view text) {  // -1: it is no number
  int64_t number = -1;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = failure == std::errc() && end == text.data() + text.size();
  return whole && number <= kLargestSize ? number : -1;
}

// The parts before and after the last '=' of each text.
SizesByName sizesOf(const std::vector<std::string> &texts, const std::string &option) {
  SizesByName sizes;
  for (const std::string &text : texts) {
    const size_t equals = text.rfind('=');
    if (equals == std::string::npos || equals == 0) throw error("{}: got '{}', expected NAME=VALUE", option, text);
    sizes[text.substr(0, equals)] = wholeNumbers(text.substr(equals + 1), option);
  }
  return sizes;
}

void checkNames(const std::string &option, const SizesByName &given, const std::vector<std::string> &known) {
  for (const auto &[name, ignored] : given) {
    if (std::ranges::find(known, name) != known.end()) continue;
    std::string hint = nearestText(name, known);
    if (hint.empty() && known.size() <= kMostNames)
      hint = fmt::format(". It has {}", known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
    else if (hint.empty())
      hint = fmt::format(". It has {}", known.size());
    throw error("{}: the model has no '{}'{}", option, name, hint);
  }
}

struct Declared {
  std::vector<Json> inputs;
  std::vector<std::string> names, leftOut;
};

Declared declaredInputs(const std::string &inputs, const SizesByName &shapes) {
  Declared found;
  for (const Json &input : Json::parse(inputs)) {
    const std::string name = input["name"];
    const auto add = [&](const std::string &id) {
      found.inputs.push_back(input);
      found.inputs.back()["name"] = id;
      found.names.push_back(id);
    };
    if (input.contains("sequence")) {
      size_t parts = 0;
      for (; shapes.contains(elementId(name, parts)); ++parts) add(elementId(name, parts));
      if (parts == 0) found.leftOut.push_back(elementId(name, 0));
    } else if (input.contains("optional") && !shapes.contains(name)) {
      found.leftOut.push_back(name);
    } else {
      add(name);
    }
  }
  return found;
}

GivenSizes checkedSizes(const Declared &declared, SizesByName shapes, const std::vector<std::string> &texts) {
  const SizesByName dims = sizesOf(texts, "--dim");
  std::vector<std::string> names = declared.names;
  names.insert(names.end(), declared.leftOut.begin(), declared.leftOut.end());
  checkNames("--shape", shapes, names);
  std::set<std::string> symbols;
  for (const Json &input : declared.inputs)
    for (const Json &dimension : input["shape"])
      if (dimension.is_string() && dimension != "?") symbols.insert(dimension.get<std::string>());
  checkNames("--dim", dims, {symbols.begin(), symbols.end()});
  GivenSizes given{std::move(shapes), {}};
  for (const auto &[name, size] : dims) {
    check(size.size() == 1, "--dim: '{}' is one dimension: got {}, expected one number", name, size);
    given.dims[name] = size[0];
  }
  return given;
}

}  // namespace

std::vector<int64_t> wholeNumbers(const std::string &text, const std::string &option) {
  std::vector<int64_t> numbers;
  for (size_t begin = 0; !text.empty() && begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    numbers.push_back(wholeNumber(std::string_view(text).substr(begin, end - begin)));
    if (numbers.back() < 0)
      throw error("{}: got '{}', expected whole numbers of 0 to 2^48 with commas between them", option, text);
    begin = end + 1;
  }
  return numbers;
}

GivenSizes givenSizes(const std::string &inputs, const std::vector<std::string> &shapes,
                      const std::vector<std::string> &dims) {
  Declared declared;
  for (const Json &input : Json::parse(inputs)) {
    if (input.contains("sequence")) continue;
    declared.inputs.push_back(input);
    declared.names.push_back(input["name"].get<std::string>());
  }
  return checkedSizes(declared, sizesOf(shapes, "--shape"), dims);
}

InputSizes inputSizes(const std::string &inputs, const std::vector<std::string> &shapeTexts,
                      const std::vector<std::string> &dimTexts) {
  SizesByName shapes = sizesOf(shapeTexts, "--shape");
  const Declared declared = declaredInputs(inputs, shapes);
  const GivenSizes given = checkedSizes(declared, std::move(shapes), dimTexts);
  InputSizes result;
  for (const std::string &name : declared.leftOut)
    result.notes.push_back(fmt::format("input '{}' is left out; say its shape with --shape {}=...", name, name));
  for (const Json &input : declared.inputs) {
    const std::string name = input["name"];
    const auto own = given.shapes.find(name);
    check(!input["type"].is_null() && (own != given.shapes.end() || !input["shape"].is_null()),
          "input '{}': the model does not say its type and shape. Use --shape, or another export", name);
    Shape shape;
    if (own != given.shapes.end()) {
      shape = own->second;
    } else {
      for (const Json &dimension : input["shape"]) {
        if (dimension.is_number()) {
          shape.push_back(dimension.get<int64_t>());
          continue;
        }
        const std::string symbol = dimension;
        const auto size = given.dims.find(symbol);
        if (size == given.dims.end()) {
          const std::string how = symbol == "?" ? "--shape " + name + "=..." : "--dim " + symbol + "=N";
          result.notes.push_back(fmt::format("input '{}': open dimension {} ({}) is taken as 1; say it with {}", name,
                                             shape.size(), symbol, how));
        }
        shape.push_back(size == given.dims.end() ? 1 : size->second);
      }
    }
    result.inputs.push_back({name, input["type"].get<std::string>(), std::move(shape)});
  }
  return result;
}

}  // namespace popart::onnx
