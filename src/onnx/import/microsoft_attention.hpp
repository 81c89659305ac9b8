// Attention of com.microsoft: heads, masks and caches as its operators have them.
#pragma once
#include "onnx/import/attention.hpp"
#include "onnx/import/microsoft.hpp"

namespace popart::onnx::microsoft {

// (batch, length, heads * size) as (batch, heads, length, size). Throws popart::error where `heads` do not divide it.
Value toHeads(const Value &x, int64_t heads);
// The other way round.
Value fromHeads(const Value &y);

// One attention: its heads, and what is added to the scores.
class MaskedAttention {
 public:
  // `before`: keys of the cache in front of the first query's own.
  MaskedAttention(NodeContext &n, Composer &to, const Heads &heads, int64_t before);

  // Added to the scores, which it broadcasts to; absent values add nothing.
  void add(const Value &bias);
  // `mask`, INT32: (batch, keys), (batch, queries, keys) or (batch, 1, most, most) with 0 for keys that are masked;
  // (batch) or (3 batch + 2), whose first numbers are lengths; (2 batch): ends, then starts of what is seen. Adds the
  // attribute mask_filter_value (-10000 unless given) at the others.
  void addPadding(const Value &mask);
  // Query i sees keys up to its own, before + i.
  void addCausal();

  // Scores before the masks.
  const Value &scores() const { return scores_; }
  // (batch, queries, heads * size) of the values.
  Value run();

 private:
  Value visible(const Value &mask) const;

  NodeContext &n_;
  Composer &to_;
  const Heads heads_;
  const int64_t before_;
  Value scores_, bias_;
};

// Attribute num_heads; throws popart::error where it is none.
int64_t headCount(const NodeContext &n, const char *attribute = "num_heads");
// Attribute scale, 1 / sqrt(size) where it is 0 or absent.
double attentionScale(const NodeContext &n, int64_t size);

// Attention from its projection `qkv` (batch, length, sizes of Q, K and V). Inputs `mask` and `past` (2, batch, heads,
// length, size) of the node may be absent, and so may `bias`; output 1 is the present. Throws popart::error where they
// do not fit each other.
void importProjected(NodeContext &n, Composer &to, const Value &qkv, const std::vector<int64_t> &sizes, int mask,
                     int past, const Value &bias);

}  // namespace popart::onnx::microsoft
