// See serialise_products.hpp. Ops that split and ops that join are recognised by facts: both share the memory of their
// operands, the first of one tensor, the second of several.
#include "transforms/serialise_products.hpp"

#include <algorithm>
#include <charconv>

#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "base/half_types.hpp"
#include "ir/hints.hpp"
#include "transforms/decompose_sums.hpp"

namespace popart::transforms {
namespace {

constexpr const char *kMode = "serialize_matmul_mode";
constexpr const char *kFactor = "serialize_matmul_factor";
constexpr const char *kKeepPrecision = "serialize_matmul_keep_precision";

std::string markOf(const Op &op, const char *name) {
  const auto found = op.settings.hints.find(name);
  return found == op.settings.hints.end() ? "" : found->second;
}

// Whether the op is a part of the computation; updates of weights use parts in place and do not change.
bool isPart(const Op &op) {
  return op.settings.hints.count(kSerialised) != 0 && !op.has(Trait::VarUpdate) && !op.def().isInplaceVariant();
}
bool cutsOneTensor(const Op &op) {
  return isPart(op) && op.def().writeBackRule() && op.def().inputs()[0].arity != Arity::Variadic;
}

// One way to divide a product: the axis of each operand and of the result, counted from the end; 0: not divided.
// Results that are not divided are added.
struct Cut {
  const char *mode, *dimension;
  int left, right, result;
};
constexpr Cut kCuts[] = {{"input_channels", "input channels", 2, 0, 2},
                         {"output_channels", "output channels", 0, 1, 1},
                         {"reducing_dim", "reduced dimension", 1, 2, 0}};

const Cut *cutOf(const Op &op) {
  if (!op.is(Role::MatMul)) return nullptr;
  const auto found = std::ranges::find(kCuts, markOf(op, kMode), &Cut::mode);
  return found == std::end(kCuts) ? nullptr : &*found;
}

class ProductCutter {
 public:
  ProductCutter(Graph &graph, Op &product, const Cut &cut)
      : graph_(graph), product_(product), cut_(cut), settings_(inheritSettings(product, graph)) {
    keepsPrecision_ = markOf(product, kKeepPrecision) == "1" && isHalf(product.outInfo(0).dataType());
    for (const char *mark : {kMode, kFactor, kKeepPrecision}) settings_.hints.erase(mark);
    settings_.hints[kSerialised] = keepsPrecision_ ? kInFloat : "";
  }

  void run() {
    const int64_t parts = checkedParts();
    if (parts == 1) return takeMarks();
    graph_.disconnectOutput(product_.index(), 0);
    if (cut_.result != 0) {
      std::vector<TensorIndex> results;
      for (int64_t part = 0; part < parts; ++part) results.push_back(emitPart(part, parts));
      emit("Concat", results, {{"axis", graph_.info(result_).rank() - int64_t{cut_.result}}}, result_);
    } else {
      addUp(parts);
    }
    graph_.eraseOp(product_.index());
  }

 private:
  int64_t checkedParts() const {
    const Shape &a = product_.inShape(0), &b = product_.inShape(1);
    check(
        a.size() == b.size() && (a.size() == 2 || a.size() == 3),
        "{}: setSerializeMatMul: the operands must both have rank 2 or both rank 3: got shapes {} and {}. Reshape them",
        product_.debugName(), a, b);
    int64_t parts = 0;
    const std::string text = markOf(product_, kFactor);
    std::from_chars(text.data(), text.data() + text.size(), parts);
    check(parts >= 1, "{}: setSerializeMatMul: the factor must be 1 or more: got '{}'. Give the number of parts",
          product_.debugName(), text);
    const int64_t size = cut_.left != 0 ? a[a.size() - cut_.left] : b[b.size() - cut_.right];
    check(size % parts == 0,
          "{}: setSerializeMatMul: the factor {} does not divide the {} of size {}. Use a factor that does",
          product_.debugName(), parts, cut_.dimension, size);
    return parts;
  }

  void takeMarks() {
    for (const char *mark : {kMode, kFactor, kKeepPrecision}) product_.settings.hints.erase(mark);
  }

  // `result`: the tensor that the op makes; invalid: a new one.
  TensorIndex emit(std::string_view type, const std::vector<TensorIndex> &inputs, const Attributes &attributes,
                   TensorIndex result, const char *what = "") {
    Op *op = graph_.addOp(opDef(type), attributes, settings_);
    for (size_t i = 0; i < inputs.size(); ++i) graph_.connectInput(op->index(), static_cast<InIndex>(i), inputs[i]);
    if (result.valid())
      graph_.connectOutput(op->index(), 0, result);
    else
      result = graph_.createOutput(op->index(), 0, graph_.freeId(graph_.tensor(result_).id + "/" + what));
    op->setup();
    return result;
  }

  TensorIndex cutOperand(int operand, int axisFromEnd, int64_t part, int64_t parts) {
    const TensorIndex whole = product_.inputs()[operand];
    if (axisFromEnd == 0) return whole;
    const int64_t axis = graph_.info(whole).rank() - axisFromEnd,
                  size = graph_.info(whole).dim(static_cast<int>(axis)) / parts;
    const Attributes attributes{{"axes", std::vector<int64_t>{axis}},
                                {"starts", std::vector<int64_t>{part * size}},
                                {"ends", std::vector<int64_t>{(part + 1) * size}}};
    return emit("Slice", {whole}, attributes, {}, "operand");
  }

  TensorIndex emitPart(int64_t part, int64_t parts) {
    const TensorIndex left = cutOperand(0, cut_.left, part, parts), right = cutOperand(1, cut_.right, part, parts);
    Attributes attributes = product_.attributes();
    if (keepsPrecision_ && cut_.result == 0) attributes.set("output_type", int64_t{toOnnxDataType(DataType::FLOAT)});
    return emit(product_.opType(), {left, right}, attributes, {}, "part");
  }

  // Each part is added as soon as it is computed.
  void addUp(int64_t parts) {
    TensorIndex total = emitPart(0, parts);
    for (int64_t part = 1; part < parts; ++part) {
      const TensorIndex term = emitPart(part, parts);
      const bool isResult = part + 1 == parts && !keepsPrecision_;
      settings_.hints[kKeepApart] = "1";
      total = emit("Add", {total, term}, {}, isResult ? result_ : TensorIndex{}, "sum");
      settings_.hints.erase(kKeepApart);
    }
    if (keepsPrecision_)
      emit("Cast", {total}, {{"to", int64_t{toOnnxDataType(graph_.info(result_).dataType())}}}, result_);
  }

  Graph &graph_;
  Op &product_;
  const Cut &cut_;
  Op::Settings settings_;
  const TensorIndex result_ = product_.outputs()[0];
  bool keepsPrecision_ = false;
};

// ---- after differentiation ------------------------------------------------------------------------

// Parts whose sum is requested in FLOAT are computed in FLOAT.
void addInFloat(Graph &graph, Op &sum) {
  const TensorIndex result = sum.outputs()[0];
  const DataType type = graph.info(result).dataType();
  if (!isHalf(type)) return;
  for (TensorIndex t : sum.inputs()) {
    const Op *part = graph.tensor(t).getProducerUnsafe();
    if (!part || markOf(*part, kSerialised) != kInFloat || graph.tensor(t).uses().size() != 1) return;
  }
  auto cast = [&](TensorIndex t, DataType to, const Op &origin) {
    return graph
        .addConnectedOp(opDef("Cast"), {t}, {graph.freeId(graph.tensor(t).id + "/cast")},
                        {{"to", int64_t{toOnnxDataType(to)}}}, inheritSettings(origin, graph))
        ->outputs()[0];
  };
  for (TensorIndex t : sum.inputs()) {
    Op &part = *graph.tensor(t).getProducer();
    for (InIndex i = 0; i < part.inputCount(); ++i)
      if (isHalf(part.inInfo(i).dataType()))
        graph.connectInput(part.index(), i, cast(part.inputs()[i], DataType::FLOAT, part));
    part.setup();
  }
  const TensorIndex exact = graph.addTensor(graph.freeId(graph.tensor(result).id + "/sum"), {}, TensorType::ActGrad);
  graph.disconnectOutput(sum.index(), 0);
  graph.connectOutput(sum.index(), 0, exact);
  sum.setup();
  Op *narrow = graph.addOp(opDef("Cast"), {{"to", int64_t{toOnnxDataType(type)}}}, inheritSettings(sum, graph));
  graph.connectInput(narrow->index(), 0, exact);
  graph.connectOutput(narrow->index(), 0, result);
  narrow->setup();
}

bool addsParts(const Graph &graph, const Op &op) {
  if (!op.is(Role::Sum) && !op.is(Role::Add)) return false;
  return std::ranges::all_of(op.inputs(), [&](TensorIndex t) {
    const Op *producer = graph.tensor(t).getProducerUnsafe();
    return producer && isPart(*producer) && graph.info(t) == op.outInfo(0);
  });
}

// Gives every reader except the first its own slice, which lowering does not merge with the first one.
void cutForEachReader(Graph &graph, Op &cut) {
  const std::vector<Use> uses = graph.tensor(cut.outputs()[0]).uses();
  if (uses.empty()) return;
  OpIndex first = uses[0].op;
  for (const Use &use : uses)
    if (graph.op(use.op).place() < graph.op(first).place()) first = use.op;
  std::map<OpIndex, TensorIndex> copies;
  for (const Use &use : uses) {
    if (use.op == first) continue;
    TensorIndex &copy = copies[use.op];
    if (!copy.valid()) {
      Op::Settings settings = inheritSettings(cut, graph);
      settings.recomputeType = RecomputeType::Recomputed;
      copy = graph
                 .addConnectedOp(cut.def(), cut.inputs(), {graph.freeId(cut.outId(0) + "/again")}, cut.attributes(),
                                 settings)
                 ->outputs()[0];
    }
    graph.replaceUse(use, copy);
  }
}

// An op that only moves data runs right before its first reader.
void runBeforeReader(Graph &graph, Op &op) {
  if (costOf(op).flops != 0 || op.inputCount() != 1 || op.outputCount() != 1) return;
  int64_t place = -1;
  for (const Use &use : graph.tensor(op.outputs()[0]).uses()) {
    const int64_t at = graph.op(use.op).place();
    place = place < 0 ? at : std::min(place, at);
  }
  if (place > op.place()) op.settings.sequence = place;
}

}  // namespace

void serialiseProducts(Graph &graph) {
  for (Op *op : graph.ops())
    if (const Cut *cut = cutOf(*op)) ProductCutter(graph, *op, *cut).run();
}

std::vector<TensorPart> weightParts(const Graph &graph, TensorIndex variable) {
  std::vector<TensorPart> parts;
  for (const Use &use : graph.tensor(variable).uses()) {
    const Op &op = graph.op(use.op);
    if (!cutsOneTensor(op)) return {};
    parts.push_back({op.outputs()[0], op.attrInts("axes")[0], op.attrInts("starts")[0], op.attrInts("ends")[0]});
  }
  std::ranges::sort(parts, {}, &TensorPart::start);
  int64_t end = 0;
  for (const TensorPart &part : parts) {
    if (part.axis != parts[0].axis || part.start != end) return {};
    end = part.end;
  }
  if (parts.empty() || end != graph.info(variable).dim(static_cast<int>(parts[0].axis))) return {};
  return parts;
}

void placeParts(Graph &graph) {
  for (Op *op : graph.ops())
    if (addsParts(graph, *op)) {
      addInFloat(graph, *op);
      decomposeSum(graph, *op);
    }
  for (Op *op : graph.ops())
    if (cutsOneTensor(*op)) cutForEachReader(graph, *op);
  for (Op *op : graph.ops())
    if (isPart(*op)) runBeforeReader(graph, *op);
}

}  // namespace popart::transforms
