// Every op requests a layout for each operand: plain, the backend's choice (channels last around convolutions, panels
// for weights), or "the same as its other operands" (element-wise ops, pools, normalisations). Tensors connected by
// "the same" form an equivalence class, a set. A set gets the layout that one of its ops requests; without a request it
// is plain, unless only channels last has a kernel. A tensor gets the layout that its producer writes, a variable or
// constant that of its set; for other readers a Reorder is inserted. If the backend refuses an op in the layout of its
// set, the op is excluded (it requests plain memory) and the layouts are computed again, until nothing changes.
//
// If every convolution of the program also has a kernel for plain memory (as depthwise ones do), none requests channels
// last: their activations are "the same as the others", so that a single convolution reads and writes C order.
#include "lower/channels_last.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "lower/kernels.hpp"
#include "lower/layout_sets.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

using executable::Layout;
using executable::OperandDesc;

// The layout as stored on a tensor: null when it equals C order for the tensor's shape.
const Layout *forTensor(const Layout *layout, const TensorInfo &info) {
  return layout && !layout->isPlain(info) ? layout : nullptr;
}

bool isSame(OperandLayout asked) { return asked == OperandLayout::Uniform || asked == OperandLayout::Channels; }
bool isChosen(OperandLayout asked) { return asked == OperandLayout::Chosen || asked == OperandLayout::ChosenLast; }

class ChannelsLastAssigner {
 public:
  ChannelsLastAssigner(Ir &program, const Backends &backends)
      : tensors_(program), backends_(backends), backend_(*backends[0]) {
    for (Graph *graph : tensors_.graphs())
      for (OpIndex o : schedule::orderOps(*graph)) ops_.push_back(&graph->op(o));
  }

  void run() {
    if (std::none_of(ops_.begin(), ops_.end(), [](const Op *op) { return isSpatial(*op); })) return;
    followsNeighbours_ = std::all_of(ops_.begin(), ops_.end(), [this](const Op *op) { return canBePlain(*op); });
    // Terminates: each round excludes or forces at least one more op.
    do decide();
    while (!allAccepted());
    for (const auto &[t, layout] : chosen_) executable::setLayout(*t, layout);
    insertReorders();
  }

 private:
  struct Set {
    const Layout *weights = nullptr;  // a packing that an op requests
    bool isTentative = false;         // requested for a ChosenLast operand; a Chosen one replaces it
    bool isLast = false;              // an op requests channels last
  };

  static bool takesPart(const Graph &graph, TensorIndex t) { return t.valid() && graph.info(t).rank() >= 3; }

  OperandLayouts askedBy(const Op &op) const {
    OperandLayouts asked = ops::operandLayouts(op);
    if (excluded_.count(&op)) {
      std::fill(asked.in.begin(), asked.in.end(), OperandLayout::Plain);
      std::fill(asked.out.begin(), asked.out.end(), OperandLayout::Plain);
    } else if (followsNeighbours_) {
      askAsNeighbours(op, asked);
    }
    return asked;
  }

  // Requests "the same as the others" for operands that the backend prefers channels last.
  void askAsNeighbours(const Op &op, OperandLayouts &asked) const {
    forOperands(op, OperandLayouts(asked), [&](Side side, int i, TensorIndex, OperandLayout of) {
      if (isChosen(of) && backend_.wantedLayout(op, side, i) == executable::channelsLast())
        (side == Side::In ? asked.in : asked.out)[static_cast<size_t>(i)] = OperandLayout::Channels;
    });
  }

  // False for an op that prefers channels last and has no kernel for plain activations.
  bool canBePlain(const Op &op) const {
    const OperandLayouts asked = ops::operandLayouts(op);
    OperandLayouts plain = asked;
    askAsNeighbours(op, plain);
    if (plain.in == asked.in && plain.out == asked.out) return true;
    executable::KernelRequest r = executable::requestOf(op);
    forOperands(op, plain, [&](Side side, int i, TensorIndex t, OperandLayout of) {
      OperandDesc &operand = operandOf(r, side, i);
      operand.layout = isChosen(of) && takesPart(op.getGraph(), t)
                           ? forTensor(backend_.wantedLayout(op, side, i), operand.info)
                           : nullptr;
    });
    std::string reason;
    return backend_.createKernel(r, reason) != nullptr;
  }

  // Calls f(loop or branch, passed value) for the values that get a layout, outer graphs first.
  template <class F>
  void forPassed(F &&f) const {
    for (Op *op : ops_)
      for (const Passed &p : passedBy(*op))
        if (takesPart(op->getGraph(), p.outer)) f(*op, p);
  }

  uint32_t number(const Tensor &t) const { return tensors_.number(t.getGraph(), t.index()); }

  void decide() {
    sets_ = layoutSets(
        tensors_, ops_, [this](const Op &op) { return askedBy(op); }, takesPart, isSame,
        [](const Passed &) { return false; });
    found_.assign(sets_.size(), {});
    for (const Op *op : ops_)
      forOperands(*op, askedBy(*op), [&](Side side, int i, TensorIndex t, OperandLayout asked) {
        if (!takesPart(op->getGraph(), t)) return;
        Set &set = found_[sets_.find(tensors_.number(op->getGraph(), t))];
        const Layout *layout = isChosen(asked) ? backend_.wantedLayout(*op, side, i) : nullptr;
        if (layout == executable::channelsLast() || (isSame(asked) && forced_.count(op))) {
          set.isLast = true;
        } else if (layout && (!set.weights || (set.isTentative && asked == OperandLayout::Chosen))) {
          set.weights = layout;
          set.isTentative = asked == OperandLayout::ChosenLast;
        }
      });
    chosen_.clear();
    for (Op *op : ops_)
      forOperands(*op, askedBy(*op), [&](Side side, int i, TensorIndex t, OperandLayout asked) {
        if (side == Side::Out) choose(op->getGraph().tensor(t), wanted(*op, side, i, asked));
      });
    for (Graph *graph : tensors_.graphs())
      for (Tensor *t : graph->tensors())
        if (isStored(*t) && takesPart(*graph, t->index()) && !isConstantOfManyUses(*t)) choose(*t, ofSet(*t));
    // A branch reads a value in its own layout; a value that a loop carries has the layout of its set.
    forPassed([&](Op &op, const Passed &p) {
      Tensor &inner = p.graph->tensor(p.inner);
      choose(inner, p.next.valid() ? ofSet(inner) : layoutOf(op.getGraph().tensor(p.outer)));
      if (p.result.valid()) choose(op.getGraph().tensor(p.result), ofSet(inner));
    });
  }

  static bool isStored(const Tensor &t) {
    return t.tensorType() == TensorType::Variable || t.tensorType() == TensorType::Const;
  }
  // A constant that an op reads in plain memory stays plain.
  bool isConstantOfManyUses(const Tensor &t) const {
    if (t.tensorType() != TensorType::Const) return false;
    return std::any_of(t.uses().begin(), t.uses().end(), [&](const Use &u) {
      const OperandLayout asked = askedBy(t.getGraph().op(u.op)).in[static_cast<size_t>(u.input)];
      return !isSame(asked) && !isChosen(asked);
    });
  }

  void choose(Tensor &t, const Layout *layout) {
    if (layout) chosen_[&t] = layout;
  }
  const Layout *ofSet(const Tensor &t) const {
    const Set &set = found_[sets_.find(number(t))];
    return forTensor(set.weights ? set.weights : set.isLast ? executable::channelsLast() : nullptr, t.info);
  }
  // The layout that a connected operand of the op must have.
  const Layout *wanted(const Op &op, Side side, int i, OperandLayout asked) const {
    const Tensor &t = side == Side::In ? *op.inTensor(i) : *op.outTensor(i);
    if (!takesPart(t.getGraph(), t.index())) return nullptr;
    if (isSame(asked)) return ofSet(t);
    return isChosen(asked) ? forTensor(backend_.wantedLayout(op, side, i), t.info) : nullptr;
  }
  const Layout *layoutOf(const Tensor &t) const {
    const auto it = chosen_.find(const_cast<Tensor *>(&t));
    return it != chosen_.end() ? it->second : executable::layoutOf(t);
  }

  bool accepts(const Op &op, const executable::KernelRequest &request) const {
    return !needsKernel(op) || hasKernel(backends_, request);
  }

  executable::KernelRequest request(const Op &op, const OperandLayouts &layouts) const {
    executable::KernelRequest r = executable::requestOf(op);
    forOperands(op, layouts, [&](Side side, int i, TensorIndex t, OperandLayout asked) {
      if (takesPart(op.getGraph(), t)) operandOf(r, side, i).layout = wanted(op, side, i, asked);
    });
    return r;
  }

  // The request in which every "same" operand is channels last.
  executable::KernelRequest lastRequest(const Op &op, const OperandLayouts &layouts) const {
    executable::KernelRequest r = request(op, layouts);
    forOperands(op, layouts, [&](Side side, int i, TensorIndex, OperandLayout asked) {
      OperandDesc &operand = operandOf(r, side, i);
      if (const Layout *last = forTensor(executable::channelsLast(), operand.info); last && isSame(asked))
        operand.layout = last;
    });
    return r;
  }
  static OperandDesc &operandOf(executable::KernelRequest &request, Side side, int i) {
    return (side == Side::In ? request.inputs : request.outputs)[static_cast<size_t>(i)];
  }

  // Returns false if an op was excluded or forced, so that the layouts must be computed again.
  bool allAccepted() {
    bool all = true;
    for (const Op *op : ops_) {
      if (excluded_.count(op)) continue;
      const OperandLayouts layouts = askedBy(*op);
      const executable::KernelRequest r = request(*op, layouts);
      auto isPlain = [](const OperandDesc &o) { return o.layout == nullptr; };
      const bool plain = std::all_of(r.inputs.begin(), r.inputs.end(), isPlain) &&
                         std::all_of(r.outputs.begin(), r.outputs.end(), isPlain);
      if (plain && !isSpatial(*op)) continue;
      if (accepted_.count({op, plain})) continue;
      if (accepts(*op, r)) {
        accepted_.insert({op, plain});
      } else if (plain && accepts(*op, lastRequest(*op, layouts))) {
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
      if (op->has(Trait::Call)) {
        reorderPassed(*op);
        continue;
      }
      const OperandLayouts layouts = askedBy(*op);
      for (size_t i = 0; i < layouts.in.size(); ++i)
        if (const int n = static_cast<int>(i); takesPart(op->getGraph(), op->inputs()[i]))
          require(*op, n, wanted(*op, Side::In, n, layouts.in[i]));
    }
    for (Graph *graph : tensors_.graphs()) reorderOutputs(*graph);
  }

  void require(Op &op, int input, const Layout *layout) {
    const TensorIndex t = op.inputs()[static_cast<size_t>(input)];
    Graph &graph = op.getGraph();
    if (!takesPart(graph, t) || layoutOf(graph.tensor(t)) == layout) return;
    graph.replaceUse({op.index(), input}, reordered(graph.tensor(t), layout, &op));
  }

  // A value has the same layout before a loop and in each iteration.
  void reorderPassed(Op &op) {
    for (const Passed &p : passedBy(op)) {
      if (!takesPart(op.getGraph(), p.outer)) continue;
      const Layout *layout = layoutOf(p.graph->tensor(p.inner));
      require(op, p.input, layout);
      if (p.next.valid()) carriedLayouts_[p.graph][p.output] = layout;
    }
  }

  // Outputs of the program and of branches, and the scan outputs of loops, are plain.
  void reorderOutputs(Graph &graph) {
    const std::map<int, const Layout *> &carried = carriedLayouts_[&graph];
    std::vector<TensorIndex> outputs = graph.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!takesPart(graph, outputs[i])) continue;
      const auto it = carried.find(static_cast<int>(i));
      const Layout *layout = it == carried.end() ? nullptr : it->second;
      Tensor &t = graph.tensor(outputs[i]);
      if (layoutOf(t) == layout) continue;
      const std::vector<Op *> readers = t.consumerOps();
      const Op *near = t.hasProducer() ? t.getProducer() : readers.empty() ? nullptr : readers.front();
      outputs[i] = reordered(t, layout, near);
    }
    graph.setOutputs(outputs);
  }

  // `near`: an op whose position the copy takes; null for a value that no op makes or reads.
  TensorIndex reordered(Tensor &t, const Layout *layout, const Op *near) {
    TensorIndex &copy = copies_[{&t, layout}];
    if (copy.valid()) return copy;
    Graph &graph = t.getGraph();
    Op::Settings settings = near ? inheritSettings(*near, graph, "reorder") : Op::Settings(graph, "reorder");
    if (near && settings.sequence < 0) settings.sequence = near->index().value;
    Op *op = graph.addConnectedOp(opDef("Reorder"), {t.index()},
                                  {graph.freeId(t.id + "/" + executable::layoutName(layout))}, {}, settings);
    copy = op->outputs()[0];
    executable::setLayout(graph.tensor(copy), layout);
    return copy;
  }

  ProgramTensors tensors_;
  const Backends &backends_;
  const executable::Backend &backend_;
  std::vector<Op *> ops_;
  UnionFind sets_;
  std::vector<Set> found_;  // by representative of the set
  std::map<Tensor *, const Layout *> chosen_;
  std::map<const Graph *, std::map<int, const Layout *>> carriedLayouts_;  // for a body, by output
  std::set<const Op *> excluded_, forced_;
  bool followsNeighbours_ = false;  // no convolution requests channels last
  std::set<std::pair<const Op *, bool>> accepted_;
  std::map<std::pair<const Tensor *, const Layout *>, TensorIndex> copies_;
};

}  // namespace

void assignChannelsLast(Ir &flat, const Backends &backends) { ChannelsLastAssigner(flat, backends).run(); }

bool isSpatial(const Op &op) { return op.has(Trait::Spatial); }

namespace {

// `same`: the layout of operands that have the layout of the others.
bool supportsWith(const Layout *same, const Op &op, const executable::Backend &backend, std::string &reason) {
  executable::KernelRequest request = executable::requestOf(op);
  forOperands(op, ops::operandLayouts(op), [&](Side side, int i, TensorIndex t, OperandLayout asked) {
    OperandDesc &operand = (side == Side::In ? request.inputs : request.outputs)[static_cast<size_t>(i)];
    operand = {op.getGraph().info(t), nullptr};
    if (isChosen(asked)) operand.layout = forTensor(backend.wantedLayout(op, side, i), operand.info);
    if (isSame(asked) && same && operand.info.rank() >= 3) operand.layout = forTensor(same, operand.info);
  });
  return backend.createKernel(request, reason) != nullptr;
}

}  // namespace

bool supportsConvolution(const Op &op, const executable::Backend &backend, std::string &reason) {
  return supportsWith(nullptr, op, backend, reason);
}

bool hasKernel(const Op &op, const executable::Backend &backend) {
  std::string reason;
  return backend.supports(op, reason) ||
         (isSpatial(op) && supportsWith(executable::channelsLast(), op, backend, reason));
}

}  // namespace popart::lower
