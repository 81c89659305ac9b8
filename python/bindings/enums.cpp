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
  nb::enum_<DataType> dataType(m, "DataType");
  for (int i = 0; i < kDataTypeCount; ++i) {
    const auto type = static_cast<DataType>(i);
    dataType.value(getDataTypeInfo(type).name, type);
  }
  m.attr("DataType").attr("__int__") = nb::eval("lambda self: self.value");
  bindEnum<InitType>(m, "InitType", {MEMBER(InitType, NoInit), MEMBER(InitType, Zero)});
  bindEnum<TensorRemapType>(
      m, "TensorRemapType",
      {MEMBER(TensorRemapType, FwdBwdReverse), MEMBER(TensorRemapType, FwdBwd), MEMBER(TensorRemapType, Fwd)});
  bindEnum<TensorType>(m, "TensorType",
                       {MEMBER(TensorType, ActGrad), MEMBER(TensorType, Const), MEMBER(TensorType, Stream),
                        MEMBER(TensorType, Unknown), MEMBER(TensorType, Variable)});
  bindEnum<TileSet>(m, "TileSet", {MEMBER(TileSet, Compute), MEMBER(TileSet, IO), MEMBER(TileSet, Undefined)});
  bindEnum<TensorStorage>(m, "TensorStorage", {MEMBER(TensorStorage, OnChip), MEMBER(TensorStorage, OffChip)});
  bindEnum<ReplicatedTensorSharding>(m, "ReplicatedTensorSharding",
                                     {MEMBER(ReplicatedTensorSharding, Off), MEMBER(ReplicatedTensorSharding, On)});
  bindEnum<CommGroupType>(m, "CommGroupType",
                          {MEMBER(CommGroupType, All),
                           MEMBER(CommGroupType, Consecutive),
                           MEMBER(CommGroupType, Orthogonal),
                           {"Ungrouped", CommGroupType::None}});
  bindEnum<VariableRetrievalMode>(
      m, "VariableRetrievalMode",
      {MEMBER(VariableRetrievalMode, OnePerGroup), MEMBER(VariableRetrievalMode, AllReduceReplicas),
       MEMBER(VariableRetrievalMode, AllReplicas)});
}

void bindFlowEnums(nb::module_ &m) {
  bindEnum<ExchangeStrategy>(m, "ExchangeStrategy",
                             {MEMBER(ExchangeStrategy, JustInTime), MEMBER(ExchangeStrategy, OverlapInnerLoop),
                              MEMBER(ExchangeStrategy, OverlapLoops), MEMBER(ExchangeStrategy, OverlapStep)});
  bindEnum<ReplicatedStreamMode>(m, "ReplicatedStreamMode",
                                 {MEMBER(ReplicatedStreamMode, Replicate), MEMBER(ReplicatedStreamMode, Broadcast)});
  bindEnum<AnchorReturnTypeId>(m, "AnchorReturnTypeId",
                               {MEMBER(AnchorReturnTypeId, Final), MEMBER(AnchorReturnTypeId, EveryN),
                                MEMBER(AnchorReturnTypeId, All), MEMBER(AnchorReturnTypeId, Sum)});
  bindEnum<ReductionType>(
      m, "ReductionType",
      {MEMBER(ReductionType, Sum), MEMBER(ReductionType, Mean), MEMBER(ReductionType, NoReduction)});
  bindEnum<MeanReductionStrategy>(m, "MeanReductionStrategy",
                                  {MEMBER(MeanReductionStrategy, Running), MEMBER(MeanReductionStrategy, Post)});
  bindEnum<ScatterReduction>(m, "ScatterReduction",
                             {MEMBER(ScatterReduction, Sum),
                              MEMBER(ScatterReduction, Max),
                              MEMBER(ScatterReduction, Min),
                              MEMBER(ScatterReduction, Mul),
                              {"NoReduction", ScatterReduction::None}});
  bindEnum<RecomputeType>(m, "RecomputeType",
                          {MEMBER(RecomputeType, Undefined), MEMBER(RecomputeType, Checkpoint),
                           MEMBER(RecomputeType, Recompute), MEMBER(RecomputeType, Recomputed)});
  bindEnum<ExecutionContext>(
      m, "ExecutionContext",
      {MEMBER(ExecutionContext, Normal), MEMBER(ExecutionContext, AccumulateOuterFragment),
       MEMBER(ExecutionContext, WeightsFromHostFragment), MEMBER(ExecutionContext, WeightsToHostFragment),
       MEMBER(ExecutionContext, OptimizerFromHostFragment), MEMBER(ExecutionContext, Subgraph)});
}

void bindDeviceEnums(nb::module_ &m) {
  bindEnum<DeviceType>(m, "DeviceType",
                       {MEMBER(DeviceType, IpuModel), MEMBER(DeviceType, Cpu), MEMBER(DeviceType, Ipu),
                        MEMBER(DeviceType, OfflineIpu), MEMBER(DeviceType, Sim)})
      .attr("__str__") = nb::eval(
      "lambda self: {'IpuModel': 'ipu-model', 'Cpu': 'cpu', 'Ipu': 'ipu', 'OfflineIpu': 'offline-ipu', 'Sim': "
      "'sim'}[self.name]");
  bindEnum<DeviceConnectionType>(m, "DeviceConnectionType",
                                 {MEMBER(DeviceConnectionType, Always), MEMBER(DeviceConnectionType, OnDemand),
                                  MEMBER(DeviceConnectionType, Never)});
  bindEnum<DeviceSelectionCriterion>(
      m, "DeviceSelectionCriterion",
      {MEMBER(DeviceSelectionCriterion, First), MEMBER(DeviceSelectionCriterion, Random)});
  bindEnum<SyncPattern>(
      m, "SyncPattern",
      {MEMBER(SyncPattern, Full), MEMBER(SyncPattern, SinglePipeline), MEMBER(SyncPattern, ReplicaAndLadder)})
      .attr("__str__") = nb::eval("lambda self: self.name[0].lower() + self.name[1:]");
}

void bindOptionEnums(nb::module_ &m) {
  bindEnum<GradientTensorTrackingMethod>(m, "GradientTensorTrackingMethod",
                                         {MEMBER(GradientTensorTrackingMethod, AllNonViewChangingGradientTensors),
                                          MEMBER(GradientTensorTrackingMethod, ConvAndMatmulGradients),
                                          MEMBER(GradientTensorTrackingMethod, GradientsOfUserSpecifiedTensors)});
  using Context = BatchSerializationTransformContext;
  bindEnum<Context>(
      m, "BatchSerializationTransformContext",
      {{"Fwd", Context::Fwd}, {"Bwd", Context::Bwd}, {"Forward", Context::Forward}, {"Backward", Context::Backward}});
  bindEnum<BatchSerializationMethod>(
      m, "BatchSerializationMethod",
      {MEMBER(BatchSerializationMethod, UnrollDynamic), MEMBER(BatchSerializationMethod, UnrollStatic),
       MEMBER(BatchSerializationMethod, Loop)});
  bindEnum<BatchSerializationBatchSchedule>(
      m, "BatchSerializationBatchSchedule",
      {MEMBER(BatchSerializationBatchSchedule, Scheduler), MEMBER(BatchSerializationBatchSchedule, Isomorphic),
       MEMBER(BatchSerializationBatchSchedule, OverlapOnIo),
       MEMBER(BatchSerializationBatchSchedule, OverlapOnCompute)});
  bindEnum<AutodiffStitchStrategy>(
      m, "AutodiffStitchStrategy",
      {MEMBER(AutodiffStitchStrategy, RecomputeMinimal), MEMBER(AutodiffStitchStrategy, RecomputeAllNonInputs),
       MEMBER(AutodiffStitchStrategy, AddFwdOutputs), MEMBER(AutodiffStitchStrategy, SafeAddFwdOutputs)});
  bindEnum<SubgraphCopyingStrategy>(
      m, "SubgraphCopyingStrategy",
      {MEMBER(SubgraphCopyingStrategy, OnEnterAndExit), MEMBER(SubgraphCopyingStrategy, JustInTime)});
  bindEnum<RecomputationType>(m, "RecomputationType",
                              {{"NoRecompute", RecomputationType::None},
                               MEMBER(RecomputationType, Standard),
                               MEMBER(RecomputationType, NormOnly),
                               MEMBER(RecomputationType, Pipeline),
                               MEMBER(RecomputationType, RecomputeAll)});
  bindEnum<ExecutionPhaseIOSchedule>(
      m, "ExecutionPhaseIOSchedule",
      {MEMBER(ExecutionPhaseIOSchedule, Preload), MEMBER(ExecutionPhaseIOSchedule, OnDemand)});
  bindEnum<ExecutionPhaseSchedule>(m, "ExecutionPhaseSchedule",
                                   {MEMBER(ExecutionPhaseSchedule, Interleaving), MEMBER(ExecutionPhaseSchedule, Batch),
                                    MEMBER(ExecutionPhaseSchedule, BatchClusteredIO)});
  using Outer = AccumulateOuterFragmentSchedule;
  bindEnum<Outer>(m, "AccumulateOuterFragmentSchedule",
                  {MEMBER(Outer, Scheduler), MEMBER(Outer, Serial), MEMBER(Outer, OverlapCycleOptimized),
                   MEMBER(Outer, OverlapMemoryOptimized)});
  bindEnum<MergeVarUpdateType>(m, "MergeVarUpdateType",
                               {{"Off", MergeVarUpdateType::None},
                                MEMBER(MergeVarUpdateType, All),
                                MEMBER(MergeVarUpdateType, AutoLoose),
                                MEMBER(MergeVarUpdateType, AutoTight)});
  bindEnum<VirtualGraphMode>(m, "VirtualGraphMode",
                             {MEMBER(VirtualGraphMode, Off), MEMBER(VirtualGraphMode, Manual),
                              MEMBER(VirtualGraphMode, Auto), MEMBER(VirtualGraphMode, ExecutionPhases)});
  bindEnum<SyntheticDataMode>(m, "SyntheticDataMode",
                              {MEMBER(SyntheticDataMode, Off), MEMBER(SyntheticDataMode, Zeros),
                               MEMBER(SyntheticDataMode, RandomNormal), MEMBER(SyntheticDataMode, RandomUniform)});
  bindEnum<IrSerializationFormat>(m, "IrSerializationFormat", {MEMBER(IrSerializationFormat, JSON)});
  bindEnum<Instrumentation>(m, "Instrumentation", {MEMBER(Instrumentation, Outer), MEMBER(Instrumentation, Inner)});
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
