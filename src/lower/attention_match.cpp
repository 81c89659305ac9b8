// See attention_match.hpp.
#include "lower/attention_match.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "ir/hints.hpp"
#include "lower/fuse_elementwise.hpp"
#include "lower/widen.hpp"
#include "ops/numbers.hpp"

namespace popart::lower {
namespace {

constexpr size_t kMostSteps = 12;
constexpr int kMostVisits = 64;  // largest number of ops in a search for the product

bool isRowOf(const Op &op, const OpDef &def) { return &op.def().base() == &def.base(); }
bool isFloatProduct(const Op &op) {
  return op.is(Role::MatMul) && op.outInfo(0).dataType() == DataType::FLOAT &&
         op.inInfo(0).dataType() == DataType::FLOAT && op.inRank(0) >= 2 && op.inRank(1) >= 2;
}
// A view that keeps rows whole.
bool isViewOfRows(const Op &op) {
  return op.has(Trait::View) && !op.isUserOp() && op.inRank(0) > 0 && op.outRank(0) > 0 &&
         op.inShape(0).back() == op.outShape(0).back() && op.inInfo(0).nelms() == op.outInfo(0).nelms();
}
// A cast to 16 bits or back.
bool isRounding(const Op &op) {
  const auto isFloat = [](DataType t) { return t == DataType::FLOAT || isHalf(t); };
  return op.has(Trait::Conversion) && isElementwise(op) && isFloat(op.inInfo(0).dataType()) &&
         isFloat(op.outInfo(0).dataType());
}
bool exchangesLastTwo(const Op &op) {
  if (!isTransposeOfKnownAxes(op)) return false;
  std::vector<int64_t> perm = op.attrInts("perm");
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return std::is_sorted(perm.begin(), perm.end());
}

// Whether the search for an operand passes through products with a number.
enum class Factors : uint8_t { kStay, kTaken };

class AttentionMatcher {
 public:
  AttentionMatcher(const Graph &graph, const Op &softmax) : graph_(graph), softmax_(softmax) {}

  std::optional<AttentionMatch> run() {
    m_.scores = softmax_.inputs()[0];
    forward(softmax_);
    if (!findProduct(m_.scores) || m_.steps.size() > kMostSteps) return std::nullopt;
    m_.q = operandOf(product_->inputs()[0], Factors::kTaken), m_.k = operandOf(product_->inputs()[1], Factors::kTaken);
    if (!followProbabilities(softmax_.outputs()[0], false) || !m_.weighted) return std::nullopt;
    m_.v = operandOf(m_.weighted->inputs()[1], Factors::kStay);
    // Rows of the probabilities must be those of the first product, batch by batch.
    Shape scores = product_->outShape(0);
    if (m_.weighted->inShape(0) != scores || !valuesFit(scores)) return std::nullopt;
    if (softmaxGradient_ ? !findGradient() : valueGradient_ != nullptr) return std::nullopt;
    if (!staysTogether()) return std::nullopt;
    foldScale();
    return std::move(m_);
  }

 private:
  void forward(const Op &op) {
    if (inside_.insert(op.index()).second) m_.forwardOps.push_back(op.index());
  }
  void backward(const Op &op) {
    if (inside_.insert(op.index()).second) m_.backwardOps.push_back(op.index());
  }
  // Long chains are not attention. Each recursive function that follows values first adds an op to `inside_`.
  bool isTooLong() const { return inside_.size() > 2 * kMostVisits; }
  const Op *producer(TensorIndex t) const { return t.valid() ? graph_.tensor(t).getProducerUnsafe() : nullptr; }
  bool isStep(const Op &op) const {
    return isElementwise(op) && op.outputCount() == 1 && op.outShape(0) == graph_.info(m_.scores).shape() &&
           !op.settings.hints.count(kKeepApart);
  }

  // Finds the product from which element-wise steps compute `t`, and records the steps in order.
  bool findProduct(TensorIndex t) {
    if (t.valid() && t == m_.product) return true;
    const Op *op = producer(t);
    if (!op) return false;
    if (const auto known = visited_.find(op); known != visited_.end()) return known->second;
    if (static_cast<int>(visited_.size()) >= kMostVisits) return false;
    visited_[op] = false;
    const Op *behind = isViewOfRows(*op) ? producer(op->inputs()[0]) : op;
    if (!product_ && behind && isFloatProduct(*behind) && graph_.info(t).shape() == graph_.info(m_.scores).shape()) {
      product_ = behind;
      m_.product = t;
      forward(*behind), forward(*op);
      return visited_[op] = true;
    }
    if (!isStep(*op)) return false;
    bool found = false;
    for (TensorIndex in : op->inputs()) found |= findProduct(in);
    if (!found) return false;
    forward(*op);
    m_.steps.push_back(op);
    return visited_[op] = true;
  }

  AttentionOperand operandOf(TensorIndex t, Factors factors) {
    AttentionOperand o;
    o.tensor = t;
    o.perm.resize(static_cast<size_t>(graph_.info(t).rank()));
    std::iota(o.perm.begin(), o.perm.end(), 0);
    for (int visits = 0; visits < kMostVisits; ++visits) {
      const Op *op = producer(o.tensor);
      if (!op) break;
      if (isTransposeOfKnownAxes(*op)) {
        o.perm = read(o.perm, *op);
        o.tensor = op->inputs()[0];
      } else {
        const std::optional<TensorIndex> factorless = factors == Factors::kTaken ? scaled(*op, o.scale) : std::nullopt;
        if (!factorless) break;
        o.tensor = *factorless;
      }
      m_.spare.push_back(op->index());
    }
    o.origin = o.tensor, o.originPerm = o.perm;
    for (int visits = 0; visits < kMostVisits; ++visits) {
      const Op *op = producer(o.origin);
      if (!op) break;
      const bool widens = isRounding(*op) && isHalf(op->inInfo(0).dataType());
      if (!widens && !isTransposeOfKnownAxes(*op)) break;
      if (!widens) o.originPerm = read(o.originPerm, *op);
      o.origin = op->inputs()[0];
      m_.spare.push_back(op->index());  // a cast that only this operand uses
    }
    return o;
  }
  // Converts `perm` of the transpose's result to a permutation of its operand.
  static std::vector<int64_t> read(std::vector<int64_t> perm, const Op &transpose) {
    for (int64_t &d : perm) d = transpose.attrInts("perm")[static_cast<size_t>(d)];
    return perm;
  }
  // If `op` multiplies by a number, multiplies `scale` by it and returns the other operand.
  std::optional<TensorIndex> scaled(const Op &op, float &scale) const {
    for (TensorIndex t : op.inputs())
      if (const auto factor = factorOf(graph_, op, t)) return scale *= *factor, t;
    return std::nullopt;
  }

  bool valuesFit(const Shape &scores) const {
    const Shape &v = m_.weighted->inShape(1);
    const Shape batch(scores.begin(), scores.end() - 2);
    return v.size() <= scores.size() && m_.weighted->outShape(0).size() == scores.size() &&
           std::equal(batch.begin(), batch.end(), m_.weighted->outShape(0).begin());
  }

  // Checks all readers of the probabilities: the product with v, the softmax gradient, the product that computes dv.
  bool followProbabilities(TensorIndex t, bool isTransposed) {
    if (isTooLong()) return false;
    for (const Use &use : graph_.tensor(t).uses()) {
      const Op &op = graph_.op(use.op);
      if (isFloatProduct(op)) {
        const Op *&place = isTransposed ? valueGradient_ : m_.weighted;
        if (use.input != 0 || op.inputs()[0] == op.inputs()[1] || (place && place != &op)) return false;
        place = &op;
        isTransposed ? backward(op) : forward(op);
      } else if (isSoftmaxGradient(op) && use.input == 1 && !isTransposed) {
        if (softmaxGradient_) return false;
        softmaxGradient_ = &op;
        backward(op);
      } else if (isRounding(op) || (isViewOfRows(op) && !isTransposed) || exchangesLastTwo(op)) {
        isTransposed || exchangesLastTwo(op) || staysApart(softmax_, op) ? backward(op) : forward(op);
        if (!followProbabilities(op.outputs()[0], isTransposed != exchangesLastTwo(op))) return false;
      } else {
        return false;
      }
    }
    return true;
  }

  // ---- gradient

  bool findGradient() {
    AttentionMatch::Gradient &g = m_.gradient.emplace();
    g.scores = softmaxGradient_->outputs()[0];
    const Op *op = producer(softmaxGradient_->inputs()[0]);
    while (op && !isTooLong() && (isRounding(*op) || isViewOfRows(*op))) backward(*op), op = producer(op->inputs()[0]);
    if (!op || !isFloatProduct(*op) || op->outShape(0) != product_->outShape(0)) return false;
    backward(*op);
    g.ofProbabilities = op;
    if (!operandOf(op->inputs()[1], Factors::kStay).isTransposed(m_.v)) return false;
    g.gradOut = operandOf(op->inputs()[0], Factors::kStay);
    if (graph_.info(op->inputs()[0]).shape() != m_.weighted->outShape(0)) return false;
    g.results[2] = valueGradient_;
    if (valueGradient_) {
      const AttentionOperand other = operandOf(valueGradient_->inputs()[1], Factors::kStay);
      if (other.origin != g.gradOut.origin || other.originPerm != g.gradOut.originPerm) return false;
    }
    g.product = g.scores;
    return followScoreGradient(g.scores, g.scores) && orderGradientSteps(g.product) && g.steps.size() <= kMostSteps &&
           graph_.info(g.product).dataType() == DataType::FLOAT;
  }

  // Checks all readers of the gradient of the scores: steps, then the products that compute dq and dk. `step`: the
  // result of the last step before `t`.
  bool followScoreGradient(TensorIndex t, TensorIndex step) {
    if (isTooLong()) return false;
    AttentionMatch::Gradient &g = *m_.gradient;
    for (const Use &use : graph_.tensor(t).uses()) {
      const Op &op = graph_.op(use.op);
      if (isFloatProduct(op)) {
        if (op.inputs()[0] == op.inputs()[1]) return false;
        const Op *&place = g.results[static_cast<size_t>(use.input)];
        const AttentionOperand other = operandOf(op.inputs()[static_cast<size_t>(1 - use.input)], Factors::kTaken);
        const AttentionOperand &wanted = use.input == 0 ? m_.k : m_.q;
        if (place || !other.isTransposed(wanted) || other.scale != wanted.scale ||
            graph_.info(t).shape() != product_->outShape(0))
          return false;
        if ((g.results[0] || g.results[1]) && g.product != step) return false;
        place = &op;
        g.product = step;
        backward(op);
      } else if (isRounding(op) && op.outShape(0) != graph_.info(m_.scores).shape()) {
        backward(op);
        if (!followScoreGradient(op.outputs()[0], step)) return false;
      } else if (isViewOfRows(op)) {
        backward(op);
        if (!followScoreGradient(op.outputs()[0], step)) return false;
      } else if (isStep(op)) {
        backward(op);
        gradientSteps_.insert(&op);
        if (!followScoreGradient(op.outputs()[0], op.outputs()[0])) return false;
      } else {
        return false;
      }
    }
    return true;
  }

  // Orders the steps that `t` needs, after those of the forward pass.
  bool orderGradientSteps(TensorIndex t) {
    const Op *op = producer(t);
    if (!op || (!gradientSteps_.count(op) && (isForwardStep(op) || !isOfScores(t, kMostSteps)))) return true;
    AttentionMatch::Gradient &g = *m_.gradient;
    if (std::ranges::find(g.steps, op) != g.steps.end()) return true;
    if (g.steps.size() > kMostSteps) return false;
    for (TensorIndex in : op->inputs())
      if (!orderGradientSteps(in)) return false;
    backward(*op);
    g.steps.push_back(op);
    return true;
  }
  bool isForwardStep(const Op *op) const { return std::ranges::find(m_.steps, op) != m_.steps.end(); }
  // Whether at most `depth` steps alone compute `t` from the scores of the forward pass.
  bool isOfScores(TensorIndex t, size_t depth) const {
    if (t.valid() && t == m_.product) return true;
    const Op *op = producer(t);
    if (!op || depth == 0 || !isStep(*op)) return false;
    return isForwardStep(op) ||
           std::ranges::any_of(op->inputs(), [&](TensorIndex in) { return isOfScores(in, depth - 1); });
  }

  // If the first step, and the last one of the gradient, multiply by a number, the number becomes a factor of the
  // match.
  void foldScale() {
    if (m_.steps.empty()) return;
    const Op &first = *m_.steps.front();
    const auto factor = factorOf(graph_, first, m_.product);
    if (!factor || graph_.tensor(m_.product).uses().size() != 1) return;
    if (m_.gradient) {
      AttentionMatch::Gradient &g = *m_.gradient;
      if (g.steps.empty()) return;
      const Op &last = *g.steps.back();
      const auto in = std::ranges::find_if(
          last.inputs(), [&](TensorIndex t) { return t.valid() && factorOf(graph_, last, t) == factor; });
      if (last.outputs()[0] != g.product || in == last.inputs().end()) return;
      g.product = *in;
      g.steps.pop_back();
    }
    m_.product = first.outputs()[0];
    m_.steps.erase(m_.steps.begin());
    m_.scale = *factor;
  }

  // Whether nothing else reads values between the ops, and no hint forbids to merge the ops.
  bool staysTogether() const {
    std::set<TensorIndex> results{m_.weighted->outputs()[0]};
    if (m_.gradient)
      for (const Op *op : m_.gradient->results)
        if (op) results.insert(op->outputs()[0]);
    for (const OpIndex o : inside_)
      for (TensorIndex t : graph_.op(o).outputs()) {
        if (!t.valid() || results.count(t)) continue;
        const Tensor &tensor = graph_.tensor(t);
        if (tensor.isGraphOutput()) return false;
        for (const Use &use : tensor.uses())
          if (!inside_.count(use.op)) return false;
      }
    // Ops of the gradient run late in any case, whether they read copies or not.
    return areOneGroup(m_.forwardOps, [](const Op &a, const Op &b) { return staysApart(a, b) || staysApart(b, a); }) &&
           areOneGroup(m_.backwardOps, runsApart);
  }
  template <class Apart>
  bool areOneGroup(const std::vector<OpIndex> &ops, Apart &&apart) const {
    return std::ranges::none_of(ops, [&](OpIndex o) { return apart(graph_.op(ops.front()), graph_.op(o)); });
  }

  const Graph &graph_;
  const Op &softmax_;
  AttentionMatch m_;
  const Op *product_ = nullptr, *softmaxGradient_ = nullptr, *valueGradient_ = nullptr;
  std::map<const Op *, bool> visited_;
  std::set<const Op *> gradientSteps_;
  std::set<OpIndex> inside_;
};

}  // namespace

bool AttentionOperand::isTransposed(const AttentionOperand &other) const {
  if (origin != other.origin || originPerm.size() != other.originPerm.size()) return false;
  std::vector<int64_t> transposed = other.originPerm;
  std::swap(transposed[transposed.size() - 1], transposed[transposed.size() - 2]);
  return originPerm == transposed;
}

bool mayBeAttention(const Op &op) {
  static const OpDef &def = opDef("Softmax");
  return isRowOf(op, def) || isSoftmaxGradient(op);
}

bool isSoftmaxOfRows(const Op &op) {
  static const OpDef &def = opDef("Softmax");
  return isRowOf(op, def) && op.outInfo(0).dataType() == DataType::FLOAT && !op.hasAttr("flatten") &&
         op.attrInt("axis") == op.outRank(0) - 1;
}

bool isSoftmaxGradient(const Op &op) {
  static const OpDef &def = opDef("SoftmaxGrad");
  return isRowOf(op, def);
}

bool isTransposeOfKnownAxes(const Op &op) {
  return op.is(Role::Transpose) && op.hasAttr("perm") && op.attrInts("perm").size() >= 2;
}

std::optional<float> factorOf(const Graph &graph, const Op &op, TensorIndex t) {
  return t.valid() && graph.info(t).dataType() == DataType::FLOAT ? ops::factorOf(graph, op, t) : std::nullopt;
}

std::optional<AttentionMatch> AttentionMatch::find(const Graph &graph, const Op &softmax) {
  return AttentionMatcher(graph, softmax).run();
}

}  // namespace popart::lower
