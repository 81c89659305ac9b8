// Bucketize: a binary search for each element, without branches; whole vectors of float32.
#include <limits>
#include <type_traits>

#include <popart/op.hpp>

#include "backends/cpu/comparable.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/task_count.hpp"
#include "backends/cpu/vector/search.hpp"
#include "base/element_types.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

template <class T>
class BucketKernel final : public executable::HostKernel {
 public:
  BucketKernel(int64_t elements, int64_t boundaries, Boundary kind)
      : elements_(elements), boundaries_(boundaries), kind_(kind) {
    tasks_ = taskCount(elements, 1 << 13, elements);
  }
  std::string name() const override { return "binary search"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t begin = elements_ * task / tasks_, end = elements_ * (task + 1) / tasks_;
    const T *x = static_cast<const T *>(args.in[0]), *boundaries = static_cast<const T *>(args.in[1]);
    int32_t *y = static_cast<int32_t *>(args.out[0]);
    if constexpr (std::is_same_v<T, float>) {
      firstBoundaries(kind_, x + begin, end - begin, boundaries, boundaries_, y + begin);
    } else {
      for (int64_t i = begin; i < end; ++i)
        y[i] = static_cast<int32_t>(firstBoundary(kind_, static_cast<Comparable<T>>(x[i]), boundaries, boundaries_));
    }
  }

 private:
  int64_t elements_, boundaries_, tasks_ = 1;
  Boundary kind_;
};

std::unique_ptr<executable::Kernel> createBuckets(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const TensorInfo &x = request.inputs[0].info;
  const int64_t boundaries = request.inputs[1].info.nelms();
  if (boundaries > std::numeric_limits<int32_t>::max()) return reason = "it takes less than 2^31 boundaries", nullptr;
  const Boundary kind = request.op->attrInt("right") != 0 ? Boundary::kAbove : Boundary::kNotBelow;
  std::unique_ptr<executable::Kernel> kernel;
  if (!forElement(kNumericElements, x.dataType(), [&](auto zero) {
        kernel = std::make_unique<BucketKernel<decltype(zero)>>(x.nelms(), boundaries, kind);
      }))
    reason = "it compares no elements of type " + toText(x.dataType());
  return kernel;
}

constexpr Entry kBucketKernels[] = {{"Bucketize", createBuckets}};

}  // namespace

std::span<const Entry> bucketKernels() { return kBucketKernels; }

}  // namespace popart::cpu
