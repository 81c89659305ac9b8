// Sets of tensors that must share one layout: operands that an op wants in the same layout, the names of a value
// outside and inside of a loop or branch, a remote variable and what is loaded from it and stored. Both passes that
// assign layouts begin with them.
#pragma once
#include <vector>

#include "base/union_find.hpp"
#include "executable/kernel.hpp"
#include "lower/program_tensors.hpp"
#include "ops/operand_layouts.hpp"

namespace popart::lower {

using Side = executable::Backend::Side;

// f(side, position, tensor, the layout the op asks for) for every connected operand, inputs first.
template <class F>
void forOperands(const Op &op, const OperandLayouts &layouts, F &&f) {
  for (size_t i = 0; i < layouts.in.size(); ++i)
    if (op.inputs()[i].valid()) f(Side::In, static_cast<int>(i), op.inputs()[i], layouts.in[i]);
  for (size_t i = 0; i < layouts.out.size(); ++i)
    if (op.outputs()[i].valid()) f(Side::Out, static_cast<int>(i), op.outputs()[i], layouts.out[i]);
}

// Classes over tensor numbers. `layoutsOf(op)`: what the op asks for; `takesPart(graph, tensor)`: whether the tensor
// may share a set; `isAlike(layout)`: whether operands of an op that ask for this layout are one set; `isCut(passed)`:
// whether a value may lie otherwise in the graph that it is passed to.
template <class Ops, class LayoutsOf, class TakesPart, class IsAlike, class IsCut>
UnionFind layoutSets(const ProgramTensors &tensors, const Ops &ops, LayoutsOf &&layoutsOf, TakesPart &&takesPart,
                     IsAlike &&isAlike, IsCut &&isCut) {
  UnionFind sets(tensors.size());
  for (const Op *op : ops) {
    const OperandLayouts layouts = layoutsOf(*op);
    const Graph &graph = op->getGraph();
    TensorIndex first;
    forOperands(*op, layouts, [&](Side, int, TensorIndex t, OperandLayout asked) {
      if (!isAlike(asked) || !takesPart(graph, t)) return;
      if (first.valid()) sets.join(tensors.number(graph, t), tensors.number(graph, first));
      first = t;
    });
    if (const TensorIndex remote = remoteVariable(*op); first.valid() && remote.valid())
      sets.join(tensors.number(graph, first), tensors.number(op->getIr().getMainGraph(), remote));
    for (const Passed &p : passedBy(*op)) {
      if (!takesPart(graph, p.outer) || isCut(p)) continue;
      const uint32_t inner = tensors.number(*p.graph, p.inner);
      sets.join(tensors.number(graph, p.outer), inner);
      if (p.next.valid()) sets.join(tensors.number(*p.graph, p.next), inner);
      if (p.result.valid()) sets.join(tensors.number(graph, p.result), inner);
    }
  }
  return sets;
}

}  // namespace popart::lower
