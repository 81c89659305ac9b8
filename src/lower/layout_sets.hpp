// Sets of tensors that must share one layout: operands for which an op requests the same layout, the names of a value
// outside and inside a loop or branch, a remote variable and the values loaded from and stored to it. Both passes that
// assign layouts start with them.
#pragma once
#include <vector>

#include "base/union_find.hpp"
#include "executable/kernel.hpp"
#include "lower/program_tensors.hpp"
#include "ops/operand_layouts.hpp"

namespace popart::lower {

using Side = executable::Backend::Side;

// Calls f(side, position, tensor, requested layout) for every connected operand, inputs first.
template <class F>
void forOperands(const Op &op, const OperandLayouts &layouts, F &&f) {
  for (size_t i = 0; i < layouts.in.size(); ++i)
    if (op.inputs()[i].valid()) f(Side::In, static_cast<int>(i), op.inputs()[i], layouts.in[i]);
  for (size_t i = 0; i < layouts.out.size(); ++i)
    if (op.outputs()[i].valid()) f(Side::Out, static_cast<int>(i), op.outputs()[i], layouts.out[i]);
}

// Sets over tensor numbers. `layoutsOf(op)`: the layouts that the op requests; `takesPart(graph, tensor)`: whether the
// tensor may be in a set; `isSame(layout)`: whether operands for which an op requests this layout are one set;
// `isCut(passed)`: whether a value may have another layout in the graph that it is passed to.
template <class Ops, class LayoutsOf, class TakesPart, class IsSame, class IsCut>
UnionFind layoutSets(const ProgramTensors &tensors, const Ops &ops, LayoutsOf &&layoutsOf, TakesPart &&takesPart,
                     IsSame &&isSame, IsCut &&isCut) {
  UnionFind sets(tensors.size());
  for (const Op *op : ops) {
    const OperandLayouts layouts = layoutsOf(*op);
    const Graph &graph = op->getGraph();
    TensorIndex first;
    forOperands(*op, layouts, [&](Side, int, TensorIndex t, OperandLayout asked) {
      if (!isSame(asked) || !takesPart(graph, t)) return;
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
