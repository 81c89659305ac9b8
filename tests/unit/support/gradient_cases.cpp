// See gradient_cases.hpp. Shapes have different dimensions wherever the operator allows it, so that exchanged ones are
// noticed.
#include "gradient_cases.hpp"

#include <algorithm>

#include <popart/opdef.hpp>

#include "autodiff/autodiff.hpp"

namespace popart::test {
namespace {

using Ints = std::vector<int64_t>;

TensorInfo floats(Shape shape) { return TensorInfo(DataType::FLOAT, std::move(shape)); }
TensorInfo indices(Shape shape) { return TensorInfo(DataType::INT64, std::move(shape)); }
TensorInfo bools(Shape shape) { return TensorInfo(DataType::BOOL, std::move(shape)); }
TensorInfo seed() { return TensorInfo(DataType::UINT32, {2}); }
std::string text(const char *value) { return value; }

void addMatrices(std::vector<GradientCase> &cases) {
  cases.insert(cases.end(), {
                                {"MatMul", {floats({2, 3}), floats({3, 4})}, {}},
                                {"MatMul", {floats({5, 2, 3}), floats({3, 4})}, {}},
                                {"MatMul", {floats({2, 1, 3, 4}), floats({5, 4, 6})}, {}},
                                {"MatMul", {floats({3}), floats({2, 3, 4})}, {}},
                                {"MatMul", {floats({2, 3}), floats({3})}, {}},
                                {"Softmax", {floats({3, 4})}, {{"axis", int64_t{1}}}},
                                {"LogSoftmax", {floats({3, 4})}, {{"axis", int64_t{0}}}},
                            });
}

void addConvolutions(std::vector<GradientCase> &cases) {
  const Ints two{2}, twos{2, 2};
  cases.insert(
      cases.end(),
      {
          {"Conv", {floats({2, 3, 7}), floats({4, 3, 3}), floats({4})}, {}},
          {"Conv", {floats({1, 4, 6, 5}), floats({6, 2, 3, 2})}, {{"group", int64_t{2}}, {"strides", twos}}},
          {"Conv", {floats({2, 3, 9}), floats({3, 1, 3})}, {{"group", int64_t{3}}, {"dilations", two}}},
          {"Conv", {floats({1, 2, 4, 5, 3}), floats({3, 2, 2, 3, 2})}, {{"pads", Ints{1, 0, 1, 0, 1, 0}}}},
          {"ConvTranspose", {floats({2, 3, 5}), floats({3, 4, 3}), floats({4})}, {{"strides", two}}},
          {"ConvTranspose",
           {floats({1, 2, 3, 4}), floats({2, 3, 2, 3})},
           {{"strides", twos}, {"dilations", Ints{3, 3}}, {"output_padding", twos}}},
          {"MaxPool", {floats({2, 3, 7})}, {{"kernel_shape", two}, {"strides", two}, {"ceil_mode", int64_t{1}}}},
          {"MaxPool", {floats({1, 2, 5, 4})}, {{"kernel_shape", twos}, {"pads", Ints{1, 0, 0, 1}}}},
          {"AveragePool", {floats({2, 3, 7})}, {{"kernel_shape", two}, {"strides", two}, {"ceil_mode", int64_t{1}}}},
          {"AveragePool", {floats({1, 2, 5, 4})}, {{"kernel_shape", twos}, {"count_include_pad", int64_t{1}}}},
          {"LpPool", {floats({2, 3, 6})}, {{"kernel_shape", two}, {"p", int64_t{3}}}},
          {"RoiAlign",
           {floats({2, 3, 5, 4}), floats({6, 4}), indices({6})},
           {{"output_height", int64_t{2}}, {"output_width", int64_t{3}}}},
          {"MaxRoiPool", {floats({2, 3, 5, 4}), floats({6, 5})}, {{"pooled_shape", Ints{2, 3}}}},
          {"GlobalMaxPool", {floats({2, 3, 4, 5})}, {}},
          {"GlobalAveragePool", {floats({2, 3, 4, 5})}, {}},
          {"GlobalLpPool", {floats({2, 3, 4})}, {}},
      });
}

void addNormalisations(std::vector<GradientCase> &cases) {
  const std::vector<TensorInfo> batch{floats({2, 3, 4}), floats({3}), floats({3}), floats({3}), floats({3})};
  cases.insert(
      cases.end(),
      {
          {"BatchNormalization", batch, {{"training_mode", int64_t{1}}}},
          {"BatchNormalization", batch, {{"training_mode", int64_t{1}}}, 5},
          {"BatchNormalization", batch, {}},
          {"GroupNormalization", {floats({2, 4, 3}), floats({4}), floats({4})}, {{"num_groups", int64_t{2}}}, 3},
          {"GroupNormalization", {floats({2, 4, 3}), floats({4}), floats({4})}, {{"num_groups", int64_t{4}}}},
          {"InstanceNormalization", {floats({2, 3, 4}), floats({3}), floats({3})}, {}},
          {"LayerNormalization", {floats({2, 3, 4}), floats({4}), floats({4})}, {}, 3},
          {"LayerNormalization", {floats({2, 3, 4}), floats({3, 4}), floats({3, 4})}, {{"axis", int64_t{1}}}},
          {"RMSNormalization", {floats({2, 3, 4}), floats({4})}, {}},
          {"LRN", {floats({2, 5, 3})}, {{"size", int64_t{3}}}},
          {"Dropout", {floats({3, 4}), seed()}, {{"training_mode", int64_t{1}}}},
          {"ShapedDropout", {floats({3, 4}), seed()}, {{"shape", Ints{3, 1}}}},
      });
}

void addLosses(std::vector<GradientCase> &cases) {
  for (const char *reduction : {"Sum", "Mean", "NoReduction"}) {
    const Attributes a{{"reduction", text(reduction)}}, withLambda{{"reduction", text(reduction)}, {"lambda", 0.5f}};
    cases.push_back({"L1", {floats({2, 3})}, withLambda});
    cases.push_back({"IdentityLoss", {floats({2, 3})}, a});
    cases.push_back({"Nll", {floats({2, 3, 4}), indices({2, 3})}, a});
    cases.push_back({"Ctc", {floats({4, 2, 5}), indices({2, 3}), indices({2}), indices({2})}, a});
    cases.push_back({"NegativeLogLikelihoodLoss", {floats({2, 3, 4}), indices({2, 4}), floats({3})}, a});
    cases.push_back({"SoftmaxCrossEntropyLoss", {floats({2, 3, 4}), indices({2, 4})}, a, 2});
  }
  cases.push_back({"SoftmaxCrossEntropyLoss", {floats({2, 3}), indices({2}), floats({3})}, {}});
}

void addShapes(std::vector<GradientCase> &cases) {
  const Ints zero{0}, one{1}, two{2};
  cases.insert(
      cases.end(),
      {
          {"Cast", {floats({2, 3})}, {{"to", int64_t{11}}}},
          {"Scale", {floats({2, 3})}, {{"scale", 2.0f}}},
          {"Where", {bools({3}), floats({2, 3}), floats({2, 1})}, {}},
          {"Reshape", {floats({2, 6})}, {{"shape", Ints{3, 4}}}},
          {"Squeeze", {floats({2, 1, 3})}, {{"axes", one}}},
          {"Unsqueeze", {floats({2, 3})}, {{"axes", one}}},
          {"Identity", {floats({2, 3})}, {}},
          {"Transpose", {floats({2, 3, 4})}, {{"perm", Ints{2, 0, 1}}}},
          {"Concat", {floats({2, 3}), floats({2, 4})}, {{"axis", int64_t{1}}}},
          {"Split", {floats({2, 5})}, {{"axis", int64_t{1}}, {"split", Ints{2, 3}}}, 2},
          {"Slice",
           {floats({5, 6})},
           {{"starts", Ints{4, 1}}, {"ends", Ints{0, 6}}, {"axes", Ints{0, 1}}, {"steps", Ints{-2, 2}}}},
          {"SliceUpdate", {floats({5, 6}), floats({5, 2})}, {{"starts", one}, {"ends", Ints{3}}, {"axes", one}}},
          {"Subsample", {floats({5, 6})}, {{"strides", Ints{2, 3}}}},
          {"Resize", {floats({3, 4})}, {{"sizes", Ints{5, 2}}, {"mode", text("cubic")}}},
          {"Reverse", {floats({2, 3})}, {{"dimensions", one}}},
          {"Expand", {floats({3, 1})}, {{"shape", Ints{2, 3, 4}}}},
          {"Tile", {floats({2, 3})}, {{"repeats", Ints{2, 3}}}},
          {"Pad", {floats({2, 3})}, {{"pads", Ints{1, 0, 2, -1}}}},
          {"Pad", {floats({4, 3})}, {{"pads", Ints{1, 0, 2, 1}}, {"mode", text("reflect")}}},
          {"ReduceSumTo", {floats({2, 3, 4})}, {{"shape", Ints{3, 1}}}},
          {"CumSum", {floats({2, 3})}, {{"axis", int64_t{1}}, {"reverse", int64_t{1}}}},
          {"DepthToSpace", {floats({1, 8, 2, 3})}, {{"blocksize", int64_t{2}}}},
          {"TopK", {floats({3, 5})}, {{"k", int64_t{2}}}, 2},
          {"Sort", {floats({3, 5})}, {{"axis", int64_t{0}}}, 2},
          {"ReduceMedian", {floats({2, 3, 4})}, {{"axes", Ints{0, 2}}}, 2},
          {"ReduceMedian", {floats({2, 3, 4})}, {{"axes", one}, {"keepdims", int64_t{0}}}, 2},
          {"AllReduce", {floats({2, 3}), floats({2, 3})}, {{"ipus", Ints{0, 1}}}, 2},
      });
}

void addIndexed(std::vector<GradientCase> &cases) {
  const Ints one{1}, two{2};
  const Attributes atOne{{"axis", int64_t{1}}}, window{{"axes", one}, {"sizes", two}};
  cases.insert(
      cases.end(),
      {
          {"Gather", {floats({3, 5}), indices({2, 2})}, atOne},
          {"Gather", {floats({2, 3, 5}), indices({2, 4})}, {{"axis", int64_t{1}}, {"group_size", int64_t{2}}}},
          {"PopartTiedGather", {floats({5, 3}), indices({4})}, {}},
          {"GroupedGather", {floats({2, 3, 5}), indices({2, 4})}, {{"axis", int64_t{1}}, {"group_size", int64_t{2}}}},
          {"GatherElements", {floats({3, 5}), indices({3, 2})}, atOne},
          {"GatherND", {floats({3, 4, 5}), indices({2, 2})}, {}},
          {"GatherND", {floats({3, 4, 5}), indices({3, 2, 1})}, {{"batch_dims", int64_t{1}}}},
          {"OneHot", {indices({2, 3}), floats({2})}, {{"depth", int64_t{4}}}},
          {"Scatter", {floats({3, 5}), indices({2, 4}), floats({2, 4})}, {}},
          {"ScatterElements", {floats({3, 5}), indices({3, 2}), floats({3, 2})}, atOne},
          {"ScatterND", {floats({4, 5}), indices({2, 1}), floats({2, 5})}, {}},
          {"ScatterReduce",
           {floats({3, 4}), indices({3, 4}), floats({5, 4})},
           {{"axis", int64_t{0}}, {"axis_size", int64_t{5}}, {"reduction", text("Max")}}},
          {"ScatterReduce", {floats({3, 4}), indices({3})}, {{"axis", int64_t{0}}, {"axis_size", int64_t{5}}}},
          {"DynamicSlice", {floats({3, 5}), indices({1})}, window},
          {"DynamicUpdate", {floats({3, 5}), indices({1}), floats({3, 2})}, window},
          {"DynamicAdd", {floats({3, 5}), indices({1}), floats({3, 2})}, window},
          {"DynamicZero", {floats({3, 5}), indices({1})}, window},
      });
}

bool hasRequired(const OpDef &row) {
  return std::any_of(row.attributes().begin(), row.attributes().end(),
                     [](const AttributeDef &a) { return a.required; });
}

// Element-wise rows with broadcasting and reductions, as they stand in the catalog.
void addFamilies(std::vector<GradientCase> &cases) {
  for (const OpDef *row : allOpDefs()) {
    if (!row->hasVjp() || row->has(Trait::Gradient) || row->isInplaceVariant() || hasRequired(*row)) continue;
    const std::vector<InputDef> &inputs = row->inputs();
    const auto takesFloats = [](const InputDef &i) { return (i.types & typeBit(DataType::FLOAT)) != 0; };
    if (inputs.empty() || !std::all_of(inputs.begin(), inputs.end(), takesFloats)) continue;
    if (row->findAttribute("keepdims") && row->type().rfind("Reduce", 0) == 0 && row->type() != "ReduceMedian") {
      cases.push_back({row->type(), {floats({2, 3, 4})}, {{"axes", Ints{0, 2}}}});
      cases.push_back({row->type(), {floats({2, 3, 4})}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}});
    } else if (row->has(Trait::Elementwise) && inputs[0].arity == Arity::Variadic) {
      cases.push_back({row->type(), {floats({2, 3}), floats({3}), floats({2, 1})}, {}});
      cases.push_back({row->type(), {floats({2, 3})}, {}});
    } else if (row->has(Trait::Elementwise) && inputs.size() == 1) {
      cases.push_back({row->type(), {floats({2, 3})}, {}});
    } else if (row->has(Trait::Elementwise) && inputs.size() == 2) {
      cases.push_back({row->type(), {floats({2, 3}), floats({3})}, {}});
      if (row->type() != "PRelu") cases.push_back({row->type(), {floats({3, 1}), floats({2, 3, 4})}, {}});
    }
  }
}

TensorIndex emit(Graph &graph, const char *type, const std::vector<TensorIndex> &inputs, Attributes attributes = {}) {
  return graph
      .addConnectedOp(opDef(type), inputs, {graph.freeId(type)}, std::move(attributes), Op::Settings(graph, type))
      ->outputs()[0];
}

}  // namespace

std::vector<GradientCase> gradientCases() {
  std::vector<GradientCase> cases;
  addFamilies(cases);
  addMatrices(cases);
  addConvolutions(cases);
  addNormalisations(cases);
  addLosses(cases);
  addShapes(cases);
  addIndexed(cases);
  return cases;
}

std::unique_ptr<Ir> gradientProgram(const GradientCase &g) {
  auto ir = std::make_unique<Ir>();
  Graph &graph = ir->getMainGraph();
  std::vector<TensorIndex> inputs;
  std::vector<TensorId> targets, outputs;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const TensorId id = "in" + std::to_string(i);
    inputs.push_back(g.inputs[i].isSet() ? graph.addStream(id, g.inputs[i]) : TensorIndex{});
    const bool isClassWeights =
        i == 2 && (g.type == "NegativeLogLikelihoodLoss" || g.type == "SoftmaxCrossEntropyLoss");
    if (g.inputs[i].isSet() && isFloatingPoint(g.inputs[i].dataType()) && !isClassWeights) targets.push_back(id);
  }
  for (int i = 0; i < g.outputs; ++i) outputs.push_back("out" + std::to_string(i));
  const Op *op = graph.addConnectedOp(opDef(g.type), inputs, outputs, g.attributes, Op::Settings(graph, g.type));
  // Statistics and the like have no gradient: only outputs of the first one's kind count, and of those of a row that
  // gives one result several times all.
  const bool all = g.type == "Split" || g.type == "AllReduce" || g.type == "SoftmaxCrossEntropyLoss";
  std::vector<TensorIndex> parts;
  for (int i = 0; i < (all ? g.outputs : 1); ++i) {
    TensorIndex y = op->outputs()[static_cast<size_t>(i)];
    if (graph.info(y).dataType() != DataType::FLOAT) y = emit(graph, "Cast", {y}, {{"to", int64_t{1}}});
    parts.push_back(emit(graph, "ReduceSum", {y}, {{"keepdims", int64_t{0}}}));
  }
  const TensorIndex loss = emit(graph, "Sum", parts);
  const TensorIndex one = graph.addConstant("one", TensorData::scalar(1.0f));
  for (const auto &[target, gradient] : autodiff::growBackward(graph, graph.tensor(loss).id, one, targets))
    graph.markOutput(graph.find(gradient));
  return ir;
}

}  // namespace popart::test
