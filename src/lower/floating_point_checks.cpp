// See floating_point_checks.hpp. Every tensor is checked once, so that no operand lives longer than without checks.
#include "lower/floating_point_checks.hpp"

#include <map>

namespace popart::lower {
namespace {

// FLOAT8 is checked where it is widened.
bool isWatched(DataType type) { return (typeBit(type) & kFloats) != 0; }

bool computes(const Op &op) {
  return !op.has(Trait::Call | Trait::HostIo | Trait::SideEffect | Trait::View | Trait::Init);
}

class Watcher {
 public:
  explicit Watcher(Graph &graph) : graph_(graph) {}

  void run() {
    for (Op *op : graph_.ops()) {
      if (!computes(*op)) continue;
      for (OutIndex o = 0; o < op->outputCount(); ++o)
        if (op->hasOutput(o) && isWatched(op->outInfo(o).dataType())) watch(*op, o);
    }
  }

 private:
  void watch(const Op &op, OutIndex output) {
    std::vector<TensorIndex> positions{positionsIn(op.outputs()[output], op)};
    for (InIndex i = 0; i < op.inputCount(); ++i)
      if (op.hasInput(i) && isWatched(op.inInfo(i).dataType())) positions.push_back(positionsIn(op.inputs()[i], op));
    graph_.addConnectedOp(opDef("FloatingPointCheck"), positions, {},
                          {{"checked_op", op.debugName()}, {"tensor", op.outId(output)}}, inheritSettings(op, graph_));
  }

  // FirstNonFinite of a tensor, or of the one that it is a view of: positions are the same.
  TensorIndex positionsIn(TensorIndex t, const Op &user) {
    const Op *producer = graph_.tensor(t).getProducerUnsafe();
    for (; producer && producer->has(Trait::View) && producer->inInfo(0).dataType() == graph_.info(t).dataType();
         producer = graph_.tensor(t).getProducerUnsafe())
      t = producer->inputs()[0];
    TensorIndex &positions = positions_[t];
    if (!positions.valid())
      positions = graph_
                      .addConnectedOp(opDef("FirstNonFinite"), {t}, {graph_.freeId(graph_.tensor(t).id + "/nonFinite")},
                                      {}, inheritSettings(producer ? *producer : user, graph_))
                      ->outputs()[0];
    return positions;
  }

  Graph &graph_;
  std::map<TensorIndex, TensorIndex> positions_;
};

}  // namespace

void addFloatingPointChecks(Ir &flat) {
  for (Graph *graph : flat.getAllGraphs()) Watcher(*graph).run();
}

}  // namespace popart::lower
