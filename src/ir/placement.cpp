// Placement of tensors, also inside the graphs of loops and of moved ops, one level per step.
#include "ir/placement.hpp"

#include <algorithm>

namespace popart {
namespace {

// The op that determines the placement, and whether it makes the tensor; null if there is none.
struct PlacingOp {
  const Op *op = nullptr;
  bool makesIt = false;
};

const Op *makerOrReader(const Tensor &tensor) {
  if (tensor.hasProducer()) return tensor.getProducer();
  return tensor.uses().empty() ? nullptr : &tensor.getGraph().op(tensor.uses().front().op);
}

// The tensor inside a called graph or loop body that corresponds to a tensor at the op; null if there is none.
const Tensor *inside(const Op &op, const Graph &called, const Tensor &outside) {
  const bool isResult = outside.hasProducer();
  const auto &operands = isResult ? op.outputs() : op.inputs();
  const auto &its = isResult ? called.outputs() : called.inputs();
  auto i = static_cast<size_t>(std::find(operands.begin(), operands.end(), outside.index()) - operands.begin());
  if (isResult) i += its.size() - operands.size();  // a loop does not return its condition
  return i < its.size() ? &called.tensor(its[i]) : nullptr;
}

PlacingOp placingOp(const Tensor &tensor, const std::set<GraphId> &movedInto) {
  PlacingOp found;
  for (const Tensor *t = &tensor; t;) {
    const Op *op = makerOrReader(*t);
    found.makesIt = t->hasProducer();
    if (!op) break;
    found.op = op;
    if (!op->is(Role::Loop) && !op->is(Role::Call)) break;
    const Graph &called = *op->getCalledGraphs().front();
    t = op->is(Role::Loop) || movedInto.count(called.id) ? inside(*op, called, *t) : nullptr;
  }
  return found;
}

// Records a value; returns whether it equals the known one.
template <class T>
bool agrees(std::optional<T> &known, const std::optional<T> &value) {
  if (!known) known = value;
  return !value || known == value;
}

}  // namespace

TensorPlacement placementOf(const Tensor &tensor, const std::set<GraphId> &movedInto) {
  const auto [op, makesIt] = placingOp(tensor, movedInto);
  if (!op) return {};
  TensorPlacement result{op->settings.vgraphId, op->settings.tileSet == TileSet::IO ? TileSet::IO : TileSet::Compute};
  if (makesIt) return result;
  // A copy is in another place than its operand.
  static const OpDef &tileCopy = opDef("IoTileCopy");
  if (result.ipu) result.ipu = op->attributes().getAttribute<int64_t>("source", *result.ipu);
  if (&op->def() == &tileCopy) result.tiles = result.tiles == TileSet::IO ? TileSet::Compute : TileSet::IO;
  return result;
}

bool areTogether(const std::vector<const Tensor *> &tensors, const std::set<GraphId> &movedInto) {
  TensorPlacement known;
  return std::all_of(tensors.begin(), tensors.end(), [&](const Tensor *t) {
    const TensorPlacement its = placementOf(*t, movedInto);
    return agrees(known.ipu, its.ipu) && agrees(known.tiles, its.tiles);
  });
}

}  // namespace popart
