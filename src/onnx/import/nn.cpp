// Softmax family, dropout, random operators and losses.
#include <bit>
#include <limits>

#include <popart/error.hpp>

#include "onnx/compose.hpp"
#include "ops/random/seed.hpp"

namespace popart::onnx {
namespace {

// Before opset 13: softmax of the matrix [product of dims before axis, product of dims from axis on].
void importSoftmax(NodeContext &n) {
  const TensorInfo &in = n.info(0);
  if (n.opset() >= 13) return n.result(0, n.type(), {n.in(0)}, {{"axis", n.attr<int64_t>("axis", -1)}});
  const int64_t given = n.attr<int64_t>("axis", 1);
  const int64_t rank = in.rank();
  n.require(given >= -rank && given <= rank, "attribute axis is out of range: got {} for {}", given, in);
  const int64_t axis = given < 0 ? given + rank : given;
  if (axis == rank - 1) return n.result(0, n.type(), {n.in(0)}, {{"axis", axis}});
  const Shape shape = in.shape();
  const Shape matrix = {elementCount(Shape(shape.begin(), shape.begin() + axis)),
                        elementCount(Shape(shape.begin() + axis, shape.end()))};
  const TensorIndex flat = n.emit("Reshape", {n.in(0)}, {{"shape", matrix}, {"allowzero", int64_t{1}}});
  n.result(0, "Reshape", {n.emit(n.type(), {flat}, {{"axis", int64_t{1}}})},
           {{"shape", shape}, {"allowzero", int64_t{1}}});
}

// From opset 16 on positions are shifted by half an element unless the model says otherwise.
void importRoiAlign(NodeContext &n) {
  if (n.opset() >= 16 && !n.hasAttr("coordinate_transformation_mode"))
    n.attributes().set("coordinate_transformation_mode", std::string("half_pixel"));
  importRegular(n);
}

// Attribute `seed`, a number or (Dropout) an integer, as the first seed of a separate stream for the operator.
TensorData seedOfAttribute(const NodeContext &n, const AttributeValue &seed) {
  const auto *number = std::get_if<float>(&seed);
  const auto *integer = std::get_if<int64_t>(&seed);
  n.require(number || integer, "attribute seed must be a number");
  const uint64_t bits = number ? std::bit_cast<uint32_t>(*number) : static_cast<uint64_t>(*integer);
  const uint32_t words[] = {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
  return TensorData::of<uint32_t>({2}, words);
}

}  // namespace

// A UINT32[2] variable of the main graph: one for all random ops, made when first needed, or one for this node if it
// has an attribute seed. From it the pipeline gives every random op a separate seed, a new one in each run.
TensorIndex randomSeed(NodeContext &n) {
  Scope *scope = &n.scope();
  while (scope->outer) scope = scope->outer;
  Graph &main = n.importer().ir().getMainGraph();
  TensorId id = ops::kRandomSeedId;
  if (const AttributeValue *seed = n.attributes().find("seed")) {
    id = n.importer().freshId(main, std::string(ops::kOwnRandomSeedPrefix) + n.type());
    main.addVariable(id, seedOfAttribute(n, *seed));
    n.attributes().erase("seed");
  } else if (!main.contains(id)) {
    main.addVariable(id, TensorData(TensorInfo(DataType::UINT32, {2})));
  }
  scope->tensors[id] = main.find(id);
  return n.importer().resolve(id, n.scope());
}

namespace {

// A mask of Dropout that keeps all elements.
void resultFullMask(NodeContext &n) {
  if (!n.hasOut(1)) return;
  const Shape shape = n.info(0).shape();
  const bool numberMask = n.opset() < 10;
  const TensorIndex ones = n.emit("ConstantOfShape", {}, {{"shape", shape}, {"value", TensorData::scalar<bool>(true)}});
  if (numberMask)
    n.result(1, "Cast", {ones}, {{"to", int64_t{toOnnxDataType(n.info(0).dataType())}}});
  else
    n.resultTensor(1, ones);
}

// Dropout-12 with a ratio or training_mode that the run computes: y = keep ? x / (1 - ratio) : 0 with keep = uniform >=
// ratio; x without training_mode.
void importFedDropout(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0);
  const auto one = [&](int i, DataType type, double otherwise) {
    if (!n.hasIn(i)) return to.scalar(type, otherwise);
    n.require(n.info(i).nelms() == 1, "input {} must hold one value: got {}", i, n.info(i));
    return to.input(i).cast(type).reshape({});
  };
  const Value ratio = one(1, DataType::FLOAT, 0.5), drops = one(2, DataType::BOOL, 0);
  const Value uniform(to, n.emit("RandomUniform", {randomSeed(n)}, {{"shape", x.shape()}}));
  const Value keep = uniform.op("Less", {ratio}).op("And", {drops}).op("Not");
  const Value scale = where(drops, 1 - ratio, ratio.number(1));
  to.result(0, where(keep, x / scale.cast(x.type()), x.number(0)));
  if (n.hasOut(1)) to.result(1, keep);
}

// Dropout. Until opset 11 the session decides whether it drops (in inference the op stays as an identity). From then on
// the model decides; an inference session reads a constant training_mode as false unless it follows the file.
void importDropout(NodeContext &n) {
  const bool isStated = n.opset() >= 12;
  bool drops = n.training();
  float ratio = n.attr("ratio", 0.5f);
  if (n.opset() < 7) drops = drops && n.attr<int64_t>("is_test", 0) == 0;
  if (isStated) {
    if (n.hasIn(2) && !n.knownValue(2)) return importFedDropout(n);
    const bool states = n.hasIn(2) && n.constantNumber(2) != 0, isKnown = n.hasIn(1) && n.knownValue(1) != nullptr;
    if (states && isKnown) ratio = static_cast<float>(n.constantNumber(1));
    drops = states && n.keepsTrainingForm();
    if (drops && n.hasIn(1) && !isKnown) return importFedDropout(n);
  }
  n.require(ratio >= 0.0f && ratio < 1.0f, "ratio must be at least 0 and less than 1: got {}", ratio);
  if (drops) return n.results("Dropout", {n.in(0), randomSeed(n)}, {{"ratio", ratio}, {"training_mode", int64_t{1}}});
  if (isStated)
    n.resultTensor(0, n.in(0));
  else
    n.result(0, "Dropout", {n.in(0)}, {{"ratio", ratio}, {"training_mode", int64_t{0}}});
  resultFullMask(n);
}

}  // namespace

void importRandom(NodeContext &n) {
  std::vector<TensorIndex> inputs = n.inputs();
  inputs.push_back(randomSeed(n));
  n.results(n.type(), inputs, n.attributes());
}

namespace {

// Each draw u in [0, 1) is class i with cumulated[i-1] <= u < cumulated[i]. One search works on the cumulated
// probabilities of all samples, those of sample n shifted by n. Logits that are not finite have probability 0, as in
// ONNX Runtime; without any finite ones the last class is drawn.
void importMultinomial(NodeContext &n) {
  Composer to(n);
  const Value logits = to.input(0).cast(DataType::DOUBLE);
  const auto type = n.attr<int64_t>("dtype", toOnnxDataType(DataType::INT32)),
             draws = n.attr<int64_t>("sample_size", 1);
  n.require(logits.rank() == 2 && logits.dim(1) > 0 && isFloatingPoint(to.input(0).type()),
            "the input must be (samples, classes) of a float type, with a class: got {}", to.input(0).info());
  n.require(type == toOnnxDataType(DataType::INT32) || type == toOnnxDataType(DataType::INT64),
            "attribute dtype: got {}, expected 6 (int32) or 7 (int64)", type);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  n.require(draws >= 1 && draws <= kMost, "attribute sample_size: got {}, expected 1 to {}", draws, kMost);
  const int64_t samples = logits.dim(0), classes = logits.dim(1);
  n.require(logits.info().nelms() <= kMost, "the input has too many elements: got {}, at most {}", logits.info(),
            kMost);
  const Value drawn(to, n.emit("RandomUniform", {randomSeed(n)}, {{"shape", Shape{samples, draws}}}));
  const Value finite = (logits - logits).op("Equal", {logits.number(0)});
  const Value low = where(finite, logits, logits.number(std::numeric_limits<double>::lowest()));
  const Value top = low.op("ReduceMax", {}, {{"axes", Shape{1}}, {"keepdims", int64_t{1}}});
  const Value weights = where(finite, (low - top).op("Exp"), logits.number(0));
  const Value cumulated = weights.op("CumSum", {}, {{"axis", int64_t{1}}});
  const Value sample = to.countUp(samples).reshape({samples, 1}), shift = sample.cast(DataType::DOUBLE);
  const Value bounds = (cumulated / cumulated.slice(1, classes - 1, classes) + shift).reshape({samples * classes});
  const Value place = (drawn.cast(DataType::DOUBLE) + shift).op("Bucketize", {bounds}, {{"right", int64_t{1}}});
  const Value at = place.cast(DataType::INT64) - sample * static_cast<double>(classes);
  to.result(0, at.op("Max", {at.number(0)})
                   .op("Min", {at.number(static_cast<double>(classes - 1))})
                   .cast(fromOnnxDataType(static_cast<int32_t>(type))));
}

// ai.graphcore losses: the reduction may be PopART's ReductionType number.
void importLoss(NodeContext &n) {
  static const char *const kReductions[] = {"Sum", "Mean", "NoReduction"};
  if (const AttributeValue *value = n.attributes().find("reduction"))
    if (const auto *number = std::get_if<int64_t>(value)) {
      n.require(*number >= 0 && *number < 3, "attribute reduction is no ReductionType: got {}", *number);
      n.attributes().set("reduction", std::string(kReductions[*number]));
    }
  importRegular(n);
}

}  // namespace

std::vector<ImportRule> nnRules() {
  std::vector<ImportRule> rules;
  for (const char *type : {"Softmax", "LogSoftmax", "Hardmax"}) rules.push_back({"ai.onnx", type, importSoftmax});
  rules.push_back({"ai.onnx", "Dropout", importDropout});
  rules.push_back({"ai.onnx", "RoiAlign", importRoiAlign});
  for (const char *type : {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli"})
    rules.push_back({"ai.onnx", type, importRandom});
  rules.push_back({"ai.onnx", "Multinomial", importMultinomial});
  for (const char *type : {"Nll", "L1", "IdentityLoss", "Ctc"}) rules.push_back({"ai.graphcore", type, importLoss});
  return rules;
}

}  // namespace popart::onnx
