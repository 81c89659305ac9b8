// The passes of the compiler: one table for preparation (session options → whole program) and lowering (program → what
// a device runs), one runner. Every pass is timed and logged by name, verified and dumped on request.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lower/program.hpp"
#include "pipeline/prepare.hpp"

namespace popart::pipeline {

// Phases in order. The names of the first six are checkpoints of SessionOptions: dotChecks, and those of custom
// transforms.
enum class Phase { Fwd0, Fwd1, Bwd0, PreAlias, MainLoops, Final, Flatten, Fuse, Layout, Order, Device, OnRequest };
const char *phaseName(Phase phase);

// What passes share. Preparation works on the Ir of the request; lowering begins by replacing it with a flat copy.
struct PassContext {
  explicit PassContext(PrepareRequest request);
  // `source` stays as it is and must outlive the context.
  PassContext(const Ir &source, const lower::LowerOptions &options, const lower::Backends &backends);
  // All passes by name (popart-opt).
  PassContext(PrepareRequest request, const lower::LowerOptions &options, const lower::Backends &backends);

  const Ir &source() const { return source_ ? *source_ : *request.ir; }  // what flatten reads
  Ir &ir() const;                                                        // throws internal_error before flatten
  Graph &main() const { return ir().getMainGraph(); }
  void replaceIr(std::unique_ptr<Ir> ir);
  void noteInfos();  // of tensors of the main graph that `result.infos` does not have yet
  bool trains() const { return request.updates.has_value(); }
  const executable::Backend &device() const { return *(*backends)[0]; }  // the first kernel provider
  bool isOff(const std::string &pass) const {
    return request.options.passesOff.contains(pass) || lowering.passesOff.contains(pass);
  }

  PrepareRequest request;
  std::set<TensorId> anchors;
  std::map<TensorId, TensorId> weightToGradient;
  std::map<TensorId, TensorId> namedToGradient;  // of the tensors whose gradients steer the loss scale
  TensorIndex lossGradient;                      // where the backward pass starts
  transforms::GradientParts gradientParts;       // of weights that are updated part by part
  transforms::WeightUpdates weightUpdates;       // once they are added
  // Place in program order of the first op of the backward pass, once it is grown.
  std::optional<int64_t> firstGradient;
  Prepared result;
  lower::LowerOptions lowering;
  const lower::Backends *backends = nullptr;  // null in preparation
  bool keepOutputs = false;                   // flatten keeps the outputs of the main graph (tools)

 private:
  const Ir *source_ = nullptr;
};

struct Pass {
  const char *name;     // a verb phrase, the function's name
  const char *meaning;  // one line for people
  Phase phase;
  bool (*applies)(const PassContext &);
  void (*run)(PassContext &);  // null: `ofDevice` runs
  // Why no program is right, or no kernel exists, without this pass; empty: it may be switched off (passes_off.hpp).
  const char *needed = "";
  const executable::BackendPass *ofDevice = nullptr;
};

// All passes in the order in which they run: the rows of the table and, at the start of phase Device, those of the
// device (Backend::passes); null: without these. Passes of phase OnRequest run by name only.
std::vector<Pass> passesOf(const executable::Backend *device);

// The passes of these phases, in order, without those that are switched off. The Ir is verified after each pass in
// debug builds and with `verifyEachPass`, otherwise at the end of each phase of preparation and of the whole of
// lowering. With POPART_PASS_DUMP=FOLDER the program is written as IR text after every pass that ran:
// FOLDER/<number>-<name>.ir. When a pass throws, the program before it becomes FOLDER/<number>-before-<name>.ir, whole;
// an internal_error names the pass and this file, or the variable that asks for it.
void runPasses(PassContext &context, Phase first, Phase last);
// One pass by itself; nothing happens when it is switched off. Throws popart::error when its condition does not hold.
void runPass(PassContext &context, const Pass &pass);

// Lowering: all passes from Flatten on, those of the device included.
lower::Program lowerProgram(const Ir &ir, const lower::LowerOptions &options, const lower::Backends &backends);
// Lowering and compilation in one call. Throws as lowerProgram and lower::compile.
std::shared_ptr<const executable::Executable> lower(const Ir &ir, const lower::LowerOptions &options);

// ---- training passes (training.cpp)
void addLossOps(PassContext &context);  // LossSpec objects → ops; several are summed
void checkLoss(PassContext &context);   // exists, one element, floating point
// Tensors of the forward pass that differentiation and the host ask for by name.
std::set<TensorId> readByBackwardPass(const PassContext &context);
void growBackwardPass(PassContext &context);
void ensureFp32LossScale(PassContext &context);
void addWeightUpdates(PassContext &context);
void serialiseForwardBatch(PassContext &context);
void serialiseBatch(PassContext &context);
void mergeUpdates(PassContext &context);
void transformAutomaticLossScale(PassContext &context);
void recomputeActivations(PassContext &context);
void assignExecutionPhases(PassContext &context);
void placeExecutionPhases(PassContext &context);

// ---- placement and pipelining (pipelining.cpp)
void placeOnVirtualGraphs(PassContext &context);
void addIpuCopies(PassContext &context);
void stageForwardPass(PassContext &context);
void stageBackwardPass(PassContext &context);
void pipelineLoops(PassContext &context);

}  // namespace popart::pipeline
