// Sequences and optional values. A sequence is a list of tensors in the importer. Its length, and the positions that
// its operators read and write, are known when the graph is built, so the program contains no sequences
// (docs/decisions/0053-static-sequences.md).
#include <algorithm>
#include <numeric>

#include <popart/error.hpp>

#include "onnx/compose.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {

const Sequence *Importer::findSequence(const std::string &name, Scope &scope) {
  if (const auto found = scope.sequences.find(name); found != scope.sequences.end()) return &found->second;
  if (scope.tensors.contains(name) || !scope.outer) return nullptr;
  const Sequence *outer = findSequence(name, *scope.outer);
  if (!outer || scope.graph == scope.outer->graph) return outer;
  Sequence inner;
  for (TensorIndex t : *outer) inner.push_back(capture(t, name, scope));
  return &(scope.sequences[name] = std::move(inner));
}

Meaning Importer::meaningOf(const std::string &name, Scope &scope) {
  if (const Sequence *sequence = findSequence(name, scope)) return *sequence;
  return resolve(name, scope);
}

void Importer::define(const std::string &name, Meaning meaning, Scope &scope) {
  if (meaning.sequence) {
    scope.sequences[name] = std::move(*meaning.sequence);
  } else {
    scope.tensors[name] = meaning.tensor;
  }
}

TensorId elementId(const std::string &name, size_t i) { return name + "/" + std::to_string(i); }

void Importer::addSequenceInput(const onnx_proto::ValueInfoProto &input, Scope &scope) {
  Sequence elements;
  for (;;) {
    const TensorId id = elementId(input.name(), elements.size());
    const auto known = scope.tensors.find(id);
    const auto info = options_.inputShapeInfo.find(id);
    if (known == scope.tensors.end() && info == options_.inputShapeInfo.end()) break;
    elements.push_back(known != scope.tensors.end() ? known->second : scope.graph->addStream(id, info->second));
  }
  const bool absent =
      elements.empty() && input.type().has_optional_type() && !options_.inputShapeInfo.contains(input.name());
  define(input.name(), absent ? Meaning() : Meaning(std::move(elements)), scope);
}

const Sequence &NodeContext::sequence(int i) const {
  const auto found = sequences_.find(i);
  require(found != sequences_.end(), "input {} must be a sequence: got {}", i,
          hasIn(i) ? toText(info(i)) : std::string("nothing"));
  return *found->second;
}

Meaning NodeContext::meaning(int i) const {
  if (hasSequence(i)) return sequence(i);
  return optionalIn(i);
}

void NodeContext::resultMeaning(int output, const Meaning &meaning) {
  if (meaning.sequence) return bindSequence(output, *meaning.sequence);
  if (!meaning.tensor.valid() || (hasOut(output) && graph().tensor(meaning.tensor).id == outputId(output)))
    return bind(output, meaning.tensor);
  resultTensor(output, meaning.tensor);
}

void NodeContext::bindSequence(int output, Sequence elements) {
  for (TensorIndex t : elements)
    require(info(t).dataType() == info(elements.front()).dataType(),
            "the tensors of a sequence must have one element type: got {} and {}", info(elements.front()), info(t));
  if (!hasOut(output)) return;
  // Each operator makes a separate list: the memory for many long ones must be limited.
  importer().takeFromBudget(static_cast<int64_t>(elements.size() * sizeof(TensorIndex)),
                            "The sequence '" + outputNames_[output] + "'");
  scope_.sequences[outputNames_[output]] = std::move(elements);
}

namespace {

constexpr int64_t kMostTensors = int64_t{1} << 16;

// The position in the optional input `i`, from 0, out of `places` positions; negative ones count from the end.
int64_t placeOf(const NodeContext &n, int i, int64_t places, int64_t fallback) {
  const int64_t at = n.hasIn(i) ? n.constantInt(i) : fallback;
  n.require(at >= -places && at < places, "position: got {}, expected from {} to {}", at, -places, places - 1);
  return at < 0 ? at + places : at;
}

int64_t lengthOf(const Sequence &s) { return static_cast<int64_t>(s.size()); }

void importSequenceEmpty(NodeContext &n) { n.bindSequence(0, {}); }

void importSequenceConstruct(NodeContext &n) {
  Sequence elements;
  for (int i = 0; i < n.inputCount(); ++i) elements.push_back(n.in(i));
  n.bindSequence(0, std::move(elements));
}

// The end is a separate position: -1 is before the last element.
void importSequenceInsert(NodeContext &n) {
  Sequence elements = n.sequence(0);
  const int64_t length = lengthOf(elements), at = n.hasIn(2) ? n.constantInt(2) : length;
  n.require(at >= -length && at <= length, "position: got {}, expected from {} to {}", at, -length, length);
  elements.insert(elements.begin() + (at < 0 ? at + length : at), n.in(1));
  n.bindSequence(0, std::move(elements));
}

void importSequenceErase(NodeContext &n) {
  Sequence elements = n.sequence(0);
  elements.erase(elements.begin() + placeOf(n, 1, lengthOf(elements), -1));
  n.bindSequence(0, std::move(elements));
}

void importSequenceAt(NodeContext &n) {
  const Sequence &elements = n.sequence(0);
  n.require(n.hasIn(1), "input 1 is missing. Connect the position to it");
  n.resultTensor(0, elements[placeOf(n, 1, lengthOf(elements), 0)]);
}

void importSequenceLength(NodeContext &n) { n.resultValue(0, TensorData::scalar<int64_t>(lengthOf(n.sequence(0)))); }

void importConcatFromSequence(NodeContext &n) {
  Composer to(n);
  n.require(!n.sequence(0).empty(), "the sequence is empty: expected at least one tensor");
  n.require(n.hasAttr("axis"), "attribute 'axis' is missing");
  const bool stacks = n.attr<int64_t>("new_axis", 0) != 0;
  const int64_t rank = n.info(n.sequence(0).front()).rank() + (stacks ? 1 : 0);
  const int64_t axis = n.axisOf(n.attr<int64_t>("axis", 0), rank);
  std::vector<Value> parts;
  for (TensorIndex t : n.sequence(0)) {
    Value part(to, t);
    n.require(part.rank() == rank - (stacks ? 1 : 0), "the tensors must have one number of dimensions: got {} and {}",
              n.info(n.sequence(0).front()), part.info());
    Shape shape = part.shape();
    if (stacks) shape.insert(shape.begin() + axis, 1);
    parts.push_back(part.reshape(shape));
  }
  to.result(0, concat(parts, axis));
}

// The sizes of the parts: as listed, or as many of one size as possible and the rest.
std::vector<int64_t> partSizes(const NodeContext &n, int64_t size) {
  if (n.hasIn(1) && n.info(1).rank() == 1) {
    const std::vector<int64_t> sizes = n.constantInts(1);
    const bool fits = std::ranges::all_of(sizes, [&](int64_t s) { return s >= 0 && s <= size; }) &&
                      std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) == size;
    n.require(fits, "split must be sizes that add up to {}: got {}", size, sizes);
    return sizes;
  }
  const int64_t chunk = n.hasIn(1) ? n.constantInt(1) : 1;
  n.require(chunk > 0, "split must be greater than 0: got {}", chunk);
  n.require(size / chunk < kMostTensors, "splits into too many tensors: got {} of size {}, expected at most {}",
            size / chunk, chunk, kMostTensors);
  std::vector<int64_t> sizes(static_cast<size_t>(size / chunk), chunk);
  if (size % chunk != 0) sizes.push_back(size % chunk);
  return sizes;
}

void importSplitToSequence(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0);
  const int64_t axis = n.axisOf(n.attr<int64_t>("axis", 0), x.rank());
  const bool dropsAxis = !n.hasIn(1) && n.attr<int64_t>("keepdims", 1) == 0;
  const std::vector<int64_t> sizes = partSizes(n, x.shape()[axis]);
  Sequence elements;
  for (const Value &part : sizes.empty() ? std::vector<Value>() : x.split(axis, sizes)) {
    Shape shape = part.shape();
    if (dropsAxis) shape.erase(shape.begin() + axis);
    elements.push_back(part.reshape(shape).tensor());
  }
  n.bindSequence(0, std::move(elements));
}

// Imports the body for each element of the first sequence; other sequences have the same length, and tensors are
// shared.
void importSequenceMap(NodeContext &n) {
  const int64_t length = lengthOf(n.sequence(0));
  std::vector<Sequence> results(static_cast<size_t>(n.outputCount()));
  for (int64_t e = 0; e < length; ++e) {
    n.importer().countNode();
    std::vector<Meaning> inputs;
    for (int i = 0; i < n.namedInputs(); ++i) {
      if (!n.hasSequence(i)) {
        inputs.emplace_back(n.optionalIn(i));
        continue;
      }
      n.require(lengthOf(n.sequence(i)) == length, "sequences must have one length: got {} and {} elements", length,
                lengthOf(n.sequence(i)));
      inputs.emplace_back(n.sequence(i)[static_cast<size_t>(e)]);
    }
    const std::string prefix = n.scope().prefix + n.firstOutput() + "/" + std::to_string(e) + "/";
    const std::vector<Meaning> outputs =
        n.importer().inlineGraph(n.graphAttribute("body"), n.scope(), prefix, {}, inputs);
    n.require(outputs.size() == results.size(), "the body must return a tensor for each output: got {}, expected {}",
              static_cast<int64_t>(outputs.size()), n.outputCount());
    for (size_t i = 0; i < outputs.size(); ++i) {
      n.require(outputs[i].tensor.valid(), "the body must return tensors: got a sequence or nothing");
      results[i].push_back(outputs[i].tensor);
    }
  }
  for (int i = 0; i < n.outputCount(); ++i) n.bindSequence(i, results[i]);
}

void importIdentity(NodeContext &n) {
  if (n.hasIn(0)) return importRegular(n);
  n.resultMeaning(0, n.meaning(0));
}

void importOptionalHasElement(NodeContext &n) {
  n.resultValue(0, TensorData::scalar<bool>(n.hasIn(0) || n.hasSequence(0)));
}

void importOptional(NodeContext &n) { n.resultMeaning(0, n.meaning(0)); }

// A value that exists is the content of the optional.
void importOptionalGetElement(NodeContext &n) {
  n.require(n.hasIn(0) || n.hasSequence(0), "the optional value is absent: expected a tensor or a sequence");
  n.resultMeaning(0, n.meaning(0));
}

}  // namespace

std::vector<ImportRule> staticSequenceRules() {
  std::vector<ImportRule> rules = {{"ai.onnx", "SequenceEmpty", importSequenceEmpty},
                                   {"ai.onnx", "SequenceConstruct", importSequenceConstruct},
                                   {"ai.onnx", "SequenceInsert", importSequenceInsert},
                                   {"ai.onnx", "SequenceErase", importSequenceErase},
                                   {"ai.onnx", "SequenceAt", importSequenceAt},
                                   {"ai.onnx", "SequenceLength", importSequenceLength},
                                   {"ai.onnx", "ConcatFromSequence", importConcatFromSequence},
                                   {"ai.onnx", "SplitToSequence", importSplitToSequence},
                                   {"ai.onnx", "OptionalHasElement", importOptionalHasElement},
                                   {"ai.onnx", "OptionalGetElement", importOptionalGetElement},
                                   {"ai.onnx", "Optional", importOptional},
                                   {"ai.onnx", "SequenceMap", importSequenceMap},
                                   {"ai.onnx", "Identity", importIdentity}};
  for (ImportRule &rule : rules) rule.takesSequences = true;
  return rules;
}

}  // namespace popart::onnx
