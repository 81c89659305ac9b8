// Attention as products around a softmax, in the form that lowering turns into one kernel
// (docs/decisions/0061-attention-without-scores.md). The operators of ai.onnx and com.microsoft share it.
#pragma once
#include "onnx/compose.hpp"

namespace popart::onnx {

// All tensors are (batch, heads, length, size). If query heads share a head of keys and values, they become rows of one
// product with it, so that no head is copied.
struct Heads {
  Value query, key, value;
  double scale;

  // Throws popart::error if the shapes do not match.
  void check(const NodeContext &n) const;
  // scale Q K^T, (batch, query heads, queries, keys). For 16-bit types both operands are scaled, to keep products in
  // range.
  Value scores() const;
  // Probabilities (batch, query heads, queries, keys) times V.
  Value weighted(const Value &probabilities) const;

 private:
  // Converts (batch, query heads, length, other size) to (batch, heads of keys, rows, other size), and back.
  Value grouped(const Value &x) const;
  Value ungrouped(const Value &x) const;
};

}  // namespace popart::onnx
