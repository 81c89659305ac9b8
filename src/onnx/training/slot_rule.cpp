// The rule of slots. Ordinary operands are classified by the operator, by where the other operands come from, and by
// their values.
#include "onnx/training/slot_rule.hpp"

#include <algorithm>
#include <set>

#include "onnx/training/data_tables.hpp"
#include "onnx/training/operand_slots.hpp"
#include "onnx/training/tensor_values.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

using Kind = Verdict::Kind;

Shape shapeOf(const FlatInitializer &i) { return Shape(i.tensor->dims().begin(), i.tensor->dims().end()); }

int64_t wideDimensions(const Shape &shape) {
  return std::ranges::count_if(shape, [](int64_t d) { return d != 1; });
}

// How many numbers must follow a formula: integers in general, and integers of a bias or scale by channel.
constexpr int64_t kFewestWhole = 4, kFewestOfChannels = 16;
constexpr const char *kByFormula = "numbers of a formula";

// How a value was made from the initializer.
struct Way {
  int value = -1;
  bool isComputed = false;  // with other initializers
  bool isLooked = false;    // rows of it, by look-up
  bool isConstant = false;  // equal numbers, joined with or written over others
  bool isPart = false;      // together with others
};

bool isByFormula(const TensorData &values) {
  return !isMask(values) && (isTableOfSines(values) || isWholeNumbers(values, kFewestWhole) || isProgression(values) ||
                             isFewNumbers(values));
}

std::string readAs(const FlatNode &node, int input) { return operandName(node, input) + " of " + node.text; }

}  // namespace

// One initializer and the results for it so far.
struct SlotRule::Walk {
  const FlatInitializer &initializer;
  Shape shape = shapeOf(initializer);
  int64_t elements = elementCount(shape);
  std::set<int> seen = {};  // values
  Verdict verdict = {};
  Way way = {};             // of the reading that is being classified
  bool isOfPicked = false;  // starts at elements that were picked

  void take(Verdict v) {
    const bool isTable = verdict.isTable || v.isTable;
    if (v.kind > verdict.kind || (v.kind == verdict.kind && verdict.doubtful && !v.doubtful)) verdict = std::move(v);
    verdict.isTable = isTable;
  }
};

Verdict SlotRule::of(const FlatInitializer &initializer, const std::vector<int> &apart) const {
  if (const int reader = tables_[model_.initializer[initializer.value]]; reader >= 0)
    return dataVerdict(initializer, reader);
  Walk walk{initializer};
  walk.seen.insert(apart.begin(), apart.end());
  follow(walk, initializer.value);
  return walk.verdict;
}

Verdict SlotRule::ofOutput(const FlatInitializer &initializer, int value) const {
  if (const int reader = tables_[model_.initializer[initializer.value]]; reader >= 0)
    return dataVerdict(initializer, reader);
  Walk walk{initializer};
  follow(walk, value);
  return walk.verdict;
}

void SlotRule::follow(Walk &walk, int value) const {
  std::vector<Way> open{{value}};
  while (!open.empty()) {
    const Way way = open.back();
    open.pop_back();
    if (!walk.seen.insert(way.value).second) continue;
    for (const FlatUse &use : model_.uses[way.value]) {
      const FlatNode &node = model_.nodes[use.node];
      Reading reading = readingOf(node, use.input);
      const bool isFactors = reading == Reading::Looked && isFactorTable(use.node);
      if (isFactors) reading = Reading::Carried;
      walk.way = way;
      if (reading == Reading::Carried || (reading == Reading::Operand && isStaticNode(node))) {
        Way next = way;
        const bool isPartOfIt = reading == Reading::Operand && isPart(node, use.input);
        next.isPart |= isPartOfIt;
        next.isComputed |= reading == Reading::Operand && !isPartOfIt;
        next.isLooked |= isFactors;
        next.isConstant |= isPartOfIt && !next.isComputed && isConstantPart(node, use.input);
        for (int output : node.outputs)
          if ((next.value = output) >= 0) open.push_back(next);
        continue;
      }
      // Elements of a setting may be picked.
      if (reading == Reading::Looked && isStaticNode(node) && node.outputs[0] >= 0 && !walk.isOfPicked) {
        Walk picked{walk.initializer};
        picked.isOfPicked = true;
        follow(picked, node.outputs[0]);
        if (picked.verdict.kind == Kind::Setting || picked.verdict.kind == Kind::Statistic) {
          walk.take(picked.verdict);
          continue;
        }
      }
      if (way.isConstant && !isOneOf(node.type, {"RNN", "GRU", "LSTM"}))
        walk.take({Kind::Stays, "equal numbers and others in a value that becomes " + readAs(node, use.input), true});
      else
        walk.take(reading == Reading::Operand ? plain(walk, use) : read(walk, use));
    }
  }
}

// Whether the operand has only equal numbers and other elements of the result do not: zeros for a bias that keys do not
// have, zeros written over a part of a bias, or zeros into which a bias is written.
bool SlotRule::isConstantPart(const FlatNode &node, int input) const {
  if (!isUniformValue(node.inputs[static_cast<size_t>(input)])) return false;
  if (isWriting(node) && input == 2) return true;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (static_cast<int>(i) != input && isPart(node, static_cast<int>(i)) && node.inputs[i] >= 0 &&
        !isUniformValue(node.inputs[i]))
      return true;
  return false;
}

// Whether a value has only equal numbers: an initializer or constant, through views.
bool SlotRule::isUniformValue(int value) const {
  while (value >= 0 && model_.initializer[value] < 0 && model_.producer[value] >= 0) {
    const FlatNode &node = model_.nodes[model_.producer[value]];
    if (node.inputs.empty() || node.type == "ConstantOfShape") return true;
    if (readingOf(node, 0) != Reading::Carried) return false;
    value = node.inputs[0];
  }
  const int initializer = value < 0 ? -1 : model_.initializer[value];
  return initializer >= 0 && isUniform(valueOf_(model_.initializers[static_cast<size_t>(initializer)]));
}

Verdict SlotRule::dataVerdict(const FlatInitializer &initializer, int reader) const {
  const TensorData values = valueOf_(initializer);
  const std::string as = readAs(model_.nodes[reader], 0);
  if (isTableOfSines(values)) return {Kind::Stays, "table of sines: " + as};
  if (isByFormula(values)) return {Kind::Stays, std::string(kByFormula) + ": " + as, true};
  return {Kind::Stays, "data of a layer: " + as, true};
}

// A factor or term of a parameter that the model computes from several tensors is also a parameter unless it is a
// number or a mask.
Verdict SlotRule::read(const Walk &walk, const FlatUse &use) const {
  const FlatNode &node = model_.nodes[use.node];
  const std::string as = readAs(node, use.input);
  switch (readingOf(node, use.input)) {
    case Reading::Statistic:
      return {Kind::Statistic, "statistic: " + as + ", which updates it in training form"};
    case Reading::Setting:
      return {Kind::Setting, "setting: " + as};
    case Reading::Looked:
      if (isTableOfSines(valueOf_(walk.initializer))) return {Kind::Stays, "table of sines, looked up by " + node.text};
      return {.kind = Kind::Parameter, .reason = "table: " + as, .isTable = true};
    default:
      break;
  }
  if ((walk.way.isComputed || walk.way.isPart) && walk.elements <= 1)
    return {Kind::Stays, "one number in a value that becomes " + as};
  const TensorData values = valueOf_(walk.initializer);
  if (walk.way.isComputed && isMask(values)) return {Kind::Stays, "mask in a value that becomes " + as};
  if (walk.way.isComputed && (isWholeNumbers(values, kFewestWhole) || isProgression(values)))
    return {Kind::Stays, "numbers of a formula in a value that becomes " + as, true};
  if (node.type == "InstanceNormalization" && isUniform(values) && isScaledAgain(node))
    return {Kind::Stays, "constant of a norm of groups: " + as, true};
  if (isGeometricProgression(values)) return {Kind::Stays, "frequencies: " + as, true};
  return {Kind::Parameter, "parameter: " + as};
}

Verdict SlotRule::plain(const Walk &walk, const FlatUse &use) const {
  const FlatNode &node = model_.nodes[use.node];
  const std::string as = readAs(node, use.input);
  if (walk.elements <= 1) return {.kind = Kind::Stays, .reason = "one number: " + as, .isUsual = true};
  if (isWriting(node) && use.input == 0 && isUniform(valueOf_(walk.initializer)))
    return {Kind::Setting, "setting: equal numbers, " + as};
  if (isOneOf(node.type, {"Sub", "Div", "Mod", "Fmod", "Remainder"}) && isKnownOperator(node))
    return {.kind = Kind::Stays, .reason = "subtracts or divides: " + as, .isUsual = true};
  const std::string formula = formulaOf(walk, use);
  if (!formula.empty() && (isKnownOperator(node) || formula != kByFormula))
    return {Kind::Stays, formula + ": " + as, formula == kByFormula};
  if (!isKnownOperator(node)) return {Kind::Trains, "operand of a custom operator: " + as, true};
  if (node.type == "Mul") return plainProduct(walk, use);
  if (!followsParameters(node, use.input)) return plainOfInput(walk, use);
  if (isOneOf(node.type, {"Add", "Sum"})) return {Kind::Trains, "bias: " + as, wideDimensions(walk.shape) > 1};
  if (node.type == kState || (node.type != "Concat" && isUniform(valueOf_(walk.initializer))))
    return {Kind::Stays, "constant: " + as, true};
  return {Kind::Trains, "plain operand after parameters: " + as, true};
}

// Why the values are those of a constant: mask, sines, a formula; empty: there is no such reason. A bias or a scale by
// channel may have integers by choice, so more of them are required.
std::string SlotRule::formulaOf(const Walk &walk, const FlatUse &use) const {
  const TensorData values = valueOf_(walk.initializer);
  if (isMask(values)) return "mask";
  if (isTableOfSines(values)) return "table of sines";
  const FlatNode &node = model_.nodes[use.node];
  if (wideDimensions(walk.shape) == 1 && isOneOf(node.type, {"Add", "Sum", "Mul"}))
    return isWholeNumbers(values, kFewestOfChannels) || isGeometricProgression(values) ? kByFormula : "";
  const bool isFew = !walk.way.isComputed && isFewNumbers(values);
  return isFew || isWholeNumbers(values, kFewestWhole) || isProgression(values) ? kByFormula : "";
}

// For operands with no operator with parameters before them: a token that is joined to an input of the model, or a
// table of positions that is added to it. A term by channel may be the mean of a normalisation; equal numbers may be
// padding.
Verdict SlotRule::plainOfInput(const Walk &walk, const FlatUse &use) const {
  const FlatNode &node = model_.nodes[use.node];
  const std::string as = readAs(node, use.input);
  if (isOfInput(node, use.input)) {
    if (node.type == "Concat" && !isUniform(valueOf_(walk.initializer)))
      return {Kind::Trains, "joined to an input: " + as, true};
    if (isOneOf(node.type, {"Add", "Sum"}) && wideDimensions(walk.shape) > 1)
      return {Kind::Trains, "added to an input: " + as, true};
  }
  return {Kind::Stays, "constant: " + as + ", which no parameter comes before", true};
}

Verdict SlotRule::plainProduct(const Walk &walk, const FlatUse &use) const {
  const FlatNode &node = model_.nodes[use.node];
  const std::string as = readAs(node, use.input);
  if (isNormalisationOfInput(node, use.input)) return {Kind::Stays, "normalisation of an input: " + as, true};
  const bool isAfterParameters = followsParameters(node, use.input);
  if (walk.way.isLooked && wideDimensions(walk.shape) == 1) return {Kind::Stays, "factors by look-up: " + as, true};
  if (wideDimensions(walk.shape) == 1) return {Kind::Trains, "scale by channel: " + as, !isAfterParameters};
  if (isAfterParameters) return {Kind::Trains, "factor after parameters: " + as, true};
  return {Kind::Stays, "factor: " + as + ", which no parameter comes before", true};
}

bool SlotRule::isStaticNode(const FlatNode &node) const {
  return node.type != kState && !node.outputs.empty() &&
         std::ranges::all_of(node.outputs, [&](int v) { return v < 0 || isStatic_[v]; });
}

// Calls `visit` for each reader of `open`, and of the outputs of readers for which it returns Follow. Returns false if
// it returned Stop.
template <class Visit>
bool SlotRule::visitReaders(std::vector<int> open, const Visit &visit) const {
  std::set<int> seen;
  while (!open.empty()) {
    const int value = open.back();
    open.pop_back();
    if (value < 0 || !seen.insert(value).second) continue;
    for (const FlatUse &use : model_.uses[value]) {
      const FlatNode &reader = model_.nodes[use.node];
      const Next next = visit(reader, use.input);
      if (next == Next::Stop) return false;
      if (next == Next::Follow) open.insert(open.end(), reader.outputs.begin(), reader.outputs.end());
    }
  }
  return true;
}

// Whether the result, through views only, is multiplied by a stored tensor. Exporters write a norm of groups as a norm
// of instances with scales of 1, followed by the scales of its channels.
bool SlotRule::isScaledAgain(const FlatNode &norm) const {
  const auto isStored = [&](int v) { return v >= 0 && ofInitializers_[v]; };
  return !visitReaders(norm.outputs, [&](const FlatNode &reader, int input) {
    if (reader.type == "Mul" && std::ranges::any_of(reader.inputs, isStored)) return Next::Stop;
    return readingOf(reader, input) == Reading::Carried ? Next::Follow : Next::Skip;
  });
}

// A mask that an input gives, or a comparison: moves of elements, then a Cast.
bool SlotRule::isMaskOfInput(int value) const {
  bool isCast = false;
  while (value >= 0 && model_.producer[value] >= 0) {
    const FlatNode &node = model_.nodes[model_.producer[value]];
    if (isOneOf(node.type, {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "And", "Or"})) break;
    if (node.inputs.empty() || readingOf(node, 0) != Reading::Carried) return false;
    isCast |= node.type == "Cast";
    value = node.inputs[0];
  }
  return isCast && value >= 0 && model_.initializer[value] == -1;
}

// Rows that are only used as factors: tables of sines, masks.
bool SlotRule::isFactorTable(int node) const {
  bool any = false;
  const bool isFactorOnly = visitReaders(model_.nodes[node].outputs, [&](const FlatNode &reader, int input) {
    if (readingOf(reader, input) == Reading::Carried) return Next::Follow;
    if (reader.type != "Mul") return Next::Stop;
    const int value = reader.inputs[static_cast<size_t>(input)];
    const bool isScaled = std::ranges::all_of(
        reader.inputs, [&](int v) { return v == value || v < 0 || isStatic_[v] || isMaskOfInput(v); });
    any |= !isScaled;
    return isScaled ? Next::Follow : Next::Skip;
  });
  return isFactorOnly && any;
}

// Marks the values reached from `open` along uses for which `goesOn` returns true.
template <class GoesOn>
std::vector<bool> SlotRule::reached(std::vector<int> open, const GoesOn &goesOn) const {
  std::vector<bool> marks(model_.uses.size());
  while (!open.empty()) {
    const int value = open.back();
    open.pop_back();
    if (value < 0 || marks[value]) continue;
    marks[value] = true;
    for (const FlatUse &use : model_.uses[value])
      if (goesOn(use))
        open.insert(open.end(), model_.nodes[use.node].outputs.begin(), model_.nodes[use.node].outputs.end());
  }
  return marks;
}

SlotRule::SlotRule(const FlatModel &model, ValueOf valueOf)
    : model_(model),
      valueOf_(std::move(valueOf)),
      tables_(dataTables(model, [this](const FlatInitializer &i) { return isByFormula(valueOf_(i)); })),
      isStatic_(staticValues(model, tables_)) {
  std::vector<int> all, channels, results;
  for (const FlatInitializer &i : model_.initializers) {
    if (tables_[model_.initializer[i.value]] >= 0) continue;
    all.push_back(i.value);
    if (wideDimensions(shapeOf(i)) == 1) channels.push_back(i.value);
  }
  const auto isCarried = [&](const FlatUse &use) {
    return readingOf(model_.nodes[use.node], use.input) == Reading::Carried;
  };
  ofInitializers_ = reached(all, [&](const FlatUse &use) { return isStaticNode(model_.nodes[use.node]); });
  // Also scales that are stored as another function, such as 1 + scale.
  const std::vector<bool> isChannels = reached(channels, [&](const FlatUse &use) {
    const FlatNode &node = model_.nodes[use.node];
    return isCarried(use) || (isOneOf(node.type, {"Add", "Sub", "Mul", "Exp", "Softplus"}) && isStaticNode(node));
  });
  for (const FlatNode &node : model_.nodes)
    if (holdsParameters(node, isChannels)) results.insert(results.end(), node.outputs.begin(), node.outputs.end());
  afterParameters_ = reached(results, [&](const FlatUse &use) { return passesParametersOn(model_.nodes[use.node]); });
  std::vector<int> inputs;
  for (size_t v = 0; v < model_.uses.size(); ++v)
    if (model_.producer[v] < 0 && model_.initializer[v] == -1 && !model_.nameOf[v].empty())
      inputs.push_back(static_cast<int>(v));
  ofInput_ = reached(inputs, [&](const FlatUse &use) { return keepsInput(use); });
}

// Whether the node moves, joins or adds to the values that it reads, or multiplies them by one number.
bool SlotRule::keepsInput(const FlatUse &use) const {
  const FlatNode &node = model_.nodes[use.node];
  if (readingOf(node, use.input) == Reading::Carried) return true;
  if (node.type != "Mul") return isOneOf(node.type, {"Concat", "Add", "Sum"});
  return std::ranges::none_of(node.inputs, [&](int v) {
    if (v < 0 || !ofInitializers_[v]) return false;
    const int initializer = model_.initializer[v];
    return initializer < 0 || elementCount(shapeOf(model_.initializers[static_cast<size_t>(initializer)])) > 1;
  });
}

bool SlotRule::isOfInput(const FlatNode &node, int except) const {
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (static_cast<int>(i) != except && node.inputs[i] >= 0 && ofInput_[node.inputs[i]]) return true;
  return false;
}

// Whether the operator has parameters: Conv, a product with a weight, an embedding, a norm with scales, a scale by
// channel.
bool SlotRule::holdsParameters(const FlatNode &node, const std::vector<bool> &isChannels) const {
  if (isStaticNode(node)) return false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const int value = node.inputs[i];
    if (value < 0 || !ofInitializers_[value]) continue;
    const Reading reading = readingOf(node, static_cast<int>(i));
    if (reading == Reading::Parameter || reading == Reading::Looked) return true;
    if (node.type == "Mul" && isChannels[value]) return true;
  }
  return false;
}

// Products of activations, softmax and reductions end the influence of earlier parameters.
bool SlotRule::passesParametersOn(const FlatNode &node) const {
  if (mixesPositions(node)) return false;
  int factors = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool isFactor = readingOf(node, static_cast<int>(i)) == Reading::Parameter;
    factors += isFactor && node.inputs[i] >= 0 && !isStatic_[node.inputs[i]];
  }
  return factors < 2;
}

bool SlotRule::followsParameters(const FlatNode &node, int except) const {
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (static_cast<int>(i) != except && node.inputs[i] >= 0 && afterParameters_[node.inputs[i]]) return true;
  return false;
}

// (x - mean) * factor, where x is an input of the model.
bool SlotRule::isNormalisationOfInput(const FlatNode &product, int except) const {
  for (size_t i = 0; i < product.inputs.size(); ++i) {
    if (static_cast<int>(i) == except || product.inputs[i] < 0) continue;
    const int producer = model_.producer[product.inputs[i]];
    if (producer < 0) continue;
    const FlatNode &before = model_.nodes[producer];
    if (before.type != "Sub" && before.type != "Div") continue;
    const bool storesIt = std::ranges::any_of(before.inputs, [&](int v) { return v >= 0 && ofInitializers_[v]; });
    if (storesIt && !followsParameters(before, -1)) return true;
  }
  return false;
}

}  // namespace popart::onnx
