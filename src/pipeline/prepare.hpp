// prepare: from the Ir of a forward graph to the Ir of the whole program, ready for lower(): training mode, random
// seeds, backward pass, weight updates, patterns, pruning, host streams, loops over micro-batches and batches. The
// passes are rows of the table in pass_table.cpp.
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

// A tensor whose values are returned to the host.
struct Anchor {
  TensorId id;
  transforms::ReturnType returns{};
  TensorId stream{};  // name of the values on the host; empty: the tensor's id
  const TensorId &streamId() const { return stream.empty() ? id : stream; }
};

// Loss objects of old programs (losses=[NllLoss(...)]): an op of the catalog added to the end of the model.
struct LossSpec {
  std::string type;  // "Nll", "L1", "IdentityLoss"
  std::vector<TensorId> inputs;
  TensorId output;
  Attributes attributes;
  std::optional<VGraphId> virtualGraph{};  // nullopt: that of its first input
  std::optional<PipelineStage> stage{};    // nullopt: that of its first input
};

struct PipelineOptions {
  OptimizerFactors factors;
  std::vector<std::string> dotChecks;  // Fwd0, Fwd1, Bwd0, PreAlias, MainLoops, Final, or ALL
  std::map<std::string, std::vector<std::string>> customTransforms;  // by such a checkpoint
  bool stridesGroups = false;             // channels of a normalised group are num_groups apart
  std::string logDir = ".";               // folder of dot files
  bool decomposeGradSum = false;          // sums of three or more gradients become additions
  std::optional<DataType> precision;      // 16-bit type of the forward pass; nullopt: the types of the model
  bool serialiseProducts = true;          // marked products are divided into parts
  std::optional<float> outlineThreshold;  // repeated sequences of a higher value become one graph
  bool mergesExchanges = true;            // consecutive transfers are one exchange
  transforms::OffChip offChip;            // tensors in remote memory
  transforms::ShardRules sharding;        // tensors of which each replica keeps a part
  bool floatLossScale = false;            // the loss scale is FLOAT up to the first gradients of activations
  std::optional<transforms::AutomaticLossScale> automaticLossScale;
  transforms::RecomputeRule recompute = transforms::RecomputeRule::Marked;
  std::set<TensorId> recomputeChosen;   // for rule Chosen
  bool listsSpareMemory = false;        // fill Prepared::spareMemory
  std::set<TensorId> movableConstants;  // constants in that list
  bool recomputesMarkedToo = false;     // a rule and marked ops may be combined
  transforms::VirtualGraphs virtualGraphs;
  std::optional<transforms::PipelineRules::Form> pipelines;  // nullopt: no pipelining
  bool updatesInTurn = false;                                // accumulateOuterFragmentSettings: Serial
  bool verifyEachPass = false;                               // otherwise verified at the end of each phase
  std::set<std::string> passesOff;                           // names of passes that are switched off (passes_off.hpp)
  // false: leave these ops out, to show the program of one micro-batch to programs that do not expect them.
  bool hostCopies = true, stepLoops = true, recomputes = true;
  // The batch runs in parts: divided before differentiation, or in forward and backward pass.
  std::optional<transforms::BatchSerialisation> serialiseForward, serialiseWhole;
  // Updates of one kind are merged.
  std::optional<transforms::UpdateMerging> mergeUpdates;
  // Phases of the forward pass; above 1 the program runs phase by phase, alternating between `phaseStages` IPUs.
  int64_t executionPhases = 1, phaseStages = 2;
};

// Everything that a program is prepared from, except the graph of the model.
struct PrepareSettings {
  TensorId loss;  // empty: inference, or the sum of `losses`
  std::vector<LossSpec> losses;
  std::optional<UpdateRules> updates;  // of the optimizer; nullopt: inference
  std::vector<Anchor> anchors;
  int64_t batchesPerStep = 1;  // batches of one run
  Patterns patterns;
  std::set<TensorId> initializers;              // of the model, in training; integers cannot have a gradient
  std::optional<std::set<TensorId>> trainable;  // variables to train; nullopt: all that have a gradient
  PipelineOptions options;
  std::shared_ptr<CompileTimes> times;  // passes add their times; null: not recorded
};

struct PrepareRequest : PrepareSettings {
  std::unique_ptr<Ir> ir;  // main graph: forward ops, variables, constants, streams
};

struct Prepared {
  std::shared_ptr<Ir> ir;
  // FLOAT variables of the Ir for non-constant optimizer scalars. They start with the values of the given optimizer; on
  // updateOptimizerFromHost the session writes the values of the new one. They are not part of a saved
  // model.
  std::vector<transforms::ScalarVariable> optimizerScalars;
  std::optional<TensorId> randomSeed;  // UINT32[2] variable; nullopt if nothing is random
  transforms::Shardings shardings;     // variables that are divided among replicas; the host has whole ones
  // Infos of tensors of the main graph for a whole micro-batch, before transforms divide them or change their form.
  // Without those that did not change: the first graph of `ir` with such a tensor, or `outlined`, has them.
  std::map<TensorId, TensorInfo> infos;
  // Tensors that outlining has removed from their graphs: programs still use these ids.
  std::map<TensorId, TensorInfo> outlined;
  std::vector<transforms::SpareMemory> spareMemory;  // if requested
};

// Throws popart::error for: an unknown anchor or loss (with similar names), a loss with more than one element,
// inference without anchors, gradients that do not exist, recomputation by rule and by marks at once, weights that are
// not floating point, unsupported options.
Prepared prepare(PrepareRequest request);
// One line of the log for each operation of all graphs, and their inputs and outputs: module ir, level TRACE.
void logOperations(const Ir &ir);

}  // namespace popart::pipeline
