// IntegerMatMul with an operand of INT16, on the integer tiles of kernels/integer_product. A task has rows and columns
// of one matrix of the stack: it packs its columns of B block by block of k, widens its rows of A where they are not
// INT16, and adds tile by tile.
#include <popart/op.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/integer_products.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/integer_product.hpp"
#include "base/element_types.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

constexpr int64_t kDepth = 512;        // of a block of k; even
constexpr int64_t kTaskColumns = 128;  // a multiple of every panel's width
constexpr int64_t kRowsAtOnce = 48;    // of A that are widened together; a multiple of every tile's rows
constexpr int64_t kTaskRows = 2 * kRowsAtOnce;
constexpr Elements<int8_t, uint8_t, int16_t> kFactors;

const IntegerSource<int8_t> &sourceOf(int8_t) { return integerKernels().int8; }
const IntegerSource<uint8_t> &sourceOf(uint8_t) { return integerKernels().uint8; }
const IntegerSource<int16_t> &sourceOf(int16_t) { return integerKernels().int16; }

// Where the matrices of an operand lie, read as if its leading dimensions were `batch`.
std::vector<int64_t> matrixOffsets(const Shape &shape, const Shape &batch) {
  const int64_t size = shape[shape.size() - 2] * shape.back();
  const size_t lead = batch.size() - (shape.size() - 2);
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < elementCount(batch); ++i) {
    int64_t offset = 0, stride = size, rest = i;
    for (size_t d = batch.size(); d-- > 0; rest /= batch[d]) {
      if (d < lead) continue;
      if (shape[d - lead] != 1) offset += rest % batch[d] * stride;
      stride *= shape[d - lead];
    }
    offsets.push_back(offset);
  }
  return offsets;
}

template <class A, class B>
class IntegerMatMulKernel final : public executable::HostKernel {
 public:
  explicit IntegerMatMulKernel(IntegerProblem problem)
      : p_(std::move(problem)),
        rowTasks_(ceilDiv(p_.rows, kTaskRows)),
        columnTasks_(ceilDiv(p_.columns, kTaskColumns)) {}
  std::string name() const override { return "integer matmul"; }
  int tasks() const override {
    return static_cast<int>(std::max<int64_t>(1, static_cast<int64_t>(p_.a.size()) * rowTasks_ * columnTasks_));
  }
  int64_t scratchBytes() const override { return (kTaskColumns + kRowsAtOnce) * kDepth * int64_t{sizeof(int16_t)}; }

  void run(const KernelArgs &args, int task) const noexcept override {
    if (p_.a.empty() || p_.rows == 0 || p_.columns == 0) return;
    const auto matrix = static_cast<size_t>(task / (rowTasks_ * columnTasks_));
    const int64_t rowBegin = task / columnTasks_ % rowTasks_ * kTaskRows;
    const int64_t columnBegin = task % columnTasks_ * kTaskColumns;
    const int64_t outRow = static_cast<int64_t>(matrix) * p_.rows + rowBegin;
    const Part part{static_cast<const A *>(args.in[0]) + p_.a[matrix] + rowBegin * p_.depth,
                    static_cast<const B *>(args.in[1]) + p_.b[matrix] + columnBegin,
                    static_cast<int32_t *>(args.out[0]) + outRow * p_.columns + columnBegin,
                    std::min(kTaskRows, p_.rows - rowBegin), std::min(kTaskColumns, p_.columns - columnBegin)};
    auto *packed = static_cast<int16_t *>(args.scratch);
    int64_t k = 0;
    do {  // once without terms too: sums of nothing are zeros
      const int64_t depth = std::min(kDepth, p_.depth - k);
      pack(part, k, depth, packed);
      multiply(part, k, depth, packed, packed + kTaskColumns * kDepth);
      k += kDepth;
    } while (k < p_.depth);
  }

 private:
  struct Part {
    const A *a;
    const B *b;
    int32_t *out;
    int64_t rows, columns;
  };

  void pack(const Part &part, int64_t k, int64_t depth, int16_t *to) const noexcept {
    const int64_t width = integerKernels().panelColumns;
    for (int64_t column = 0; column < part.columns; column += width)
      for (int64_t pair = 0; pair < depth; pair += 2, to += 2 * width) {
        const B *first = part.b + (k + pair) * p_.columns + column;
        sourceOf(B{}).packPair(first, pair + 1 < depth ? first + p_.columns : nullptr,
                               std::min(width, part.columns - column), to);
      }
  }

  // Rows of INT16 are read where they lie, unless the last pair of k has one number only.
  void multiply(const Part &part, int64_t k, int64_t depth, const int16_t *packed, int16_t *wide) const noexcept {
    const IntegerKernels &kernels = integerKernels();
    const int64_t pairs = ceilDiv(depth, int64_t{2});
    for (int64_t row = 0; row < part.rows; row += kRowsAtOnce) {
      const int64_t count = std::min(kRowsAtOnce, part.rows - row);
      const A *from = part.a + row * p_.depth + k;
      const int16_t *a = wide;
      ptrdiff_t aStride = 2 * pairs;
      bool reads = false;
      if constexpr (std::is_same_v<A, int16_t>)
        if (depth % 2 == 0) reads = true, a = from, aStride = p_.depth;
      for (int64_t r = 0; !reads && r < count; ++r) {
        int16_t *to = wide + r * aStride;
        sourceOf(A{}).widen(from + r * p_.depth, depth, to);
        if (depth % 2 != 0) to[depth] = 0;
      }
      for (int64_t column = 0; column < part.columns; column += kernels.panelColumns)
        for (int64_t r = 0; r < count; r += kernels.rows)
          kernels.multiply({.a = a + r * aStride,
                            .aStride = aStride,
                            .b = packed + column * 2 * pairs,
                            .pairs = pairs,
                            .out = part.out + (row + r) * p_.columns + column,
                            .outStride = p_.columns,
                            .rows = std::min<int64_t>(kernels.rows, count - r),
                            .columns = std::min<int64_t>(kernels.panelColumns, part.columns - column),
                            .adds = k > 0});
    }
  }

  const IntegerProblem p_;
  const int64_t rowTasks_, columnTasks_;
};

std::unique_ptr<executable::Kernel> createIntegerMatMul(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const IntegerProblem problem = integerProblem(request);
  std::unique_ptr<executable::Kernel> kernel;
  forElement(kFactors, request.inputs[0].info.dataType(), [&](auto left) {
    forElement(kFactors, request.inputs[1].info.dataType(), [&](auto right) {
      using A = decltype(left);
      using B = decltype(right);
      if constexpr (sizeof(A) + sizeof(B) > 2) kernel = std::make_unique<IntegerMatMulKernel<A, B>>(problem);
    });
  });
  return kernel;
}

constexpr Entry kEntries[] = {
    {"IntegerMatMul", createQuadMatMul}, {"IntegerMatMul", createIntegerMatMul}, {"IntegerConv", createIntegerConv}};

}  // namespace

IntegerProblem integerProblem(const KernelRequest &request) {
  const Shape &a = request.inputs[0].info.shape(), &b = request.inputs[1].info.shape();
  IntegerProblem p{a[a.size() - 2], a.back(), b.back(), {}, {}};
  if (b.size() == 2) {
    p.rows = elementCount(Shape(a.begin(), a.end() - 1));
    p.a = p.b = {0};
    return p;
  }
  const Shape &y = request.outputs[0].info.shape();
  const Shape batch(y.begin(), y.end() - 2);
  p.a = matrixOffsets(a, batch);
  p.b = matrixOffsets(b, batch);
  return p;
}

std::span<const Entry> integerProductKernels() { return kEntries; }

}  // namespace popart::cpu
