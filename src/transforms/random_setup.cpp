// See random_setup.hpp. Runs before differentiation, so that gradient ops read the seed of their forward op and repeat
// its mask.
#include "transforms/random_setup.hpp"

#include <set>

#include "ops/random/seed.hpp"

namespace popart::transforms {
namespace {

class SeedSetup {
 public:
  SeedSetup(Ir &ir, int64_t replicas) : ir_(ir), replicas_(replicas) {}

  std::optional<TensorId> run() {
    Graph &main = ir_.getMainGraph();
    connectMissing(main);
    const bool drawn = feed(main, main.find(ops::kRandomSeedId));
    for (const Tensor *variable : main.tensorsOfType(TensorType::Variable)) {
      if (!variable->id.starts_with(ops::kOwnRandomSeedPrefix)) continue;
      counter_ = 0;
      feed(main, main.find(variable->id));
    }
    return drawn ? std::optional<TensorId>(ops::kRandomSeedId) : std::nullopt;
  }

 private:
  // Advances the seed once in each run, and gives its readers derived seeds. Returns false if it has no readers.
  bool feed(Graph &main, TensorIndex seed) {
    if (!seed.valid() || main.tensor(seed).uses().empty()) return false;
    std::vector<Use> uses;
    Op *get = nullptr;  // from an earlier run of this pass, with its derived seeds
    for (const Use &use : main.tensor(seed).uses()) {
      if (main.op(use.op).is(Role::GetRandomSeed))
        get = &main.op(use.op);
      else
        uses.push_back(use);
    }
    if (get)
      counter_ = countSeeds();
    else
      get =
          main.addConnectedOp(opDef("GetRandomSeed"), {seed}, {main.freeId("randomSeed___updated")}, {}, firstIn(main));
    TensorIndex common = get->outputs()[0];
    if (replicas_ > 1 && !uses.empty()) common = ofReplica(main, common);
    for (const Use &use : uses) giveOwnSeed(main, use, common);
    return true;
  }

  uint32_t countSeeds() const {
    uint32_t count = 0;
    for (const Graph *graph : ir_.getAllGraphs())
      for (const Op *op : graph->ops()) count += op->is(Role::ModifyRandomSeed) ? 1 : 0;
    return count;
  }

  static Op::Settings firstIn(Graph &graph) {
    Op::Settings settings(graph);
    settings.sequence = 0;
    return settings;
  }

  void connectMissing(Graph &main) {
    for (Graph *graph : ir_.getAllGraphs())
      for (Op *op : graph->ops()) {
        const int i = ops::seedInput(*op);
        if (i < 0 || op->hasInput(i)) continue;
        check(graph->isMain(), "RandomSetup '{}': a random op in {} has no seed. Pass a seed into the graph",
              op->debugName(), graph->getGraphString());
        if (!main.contains(ops::kRandomSeedId))
          main.addVariable(ops::kRandomSeedId, TensorData(TensorInfo(DataType::UINT32, {2})));
        main.connectInput(op->index(), i, main.find(ops::kRandomSeedId));
      }
  }

  static TensorIndex ofReplica(Graph &main, TensorIndex seed) {
    const Op *own = main.addConnectedOp(opDef("ReplicaRandomSeed"), {seed}, {main.freeId("randomSeed___ofReplica")}, {},
                                        firstIn(main));
    return own->outputs()[0];
  }

  TensorIndex modify(Graph &graph, TensorIndex seed, TensorIndex modifier, const Op &user) {
    Op::Settings settings = inheritSettings(user, graph);
    settings.name.clear();
    return graph
        .addConnectedOp(opDef("ModifyRandomSeed"), {seed, modifier},
                        {graph.freeId(graph.addScope("randomSeed___modified"))}, {}, settings)
        ->outputs()[0];
  }

  TensorIndex constantModifier(Graph &graph, uint32_t value) {
    const TensorId id = graph.freeId(graph.addScope("randomSeedModifier___" + std::to_string(value)));
    return graph.addConstant(id, TensorData::scalar(value));
  }

  void giveOwnSeed(Graph &graph, const Use &use, TensorIndex seed) {
    Op &op = graph.op(use.op);
    graph.replaceUse(use, modify(graph, seed, constantModifier(graph, ++counter_), op));
    if (op.has(Trait::Call)) enter(op, use.input);
  }

  // Enters the subgraph input for input `i` of a Call, Loop or If.
  void enter(Op &op, int i) {
    for (Graph *graph : op.getCalledGraphs()) {
      if (op.is(Role::If)) {
        const int thenInputs = static_cast<int>(
            op.getIr().getGraph(op.attributes().getAttribute<GraphRef>("then_branch").id).inputs().size());
        const bool isThen = graph->id == op.attributes().getAttribute<GraphRef>("then_branch").id;
        const int position = i - 1 - (isThen ? 0 : thenInputs);
        if (position >= 0 && position < (isThen ? thenInputs : static_cast<int>(graph->inputs().size())))
          spread(*graph, position, false);
      } else if (i < static_cast<int>(graph->inputs().size())) {
        spread(*graph, i, op.is(Role::Loop));
      }
    }
  }

  void spread(Graph &graph, int position, bool loops) {
    TensorIndex seed = graph.inputs()[position];
    if (!visited_.insert({graph.id, position}).second) return;
    const std::vector<Use> uses = graph.tensor(seed).uses();
    if (uses.empty()) return;
    if (loops) {
      const Op &user = graph.op(uses.front().op);
      Op *number = graph.addConnectedOp(opDef("Cast"), {graph.inputs()[0]},
                                        {graph.freeId(graph.addScope("randomSeedModifier___iteration"))},
                                        {{"to", int64_t{toOnnxDataType(DataType::UINT32)}}}, firstIn(graph));
      seed = modify(graph, seed, number->outputs()[0], user);
    }
    for (const Use &use : uses) giveOwnSeed(graph, use, seed);
  }

  Ir &ir_;
  int64_t replicas_;
  uint32_t counter_ = 0;
  std::set<std::pair<GraphId, int>> visited_;
};

}  // namespace

std::optional<TensorId> setUpRandomSeeds(Ir &ir, int64_t replicas) { return SeedSetup(ir, replicas).run(); }

}  // namespace popart::transforms
