// Attention as products around a softmax, in the form that lowering makes one kernel of
// (docs/decisions/0061-attention-without-scores.md): what the operators of ai.onnx and com.microsoft share.
#pragma once
#include "onnx/compose.hpp"

namespace popart::onnx {

// Everything is (batch, heads, length, size). Where query heads share a head of keys and values, they are rows of one
// product with it, so that no head is copied.
struct Heads {
  Value query, key, value;
  double scale;

  // Throws popart::error where they do not fit each other.
  void check(const NodeContext &n) const;
  // scale Q K^T, (batch, query heads, queries, keys). 16-bit products stay in range: both operands are scaled then.
  Value scores() const;
  // Probabilities (batch, query heads, queries, keys) times V.
  Value weighted(const Value &probabilities) const;

 private:
  // (batch, query heads, length, other size) from and to (batch, heads of keys, rows, other size).
  Value grouped(const Value &x) const;
  Value ungrouped(const Value &x) const;
};

}  // namespace popart::onnx
