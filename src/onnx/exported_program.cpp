// Numbers of exported programs, by metadata `pkg.torch.export.ExportedProgram.graph_signature` of the graph and
// `pkg.torch.onnx.fx_node` of its nodes. Texts are untrusted: what does not parse lists nothing.
#include "onnx/exported_program.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <string_view>
#include <vector>

#include "onnx/model_content.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

constexpr std::string_view kSignature = "pkg.torch.export.ExportedProgram.graph_signature";
constexpr std::string_view kCall = "pkg.torch.onnx.fx_node";

template <class Message>
std::string_view metadata(const Message &message, std::string_view key) {
  for (const auto &entry : message.metadata_props())
    if (entry.key() == key) return entry.value();
  return {};
}

// What stands between `before` and the next quote; empty when there is none. `rest` moves behind it.
std::string quoted(std::string_view &rest, std::string_view before) {
  const size_t start = rest.find(before);
  if (start == std::string_view::npos) return {};
  rest.remove_prefix(start + before.size());
  const size_t end = rest.find('\'');
  if (end == std::string_view::npos) return {};
  std::string text(rest.substr(0, end));
  rest.remove_prefix(end);
  return text;
}

// Name in calls -> name of the initializer, from lines "p_fc_weight: PARAMETER target='fc.weight'" or, as older
// releases print it, "InputSpec(kind=<InputKind.PARAMETER: 2>, arg=TensorArgument(name='p_fc_weight'),
// target='fc.weight', ...".
std::map<std::string, std::string> parametersOf(std::string_view signature) {
  std::map<std::string, std::string> parameters;
  constexpr std::string_view kLine = ": PARAMETER ", kSpec = "<InputKind.PARAMETER";
  for (std::string_view rest = signature; rest.find(kLine) != std::string_view::npos;) {
    const size_t end = rest.find(kLine), newline = rest.rfind('\n', end);
    const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
    const std::string name(rest.substr(start, end - start));
    rest.remove_prefix(end);
    parameters[name] = quoted(rest, "target='");
  }
  for (std::string_view rest = signature; rest.find(kSpec) != std::string_view::npos;) {
    rest.remove_prefix(rest.find(kSpec) + kSpec.size());
    const std::string name = quoted(rest, "name='");
    parameters[name] = quoted(rest, "target='");
  }
  return parameters;
}

// Names after "%" in the text of a call.
std::set<std::string> valuesIn(std::string_view call) {
  constexpr std::string_view kName = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  std::set<std::string> names;
  for (size_t at = call.find('%'); at != std::string_view::npos; at = call.find('%', at + 1)) {
    const size_t end = std::min(call.find_first_not_of(kName, at + 1), call.size());
    names.emplace(call.substr(at + 1, end - at - 1));
  }
  return names;
}

struct Candidate {
  std::string name;
  int64_t elements;
  int lastReader;
};

// The nodes of one call: the initializers they read that are no parameter by name, and the parameters they read.
struct Call {
  std::map<std::string, Candidate> candidates;
  std::set<std::string> parameters;
};

class Program {
 public:
  Program(const onnx_proto::GraphProto &graph, std::map<std::string, std::string> parameters)
      : graph_(graph), parameters_(std::move(parameters)) {
    std::set<std::string> targets;
    for (const auto &entry : parameters_) targets.insert(entry.second);
    for (const auto &tensor : graph.initializer()) {
      shapes_[tensor.name()] = tensorInfo(tensor, tensor.name()).shape();
      if (!targets.count(tensor.name())) unlisted_.insert(tensor.name());
    }
  }

  ExportedNumbers numbers() {
    for (int i = 0; i < graph_.node_size(); ++i) readBy(i);
    for (const auto &[text, call] : calls_) {
      const size_t stored = storedOtherwise(text);
      for (const Candidate &c : largest(call, stored)) kept_.insert(c.name);
    }
    ExportedNumbers numbers;
    for (const auto &name : read_)
      if (!kept_.count(name)) numbers.names.insert(name);
    for (const auto &[text, call] : calls_)
      for (const auto &entry : call.candidates)
        if (numbers.names.count(entry.first)) findOriginal(entry.first, text, call, numbers.copies);
    return numbers;
  }

 private:
  void readBy(int i) {
    const auto &node = graph_.node(i);
    const std::string_view text = metadata(node, kCall);
    // Running statistics are state that the node itself updates.
    const bool foreign = text.empty() || node.op_type() == "BatchNormalization";
    for (const auto &name : node.input()) {
      if (!shapes_.count(name)) continue;
      if (!unlisted_.count(name)) {
        if (!text.empty()) calls_[text].parameters.insert(name);
        continue;
      }
      if (foreign)
        kept_.insert(name);
      else
        calls_[text].candidates[name] = {name, elementCount(shapes_.at(name)), i};
      read_.insert(name);
    }
    // A subgraph reads by name what it likes.
    for (const auto &attribute : node.attribute())
      if (attribute.has_g()) keepWhatIsRead(attribute.g());
  }

  void keepWhatIsRead(const onnx_proto::GraphProto &body) {
    for (const auto &node : body.node()) {
      for (const auto &name : node.input()) kept_.insert(name);
      for (const auto &attribute : node.attribute())
        if (attribute.has_g()) keepWhatIsRead(attribute.g());
    }
  }

  // Parameters of a call that no initializer has the name of.
  size_t storedOtherwise(std::string_view text) const {
    size_t count = 0;
    for (const auto &name : valuesIn(text))
      if (auto found = parameters_.find(name); found != parameters_.end()) count += shapes_.count(found->second) == 0;
    return count;
  }

  void findOriginal(const std::string &copy, std::string_view text, const Call &call,
                    std::map<std::string, std::string> &copies) const {
    const Shape &shape = shapes_.at(copy);
    for (const auto &name : valuesIn(text)) {
      const auto parameter = parameters_.find(name);
      if (parameter == parameters_.end() || call.parameters.count(parameter->second)) continue;
      const auto original = shapes_.find(parameter->second);
      if (original == shapes_.end() || shape.size() != 2) continue;
      if (original->second == Shape{shape[1], shape[0]}) copies[copy] = parameter->second;
    }
  }

  // Parameters are larger than the other numbers of their call; among equal sizes they are read last.
  static std::vector<Candidate> largest(const Call &call, size_t count) {
    std::vector<Candidate> sorted;
    for (const auto &entry : call.candidates) sorted.push_back(entry.second);
    std::stable_sort(sorted.begin(), sorted.end(), [](const Candidate &a, const Candidate &b) {
      return a.elements != b.elements ? a.elements > b.elements : a.lastReader > b.lastReader;
    });
    sorted.resize(std::min(count, sorted.size()));
    return sorted;
  }

  const onnx_proto::GraphProto &graph_;
  std::map<std::string, std::string> parameters_;
  std::map<std::string, Shape> shapes_;  // of initializers
  std::set<std::string> unlisted_;       // initializers that are no parameter by name
  std::set<std::string> read_, kept_;    // unlisted ones that nodes read, and those of them that are no numbers
  std::map<std::string_view, Call> calls_;
};

}  // namespace

ExportedNumbers numbersOfExportedProgram(const onnx_proto::GraphProto &graph) {
  std::map<std::string, std::string> parameters = parametersOf(metadata(graph, kSignature));
  if (parameters.empty()) return {};
  return Program(graph, std::move(parameters)).numbers();
}

TensorData transposedMatrix(const TensorData &matrix) {
  const Shape &shape = matrix.info().shape();
  const size_t rows = static_cast<size_t>(shape.at(0)), columns = static_cast<size_t>(shape.at(1));
  TensorData result(TensorInfo(matrix.info().dataType(), {shape[1], shape[0]}));
  if (result.nbytes() == 0) return result;
  const size_t size = static_cast<size_t>(matrix.nbytes()) / (rows * columns);
  const char *from = static_cast<const char *>(matrix.data());
  char *to = static_cast<char *>(result.mutableData());
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c) std::memcpy(to + (c * rows + r) * size, from + (r * columns + c) * size, size);
  return result;
}

std::map<std::string, std::string> transposedCopies(const ModelContent &model) {
  const onnx_proto::GraphProto &graph = model.proto->graph();
  std::map<std::string, std::string> copies = numbersOfExportedProgram(graph).copies;
  if (copies.empty()) return copies;
  std::map<std::string, const onnx_proto::TensorProto *> tensors;
  for (const auto &tensor : graph.initializer()) tensors[tensor.name()] = &tensor;
  auto valueOf = [&](const std::string &name) { return tensorData(*tensors.at(name), name, model); };
  for (auto it = copies.begin(); it != copies.end();) {
    const TensorData copy = valueOf(it->first), original = valueOf(it->second);
    const bool same = copy.info().dataType() == original.info().dataType() &&
                      std::memcmp(copy.data(), transposedMatrix(original).data(), copy.nbytes()) == 0;
    it = same ? std::next(it) : copies.erase(it);
  }
  return copies;
}

}  // namespace popart::onnx
