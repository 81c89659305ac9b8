// Enumerations with the documented member names and values (docs/compat/values.md).
#include <popart/dataflow.hpp>
#include <popart/devicemanager.hpp>
#include <popart/op.hpp>
#include <popart/op/init.hpp>
#include <popart/op/scatterreduce.hpp>
#include <popart/op/tensorremap.hpp>
#include <popart/sessionoptions.hpp>
#include <popart/variablesettings.hpp>

#include "bindings.hpp"

namespace popart::python {
namespace {

#define MEMBER(TYPE, NAME) \
  { #NAME, TYPE::NAME }

void bindTensorEnums(nb::module_ &m) {
  nb::enum_<DataType> dataType(m, "DataType", "Element types.");
  for (int i = 0; i < kDataTypeCount; ++i) {
    const auto type = static_cast<DataType>(i);
    dataType.value(getDataTypeInfo(type).name, type);
  }
  nb::object made = m.attr("DataType");
  setEnumForms(made);
  bindEnum<InitType>(m, "InitType", "First value of an Init operation.",
                     {MEMBER(InitType, NoInit), MEMBER(InitType, Zero)});
  bindEnum<TensorRemapType>(
      m, "TensorRemapType", "When a layout on tiles changes.",
      {MEMBER(TensorRemapType, FwdBwdReverse), MEMBER(TensorRemapType, FwdBwd), MEMBER(TensorRemapType, Fwd)});
  bindEnum<TensorType>(m, "TensorType", "Roles of tensors.",
                       {MEMBER(TensorType, ActGrad), MEMBER(TensorType, Const), MEMBER(TensorType, Stream),
                        MEMBER(TensorType, Unknown), MEMBER(TensorType, Variable)});
  bindEnum<TileSet>(m, "TileSet", "Tiles for compute or for transfers.",
                    {MEMBER(TileSet, Compute), MEMBER(TileSet, IO), MEMBER(TileSet, Undefined)});
  bindEnum<TensorStorage>(m, "TensorStorage", "On chip or off chip.",
                          {MEMBER(TensorStorage, OnChip), MEMBER(TensorStorage, OffChip)});
  bindEnum<ReplicatedTensorSharding>(m, "ReplicatedTensorSharding", "Whether a tensor is divided among replicas.",
                                     {MEMBER(ReplicatedTensorSharding, Off), MEMBER(ReplicatedTensorSharding, On)});
  bindEnum<CommGroupType>(
      m, "CommGroupType",
      "How replicas are grouped: All in one group, Consecutive numbers, Orthogonal to those, None: each alone.",
      {MEMBER(CommGroupType, All),
       MEMBER(CommGroupType, Consecutive),
       MEMBER(CommGroupType, Orthogonal),
       {"Ungrouped", CommGroupType::None}});
  bindEnum<VariableRetrievalMode>(
      m, "VariableRetrievalMode", "Whose value of a variable the host gets.",
      {MEMBER(VariableRetrievalMode, OnePerGroup), MEMBER(VariableRetrievalMode, AllReduceReplicas),
       MEMBER(VariableRetrievalMode, AllReplicas)});
}

void bindFlowEnums(nb::module_ &m) {
  bindEnum<ExchangeStrategy>(m, "ExchangeStrategy", "When host values are transferred.",
                             {MEMBER(ExchangeStrategy, JustInTime), MEMBER(ExchangeStrategy, OverlapInnerLoop),
                              MEMBER(ExchangeStrategy, OverlapLoops), MEMBER(ExchangeStrategy, OverlapStep)});
  bindEnum<ReplicatedStreamMode>(m, "ReplicatedStreamMode",
                                 "Replicas get their own values (Replicate) or the same (Broadcast).",
                                 {MEMBER(ReplicatedStreamMode, Replicate), MEMBER(ReplicatedStreamMode, Broadcast)});
  bindEnum<AnchorReturnTypeId>(m, "AnchorReturnTypeId", "Kinds of AnchorReturnType.",
                               {MEMBER(AnchorReturnTypeId, Final), MEMBER(AnchorReturnTypeId, EveryN),
                                MEMBER(AnchorReturnTypeId, All), MEMBER(AnchorReturnTypeId, Sum)});
  bindEnum<ReductionType>(
      m, "ReductionType", "How values are reduced to one.",
      {MEMBER(ReductionType, Sum), MEMBER(ReductionType, Mean), MEMBER(ReductionType, NoReduction)});
  bindEnum<MeanReductionStrategy>(m, "MeanReductionStrategy",
                                  "A mean of gradients is divided as it accumulates (Running) or once (Post).",
                                  {MEMBER(MeanReductionStrategy, Running), MEMBER(MeanReductionStrategy, Post)});
  bindEnum<ScatterReduction>(m, "ScatterReduction", "How values that are scattered to one place are combined.",
                             {MEMBER(ScatterReduction, Sum),
                              MEMBER(ScatterReduction, Max),
                              MEMBER(ScatterReduction, Min),
                              MEMBER(ScatterReduction, Mul),
                              {"NoReduction", ScatterReduction::None}});
  bindEnum<RecomputeType>(m, "RecomputeType", "What happens to one operation's result in the backward pass.",
                          {MEMBER(RecomputeType, Undefined), MEMBER(RecomputeType, Checkpoint),
                           MEMBER(RecomputeType, Recompute), MEMBER(RecomputeType, Recomputed)});
  bindEnum<ExecutionContext>(
      m, "ExecutionContext", "The part of the program that an operation belongs to.",
      {MEMBER(ExecutionContext, Normal), MEMBER(ExecutionContext, AccumulateOuterFragment),
       MEMBER(ExecutionContext, WeightsFromHostFragment), MEMBER(ExecutionContext, WeightsToHostFragment),
       MEMBER(ExecutionContext, OptimizerFromHostFragment), MEMBER(ExecutionContext, Subgraph)});
}

void bindDeviceEnums(nb::module_ &m) {
  bindEnum<DeviceType>(m, "DeviceType", "Kinds of devices.",
                       {MEMBER(DeviceType, IpuModel), MEMBER(DeviceType, Cpu), MEMBER(DeviceType, Ipu),
                        MEMBER(DeviceType, OfflineIpu), MEMBER(DeviceType, Sim)})
      .attr("__str__") = nb::eval(
      "lambda self: {'IpuModel': 'ipu-model', 'Cpu': 'cpu', 'Ipu': 'ipu', 'OfflineIpu': 'offline-ipu', 'Sim': "
      "'sim'}[self.name]");
  bindEnum<DeviceConnectionType>(
      m, "DeviceConnectionType",
      "When a device is attached: Always (at once), OnDemand (when a program is loaded), Never (offline).",
      {MEMBER(DeviceConnectionType, Always), MEMBER(DeviceConnectionType, OnDemand),
       MEMBER(DeviceConnectionType, Never)});
  bindEnum<DeviceSelectionCriterion>(
      m, "DeviceSelectionCriterion", "Which of several free devices to take.",
      {MEMBER(DeviceSelectionCriterion, First), MEMBER(DeviceSelectionCriterion, Random)});
  bindEnum<SyncPattern>(
      m, "SyncPattern", "How IPUs synchronise.",
      {MEMBER(SyncPattern, Full), MEMBER(SyncPattern, SinglePipeline), MEMBER(SyncPattern, ReplicaAndLadder)})
      .attr("__str__") = nb::eval("lambda self: self.name[0].lower() + self.name[1:]");
}

void bindOptionEnums(nb::module_ &m) {
  bindEnum<GradientTensorTrackingMethod>(m, "GradientTensorTrackingMethod",
                                         "Gradients that automatic loss scaling watches.",
                                         {MEMBER(GradientTensorTrackingMethod, AllNonViewChangingGradientTensors),
                                          MEMBER(GradientTensorTrackingMethod, ConvAndMatmulGradients),
                                          MEMBER(GradientTensorTrackingMethod, GradientsOfUserSpecifiedTensors)});
  using Context = BatchSerializationTransformContext;
  bindEnum<Context>(
      m, "BatchSerializationTransformContext", "The pass that is cut into parts.",
      {{"Fwd", Context::Fwd}, {"Bwd", Context::Bwd}, {"Forward", Context::Forward}, {"Backward", Context::Backward}});
  bindEnum<BatchSerializationMethod>(
      m, "BatchSerializationMethod", "How parts of a batch become operations.",
      {MEMBER(BatchSerializationMethod, UnrollDynamic), MEMBER(BatchSerializationMethod, UnrollStatic),
       MEMBER(BatchSerializationMethod, Loop)});
  bindEnum<BatchSerializationBatchSchedule>(
      m, "BatchSerializationBatchSchedule", "Order of the parts of a batch.",
      {MEMBER(BatchSerializationBatchSchedule, Scheduler), MEMBER(BatchSerializationBatchSchedule, Isomorphic),
       MEMBER(BatchSerializationBatchSchedule, OverlapOnIo),
       MEMBER(BatchSerializationBatchSchedule, OverlapOnCompute)});
  bindEnum<AutodiffStitchStrategy>(
      m, "AutodiffStitchStrategy", "How gradient graphs get forward values.",
      {MEMBER(AutodiffStitchStrategy, RecomputeMinimal), MEMBER(AutodiffStitchStrategy, RecomputeAllNonInputs),
       MEMBER(AutodiffStitchStrategy, AddFwdOutputs), MEMBER(AutodiffStitchStrategy, SafeAddFwdOutputs)});
  bindEnum<SubgraphCopyingStrategy>(
      m, "SubgraphCopyingStrategy", "When operands of a subgraph are copied.",
      {MEMBER(SubgraphCopyingStrategy, OnEnterAndExit), MEMBER(SubgraphCopyingStrategy, JustInTime)});
  bindEnum<RecomputationType>(m, "RecomputationType", "Activations that are computed again in the backward pass.",
                              {{"NoRecompute", RecomputationType::None},
                               MEMBER(RecomputationType, Standard),
                               MEMBER(RecomputationType, NormOnly),
                               MEMBER(RecomputationType, Pipeline),
                               MEMBER(RecomputationType, RecomputeAll)});
  bindEnum<ExecutionPhaseIOSchedule>(
      m, "ExecutionPhaseIOSchedule", "When a phase loads its tensors.",
      {MEMBER(ExecutionPhaseIOSchedule, Preload), MEMBER(ExecutionPhaseIOSchedule, OnDemand)});
  bindEnum<ExecutionPhaseSchedule>(m, "ExecutionPhaseSchedule", "Order of loads, compute and stores of a phase.",
                                   {MEMBER(ExecutionPhaseSchedule, Interleaving), MEMBER(ExecutionPhaseSchedule, Batch),
                                    MEMBER(ExecutionPhaseSchedule, BatchClusteredIO)});
  using Outer = AccumulateOuterFragmentSchedule;
  bindEnum<Outer>(m, "AccumulateOuterFragmentSchedule", "Order of what runs once per weight update.",
                  {MEMBER(Outer, Scheduler), MEMBER(Outer, Serial), MEMBER(Outer, OverlapCycleOptimized),
                   MEMBER(Outer, OverlapMemoryOptimized)});
  bindEnum<MergeVarUpdateType>(m, "MergeVarUpdateType", "Which weight updates become one operation.",
                               {{"Off", MergeVarUpdateType::None},
                                MEMBER(MergeVarUpdateType, All),
                                MEMBER(MergeVarUpdateType, AutoLoose),
                                MEMBER(MergeVarUpdateType, AutoTight)});
  bindEnum<VirtualGraphMode>(m, "VirtualGraphMode", "Who assigns operations to IPUs.",
                             {MEMBER(VirtualGraphMode, Off), MEMBER(VirtualGraphMode, Manual),
                              MEMBER(VirtualGraphMode, Auto), MEMBER(VirtualGraphMode, ExecutionPhases)});
  bindEnum<SyntheticDataMode>(m, "SyntheticDataMode", "Inputs made on the device.",
                              {MEMBER(SyntheticDataMode, Off), MEMBER(SyntheticDataMode, Zeros),
                               MEMBER(SyntheticDataMode, RandomNormal), MEMBER(SyntheticDataMode, RandomUniform)});
  bindEnum<IrSerializationFormat>(m, "IrSerializationFormat", "Formats of _serializeIr.",
                                  {MEMBER(IrSerializationFormat, JSON)});
  bindEnum<Instrumentation>(m, "Instrumentation", "Parts of a program that cycle counters measure.",
                            {MEMBER(Instrumentation, Outer), MEMBER(Instrumentation, Inner)});
}
#undef MEMBER

}  // namespace

void bindEnums(nb::module_ &m) {
  bindTensorEnums(m);
  bindFlowEnums(m);
  bindDeviceEnums(m);
  bindOptionEnums(m);
}

}  // namespace popart::python
