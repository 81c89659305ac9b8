// See virtual_graphs.hpp. Auto: the ops in the order in which they run are divided into intervals by cost.
#include "transforms/virtual_graphs.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <popart/error.hpp>

#include "ops/random/seed.hpp"

namespace popart::transforms {
namespace {

void drop(const Ir &ir) {
  for (const Graph *graph : ir.getAllGraphs())
    for (Op *op : graph->ops()) op->settings.vgraphId.reset();
}

void checkAllPlaced(const Graph &main) {
  const std::vector<Op *> ops = main.ops();
  const auto isOpen = [](const Op *op) { return !op->settings.vgraphId.has_value(); };
  const auto open = std::ranges::find_if(ops, isOpen);
  if (open == ops.end()) return;
  const auto count = std::ranges::count_if(ops, isOpen);
  check(count < static_cast<int64_t>(ops.size()),
        "SessionOptions::virtualGraphMode is Manual, but no operation has a virtual graph: got 0 of {}. Give each one "
        "with Builder::virtualGraph, or set virtualGraphMode to Auto or Off",
        ops.size());
  throw error(
      "SessionOptions::virtualGraphMode is Manual, but only some operations have a virtual graph: got {} of {}, "
      "expected all. The first without one is '{}', which makes '{}'. Give it one with Builder::virtualGraph",
      static_cast<int64_t>(ops.size()) - count, ops.size(), (*open)->debugName(),
      (*open)->hasOutput(0) ? (*open)->outId(0) : TensorId());
}

double timeOf(const Op &op) {
  const Cost cost = costOf(op);
  return cost.flops + cost.bytesRead + cost.bytesWritten;
}

// Whether the result of an op depends only on variables and constants, as the transpose of a weight does.
bool readsParametersOnly(const Graph &main, const Op &op) {
  return op.inputCount() > 0 && std::ranges::all_of(op.inputs(), [&](TensorIndex t) {
           if (!t.valid()) return true;
           if (const Op *producer = main.tensor(t).getProducerUnsafe()) return readsParametersOnly(main, *producer);
           return main.tensor(t).tensorType() == TensorType::Variable ||
                  main.tensor(t).tensorType() == TensorType::Const;
         });
}

// Positions where the schedule may be divided: before op i. A tensor that is read on both sides would have to exist
// twice; values computed from parameters stay with their readers.
std::vector<int> splitPoints(const Graph &main, const std::vector<Op *> &order) {
  std::vector<int> position(main.opSlots());
  for (size_t i = 0; i < order.size(); ++i) position[order[i]->index().value] = static_cast<int>(i);
  std::vector<int> crossing(order.size() + 1, 0);  // sum up to i: how many such tensors are read before and after i
  for (const Tensor *t : main.tensors()) {
    const Op *producer = t->getProducerUnsafe();
    if (producer ? !readsParametersOnly(main, *producer) : !isOfOneVirtualGraph(*t)) continue;
    int first = producer ? position[producer->index().value] : static_cast<int>(order.size()), last = -1;
    for (const Use &use : t->uses()) {
      first = std::min(first, position[use.op.value]);
      last = std::max(last, position[use.op.value]);
    }
    if (first >= last) continue;
    ++crossing[static_cast<size_t>(first) + 1];
    --crossing[static_cast<size_t>(last) + 1];
  }
  std::vector<int> points;
  int open = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    open += crossing[i];
    if (i > 0 && open == 0) points.push_back(static_cast<int>(i));
  }
  return points;
}

std::vector<double> sharesOf(const VirtualGraphs &wanted) {
  std::vector<double> shares(wanted.ratios.begin(), wanted.ratios.end());
  if (shares.empty()) shares.assign(static_cast<size_t>(wanted.ipus), 1.0);
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double &share : shares) share /= sum;
  return shares;
}

// The positions of `points` at which `cost`, the sum of all previous ones, is nearest to the ends of the shares.
std::vector<int> chooseCuts(const std::vector<int> &points, const std::vector<double> &cost,
                            const std::vector<double> &shares) {
  std::vector<int> cuts;
  double end = 0;
  size_t from = 0;
  for (size_t k = 0; k + 1 < shares.size(); ++k) {
    end += shares[k] * cost.back();
    const size_t left = shares.size() - 2 - k;  // cuts after this one
    const auto first = points.begin() + static_cast<int64_t>(from), last = points.end() - static_cast<int64_t>(left);
    const auto nearest = std::min_element(first, last, [&](int a, int b) {
      return std::abs(cost[static_cast<size_t>(a)] - end) < std::abs(cost[static_cast<size_t>(b)] - end);
    });
    cuts.push_back(*nearest);
    from = static_cast<size_t>(nearest - points.begin()) + 1;
  }
  return cuts;
}

void place(Graph &graph, VGraphId id) {
  for (Op *op : graph.ops()) {
    op->settings.vgraphId = id;
    for (Graph *called : op->getCalledGraphs()) place(*called, id);
  }
}

void cutByCost(Graph &main, const VirtualGraphs &wanted) {
  const std::vector<Op *> order = main.getOpSchedule();
  const std::vector<double> shares = sharesOf(wanted);
  const std::vector<int> points = splitPoints(main, order);
  check(points.size() + 1 >= shares.size(),
        "SessionOptions::virtualGraphMode Auto: not enough split points for {} IPUs: got {}, expected {}. Use fewer "
        "IPUs, or place operations with Builder::virtualGraph and mode Manual",
        shares.size(), points.size(), shares.size() - 1);
  std::vector<double> cost{0};
  for (const Op *op : order) cost.push_back(cost.back() + timeOf(*op));
  const std::vector<int> cuts = chooseCuts(points, cost, shares);
  VGraphId id = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    while (static_cast<size_t>(id) < cuts.size() && cuts[static_cast<size_t>(id)] <= static_cast<int>(i)) ++id;
    order[i]->settings.vgraphId = id;
    for (Graph *called : order[i]->getCalledGraphs()) place(*called, id);
  }
}

}  // namespace

bool isOfOneVirtualGraph(const Tensor &t) { return t.tensorType() == TensorType::Variable && !ops::isRandomSeed(t.id); }

void placeOnVirtualGraphs(Ir &ir, const VirtualGraphs &wanted) {
  switch (wanted.rule) {
    case VirtualGraphRule::Keep:
      return;
    case VirtualGraphRule::Drop:
      return drop(ir);
    case VirtualGraphRule::Manual:
      return checkAllPlaced(ir.getMainGraph());
    case VirtualGraphRule::Auto:
      return cutByCost(ir.getMainGraph(), wanted);
  }
}

int addIpuCopies(Graph &main) {
  int count = 0;
  for (const Op *producer : main.ops()) {
    const std::optional<VGraphId> source = producer->settings.vgraphId;
    if (!source || producer->hasAttr("destination")) continue;  // a copy is where its readers are
    for (const TensorIndex t : producer->outputs()) {
      if (!t.valid()) continue;
      std::map<VGraphId, TensorIndex> copies;
      const std::vector<Use> uses = main.tensor(t).uses();
      for (const Use &use : uses) {
        const Op &reader = main.op(use.op);
        const std::optional<VGraphId> destination = reader.settings.vgraphId;
        if (!destination || destination == source || reader.modifiesInput(use.input)) continue;
        TensorIndex &copy = copies[*destination];
        if (!copy.valid()) {
          const TensorId id = main.freeId(main.tensor(t).id + "_c" + std::to_string(*destination));
          copy = main.addConnectedOp(opDef("IpuCopy"), {t}, {id}, {{"source", *source}, {"destination", *destination}},
                                     inheritSettings(*producer, main, "copy"))
                     ->outputs()[0];
          ++count;
        }
        main.replaceUse(use, copy);
      }
    }
  }
  return count;
}

}  // namespace popart::transforms
