// prepare: the Ir of a forward graph -> the Ir of the whole program, ready for lower(): training mode, random seeds,
// backward pass, weight updates, patterns, pruning, host streams, loops over micro-batches and batches. The passes are
// rows of the table in pass_table.cpp.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <popart/ir.hpp>
#include <popart/patterns/patterns.hpp>
#include <popart/updaterule.hpp>

#include "base/compile_times.hpp"
#include "transforms/add_optimizer.hpp"
#include "transforms/automatic_loss_scale.hpp"
#include "transforms/batch_groups.hpp"
#include "transforms/merge_updates.hpp"
#include "transforms/off_chip.hpp"
#include "transforms/pipeline_stages.hpp"
#include "transforms/recompute.hpp"
#include "transforms/return_types.hpp"
#include "transforms/shards.hpp"
#include "transforms/spare_memory.hpp"
#include "transforms/virtual_graphs.hpp"

namespace popart::pipeline {

// A tensor whose values come back to the host.
struct Anchor {
  TensorId id;
  transforms::ReturnType returns{};
  TensorId stream{};  // name of the values at the host; empty: the tensor's id
  const TensorId &streamId() const { return stream.empty() ? id : stream; }
};

// Loss objects of old programs (losses=[NllLoss(...)]): an op of the catalog added to the end of the model.
struct LossSpec {
  std::string type;  // "Nll", "L1", "IdentityLoss"
  std::vector<TensorId> inputs;
  TensorId output;
  Attributes attributes;
  std::optional<VGraphId> virtualGraph{};  // none: that of its first input
  std::optional<PipelineStage> stage{};    // none: that of its first input
};

struct PipelineOptions {
  OptimizerFactors factors;
  std::vector<std::string> dotChecks;  // Fwd0, Fwd1, Bwd0, PreAlias, MainLoops, Final, or ALL
  std::map<std::string, std::vector<std::string>> customTransforms;  // by such a checkpoint
  bool stridesGroups = false;             // normalised groups are of channels that are num_groups apart
  std::string logDir = ".";               // where dot files go
  bool decomposeGradSum = false;          // sums of three or more gradients become additions
  std::optional<DataType> precision;      // 16-bit type that the forward pass computes in; none: the model's types
  bool serialiseProducts = true;          // products that ask for it are cut into parts
  std::optional<float> outlineThreshold;  // repeated sequences worth more become one graph
  bool mergesExchanges = true;            // transfers next to one another are one exchange
  transforms::OffChip offChip;            // tensors in remote memory
  transforms::ShardRules sharding;        // tensors of which each replica keeps a part
  bool floatLossScale = false;            // the loss scale is FLOAT up to the first gradients of activations
  std::optional<transforms::AutomaticLossScale> automaticLossScale;
  transforms::RecomputeRule recompute = transforms::RecomputeRule::Marked;
  std::set<TensorId> recomputeChosen;   // of rule Chosen
  bool listsSpareMemory = false;        // fill Prepared::spareMemory
  std::set<TensorId> movableConstants;  // of that list
  bool recomputesMarkedToo = false;     // a rule and ops that are marked Recompute may come together
  transforms::VirtualGraphs virtualGraphs;
  std::optional<transforms::PipelineRules::Form> pipelines;  // none: no pipelining
  bool updatesInTurn = false;                                // accumulateOuterFragmentSettings: Serial
  bool verifyEachPass = false;                               // otherwise verified at the end of each phase
  std::set<std::string> passesOff;                           // names of passes that do not run (passes_off.hpp)
  // Off: the program of one micro-batch, as it is shown to programs that do not ask for operators of these.
  bool hostCopies = true, stepLoops = true, recomputes = true;
  // The batch in parts: before differentiation, or forward and backward pass.
  std::optional<transforms::BatchSerialisation> serialiseForward, serialiseWhole;
  // Updates of one kind become one.
  std::optional<transforms::UpdateMerging> mergeUpdates;
  // Of the forward pass; above 1 the program runs phase by phase, on so many IPUs by turns.
  int64_t executionPhases = 1, phaseStages = 2;
};

// All that a program is prepared from besides the model's graph.
struct PrepareSettings {
  TensorId loss;  // empty: inference, or the sum of `losses`
  std::vector<LossSpec> losses;
  std::optional<UpdateRules> updates;  // of the optimizer; none: inference
  std::vector<Anchor> anchors;
  int64_t batchesPerStep = 1;  // batches of one run
  Patterns patterns;
  std::set<TensorId> initializers;  // of the model, in training; those that are integers cannot have a gradient
  std::optional<std::set<TensorId>> trainable;  // variables that the loss's gradient updates; none: all that it can
  PipelineOptions options;
  std::shared_ptr<CompileTimes> times;  // to which passes add theirs; null: nobody asks
};

struct PrepareRequest : PrepareSettings {
  std::unique_ptr<Ir> ir;  // main graph: forward ops, variables, constants, streams
};

struct Prepared {
  std::shared_ptr<Ir> ir;
  // FLOAT variables of the Ir that hold non-constant optimizer scalars. They start with the values of the optimizer
  // given; on updateOptimizerFromHost the session writes the new one's to each. They are no part of a
  // saved model.
  std::vector<transforms::ScalarVariable> optimizerScalars;
  std::optional<TensorId> randomSeed;  // UINT32[2] variable; absent when nothing is random
  transforms::Shardings shardings;     // variables of which each replica keeps a part: the host sees whole ones
  // Tensors of the main graph as a whole micro-batch has them, before transforms cut them or change their form.
  std::map<TensorId, TensorInfo> infos;
  // Tensors that outlining has taken out of their graphs: programs ask for them by these ids all the same.
  std::map<TensorId, TensorInfo> outlined;
  std::vector<transforms::SpareMemory> spareMemory;  // where it was asked for
};

// Throws popart::error: unknown anchor or loss (with the nearest names), loss with more than one element, inference
// without anchors, gradients that cannot be had, recomputation by rule and by marks at once, weights that are no
// floating point, options not supported.
Prepared prepare(PrepareRequest request);
// One line of the log for each operation of all graphs, and their inputs and outputs: module ir, level TRACE.
void logOperations(const Ir &ir);

}  // namespace popart::pipeline
