// Attention of ai.onnx and FlexAttention of ai.onnx.preview, written with products, softmax and element-wise ops.
#include <algorithm>
#include <cmath>
#include <limits>

#include <popart/error.hpp>

#include "base/half_types.hpp"
#include "onnx/import/attention.hpp"

namespace popart::onnx {

void Heads::check(const NodeContext &n) const {
  const auto &[q, k, v, s] = *this;
  n.require(q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && q.dim(0) == k.dim(0) && k.dim(0) == v.dim(0) &&
                k.dim(1) == v.dim(1) && k.dim(2) == v.dim(2) && q.dim(3) == k.dim(3),
            "Q, K and V must be (batch, heads, length, size) and fit each other: got {}, {} and {}", q.info(), k.info(),
            v.info());
  n.require(k.dim(1) > 0 && q.dim(1) % k.dim(1) == 0,
            "the heads of Q are not a multiple of those of K and V: got {} and {}", q.dim(1), k.dim(1));
}

Value Heads::grouped(const Value &x) const {
  return x.reshape({x.dim(0), key.dim(1), x.dim(1) / key.dim(1) * x.dim(2), x.dim(3)});
}

Value Heads::ungrouped(const Value &x) const { return x.reshape({x.dim(0), query.dim(1), query.dim(2), x.dim(3)}); }

Value Heads::scores() const {
  const bool narrow = isHalf(query.type());
  const double each = narrow ? std::sqrt(scale) : 1;
  const Value keys = key.transpose({0, 1, 3, 2});
  return ungrouped(matmul(grouped(query * (narrow ? each : scale)), narrow ? keys * each : keys));
}

Value Heads::weighted(const Value &probabilities) const { return ungrouped(matmul(grouped(probabilities), value)); }

namespace {

using Ints = std::vector<int64_t>;
constexpr int kMask = 3, kPastKey = 4, kPastValue = 5, kLengths = 6;
constexpr double kMasked = -std::numeric_limits<double>::infinity();

double scaleOf(const NodeContext &n, int64_t size) {
  return n.hasAttr("scale") ? n.attr("scale", 0.0f) : 1 / std::sqrt(static_cast<double>(size));
}

DataType softmaxType(const NodeContext &n, DataType fallback) {
  if (!n.hasAttr("softmax_precision")) return fallback;
  const auto number = n.attr<int64_t>("softmax_precision", 0);
  const DataType type = fromOnnxDataType(static_cast<int>(number));
  n.require(isFloatingPoint(type), "attribute softmax_precision: got {}, expected the number of a float type", number);
  return type;
}

bool isFalse(const NodeContext &n, const Value &v) {
  if (!n.isConstant(v.tensor())) return false;
  const std::vector<double> all = n.graph().tensor(v.tensor()).tensorData().asDoubles();
  return std::ranges::all_of(all, [](double x) { return x == 0; });
}

class AttentionNode {
 public:
  explicit AttentionNode(NodeContext &n) : n_(n), to_(n) {}

  void import() {
    const bool flat = n_.info(0).rank() == 3;
    Heads heads{split(0, "q_num_heads"), split(1, "kv_num_heads"), split(2, "kv_num_heads"), 0};
    auto &[query, key, value, scale] = heads;
    n_.require(n_.hasIn(kPastKey) == n_.hasIn(kPastValue), "past_key and past_value come together: got one of them");
    n_.require(!n_.hasIn(kLengths) || !n_.hasIn(kPastKey), "nonpad_kv_seqlen cannot be combined with a past");
    before_ = n_.hasIn(kPastKey) ? to_.input(kPastKey).dim(2) : 0;
    if (n_.hasIn(kPastKey))
      key = concat({to_.input(kPastKey), key}, 2), value = concat({to_.input(kPastValue), value}, 2);
    if (n_.hasOut(1)) to_.result(1, key);
    if (n_.hasOut(2)) to_.result(2, value);
    heads.check(n_);
    batch_ = query.dim(0), queries_ = query.dim(2), keys_ = key.dim(2);
    scale = scaleOf(n_, query.dim(3));
    n_.require(scale > 0, "attribute scale must be greater than 0: got {}", scale);
    Value scores = heads.scores();
    if (n_.hasOut(3) && outputMode() == 0) to_.result(3, scores);
    if (const double cap = n_.attr("softcap", 0.0f); cap > 0) scores = tanh(scores / cap) * cap;
    const Probabilities p = softmax(scores, biasOf(query.type()));
    const Value y = p.withoutEmpty(heads.weighted(p.values));
    to_.result(0, flat ? y.transpose({0, 2, 1, 3}).reshape({batch_, queries_, y.dim(1) * y.dim(3)}) : y);
  }

 private:
  int64_t outputMode() const {
    const auto mode = n_.attr<int64_t>("qk_matmul_output_mode", 0);
    n_.require(mode >= 0 && mode <= 3, "attribute qk_matmul_output_mode: got {}, expected 0 to 3", mode);
    return mode;
  }

  Value split(int input, const char *attribute) {
    const Value x = to_.input(input);
    if (x.rank() == 4) return x;
    const auto count = n_.attr<int64_t>(attribute, 0);
    n_.require(x.rank() == 3 && count > 0 && x.dim(2) % count == 0,
               "input {} must have four dimensions, or three with attribute {} that divides the last: got {} and {}",
               input, attribute, x.info(), count);
    return x.reshape({x.dim(0), x.dim(1), count, x.dim(2) / count}).transpose({0, 2, 1, 3});
  }

  // 0 where `allowed`, otherwise minus infinity.
  Value biasWhere(const Value &allowed, DataType type) {
    return where(allowed, to_.scalar(type, 0), to_.scalar(type, kMasked));
  }

  // The distance of key j behind query i: (queries, keys), or (batch, 1, queries, keys) if it depends on lengths.
  Value distance() {
    const Value i = to_.countUp(queries_).reshape({queries_, 1}), j = to_.countUp(keys_);
    if (!n_.hasIn(kLengths)) return i - j + static_cast<double>(before_);
    const Value lengths = to_.input(kLengths).cast(DataType::INT64).reshape({batch_, 1, 1, 1});
    return i - j + (lengths - static_cast<double>(queries_));
  }

  Value givenMask(DataType type) {
    Value mask = to_.input(kMask);
    mask = mask.type() == DataType::BOOL ? biasWhere(mask, type) : mask.cast(type);
    n_.require(mask.rank() >= 1 && mask.rank() <= 4 && mask.dim(-1) <= keys_, "attn_mask does not fit {} keys: got {}",
               keys_, mask.info());
    if (mask.dim(-1) == keys_) return mask;
    Shape missing = mask.shape();
    missing.back() = keys_ - mask.dim(-1);
    return concat({mask, to_.scalar(type, kMasked).expand(missing)}, mask.rank() - 1);
  }

  Value biasOf(DataType type) {
    Value bias;
    const auto join = [&](const Value &more) { bias = bias.valid() ? bias + more : more; };
    if (n_.hasIn(kMask)) join(givenMask(type));
    const auto left = n_.attr<int64_t>("left_window_size", -1), right = n_.attr<int64_t>("right_window_size", -1);
    n_.require(left >= -1 && right >= -1, "window sizes must be -1 or more: got {} and {}", left, right);
    const bool causal = n_.attr<int64_t>("is_causal", 0) != 0;
    if (causal || left >= 0 || right >= 0) {
      const Value behind = distance();
      const auto least = [&](double low) { join(biasWhere(behind.op("GreaterOrEqual", {behind.number(low)}), type)); };
      if (causal) least(0);
      if (right >= 0) least(-static_cast<double>(right));
      if (left >= 0) join(biasWhere(behind.op("LessOrEqual", {behind.number(static_cast<double>(left))}), type));
    }
    if (n_.hasIn(kLengths)) {
      const Value lengths = to_.input(kLengths).cast(DataType::INT64).reshape({batch_, 1, 1, 1});
      join(biasWhere(to_.countUp(keys_).op("Less", {lengths}), type));
    }
    return bias;
  }

  // Rows in which every key is masked become zeros, and so do products with them.
  struct Probabilities {
    Value values, empty;  // empty: which rows, of size 1; invalid if there are none
    Value withoutEmpty(const Value &x) const { return empty.valid() ? where(empty, x.number(0), x) : x; }
  };
  Probabilities softmax(const Value &scores, const Value &bias) {
    const int64_t mode = outputMode();
    if (n_.hasOut(3) && mode == 1) to_.result(3, scores);
    if (n_.hasOut(3) && mode == 2) to_.result(3, bias.valid() ? scores + bias : scores);
    const DataType inner = softmaxType(n_, scores.type());
    Value empty, shifted = scores;
    if (bias.valid()) {
      const Value most = bias.op("ReduceMax", {}, {{"axes", Ints{bias.rank() - 1}}, {"keepdims", int64_t{1}}});
      empty = most.op("Equal", {most.number(kMasked)});
      if (isFalse(n_, empty)) empty = Value();
      shifted = scores + (empty.valid() ? where(empty, bias.number(0), bias) : bias);
    }
    const Probabilities result{shifted.cast(inner).op("Softmax", {}, {{"axis", int64_t{3}}}).cast(scores.type()),
                               empty};
    if (n_.hasOut(3) && mode == 3) to_.result(3, result.withoutEmpty(result.values));
    return result;
  }

  NodeContext &n_;
  Composer to_;
  int64_t batch_ = 0, queries_ = 0, keys_ = 0, before_ = 0;
};

void importAttention(NodeContext &n) { AttentionNode(n).import(); }

// Applies the graph attribute `name`, which changes one value and keeps its shape and type.
Value modified(NodeContext &n, const char *name, const Value &x) {
  if (!n.nodeAttributes().graphs.count(name)) return x;
  const std::vector<Meaning> results =
      n.importer().inlineGraph(n.graphAttribute(name), n.scope(), n.scope().prefix + n.firstOutput() + "/" + name + "/",
                               {}, {Meaning(x.tensor())});
  n.require(results.size() == 1 && results[0].tensor.valid(),
            "attribute {} must be a graph with one output, a tensor: got {} outputs", name,
            static_cast<int64_t>(results.size()));
  const Value y(x.composer(), results[0].tensor);
  n.require(y.info() == x.info(), "attribute {} must keep type and shape: got {}, expected {}", name, y.info(),
            x.info());
  return y;
}

void importFlexAttention(NodeContext &n) {
  Composer to(n);
  Heads heads{to.input(0), to.input(1), to.input(2), 0};
  heads.check(n);
  heads.scale = scaleOf(n, heads.query.dim(3));
  const DataType given = heads.query.type();
  const DataType inner = softmaxType(n, given == DataType::DOUBLE ? given : DataType::FLOAT);
  const Value scores = modified(n, "score_mod", heads.scores().cast(inner));
  const Value probabilities = modified(n, "prob_mod", scores.op("Softmax", {}, {{"axis", int64_t{3}}}));
  heads.value = heads.value.cast(inner);
  to.result(0, heads.weighted(probabilities).cast(given));
}

}  // namespace

std::vector<ImportRule> attentionRules() {
  return {{"ai.onnx", "Attention", importAttention},
          {"ai.onnx.preview",
           "FlexAttention",
           importFlexAttention,
           {"Q K V", "Y", "prob_mod scale score_mod softmax_precision"}}};
}

}  // namespace popart::onnx
