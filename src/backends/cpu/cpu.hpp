// The CPU backend: vectorised kernels (Highway, run-time dispatch), mostly for float32. It refuses other requests with
// a reason, and the next backend of the device (ref) gets the op.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "executable/host_kernel.hpp"

namespace popart::cpu {

// Throws popart::error on a processor for which the library was not compiled (instruction_sets.hpp).
const executable::Backend &backend();

// One operator of the backend. `create` returns nullptr and a reason if it does not support the request.
struct Entry {
  const char *type;  // base op type
  std::unique_ptr<executable::Kernel> (*create)(const executable::KernelRequest &request, std::string &reason);
};

// Tables of the family files.
std::span<const Entry> matmulKernels();
std::span<const Entry> elementwiseKernels();
std::span<const Entry> reduceKernels();
std::span<const Entry> rowwiseKernels();
std::span<const Entry> lossKernels();
std::span<const Entry> convKernels();
std::span<const Entry> poolKernels();
std::span<const Entry> normKernels();
std::span<const Entry> lrnKernels();
std::span<const Entry> spatialMoveKernels();
std::span<const Entry> moveKernels();
std::span<const Entry> resizeKernels();
std::span<const Entry> indexKernels();
std::span<const Entry> orderKernels();
std::span<const Entry> medianKernels();
std::span<const Entry> bucketKernels();
std::span<const Entry> packedWeightKernels();
std::span<const Entry> packedProductKernels();
std::span<const Entry> roiAlignKernels();
std::span<const Entry> roiPoolKernels();
std::span<const Entry> randomKernels();
std::span<const Entry> smallTypeKernels();
std::span<const Entry> scatterKernels();
std::span<const Entry> selectionKernels();
std::span<const Entry> dynamicKernels();
std::span<const Entry> classLossKernels();
std::span<const Entry> padKernels();          // after moveKernels: supports requests that they refuse
std::span<const Entry> generalPoolKernels();  // after poolKernels
std::span<const Entry> productKernels();      // after matmulKernels
std::span<const Entry> depthFirstKernels();
std::span<const Entry> attentionKernels();
std::span<const Entry> collectiveUpdateKernels();
std::span<const Entry> nonFiniteKernels();
std::span<const Entry> histogramKernels();
std::span<const Entry> ctcKernels();
std::span<const Entry> integerProductKernels();
// After reduceKernels and the channels-last reductions: supports requests that they refuse.
std::span<const Entry> foldKernels();

// ---- checks of a request that all family files use

// True when every connected operand is plain; otherwise sets the reason.
bool allPlain(const executable::KernelRequest &request, std::string &reason);
// True when every connected operand has this element type; otherwise sets the reason.
bool allOfType(const executable::KernelRequest &request, DataType type, std::string &reason);
// Bytes per element of output 0, for a kernel that moves elements unchanged, if every operand is plain and an element
// has at most `most` bytes; otherwise 0 and the reason.
int64_t movedBytes(const executable::KernelRequest &request, std::string &reason, int64_t most = 16);

}  // namespace popart::cpu
