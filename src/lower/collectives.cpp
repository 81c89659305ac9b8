// See collectives.hpp. Both passes look at one valid order of the graph's ops. A collective may run anywhere after the
// producer of its last operand and before the first reader of a result. Each pass chooses such a position for it and
// moves nothing else. So the new graph has a valid order too: the old one, with the collectives at their new positions.
#include "lower/collectives.hpp"

#include <algorithm>
#include <climits>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "lower/order_updates.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

// CollectiveUpdate: only its row says what its results replace.
bool isUpdate(const Op &op) { return op.hasAttr("replaces"); }

bool isCollective(const Op &op) {
  return isUpdate(op) || op.is(Role::CollectiveReduce) || op.is(Role::CollectiveScatter) ||
         op.is(Role::CollectiveGather);
}

// The operands that are reduced or gathered.
std::span<const TensorIndex> joinedOperands(const Op &op) {
  return std::span(op.inputs()).first(isUpdate(op) ? 1 : op.inputs().size());
}

// A collective and where it may run: after the op at position `ready`, before the one at `use`.
struct Stop {
  Op *op;
  int ready, use;
  int at;  // chosen: it runs after the op at this position
  int64_t place, bytes;
};

// The collectives of a graph whose operands are not published, in the order of `at`.
class Route {
 public:
  explicit Route(const Graph &graph)
      : graph_(graph),
        order_(schedule::orderOps(graph)),
        position_(graph.opSlots(), -1),
        ofLeaves_(graph.opSlots(), 0) {
    for (size_t i = 0; i < order_.size(); ++i) {
      position_[order_[i].value] = static_cast<int>(i);
      ofLeaves_[order_[i].value] = dependsOnLeavesAlone(graph, graph.op(order_[i]), ofLeaves_);
      places_.push_back(graph.op(order_[i]).place());
    }
    for (const OpIndex o : order_)
      if (Op &op = graph.op(o); isCollective(op) && !op.hasAttr("channel")) stops_.push_back(stopOf(op));
    std::ranges::stable_sort(stops_, {}, &Stop::at);
  }

  const std::vector<Stop> &stops() const { return stops_; }
  int64_t placeAt(int position) const { return position < 0 ? 0 : places_[static_cast<size_t>(position)]; }
  // Whether each operand that is reduced or gathered is a value of this graph that only this op reads.
  bool readsAlone(const Op &op) const {
    return std::ranges::all_of(joinedOperands(op), [&](TensorIndex t) {
      const Tensor &operand = graph_.tensor(t);
      return operand.hasProducer() && operand.uses().size() == 1 && !operand.isGraphOutput();
    });
  }

 private:
  int positionOf(OpIndex op) const { return position_[op.value]; }

  Stop stopOf(Op &op) const {
    const int own = positionOf(op.index());
    Stop stop{&op, -1, static_cast<int>(order_.size()), own - 1, op.place(), 0};
    const auto follows = [&](OpIndex before) {
      stop.ready = std::max(stop.ready, isCollective(graph_.op(before)) ? own - 1 : positionOf(before));
    };
    const auto leads = [&](OpIndex after) {
      stop.use = std::min(stop.use, positionOf(after) - (isCollective(graph_.op(after)) ? 1 : 0));
    };
    for (const TensorIndex t : op.inputs()) {
      const OpIndex producer = t.valid() ? graph_.tensor(t).producerIndex() : OpIndex{};
      if (producer.valid() && !(isUpdate(op) && ofLeaves_[producer.value])) follows(producer);
    }
    for (const TensorIndex t : op.outputs())
      for (const Use &use : graph_.tensor(t).uses()) leads(use.op);
    for (const auto &[before, after] : graph_.constraints()) {
      if (after == op.index() && graph_.alive(before)) follows(before);
      if (before == op.index() && graph_.alive(after)) leads(after);
    }
    for (const TensorIndex t : op.is(Role::CollectiveGather) ? op.outputs() : joinedOperands(op))
      stop.bytes += graph_.tensor(t).info.nbytes();
    // A gather needs memory, so it keeps its position.
    if (!op.is(Role::CollectiveGather) && readsAlone(op)) {
      stop.at = stop.ready;
      stop.place = placeAt(stop.at);
    }
    return stop;
  }

  const Graph &graph_;
  const std::vector<OpIndex> order_;
  std::vector<int> position_;
  std::vector<char> ofLeaves_;   // step counters and similar ops, which will run where they are first read
  std::vector<int64_t> places_;  // by position, before any move
  std::vector<Stop> stops_;
};

// Replaces several ops by one, with their operands and results in order.
void putTogether(Graph &graph, const std::vector<Op *> &ops, const std::vector<TensorIndex> &inputs,
                 const Attributes &attributes, int64_t place) {
  Op::Settings settings = inheritSettings(*ops.front(), graph);
  settings.sequence = place;
  Op &all = *graph.addOp(ops.front()->def(), attributes, settings);
  for (const TensorIndex t : inputs) graph.connectInput(all.index(), all.inputCount(), t);
  for (Op *op : ops) {
    const std::vector<TensorIndex> results = op->outputs();
    for (size_t o = 0; o < results.size(); ++o) {
      graph.disconnectOutput(op->index(), static_cast<int>(o));
      graph.connectOutput(all.index(), all.outputCount(), results[o]);
    }
    graph.moveConstraints(op->index(), all.index());
    graph.eraseOp(op->index());
  }
  all.setup();
}

// ---- merging ----------------------------------------------------------------------------------

// Collectives that are merged.
struct Bucket {
  std::vector<Stop> stops;
  int ready = -1, use = INT_MAX, at = -1;
  int64_t place = 0, bytes = 0;
};

class Merger {
 public:
  Merger(Graph &graph, const CollectiveRules &rules) : graph_(graph), rules_(rules), route_(graph) {}

  void run() {
    for (const Stop &stop : route_.stops()) {
      if (isUpdate(*stop.op)) continue;
      Bucket &open = open_[kindOf(*stop.op)];
      if (open.stops.empty() || !add(stop, open)) {
        if (!open.stops.empty() && stop.bytes > open.bytes) {
          close(bucketOf(stop));  // a large one stays alone; small ones after it can still join those before it
        } else {
          close(std::exchange(open, bucketOf(stop)));
        }
      }
    }
    for (auto &[kind, bucket] : open_) close(bucket);
  }

 private:
  using Kind = std::tuple<Role, std::string, int64_t, int64_t, DataType>;
  static Kind kindOf(const Op &op) {
    return {op.def().role(), op.attrString("op"), op.attrInt("group_size"), op.attrInt("stride"),
            op.inInfo(0).dataType()};
  }

  static Bucket bucketOf(const Stop &stop) { return {{stop}, stop.ready, stop.use, stop.at, stop.place, stop.bytes}; }

  const CollectiveRules::Merging &limits(const Op &op) const {
    return op.is(Role::CollectiveReduce)    ? rules_.reduce
           : op.is(Role::CollectiveScatter) ? rules_.scatter
                                            : rules_.gather;
  }

  // Merged reductions run at the position of the last; gathers at that of the first, once all of them can.
  bool add(const Stop &stop, Bucket &to) const {
    Bucket all = to;
    all.ready = std::max(to.ready, stop.ready);
    all.use = std::min(to.use, stop.use);
    all.bytes += stop.bytes;
    const bool gathers = stop.op->is(Role::CollectiveGather);
    all.at = gathers ? std::max(to.at, all.ready) : std::max(to.at, stop.at);
    all.place = all.at == to.at ? to.place : gathers ? route_.placeAt(all.at) : stop.place;
    const CollectiveRules::Merging &limit = limits(*stop.op);
    if (all.at >= all.use || all.bytes > (to.at == stop.at ? limit.together : limit.waiting)) return false;
    all.stops.push_back(stop);
    to = std::move(all);
    return true;
  }

  void close(const Bucket &bucket) {
    if (bucket.stops.empty()) return;
    if (bucket.stops.size() == 1) {
      bucket.stops.front().op->settings.sequence = bucket.place;
      return;
    }
    std::vector<Op *> ops;
    std::vector<TensorIndex> inputs;
    std::vector<int64_t> shapes, ranks;
    for (const Stop &stop : bucket.stops) {
      ops.push_back(stop.op);
      inputs.insert(inputs.end(), stop.op->inputs().begin(), stop.op->inputs().end());
      for (const TensorIndex t : stop.op->outputs()) {
        const Shape &shape = graph_.tensor(t).info.shape();
        shapes.insert(shapes.end(), shape.begin(), shape.end());
        ranks.push_back(static_cast<int64_t>(shape.size()));
      }
    }
    Attributes attributes = ops.front()->attributes();
    if (ops.front()->is(Role::CollectiveGather)) {
      attributes.set("shape", shapes);
      attributes.set("ranks", ranks);
    }
    putTogether(graph_, ops, inputs, attributes, bucket.place);
  }

  Graph &graph_;
  const CollectiveRules &rules_;
  const Route route_;
  std::map<Kind, Bucket> open_;
};

// ---- two phases -------------------------------------------------------------------------------

// A collective that is split in two: the step that waits, and where it runs.
struct Cut {
  Op *op;
  std::vector<TensorIndex> inputs;
  int64_t channel, place;
};

// The inputs of the step that waits: those of the op, or their published forms.
std::vector<TensorIndex> publish(Graph &graph, const Stop &stop, int64_t channel) {
  const Op &op = *stop.op;
  Op::Settings settings = inheritSettings(op, graph);
  settings.sequence = stop.place;
  std::vector<TensorIndex> given;
  std::vector<TensorId> ids;
  for (const int i : publishedInputs(op)) {
    given.push_back(op.inputs()[static_cast<size_t>(i)]);
    ids.push_back(graph.freeId(graph.tensor(given.back()).id + "___published"));
  }
  const std::vector<TensorIndex> published =
      graph
          .addConnectedOp(
              opDef("CollectivePublish"), given, ids,
              {{"group_size", op.attrInt("group_size")}, {"stride", op.attrInt("stride")}, {"channel", channel}},
              settings)
          ->outputs();
  std::vector<TensorIndex> inputs = op.inputs();
  for (size_t i = 0; i < published.size(); ++i) {
    graph.tensor(published[i]).layout = graph.tensor(given[i]).layout;
    std::ranges::replace(inputs, given[i], published[i]);
  }
  return inputs;
}

void overlapGraph(Graph &graph, const CollectiveRules &rules, int64_t &channels) {
  const Route route(graph);
  std::vector<Stop> stops;
  for (const Stop &stop : route.stops())
    if (!stop.op->is(Role::CollectiveGather) && route.readsAlone(*stop.op)) stops.push_back(stop);
  std::vector<Cut> cuts;
  int last = -1;  // position after which the last split collective is waited for
  for (size_t i = 0; i < stops.size(); ++i) {
    size_t next = std::min(i + 1, stops.size() - 1);
    const int64_t ahead = stops[i].op->is(Role::CollectiveScatter) ? 0 : rules.ahead;
    for (int64_t bytes = stops[i].bytes + stops[next].bytes; next + 1 < stops.size() && bytes <= ahead;)
      bytes += stops[++next].bytes;
    const int at = std::min(stops[next].at, stops[i].use - 1);
    if (at < stops[i].at || (at == stops[i].at && last < at)) continue;
    last = at;
    cuts.push_back(
        {stops[i].op, publish(graph, stops[i], channels), channels, std::max(stops[i].place, route.placeAt(at))});
    ++channels;
  }
  // The waiting steps are created after all that publish, so that publishing runs first if both can, and in their
  // order: work of the first to be waited for need not be done while the next ones are waited for.
  for (const Cut &cut : cuts) {
    Attributes attributes = cut.op->attributes();
    attributes.set("channel", cut.channel);
    putTogether(graph, {cut.op}, cut.inputs, attributes, cut.place);
  }
}

int64_t firstFreeChannel(const Ir &program) {
  int64_t channels = 0;
  for (const Graph *graph : program.getAllGraphs())
    for (const Op *op : graph->ops())
      if (op->is(Role::CollectivePublish)) channels = std::max(channels, op->attrInt("channel") + 1);
  return channels;
}

}  // namespace

std::vector<int> publishedInputs(const Op &op) {
  std::vector<int> inputs;
  if (isUpdate(op)) {
    inputs.push_back(0);
    for (const int64_t i : op.attrInts("replaces"))
      if (i != 0) inputs.push_back(static_cast<int>(i));
  } else {
    for (int i = 0; i < op.inputCount(); ++i) inputs.push_back(i);
  }
  return inputs;
}

void mergeCollectives(Ir &program, const CollectiveRules &rules) {
  for (Graph *graph : schedule::programGraphs(program)) Merger(*graph, rules).run();
}

void overlapCollectives(Ir &program, const CollectiveRules &rules) {
  int64_t channels = firstFreeChannel(program);
  for (Graph *graph : schedule::programGraphs(program)) overlapGraph(*graph, rules, channels);
}

}  // namespace popart::lower
