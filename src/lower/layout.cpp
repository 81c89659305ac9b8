// Tensors that must share a layout form classes (union-find): the operands and results of an element-wise op, a
// product's result with the parameters its update epilogue reads, a variable and its new value. A class becomes packed
// when it holds a variable or constant matrix that is the right operand of a product, and every op that touches it can
// work on panels.
#include "lower/layout.hpp"

#include "base/union_find.hpp"
#include "lower/fuse_elementwise.hpp"
#include "lower/program_tensors.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

using executable::Layout;

class Classes {
 public:
  explicit Classes(const ProgramTensors &tensors) : tensors_(tensors), sets_(tensors.size()), info_(tensors.size()) {
    for (const Graph *graph : tensors.graphs())
      for (const Tensor *t : graph->tensors()) {
        Info &i = info_[tensors.number(*graph, t->index())];
        i.stored = t->tensorType() == TensorType::Variable || t->tensorType() == TensorType::Const;
        i.blocked = t->info.rank() != 2 || t->info.dataType() != DataType::FLOAT || t->info.nelms() == 1;
      }
  }

  void visit(const Op &op) {
    graph_ = &op.getGraph();
    if (op.is("FusedMatMul")) return product(op);
    if (op.is("FusedElementwise") || isElementwise(op)) return elementwise(op);
    if (op.is("VariableAssign")) return join(op.inputs()[0], op.inputs()[1]);
    if (op.is("Loop")) return loop(op);
    if (op.is("Expand") && op.inInfo(0).nelms() == 1) return block(op.inputs()[0]);  // a number has no order
    for (TensorIndex t : op.inputs()) block(t);
    for (TensorIndex t : op.outputs()) block(t);
  }
  void block(const Graph &graph, TensorIndex t) { info_[sets_.find(tensors_.number(graph, t))].blocked = true; }

  // The layout of t, plain when its class is not packed.
  Layout layoutOf(const Graph &graph, TensorIndex t, int panelWidth) const {
    const Info &i = info_[sets_.find(tensors_.number(graph, t))];
    if (i.blocked || !i.stored || !i.rightOperand) return {};
    Layout layout;
    layout.kind = Layout::Kind::Packed;
    layout.panel = panelWidth;
    layout.transposed = i.transposed;
    return layout;
  }

 private:
  struct Info {
    bool stored = false, blocked = false, rightOperand = false, transposed = false;
  };

  // Of the graph that is visited.
  Info &at(TensorIndex t) { return info_[sets_.find(tensors_.number(*graph_, t))]; }
  void block(TensorIndex t) {
    if (t.valid()) block(*graph_, t);
  }
  void join(TensorIndex a, TensorIndex b) { join(*graph_, a, *graph_, b); }

  void join(const Graph &graphA, TensorIndex a, const Graph &graphB, TensorIndex b) {
    const uint32_t x = sets_.find(tensors_.number(graphA, a)), y = sets_.find(tensors_.number(graphB, b));
    if (x == y) return;
    Info &to = info_[x];
    const Info &from = info_[y];
    if (!to.rightOperand) to.transposed = from.transposed;
    to.stored |= from.stored;
    to.blocked |= from.blocked;
    to.rightOperand |= from.rightOperand;
    sets_.join(y, x);
  }

  // A carried value has one layout outside and inside; trip count, conditions and collected values are plain.
  void loop(const Op &op) {
    const Graph &body = *op.getCalledGraphs().front();
    const std::vector<Carried> carried = carriedBy(op);
    for (const Carried &c : carried) {
      join(*graph_, c.outer, body, c.inner);
      join(*graph_, c.outer, body, c.next);
      if (c.result.valid()) join(c.outer, c.result);
    }
    for (int i : {0, 1}) block(op.inputs()[static_cast<size_t>(i)]);
    block(body, body.inputs()[0]), block(body, body.inputs()[1]), block(body, body.outputs()[0]);
    for (size_t i = carried.size(); i < op.outputs().size(); ++i) block(op.outputs()[i]);
    for (size_t i = 1 + carried.size(); i < body.outputs().size(); ++i) block(body, body.outputs()[i]);
  }

  void product(const Op &op) {
    block(op.inputs()[0]);
    Info &b = at(op.inputs()[1]);
    if (!b.rightOperand) b.transposed = op.attrInt("trans_b") != 0;
    b.rightOperand = true;
    const Shape &shape = op.outShape(0);
    // Weight gradients, Aᵀ·B, can write their results packed: the gradient, or parameters and optimizer state.
    const bool packable = op.attrInt("trans_a") != 0 && op.attrInt("trans_b") == 0 && isElementwiseEpilogue(op);
    for (int i = 2; i < op.inputCount(); ++i) {
      if (packable && op.inShape(i) == shape) {
        join(op.outputs()[0], op.inputs()[i]);
      } else {
        block(op.inputs()[i]);
      }
    }
    for (TensorIndex t : op.outputs()) {
      if (packable) {
        join(op.outputs()[0], t);
      } else {
        block(t);
      }
    }
  }

  // Operands behind the product are full matrices and single elements: none is broadcast along rows or columns.
  static bool isElementwiseEpilogue(const Op &op) {
    for (int i = 2; i < op.inputCount(); ++i)
      if (op.inShape(i) != op.outShape(0) && op.inInfo(i).nelms() != 1) return false;
    return true;
  }

  void elementwise(const Op &op) {
    const Shape &shape = op.outShape(0);
    bool positional = false;  // an operand is broadcast along rows or columns: panels would mix it up
    for (TensorIndex t : op.inputs())
      if (t.valid() && graph_->info(t).shape() != shape && graph_->info(t).nelms() != 1) positional = true;
    const TensorIndex first = op.outputs()[0];
    for (const auto *list : {&op.inputs(), &op.outputs()})
      for (TensorIndex t : *list) {
        if (!t.valid()) continue;
        if (graph_->info(t).shape() == shape) {
          join(first, t);
        } else {
          block(t);
        }
      }
    if (positional) block(first);
  }

  const ProgramTensors &tensors_;
  const Graph *graph_ = nullptr;  // that is visited
  UnionFind sets_;
  std::vector<Info> info_;
};

// Layouts by number of tensor while they are being decided.
using Candidates = std::vector<Layout>;

// Whether the backend has a kernel for the op with these layouts; otherwise its packed operands are marked refused.
bool accepted(const Op &op, const ProgramTensors &tensors, const Candidates &layouts,
              const executable::Backend &backend, std::vector<char> &refused) {
  if (op.is("VariableAssign") || op.is("Loop") || op.is("If")) return true;
  executable::KernelRequest request = executable::requestOf(op);
  bool packed = false;
  auto lay = [&](const std::vector<TensorIndex> &list, std::vector<executable::OperandDesc> &operands) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (!list[i].valid()) continue;
      operands[i].layout = layouts[tensors.number(op.getGraph(), list[i])];
      packed |= operands[i].layout.kind != Layout::Kind::Plain;
    }
  };
  lay(op.inputs(), request.inputs);
  lay(op.outputs(), request.outputs);
  std::string reason;
  if (!packed || backend.createKernel(request, reason)) return true;
  for (const auto *list : {&op.inputs(), &op.outputs()})
    for (TensorIndex t : *list) {
      const uint32_t n = t.valid() ? tensors.number(op.getGraph(), t) : 0;
      if (t.valid() && layouts[n].kind != Layout::Kind::Plain) refused[n] = 1;
    }
  return false;
}

// Outputs of the program and of branches are plain.
void blockOutputs(const Ir &flat, Classes &classes) {
  for (TensorIndex t : flat.getMainGraph().outputs()) classes.block(flat.getMainGraph(), t);
  for (const Graph *graph : schedule::programGraphs(flat))
    for (const Op *op : graph->ops())
      if (op->is("If"))
        for (const Graph *branch : op->getCalledGraphs()) {
          for (TensorIndex t : branch->inputs()) classes.block(*branch, t);
          for (TensorIndex t : branch->outputs()) classes.block(*branch, t);
        }
}

}  // namespace

void assignLayouts(Ir &flat, const executable::Backend &backend) {
  const int panelWidth = backend.panelWidth();
  if (panelWidth == 0) return;
  const ProgramTensors tensors(flat);
  std::vector<const Op *> ops;
  for (const Graph *graph : tensors.graphs())
    for (OpIndex o : schedule::orderOps(*graph)) ops.push_back(&graph->op(o));
  std::vector<char> refused(tensors.size(), 0);
  Candidates layouts;
  // Each round refuses one tensor more at least, so that the rounds end.
  for (bool again = true; again;) {
    Classes classes(tensors);
    for (const Op *op : ops) classes.visit(*op);
    blockOutputs(flat, classes);
    for (const Graph *graph : tensors.graphs())
      for (const Tensor *t : graph->tensors())
        if (refused[tensors.number(*graph, t->index())]) classes.block(*graph, t->index());
    layouts.assign(tensors.size(), {});
    for (const Graph *graph : tensors.graphs())
      for (const Tensor *t : graph->tensors())
        layouts[tensors.number(*graph, t->index())] = classes.layoutOf(*graph, t->index(), panelWidth);
    again = false;
    for (const Op *op : ops) again |= !accepted(*op, tensors, layouts, backend, refused);
  }
  for (Graph *graph : tensors.graphs())
    for (Tensor *t : graph->tensors()) executable::setLayout(*t, layouts[tensors.number(*graph, t->index())]);
}

}  // namespace popart::lower
