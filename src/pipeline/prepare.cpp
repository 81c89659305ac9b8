// prepare: the passes of a session, from the request to the Ir of the whole program.
#include "pipeline/prepare.hpp"

#include <fstream>
#include <sstream>
#include <unordered_set>

#include <popart/error.hpp>
#include <popart/ir.hpp>
#include <popart/logging.hpp>

#include "base/environment.hpp"
#include "patterns/pattern.hpp"
#include "pipeline/custom_transforms.hpp"

namespace popart::pipeline {
namespace {

// Writes the IR as JSON to the file of POPART_IR_DUMP, also if a pass has failed.
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

void checkRequest(const PrepareRequest &request) {
  check(request.updates || !request.anchors.empty(),
        "InferenceSession: no anchors: the program would compute nothing. Name at least one anchor in the DataFlow");
  request.patterns.checkMandatory();
  checkCustomTransforms(request.options);
  for (const Graph *graph : request.ir->getAllGraphs()) patterns::checkExcluded(*graph, request.patterns);
}

}  // namespace

void logOperations(const Ir &ir) {
  if (!logging::shouldLog(logging::Module::ir, logging::Level::Trace)) return;
  std::istringstream lines(print(ir, PrintData::Summary));
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) logging::ir::trace("{}", line);
}

namespace {

// Removes infos that the tensors of the program, or those that outlining removed, have as well.
void dropUnchangedInfos(std::map<TensorId, TensorInfo> &infos, const Ir &ir,
                        const std::map<TensorId, TensorInfo> &outlined) {
  std::unordered_set<TensorId> changed;
  const auto compare = [&](const TensorId &id, const TensorInfo &info) {
    const auto found = infos.find(id);
    if (found == infos.end() || changed.contains(id)) return;
    if (found->second == info)
      infos.erase(found);
    else
      changed.insert(id);
  };
  for (const Graph *graph : ir.getAllGraphs())
    for (const Tensor *t : graph->tensors()) compare(t->id, t->info);
  for (const auto &[id, info] : outlined) compare(id, info);
}

}  // namespace

Prepared prepare(PrepareRequest request) {
  checkRequest(request);
  PassContext context(std::move(request));
  const IrDump dump(context.ir());
  runPasses(context, Phase::Fwd0, Phase::Final);
  logOperations(context.ir());
  dropUnchangedInfos(context.result.infos, context.ir(), context.result.outlined);
  context.result.ir = std::shared_ptr<Ir>(std::move(context.request.ir));
  return std::move(context.result);
}

}  // namespace popart::pipeline
