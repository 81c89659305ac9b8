// How the CPU backend stores 8-bit weights (M, C / group, k…) of integer convolutions: as matrices of the panels of
// quad_panels.hpp. Rows of a matrix are the elements of a window, channels innermost; columns are output channels.
#pragma once
#include "executable/layout.hpp"

namespace popart::cpu {

// The matrices of a convolution's weights.
struct QuadFilters {
  int64_t groups, channels, outChannels, taps;  // channels and outChannels: per group
  int64_t joined;  // number of groups in one matrix; weights between different groups are zeros

  // Depthwise weights are one matrix with a row for each tap and a column for each channel, which is multiplied by
  // windows of the same channel.
  bool isDepthwise() const { return groups > 1 && channels == 1 && outChannels == 1; }
  int64_t matrices() const { return groups / joined; }
  int64_t inChannels() const { return isDepthwise() ? 1 : joined * channels; }  // of the elements of one tap
  int64_t rows() const { return taps * inChannels(); }
  int64_t columns() const { return joined * outChannels; }
};

// "quads_conv32g4j2": INT8 and UINT8 only.
class ConvQuads final : public executable::Layout {
 public:
  ConvQuads(int32_t panel, int64_t groups, int64_t joined);

  // Throws popart::error if the layout cannot have such a tensor.
  QuadFilters filtersOf(const TensorInfo &info) const;
  int32_t panel() const { return panel_; }
  int64_t panelBytes(int64_t rows) const { return (int64_t{sizeof(int32_t)} + (rows + 3) / 4 * 4) * panel_; }
  int64_t matrixBytes(const QuadFilters &f) const { return (f.columns() + panel_ - 1) / panel_ * panelBytes(f.rows()); }

  int64_t bytes(const TensorInfo &info) const override;
  void pack(const TensorInfo &info, const void *plain, void *stored) const override;
  void unpack(const TensorInfo &info, const void *stored, void *plain) const override;

 private:
  int32_t panel_;
  int64_t groups_, joined_;
};

// The layout that this machine's kernels read, for weights of this shape in `groups` groups. kYes: zeros may be added,
// because the weights are INT8 without zero points.
enum class JoinGroups : bool { kNo, kYes };
const executable::Layout *convQuads(const Shape &weights, int64_t groups, JoinGroups mayJoin);
// The layout as this class, or null if it has another class. For createKernel(), not for run().
const ConvQuads *asConvQuads(const executable::Layout *layout);

}  // namespace popart::cpu
