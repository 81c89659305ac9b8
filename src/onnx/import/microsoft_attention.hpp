// Attention of com.microsoft: the heads, masks and caches of its operators.
#pragma once
#include "onnx/import/attention.hpp"
#include "onnx/import/microsoft.hpp"

namespace popart::onnx::microsoft {

// (batch, length, heads * size) as (batch, heads, length, size). Throws popart::error if `heads` does not divide it.
Value toHeads(const Value &x, int64_t heads);
// The reverse.
Value fromHeads(const Value &y);

// One attention: its heads, and the terms that are added to the scores.
class MaskedAttention {
 public:
  // `before`: the number of keys in the cache before the key of the first query.
  MaskedAttention(NodeContext &n, Composer &to, const Heads &heads, int64_t before);

  // Adds a term that broadcasts to the scores; absent values add nothing.
  void add(const Value &bias);
  // `mask`, INT32: (batch, keys), (batch, queries, keys) or (batch, 1, most, most) with 0 for masked keys; (batch) or
  // (3 batch + 2), with lengths as first numbers; (2 batch): ends, then starts of the keys that are used. Adds the
  // attribute mask_filter_value (default -10000) to masked scores.
  void addPadding(const Value &mask);
  // Query i uses keys up to its own, before + i.
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

// Attribute num_heads; throws popart::error for an invalid number.
int64_t headCount(const NodeContext &n, const char *attribute = "num_heads");
// Attribute scale; 1 / sqrt(size) if it is 0 or absent.
double attentionScale(const NodeContext &n, int64_t size);

// Attention from its projection `qkv` (batch, length, sizes of Q, K and V). Inputs `mask` and `past` (2, batch, heads,
// length, size) of the node may be absent, and so may `bias`; output 1 is the present. Throws popart::error if shapes
// do not match.
void importProjected(NodeContext &n, Composer &to, const Value &qkv, const std::vector<int64_t> &sizes, int mask,
                     int past, const Value &bias);

}  // namespace popart::onnx::microsoft
