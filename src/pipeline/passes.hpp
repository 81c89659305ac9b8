// The passes of the compiler: one table for preparation (session options → whole program) and lowering (program →
// program of a device), one runner. Every pass is timed and logged by name, verified, and dumped on request.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lower/program.hpp"
#include "pipeline/prepare.hpp"

namespace popart::pipeline {

// Phases in order. The names of the first six are checkpoints of SessionOptions: for dotChecks and custom
// transforms.
enum class Phase { Fwd0, Fwd1, Bwd0, PreAlias, MainLoops, Final, Flatten, Fuse, Layout, Order, Device, OnRequest };
const char *phaseName(Phase phase);

// The state that passes share. Preparation works on the Ir of the request; lowering first replaces it by a flat copy.
struct PassContext {
  explicit PassContext(PrepareRequest request);
  // `source` is not changed and must outlive the context.
  PassContext(const Ir &source, const lower::LowerOptions &options, const lower::Backends &backends);
  // All passes by name (popart-opt).
  PassContext(PrepareRequest request, const lower::LowerOptions &options, const lower::Backends &backends);

  const Ir &source() const { return source_ ? *source_ : *request.ir; }  // the input of flatten
  Ir &ir() const;                                                        // throws internal_error before flatten
  Graph &main() const { return ir().getMainGraph(); }
  void replaceIr(std::unique_ptr<Ir> ir);
  void noteInfos();  // adds infos of tensors of the main graph that `result.infos` does not have yet
  bool trains() const { return request.updates.has_value(); }
  const executable::Backend &device() const { return *(*backends)[0]; }  // the first backend
  bool isOff(const std::string &pass) const {
    return request.options.passesOff.contains(pass) || lowering.passesOff.contains(pass);
  }

  PrepareRequest request;
  std::set<TensorId> anchors;
  std::map<TensorId, TensorId> weightToGradient;
  std::map<TensorId, TensorId> namedToGradient;  // of the tensors whose gradients control the loss scale
  TensorIndex lossGradient;                      // the start of the backward pass
  transforms::GradientParts gradientParts;       // gradients of weights that are updated part by part
  transforms::WeightUpdates weightUpdates;       // once they are added
  // Place in program order of the first op of the backward pass, after it was added.
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
  // Why programs are wrong, or kernels are missing, without this pass; empty: it may be switched off (passes_off.hpp).
  const char *needed = "";
  const executable::BackendPass *ofDevice = nullptr;
};

// All passes in the order in which they run: the rows of the table and, at the start of phase Device, those of the
// device (Backend::passes); null: without these. Passes of phase OnRequest only run by name.
std::vector<Pass> passesOf(const executable::Backend *device);

// Runs the passes of these phases, in order, except those that are switched off. The Ir is verified after each pass in
// debug builds and with `verifyEachPass`, otherwise at the end of each phase of preparation and at the end of lowering.
// With POPART_PASS_DUMP=FOLDER the program is written as IR text after every pass that ran:
// FOLDER/<number>-<name>.ir. If a pass throws, the program before it is FOLDER/<number>-before-<name>.ir, complete; an
// internal_error names the pass and this file, or the variable that enables it.
void runPasses(PassContext &context, Phase first, Phase last);
// Runs one pass; does nothing if it is switched off. Throws popart::error if its condition is false.
void runPass(PassContext &context, const Pass &pass);

// Lowering: all passes from Flatten on, including those of the device.
lower::Program lowerProgram(const Ir &ir, const lower::LowerOptions &options, const lower::Backends &backends);
// Lowering and compilation in one call. Throws as lowerProgram and lower::compile.
std::shared_ptr<const executable::Executable> lower(const Ir &ir, const lower::LowerOptions &options);

// ---- training passes (training.cpp)
void addLossOps(PassContext &context);  // LossSpec objects → ops; several are summed
void checkLoss(PassContext &context);   // exists, one element, floating point
// Tensors of the forward pass that differentiation and the host need by name.
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
