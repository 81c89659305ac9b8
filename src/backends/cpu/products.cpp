// Matrix products that the tiled kernels refuse: an operand is a vector, or the elements are integers. Rows of the
// result are sums of rows of the right operand; a product with a column is a row of dot products over sixteen lanes.
#include <algorithm>
#include <array>

#include <popart/op.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/task_count.hpp"
#include "ops/rules.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

struct Product {
  int64_t m = 1, k = 1, n = 1;
  std::vector<int64_t> left, right;  // offset of the operand's matrix, by matrix of the result
};

template <class T>
class ProductKernel final : public executable::HostKernel {
 public:
  explicit ProductKernel(Product product) : p_(std::move(product)) {
    rows_ = static_cast<int64_t>(p_.left.size()) * p_.m;
    tasks_ = taskCount(rows_ * p_.k * p_.n, 1 << 15, rows_);
  }
  std::string name() const override { return "row products"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const T *a = static_cast<const T *>(args.in[0]), *b = static_cast<const T *>(args.in[1]);
    T *y = static_cast<T *>(args.out[0]);
    for (int64_t r = rows_ * task / tasks_; r < rows_ * (task + 1) / tasks_; ++r) {
      const auto matrix = static_cast<size_t>(r / p_.m);
      const T *row = a + p_.left[matrix] + r % p_.m * p_.k, *right = b + p_.right[matrix];
      if (p_.n == 1)
        y[r] = dot(row, right);
      else
        sumRows(row, right, y + r * p_.n);
    }
  }

 private:
  T dot(const T *x, const T *z) const noexcept {
    constexpr int64_t kLanes = 16;
    std::array<T, kLanes> lanes{};
    int64_t k = 0;
    for (; k + kLanes <= p_.k; k += kLanes)
      for (int64_t l = 0; l < kLanes; ++l) lanes[static_cast<size_t>(l)] += x[k + l] * z[k + l];
    for (; k < p_.k; ++k) lanes[static_cast<size_t>(k % kLanes)] += x[k] * z[k];
    T sum{};
    for (const T lane : lanes) sum += lane;
    return sum;
  }
  void sumRows(const T *row, const T *right, T *y) const noexcept {
    std::fill_n(y, p_.n, T{});
    for (int64_t k = 0; k < p_.k; ++k)
      for (int64_t j = 0; j < p_.n; ++j) y[j] += row[k] * right[k * p_.n + j];
  }
  Product p_;
  int64_t rows_ = 1, tasks_ = 1;
};

// For every matrix of the result, the offset of the operand's matrix.
std::vector<int64_t> matrixStarts(const Shape &batch, const Shape &own, int64_t elements) {
  std::vector<int64_t> starts{0};
  Shape strides(batch.size(), 0);
  int64_t stride = elements;
  for (size_t i = 0; i < own.size(); ++i) {
    const size_t d = batch.size() - 1 - i;
    const int64_t size = own[own.size() - 1 - i];
    if (size != 1) strides[d] = stride;
    stride *= size;
  }
  for (size_t d = 0; d < batch.size(); ++d) {
    std::vector<int64_t> next;
    for (int64_t start : starts)
      for (int64_t i = 0; i < batch[d]; ++i) next.push_back(start + i * strides[d]);
    starts = std::move(next);
  }
  return starts;
}

std::unique_ptr<executable::Kernel> createProduct(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const DataType type = request.inputs[0].info.dataType();
  if (request.outputs[0].info.dataType() != type) return reason = "its result has another type", nullptr;
  Shape a = request.inputs[0].info.shape(), b = request.inputs[1].info.shape();
  if (type == DataType::FLOAT && a.size() > 1 && b.size() > 1) return reason = "no operand is a vector", nullptr;
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.push_back(1);
  Product p;
  p.m = a[a.size() - 2], p.k = a.back(), p.n = b.back();
  const Shape batchA(a.begin(), a.end() - 2), batchB(b.begin(), b.end() - 2), batch = npOut(batchA, batchB);
  p.left = matrixStarts(batch, batchA, p.m * p.k);
  p.right = matrixStarts(batch, batchB, p.k * p.n);
  switch (type) {  // the product modulo 2^n is the same for signed and unsigned integers
    case DataType::FLOAT:
      return std::make_unique<ProductKernel<float>>(std::move(p));
    case DataType::INT32:
    case DataType::UINT32:
      return std::make_unique<ProductKernel<uint32_t>>(std::move(p));
    case DataType::INT64:
    case DataType::UINT64:
      return std::make_unique<ProductKernel<uint64_t>>(std::move(p));
    case DataType::INT8:
    case DataType::UINT8:
      return std::make_unique<ProductKernel<uint8_t>>(std::move(p));
    default:
      return reason = "it multiplies no elements of type " + toText(type), nullptr;
  }
}

constexpr Entry kProductKernels[] = {{"MatMul", createProduct}};

}  // namespace

std::span<const Entry> productKernels() { return kProductKernels; }

}  // namespace popart::cpu
