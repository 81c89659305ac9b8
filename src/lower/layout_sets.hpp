// Sets of tensors that have one layout: operands that an op wants to lie alike, and the names that a value has around and
// inside a loop. Both passes that assign layouts begin with them.
#pragma once
#include <algorithm>
#include <vector>

#include "base/union_find.hpp"
#include "executable/kernel.hpp"
#include "lower/program_tensors.hpp"
#include "ops/operand_layouts.hpp"

namespace popart::lower {

using Side = executable::Backend::Side;

inline bool isLoop(const OperandLayouts &layouts) {
  return std::find(layouts.in.begin(), layouts.in.end(), OperandLayout::Carried) != layouts.in.end();
}

// f(side, position, tensor, what the op asks of it) for every connected operand, inputs first.
template <class F>
void forOperands(const Op &op, const OperandLayouts &layouts, F &&f) {
  for (size_t i = 0; i < layouts.in.size(); ++i)
    if (op.inputs()[i].valid()) f(Side::In, static_cast<int>(i), op.inputs()[i], layouts.in[i]);
  for (size_t i = 0; i < layouts.out.size(); ++i)
    if (op.outputs()[i].valid()) f(Side::Out, static_cast<int>(i), op.outputs()[i], layouts.out[i]);
}

// By number of tensor. `layoutsOf(op)`: what the op asks; `takesPart(graph, tensor)`: whether the tensor may be in a set
// with others; `isAlike(layout)`: whether operands of an op that ask this are one set.
template <class Ops, class LayoutsOf, class TakesPart, class IsAlike>
UnionFind layoutSets(const ProgramTensors &tensors, const Ops &ops, LayoutsOf &&layoutsOf, TakesPart &&takesPart,
                     IsAlike &&isAlike) {
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
    if (!isLoop(layouts)) continue;
    const Graph &body = *op->getCalledGraphs().front();
    for (const Carried &c : carriedBy(*op)) {
      if (!takesPart(graph, c.outer)) continue;
      const uint32_t inner = tensors.number(body, c.inner);
      sets.join(tensors.number(graph, c.outer), inner);
      sets.join(tensors.number(body, c.next), inner);
      if (c.result.valid()) sets.join(tensors.number(graph, c.result), inner);
    }
  }
  return sets;
}

}  // namespace popart::lower
