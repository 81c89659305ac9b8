//   p = A·B                                                        [M, N]
//   results = f(p[:, s:s+U], p[:, t:t+U], …, other operands)       [M, U] each
//
// A task has some rows and some units (columns of the results). It computes the columns of p that its units read, in
// memory of its thread, and then f, row by row. So p is never stored, and threads exchange only A and the results. This
// matters in recurrent cells, whose states are small: the exchange determines the time of a step.
//
// Invariant: every element of p and of the results is computed as by the product and the element-wise op alone.
#include "backends/cpu/gated_product.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include <popart/graph.hpp>

#include "backends/cpu/element_operands.hpp"
#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/gemm.hpp"
#include "backends/cpu/layouts/panels.hpp"
#include "backends/cpu/task_count.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;
using executable::OperandDesc;

constexpr int64_t kMostRows = 64;  // with more rows, it is better to store the product
// Of p in a task, which fit in the second level cache together with their panels.
constexpr int64_t kTileFloats = 1 << 16;
constexpr int kFirstGateOperand = 2;  // input number of the first other operand of f, after those of the product

int64_t alignedFloats(int64_t floats) { return ceilDiv(floats, kCacheLineFloats) * kCacheLineFloats; }

// How f reads an input for a row and a unit; offsets and strides in elements.
struct Piece {
  int operand = 0;  // input of the epilogue; 0 is p
  int bytes = 4;
  int64_t offset = 0, rowStride = 0, unitStride = 0;
};

// The piece that is an operand of shape `base`, or a view of it. `result`: shape of a result of f. nullopt if the
// operand is not indexed by row and unit.
std::optional<Piece> pieceOf(const Shape &base, const std::optional<ops::StridedView> &view, const Shape &result) {
  const int64_t units = result.back(), elements = elementCount(base), rows = elementCount(result) / units;
  const bool hasRows = base.size() == result.size() && std::equal(base.begin(), base.end() - 1, result.begin());
  if (view) {
    const bool isCut = hasRows && view->strides == ops::stridesInOrder(base) && view->offset + units <= base.back();
    if (!isCut) return std::nullopt;
    return Piece{.offset = view->offset, .rowStride = base.back(), .unitStride = 1};
  }
  if (elements == 1) return Piece{};
  if (base == result) return Piece{.rowStride = units, .unitStride = 1};
  if (base.back() == units && elements == units) return Piece{.unitStride = 1};
  if (hasRows && elements == rows) return Piece{.rowStride = 1};
  return std::nullopt;
}

struct Gates {
  ElementProgram program;     // for one row of units, all inputs plain
  std::vector<Piece> pieces;  // by input of the program
  int64_t rows = 0, units = 0;
};

std::optional<Gates> compileGates(const KernelRequest &request, std::string &reason) {
  const Graph &body = *request.op->getCalledGraphs().front();
  const Shape &result = request.outputs[0].info.shape();
  for (const OperandDesc &o : request.outputs)
    if (o.info.shape() != result || o.layout) return reason = "the results of its gates differ", std::nullopt;
  ElementSource source = elementSource(body);
  Gates gates;
  gates.units = result.back();
  gates.rows = request.outputs[0].info.nelms() / gates.units;
  std::vector<OperandDesc> inputs, outputs;
  for (size_t i = 0; i < source.inputs.size(); ++i) {
    const ElementSource::Place place =
        source.places.empty() ? ElementSource::Place{static_cast<int>(i), {}} : source.places[i];
    const TensorInfo &info = body.info(source.inputs[i]);
    auto piece = pieceOf(body.info(body.inputs()[static_cast<size_t>(place.operand)]).shape(), place.view, result);
    if (!piece) return reason = "an operand of its gates is read by neither row nor column", std::nullopt;
    piece->operand = place.operand;
    piece->bytes = getDataTypeInfo(info.dataType()).nbytes;
    if (place.operand == 0 && piece->unitStride != 1) return reason = "its gates read one column", std::nullopt;
    const auto operand = static_cast<size_t>(kFirstGateOperand + place.operand - 1);
    if (place.operand > 0 && request.inputs[operand].layout)
      return reason = "an operand of its gates is not plain", std::nullopt;
    inputs.push_back({TensorInfo(info.dataType(), Shape{piece->unitStride == 0 ? 1 : gates.units})});
    gates.pieces.push_back(*piece);
  }
  for (const OperandDesc &o : request.outputs) outputs.push_back({TensorInfo(o.info.dataType(), Shape{gates.units})});
  source.places.clear();
  auto program = makeElementProgram(source, inputs, outputs, reason);
  if (!program) return std::nullopt;
  if (program->loop.mode != ElementLoop::Mode::kFlat) return reason = "its gates are not a single loop", std::nullopt;
  if (program->looksAtOperands()) return reason = "its gates look at their operands", std::nullopt;
  gates.program = std::move(*program);
  return gates;
}

// The product as the kernels need it, without pointers.
struct GatedProblem {
  MatmulShape shape;
  MatmulArgs args;
};

std::optional<GatedProblem> planProduct(const KernelRequest &request, std::string &reason) {
  const Op &op = *request.op;
  const OperandDesc &a = request.inputs[0], &b = request.inputs[1];
  const bool isPlain = !op.hasAttr("perm_a") && !op.hasAttr("perm_b") && op.attrInt("trans_a") == 0 && !a.layout;
  if (!isPlain || b.info.rank() != 2 || a.info.dataType() != DataType::FLOAT || b.info.dataType() != DataType::FLOAT)
    return reason = "gates take products of rows of FLOAT and one matrix", std::nullopt;
  const bool transB = op.attrInt("trans_b") != 0;
  GatedProblem p;
  p.shape.k = b.info.shape()[transB ? 1 : 0];
  p.shape.n = b.info.shape()[transB ? 0 : 1];
  if (p.shape.k == 0 || a.info.nelms() == 0 || p.shape.n == 0) return reason = "its product is empty", std::nullopt;
  p.shape.m = a.info.nelms() / p.shape.k;
  p.args.aRowStride = p.shape.k;
  if (p.shape.m > kMostRows) return reason = "gates take products of few rows", std::nullopt;
  if (!b.layout) {
    p.shape.bLayout = BLayout::kStrided;
    (transB ? p.args.bColStride : p.args.bRowStride) = b.info.shape()[1];
    (transB ? p.args.bRowStride : p.args.bColStride) = 1;
  } else if (b.layout == matrixPanels(Transposed::kNo) || b.layout == matrixPanels(Transposed::kYes)) {
    const bool isTransposed = b.layout == matrixPanels(Transposed::kYes);
    p.shape.bLayout = isTransposed == transB ? BLayout::kPacked : BLayout::kPackedTransposed;
  } else {
    return reason = "its right operand has layout " + b.layout->name(), std::nullopt;
  }
  return p;
}

class GatedProduct final : public executable::HostKernel {
 public:
  GatedProduct(const GatedProblem &problem, Gates gates, int threads)
      : args_(problem.args), layout_(problem.shape.bLayout), gates_(std::move(gates)), matmul_(problem.shape, 1) {
    const MatmulShape &shape = problem.shape;
    const int64_t width = matmul_.panelWidth(), unitPanels = ceilDiv(gates_.units, width), tiles = matmul_.rowTiles();
    const int64_t flops = 2 * shape.m * shape.n * shape.k;
    const int64_t wanted = std::clamp<int64_t>(flops / kSmallestTaskFlops, 1, std::max(1, threads));
    // If all of B stays in a thread's cache, each thread has its own rows, so it reads no states of other threads.
    const bool keepsB = shape.n * shape.k * static_cast<int64_t>(sizeof(float)) <= panelBytesAtOnce();
    rowTasks_ = keepsB ? std::min(wanted, tiles) : 1;
    const int64_t columnTasks = std::min(ceilDiv(wanted, rowTasks_), unitPanels);
    for (int64_t t = 0; t < columnTasks; ++t)
      addUnits(width, unitPanels * t / columnTasks, unitPanels * (t + 1) / columnTasks);
    for (const Units &u : units_) tileStride_ = std::max(tileStride_, u.stride);
    rowTasks_ = std::min(std::max(rowTasks_, ceilDiv(gates_.rows * tileStride_, kTileFloats)), tiles);
    for (int64_t t = 0; t < rowTasks_; ++t)
      rowsPerTask_ = std::max(rowsPerTask_,
                              matmul_.firstRow(tiles * (t + 1) / rowTasks_) - matmul_.firstRow(tiles * t / rowTasks_));
  }

  std::string name() const override {
    return layout_ == BLayout::kStrided ? "matmul strided gates" : "matmul packed gates";
  }
  int tasks() const override { return static_cast<int>(rowTasks_) * static_cast<int>(units_.size()); }
  double share(int task) const override {
    const Units &u = unitsOf(task);
    const int64_t rows = matmul_.firstRow(firstTile(task, 1)) - matmul_.firstRow(firstTile(task));
    return static_cast<double>(rows * (u.end - u.begin)) / static_cast<double>(gates_.rows * gates_.units);
  }
  int64_t scratchBytes() const override {
    return static_cast<int64_t>(sizeof(float)) * (tileFloats() + productFloats()) + gates_.program.scratchBytes();
  }
  bool canOverwrite(int input, int output) const override {
    bool reads = false;
    for (size_t i = 0; i < gates_.pieces.size(); ++i) {
      const Piece &p = gates_.pieces[i];
      if (p.operand == 0 || p.operand + kFirstGateOperand - 1 != input) continue;
      reads = true;
      const bool isWhole = p.offset == 0 && p.rowStride == gates_.units && p.unitStride == 1;
      if (!isWhole || !gates_.program.canOverwrite(static_cast<int>(i), output)) return false;
    }
    return reads;
  }

  void run(const KernelArgs &args, int task) const noexcept override {
    const Units &u = unitsOf(task);
    auto *tile = static_cast<float *>(args.scratch), *scratch = tile + tileFloats();
    MatmulArgs a = args_;
    a.a = static_cast<const float *>(args.in[0]);
    a.b = static_cast<const float *>(args.in[1]);
    a.cRowStride = u.stride;
    const int64_t first = firstTile(task), end = firstTile(task, 1);
    for (const Panels &p : u.panels) {
      a.c = tile + p.column;
      matmul_.runPart({0, first, end, p.first, p.end}, a, scratch);
    }
    runGates(args, u, matmul_.firstRow(first), matmul_.firstRow(end), tile, scratch + productFloats());
  }

 private:
  // Panels of p that a task computes, and the column of its tile at which they begin.
  struct Panels {
    int64_t first, end, column;
  };
  struct Units {
    int64_t begin, end, stride;
    std::vector<Panels> panels;
    std::vector<int64_t> columns;  // by input of the program that reads p: column of its first unit, in the tile
  };

  void addUnits(int64_t width, int64_t firstPanel, int64_t endPanel) {
    Units u{firstPanel * width, std::min(gates_.units, endPanel * width), 0, {}, {}};
    std::vector<Panels> wanted;
    for (const Piece &p : gates_.pieces)
      if (p.operand == 0) wanted.push_back({(p.offset + u.begin) / width, ceilDiv(p.offset + u.end, width), 0});
    std::ranges::sort(wanted, {}, &Panels::first);
    for (const Panels &p : wanted) {
      if (u.panels.empty() || p.first > u.panels.back().end)
        u.panels.push_back(p);
      else
        u.panels.back().end = std::max(u.panels.back().end, p.end);
    }
    for (Panels &p : u.panels) p.column = u.stride, u.stride += (p.end - p.first) * width;
    for (const Piece &p : gates_.pieces) {
      if (p.operand != 0) continue;
      const int64_t column = p.offset + u.begin;
      const auto in = std::ranges::find_if(u.panels, [&](const Panels &x) { return column < x.end * width; });
      u.columns.push_back(in->column + column - in->first * width);
    }
    units_.push_back(std::move(u));
  }

  void runGates(const KernelArgs &args, const Units &u, int64_t firstRow, int64_t endRow, const float *tile,
                void *scratch) const noexcept {
    std::array<const void *, ElementProgram::kMaxPointers> in;
    std::array<void *, ElementProgram::kMaxPointers> out;
    for (int64_t row = firstRow; row < endRow; ++row) {
      size_t ofProduct = 0;
      for (size_t i = 0; i < gates_.pieces.size(); ++i) {
        const Piece &p = gates_.pieces[i];
        if (p.operand == 0) {
          in[i] = tile + (row - firstRow) * u.stride + u.columns[ofProduct++];
          continue;
        }
        const int64_t at = p.offset + row * p.rowStride + u.begin * p.unitStride;
        in[i] = static_cast<const char *>(args.in[kFirstGateOperand + p.operand - 1]) + at * p.bytes;
      }
      for (size_t o = 0; o < gates_.program.outputBytes.size(); ++o)
        out[o] = static_cast<char *>(args.out[o]) + (row * gates_.units + u.begin) * gates_.program.outputBytes[o];
      gates_.program.runSpan(in.data(), out.data(), scratch, args.context, u.end - u.begin);
    }
  }

  const Units &unitsOf(int task) const { return units_[static_cast<size_t>(task) % units_.size()]; }
  // First tile of a task's rows, or with `behind` of the row tasks after it.
  int64_t firstTile(int task, int64_t behind = 0) const {
    const int64_t rowTask = task / static_cast<int64_t>(units_.size()) + behind;
    return matmul_.rowTiles() * rowTask / rowTasks_;
  }
  int64_t tileFloats() const { return alignedFloats(rowsPerTask_ * tileStride_); }
  int64_t productFloats() const { return alignedFloats(static_cast<int64_t>(matmul_.scratchFloats())); }

  MatmulArgs args_;
  BLayout layout_;
  Gates gates_;
  Matmul matmul_;
  std::vector<Units> units_;
  int64_t tileStride_ = 0, rowTasks_ = 1, rowsPerTask_ = 1;
};

}  // namespace

std::unique_ptr<executable::Kernel> createGatedProduct(const KernelRequest &request, std::string &reason) {
  if (request.outputs.empty() || request.outputs[0].info.nelms() == 0 || request.outputs[0].info.rank() == 0)
    return reason = "its gates have no results", nullptr;
  const auto problem = planProduct(request, reason);
  if (!problem) return nullptr;
  auto gates = compileGates(request, reason);
  if (!gates) return nullptr;
  return std::make_unique<GatedProduct>(*problem, std::move(*gates), request.threads);
}

}  // namespace popart::cpu
