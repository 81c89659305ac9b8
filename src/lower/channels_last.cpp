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
#include "lower/program_tensors.hpp"
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
  Assigner(Ir &program, const executable::Backend &backend) : tensors_(program), backend_(backend) {
    for (Graph *graph : tensors_.graphs())
      for (OpIndex o : schedule::orderOps(*graph)) ops_.push_back(&graph->op(o));
  }

  void run() {
    if (std::none_of(ops_.begin(), ops_.end(), [](const Op *op) { return isSpatial(*op); })) return;
    // Each round excludes or forces one op more at least, so that the rounds end.
    do decide();
    while (!allAccepted());
    for (const auto &[t, layout] : chosen_) executable::setLayout(*t, layout);
    insertReorders();
  }

 private:
  struct Class {
    Layout weights;  // PackedConv when some member is convolution weights
    bool last = false;
  };

  static bool takesPart(const Graph &graph, TensorIndex t) { return t.valid() && graph.info(t).rank() >= 3; }

  Wants wants(const Op &op) const {
    Wants w = wantsOf(op.getGraph(), op);
    if (excluded_.count(&op)) {
      std::fill(w.in.begin(), w.in.end(), Want::Plain);
      std::fill(w.out.begin(), w.out.end(), Want::Plain);
    }
    return w;
  }

  template <class F>
  static void forOperands(const Op &op, const Wants &w, F &&f) {
    const Graph &graph = op.getGraph();
    for (size_t i = 0; i < w.in.size(); ++i)
      if (takesPart(graph, op.inputs()[i])) f(graph.tensor(op.inputs()[i]), w.in[i]);
    for (size_t i = 0; i < w.out.size(); ++i)
      if (takesPart(graph, op.outputs()[i])) f(graph.tensor(op.outputs()[i]), w.out[i]);
  }

  // f(loop, body, carried value) for what takes part.
  template <class F>
  void forCarried(F &&f) const {
    for (Op *op : ops_)
      if (op->is("Loop"))
        for (const Carried &c : carriedBy(*op))
          if (takesPart(op->getGraph(), c.outer)) f(*op, *op->getCalledGraphs().front(), c);
  }

  uint32_t number(const Tensor &t) const { return tensors_.number(t.getGraph(), t.index()); }

  void decide() {
    sets_ = UnionFind(tensors_.size());
    for (const Op *op : ops_) {
      const Tensor *first = nullptr;
      forOperands(*op, wants(*op), [&](const Tensor &t, Want want) {
        if (want != Want::Same) return;
        if (first) sets_.join(number(t), number(*first));
        first = &t;
      });
    }
    forCarried([&](const Op &loop, const Graph &body, const Carried &c) {
      const uint32_t inner = tensors_.number(body, c.inner);
      sets_.join(tensors_.number(loop.getGraph(), c.outer), inner);
      sets_.join(tensors_.number(body, c.next), inner);
      if (c.result.valid()) sets_.join(tensors_.number(loop.getGraph(), c.result), inner);
    });
    classes_.assign(sets_.size(), {});
    for (const Op *op : ops_)
      forOperands(*op, wants(*op), [&](const Tensor &t, Want want) {
        Class &c = classes_[sets_.find(number(t))];
        if (want == Want::Last || (want == Want::Same && forced_.count(op))) c.last = true;
        const bool untold = c.weights.kind == Layout::Kind::Plain;
        if ((want == Want::Weights && (untold || c.weights.transposed)) || (want == Want::TurnedWeights && untold))
          c.weights = weightLayout(*op, want, backend_.panelWidth());
      });
    chosen_.clear();
    for (Op *op : ops_) {
      const Wants w = wants(*op);
      for (size_t i = 0; i < w.out.size(); ++i)
        if (takesPart(op->getGraph(), op->outputs()[i]))
          choose(*op->outTensor(static_cast<int>(i)), wanted(*op, *op->outTensor(static_cast<int>(i)), w.out[i]));
    }
    for (Graph *graph : tensors_.graphs())
      for (Tensor *t : graph->tensors())
        if (isStored(*t) && takesPart(*graph, t->index()) && !isConstantOfManyUses(*t)) choose(*t, ofClass(*t));
    forCarried([&](Op &loop, Graph &body, const Carried &c) {
      choose(body.tensor(c.inner), ofClass(body.tensor(c.inner)));
      if (c.result.valid()) choose(loop.getGraph().tensor(c.result), ofClass(body.tensor(c.inner)));
    });
  }

  static bool isStored(const Tensor &t) {
    return t.tensorType() == TensorType::Variable || t.tensorType() == TensorType::Const;
  }
  // Constants read by ops that want plain memory stay as they are.
  bool isConstantOfManyUses(const Tensor &t) const {
    if (t.tensorType() != TensorType::Const) return false;
    return std::any_of(t.uses().begin(), t.uses().end(), [&](const Use &u) {
      return wants(t.getGraph().op(u.op)).in[static_cast<size_t>(u.input)] == Want::Plain;
    });
  }

  void choose(Tensor &t, const Layout &layout) {
    if (layout.kind != Layout::Kind::Plain) chosen_[&t] = layout;
  }
  Layout ofClass(const Tensor &t) const {
    const Class &c = classes_[sets_.find(number(t))];
    if (c.weights.kind != Layout::Kind::Plain) return c.weights;
    return c.last && !isAlike(t.info) ? Layout{Layout::Kind::ChannelsLast} : Layout{};
  }
  // The layout operand t of op must have.
  Layout wanted(const Op &op, const Tensor &t, Want want) const {
    if (!takesPart(t.getGraph(), t.index())) return {};
    switch (want) {
      case Want::Plain:
        return {};
      case Want::Same:
        return ofClass(t);
      case Want::Last:
        return isAlike(t.info) ? Layout{} : Layout{Layout::Kind::ChannelsLast};
      case Want::Weights:
      case Want::TurnedWeights:
        return weightLayout(op, want, backend_.panelWidth());
    }
    return {};
  }
  Layout layoutOf(const Tensor &t) const {
    const auto it = chosen_.find(const_cast<Tensor *>(&t));
    return it != chosen_.end() ? it->second : Layout::parse(t.layout);
  }

  bool accepts(const Op &op, const executable::KernelRequest &request) const {
    std::string reason;
    return op.is("VariableAssign") || backend_.createKernel(request, reason);
  }

  executable::KernelRequest request(const Op &op, const Wants &w) const {
    executable::KernelRequest r = executable::requestOf(op);
    const Graph &graph = op.getGraph();
    auto lay = [&](std::vector<OperandDesc> &operands, const std::vector<TensorIndex> &list,
                   const std::vector<Want> &wants) {
      for (size_t i = 0; i < wants.size(); ++i)
        if (takesPart(graph, list[i])) operands[i].layout = wanted(op, graph.tensor(list[i]), wants[i]);
    };
    lay(r.inputs, op.inputs(), w.in), lay(r.outputs, op.outputs(), w.out);
    return r;
  }

  // The request with every "same" operand channels last.
  executable::KernelRequest lastRequest(const Op &op, const Wants &w) const {
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
      if (excluded_.count(op)) continue;
      const Wants w = wants(*op);
      const executable::KernelRequest r = request(*op, w);
      auto isPlain = [](const OperandDesc &o) { return o.layout.kind == Layout::Kind::Plain; };
      const bool plain = std::all_of(r.inputs.begin(), r.inputs.end(), isPlain) &&
                         std::all_of(r.outputs.begin(), r.outputs.end(), isPlain);
      if (plain && !spatialRow(*op)) continue;
      if (accepted_.count({op, plain})) continue;
      if (accepts(*op, r)) {
        accepted_.insert({op, plain});
      } else if (plain && accepts(*op, lastRequest(*op, w))) {
        forced_.insert(op);
        all = false;
      } else {
        excluded_.insert(op);
        all = all && plain;
      }
    }
    return all;
  }

  // ---- reorders ---------------------------------------------------------------------------------
  void insertReorders() {
    for (Op *op : ops_) {
      if (op->is("VariableAssign")) {
        require(*op, 1, layoutOf(*op->inTensor(0)));
      } else if (op->is("Loop")) {
        reorderCarried(*op);
      } else {
        const Wants w = wants(*op);
        for (size_t i = 0; i < w.in.size(); ++i)
          if (takesPart(op->getGraph(), op->inputs()[i]))
            require(*op, static_cast<int>(i), wanted(*op, *op->inTensor(static_cast<int>(i)), w.in[i]));
      }
    }
    for (Graph *graph : tensors_.graphs()) reorderOutputs(*graph);
  }

  void require(Op &op, int input, const Layout &layout) {
    const TensorIndex t = op.inputs()[static_cast<size_t>(input)];
    Graph &graph = op.getGraph();
    if (!takesPart(graph, t) || layoutOf(graph.tensor(t)) == layout) return;
    graph.replaceUse({op.index(), input}, reordered(graph.tensor(t), layout, op));
  }

  // A carried value enters the loop, and each iteration, in the layout of its class.
  void reorderCarried(Op &loop) {
    Graph &body = *loop.getCalledGraphs().front();
    for (const Carried &c : carriedBy(loop)) {
      if (!takesPart(loop.getGraph(), c.outer)) continue;
      const Layout layout = layoutOf(body.tensor(c.inner));
      require(loop, c.input, layout);
      carriedLayouts_[&body][c.output] = layout;
    }
  }

  // Outputs of the program, of branches and what loops collect are plain.
  void reorderOutputs(Graph &graph) {
    const std::map<int, Layout> &carried = carriedLayouts_[&graph];
    std::vector<TensorIndex> outputs = graph.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!takesPart(graph, outputs[i])) continue;
      const auto it = carried.find(static_cast<int>(i));
      const Layout layout = it == carried.end() ? Layout{} : it->second;
      Tensor &t = graph.tensor(outputs[i]);
      if (layoutOf(t) == layout) continue;
      const Op *near = t.hasProducer() ? t.getProducer() : t.consumerOps().front();
      outputs[i] = reordered(t, layout, *near);
    }
    graph.setOutputs(outputs);
  }

  TensorIndex reordered(Tensor &t, const Layout &layout, const Op &reader) {
    TensorIndex &copy = copies_[{&t, layout.str()}];
    if (copy.valid()) return copy;
    Graph &graph = t.getGraph();
    Op::Settings settings = inheritSettings(reader, graph, "reorder");
    if (settings.sequence < 0) settings.sequence = reader.index().value;
    Op *op =
        graph.addConnectedOp(opDef("Reorder"), {t.index()}, {graph.freeId(t.id + "/" + layout.str())}, {}, settings);
    copy = op->outputs()[0];
    executable::setLayout(graph.tensor(copy), layout);
    return copy;
  }

  ProgramTensors tensors_;
  const executable::Backend &backend_;
  std::vector<Op *> ops_;
  UnionFind sets_;
  std::vector<Class> classes_;
  std::map<Tensor *, Layout> chosen_;
  std::map<const Graph *, std::map<int, Layout>> carriedLayouts_;  // of a body, by output
  std::set<const Op *> excluded_, forced_;
  std::set<std::pair<const Op *, bool>> accepted_;
  std::map<std::pair<const Tensor *, std::string>, TensorIndex> copies_;
};

}  // namespace

void assignChannelsLast(Ir &flat, const executable::Backend &backend) {
  if (backend.panelWidth() == 0) return;
  Assigner(flat, backend).run();
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
