// How the CPU backend stores 8-bit weights of integer products: matrices [rows, columns] as panels, each
//
//   [panel] sums of the columns (INT32), then [ceil(rows / 4)][panel][4] numbers (INT8),
//
// with zeros up to whole quads and panels. UINT8 is stored with 128 subtracted, and sums are of the stored numbers.
#pragma once
#include "executable/layout.hpp"

namespace popart::cpu {

// "quads32": INT8 and UINT8 only. The last two dimensions are the matrix, the others the batch.
class QuadPanels final : public executable::Layout {
 public:
  explicit QuadPanels(int32_t panel) : Layout("quads" + std::to_string(panel)), panel_(panel) {}
  int32_t panel() const { return panel_; }  // columns per panel
  // Bytes of a panel of a matrix with `rows` rows; sumBytes: those before the numbers.
  int64_t panelBytes(int64_t rows) const { return sumBytes() + (rows + 3) / 4 * 4 * panel_; }
  int64_t sumBytes() const { return int64_t{sizeof(int32_t)} * panel_; }
  int64_t matrixBytes(int64_t rows, int64_t columns) const {
    return (columns + panel_ - 1) / panel_ * panelBytes(rows);
  }

  int64_t bytes(const TensorInfo &info) const override;
  void pack(const TensorInfo &info, const void *plain, void *stored) const override;
  void unpack(const TensorInfo &info, const void *stored, void *plain) const override;

 private:
  int32_t panel_;
};

// The layout that this machine's kernels read.
const executable::Layout *quadPanels();
// The layout as this class, or null if it has another class. For createKernel(), not for run().
const QuadPanels *asQuadPanels(const executable::Layout *layout);

}  // namespace popart::cpu
