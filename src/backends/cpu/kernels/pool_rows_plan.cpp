// The plan of pooling along rows, made from the shapes, see pool_rows.hpp.
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/pool_rows.hpp"

namespace popart::cpu {
namespace {

constexpr int64_t kRoom = 64;  // floats after an array that may be read and written: the widest vector

// Joins dimensions over which windows do not span into one row.
Pool withLongRows(Pool p) {
  const auto isCopied = [&](size_t d) {
    return p.kernel[d] == 1 && p.stride[d] == 1 && p.padLow[d] == 0 && p.padHigh[d] == 0;
  };
  if (!isCopied(1) || !isCopied(2)) return p;
  p.in = {p.in[0], 1, p.in[1] * p.in[2]};
  p.out = {p.out[0], 1, p.out[1] * p.out[2]};
  return p;
}

std::vector<Reach> reaches(const Pool &p, size_t d) {
  std::vector<Reach> all;
  for (int64_t at = 0; at < p.out[d]; ++at) all.push_back(reach(p, d, at));
  return all;
}

int64_t spannedBy(const Pool &p, size_t d) { return (p.kernel[d] - 1) * p.dilation[d] + 1; }
// Slots by position; positions that a window spans have different slots.
std::vector<int32_t> slotsOf(const Pool &p, size_t d, int64_t factor) {
  std::vector<int32_t> slots;
  const int64_t span = std::min(spannedBy(p, d), p.in[d]);
  for (int64_t at = 0; at < p.in[d]; ++at) slots.push_back(static_cast<int32_t>(at % span * factor));
  return slots;
}

void planScratch(RowPool::Plan &plan) {
  const Pool &p = plan.pool;
  const int64_t stride = p.stride[2], span = (plan.block - 1) * stride + spannedBy(p, 2);
  const int64_t spannedRows = std::min(spannedBy(p, 1), p.in[1]);
  const int64_t room = stride <= 4 ? kRoom : 0;  // phases are split by vectors, or by elements
  plan.phase = ceilDiv(span, stride) + room;
  for (int64_t k = 0; k < p.kernel[2]; ++k) {
    const int64_t at = k * p.dilation[2];
    plan.taps.push_back(at % stride * plan.phase + at / stride);
  }
  plan.depthSlot = slotsOf(p, 0, spannedRows), plan.rowSlot = slotsOf(p, 1, 1);
  plan.slots = std::min(spannedBy(p, 0), p.in[0]) * spannedRows;
  plan.slot = stride * plan.phase;
  plan.rowsOfWindow = std::min(p.kernel[0], p.in[0]) * std::min(p.kernel[1], p.in[1]);
  plan.padded = span + room * stride;
  plan.padded += (plan.slots * plan.slot + plan.padded) % 2;  // the following memory is aligned to 8 bytes
  plan.scratchBytes = (plan.slots * plan.slot + plan.padded) * static_cast<int64_t>(sizeof(float)) +
                      (plan.slots + plan.rowsOfWindow) * static_cast<int64_t>(sizeof(int64_t));
}

}  // namespace

RowPool::Plan planRows(const Pool &pool, PoolKind kind, bool countPadding, int64_t mostColumns) {
  RowPool::Plan plan;
  plan.pool = withLongRows(pool), plan.kind = kind, plan.countPadding = countPadding;
  const Pool &p = plan.pool;
  plan.depths = reaches(p, 0), plan.rows = reaches(p, 1), plan.columns = reaches(p, 2);
  for (const Reach &r : plan.columns) plan.counts.push_back(static_cast<float>(countPadding ? r.padded : r.count));
  plan.block = std::clamp<int64_t>(p.out[2], 1, mostColumns);
  plan.blocks = ceilDiv(p.out[2], plan.block);
  plan.units = p.n * p.channels * plan.blocks * p.out[0] * p.out[1];
  planScratch(plan);
  return plan;
}

bool RowPool::fits(const Pool &pool) {
  constexpr int64_t kMost = 4096;
  const Pool p = withLongRows(pool);
  const int64_t depths = std::min(p.kernel[0], p.in[0]), rows = std::min(spannedBy(p, 1), p.in[1]);
  return spannedBy(p, 2) <= kMost && p.stride[2] <= kMost && rows <= kMost && depths * rows <= kMost;
}

RowPool::Reading planReading(const RowPool::Plan &plan) {
  constexpr int64_t kFloats = int64_t{1} << 13;  // of the input: 32 KiB, in the first or second level cache
  const Pool &p = plan.pool;
  const int64_t stride = p.stride[2], phases = stride <= 4 ? stride : 1, span = spannedBy(p, 2);
  RowPool::Reading r;
  r.isTap.assign(static_cast<size_t>(ceilDiv(span, phases) * phases), 0);
  for (int64_t k = 0; k < p.kernel[2]; ++k) r.isTap[static_cast<size_t>(k * p.dilation[2])] = 1;
  const auto places = static_cast<int64_t>(r.isTap.size());
  r.bySteps = plan.kind == PoolKind::kMaximum && plan.rowsOfWindow > 1;
  r.rows = std::max(std::min(p.kernel[0], p.in[0]) * std::min(spannedBy(p, 1), p.in[1]),
                    kFloats / std::max<int64_t>(1, plan.block * stride));
  r.readFloats = places - phases + stride * kRoom;
  r.scratchFloats = (places + (r.bySteps ? r.rows : 0)) * kRoom + plan.block + kRoom;
  return r;
}

}  // namespace popart::cpu
