// Values stay near 1 in size: functions get arguments from the inside of their domain, and what grows is squashed. So
// numbers can be compared between element types, and differences taken. Rows of one family are found in the catalog;
// rows with attributes of their own have a maker below.
#include "graph_plan.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace popart::fuzz {
namespace {

using Ints = std::vector<int64_t>;

enum class Domain { Any, Positive, Unit, AboveOne };

Domain domainOf(const std::string &type) {
  static const std::map<std::string, Domain> kDomains = {
      {"Log", Domain::Positive},        {"Sqrt", Domain::Positive},      {"Log1p", Domain::Positive},
      {"Reciprocal", Domain::Positive}, {"Asin", Domain::Unit},          {"Acos", Domain::Unit},
      {"Atanh", Domain::Unit},          {"Tan", Domain::Unit},           {"Acosh", Domain::AboveOne},
      {"Pow", Domain::Positive},        {"Div", Domain::Positive},       {"Fmod", Domain::Positive},
      {"Remainder", Domain::Positive},  {"Atan2", Domain::Positive},     {"ReduceLogSum", Domain::Positive},
      {"ReduceL2", Domain::Positive},   {"ReduceProd", Domain::Positive}};
  const auto found = kDomains.find(type);
  return found == kDomains.end() ? Domain::Any : found->second;
}

bool isPlain(const OpDef &row) {
  for (Trait t : {Trait::Gradient, Trait::Internal, Trait::Random, Trait::Loss, Trait::VarUpdate, Trait::SideEffect,
                  Trait::HostIo, Trait::Call, Trait::Init, Trait::Metadata, Trait::View})
    if (row.has(t)) return false;
  return !row.isInplaceVariant() && row.aliasRules().empty() && row.domain() != "popart";
}

bool takesFloats(const OpDef &row) {
  for (const InputDef &input : row.inputs())
    if (!(input.types & typeBit(DataType::FLOAT)) || !(input.types & typeBit(DataType::DOUBLE))) return false;
  return true;
}

// Rows that need no attributes: "unary", "binary", "variadic" or "reduce"; empty for others.
std::string familyOf(const OpDef &row) {
  if (!isPlain(row) || !takesFloats(row) || row.outputs().size() != 1) return "";
  for (const AttributeDef &attribute : row.attributes())
    if (attribute.required) return "";
  const auto required = [&](size_t i) { return row.inputs()[i].arity == Arity::Required; };
  if (row.type().rfind("Reduce", 0) == 0 && row.findAttribute("keepdims") && row.inputs().size() == 1) return "reduce";
  if (!row.has(Trait::Elementwise)) return "";
  if (row.inputs().size() == 1 && row.inputs()[0].arity == Arity::Variadic) return "variadic";
  if (row.inputs().size() == 1 && required(0)) return "unary";
  if (row.inputs().size() == 2 && required(0) && required(1)) return "binary";
  return "";
}

bool givesBools(const OpDef &row) {
  static const std::set<std::string> kBools = {"Equal",       "Greater", "GreaterOrEqual", "Less",
                                               "LessOrEqual", "IsNaN",   "IsInf"};
  return kBools.count(row.type()) != 0;
}

bool isDifferentiable(const OpDef &row) { return row.hasVjp() && row.noGradReason().empty() && !givesBools(row); }

const std::vector<const OpDef *> &familyRows() {
  static const std::vector<const OpDef *> kRows = [] {
    std::vector<const OpDef *> rows;
    for (const OpDef *row : allOpDefs())
      if (!familyOf(*row).empty()) rows.push_back(row);
    return rows;
  }();
  return kRows;
}

class Planner {
 public:
  Planner(Random &random, bool differentiable) : random_(random), differentiable_(differentiable) {}

  Plan make(int size) {
    for (int64_t i = 1 + below(random_, 3); i > 0; --i) newInput(randomShape());
    while (static_cast<int>(plan_.steps.size()) < size) addSomething();
    return std::move(plan_);
  }

  using Maker = void (Planner::*)(int x);
  static const std::map<std::string, Maker> &makers();

 private:
  // ---- pieces
  int64_t pick(int64_t end) { return below(random_, end); }
  const Shape &shape(int value) const { return plan_.values[static_cast<size_t>(value)].shape; }
  int rank(int value) const { return static_cast<int>(shape(value).size()); }
  int64_t elements(int value) const { return elementCount(shape(value)); }

  Shape randomShape() {
    Shape shape;
    for (int64_t rank = pick(5); rank > 0; --rank) shape.push_back(1 + pick(5));
    return shape;
  }
  int newInput(const Shape &shape) {
    plan_.values.push_back({shape, -1, {}});
    return last();
  }
  int newIndices(const Shape &shape, int64_t end) {
    std::vector<int64_t> numbers(static_cast<size_t>(elementCount(shape)));
    for (int64_t &n : numbers) n = pick(2 * end) - end;
    plan_.values.push_back({shape, -1, TensorData::of<int64_t>(shape, numbers)});
    return last();
  }
  int last() const { return static_cast<int>(plan_.values.size()) - 1; }
  int anyValue() {
    std::vector<int> floats;
    for (int v = 0; v <= last(); ++v)
      if (plan_.values[static_cast<size_t>(v)].indices.empty() && !bools_.count(v)) floats.push_back(v);
    // Late values more often than early ones, so that graphs get deep.
    const int64_t n = static_cast<int64_t>(floats.size());
    return floats[static_cast<size_t>(std::max(pick(n), pick(n)))];
  }

  // Adds a step whose results have the shapes given. Returns the first value it makes.
  int add(const std::string &type, const std::vector<int> &inputs, const std::vector<Shape> &shapes,
          Attributes attributes = {}) {
    plan_.steps.push_back({type, std::move(attributes), inputs, static_cast<int>(shapes.size())});
    const int first = last() + 1;
    for (const Shape &s : shapes) plan_.values.push_back({s, static_cast<int>(plan_.steps.size()) - 1, {}});
    return first;
  }
  int addLike(const std::string &type, int x, Attributes attributes = {}) {
    return add(type, {x}, {shape(x)}, std::move(attributes));
  }
  int squash(int x) { return addLike("Tanh", x); }
  int scaled(int x, float by) { return addLike("Scale", x, {{"scale", by}}); }

  int inside(Domain domain, int x) {
    switch (domain) {
      case Domain::Any:
        return x;
      case Domain::Unit:
        return scaled(squash(x), 0.8f);
      case Domain::Positive:
        return addLike("Exp", scaled(squash(x), 0.5f));
      case Domain::AboveOne:
        return addLike("Exp", addLike("Exp", scaled(squash(x), 0.5f)));
    }
    return x;
  }

  // Where elements are equal, what picks one of them has no derivative. Moves each element by a number of its own.
  int withoutTies(int x) { return add("Add", {x, newInput(shape(x))}, {shape(x)}); }
  static bool breaksTies(const std::string &type) {
    return type == "Max" || type == "Min" || type == "ReduceMax" || type == "ReduceMin";
  }

  // ---- steps
  void addSomething() {
    const int x = anyValue();
    if (elements(x) > 400) return (void)add("ReduceMean", {x}, {Shape(shape(x).size(), 1)});
    if (pick(3) == 0) {
      auto maker = makers().begin();
      std::advance(maker, pick(static_cast<int64_t>(makers().size())));
      return (this->*maker->second)(x);
    }
    const auto &rows = familyRows();
    const OpDef &row = *rows[static_cast<size_t>(pick(static_cast<int64_t>(rows.size())))];
    if (differentiable_ && !isDifferentiable(row)) return;
    const std::string family = familyOf(row);
    if (family == "unary") return addUnary(row, x);
    if (family == "reduce") return addReduction(row, x);
    addBroadcast(row, x, family == "binary" ? 2 : 1 + static_cast<int>(pick(3)));
  }

  void finish(const OpDef &row, int result) {
    static const std::set<std::string> kGrow = {"Exp",
                                                "Sinh",
                                                "Cosh",
                                                "Expm1",
                                                "Pow",
                                                "Reciprocal",
                                                "Div",
                                                "Atan2",
                                                "Sum",
                                                "Mul",
                                                "ReduceSum",
                                                "ReduceL1",
                                                "ReduceL2",
                                                "ReduceProd",
                                                "ReduceSumSquare",
                                                "ReduceLogSumExp",
                                                "Tan",
                                                "Celu",
                                                "Selu",
                                                "Elu"};
    if (givesBools(row)) {
      bools_.insert(result);
      const int like = newInput(shape(result));
      add("Where", {result, like, anyOfShape(shape(result))}, {shape(result)});
    } else if (kGrow.count(row.type())) {
      squash(result);
    }
  }
  int anyOfShape(const Shape &wanted) {
    for (int v = last(); v >= 0; --v)
      if (shape(v) == wanted && plan_.values[static_cast<size_t>(v)].indices.empty() && !bools_.count(v)) return v;
    return newInput(wanted);
  }

  void addUnary(const OpDef &row, int x) { finish(row, addLike(row.type(), inside(domainOf(row.type()), x))); }

  void addReduction(const OpDef &row, int x) {
    Ints axes;
    for (int a = 0; a < rank(x); ++a)
      if (pick(2)) axes.push_back(pick(2) ? a : a - rank(x));
    const int64_t keep = pick(2);
    Shape result;
    for (int a = 0; a < rank(x); ++a) {
      const bool reduced =
          axes.empty() || std::count(axes.begin(), axes.end(), a) + std::count(axes.begin(), axes.end(), a - rank(x));
      if (!reduced)
        result.push_back(shape(x)[static_cast<size_t>(a)]);
      else if (keep)
        result.push_back(1);
    }
    Attributes attributes{{"keepdims", keep}};
    if (!axes.empty()) attributes.set("axes", axes);
    const int operand = breaksTies(row.type()) ? withoutTies(x) : inside(domainOf(row.type()), x);
    finish(row, add(row.type(), {operand}, {result}, attributes));
  }

  // Another operand: the same shape, or one that broadcasts to or with it.
  int partner(int x) {
    Shape other = shape(x);
    if (pick(2) && !other.empty())
      other.erase(other.begin(), other.begin() + pick(static_cast<int64_t>(other.size()) + 1));
    for (int64_t &d : other)
      if (pick(3) == 0) d = 1;
    return anyOfShape(other);
  }
  void addBroadcast(const OpDef &row, int x, int count) {
    std::vector<int> inputs{x};
    Shape result = shape(x);
    for (int i = 1; i < count; ++i) {
      inputs.push_back(partner(x));
      if (breaksTies(row.type())) inputs.back() = withoutTies(inputs.back());
      result = npOut(result, shape(inputs.back()));
    }
    const Domain domain = domainOf(row.type());
    for (size_t i = row.type() == "Pow" ? 0 : 1; i < inputs.size(); ++i) {
      inputs[i] = inside(domain, inputs[i]);
      if (row.type() == "Pow") break;
    }
    const bool bothWays = domain == Domain::Any && row.type() != "PRelu";  // its slope broadcasts to x only
    if (pick(2) && inputs.size() == 2 && bothWays) std::swap(inputs[0], inputs[1]);
    finish(row, add(row.type(), inputs, {result}));
  }

  // ---- rows with attributes
  int64_t anyAxis(int x) { return pick(rank(x)) - (pick(2) ? rank(x) : 0); }
  size_t axisAt(int64_t axis, int x) const { return static_cast<size_t>(axis < 0 ? axis + rank(x) : axis); }

  void softmax(int x) {
    if (rank(x) == 0) return;
    addLike(pick(2) ? "Softmax" : "LogSoftmax", x, {{"axis", anyAxis(x)}});
  }
  void cumSum(int x) {
    if (rank(x) == 0) return;
    squash(addLike("CumSum", x, {{"axis", anyAxis(x)}, {"exclusive", pick(2)}, {"reverse", pick(2)}}));
  }
  void transpose(int x) {
    Ints perm(shape(x).size());
    for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
    for (size_t i = perm.size(); i-- > 1;)
      std::swap(perm[i], perm[static_cast<size_t>(pick(static_cast<int64_t>(i) + 1))]);
    Shape result;
    for (int64_t p : perm) result.push_back(shape(x)[static_cast<size_t>(p)]);
    add("Transpose", {x}, {result}, {{"perm", perm}});
  }
  void reshape(int x) {
    Shape result = shape(x);
    std::shuffle(result.begin(), result.end(), random_);
    if (result.size() > 1 && pick(2)) {
      result[0] *= result.back();
      result.pop_back();
    } else {
      result.push_back(1);
    }
    add("Reshape", {x}, {result}, {{"shape", result}});
  }
  void squeeze(int x) {
    Shape wide = shape(x);
    const int64_t at = pick(rank(x) + 1);
    wide.insert(wide.begin() + at, 1);
    const int unsqueezed = add("Unsqueeze", {x}, {wide}, {{"axes", Ints{at}}});
    if (pick(2)) add("Squeeze", {addLike("Identity", unsqueezed)}, {shape(x)}, {{"axes", Ints{at}}});
  }
  void concat(int x) {
    if (rank(x) == 0) return;
    const int64_t axis = anyAxis(x);
    Shape other = shape(x);
    other[axisAt(axis, x)] = 1 + pick(3);
    Shape result = shape(x);
    const int y = anyOfShape(other);
    result[axisAt(axis, x)] = 2 * shape(x)[axisAt(axis, x)] + other[axisAt(axis, x)];
    add("Concat", {x, y, x}, {result}, {{"axis", axis}});
  }
  void split(int x) {
    if (rank(x) == 0) return;
    const int64_t axis = anyAxis(x);
    const int64_t size = shape(x)[axisAt(axis, x)];
    if (size < 2) return;
    Shape first = shape(x), second = shape(x);
    first[axisAt(axis, x)] = 1 + pick(size - 1);
    second[axisAt(axis, x)] = size - first[axisAt(axis, x)];
    add("Split", {x}, {first, second},
        {{"axis", axis}, {"split", Ints{first[axisAt(axis, x)], second[axisAt(axis, x)]}}});
  }
  void slice(int x) {
    if (rank(x) == 0) return;
    const int64_t axis = anyAxis(x), size = shape(x)[axisAt(axis, x)], step = 1 + pick(2), start = pick(size);
    const bool backwards = pick(3) == 0;
    Shape result = shape(x);
    const int64_t span = backwards ? start + 1 : size - start;
    result[axisAt(axis, x)] = (span + step - 1) / step;
    add("Slice", {x}, {result},
        {{"axes", Ints{axis}},
         {"starts", Ints{pick(2) ? start : start - size}},
         {"ends", Ints{backwards ? -size - 1 : size + 3}},
         {"steps", Ints{backwards ? -step : step}}});
  }
  void pad(int x) {
    Ints pads;
    Shape result = shape(x);
    for (int side = 0; side < 2; ++side)
      for (int a = 0; a < rank(x); ++a) {
        pads.push_back(pick(2));
        result[static_cast<size_t>(a)] += pads.back();
      }
    static const char *const kModes[] = {"constant", "edge"};
    add("Pad", {x}, {result}, {{"pads", pads}, {"mode", std::string(kModes[pick(2)])}, {"value", 0.25f}});
  }
  void expand(int x) {
    Shape result = shape(x);
    for (int64_t &d : result)
      if (d == 1) d = 1 + pick(3);
    if (result.size() < 4 && pick(2)) result.insert(result.begin(), 2);
    add("Expand", {x}, {result}, {{"shape", result}});
  }
  void tile(int x) {
    Ints repeats;
    Shape result = shape(x);
    for (int64_t &d : result) d *= repeats.emplace_back(1 + pick(2));
    add("Tile", {x}, {result}, {{"repeats", repeats}});
  }
  void gather(int x) {
    if (rank(x) == 0) return;
    const int64_t axis = anyAxis(x);
    const Shape picks = pick(3) ? Shape{1 + pick(4)} : Shape{2, 2};
    const int indices = newIndices(picks, shape(x)[axisAt(axis, x)]);
    Shape result = shape(x);
    result.erase(result.begin() + static_cast<std::ptrdiff_t>(axisAt(axis, x)));
    result.insert(result.begin() + static_cast<std::ptrdiff_t>(axisAt(axis, x)), picks.begin(), picks.end());
    add("Gather", {x, indices}, {result}, {{"axis", axis}});
  }
  void gatherElements(int x) {
    if (rank(x) == 0) return;
    const int64_t axis = anyAxis(x);
    Shape result = shape(x);
    result[axisAt(axis, x)] = 1 + pick(4);
    add("GatherElements", {x, newIndices(result, shape(x)[axisAt(axis, x)])}, {result}, {{"axis", axis}});
  }
  void reverse(int x) {
    if (rank(x) == 0) return;
    addLike("Reverse", x, {{"dimensions", Ints{pick(rank(x))}}});
  }
  void matMul(int x) {
    if (rank(x) == 0) return;
    const int64_t columns = 1 + pick(6);
    Shape weights{shape(x).back(), columns};
    if (rank(x) > 2 && pick(2)) weights.insert(weights.begin(), shape(x)[shape(x).size() - 3]);
    Shape result = shape(x);
    result.back() = columns;
    squash(add("MatMul", {x, anyOfShape(weights)}, {result}));
  }
  void layerNorm(int x) {
    if (rank(x) == 0 || shape(x).back() < 2) return;
    const Shape row{shape(x).back()};
    add("LayerNormalization", {x, newInput(row), newInput(row)}, {shape(x)},
        {{"axis", int64_t{-1}}, {"epsilon", 0.1f}});
  }
  void conv(int x) {
    if (rank(x) < 3) return;
    const size_t spatial = shape(x).size() - 2;
    const int64_t filters = 1 + pick(3);
    Shape weights{filters, shape(x)[1]}, result{shape(x)[0], filters};
    Ints pads(2 * spatial), strides(spatial);
    for (size_t i = 0; i < spatial; ++i) {
      const int64_t size = shape(x)[i + 2], kernel = 1 + pick(std::min<int64_t>(size, 3));
      weights.push_back(kernel);
      pads[i] = pick(kernel);
      pads[i + spatial] = pick(kernel);
      strides[i] = 1 + pick(2);
      result.push_back((size + pads[i] + pads[i + spatial] - kernel) / strides[i] + 1);
    }
    squash(add("Conv", {x, newInput(weights), newInput({filters})}, {result}, {{"pads", pads}, {"strides", strides}}));
  }
  void pool(int x) {
    if (rank(x) < 3) return;
    const size_t spatial = shape(x).size() - 2;
    Ints kernel, strides;
    Shape result{shape(x)[0], shape(x)[1]};
    for (size_t i = 0; i < spatial; ++i) {
      kernel.push_back(1 + pick(std::min<int64_t>(shape(x)[i + 2], 2)));
      strides.push_back(1 + pick(2));
      result.push_back((shape(x)[i + 2] - kernel.back()) / strides.back() + 1);
    }
    const bool average = pick(2) != 0;
    add(average ? "AveragePool" : "MaxPool", {average ? x : withoutTies(x)}, {result},
        {{"kernel_shape", kernel}, {"strides", strides}});
  }
  void topK(int x) {
    if (rank(x) == 0) return;
    const int64_t axis = anyAxis(x), k = 1 + pick(shape(x)[axisAt(axis, x)]);
    Shape result = shape(x);
    result[axisAt(axis, x)] = k;
    bools_.insert(add("TopK", {withoutTies(x)}, {result, result}, {{"axis", axis}, {"k", k}, {"largest", pick(2)}}) +
                  1);
  }

  Random &random_;
  const bool differentiable_;
  Plan plan_;
  std::set<int> bools_;  // values that are no floating numbers
};

const std::map<std::string, Planner::Maker> &Planner::makers() {
  static const std::map<std::string, Maker> kMakers = {{"Concat", &Planner::concat},
                                                       {"Conv", &Planner::conv},
                                                       {"CumSum", &Planner::cumSum},
                                                       {"Expand", &Planner::expand},
                                                       {"Gather", &Planner::gather},
                                                       {"GatherElements", &Planner::gatherElements},
                                                       {"LayerNormalization", &Planner::layerNorm},
                                                       {"MatMul", &Planner::matMul},
                                                       {"AveragePool", &Planner::pool},
                                                       {"Pad", &Planner::pad},
                                                       {"Reshape", &Planner::reshape},
                                                       {"Reverse", &Planner::reverse},
                                                       {"Slice", &Planner::slice},
                                                       {"Softmax", &Planner::softmax},
                                                       {"Split", &Planner::split},
                                                       {"Unsqueeze", &Planner::squeeze},
                                                       {"Tile", &Planner::tile},
                                                       {"TopK", &Planner::topK},
                                                       {"Transpose", &Planner::transpose}};
  return kMakers;
}

}  // namespace

std::string Plan::text() const {
  std::string words;
  for (const Step &step : steps) words += (words.empty() ? "" : " ") + step.type;
  return words;
}

std::vector<std::string> plannedTypes() {
  std::set<std::string> types;
  for (const OpDef *row : familyRows()) types.insert(row->type());
  for (const auto &entry : Planner::makers()) types.insert(entry.first);
  return {types.begin(), types.end()};
}

Plan randomPlan(Random &random, int size, bool differentiable) { return Planner(random, differentiable).make(size); }

Instance instantiate(const Plan &plan, DataType type) {
  Instance result{std::make_unique<Ir>(), {}, {}, {}};
  Graph &graph = result.ir->getMainGraph();
  result.values.resize(plan.values.size());
  std::vector<std::vector<size_t>> made(plan.steps.size());
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const Plan::Value &value = plan.values[v];
    const TensorId id = "v" + std::to_string(v);
    if (value.step >= 0) {
      made[static_cast<size_t>(value.step)].push_back(v);
    } else if (!value.indices.empty()) {
      result.values[v] = graph.addConstant(id, value.indices);
    } else {
      result.values[v] = graph.addStream(id, TensorInfo(type, value.shape));
      result.inputs.push_back(result.values[v]);
    }
  }
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Plan::Step &step = plan.steps[s];
    std::vector<TensorIndex> inputs;
    for (int v : step.inputs) inputs.push_back(result.values[static_cast<size_t>(v)]);
    std::vector<TensorId> ids;
    for (size_t v : made[s]) ids.push_back("v" + std::to_string(v));
    const Op *op = graph.addConnectedOp(opDef(step.type), inputs, ids, step.attributes, Op::Settings(graph, step.type));
    for (size_t i = 0; i < made[s].size(); ++i) {
      const TensorIndex t = result.values[made[s][i]] = op->outputs()[i];
      check(graph.info(t).shape() == plan.values[made[s][i]].shape,
            "{}: shape inference gives {} for output {}, expected {}", op->debugName(), graph.info(t), i,
            plan.values[made[s][i]].shape);
    }
  }
  for (TensorIndex t : result.values)
    if (graph.tensor(t).hasProducer() && graph.tensor(t).uses().empty() && graph.info(t).dataType() == type) {
      graph.markOutput(t);
      result.results.push_back(t);
    }
  return result;
}

}  // namespace popart::fuzz
