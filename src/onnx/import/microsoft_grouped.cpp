// GroupQueryAttention of com.microsoft: heads that share keys, a cache of keys and values, rotary positions.
//
// Sample b has seqlens_k[b] + 1 keys in total. The last `length` of them come from this call (in a prompt, where
// total_sequence_length is `length`, all of them); the others come from the first rows of the cache. The result has a
// separate cache tensor: rows of the past, then this call's rows, and after them the old content.
#include <limits>

#include <popart/error.hpp>

#include "onnx/import/microsoft_attention.hpp"

namespace popart::onnx::microsoft {
namespace {

class GroupedAttention {
 public:
  explicit GroupedAttention(NodeContext &n)
      : n_(n), to_(n), heads_(headCount(n)), kvHeads_(headCount(n, "kv_num_heads")) {}

  void import() {
    requirePlainCache();
    readHeads();
    batch_ = all_.query.dim(0), length_ = all_.query.dim(2);
    total_ = n_.constantInt(kTotal);
    capacity_ = n_.hasIn(kPastKey) ? to_.input(kPastKey).dim(2) : 0;
    n_.require(n_.hasIn(kPastKey) == n_.hasIn(kPastValue), "past_key and past_value come together: got one of them");
    n_.require(total_ >= length_ && total_ <= capacity_ + length_,
               "total_sequence_length: got {}, expected {} to {}, which the past and this call's keys are", total_,
               length_, capacity_ + length_);
    findStarts();
    normalise();
    rotate();
    const Value key = cached(kPastKey, all_.key), value = cached(kPastValue, all_.value);
    if (n_.hasOut(1)) to_.result(1, key);
    if (n_.hasOut(2)) to_.result(2, value);
    all_.key = key.slice(2, 0, total_), all_.value = value.slice(2, 0, total_);
    attend();
  }

 private:
  static constexpr int kPastKey = 3, kPastValue = 4, kLengths = 5, kTotal = 6, kCosine = 7, kSine = 8, kPositions = 9,
                       kAdded = 10, kSink = 11, kKeyScale = 12, kValueScale = 13, kQueryNorm = 14, kKeyNorm = 15;

  void requirePlainCache() const {
    for (const char *name : {"k_quant_type", "v_quant_type"})
      n_.require(n_.attr<std::string>(name, "NONE") == "NONE",
                 "attribute {}: caches of integers are not read. Save the model with a cache of floats", name);
    n_.require(!n_.hasIn(kKeyScale) && !n_.hasIn(kValueScale),
               "k_scale and v_scale belong to caches of integers, which are not read. Save the model with floats");
    n_.require(n_.attr<int64_t>("sliding_window_cache", 0) == 0,
               "attribute sliding_window_cache: caches that forget are not read. Save the model with a whole cache");
  }

  // Q, K and V, or only the first, which then has all heads.
  void readHeads() {
    const Value query = to_.input(0);
    if (n_.hasIn(1)) {
      all_ = {toHeads(query, heads_), toHeads(to_.input(1), kvHeads_), toHeads(to_.input(2), kvHeads_), 0};
      return;
    }
    const Value packed = toHeads(query, heads_ + 2 * kvHeads_);
    const std::vector<Value> parts = packed.split(1, {heads_, kvHeads_, kvHeads_});
    all_ = {parts[0], parts[1], parts[2], 0};
  }

  // Where this call's keys begin: one number for all samples if it is known, otherwise one for each.
  void findStarts() {
    if (total_ == length_) {
      start_ = 0;
      return;
    }
    n_.require(n_.info(kLengths).nelms() == batch_, "seqlens_k must have one number for each of {} samples: got {}",
               batch_, n_.info(kLengths));
    if (const TensorData *known = n_.knownValue(kLengths); known != nullptr && batch_ > 0) {
      const std::vector<int64_t> lengths = known->asInts();
      if (std::ranges::all_of(lengths, [&](int64_t v) { return v == lengths.front(); })) {
        const int64_t least = length_ - 1, most = capacity_ + length_ - 1;
        n_.require(lengths.front() >= least && lengths.front() <= most, "seqlens_k: got {}, expected {} to {}",
                   lengths.front(), least, most);
        start_ = lengths.front() + 1 - length_;
        return;
      }
    }
    start_ = -1;
    starts_ = to_.input(kLengths).cast(DataType::INT64).reshape({batch_, 1}) + static_cast<double>(1 - length_);
  }
  bool isKnown() const { return start_ >= 0; }

  // Scales each head to a root mean square of 1.
  void normalise() {
    n_.require(n_.hasIn(kQueryNorm) == n_.hasIn(kKeyNorm), "q_norm_weight and k_norm_weight come together: got one");
    if (!n_.hasIn(kQueryNorm)) return;
    const Attributes attributes = {{"axis", int64_t{-1}}, {"epsilon", n_.attr("qk_norm_epsilon", 1e-6f)}};
    all_.query = all_.query.op("RMSNormalization", {to_.input(kQueryNorm)}, attributes);
    all_.key = all_.key.op("RMSNormalization", {to_.input(kKeyNorm)}, attributes);
  }

  void rotate() {
    if (n_.attr<int64_t>("do_rotary", 0) == 0) return;
    const Value cosine = to_.input(kCosine), sine = to_.input(kSine), step = to_.countUp(length_);
    const Shape shape = {batch_, length_};
    Value positions = isKnown() ? (step + static_cast<double>(start_)).expand(shape) : starts_ + step;
    if (const Value given = to_.optionalInput(kPositions); given.valid() && given.info().nelms() == batch_ * length_)
      positions = given.cast(DataType::INT64).reshape(shape);
    constexpr int64_t kVersion = 23;
    const Attributes attributes = {{"rotary_embedding_dim", 2 * cosine.dim(-1)},
                                   {"interleaved", n_.attr<int64_t>("rotary_interleaved", 0)}};
    for (Value *x : {&all_.query, &all_.key})
      *x = to_.node({"RotaryEmbedding", kVersion}, {*x, cosine, sine, positions}, attributes);
  }

  // The cache after this call.
  Value cached(int input, const Value &fresh) {
    if (capacity_ == 0) return fresh;
    const Value past = to_.input(input);
    n_.require(past.type() == fresh.type() && past.shape() == Shape{batch_, kvHeads_, capacity_, fresh.dim(3)},
               "the cache must be (batch, heads, length, size) of the keys' type: got {} for {}", past.info(),
               fresh.info());
    if (isKnown()) {
      std::vector<Value> parts;
      if (start_ > 0) parts.push_back(past.slice(2, 0, start_));
      parts.push_back(fresh);
      if (start_ + length_ < capacity_) parts.push_back(past.slice(2, start_ + length_, capacity_));
      return concat(parts, 2);
    }
    const int64_t size = std::max(capacity_, total_), rows = capacity_ + length_;
    const Value place = to_.countUp(size), distance = place - starts_;
    const Value isNew = distance.op("GreaterOrEqual", {distance.number(0)})
                            .op("And", {distance.op("Less", {distance.number(static_cast<double>(length_))})});
    const Value source = where(isNew, distance + static_cast<double>(capacity_), place);
    const Value first = (to_.countUp(batch_) * static_cast<double>(rows)).reshape({batch_, 1});
    const Value table =
        concat({past, fresh}, 2).transpose({0, 2, 1, 3}).reshape({batch_ * rows, kvHeads_, fresh.dim(3)});
    return table.gather(source + first, 0).transpose({0, 2, 1, 3});
  }

  // Query i of a sample uses the keys up to its own; on request only the last ones of them.
  Value windowBias() {
    const auto window = n_.attr<int64_t>("local_window_size", -1);
    const Value query = to_.countUp(length_).reshape({length_, 1}), key = to_.countUp(total_);
    const Value distance =
        isKnown() ? query - key + static_cast<double>(start_) : query - key + starts_.reshape({batch_, 1, 1, 1});
    Value seen = distance.op("GreaterOrEqual", {distance.number(0)});
    if (window > 0) seen = seen.op("And", {distance.op("Less", {distance.number(static_cast<double>(window))})});
    const Value zero = all_.query.number(0);
    return where(seen, zero, zero.number(-std::numeric_limits<double>::infinity()));
  }

  // In a prompt without causal masks, keys after a sample's last one are padding.
  Value paddingBias() {
    const Value lengths = to_.input(kLengths).cast(DataType::INT64).reshape({batch_, 1, 1, 1});
    const Value zero = all_.query.number(0);
    return where(to_.countUp(total_).op("LessOrEqual", {lengths}), zero,
                 zero.number(-std::numeric_limits<double>::infinity()));
  }

  void attend() {
    all_.check(n_);
    all_.scale = attentionScale(n_, all_.query.dim(3));
    const double cap = n_.attr("softcap", 0.0f);
    const bool isCausal = n_.attr<int64_t>("causal", 1) != 0;
    Value scores = all_.scores();
    if (cap > 0) scores = tanh(scores / cap) * cap;
    if (n_.hasIn(kAdded)) scores = scores + to_.input(kAdded).slice(3, 0, total_);
    scores = scores + (isCausal ? windowBias() : paddingBias());
    const auto wanted = n_.attr<int64_t>("qk_output", 0);
    if (n_.hasOut(3) && wanted == 1) to_.result(3, scores);
    const Value probabilities = softmaxWithSink(scores);
    if (n_.hasOut(3) && wanted == 2) to_.result(3, probabilities);
    n_.require(!n_.hasOut(3) || wanted == 1 || wanted == 2,
               "attribute qk_output: got {}, expected 1 or 2 where output 3 is named", wanted);
    to_.result(0, fromHeads(all_.weighted(probabilities)));
  }

  // Softmax with an additional score for each head that has no value: from head_sink, or 0.
  Value softmaxWithSink(const Value &scores) {
    const Attributes last = {{"axis", int64_t{3}}};
    const Value sink = to_.optionalInput(kSink);
    if (!sink.valid() && n_.attr<int64_t>("smooth_softmax", -1) != 1) return scores.op("Softmax", {}, last);
    n_.require(!sink.valid() || sink.shape() == Shape{heads_}, "head_sink must have one number for each head: got {}",
               sink.valid() ? sink.info() : scores.info());
    const Value column =
        (sink.valid() ? sink.reshape({1, heads_, 1, 1}) : scores.number(0)).expand({batch_, heads_, length_, 1});
    return concat({scores, column}, 3).op("Softmax", {}, last).slice(3, 0, total_);
  }

  NodeContext &n_;
  Composer to_;
  int64_t heads_, kvHeads_, batch_ = 0, length_ = 0, total_ = 0, capacity_ = 0, start_ = 0;
  Value starts_;
  Heads all_{};
};

void importGroupQueryAttention(NodeContext &n) { GroupedAttention(n).import(); }

}  // namespace

std::vector<ImportRule> groupedRules() {
  return {{kDomain,
           "GroupQueryAttention",
           importGroupQueryAttention,
           {"query key value past_key past_value seqlens_k total_sequence_length cos_cache sin_cache position_ids "
            "attention_bias head_sink k_scale v_scale q_norm_weight k_norm_weight",
            "output present_key present_value output_qk",
            "causal do_rotary k_quant_type kv_cache_bit_width kv_num_heads local_window_size num_heads qk_norm_epsilon "
            "qk_output rotary_interleaved scale sliding_window_cache smooth_softmax softcap v_quant_type"}}};
}

}  // namespace popart::onnx::microsoft
