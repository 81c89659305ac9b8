// ReduceMedian: the lower median of groups of elements and its position. Elements of at most 32 bits are selected as
// keys (vector/extremes.hpp), others together with their positions by std::nth_element. The order is total (value, then
// position), so that every selection algorithm gives the same result.
#include <algorithm>
#include <limits>
#include <type_traits>

#include <popart/op.hpp>

#include "backends/cpu/axis.hpp"
#include "backends/cpu/comparable.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/reduce_groups.hpp"
#include "backends/cpu/task_count.hpp"
#include "backends/cpu/vector/extremes.hpp"
#include "base/element_types.hpp"
#include "ops/rules.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

template <class T>
class MedianKernel final : public executable::HostKernel {
 public:
  MedianKernel(Groups groups, DataType indexType) : groups_(std::move(groups)), indexType_(indexType) {
    constexpr int64_t kMostTogether = 16, kKeys = 1 << 18;  // groups in one cache line; keys in the second level cache
    const bool areContiguous = !groups_.kept.empty() && groups_.kept.back().stride == 1;
    if (kUsesKeys && areContiguous)
      together_ = std::clamp<int64_t>(kKeys / std::max<int64_t>(1, groups_.members), 1, kMostTogether);
    tasks_ = taskCount(groups_.results * groups_.members * 4, 1 << 15, groups_.results);
  }
  std::string name() const override { return "median"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  int64_t scratchBytes() const override {
    if (!kUsesKeys) return groups_.members * static_cast<int64_t>(sizeof(Item));
    return ((together_ + 1) * groups_.members + kSpareKeys) * static_cast<int64_t>(sizeof(uint32_t));
  }

  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t rank = (groups_.members - 1) / 2;
    const T *x = static_cast<const T *>(args.in[0]);
    for (int64_t i = groups_.results * task / tasks_, end = groups_.results * (task + 1) / tasks_; i < end;) {
      const T *group = x + offsetOf(groups_.kept, i);
      if constexpr (kUsesKeys) {
        auto *keys = static_cast<uint32_t *>(args.scratch), *spare = keys + together_ * groups_.members;
        const int64_t inRow = together_ == 1 ? 1 : groups_.kept.back().size - i % groups_.kept.back().size,
                      count = std::min({together_, inRow, end - i});
        count == 1 ? findKeys(group, keys) : findKeys(group, count, keys);
        for (int64_t k = 0; k < count; ++k)
          store(args, i + k, group + k, placeOfRank(keys + k * groups_.members, groups_.members, rank, spare));
        i += count;
      } else {
        auto *items = static_cast<Item *>(args.scratch);
        forMembers([&](int64_t j, int64_t offset) { items[j] = {group[offset], j}; });
        std::nth_element(items, items + rank, items + groups_.members);
        store(args, i++, group, items[rank].place);
      }
    }
  }

 private:
  static constexpr bool kUsesKeys = sizeof(T) <= sizeof(uint32_t);
  struct Item {
    T value;
    int64_t place;
    bool operator<(const Item &other) const {
      return isLess(value, other.value) || (!isLess(other.value, value) && place < other.place);
    }
  };

  // Calls f(member, its offset) in order.
  template <class F>
  void forMembers(F &&f) const noexcept {
    const GroupAxis &last = groups_.reduced.back();
    for (int64_t at = 0; at < groups_.members; at += last.size) {
      const int64_t offset = offsetOf(groups_.reduced, at);
      for (int64_t k = 0; k < last.size; ++k) f(at + k, offset + k * last.stride);
    }
  }
  // The keys of one group.
  void findKeys(const T *group, uint32_t *keys) const noexcept {
    if constexpr (std::is_same_v<T, float>) {
      const GroupAxis &last = groups_.reduced.back();
      if (last.stride == 1) {
        for (int64_t at = 0; at < groups_.members; at += last.size)
          orderKeys(group + offsetOf(groups_.reduced, at), last.size, keys + at);
        return;
      }
    }
    forMembers([&](int64_t j, int64_t offset) { keys[j] = orderKeyOf(group[offset]); });
  }
  // The keys of neighbouring groups, group by group.
  void findKeys(const T *groups, int64_t count, uint32_t *keys) const noexcept {
    forMembers([&](int64_t j, int64_t offset) {
      for (int64_t k = 0; k < count; ++k) keys[k * groups_.members + j] = orderKeyOf(groups[offset + k]);
    });
  }
  void store(const KernelArgs &args, int64_t i, const T *group, int64_t place) const noexcept {
    if (args.out[0]) static_cast<T *>(args.out[0])[i] = group[offsetOf(groups_.reduced, place)];
    if (indexType_ != DataType::UNDEFINED && args.out[1]) setIndex(args.out[1], indexType_, i, place);
  }

  Groups groups_;
  DataType indexType_;  // UNDEFINED: no second result
  int64_t together_ = 1, tasks_ = 1;
};

std::unique_ptr<executable::Kernel> createMedian(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const TensorInfo &x = request.inputs[0].info;
  Groups groups = groupsOf(x.shape(), ops::reductionAxes(request.op->attributes(), x.rank()));
  if (groups.members > std::numeric_limits<int32_t>::max())
    return reason = "it takes groups of less than 2^31 elements", nullptr;
  const bool hasIndices = request.outputs.size() > 1 && request.outputs[1].connected;
  const DataType indexType = hasIndices ? request.outputs[1].info.dataType() : DataType::UNDEFINED;
  std::unique_ptr<executable::Kernel> kernel;
  if (!forElement(kNumericElements, x.dataType(), [&](auto zero) {
        kernel = std::make_unique<MedianKernel<decltype(zero)>>(std::move(groups), indexType);
      }))
    reason = "it orders no elements of type " + toText(x.dataType());
  return kernel;
}

constexpr Entry kMedianKernels[] = {{"ReduceMedian", createMedian}};

}  // namespace

std::span<const Entry> medianKernels() { return kMedianKernels; }

}  // namespace popart::cpu
