// Tensors that must share a layout form equivalence classes (sets): operands and results of an element-wise op, a
// product's result and the parameters of its update epilogue, a variable and its new value. A set gets the layout that
// an op requests for a variable or constant in it (the right operand of a product), if all ops that use it have
// kernels. A collective that splits or joins a tensor works in C order; a Reorder converts between it and other
// layouts. A Reorder is also inserted before a loop whose products read a value that is computed before and that no
// iteration changes.
#include "lower/layout.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "lower/kernels.hpp"
#include "lower/layout_sets.hpp"
#include "ops/control/loops.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

using executable::Layout;

class LayoutAssigner {
 public:
  LayoutAssigner(Ir &flat, const Backends &backends)
      : flat_(flat), backends_(backends), backend_(*backends[0]), tensors_(flat), refused_(tensors_.size(), 0) {
    collectOps(flat.getMainGraph());
    findSets();
    findReread();
    if (!reread_.empty()) findSets();
  }

  void run() {
    // Terminates: each round excludes at least one more tensor.
    do decide();
    while (!allAccepted());
    for (Graph *graph : tensors_.graphs())
      for (Tensor *t : graph->tensors()) executable::setLayout(*t, layoutOf(*graph, t->index()));
    for (Op *op : ops_) reorder(*op);
    for (Op *op : ops_)
      if (op->is(Role::Loop)) reorderBefore(*op);
  }

 private:
  static constexpr int kRank = 2;  // of the tensors that this pass lays out; assignChannelsLast takes those above
  static constexpr int64_t kFewestIterations = 4;  // from which a Reorder, which one thread runs, is worth it

  struct Set {
    const Layout *wanted = nullptr;
    DataType type = DataType::UNDEFINED;  // of its elements
    bool isStored = false, isPlain = false;
  };

  // In the order in which ops first run: the first op that requests a layout decides, wherever passes have moved it.
  void collectOps(const Graph &graph) {
    if (!collected_.insert(&graph).second) return;
    for (OpIndex o : schedule::orderOps(graph)) {
      Op &op = graph.op(o);
      for (const Graph *called : op.getCalledGraphs())
        if (op.has(Trait::Call)) collectOps(*called);
      ops_.push_back(&op);
    }
  }

  void findSets() {
    sets_ = layoutSets(
        tensors_, ops_, ops::operandLayouts, [](const Graph &, TensorIndex) { return true; },
        [](OperandLayout asked) { return asked == OperandLayout::Uniform; },
        [this](const Passed &p) { return isReread(p); });
    joinCopies();
  }

  bool isReread(const Passed &p) const { return reread_.contains(tensors_.number(*p.graph, p.inner)); }

  // Finds inputs of loop bodies for which every loop over the body gets the operand from an op, and that no iteration
  // changes. Stored tensors, which have their own layout, are excluded.
  void findReread() {
    std::set<uint32_t> stored, others;
    for (const Graph *graph : tensors_.graphs())
      for (const Tensor *t : graph->tensors())
        if (isStored(*t)) stored.insert(sets_.find(tensors_.number(*graph, t->index())));
    for (const Op *op : ops_)
      for (const Passed &p : passedBy(*op)) {
        const Tensor &outer = op->getGraph().tensor(p.outer);
        const int64_t iterations = op->is(Role::Loop) ? ops::iterationCount(*op) : 0;
        const uint32_t inner = tensors_.number(*p.graph, p.inner);
        const bool isFound = p.next == p.inner && !p.result.valid() && outer.hasProducer() &&
                             outer.info.rank() == kRank && (iterations < 0 || iterations >= kFewestIterations) &&
                             !stored.contains(sets_.find(inner));
        (isFound ? reread_ : others).insert(inner);
      }
    for (uint32_t inner : others) reread_.erase(inner);
  }

  Set &setOf(const Graph &graph, TensorIndex t) { return found_[sets_.find(tensors_.number(graph, t))]; }
  void keepPlain(const Graph &graph, TensorIndex t) { setOf(graph, t).isPlain = true; }
  // Null: plain.
  const Layout *layoutOf(const Graph &graph, TensorIndex t) {
    const Set &set = setOf(graph, t);
    return set.isPlain || !set.isStored ? nullptr : set.wanted;
  }

  // Whether the operand may have another layout than the op requests, because a Reorder can be inserted.
  static bool isApart(const Graph &graph, TensorIndex t, OperandLayout asked) {
    return asked == OperandLayout::ChosenLast && graph.info(t).rank() == kRank;
  }

  // Whether the tensor is joined from parts by ops that only copy.
  static bool isJoined(const Tensor &t) {
    if (!t.hasProducer()) return false;
    const OperandLayouts layouts = ops::operandLayouts(*t.getProducer());
    return isApart(t.getGraph(), t.index(), layouts.out[static_cast<size_t>(t.producerOutput())]);
  }

  // Whether its layout is that of a variable or constant, or of memory that a copy fills.
  static bool isStored(const Tensor &t) {
    return t.tensorType() == TensorType::Variable || t.tensorType() == TensorType::Const || isJoined(t);
  }

  // Whole tensors joined from the same parts get the same layout: kernels for one layout return the same bits.
  void joinCopies() {
    std::map<uint32_t, const Tensor *> first;  // by set of the parts
    for (const Op *op : ops_) {
      if (!op->hasInput(0) || !op->hasOutput(0) || !isJoined(*op->outTensor(0))) continue;
      const Graph &graph = op->getGraph();
      const auto [known, isNew] = first.emplace(sets_.find(tensors_.number(graph, op->inputs()[0])), op->outTensor(0));
      if (!isNew && known->second->info == op->outInfo(0))
        sets_.join(tensors_.number(known->second->getGraph(), known->second->index()),
                   tensors_.number(graph, op->outputs()[0]));
    }
  }

  void reorder(Op &op) {
    Graph &graph = op.getGraph();
    forOperands(op, ops::operandLayouts(op), [&](Side side, int i, TensorIndex t, OperandLayout asked) {
      if (!isApart(graph, t, asked) || graph.tensor(t).layout.empty()) return;
      const Op::Settings settings = inheritSettings(op, graph, "reorder");
      const TensorIndex plain =
          graph.addTensor(graph.freeId(graph.tensor(t).id + "/plain"), graph.info(t), TensorType::ActGrad);
      Op &copy = *graph.addOp(opDef("Reorder"), {}, settings);
      if (side == Side::In) {
        graph.connectInput(copy.index(), 0, t);
        graph.connectOutput(copy.index(), 0, plain);
        graph.connectInput(op.index(), i, plain);
      } else {
        graph.disconnectOutput(op.index(), i);
        graph.connectOutput(op.index(), i, plain);
        graph.connectInput(copy.index(), 0, plain);
        graph.connectOutput(copy.index(), 0, t);
      }
      copy.setup();
    });
  }

  // Converts the tensors that the loop reads repeatedly into the layout of its body, once.
  void reorderBefore(Op &loop) {
    Graph &graph = loop.getGraph();
    for (const Passed &p : passedBy(loop)) {
      const Layout *layout = isReread(p) ? layoutOf(*p.graph, p.inner) : nullptr;
      if (!layout || layout == layoutOf(graph, p.outer)) continue;
      const auto [known, isNew] = reordered_.try_emplace({&graph, p.outer.value, layout});
      if (isNew) {
        Op &copy = *graph.addOp(opDef("Reorder"), {}, inheritSettings(loop, graph, "reorder"));
        known->second = graph.addTensor(graph.freeId(graph.tensor(p.outer).id + "/reordered"), graph.info(p.outer),
                                        TensorType::ActGrad);
        executable::setLayout(graph.tensor(known->second), layout);
        graph.connectInput(copy.index(), 0, p.outer);
        graph.connectOutput(copy.index(), 0, known->second);
        copy.setup();
      }
      graph.connectInput(loop.index(), p.input, known->second);
    }
  }

  void decide() {
    found_.assign(tensors_.size(), {});
    for (const Graph *graph : tensors_.graphs())
      for (const Tensor *t : graph->tensors()) {
        Set &set = setOf(*graph, t->index());
        set.isStored |= isStored(*t) || reread_.contains(tensors_.number(*graph, t->index()));
        set.isPlain |= refused_[tensors_.number(*graph, t->index())] != 0 || t->info.nelms() == 1;
        if (set.type == DataType::UNDEFINED) set.type = t->info.dataType();
        set.isPlain |= set.type != t->info.dataType();
      }
    for (const Op *op : ops_) visit(*op);
    for (TensorIndex t : flat_.getMainGraph().outputs()) keepPlain(flat_.getMainGraph(), t);
  }

  void visit(const Op &op) {
    const Graph &graph = op.getGraph();
    const OperandLayouts layouts = ops::operandLayouts(op);
    bool isBroadcast = false;  // an operand is broadcast along rows or columns, which no other layout describes
    forOperands(op, layouts, [&](Side side, int i, TensorIndex t, OperandLayout asked) {
      Set &set = setOf(graph, t);
      if (asked == OperandLayout::Chosen && !set.wanted && graph.info(t).rank() == kRank)
        set.wanted = backend_.wantedLayout(op, side, i);
      set.isPlain |= asked == OperandLayout::Plain || asked == OperandLayout::Channels;
      isBroadcast |= asked == OperandLayout::Plain && graph.info(t).nelms() != 1;
    });
    if (isBroadcast && isElementwise(layouts)) keepPlain(graph, op.outputs()[0]);
    if (op.has(Trait::Call)) keepBordersPlain(op);
    if (const TensorIndex remote = remoteVariable(op); remote.valid() && op.hasInput(1))
      keepPlain(flat_.getMainGraph(), remote);  // its rows are accessed by address
  }
  // All operands and results that are not plain have one layout.
  static bool isElementwise(const OperandLayouts &layouts) {
    return !layouts.in.empty() && !layouts.out.empty() && layouts.out[0] == OperandLayout::Uniform &&
           std::find(layouts.in.begin(), layouts.in.end(), OperandLayout::Chosen) == layouts.in.end();
  }

  // Keeps inputs and outputs of the op's graphs plain, except values that are passed in: the last inputs, and the same
  // number of outputs of a loop body after the condition.
  void keepBordersPlain(const Op &op) {
    const std::vector<Passed> passed = passedBy(op);
    for (const Graph *graph : op.getCalledGraphs()) {
      size_t inputs = 0, carries = 0;
      for (const Passed &p : passed)
        if (p.graph == graph) ++inputs, carries += p.next.valid();
      for (size_t i = 0; i + inputs < graph->inputs().size(); ++i) keepPlain(*graph, graph->inputs()[i]);
      for (size_t i = 0; i < graph->outputs().size(); ++i)
        if (i == 0 || i > carries) keepPlain(*graph, graph->outputs()[i]);
    }
  }

  bool allAccepted() {
    bool all = true;
    for (const Op *op : ops_) all &= isAccepted(*op);
    return all;
  }

  // Whether the backend has a kernel for the op with these layouts. If not, its operands become plain.
  bool isAccepted(const Op &op) {
    const Graph &graph = op.getGraph();
    if (!needsKernel(op)) return true;
    executable::KernelRequest request = executable::requestOf(op);
    bool isPlain = true;
    forOperands(op, ops::operandLayouts(op), [&](Side side, int i, TensorIndex t, OperandLayout asked) {
      if (isApart(graph, t, asked)) return;
      auto &operands = side == Side::In ? request.inputs : request.outputs;
      const Layout *layout = operands[static_cast<size_t>(i)].layout = layoutOf(graph, t);
      isPlain &= layout == nullptr;
    });
    if (isPlain || hasKernel(backends_, request)) return true;
    for (const auto *list : {&op.inputs(), &op.outputs()})
      for (TensorIndex t : *list)
        if (t.valid() && layoutOf(graph, t)) refused_[tensors_.number(graph, t)] = 1;
    return false;
  }

  Ir &flat_;
  const Backends &backends_;
  const executable::Backend &backend_;
  const ProgramTensors tensors_;
  std::vector<Op *> ops_;
  std::set<const Graph *> collected_;
  std::set<uint32_t> reread_;  // numbers of inputs of loop bodies
  std::map<std::tuple<const Graph *, uint32_t, const Layout *>, TensorIndex> reordered_;  // by the original tensor
  UnionFind sets_;
  std::vector<Set> found_;  // by representative of the set
  std::vector<char> refused_;
};

}  // namespace

void assignLayouts(Ir &flat, const Backends &backends) { LayoutAssigner(flat, backends).run(); }

}  // namespace popart::lower
