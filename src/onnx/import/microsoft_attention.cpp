// Attention, MultiHeadAttention and RotaryEmbedding of com.microsoft; see microsoft_attention.hpp.
#include "onnx/import/microsoft_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <popart/error.hpp>

namespace popart::onnx::microsoft {

int64_t headCount(const NodeContext &n, const char *attribute) {
  const auto heads = n.attr<int64_t>(attribute, 0);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  n.require(heads > 0 && heads <= kMost, "attribute {}: got {}, expected 1 to {}", attribute, heads, kMost);
  return heads;
}

double attentionScale(const NodeContext &n, int64_t size) {
  const double given = n.attr("scale", 0.0f);
  return given == 0 ? 1 / std::sqrt(static_cast<double>(size)) : given;
}

Value toHeads(const Value &x, int64_t heads) {
  const NodeContext &n = x.composer().node();
  n.require(x.rank() == 3 && x.dim(2) % heads == 0,
            "expected (batch, length, size) whose size is a multiple of {} heads: got {}", heads, x.info());
  return x.reshape({x.dim(0), x.dim(1), heads, x.dim(2) / heads}).transpose({0, 2, 1, 3});
}

Value fromHeads(const Value &y) { return y.transpose({0, 2, 1, 3}).reshape({y.dim(0), y.dim(2), y.dim(1) * y.dim(3)}); }

MaskedAttention::MaskedAttention(NodeContext &n, Composer &to, const Heads &heads, int64_t before)
    : n_(n), to_(to), heads_(heads), before_(before) {
  heads_.check(n);
  scores_ = heads_.scores();
}

void MaskedAttention::add(const Value &bias) {
  if (!bias.valid()) return;
  n_.require(npBroadcastable(bias.shape(), scores_.shape()) && npOut(bias.shape(), scores_.shape()) == scores_.shape(),
             "a tensor that is added to the scores must broadcast to them: got {} for {}", bias.info(), scores_.info());
  const Value typed = bias.cast(scores_.type());
  bias_ = bias_.valid() ? bias_ + typed : typed;
}

Value MaskedAttention::visible(const Value &mask) const {
  const int64_t batch = scores_.dim(0), queries = scores_.dim(2), keys = scores_.dim(3);
  const auto fail = [&] { n_.fail("the mask does not fit scores of shape {}: got {}", scores_.shape(), mask.info()); };
  if (mask.rank() == 1) {
    const int64_t count = mask.dim(0);
    if (count != batch && count != 2 * batch && count != 3 * batch + 2) fail();
    const Value key = to_.countUp(keys), all = mask.cast(DataType::INT64);
    const auto numbers = [&](int64_t from) { return all.slice(0, from, from + batch).reshape({batch, 1, 1, 1}); };
    const Value below = key.op("Less", {numbers(0)});
    return count == 2 * batch ? below.op("And", {key.op("GreaterOrEqual", {numbers(batch)})}) : below;
  }
  const Value seen = mask.op("Greater", {mask.number(0)});
  if (mask.shape() == Shape{batch, keys}) return seen.reshape({batch, 1, 1, keys});
  if (mask.shape() == Shape{batch, queries, keys}) return seen.reshape({batch, 1, queries, keys});
  const bool isSquare = mask.rank() == 4 && mask.dim(0) == batch && mask.dim(1) == 1;
  if (!isSquare || mask.dim(2) < before_ + queries || mask.dim(3) < keys) fail();
  return seen.slice(2, before_, before_ + queries).slice(3, 0, keys);
}

void MaskedAttention::addPadding(const Value &mask) {
  if (!mask.valid()) return;
  const Value zero = scores_.number(0);
  add(where(visible(mask), zero, scores_.number(n_.attr("mask_filter_value", -10000.0f))));
}

void MaskedAttention::addCausal() {
  const int64_t queries = scores_.dim(2), keys = scores_.dim(3);
  const Value own = to_.countUp(queries).reshape({queries, 1}) + static_cast<double>(before_);
  add(where(own.op("GreaterOrEqual", {to_.countUp(keys)}), scores_.number(0),
            scores_.number(-std::numeric_limits<double>::infinity())));
}

Value MaskedAttention::run() {
  const Value masked = bias_.valid() ? scores_ + bias_ : scores_;
  return fromHeads(heads_.weighted(masked.op("Softmax", {}, {{"axis", int64_t{3}}})));
}

void importProjected(NodeContext &n, Composer &to, const Value &qkv, const std::vector<int64_t> &sizes, int mask,
                     int past, const Value &bias) {
  n.require(n.attr<int64_t>("do_rotary", 0) == 0,
            "attribute do_rotary asks for angles that the file does not hold. Save the model with RotaryEmbedding");
  n.require(
      n.attr<int64_t>("past_present_share_buffer", 0) == 0,
      "attribute past_present_share_buffer: the past is a buffer that is written into. Save the model without it");
  const int64_t heads = headCount(n);
  const std::vector<Value> parts = qkv.split(2, sizes);
  Heads all{toHeads(parts[0], heads), toHeads(parts[1], heads), toHeads(parts[2], heads), 0};
  int64_t before = 0;
  const auto stacked = [](const Value &x) { return x.reshape({1, x.dim(0), x.dim(1), x.dim(2), x.dim(3)}); };
  if (const Value state = to.optionalInput(past); state.valid()) {
    n.require(state.rank() == 5 && state.dim(0) == 2 && sizes[1] == sizes[2] && state.dim(1) == all.key.dim(0) &&
                  state.dim(2) == heads && state.dim(4) == all.key.dim(3),
              "past must be (2, batch, heads, length, size) and K and V of one size: got {}", state.info());
    before = state.dim(3);
    const auto half = [&](int64_t i) {
      return state.slice(0, i, i + 1).reshape({state.dim(1), heads, before, state.dim(4)});
    };
    all.key = concat({half(0), all.key}, 2), all.value = concat({half(1), all.value}, 2);
  }
  if (n.hasOut(1)) to.result(1, concat({stacked(all.key), stacked(all.value)}, 0));
  all.scale = attentionScale(n, all.query.dim(3));
  MaskedAttention attention(n, to, all, before);
  if (n.attr<int64_t>("unidirectional", 0) != 0) attention.addCausal();
  attention.addPadding(to.optionalInput(mask));
  attention.add(bias);
  to.result(0, attention.run());
}

namespace {

// Q, K and V are computed by one product.
void importAttention(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0), weight = to.input(1), bias = to.optionalInput(2);
  n.require(x.rank() == 3 && weight.rank() == 2 && weight.dim(0) == x.dim(2),
            "expected input (batch, length, size) and weights (size, sizes of Q, K and V): got {} and {}", x.info(),
            weight.info());
  const int64_t all = weight.dim(1);
  const std::vector<int64_t> sizes = n.attr("qkv_hidden_sizes", std::vector<int64_t>{all / 3, all / 3, all / 3});
  n.require(sizes.size() == 3 && sizes[0] == sizes[1] && sizes[0] >= 0 && sizes[0] <= all && sizes[2] >= 0 &&
                sizes[2] <= all && sizes[0] + sizes[1] + sizes[2] == all,
            "attribute qkv_hidden_sizes must hold the sizes of Q, K and V, the first two equal: got {} for {}", sizes,
            weight.info());
  const Value product = matmul(x, weight);
  importProjected(n, to, bias.valid() ? product + bias : product, sizes, 3, 4, to.optionalInput(5));
}

// Q, K and V are separate, or packed: (batch, length, heads, 3, size), or Q and (batch, length, heads, 2, size).
class MultiHead {
 public:
  explicit MultiHead(NodeContext &n) : n_(n), to_(n), heads_(headCount(n)) {}

  void import() {
    n_.require(!n_.hasIn(kPastLength) && !n_.hasIn(kIndirection),
               "past_sequence_length and cache_indirection belong to a buffer that is written into. Save the model "
               "with a past that grows");
    readHeads();
    if (n_.hasIn(kBias)) addBias(to_.input(kBias));
    n_.require(n_.hasIn(kPastKey) == n_.hasIn(kPastValue), "past_key and past_value come together: got one of them");
    int64_t before = 0;
    if (n_.hasIn(kPastKey)) {
      before = to_.input(kPastKey).dim(2);
      all_.key = concat({to_.input(kPastKey), all_.key}, 2);
      all_.value = concat({to_.input(kPastValue), all_.value}, 2);
    }
    if (n_.hasOut(1)) to_.result(1, all_.key);
    if (n_.hasOut(2)) to_.result(2, all_.value);
    all_.scale = attentionScale(n_, all_.query.dim(3));
    MaskedAttention attention(n_, to_, all_, before);
    if (n_.attr<int64_t>("unidirectional", 0) != 0) attention.addCausal();
    attention.addPadding(to_.optionalInput(kMask));
    attention.add(to_.optionalInput(kAdded));
    if (n_.hasOut(3)) to_.result(3, attention.scores());
    to_.result(0, attention.run());
  }

 private:
  static constexpr int kBias = 3, kMask = 4, kAdded = 5, kPastKey = 6, kPastValue = 7, kPastLength = 8,
                       kIndirection = 9;

  // Parts of (batch, length, heads, parts, size), each (batch, heads, length, size).
  std::vector<Value> unpacked(const Value &x, int64_t parts) {
    n_.require(x.rank() == 5 && x.dim(2) == heads_ && x.dim(3) == parts,
               "packed values must be (batch, length, {} heads, {}, size): got {}", heads_, parts, x.info());
    std::vector<Value> result;
    for (const Value &part : x.split(3, std::vector<int64_t>(static_cast<size_t>(parts), 1)))
      result.push_back(part.reshape({x.dim(0), x.dim(1), heads_, x.dim(4)}).transpose({0, 2, 1, 3}));
    return result;
  }

  void readHeads() {
    const Value query = to_.input(0);
    if (!n_.hasIn(1)) {
      const std::vector<Value> parts = unpacked(query, 3);
      all_ = {parts[0], parts[1], parts[2], 0};
      return;
    }
    const Value key = to_.input(1);
    all_.query = toHeads(query, heads_);
    if (!n_.hasIn(2)) {
      const std::vector<Value> parts = unpacked(key, 2);
      all_.key = parts[0], all_.value = parts[1];
      return;
    }
    isApart_ = key.rank() == 4;
    all_.key = isApart_ ? key : toHeads(key, heads_);
    all_.value = isApart_ ? to_.input(2) : toHeads(to_.input(2), heads_);
  }

  // Keys and values that are already divided into heads include their bias.
  void addBias(const Value &bias) {
    const auto size = [&](const Value &x) { return heads_ * x.dim(3); };
    const int64_t q = size(all_.query), k = size(all_.key), v = size(all_.value);
    n_.require(bias.shape() == Shape{q + k + v}, "bias: got {}, expected shape {}", bias.info(), Shape{q + k + v});
    const auto add = [&](Value &x, int64_t from) {
      const int64_t count = size(x);
      x = x + bias.slice(0, from, from + count).reshape({heads_, 1, count / heads_});
    };
    add(all_.query, 0);
    if (isApart_) return;
    add(all_.key, q);
    add(all_.value, q + k);
  }

  NodeContext &n_;
  Composer to_;
  int64_t heads_;
  Heads all_{};
  bool isApart_ = false;
};

void importMultiHeadAttention(NodeContext &n) { MultiHead(n).import(); }

constexpr int64_t kRotaryVersion = 23;

// The attributes of ai.onnx' RotaryEmbedding, for x and a table of angles for each position.
Attributes rotaryAttributes(const NodeContext &n, const Value &x, const Value &table) {
  n.require(x.rank() == 3 || x.rank() == 4,
            "the input must be (batch, length, size) or (batch, heads, length, size): got {}", x.info());
  n.require(n.attr<int64_t>("is_packed_batching", 0) == 0,
            "attribute is_packed_batching: batches without padding are not read. Save the model with padding");
  const int64_t turned = 2 * table.dim(-1);
  int64_t heads = n.attr<int64_t>("num_heads", 0);
  const int64_t given = n.attr<int64_t>("rotary_embedding_dim", 0);
  n.require(given == 0 || (given == turned && (heads > 0 || x.rank() == 4)),
            "attribute rotary_embedding_dim must be twice the angles of a position, and come with num_heads: got {}, "
            "expected {}",
            given, turned);
  if (given == 0 && x.rank() == 3) {
    n.require(turned > 0 && x.dim(2) % turned == 0, "heads of {} elements do not divide the input: got {}", turned,
              x.info());
    heads = x.dim(2) / turned;
  }
  return {{"num_heads", heads}, {"rotary_embedding_dim", turned}, {"interleaved", n.attr<int64_t>("interleaved", 0)}};
}

// Positions: one for each element of the sequence, or only the first one.
void importRotary(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0), positions = to.input(1).cast(DataType::INT64), cosine = to.input(2);
  const Attributes attributes = rotaryAttributes(n, x, cosine);
  const int64_t batch = x.dim(0), length = x.dim(-2);
  const bool isFirst = positions.info().nelms() == 1 && batch * length != 1;
  n.require(isFirst || positions.info().nelms() == batch * length,
            "position_ids must be (1) or (batch, length): got {} for {}", positions.info(), x.info());
  const Value all = isFirst ? (to.countUp(length) + positions.reshape({})).expand({batch, length})
                            : positions.reshape({batch, length});
  to.result(0, to.node({"RotaryEmbedding", kRotaryVersion}, {x, cosine, to.input(3), all}, attributes));
}

// The one of the three positions (time, height, width) that each angle belongs to: in three parts, or in turn.
std::vector<int64_t> angleStreams(const NodeContext &n, int64_t angles) {
  const auto parts = n.attr<std::vector<int64_t>>("mrope_section", {});
  n.require(parts.size() == 3 && std::ranges::all_of(parts, [&](int64_t p) { return p >= 0 && p <= angles; }) &&
                parts[0] + parts[1] + parts[2] == angles,
            "attribute mrope_section must be three numbers whose sum is {}: got {}", angles, parts);
  const auto layout = n.attr<int64_t>("mrope_layout", 0);
  n.require(layout == 0 || layout == 1, "attribute mrope_layout: got {}, expected 0 or 1", layout);
  std::vector<int64_t> streams;
  for (int64_t i = 0; i < angles; ++i) {
    const int64_t turn = i % 3;
    if (layout == 0)
      streams.push_back(i < parts[0] ? 0 : i < parts[0] + parts[1] ? 1 : 2);
    else
      streams.push_back(turn != 0 && i < 3 * parts[static_cast<size_t>(turn)] ? turn : 0);
  }
  return streams;
}

// Positions (3, batch, length), each for some of the angles.
void importMultimodalRotary(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0), positions = to.input(1).cast(DataType::INT64);
  const Attributes attributes = rotaryAttributes(n, x, to.input(2));
  n.require(positions.info().shape() == Shape{3, x.dim(0), x.dim(-2)},
            "position_ids must be (3, batch, length): got {} for {}", positions.info(), x.info());
  const std::vector<int64_t> streams = angleStreams(n, to.input(2).dim(-1));
  const auto chosen = [&](const Value &table) {
    const Value all = table.gather(positions, 0);  // (3, batch, length, angles)
    std::vector<Value> parts;
    const auto size = static_cast<int64_t>(streams.size());
    for (int64_t start = 0, end = 0; start < size; start = end) {
      const int64_t stream = streams[static_cast<size_t>(start)];
      for (end = start; end < size && streams[static_cast<size_t>(end)] == stream;) ++end;
      parts.push_back(
          all.slice(0, stream, stream + 1).slice(3, start, end).reshape({x.dim(0), x.dim(-2), end - start}));
    }
    return concat(parts, 2);
  };
  to.result(0, to.node({"RotaryEmbedding", kRotaryVersion}, {x, chosen(to.input(2)), chosen(to.input(3))}, attributes));
}

// emb: angles (batch, length, size). Two results: x cos(emb) + rotated x sin(emb) of queries and keys.
void importGemmaRotary(NodeContext &n) {
  Composer to(n);
  const Value angles = to.input(0);
  n.require(angles.rank() == 3, "emb must be (batch, length, size): got {}", angles.info());
  const Shape wide = {angles.dim(0), 1, angles.dim(1), angles.dim(2)};
  const Value cosine = angles.op("Cos").reshape(wide), sine = angles.op("Sin").reshape(wide);
  for (int i : {0, 1}) {
    const Value x = to.input(1 + 2 * i), rotated = to.input(2 + 2 * i);
    to.result(i, x * cosine.cast(x.type()) + rotated * sine.cast(x.type()));
  }
}

}  // namespace

std::vector<ImportRule> attentionRules() {
  return {
      {kDomain,
       "Attention",
       importAttention,
       {"input weights bias mask_index past attention_bias past_sequence_length", "output present",
        "do_rotary mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes rotary_embedding_dim scale "
        "unidirectional"}},
      {kDomain,
       "MultiHeadAttention",
       importMultiHeadAttention,
       {"query key value bias key_padding_mask attention_bias past_key past_value past_sequence_length "
        "cache_indirection",
        "output present_key present_value qk", "mask_filter_value num_heads scale unidirectional"}},
      {kDomain,
       "RotaryEmbedding",
       importRotary,
       {"input position_ids cos_cache sin_cache", "output",
        "interleaved is_packed_batching num_heads rotary_embedding_dim scale"}},
      {kDomain,
       "MRotaryEmbedding",
       importMultimodalRotary,
       {"input position_ids cos_cache sin_cache", "output",
        "interleaved is_packed_batching mrope_layout mrope_section num_heads rotary_embedding_dim scale"}},
      {kDomain, "GemmaRotaryEmbedding", importGemmaRotary, {"emb q q_rot k k_rot", "output1 output2"}},
  };
}

}  // namespace popart::onnx::microsoft
