// The pass table of the pipeline and its runner. A row names a pass, its phase, when it runs and the function. Every
// pass is timed and logged; the Ir is verified at the end of each phase (after every pass on request). After a phase
// its checkpoint writes the dot files that were asked for.
#include "pipeline/prepare.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <fstream>

#include <popart/error.hpp>
#include <popart/ir.hpp>
#include <popart/logging.hpp>

#include "base/environment.hpp"
#include "base/nearest.hpp"
#include "patterns/pattern.hpp"
#include "pipeline/passes.hpp"
#include "transforms/accumulation_loop.hpp"
#include "transforms/decompose_sums.hpp"
#include "transforms/host_io.hpp"
#include "transforms/prune.hpp"
#include "transforms/random_setup.hpp"

namespace popart::pipeline {

PassContext::PassContext(PrepareRequest r) : request(std::move(r)), ir(*request.ir), main(ir.getMainGraph()) {
  for (const Anchor &anchor : request.anchors) anchors.insert(anchor.id);
}

namespace {

enum class Phase { Fwd0, Fwd1, Bwd0, PreAlias, Final };
constexpr const char *kPhaseNames[] = {"Fwd0", "Fwd1", "Bwd0", "PreAlias", "Final"};

const char *returnName(Anchor::Return kind) {
  switch (kind) {
    case Anchor::Return::All:
      return "all";
    case Anchor::Return::Final:
      return "final";
    case Anchor::Return::EveryN:
      return "everyn";
    case Anchor::Return::Sum:
      return "sum";
  }
  throw internal_error("Anchor: unknown return kind: got {}.", static_cast<int>(kind));
}

// ---- conditions
bool always(const PassContext &) { return true; }
bool training(const PassContext &c) { return c.trains(); }
bool decomposesGradSum(const PassContext &c) { return c.trains() && c.request.options.decomposeGradSum; }

// ---- passes
void checkRequest(PassContext &c) {
  check(c.trains() || !c.anchors.empty(),
        "InferenceSession: no anchors: the program would compute nothing. Name at least one anchor in the DataFlow");
  const OptimizerFactors &f = c.request.options.factors;
  check(f.replicationFactor == 1, "SessionOptions::replicatedGraphCount is not supported yet: got {}, expected 1",
        f.replicationFactor);
  c.request.patterns.checkMandatory();
  c.main.setOutputs({});  // what comes back to the host is said by the anchors alone
}

void setUpRandomSeeds(PassContext &c) { c.result.randomSeed = transforms::setUpRandomSeeds(c.ir); }

void checkAnchors(PassContext &c) {
  for (const TensorId &id : c.anchors) {
    if (c.main.contains(id)) continue;
    std::vector<std::string> ids;
    for (Tensor *t : c.main.tensors()) ids.push_back(t->id);
    throw error("DataFlow: the anchor '{}' names no tensor of the model. Nearest existing names: {}", id,
                nearest(id, ids));
  }
}

void pruneGraph(PassContext &c) { transforms::prune(c.main, c.anchors); }

void applyPatterns(PassContext &c) {
  for (Graph *graph : c.ir.getAllGraphs()) {
    const int count =
        patterns::applyPatterns(*graph, c.request.patterns, graph->isMain() ? c.anchors : std::set<TensorId>{});
    logging::pattern::debug("{}: {} rewrites", graph->getGraphString(), count);
  }
}

void decomposeGradSum(PassContext &c) {
  for (Graph *graph : c.ir.getAllGraphs()) transforms::decomposeGradientSums(*graph);
}

void loadStreams(PassContext &c) { transforms::loadStreams(c.main); }

void storeAnchors(PassContext &c) {
  for (const Anchor &anchor : c.request.anchors)
    transforms::storeAnchor(c.main, anchor.id, anchor.stream.empty() ? anchor.id : anchor.stream,
                            returnName(anchor.kind), anchor.period);
}

void addAccumulationLoop(PassContext &c) {
  transforms::addAccumulationLoop(c.ir, c.request.options.factors.accumulationFactor);
}

void removeUnusedGraphs(PassContext &c) {
  std::set<const Graph *> used{&c.main};
  std::vector<const Graph *> stack{&c.main};
  while (!stack.empty()) {
    const Graph *graph = stack.back();
    stack.pop_back();
    for (const Graph *called : graph->getCalledGraphs())
      if (used.insert(called).second) stack.push_back(called);
  }
  for (Graph *graph : c.ir.getAllGraphs())
    if (!used.count(graph)) c.ir.removeGraph(graph->id);
}

struct PassRow {
  const char *name;
  Phase phase;
  bool (*condition)(const PassContext &);
  void (*run)(PassContext &);
};

constexpr PassRow kPasses[] = {
    {"CheckRequest", Phase::Fwd0, always, checkRequest},
    {"AddLossOps", Phase::Fwd0, training, addLossOps},
    {"CheckLoss", Phase::Fwd0, training, checkLoss},
    {"RandomSetup", Phase::Fwd1, always, setUpRandomSeeds},
    {"Autodiff", Phase::Bwd0, training, growBackwardPass},
    {"AddWeightUpdates", Phase::Bwd0, training, addWeightUpdates},
    {"CheckAnchors", Phase::Bwd0, always, checkAnchors},
    {"PruneBeforePatterns", Phase::PreAlias, always, pruneGraph},
    {"Patterns", Phase::PreAlias, always, applyPatterns},
    {"DecomposeGradSum", Phase::PreAlias, decomposesGradSum, decomposeGradSum},
    {"Prune", Phase::PreAlias, always, pruneGraph},
    {"StoreAnchors", Phase::Final, always, storeAnchors},
    {"LoadStreams", Phase::Final, always, loadStreams},
    {"AccumulationLoop", Phase::Final, training, addAccumulationLoop},
    {"RemoveUnusedGraphs", Phase::Final, always, removeUnusedGraphs},
};

bool wantsDot(const PipelineOptions &options, const std::string &checkpoint) {
  return std::any_of(options.dotChecks.begin(), options.dotChecks.end(), [&](std::string name) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char ch) { return std::tolower(ch); });
    std::string wanted = checkpoint;
    std::transform(wanted.begin(), wanted.end(), wanted.begin(), [](unsigned char ch) { return std::tolower(ch); });
    return name == wanted || name == "all";
  });
}

void writeDot(const PassContext &c, const std::string &checkpoint) {
  if (!wantsDot(c.request.options, checkpoint)) return;
  for (Graph *graph : c.ir.getAllGraphs()) {
    std::string name = graph->isMain() ? "main" : graph->id;
    for (char &ch : name)
      if (!std::isalnum(static_cast<unsigned char>(ch)) && ch != '_' && ch != '-') ch = '_';
    const std::string path = c.request.options.logDir + "/" + checkpoint + "_" + name + ".dot";
    std::ofstream file(path);
    file << toDot(*graph);
    file.close();
    check(static_cast<bool>(file), "SessionOptions::dotChecks: the file '{}' cannot be written. Check logDir", path);
  }
}

void finishPhase(PassContext &c, Phase phase) {
  verify(c.ir);
  writeDot(c, kPhaseNames[static_cast<int>(phase)]);
}

}  // namespace

namespace {

// Writes the IR as JSON to the file that POPART_IR_DUMP names, be it finished or as far as the passes came.
class IrDump {
 public:
  explicit IrDump(const Ir &ir) : ir_(ir) {}
  IrDump(const IrDump &) = delete;
  ~IrDump() {
    const std::optional<std::string> path = environment::irDump();
    if (!path) return;
    try {
      std::ofstream file(*path);
      file << serialiseJson(ir_);
      check(file.good(), "the file cannot be written");
    } catch (const std::exception &e) {
      logging::transform::warn("POPART_IR_DUMP '{}': {}", *path, e.what());
    }
  }

 private:
  const Ir &ir_;
};

}  // namespace

Prepared prepare(PrepareRequest request) {
  std::unique_ptr<Optimizer> optimizer;
  if (request.optimizer) {
    optimizer = request.optimizer->clone();
    optimizer->setFactors(request.options.factors);
    request.optimizer = optimizer.get();
  }
  PassContext context(std::move(request));
  const IrDump dump(context.ir);
  Phase phase = Phase::Fwd0;
  for (const PassRow &row : kPasses) {
    if (row.phase != phase) {
      finishPhase(context, phase);
      phase = row.phase;
    }
    if (!row.condition(context)) continue;
    const auto start = std::chrono::steady_clock::now();
    row.run(context);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    logging::transform::debug("{}: {} ms, {} ops", row.name, took.count(), context.main.opCount());
    if (context.request.options.verifyEachPass) verify(context.ir);
  }
  finishPhase(context, phase);
  context.result.ir = std::shared_ptr<Ir>(std::move(context.request.ir));
  return std::move(context.result);
}

std::vector<std::string> passNames() {
  std::vector<std::string> names;
  for (const PassRow &row : kPasses) names.emplace_back(row.name);
  return names;
}

}  // namespace popart::pipeline
