// Every op says what it wants of each operand: plain memory, channels last, convolution panels, or "the same as its
// other operands" (element-wise ops, pools, normalisations). Tensors tied by "the same" form classes (union-find). A
// class takes the layout that a convolution at its rim wants; without one it stays plain, unless only the other layout
// has a kernel. A tensor then lies as its producer writes it, a variable or constant as its class does, and readers
// that want something else get a Reorder in front. When the backend refuses an op in its class's layout, the op leaves
// the class (wants plain) and everything is decided anew.
#include "lower/channels_last.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/union_find.hpp"
#include "lower/fuse_elementwise.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

using executable::Layout;
using executable::OperandDesc;

// TurnedWeights: as the data gradient reads them.
enum class Want : uint8_t { Plain, Same, Last, Weights, TurnedWeights };

struct Wants {
  std::vector<Want> in, out;
};

bool isAlike(const TensorInfo &info) {
  const Shape &s = info.shape();
  if (s.size() < 3 || info.nelms() == 0) return true;
  return s[1] == 1 || info.nelms() == s[0] * s[1];
}

bool isConvolution(const Op &op) { return op.is("Conv") || op.is("FusedConv"); }
bool isWeightGradient(const Op &op) { return op.is("ConvWeightsGrad") || op.is("FusedConvWeightsGrad"); }

// Ops whose first `in` inputs and first output share a layout; their other operands are plain vectors.
struct SpatialRow {
  const char *type;
  int in;
};
constexpr SpatialRow kSpatial[] = {
    {"MaxPool", 1},
    {"MaxPoolGrad", 2},
    {"AveragePool", 1},
    {"AveragePoolGrad", 1},
    {"LpPool", 1},
    {"LpPoolGrad", 3},
    {"LRN", 1},
    {"LRNGrad", 2},
    {"BatchNormalization", 1},
    {"BatchNormalizationGrad", 2},
    {"GroupNormalization", 1},
    {"GroupNormalizationGrad", 2},
};
// Reductions and broadcasts over spatial dimensions: only one side is spatial.
constexpr const char *kReductions[] = {"ReduceSum", "ReduceMean", "ReduceMax"};

Layout weightLayout(const Op &op, Want want, int panelWidth) {
  Layout layout{Layout::Kind::PackedConv, panelWidth};
  layout.groups = static_cast<int32_t>(op.attrInt("group"));
  const Shape &w = isWeightGradient(op) ? op.outShape(0) : op.inShape(1);
  // Depthwise weights are one matrix (taps x channels), the same for all passes.
  if (layout.groups > 1 && w[1] == 1 && w[0] == layout.groups) {
    layout.groups = 1;
  } else {
    layout.transposed = want == Want::TurnedWeights;
  }
  return layout;
}

// Whether the op works on spatial tensors in a way that makes channels-last worth while, or that alone has a kernel.
const SpatialRow *spatialRow(const Op &op) {
  for (const SpatialRow &row : kSpatial)
    if (op.is(row.type)) return &row;
  return nullptr;
}

Wants wantsOf(const Graph &graph, const Op &op) {
  Wants w{std::vector<Want>(op.inputs().size(), Want::Plain), std::vector<Want>(op.outputs().size(), Want::Plain)};
  if (op.isUserOp()) return w;
  auto sameShape = [&](TensorIndex t, const Shape &shape, Want yes) {
    return t.valid() && graph.info(t).shape() == shape ? yes : Want::Plain;
  };
  if (isConvolution(op)) {
    w.in[0] = Want::Last, w.in[1] = Want::Weights;
    for (size_t i = 3; i < w.in.size(); ++i) w.in[i] = sameShape(op.inputs()[i], op.outShape(0), Want::Last);
    std::fill(w.out.begin(), w.out.end(), Want::Last);
  } else if (op.is("ConvDataGrad")) {
    w = {{Want::Last, Want::TurnedWeights}, {Want::Last}};
  } else if (isWeightGradient(op)) {
    w.in[0] = w.in[1] = Want::Last;
    for (size_t i = 2; i < w.in.size(); ++i) w.in[i] = sameShape(op.inputs()[i], op.outShape(0), Want::Weights);
    std::fill(w.out.begin(), w.out.end(), Want::Weights);
  } else if (const SpatialRow *row = spatialRow(op)) {
    std::fill_n(w.in.begin(), row->in, Want::Same);
    w.out[0] = Want::Same;
  } else if (op.is("Concat") && op.outRank(0) >= 3) {
    const int64_t axis = op.attrInt("axis"), rank = op.outRank(0);
    if (axis == 1 || axis == 1 - rank) std::fill(w.in.begin(), w.in.end(), Want::Same), w.out[0] = Want::Same;
  } else if (op.is("ConcatGrad") || op.is("Slice")) {
    if (op.outRank(0) >= 3) w.in[0] = w.out[0] = Want::Same;
  } else if (std::any_of(std::begin(kReductions), std::end(kReductions),
                         [&](const char *type) { return op.is(type); })) {
    if (op.inRank(0) >= 3 && (op.outRank(0) < 3 || isAlike(op.outInfo(0)))) w.in[0] = Want::Same;
  } else if (op.is("Expand")) {
    if (op.outRank(0) >= 3 && isAlike(op.inInfo(0))) w.out[0] = Want::Same;
  } else if (op.is("VariableAssign")) {
    w.in = {Want::Same, Want::Same};
  } else if (op.is("FusedElementwise") || isElementwise(op)) {
    for (size_t i = 0; i < w.in.size(); ++i) w.in[i] = sameShape(op.inputs()[i], op.outShape(0), Want::Same);
    for (size_t i = 0; i < w.out.size(); ++i) w.out[i] = sameShape(op.outputs()[i], op.outShape(0), Want::Same);
  }
  return w;
}

class Assigner {
 public:
  Assigner(Graph &graph, const executable::Backend &backend) : graph_(graph), backend_(backend) {
    for (OpIndex o : schedule::orderOps(graph)) ops_.push_back(&graph.op(o));
  }

  void run() {
    if (std::none_of(ops_.begin(), ops_.end(), [](const Op *op) { return isSpatial(*op); })) return;
    do decide();
    while (!allAccepted());
    for (const auto &[t, layout] : chosen_) executable::setLayout(graph_.tensor(t), layout);
    insertReorders();
  }

 private:
  struct Class {
    Layout weights;  // PackedConv when some member is convolution weights
    bool last = false;
  };

  bool takesPart(TensorIndex t) const { return t.valid() && graph_.info(t).rank() >= 3; }

  Wants wants(const Op &op) const {
    Wants w = wantsOf(graph_, op);
    if (excluded_.count(op.index())) {
      std::fill(w.in.begin(), w.in.end(), Want::Plain);
      std::fill(w.out.begin(), w.out.end(), Want::Plain);
    }
    return w;
  }

  template <class F>
  void forOperands(const Op &op, const Wants &w, F &&f) const {
    for (size_t i = 0; i < w.in.size(); ++i)
      if (takesPart(op.inputs()[i])) f(op.inputs()[i], w.in[i]);
    for (size_t i = 0; i < w.out.size(); ++i)
      if (takesPart(op.outputs()[i])) f(op.outputs()[i], w.out[i]);
  }

  void decide() {
    sets_ = UnionFind(graph_.tensorSlots());
    for (const Op *op : ops_) {
      TensorIndex first;
      forOperands(*op, wants(*op), [&](TensorIndex t, Want want) {
        if (want != Want::Same) return;
        if (first.valid()) sets_.join(t.value, first.value);
        first = t;
      });
    }
    classes_.assign(sets_.size(), {});
    for (const Op *op : ops_)
      forOperands(*op, wants(*op), [&](TensorIndex t, Want want) {
        Class &c = classes_[sets_.find(t.value)];
        if (want == Want::Last || (want == Want::Same && forced_.count(op->index()))) c.last = true;
        const bool untold = c.weights.kind == Layout::Kind::Plain;
        if ((want == Want::Weights && (untold || c.weights.transposed)) || (want == Want::TurnedWeights && untold))
          c.weights = weightLayout(*op, want, backend_.panelWidth());
      });
    chosen_.clear();
    for (const Op *op : ops_) {
      const Wants w = wants(*op);
      for (size_t i = 0; i < w.out.size(); ++i)
        if (takesPart(op->outputs()[i])) choose(op->outputs()[i], wanted(*op, op->outputs()[i], w.out[i]));
    }
    for (Tensor *t : graph_.tensors())
      if (isStored(*t) && takesPart(t->index()) && !isConstantOfManyUses(*t)) choose(t->index(), ofClass(t->index()));
  }

  static bool isStored(const Tensor &t) {
    return t.tensorType() == TensorType::Variable || t.tensorType() == TensorType::Const;
  }
  // Constants read by ops that want plain memory stay as they are.
  bool isConstantOfManyUses(const Tensor &t) const {
    if (t.tensorType() != TensorType::Const) return false;
    return std::any_of(t.uses().begin(), t.uses().end(), [&](const Use &u) {
      return wants(graph_.op(u.op)).in[static_cast<size_t>(u.input)] == Want::Plain;
    });
  }

  void choose(TensorIndex t, const Layout &layout) {
    if (layout.kind != Layout::Kind::Plain) chosen_[t] = layout;
  }
  Layout ofClass(TensorIndex t) {
    const Class &c = classes_[sets_.find(t.value)];
    if (c.weights.kind != Layout::Kind::Plain) return c.weights;
    return c.last && !isAlike(graph_.info(t)) ? Layout{Layout::Kind::ChannelsLast} : Layout{};
  }
  // The layout operand t of op must have.
  Layout wanted(const Op &op, TensorIndex t, Want want) {
    if (!takesPart(t)) return {};
    switch (want) {
      case Want::Plain:
        return {};
      case Want::Same:
        return ofClass(t);
      case Want::Last:
        return isAlike(graph_.info(t)) ? Layout{} : Layout{Layout::Kind::ChannelsLast};
      case Want::Weights:
      case Want::TurnedWeights:
        return weightLayout(op, want, backend_.panelWidth());
    }
    return {};
  }
  Layout layoutOf(TensorIndex t) const {
    const auto it = chosen_.find(t);
    return it != chosen_.end() ? it->second : Layout::parse(graph_.tensor(t).layout);
  }

  OperandDesc describe(TensorIndex t, const Layout &layout) const {
    if (!t.valid()) return {TensorInfo(), {}, nullptr, false};
    const Tensor &tensor = graph_.tensor(t);
    return {tensor.info, takesPart(t) ? layout : Layout::parse(tensor.layout),
            tensor.tensorType() == TensorType::Const ? &tensor.tensorData() : nullptr, true};
  }

  bool accepts(const Op &op, const executable::KernelRequest &request) const {
    std::string reason;
    return op.is("VariableAssign") || backend_.createKernel(request, reason);
  }

  executable::KernelRequest request(const Op &op, const Wants &w) {
    executable::KernelRequest r{&op, {}, {}};
    for (size_t i = 0; i < w.in.size(); ++i)
      r.inputs.push_back(describe(op.inputs()[i], wanted(op, op.inputs()[i], w.in[i])));
    for (size_t i = 0; i < w.out.size(); ++i)
      r.outputs.push_back(describe(op.outputs()[i], wanted(op, op.outputs()[i], w.out[i])));
    return r;
  }

  // The request with every "same" operand channels last.
  executable::KernelRequest lastRequest(const Op &op, const Wants &w) {
    executable::KernelRequest r = request(op, w);
    auto set = [](std::vector<OperandDesc> &list, const std::vector<Want> &wants) {
      for (size_t i = 0; i < list.size(); ++i)
        if (wants[i] == Want::Same && list[i].connected && !isAlike(list[i].info))
          list[i].layout = {Layout::Kind::ChannelsLast};
    };
    set(r.inputs, w.in), set(r.outputs, w.out);
    return r;
  }

  // False when an op was excluded or forced, so that everything must be decided anew.
  bool allAccepted() {
    bool all = true;
    for (const Op *op : ops_) {
      if (excluded_.count(op->index())) continue;
      const Wants w = wants(*op);
      const executable::KernelRequest r = request(*op, w);
      auto isPlain = [](const OperandDesc &o) { return o.layout.kind == Layout::Kind::Plain; };
      const bool plain = std::all_of(r.inputs.begin(), r.inputs.end(), isPlain) &&
                         std::all_of(r.outputs.begin(), r.outputs.end(), isPlain);
      if (plain && !spatialRow(*op)) continue;
      if (accepted_.count({op->index(), plain})) continue;
      if (accepts(*op, r)) {
        accepted_.insert({op->index(), plain});
      } else if (plain && accepts(*op, lastRequest(*op, w))) {
        forced_.insert(op->index());
        all = false;
      } else {
        excluded_.insert(op->index());
        all = all && plain;
      }
    }
    return all;
  }

  // ---- reorders
  void insertReorders() {
    for (Op *op : ops_) {
      if (op->is("VariableAssign")) {
        require(*op, 1, layoutOf(op->inputs()[0]));
        continue;
      }
      const Wants w = wants(*op);
      for (size_t i = 0; i < w.in.size(); ++i)
        if (takesPart(op->inputs()[i])) require(*op, static_cast<int>(i), wanted(*op, op->inputs()[i], w.in[i]));
    }
    for (TensorIndex t : std::vector<TensorIndex>(graph_.outputs()))
      if (layoutOf(t).kind != Layout::Kind::Plain && takesPart(t))
        graph_.replaceOutputs(t, reordered(t, {}, *graph_.tensor(t).getProducerUnsafe()));
  }

  void require(Op &op, int input, const Layout &layout) {
    const TensorIndex t = op.inputs()[static_cast<size_t>(input)];
    if (!takesPart(t) || layoutOf(t) == layout) return;
    graph_.replaceUse({op.index(), input}, reordered(t, layout, op));
  }

  TensorIndex reordered(TensorIndex t, const Layout &layout, const Op &reader) {
    TensorIndex &copy = copies_[{t, layout.str()}];
    if (copy.valid()) return copy;
    Op::Settings settings = inheritSettings(reader, graph_, "reorder");
    if (settings.sequence < 0) settings.sequence = reader.index().value;
    Op *op = graph_.addConnectedOp(opDef("Reorder"), {t}, {graph_.freeId(graph_.tensor(t).id + "/" + layout.str())}, {},
                                   settings);
    copy = op->outputs()[0];
    executable::setLayout(graph_.tensor(copy), layout);
    return copy;
  }

  Graph &graph_;
  const executable::Backend &backend_;
  std::vector<Op *> ops_;
  UnionFind sets_;
  std::vector<Class> classes_;
  std::map<TensorIndex, Layout> chosen_;
  std::set<OpIndex> excluded_, forced_;
  std::set<std::pair<OpIndex, bool>> accepted_;
  std::map<std::pair<TensorIndex, std::string>, TensorIndex> copies_;
};

}  // namespace

void assignChannelsLast(Ir &flat, const executable::Backend &backend) {
  if (backend.panelWidth() == 0) return;
  for (Graph *graph : schedule::programGraphs(flat)) Assigner(*graph, backend).run();
}

bool isSpatial(const Op &op) {
  return isConvolution(op) || op.is("ConvDataGrad") || isWeightGradient(op) || spatialRow(op) != nullptr;
}

bool supportsConvolution(const Graph &graph, const Op &op, const executable::Backend &backend, std::string &reason) {
  if (backend.panelWidth() == 0) return reason = "the backend has no packed layouts", false;
  const Wants w = wantsOf(graph, op);
  executable::KernelRequest request{&op, {}, {}};
  auto describe = [&](TensorIndex t, Want want) -> OperandDesc {
    if (!t.valid()) return {TensorInfo(), {}, nullptr, false};
    Layout layout;
    if (want == Want::Weights || want == Want::TurnedWeights) layout = weightLayout(op, want, backend.panelWidth());
    if (want == Want::Last && !isAlike(graph.info(t))) layout.kind = Layout::Kind::ChannelsLast;
    return {graph.info(t), layout, nullptr, true};
  };
  for (size_t i = 0; i < w.in.size(); ++i) request.inputs.push_back(describe(op.inputs()[i], w.in[i]));
  for (size_t i = 0; i < w.out.size(); ++i) request.outputs.push_back(describe(op.outputs()[i], w.out[i]));
  return backend.createKernel(request, reason) != nullptr;
}

}  // namespace popart::lower
