// IntegerMatMul of 8-bit integers on the tiles of kernels/quad_product. A task has rows and columns of one matrix of
// the stack. Weights are already packed (layouts/quad_panels.hpp); for other right operands, a task packs its columns
// block by block of k.
#include <popart/op.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/integer_products.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/quad_block.hpp"
#include "backends/cpu/layouts/quad_panels.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;
using executable::OperandDesc;

constexpr int64_t kTaskColumns = 128;  // a multiple of every panel's width
constexpr int64_t kTaskRows = 2 * kQuadRowsAtOnce;
constexpr int kZeroOf[] = {2, 3};  // inputs: zero points of the left operand and of the right one

// Layout of an operand, and its zero points.
struct QuadOperand {
  bool isSigned = false, hasZero = false, zeroIsEach = false;

  // `moved`: see QuadZeros.
  QuadZeros zeros(const void *data, int32_t moved) const { return {data, isSigned, zeroIsEach, moved}; }
};

struct QuadProblem {
  IntegerProblem shape;
  QuadOperand left, right;
  const QuadPanels *layout = nullptr;  // for B; null: plain
  QuadEnding ending;
};

class QuadMatMulKernel final : public executable::HostKernel {
 public:
  explicit QuadMatMulKernel(QuadProblem problem)
      : p_(std::move(problem)),
        rowTasks_(ceilDiv(p_.shape.rows, kTaskRows)),
        columnTasks_(ceilDiv(p_.shape.columns, kTaskColumns)) {}
  std::string name() const override { return p_.layout ? "integer matmul quads packed" : "integer matmul quads"; }
  int tasks() const override {
    const auto stack = static_cast<int64_t>(p_.shape.a.size());
    return static_cast<int>(std::max<int64_t>(1, stack * rowTasks_ * columnTasks_));
  }
  int64_t scratchBytes() const override {
    return kNumbers + kQuadBlockScratch + sumBytes() + (p_.layout ? 0 : kTaskColumns * kQuadDepth);
  }

  void run(const KernelArgs &args, int task) const noexcept override {
    const IntegerProblem &s = p_.shape;
    if (s.a.empty() || s.rows == 0 || s.columns == 0) return;
    const auto matrix = static_cast<size_t>(task / (rowTasks_ * columnTasks_));
    const int64_t row = task / columnTasks_ % rowTasks_ * kTaskRows, column = task % columnTasks_ * kTaskColumns;
    const int64_t out = (static_cast<int64_t>(matrix) * s.rows + row) * s.columns + column;
    auto *scratch = static_cast<uint8_t *>(args.scratch) + kNumbers;
    QuadBlock block{.a = static_cast<const uint8_t *>(args.in[0]) + s.a[matrix] + row * s.depth,
                    .aStride = s.depth,
                    .flip = leftMove(p_.left.isSigned).flip,
                    .leftZeros = leftZeros(args, matrix, row),
                    .rightZeros = rightZeros(args, matrix, column),
                    .rows = std::min(kTaskRows, s.rows - row),
                    .columns = std::min(kTaskColumns, s.columns - column),
                    .out = static_cast<int32_t *>(args.out[0]) + out,
                    .outStride = s.columns};
    if (!p_.ending.isStore()) {
      block.out = reinterpret_cast<int32_t *>(scratch + kQuadBlockScratch);
      block.outStride = kTaskColumns;
    }
    int64_t k = 0;
    do {  // at least once, because sums without terms must be written as zeros
      block.depth = std::min(kQuadDepth, s.depth - k);
      block.adds = k > 0;
      if (p_.layout)
        takePacked(block, static_cast<const uint8_t *>(args.in[1]), matrix, column, k);
      else
        pack(block, static_cast<const uint8_t *>(args.in[1]) + s.b[matrix] + k * s.columns + column, args.scratch);
      multiplyBlock(block, scratch);
      block.a += block.depth, k += block.depth;
    } while (k < s.depth);
    if (!p_.ending.isStore())
      finishSums(p_.ending.of(args).from(column), block.out, kTaskColumns, block.rows, block.columns,
                 static_cast<char *>(args.out[0]) + out * p_.ending.elementBytes(), s.columns);
  }

 private:
  // Scratch memory: sums of the task's columns, and their zero points; memory of multiplyBlock; sums that are not yet
  // results; packed quads.
  static constexpr int64_t kNumbers = 2 * kTaskColumns * int64_t{sizeof(int32_t)};
  int64_t sumBytes() const { return p_.ending.isStore() ? 0 : kTaskRows * kTaskColumns * int64_t{sizeof(int32_t)}; }

  // Number of rows or columns before a matrix of an operand.
  int64_t linesBefore(int64_t offset) const { return p_.shape.depth == 0 ? 0 : offset / p_.shape.depth; }

  QuadZeros leftZeros(const KernelArgs &args, size_t matrix, int64_t row) const noexcept {
    return p_.left.zeros(p_.left.hasZero ? args.in[kZeroOf[0]] : nullptr, leftMove(p_.left.isSigned).moved)
        .from(linesBefore(p_.shape.a[matrix]) + row);
  }

  // Null if all are zeros.
  const int32_t *rightZeros(const KernelArgs &args, size_t matrix, int64_t column) const noexcept {
    const QuadZeros zeros =
        p_.right.zeros(p_.right.hasZero ? args.in[kZeroOf[1]] : nullptr, rightMove(p_.right.isSigned).moved)
            .from(linesBefore(p_.shape.b[matrix]) + column);
    if (!zeros.any()) return nullptr;
    int32_t *numbers = static_cast<int32_t *>(args.scratch) + kTaskColumns;
    const int64_t columns = std::min(kTaskColumns, p_.shape.columns - column);
    for (int64_t c = 0; c < kTaskColumns; ++c) numbers[c] = c < columns ? zeros.at(c) : 0;
    return numbers;
  }

  // Stored sums are over whole columns, so only the first block of k uses them.
  void takePacked(QuadBlock &block, const uint8_t *b, size_t matrix, int64_t column, int64_t k) const noexcept {
    const IntegerProblem &s = p_.shape;
    const QuadPanels &layout = *p_.layout;
    const int64_t before = s.depth == 0 || s.columns == 0 ? 0 : s.b[matrix] / (s.depth * s.columns);
    const uint8_t *panel =
        b + before * layout.matrixBytes(s.depth, s.columns) + column / layout.panel() * layout.panelBytes(s.depth);
    block.panelStride = layout.panelBytes(s.depth);
    block.b = reinterpret_cast<const int8_t *>(panel + layout.sumBytes() + k * layout.panel());
    block.columnSums = k == 0 ? reinterpret_cast<const int32_t *>(panel) : nullptr;
    block.sumStride = block.panelStride / int64_t{sizeof(int32_t)};
  }

  void pack(QuadBlock &block, const uint8_t *b, void *scratch) const noexcept {
    const int64_t width = quadKernels().panelColumns, columns = p_.shape.columns;
    const uint8_t flip = rightMove(p_.right.isSigned).flip;
    auto *sums = static_cast<int32_t *>(scratch);
    auto *packed = static_cast<int8_t *>(scratch) + kNumbers + kQuadBlockScratch + sumBytes();
    block.b = packed;
    block.panelStride = ceilDiv(block.depth, int64_t{4}) * 4 * width;
    block.columnSums = sums;
    block.sumStride = width;
    for (int64_t column = 0; column < block.columns; column += width, packed += block.panelStride, sums += width) {
      for (int64_t k = 0; k < block.depth; k += 4)
        quadKernels().packQuad(b + k * columns + column, columns, std::min<int64_t>(4, block.depth - k),
                               std::min(width, block.columns - column), flip, packed + k * width);
      if (block.leftZeros.any()) sumColumns(packed, block.depth, sums);
    }
  }

  const QuadProblem p_;
  const int64_t rowTasks_, columnTasks_;
};

QuadOperand operandOf(const KernelRequest &request, int input) {
  const auto zero = static_cast<size_t>(kZeroOf[input]);
  QuadOperand operand{request.inputs[static_cast<size_t>(input)].info.dataType() == DataType::INT8};
  if (request.inputs.size() <= zero || !request.inputs[zero].connected) return operand;
  operand.hasZero = true;
  operand.zeroIsEach = request.inputs[zero].info.nelms() != 1;
  return operand;
}

}  // namespace

std::unique_ptr<executable::Kernel> createQuadMatMul(const KernelRequest &request, std::string &reason) {
  const executable::Layout *layout = request.inputs[1].layout;
  KernelRequest others = request;
  if (layout == quadPanels()) others.inputs[1].layout = nullptr;
  if (!allPlain(others, reason)) return nullptr;
  return std::make_unique<QuadMatMulKernel>(QuadProblem{integerProblem(request), operandOf(request, 0),
                                                        operandOf(request, 1), asQuadPanels(layout),
                                                        QuadEnding(request)});
}

}  // namespace popart::cpu
