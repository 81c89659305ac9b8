// Operators of ai.onnx for transformers and similar networks, composed of others: RotaryEmbedding, SwiGLU,
// TensorScatter, LinearAttention and CausalConvWithState.
#include <cmath>
#include <numeric>

#include <popart/error.hpp>

#include "onnx/compose.hpp"

namespace popart::onnx {
namespace {

using Ints = std::vector<int64_t>;

// Rotates pairs of elements by the angles of their position: halves of a head, or neighbours when interleaved.
void importRotaryEmbedding(NodeContext &n) {
  Composer to(n);
  Value x = to.input(0);
  const bool flat = x.rank() == 3;
  const auto count = n.attr<int64_t>("num_heads", 0);
  n.require(x.rank() == 4 || (flat && count > 0 && x.dim(2) % count == 0),
            "the input must have four dimensions, or three with num_heads: got {} and {}", x.info(), count);
  x = flat ? x.reshape({x.dim(0), x.dim(1), count, x.dim(2) / count}) : x.transpose({0, 2, 1, 3});
  const int64_t given = n.attr<int64_t>("rotary_embedding_dim", 0), size = x.dim(3), turned = given == 0 ? size : given;
  n.require(turned > 0 && turned <= size && turned % 2 == 0,
            "rotary_embedding_dim must be even and at most the size of a head: got {} of {}", turned, size);
  const Shape angles = {x.dim(0), x.dim(1), 1, turned / 2};
  const auto cache = [&](int input) {
    const Value table = to.input(input);
    n.require(table.dim(-1) == turned / 2, "input {} must have {} angles: got {}", input, turned / 2, table.info());
    return (n.hasIn(3) ? table.gather(to.input(3), 0) : table).reshape(angles);
  };
  const Value cosine = cache(1), sine = cache(2), part = x.slice(3, 0, turned);
  const bool interleaved = n.attr<int64_t>("interleaved", 0) != 0;
  const Shape half = {x.dim(0), x.dim(1), x.dim(2), turned / 2};
  const Value pairs = part.reshape(interleaved ? Shape{half[0], half[1], half[2], half[3], 2}
                                               : Shape{half[0], half[1], half[2], 2, half[3]});
  const int64_t axis = interleaved ? 4 : 3;
  const Value first = pairs.slice(axis, 0, 1).reshape(half), second = pairs.slice(axis, 1, 2).reshape(half);
  Shape single = half;
  single.insert(single.begin() + axis, 1);
  const Value real = (cosine * first - sine * second).reshape(single);
  const Value imaginary = (sine * first + cosine * second).reshape(single);
  Value y = concat({real, imaginary}, axis).reshape(part.shape());
  if (turned < size) y = concat({y, x.slice(3, turned, size)}, 3);
  to.result(0, flat ? y.reshape(n.info(0).shape()) : y.transpose({0, 2, 1, 3}));
}

void importSwiGlu(NodeContext &n) {
  Composer to(n);
  const Value a = to.input(0), b = to.input(1);
  n.require(a.info() == b.info(), "both inputs must have one type and shape: got {} and {}", a.info(), b.info());
  to.result(0, a.op("Swish", {}, {{"alpha", n.attr("alpha", 1.0f)}}) * b);
}

// Writes the rows of `update` to the positions from write_indices on along `axis`, one sample at a time; indices beyond
// the cache end the run.
void importTensorScatter(NodeContext &n) {
  Composer to(n);
  const Value past = to.input(0), update = to.input(1);
  const int64_t rank = past.rank(), given = n.attr<int64_t>("axis", -2), axis = given < 0 ? given + rank : given;
  const std::string mode = n.attr<std::string>("mode", "linear");
  n.require(mode == "linear" || mode == "circular", "attribute mode: got '{}', expected linear or circular", mode);
  n.require(axis >= 1 && axis < rank, "attribute axis: got {}, expected an axis of {} but the first", given,
            past.info());
  Shape fitting = past.shape();
  fitting[axis] = update.rank() == rank ? update.dim(static_cast<int>(axis)) : -1;
  const int64_t length = fitting[axis], most = past.dim(static_cast<int>(axis));
  n.require(update.shape() == fitting && length <= most && update.type() == past.type(),
            "update must be past_cache but for axis {}, where it may be shorter: got {} and {}", axis, update.info(),
            past.info());
  const Shape rows(update.shape().begin(), update.shape().begin() + axis + 1);
  const auto along = [&](int64_t d, const Value &list) {
    Shape shape(rows.size(), 1);
    shape[d] = rows[d];
    return list.reshape(shape);
  };
  const auto countUp = [&](int64_t d) { return along(d, to.countUp(rows[d])); };
  Value place = countUp(axis);
  if (n.hasIn(2)) {
    n.require(n.info(2).shape() == Shape{rows[0]}, "write_indices must have one number per sample: got {}", n.info(2));
    place = place + along(0, to.input(2).cast(DataType::INT64));
  }
  if (mode == "circular") place = place.op("Remainder", {place.number(static_cast<double>(most))});
  Shape column = rows;
  column.push_back(1);
  std::vector<Value> coordinates;
  for (int64_t d = 0; d <= axis; ++d)
    coordinates.push_back((d < axis ? countUp(d) : place).expand(rows).reshape(column));
  to.result(0, past.op("ScatterND", {concat(coordinates, axis + 1), update}));
}

// A recurrence over a matrix per head, as a loop over the steps. Query heads that share a head of keys are rows of one
// product with its state.
class LinearAttentionNode {
 public:
  explicit LinearAttentionNode(NodeContext &n)
      : n_(n), to_(n), heads_(count("kv_num_heads")), group_(count("q_num_heads") / heads_) {
    const std::string rule = n.attr<std::string>("update_rule", "gated_delta");
    n.require(rule == "linear" || rule == "gated" || rule == "delta" || rule == "gated_delta",
              "attribute update_rule: got '{}', expected linear, gated, delta or gated_delta", rule);
    n.require(count("q_num_heads") % heads_ == 0, "q_num_heads must be a multiple of kv_num_heads: got {} and {}",
              count("q_num_heads"), heads_);
    gated_ = rule.starts_with("gated"), delta_ = rule.ends_with("delta");
    n.require(n.hasIn(kDecay) == gated_, "update_rule '{}' {} input 4 (decay)", rule, gated_ ? "needs" : "has no");
    n.require(n.hasIn(kBeta) == delta_, "update_rule '{}' {} input 5 (beta)", rule, delta_ ? "needs" : "has no");
    for (int i : {0, 1, 2, kDecay, kBeta})
      if (n.hasIn(i))
        n.require(n.info(i).rank() == 3 && n.info(i).shape()[0] == n.info(0).shape()[0] &&
                      n.info(i).shape()[1] == n.info(0).shape()[1],
                  "input {} must be (batch, steps, heads times size) as the query: got {} and {}", i, n.info(i),
                  n.info(0));
    const TensorInfo &query = n.info(0);
    batch_ = query.shape()[0], steps_ = query.shape()[1];
    keySize_ = query.shape()[2] / (heads_ * group_), valueSize_ = n.info(2).shape()[2] / heads_;
    n.require(keySize_ * heads_ * group_ == query.shape()[2] && n.info(1).shape()[2] == keySize_ * heads_ &&
                  n.info(2).shape()[2] == valueSize_ * heads_ && keySize_ > 0,
              "query, key and value do not fit {} and {} heads: got {}, {} and {}", heads_ * group_, heads_, query,
              n.info(1), n.info(2));
    inner_ = query.dataType() == DataType::DOUBLE ? DataType::DOUBLE : DataType::FLOAT;
  }

  void import() {
    const Shape shape = {batch_, heads_, keySize_, valueSize_};
    const Value past = to_.optionalInput(3);
    if (past.valid()) n_.require(past.shape() == shape, "past_state: got {}, expected shape {}", past.info(), shape);
    LoopWriter loop(to_, "steps", steps_);
    Value state = loop.carry(past.valid() ? past.cast(inner_) : to_.zeros(inner_, shape));
    const auto row = [&](int input, const Shape &one) {
      return loop.bring(steps(input, one)).gather(loop.iteration(), 0);
    };
    const Value key = row(1, {heads_, keySize_, 1});
    Value value = row(2, {heads_, 1, valueSize_});
    if (gated_) {
      const bool perHead = n_.info(kDecay).shape()[2] == heads_;
      n_.require(perHead || n_.info(kDecay).shape()[2] == heads_ * keySize_,
                 "decay must have one number per head or per head and key element: got {}", n_.info(kDecay));
      state = state * row(kDecay, {heads_, perHead ? 1 : keySize_, 1}).op("Exp");
    }
    if (delta_) {
      const int64_t rates = n_.info(kBeta).shape()[2];
      n_.require(rates == heads_ || rates == 1, "beta must have one number or one per head: got {}", n_.info(kBeta));
      value = row(kBeta, {rates, 1, 1}) * (value - matmul(key.reshape({batch_, heads_, 1, keySize_}), state));
    }
    state = state + key * value;
    const Value out = matmul(row(0, {heads_, group_, keySize_}), state);
    const std::vector<Value> results = loop.run({state}, {out});
    const double given = n_.attr("scale", 0.0f), scale = given == 0 ? 1 / std::sqrt(keySize_) : given;
    const DataType type = n_.info(0).dataType();
    to_.result(0, (results[1] * scale)
                      .transpose({1, 0, 2, 3, 4})
                      .reshape({batch_, steps_, heads_ * group_ * valueSize_})
                      .cast(type));
    to_.result(1, results[0].cast(past.valid() ? past.type() : type));
  }

 private:
  static constexpr int kDecay = 4, kBeta = 5;

  int64_t count(const char *attribute) const {
    const auto heads = n_.attr<int64_t>(attribute, 0);
    n_.require(heads > 0, "attribute {} must be greater than 0: got {}", attribute, heads);
    return heads;
  }

  // (steps, batch, one…).
  Value steps(int input, const Shape &one) {
    Shape shape = {batch_, steps_};
    shape.insert(shape.end(), one.begin(), one.end());
    Ints order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[0], order[1]);
    return to_.input(input).cast(inner_).reshape(shape).transpose(order);
  }

  NodeContext &n_;
  Composer to_;
  int64_t heads_, group_, batch_, steps_, keySize_, valueSize_;
  bool gated_, delta_;
  DataType inner_;
};

void importLinearAttention(NodeContext &n) { LinearAttentionNode(n).import(); }

// A separate convolution for each channel, over the last positions of the previous call and those of this call.
void importCausalConvWithState(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0), weight = to.input(1);
  n.require(x.rank() == 3 && weight.rank() == 3 && weight.dim(0) == x.dim(1) && weight.dim(1) == 1 && weight.dim(2) > 0,
            "input must be (batch, channels, length) and weight (channels, 1, k): got {} and {}", x.info(),
            weight.info());
  const std::string activation = n.attr<std::string>("activation", "none");
  n.require(activation == "none" || activation == "silu" || activation == "swish",
            "attribute activation: got '{}', expected none, silu or swish", activation);
  const int64_t before = weight.dim(2) - 1;
  const Shape state = {x.dim(0), x.dim(1), before};
  if (n.hasIn(3)) n.require(n.info(3).shape() == state, "past_state: got {}, expected shape {}", n.info(3), state);
  const Value past = n.hasIn(3) ? to.input(3) : to.zeros(x.type(), state);
  const Value padded = before == 0 ? x : concat({past, x}, 2);
  std::vector<Value> operands = {weight};
  if (n.hasIn(2)) operands.push_back(to.input(2));
  const Value y = padded.op("Conv", operands, {{"group", x.dim(1)}});
  to.result(0, activation == "none" ? y : y.op("Swish"));
  if (n.hasOut(1)) to.result(1, before == 0 ? past : padded.slice(2, x.dim(2), padded.dim(2)));
}

}  // namespace

std::vector<ImportRule> transformerRules() {
  return {{"ai.onnx", "RotaryEmbedding", importRotaryEmbedding},
          {"ai.onnx", "SwiGLU", importSwiGlu},
          {"ai.onnx", "TensorScatter", importTensorScatter},
          {"ai.onnx", "LinearAttention", importLinearAttention},
          {"ai.onnx", "CausalConvWithState", importCausalConvWithState}};
}

}  // namespace popart::onnx
