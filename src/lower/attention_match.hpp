// Finds attention in a program by its structure (for fuse_attention.cpp).
#pragma once
#include <array>
#include <optional>
#include <vector>

#include <popart/graph.hpp>

namespace popart::lower {

// An operand of a product: a tensor, the order in which its dimensions are read, a factor.
struct AttentionOperand {
  TensorIndex tensor;
  std::vector<int64_t> perm;
  float scale = 1.0f;
  // The tensor before further transposes and casts from 16 bits, which several operands may share.
  TensorIndex origin;
  std::vector<int64_t> originPerm;
  // Whether both have the same values, with the last two dimensions exchanged.
  bool isTransposed(const AttentionOperand &other) const;
};

struct AttentionMatch {
  AttentionOperand q, k, v;
  const Op *weighted = nullptr;   // the product with v
  TensorIndex product, scores;    // the product of q and k that the steps read; the operand of the softmax
  float scale = 1.0f;             // factor of the product, in addition to those of q and k
  std::vector<const Op *> steps;  // from `product` to `scores`, in order

  struct Gradient {
    AttentionOperand gradOut;
    const Op *ofProbabilities = nullptr;     // the product of the gradient and v
    TensorIndex scores, product;             // gradients of the scores, and of the product that the steps read
    std::vector<const Op *> steps;           // from `scores` to `product`
    std::array<const Op *, 3> results = {};  // products that compute dq, dk and dv; nullptr: not computed
  };
  std::optional<Gradient> gradient;

  std::vector<OpIndex> forwardOps, backwardOps;  // ops that the fused ops replace
  std::vector<OpIndex> spare;                    // ops that may be unused afterwards

  static std::optional<AttentionMatch> find(const Graph &graph, const Op &softmax);
};

// A softmax over the last axis of FLOAT scores.
bool isSoftmaxOfRows(const Op &op);
bool isTransposeOfKnownAxes(const Op &op);
bool isSoftmaxGradient(const Op &op);
// Whether the op may be part of attention, which is matched in FLOAT: a softmax of any type and axis, or its gradient.
bool mayBeAttention(const Op &op);
// As ops::factorOf, but only for FLOAT, because products with 16-bit values round.
std::optional<float> factorOf(const Graph &graph, const Op &op, TensorIndex t);

}  // namespace popart::lower
