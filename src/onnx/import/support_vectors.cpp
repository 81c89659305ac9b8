// SVMRegressor and SVMClassifier of ai.onnx.ml: kernels of samples and support vectors, and sums of them.
#include <algorithm>
#include <numeric>

#include <popart/error.hpp>

#include "onnx/import/machine_learning.hpp"

namespace popart::onnx {
namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

// |x_n - v_s|² for x (N, C) and v (S, C): (N, S), one feature at a time. A matrix product would be faster, but its
// differences of large squares lose the digits of small distances.
Value squaredDistances(Composer &to, const Value &x, const Value &vectors) {
  LoopWriter loop(to, "distances", x.dim(1));
  const Value sum = loop.carry(to.zeros(x.type(), {x.dim(0), vectors.dim(0)}));
  const Value columns = loop.bring(x.transpose({1, 0})), others = loop.bring(vectors.transpose({1, 0}));
  const Value difference = columns.gather(loop.iteration(), 0).reshape({x.dim(0), 1}) -
                           others.gather(loop.iteration(), 0).reshape({1, vectors.dim(0)});
  return loop.run({sum + difference * difference}, {}).front();
}

// kernel_type and kernel_params [gamma, coef0, degree] for x (N, C) and vectors (S, C): (N, S).
Value kernelValues(Composer &to, const Value &x, const Value &vectors) {
  const NodeContext &n = to.node();
  const auto type = n.attr<std::string>("kernel_type", "LINEAR");
  const Floats given = n.attr<Floats>("kernel_params", {});
  n.require(given.size() == 3 || (given.empty() && type == "LINEAR"),
            "attribute kernel_params: got {} numbers, expected gamma, coef0 and degree",
            static_cast<int64_t>(given.size()));
  const double gamma = given.empty() ? 0 : given[0], shift = given.empty() ? 0 : given[1];
  const auto product = [&] { return matmul(x, vectors.transpose({1, 0})); };
  if (type == "LINEAR") return product();
  if (type == "POLY") {
    const Value base = product() * gamma + shift;
    return base.op("Pow", {base.number(given[2])});
  }
  if (type == "SIGMOID") return tanh(product() * gamma + shift);
  if (type == "RBF") return (squaredDistances(to, x, vectors) * -gamma).op("Exp");
  n.fail("attribute kernel_type: got '{}', expected LINEAR, POLY, RBF or SIGMOID", type);
}

Value floatsOf(Composer &to, const char *attribute, const Shape &shape) {
  const Floats given = to.node().attr<Floats>(attribute, {});
  to.node().require(static_cast<int64_t>(given.size()) == elementCount(shape),
                    "attribute {}: got {} numbers, expected {} for shape {}", attribute,
                    static_cast<int64_t>(given.size()), elementCount(shape), shape);
  return to.constant(
      TensorData::fromDoubles(TensorInfo(DataType::FLOAT, shape), std::vector<double>(given.begin(), given.end())));
}

// rho of linear forms; only the first one is used.
double linearOffset(const NodeContext &n) {
  const Floats rho = n.attr<Floats>("rho", {});
  n.require(!rho.empty(), "needs attribute rho");
  return rho[0];
}

void importSvmRegressor(NodeContext &n) {
  Composer to(n);
  const Value x = featureRows(to, 0);
  const auto supports = n.attr<int64_t>("n_supports", 0);
  constexpr int64_t kMost = int64_t{1} << 31;
  n.require(supports >= 0 && supports < kMost, "attribute n_supports: got {}, expected 0 to {}", supports, kMost - 1);
  Value y;
  if (supports == 0) {
    n.require(n.attr<std::string>("kernel_type", "LINEAR") == "LINEAR",
              "attribute kernel_type: got '{}', expected LINEAR without support vectors (n_supports is 0)",
              n.attr<std::string>("kernel_type", "LINEAR"));
    y = matmul(x, floatsOf(to, "coefficients", {x.dim(1), 1}));
  } else {
    const Value kernel = kernelValues(to, x, floatsOf(to, "support_vectors", {supports, x.dim(1)}));
    y = matmul(kernel, floatsOf(to, "coefficients", {supports, 1}));
  }
  y = y + linearOffset(n);
  if (n.attr<int64_t>("one_class", 0) != 0) y = where(y.op("Greater", {y.number(0)}), y.number(1), y.number(-1));
  to.result(0, postTransformed(n, y, n.attr<std::string>("post_transform", "NONE")));
}

// A classifier of all pairs of classes, as libsvm trains it.
class PairsOfClasses {
 public:
  PairsOfClasses(Composer &to, Ints perClass)
      : to_(to), perClass_(std::move(perClass)), classes_(static_cast<int64_t>(perClass_.size())) {
    for (int64_t i = 0; i < classes_; ++i)
      for (int64_t j = i + 1; j < classes_; ++j) {
        first_.push_back(i);
        second_.push_back(j);
      }
  }

  int64_t pairs() const { return static_cast<int64_t>(first_.size()); }

  // One sum for each pair (N, pairs): positive for its first class. Row j - 1 of the coefficients has those of class i
  // against class j > i, row i those of class j against i.
  Value sums(const Value &kernel) const {
    const int64_t others = classes_ - 1;
    const Value coefficients = floatsOf(to_, "coefficients", {others, kernel.dim(1)});
    std::vector<Value> parts;  // of each class against all others
    int64_t from = 0;
    for (const int64_t count : perClass_) {
      const int64_t end = from + count;
      parts.push_back(count == 0
                          ? to_.zeros(kernel.type(), {kernel.dim(0), others})
                          : matmul(kernel.slice(1, from, end), coefficients.slice(1, from, end).transpose({1, 0})));
      from = end;
    }
    Ints ofFirst, ofSecond;
    for (int64_t p = 0; p < pairs(); ++p) {
      ofFirst.push_back(first_[p] * others + second_[p] - 1);
      ofSecond.push_back(second_[p] * others + first_[p]);
    }
    const Value all = concat(parts, 1);
    return all.gather(to_.ints(ofFirst), 1) + all.gather(to_.ints(ofSecond), 1) + floatsOf(to_, "rho", {pairs()});
  }

  // The first class that wins the most pairs (N).
  Value winner(const Value &sums) const {
    const Value wins = matrix(sums.op("Greater", {sums.number(0)}).cast(DataType::FLOAT));
    return topClass(wins.sum({2}, false));
  }

  // Probabilities of the classes (N, classes) from those of the pairs (Wu, Lin and Weng, second method): p with the
  // least sum of (r_ji p_i - r_ij p_j)², where r_ij is the probability of i against j. Updates class by class until the
  // change is below 0.005 / classes, at most a hundred times, as in libsvm and ONNX Runtime.
  Value probabilities(const Value &sums) const {
    constexpr double kLeast = 1e-7;
    constexpr int64_t kRounds = 100;
    const Value line = sums * floatsOf(to_, "prob_a", {pairs()}) + floatsOf(to_, "prob_b", {pairs()});
    const Value r = matrix(sigmoid(line.number(0) - line).clamp(kLeast, 1 - kLeast)), other = r.transpose({0, 2, 1});
    const Value unit = identity();
    const Value q = (other * other).sum({2}, true) * unit - r * other;
    const double each = 1 / static_cast<double>(classes_);
    LoopWriter loop(to_, "probabilities", kRounds);
    const Value p = loop.carry(sums.number(each).expand({sums.dim(0), classes_}));
    const Value all = loop.bring(q), units = loop.bring(unit);
    const Value slope = (all * p.reshape({p.dim(0), 1, classes_})).sum({2}, false), mean = (p * slope).sum({1}, true);
    const Value error = (slope - mean).op("Abs").op("ReduceMax", {}, {{"axes", Ints{1}}, {"keepdims", int64_t{1}}});
    const Value goesOn = error.op("GreaterOrEqual", {error.number(0.005 * each)});
    const Value next = where(goesOn, round(loop, p, slope, mean, all, units), p);
    const Value any = goesOn.cast(DataType::INT32)
                          .op("ReduceMax", {}, {{"axes", Ints{0, 1}}, {"keepdims", int64_t{0}}})
                          .cast(DataType::BOOL);
    return loop.run({next}, {}, to_.node().training() || sums.dim(0) == 0 ? Value() : any).front();
  }

 private:
  // One step for each class, which changes its probability and scales all to the sum 1.
  Value round(LoopWriter &around, const Value &p, const Value &slope, const Value &mean, const Value &q,
              const Value &units) const {
    LoopWriter loop(around.body(), "class", classes_);
    const Value at = loop.carry(p), slopes = loop.carry(slope), product = loop.carry(mean);
    const Value rows = loop.bring(q), row = rows.gather(loop.iteration(), 1);
    const Value unit = loop.bring(units).gather(loop.iteration(), 0);
    const Value own = (row * unit).sum({1}, true), ownSlope = (slopes * unit).sum({1}, true);
    const Value step = (product - ownSlope) / own, whole = step + 1.0;
    return loop
        .run({(at + unit * step) / whole, (slopes + row * step) / whole,
              (product + step * (step * own + ownSlope * 2.0)) / whole / whole},
             {})
        .front();
  }

  // x (N, pairs) of numbers from 0 to 1 as a matrix (N, classes, classes): x above the diagonal, 0 on it, 1 - x below.
  Value matrix(const Value &x) const {
    Ints place(classes_ * classes_, 0);
    std::vector<double> factor(place.size(), 0), shift(place.size(), 0);
    for (int64_t p = 0; p < pairs(); ++p) {
      const int64_t above = first_[p] * classes_ + second_[p], below = second_[p] * classes_ + first_[p];
      place[above] = place[below] = p;
      factor[above] = 1;
      factor[below] = -1;
      shift[below] = 1;
    }
    const TensorInfo info(x.type(), {classes_ * classes_});
    const Value all = x.gather(to_.ints(place), 1) * to_.constant(TensorData::fromDoubles(info, factor)) +
                      to_.constant(TensorData::fromDoubles(info, shift));
    return all.reshape({x.dim(0), classes_, classes_});
  }

  Value identity() const {
    std::vector<double> values(classes_ * classes_, 0);
    for (int64_t i = 0; i < classes_; ++i) values[i * (classes_ + 1)] = 1;
    return to_.constant(TensorData::fromDoubles(TensorInfo(DataType::FLOAT, {classes_, classes_}), values));
  }

  Composer &to_;
  Ints perClass_;
  int64_t classes_;
  Ints first_, second_;
};

// Sums of kernels for each pair of classes.
void importPairs(Composer &to, const Value &x, const Ints &labels, const std::string &transform) {
  NodeContext &n = to.node();
  const Ints perClass = n.attr<Ints>("vectors_per_class", {});
  n.require(perClass.size() == labels.size() && labels.size() >= 2,
            "attribute vectors_per_class must have one number for each of two labels or more: got {} for {}",
            static_cast<int64_t>(perClass.size()), static_cast<int64_t>(labels.size()));
  // classes² numbers describe the pairs, in a few tables.
  const auto classes = static_cast<int64_t>(labels.size());
  n.require(classes < (int64_t{1} << 20), "has too many classes: got {}", classes);
  n.importer().takeFromBudget(4 * classes * classes * static_cast<int64_t>(sizeof(double)), "pairs of classes");
  int64_t vectors = 0;
  for (const int64_t count : perClass) {
    n.require(count >= 0 && count < (int64_t{1} << 31), "attribute vectors_per_class: got {}", count);
    vectors += count;
  }
  const PairsOfClasses pairs(to, perClass);
  const Value sums = pairs.sums(kernelValues(to, x, floatsOf(to, "support_vectors", {vectors, x.dim(1)})));
  giveLabels(to, pairs.winner(sums), labels);
  if (!n.hasOut(1)) return;
  if (n.hasAttr("prob_a") || n.hasAttr("prob_b"))
    to.result(1, classScores(n, pairs.probabilities(sums), transform));
  else if (labels.size() > 2)
    to.result(1, classScores(n, sums, transform));
  else
    to.result(1, bothClasses(n, sums, transform, transform == "NONE" ? Counterpart::Opposite : Counterpart::Rest));
}

void importSvmClassifier(NodeContext &n) {
  Composer to(n);
  const Value x = featureRows(to, 0);
  const Ints labels = classLabels(n, "classlabels_ints");
  const auto transform = n.attr<std::string>("post_transform", "NONE");
  n.require(!labels.empty(), "needs labels: attribute classlabels_ints or classlabels_strings");
  const Ints perClass = n.attr<Ints>("vectors_per_class", {});
  if (std::ranges::any_of(perClass, [](int64_t count) { return count != 0; }))
    return importPairs(to, x, labels, transform);
  // A row of coefficients for each class.
  const auto classes = static_cast<int64_t>(labels.size());
  const Value scores = matmul(x, floatsOf(to, "coefficients", {classes, x.dim(1)}).transpose({1, 0})) + linearOffset(n);
  giveLabels(to, topClass(scores), labels);
  if (n.hasOut(1)) to.result(1, classScores(n, scores, transform));
}

}  // namespace

std::vector<ImportRule> supportVectorRules() {
  return {
      {"ai.onnx.ml",
       "SVMRegressor",
       importSvmRegressor,
       {"X", "Y", "coefficients kernel_params kernel_type n_supports one_class post_transform rho support_vectors"}},
      {"ai.onnx.ml",
       "SVMClassifier",
       importSvmClassifier,
       {"X", "Y Z",
        "classlabels_ints classlabels_strings coefficients kernel_params kernel_type post_transform prob_a prob_b "
        "rho support_vectors vectors_per_class"}}};
}

}  // namespace popart::onnx
