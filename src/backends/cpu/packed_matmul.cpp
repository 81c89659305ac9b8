// PackedMatMul: products with weights of 2, 4 or 8 bits, which stay packed in memory. For few rows, numbers become
// floats in registers; for more rows, a pass of panels becomes floats in scratch memory, which register tiles read
// (kernels/gemm).
#include <popart/graph.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/epilogue_match.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/gemm.hpp"
#include "backends/cpu/kernels/packed_product.hpp"
#include "backends/cpu/layouts/panels.hpp"
#include "backends/cpu/layouts/word_panels.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

constexpr int kPacked = 1, kScale = 2, kZero = 3, kExtras = 4;  // inputs
constexpr int64_t kTasksPerThread = 4;
constexpr int64_t kLeastTaskWork = 50'000;  // multiply-adds

struct PackedProblem {
  int64_t rows = 0, columns = 0, depth = 0;
  int64_t bytes = 0;     // per column
  bool isPlain = false;  // the weights are in C order
  DataType zeros = DataType::UNDEFINED;
  PackedPanels format;

  PackedPanels panels(const KernelArgs &args) const {
    PackedPanels b = format;
    b.numbers = static_cast<const uint32_t *>(args.in[kPacked]);
    b.scales = static_cast<const float *>(args.in[kScale]);
    if (zeros == DataType::FLOAT) b.zeros = static_cast<const float *>(args.in[kZero]);
    if (zeros == DataType::UINT8) b.byteZeros = static_cast<const uint8_t *>(args.in[kZero]);
    return b;
  }
};

class PanelsOfWords final : public PanelProgram {
 public:
  explicit PanelsOfWords(const PackedPanels &b) : b_(b) {}
  void run(int64_t panel, int64_t k, int64_t count, float *to) const noexcept override {
    packedKernels().unpack(b_, panel, k, count, to);
  }

 private:
  const PackedPanels &b_;
};

// Weights that other operators read as well, or that are one number.
class PanelsOfRows final : public PanelProgram {
 public:
  PanelsOfRows(const PackedProblem &problem, const PackedPanels &b) : p_(problem), b_(b) {}
  void run(int64_t panel, int64_t k, int64_t count, float *to) const noexcept override {
    const int64_t width = microKernels().panelWidth, perByte = 8 / b_.bits;
    const auto *bytes = reinterpret_cast<const uint8_t *>(b_.numbers);
    for (int64_t lane = 0; lane < width; ++lane) {
      const int64_t column = panel * width + lane;
      for (int64_t i = 0; i < count; ++i) {
        float &weight = to[i * width + lane] = 0;
        if (column >= p_.columns) continue;
        const int64_t at = column * b_.blocks + (k + i) / b_.block;
        const int byte = bytes[column * p_.bytes + (k + i) / perByte];
        const auto number = static_cast<float>((byte >> ((k + i) % perByte * b_.bits)) & ((1 << b_.bits) - 1));
        const float zero = b_.zeros ? b_.zeros[at] : b_.byteZeros ? static_cast<float>(b_.byteZeros[at]) : b_.middle;
        weight = (number - zero) * b_.scales[at];
      }
    }
  }

 private:
  const PackedProblem &p_;
  const PackedPanels &b_;
};

MatmulShape shapeOf(const PackedProblem &p) {
  return {.m = p.rows, .n = p.columns, .k = p.depth, .bLayout = BLayout::kComputed, .passUnit = kNumbersTogether};
}

// For more rows than the kernels that convert numbers in registers support.
class PackedMatmulKernel final : public executable::HostKernel {
 public:
  PackedMatmulKernel(const PackedProblem &problem, MatchedEpilogue epilogue, int threads)
      : p_(problem), epilogue_(std::move(epilogue)), matmul_(shapeOf(p_), threads) {}
  std::string name() const override { return p_.isPlain ? "packed matmul plain" : "packed matmul"; }
  int tasks() const override { return matmul_.tasks(); }
  double share(int task) const override { return matmul_.share(task); }
  int64_t scratchBytes() const override {
    return static_cast<int64_t>(matmul_.scratchFloats() * sizeof(float)) + epilogue_.scratchBytes();
  }
  bool canOverwrite(int input, int output) const override { return epilogue_.canOverwrite(input - kExtras, output); }

  void run(const KernelArgs &args, int task) const noexcept override {
    const PackedPanels b = p_.panels(args);
    const PanelsOfWords words(b);
    const PanelsOfRows rows(p_, b);
    MatmulArgs a;
    a.a = static_cast<const float *>(args.in[0]);
    a.aRowStride = p_.depth, a.cRowStride = p_.columns;
    a.c = args.out[epilogue_.output];
    a.panels = &words;
    if (p_.isPlain) a.panels = &rows;
    epilogue_.bind(args, kExtras, [&](const Epilogue &epilogue, float *scratch) {
      a.epilogue = epilogue;
      matmul_.run(task, a, scratch);
    });
  }

 private:
  const PackedProblem p_;
  const MatchedEpilogue epilogue_;
  const Matmul matmul_;
};

class FewRowsKernel final : public executable::HostKernel {
 public:
  FewRowsKernel(const PackedProblem &problem, MatchedEpilogue epilogue, int threads)
      : p_(problem), epilogue_(std::move(epilogue)), tasks_(tasksOf(problem, threads)) {}
  std::string name() const override { return "packed matmul in registers"; }
  int tasks() const override { return tasks_; }
  int64_t scratchBytes() const override { return epilogue_.scratchBytes(); }
  bool canOverwrite(int input, int output) const override { return epilogue_.canOverwrite(input - kExtras, output); }

  void run(const KernelArgs &args, int task) const noexcept override {
    const PackedKernels &kernels = packedKernels();
    const int64_t width = microKernels().panelWidth;
    const PanelRanges ranges(panelsOf(p_), tasks_, kernels.panels);
    const PackedPanels b = p_.panels(args);
    void *c = args.out[epilogue_.output];
    epilogue_.bind(args, kExtras, [&](const Epilogue &epilogue, float *) {
      alignas(64) float sums[kMostPackedRows * kMostPackedColumns];
      PackedTile tile{.a = static_cast<const float *>(args.in[0]),
                      .aStride = p_.depth,
                      .rows = p_.rows,
                      .b = &b,
                      .panel = ranges.begin(task),
                      .out = sums,
                      .outStride = kMostPackedColumns};
      for (const int64_t end = ranges.begin(task + 1); tile.panel < end; tile.panel += tile.panels) {
        tile.panels = std::min(kernels.panels, end - tile.panel);
        kernels.multiply(tile);
        const int64_t column = tile.panel * width;
        applyEpilogue(epilogue.at(column, column), sums, tile.outStride, elementAt(c, column, epilogue.type),
                      p_.columns, p_.rows, std::min(tile.panels * width, p_.columns - column));
      }
    });
  }

 private:
  static int64_t panelsOf(const PackedProblem &p) { return ceilDiv(p.columns, microKernels().panelWidth); }
  static int tasksOf(const PackedProblem &p, int threads) {
    const int64_t most = threads == 1 ? 1 : kTasksPerThread * threads,
                  worth = p.rows * p.depth * p.columns / kLeastTaskWork;
    return static_cast<int>(std::clamp<int64_t>(std::min(most, ceilDiv(panelsOf(p), packedKernels().panels)), 1,
                                                std::max<int64_t>(1, worth)));
  }

  const PackedProblem p_;
  const MatchedEpilogue epilogue_;
  const int tasks_;
};

std::optional<PackedProblem> planPacked(const KernelRequest &request, std::string &reason) {
  const Op &op = *request.op;
  KernelRequest others = request;
  const bool hasZeros = op.hasInput(kZero);
  int inPanels = 0;
  for (int i : {kPacked, kScale, kZero}) {
    if (!op.hasInput(i)) continue;
    const executable::Layout *&layout = others.inputs[static_cast<size_t>(i)].layout;
    if (layout != (i == kPacked ? wordPanels() : matrixPanels(Transposed::kYes))) continue;
    layout = nullptr, ++inPanels;
  }
  if (!allPlain(others, reason)) return std::nullopt;
  if (inPanels != 0 && inPanels != (hasZeros ? 3 : 2))
    return reason = "only some of its weights, scales and zero points are in panels", std::nullopt;
  const Shape &packed = request.inputs[kPacked].info.shape();
  PackedProblem p;
  p.depth = op.attrInt("columns"), p.columns = packed[0], p.bytes = packed[1];
  p.rows = p.depth == 0 ? 0 : request.inputs[0].info.nelms() / p.depth;
  p.isPlain = inPanels == 0;
  if (hasZeros) p.zeros = request.inputs[kZero].info.dataType();
  p.format = {.bits = static_cast<int>(op.attrInt("bits")),
              .depth = p.depth,
              .block = op.attrInt("block_size"),
              .words = ceilDiv(p.bytes, int64_t{sizeof(uint32_t)}),
              .blocks = request.inputs[kScale].info.shape()[1],
              .middle = op.attrFloat("zero_point")};
  if (p.rows == 0 || p.columns == 0) return reason = "it has no numbers", std::nullopt;
  if (p.format.block % kNumbersTogether != 0 && p.format.block < p.depth)
    return reason = "its blocks are not multiples of 16 numbers: got " + std::to_string(p.format.block), std::nullopt;
  return p;
}

std::unique_ptr<executable::Kernel> createPackedMatmul(const KernelRequest &request, std::string &reason) {
  const Op &op = *request.op;
  const auto problem = planPacked(request, reason);
  if (!problem) return nullptr;
  std::optional<MatchedEpilogue> epilogue = MatchedEpilogue();
  if (op.hasAttr("epilogue"))
    epilogue = matchEpilogue(*op.getCalledGraphs().front(), {.columns = problem->columns}, reason);
  if (!epilogue) return nullptr;
  if (!problem->isPlain && problem->rows <= packedKernels().rows)
    return std::make_unique<FewRowsKernel>(*problem, std::move(*epilogue), request.threads);
  return std::make_unique<PackedMatmulKernel>(*problem, std::move(*epilogue), request.threads);
}

constexpr Entry kPackedProductKernels[] = {{"PackedMatMul", createPackedMatmul}};

}  // namespace

std::span<const Entry> packedProductKernels() { return kPackedProductKernels; }

}  // namespace popart::cpu
