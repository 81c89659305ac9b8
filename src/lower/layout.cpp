// Tensors that must share a layout form classes (union-find): the operands and results of an element-wise op, a
// product's result with the parameters its update epilogue reads, a variable and its new value. A class becomes packed
// when it holds a variable or constant matrix that is the right operand of a product, and every op that touches it can
// work on panels.
#include "lower/layout.hpp"

#include "base/union_find.hpp"
#include "lower/fuse_elementwise.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

using executable::Layout;

class Classes {
 public:
  explicit Classes(const Graph &graph) : graph_(graph), sets_(graph.tensorSlots()), info_(graph.tensorSlots()) {
    for (Tensor *t : graph.tensors()) {
      Info &i = info_[t->index().value];
      i.stored = t->tensorType() == TensorType::Variable || t->tensorType() == TensorType::Const;
      i.blocked = t->info.rank() != 2 || t->info.dataType() != DataType::FLOAT || t->info.nelms() == 1;
    }
  }

  void visit(const Op &op) {
    if (op.is("FusedMatMul")) return product(op);
    if (op.is("FusedElementwise") || isElementwise(op)) return elementwise(op);
    if (op.is("VariableAssign")) return join(op.inputs()[0], op.inputs()[1]);
    for (TensorIndex t : op.inputs()) block(t);
    for (TensorIndex t : op.outputs()) block(t);
  }
  void block(TensorIndex t) {
    if (t.valid()) at(t).blocked = true;
  }

  // The layout of t, plain when its class is not packed.
  Layout layoutOf(TensorIndex t, int panelWidth) {
    const Info &i = at(t);
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

  Info &at(TensorIndex t) { return info_[sets_.find(t.value)]; }

  void join(TensorIndex a, TensorIndex b) {
    const uint32_t x = sets_.find(a.value), y = sets_.find(b.value);
    if (x == y) return;
    Info &to = info_[x];
    const Info &from = info_[y];
    if (!to.rightOperand) to.transposed = from.transposed;
    to.stored |= from.stored;
    to.blocked |= from.blocked;
    to.rightOperand |= from.rightOperand;
    sets_.join(y, x);
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
      if (t.valid() && graph_.info(t).shape() != shape && graph_.info(t).nelms() != 1) positional = true;
    const TensorIndex first = op.outputs()[0];
    for (const auto *list : {&op.inputs(), &op.outputs()})
      for (TensorIndex t : *list) {
        if (!t.valid()) continue;
        if (graph_.info(t).shape() == shape) {
          join(first, t);
        } else {
          block(t);
        }
      }
    if (positional) block(first);
  }

  const Graph &graph_;
  UnionFind sets_;
  std::vector<Info> info_;
};

// Layouts of a graph's tensors while they are being decided.
using Candidates = std::vector<Layout>;

// Whether the backend has a kernel for the op with these layouts; otherwise its packed operands are marked refused.
bool accepted(const Op &op, const Candidates &layouts, const executable::Backend &backend, std::vector<char> &refused) {
  if (op.is("VariableAssign")) return true;
  executable::KernelRequest request = executable::requestOf(op);
  bool packed = false;
  auto lay = [&](const std::vector<TensorIndex> &list, std::vector<executable::OperandDesc> &operands) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (!list[i].valid()) continue;
      operands[i].layout = layouts[list[i].value];
      packed |= operands[i].layout.kind != Layout::Kind::Plain;
    }
  };
  lay(op.inputs(), request.inputs);
  lay(op.outputs(), request.outputs);
  std::string reason;
  if (!packed || backend.createKernel(request, reason)) return true;
  for (const auto *list : {&op.inputs(), &op.outputs()})
    for (TensorIndex t : *list)
      if (t.valid() && layouts[t.value].kind != Layout::Kind::Plain) refused[t.value] = 1;
  return false;
}

}  // namespace

void assignLayouts(Ir &flat, const executable::Backend &backend) {
  const int panelWidth = backend.panelWidth();
  if (panelWidth == 0) return;
  Graph &main = flat.getMainGraph();
  const std::vector<OpIndex> order = schedule::orderOps(main);
  std::vector<char> refused(main.tensorSlots(), 0);
  Candidates layouts;
  // Each round refuses one tensor more at least, so that the rounds end.
  for (bool again = true; again;) {
    Classes classes(main);
    for (OpIndex o : order) classes.visit(main.op(o));
    for (TensorIndex t : main.outputs()) classes.block(t);
    for (Tensor *t : main.tensors())
      if (refused[t->index().value]) classes.block(t->index());
    layouts.assign(main.tensorSlots(), {});
    for (Tensor *t : main.tensors()) layouts[t->index().value] = classes.layoutOf(t->index(), panelWidth);
    again = false;
    for (OpIndex o : order) again |= !accepted(main.op(o), layouts, backend, refused);
  }
  for (Tensor *t : main.tensors()) executable::setLayout(*t, layouts[t->index().value]);
}

}  // namespace popart::lower
