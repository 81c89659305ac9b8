// Finding attention in a program by its structure (fuse_attention.cpp).
#pragma once
#include <array>
#include <optional>
#include <vector>

#include <popart/graph.hpp>

namespace popart::lower {

// What a product reads: a tensor, the order in which its dimensions are read, a factor.
struct AttentionOperand {
  TensorIndex tensor;
  std::vector<int64_t> perm;
  float scale = 1.0f;
  // The tensor before further transposes and casts from 16 bits, which several operands may share.
  TensorIndex origin;
  std::vector<int64_t> originPerm;
  // The same values with the last two dimensions exchanged.
  bool isTurned(const AttentionOperand &other) const;
};

struct AttentionMatch {
  AttentionOperand q, k, v;
  const Op *weighted = nullptr;   // the product with v
  TensorIndex product, scores;    // of q and k as the steps see it; what the softmax reads
  float scale = 1.0f;             // of the product, besides those of q and k
  std::vector<const Op *> steps;  // from the one to the other, in order

  struct Gradient {
    AttentionOperand gradOut;
    const Op *ofProbabilities = nullptr;     // the product of the gradient and v
    TensorIndex scores, product;             // gradients of the scores, and of the product as the steps see it
    std::vector<const Op *> steps;           // from the one to the other
    std::array<const Op *, 3> results = {};  // products that give dq, dk and dv; nullptr: not wanted
  };
  std::optional<Gradient> gradient;

  std::vector<OpIndex> forwardOps, backwardOps;  // that the fused ops replace
  std::vector<OpIndex> spare;                    // that may be unread then

  static std::optional<AttentionMatch> find(const Graph &graph, const Op &softmax);
};

// A softmax over the last axis of FLOAT scores.
bool isSoftmaxOfRows(const Op &op);
bool isTransposeOfKnownAxes(const Op &op);
bool isSoftmaxGradient(const Op &op);
// What is looked for between products, in FLOAT: a softmax of any type and axis, or its gradient.
bool mayBeAttention(const Op &op);
// As ops::factorOf, of FLOAT alone: products with 16-bit values round.
std::optional<float> factorOf(const Graph &graph, const Op &op, TensorIndex t);

}  // namespace popart::lower
