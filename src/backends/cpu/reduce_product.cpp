// The gradient of ReduceProd: for each element of x, g times the product of the other elements. If the element and the
// whole product are ordinary numbers, this is the whole product divided by the element. For the few rows with zeros,
// infinities, NaN or products out of range, only the number of each is needed. So every row is read twice, and no
// products of prefixes and suffixes are stored. Long rows are split into leaves, whose factors are combined in order;
// the number of leaves depends only on the shape.
#include <algorithm>
#include <cmath>
#include <limits>

#include <popart/op.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/reduce_blocks.hpp"
#include "backends/cpu/rounds.hpp"
#include "backends/cpu/task_count.hpp"
#include "backends/cpu/vector/product_ops.hpp"
#include "ops/rules.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

// The factors of a product of any magnitude: the product of the finite factors other than 0, and the number of the
// other ones.
class Factors {
 public:
  void take(double x) {
    zeros_ += x == 0;
    nans_ += std::isnan(x);
    infinities_ += std::isinf(x);
    if (std::isinf(x)) multiply(std::copysign(1.0, x));
    if (std::isfinite(x) && x != 0) multiply(x);
  }
  // Returns false if the product left the range of double: the factors must then be taken one by one.
  bool take(const NonZeroProduct &p) {
    if (!std::isfinite(p.product) || !(p.lowest >= std::numeric_limits<double>::min())) return false;
    multiply(p.product);
    zeros_ += p.zeros;
    return true;
  }
  void take(const Factors &other) {
    multiply(other.mantissa_);
    exponent_ += other.exponent_;
    zeros_ += other.zeros_, infinities_ += other.infinities_, nans_ += other.nans_;
  }

  // For a factor x: the product of the others is g overOther / x, or g atZero if x is 0.
  struct Quotient {
    double over;
    float atZero;
  };
  bool isQuotient() const {
    constexpr int64_t kMostExponent = 700;  // for g and x far from the limits of double
    return infinities_ + nans_ == 0 && (zeros_ > 0 || std::abs(exponent_) < kMostExponent);
  }
  Quotient quotient(double g) const {
    const double product = scaled(g * mantissa_), none = g * 0.0;
    if (zeros_ == 0) return {product, 0};
    return {none, static_cast<float>(zeros_ == 1 ? product : none)};
  }
  // g times the product of all factors except one that is x. Zeros have no sign.
  double others(double g, double x) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const bool isOrdinary = std::isfinite(x) && x != 0;
    const int64_t zeros = zeros_ - (x == 0), infinities = infinities_ - std::isinf(x), nans = nans_ - std::isnan(x);
    const double rest = isOrdinary      ? mantissa_ / x
                        : std::isinf(x) ? std::copysign(mantissa_, mantissa_ * x)
                                        : mantissa_;
    if (nans > 0 || (zeros > 0 && infinities > 0)) return std::numeric_limits<double>::quiet_NaN();
    if (zeros > 0) return g * 0.0;
    return infinities > 0 ? g * std::copysign(kInfinity, rest) : scaled(g * rest);
  }

 private:
  void multiply(double x) {
    int first = 0, second = 0;
    mantissa_ = std::frexp(mantissa_ * std::frexp(x, &first), &second);
    exponent_ += first + second;
  }
  double scaled(double x) const { return std::ldexp(x, static_cast<int>(std::clamp<int64_t>(exponent_, -9999, 9999))); }

  double mantissa_ = 1;  // at least a half once a factor was taken
  int64_t exponent_ = 0;
  int64_t zeros_ = 0, infinities_ = 0, nans_ = 0;
};

class ProductGradient final : public executable::HostKernel {
 public:
  explicit ProductGradient(const ReducedBlocks &blocks)
      : blocks_(blocks), width_(blocks.inner == 1 ? 1 : kColumns), ranges_(ceilDiv(blocks.inner, width_)) {
    constexpr int64_t kLeaf = int64_t{1} << 15, kEnoughUnits = 64, kPerTask = int64_t{1} << 14;  // elements
    const int64_t units = blocks.outer * ranges_;
    leaves_ = leafCount(blocks.reduced * width_, kLeaf, kEnoughUnits / std::max<int64_t>(1, units));
    pieces_ = units * leaves_;
    const int64_t tasks = taskCount(blocks.outer * blocks.reduced * blocks.inner, kPerTask, pieces_);
    if (leaves_ > 1) rounds_.add(tasks, 1);
    rounds_.add(tasks, 2);
  }
  std::string name() const override { return "product gradient"; }
  int tasks() const override { return rounds_.tasks(); }
  std::span<const int> roundEnds() const override { return rounds_.ends(); }
  double share(int task) const override { return rounds_.share(task); }
  int64_t sharedBytes() const override {
    return leaves_ == 1 ? 0 : pieces_ * width_ * static_cast<int64_t>(sizeof(Factors));
  }
  bool canOverwrite(int input, int) const override { return input == 1; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const Rounds::Place place = rounds_.place(task);
    const int64_t tasks = rounds_.size(place.round);
    Factors factors[kColumns];
    for (int64_t i = pieces_ * place.task / tasks; i < pieces_ * (place.task + 1) / tasks; ++i) {
      const Piece piece = pieceOf(i);
      if (leaves_ == 1) {
        collect(args, piece, factors);
      } else if (place.round == 0) {
        collect(args, piece, static_cast<Factors *>(args.shared) + i * width_);
        continue;
      } else {
        join(args, i / leaves_, piece.columns, factors);
      }
      write(args, piece, factors);
    }
  }

 private:
  static constexpr int64_t kColumns = 64;  // neighbouring columns that a task reads

  struct Piece {
    int64_t at;             // offset of its first element in x
    int64_t gradient;       // offset of its gradient in g
    int64_t rows, columns;  // `columns` results, each with `rows` elements
  };
  Piece pieceOf(int64_t i) const {
    const int64_t leaf = i % leaves_, outer = i / leaves_ / ranges_, column = i / leaves_ % ranges_ * width_;
    const int64_t begin = blocks_.reduced * leaf / leaves_, end = blocks_.reduced * (leaf + 1) / leaves_;
    return {(outer * blocks_.reduced + begin) * blocks_.inner + column, outer * blocks_.inner + column, end - begin,
            std::min(width_, blocks_.inner - column)};
  }

  void collect(const KernelArgs &args, const Piece &piece, Factors *factors) const noexcept {
    const float *x = static_cast<const float *>(args.in[1]) + piece.at;
    NonZeroProduct products[kColumns];
    if (blocks_.inner == 1)
      products[0] = productOfRow(x, piece.rows);
    else
      productsOfColumns(x, blocks_.inner, piece.rows, piece.columns, products);
    for (int64_t c = 0; c < piece.columns; ++c) {
      factors[c] = {};
      if (factors[c].take(products[c])) continue;
      for (int64_t r = 0; r < piece.rows; ++r) factors[c].take(double{x[r * blocks_.inner + c]});
    }
  }

  void join(const KernelArgs &args, int64_t unit, int64_t columns, Factors *factors) const noexcept {
    const Factors *parts = static_cast<const Factors *>(args.shared) + unit * leaves_ * width_;
    std::copy_n(parts, columns, factors);
    for (int64_t leaf = 1; leaf < leaves_; ++leaf)
      for (int64_t c = 0; c < columns; ++c) factors[c].take(parts[leaf * width_ + c]);
  }

  void write(const KernelArgs &args, const Piece &piece, const Factors *factors) const noexcept {
    const float *g = static_cast<const float *>(args.in[0]) + piece.gradient,
                *x = static_cast<const float *>(args.in[1]) + piece.at;
    float *dx = static_cast<float *>(args.out[0]) + piece.at;
    if (!std::all_of(factors, factors + piece.columns, [](const Factors &f) { return f.isQuotient(); })) {
      for (int64_t r = 0; r < piece.rows; ++r)
        for (int64_t c = 0; c < piece.columns; ++c) {
          const int64_t at = r * blocks_.inner + c;
          dx[at] = static_cast<float>(factors[c].others(g[c], x[at]));
        }
      return;
    }
    double over[kColumns];
    float atZero[kColumns];
    for (int64_t c = 0; c < piece.columns; ++c) {
      const Factors::Quotient quotient = factors[c].quotient(g[c]);
      over[c] = quotient.over, atZero[c] = quotient.atZero;
    }
    if (blocks_.inner == 1) return divideRow(over[0], atZero[0], x, piece.rows, dx);
    divideColumns(over, atZero, x, blocks_.inner, piece.rows, piece.columns, dx);
  }

  ReducedBlocks blocks_;
  int64_t width_, ranges_, leaves_ = 1, pieces_ = 0;
  Rounds rounds_;
};

}  // namespace

std::unique_ptr<executable::Kernel> productGradient(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason) || !allOfType(request, DataType::FLOAT, reason)) return nullptr;
  const Shape &shape = request.inputs[1].info.shape();
  const auto blocks =
      reducedBlocks(shape, ops::reductionAxes(request.op->attributes(), static_cast<int64_t>(shape.size())));
  if (!blocks || blocks->leading > 1) return reason = "its reduced axes are not neighbours", nullptr;
  return std::make_unique<ProductGradient>(*blocks);
}

}  // namespace popart::cpu
