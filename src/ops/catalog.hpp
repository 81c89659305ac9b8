// The families of the operator catalog. Every file below src/ops defines the rows of one op, or of a few related ops,
// in one function that is declared here and listed once in catalog.cpp. The functions run once, at the first look-up,
// so rows do not depend on the order of static initialisation. To add an operator: add its file, one line here and one
// line in catalog.cpp.
#pragma once
#include <vector>

#include <popart/opdef.hpp>

namespace popart::ops {

using OpDefs = std::vector<OpDef>;

// ---- math
OpDefs unaryOps();       // Abs, Exp, Log, …
OpDefs activationOps();  // Relu, Gelu, Sigmoid, …
OpDefs binaryOps();      // Add, Mul, Pow, …
OpDefs comparisonOps();  // Equal, And, BitwiseAnd, …
OpDefs variadicOps();    // Sum, Mean, Max, Min
OpDefs castOps();        // Cast
OpDefs whereOps();       // Where
// ---- reduce
OpDefs reduceOps();      // ReduceSum, …, ReduceSumTo
OpDefs orderOps();       // ArgMax, ArgMin, TopK, Sort, ReduceMedian
OpDefs cumulativeOps();  // CumSum
OpDefs histogramOps();   // Histogram
OpDefs bucketizeOps();   // Bucketize
// ---- shape
OpDefs viewOps();       // Reshape, Squeeze, Identity, Detach, …
OpDefs transposeOps();  // Transpose, DepthToSpace, SpaceToDepth
OpDefs joinOps();       // Concat, Split
OpDefs sliceOps();      // Slice, Subsample, Reverse
OpDefs expandOps();     // Expand, Tile, Pad
OpDefs constantOps();   // Constant, ConstantOfShape, Range, Shape, Size
OpDefs resizeOps();     // Resize
// ---- index
OpDefs gatherOps();     // Gather, GatherElements, GatherND, OneHot
OpDefs scatterOps();    // Scatter, ScatterElements, ScatterND, ScatterReduce
OpDefs selectionOps();  // Unique, NonMaxSuppression
OpDefs dynamicOps();    // DynamicSlice, DynamicUpdate, …

// ---- nn
OpDefs matMulOps();          // MatMul
OpDefs float8Ops();          // Pow2ScaleThenCast, CastThenPow2Scale
OpDefs softmaxOps();         // Softmax, LogSoftmax, Hardmax
OpDefs convOps();            // Conv, ConvTranspose
OpDefs poolOps();            // MaxPool, AveragePool, LpPool, Global…Pool
OpDefs integerProductOps();  // IntegerMatMul, IntegerConv
OpDefs packedWeightOps();    // DequantizePacked
OpDefs roiAlignOps();        // RoiAlign
OpDefs roiPoolOps();         // MaxRoiPool
OpDefs batchNormOps();       // BatchNormalization
OpDefs normOps();            // GroupNormalization, LayerNormalization, LRN, …
OpDefs addonsOps();          // RotaryPosEmbed, GroupQuantizeDecompress, Fp8Scale, …
// ---- loss
OpDefs ctcOps();   // Ctc, CtcBeamSearchDecoder
OpDefs nllOps();   // Nll, NlllWithSoftmaxGradDirect
OpDefs lossOps();  // L1, IdentityLoss, SoftmaxCrossEntropyLoss, …
// ---- optim
OpDefs copyVarUpdateOps();  // CopyVarUpdate
OpDefs sgdOps();            // SGD0VarUpdate, SGD1…, SGD2…
OpDefs accumulateOps();     // Accumulate, AccumulatorScale, …
OpDefs adamOps();           // AdamUpdater, AdamVarUpdate
OpDefs lossScaleOps();      // LossScaleUpdate
OpDefs adaptiveOps();       // RMSPropUpdater, AdaDeltaUpdater, ScaledVarUpdate
// ---- random, control, io, comm
OpDefs randomOps();          // RandomNormal, RandomUniform, Bernoulli, GetRandomSeed, …
OpDefs dropoutOps();         // Dropout, ShapedDropout
OpDefs controlOps();         // Call, Loop, If
OpDefs ioOps();              // Init, HostLoad, HostStore, PrintTensor, …
OpDefs collectiveOps();      // ReplicatedAllReduce, …
OpDefs exchangeOps();        // ReplicatedAllToAll, …
OpDefs tensorParallelOps();  // ReplicatedAllReduceTP, CrossEntropySharded, …

// ---- made by lowering
OpDefs fusedOps();               // FusedElementwise, FusedMatMul, Reorder, VariableAssign
OpDefs attentionOps();           // FusedAttention and its gradient
OpDefs floatingPointCheckOps();  // FirstNonFinite, FloatingPointCheck

}  // namespace popart::ops
