// The kernel tables of the reference backend, one per family; ref.cpp lists them all.
#pragma once
#include "backends/ref/ref.hpp"

namespace popart::ref {

std::span<const Entry> unaryKernels();  // math_unary.cpp
std::span<const Entry> mathKernels();   // math.cpp: binary, comparison, variadic, Cast, Where
std::span<const Entry> reduceKernels();
std::span<const Entry> orderKernels();  // reduce_order.cpp: ArgMax, TopK, Sort, ReduceMedian, CumSum
std::span<const Entry> shapeKernels();
std::span<const Entry> indexKernels();
std::span<const Entry> scatterKernels();    // index_scatter.cpp
std::span<const Entry> selectionKernels();  // Unique, NonMaxSuppression
std::span<const Entry> nnKernels();
std::span<const Entry> convKernels();
std::span<const Entry> poolKernels();
std::span<const Entry> resizeKernels();
std::span<const Entry> roiAlignKernels();
std::span<const Entry> roiPoolKernels();
std::span<const Entry> normKernels();
std::span<const Entry> lossKernels();
std::span<const Entry> ctcKernels();
std::span<const Entry> optimKernels();
std::span<const Entry> randomKernels();
std::span<const Entry> smallTypeKernels();
std::span<const Entry> controlKernels();

}  // namespace popart::ref
