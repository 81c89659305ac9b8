// Rewrite rows and their driver. A row matches one op and changes the graph around it. Rewrites keep every value that
// is anchored or a graph output. Rows are applied in order of priority until none matches.
#pragma once
#include <set>
#include <span>
#include <string>

#include <popart/graph.hpp>
#include <popart/patterns/patterns.hpp>

namespace popart::patterns {

// Functions for rewrites, in addition to those of the graph.
class Rewriter {
 public:
  Rewriter(Graph &graph, const std::set<TensorId> &anchors) : graph_(graph), anchors_(anchors) {}
  Graph &graph() const { return graph_; }
  // The tensor's value must stay available under its id: anchored, a graph output or a graph input.
  bool isKept(TensorIndex t) const;
  // Every use of `t` is by `op`, and its value need not stay.
  bool onlyFeeds(TensorIndex t, const Op &op) const;
  // Removes `op` (one used output), whose output 0 equals its input 0: the two tensors become one, with the id that
  // must stay, otherwise that of the output. Returns false, without a change, if both ids must stay or one tensor is
  // written to.
  bool mergeThrough(Op &op) const;
  // Replaces `op` by a new op: output i of the new one gets the tensor of output i. Returns the new op.
  Op *replaceOp(Op &op, std::string_view type, const std::vector<TensorIndex> &inputs, Attributes attributes) const;

 private:
  Graph &graph_;
  const std::set<TensorId> &anchors_;
};

// True when the graph was changed.
using RewriteFn = bool (*)(Op &op, const Rewriter &rewriter);

struct PatternRow {
  const char *name;
  float priority;  // higher first; ties by name
  bool enabled;    // at level Default
  bool mandatory;
  RewriteFn rewrite;  // null: a decomposition row of the catalog, which lower() applies if a backend has no kernel
  // Types of the ops that are expanded, separated by blanks, if programs may observe the expansion.
  const char *expands = "";
  // PopART has no kernel for these ops: without the pattern, a program with such an op is refused.
  bool needed = false;
  const char *hint = "";  // a hint of those ops, if other ops have the same type (ir/hints.hpp)
};

// Rows in order of priority, including user patterns.
std::vector<PatternRow> allPatterns();

// Applies the enabled patterns to one graph until nothing matches. Returns the number of rewrites.
int applyPatterns(Graph &graph, const Patterns &patterns, const std::set<TensorId> &anchors);

// The same for a graph that a program continues to use: ops of patterns that expand are expanded too, and ops that mark
// a position (Trait::NeverFolded) stay. Returns the number of rewrites.
int applyInPlace(Graph &graph, const Patterns &patterns);

// Throws popart::error for the first op that PopART cannot run without a pattern that is off. Parts of compositions by
// import rules (kComposed), and their gradients, run without patterns.
void requireExpansions(const Ir &ir, const Patterns &patterns);

// Throws popart::error, naming the op and similar names, if an op opts out of an unknown pattern.
void checkExcluded(const Graph &graph, const Patterns &patterns);

// Replaces `op` by the decomposition of its row; its results stay the same tensors.
void expandOp(Graph &graph, Op &op);

// ---- the rewrites (identity.cpp, losses.cpp, arithmetic.cpp, shapes.cpp, gathers.cpp)
bool removeIdentity(Op &op, const Rewriter &rewriter);          // Identity(x), Sum(x) → x
bool replaceByIdentity(Op &op, const Rewriter &rewriter);       // ops that change nothing → Identity
bool fuseSoftmaxGrad(Op &op, const Rewriter &rewriter);         // SoftmaxGrad(NllGrad) → SoftmaxGradDirect
bool fuseNllWithSoftmaxGrad(Op &op, const Rewriter &rewriter);  // Nll, SoftmaxGradDirect → NlllWithSoftmaxGradDirect
bool sumToAdd(Op &op, const Rewriter &rewriter);                // Sum(a, b) → Add(a, b)
bool scaleToNeg(Op &op, const Rewriter &rewriter);              // Scale{-1}(x) → Neg(x)
bool transposeToReshape(Op &op, const Rewriter &rewriter);      // Transpose that moves unit dimensions only → Reshape
bool castBeforeExpand(Op &op, const Rewriter &rewriter);        // Cast(Expand(x)) → Expand(Cast(x))
bool splitToSlices(Op &op, const Rewriter &rewriter);           // Split → one Slice for each piece
bool splitGradToConcat(Op &op, const Rewriter &rewriter);       // SplitGrad → Concat
bool splitGather(Op &op, const Rewriter &rewriter);             // Gather of many positions → pieces, joined
bool sumOfPadsToConcat(Op &op, const Rewriter &rewriter);       // Sum(Pad(a), Pad(b)) → Concat(a, b)
bool sliceToSubsample(Op &op, const Rewriter &rewriter);        // Slice{step k} → Subsample{k}(Slice)
bool normalLikeToShaped(Op &op, const Rewriter &rewriter);      // RandomNormalLike → RandomNormal
bool uniformLikeToShaped(Op &op, const Rewriter &rewriter);     // RandomUniformLike → RandomUniform

// User patterns, in order of registration.
struct UserPattern {
  std::string name;
  std::shared_ptr<const PreAliasPattern> pattern;
  bool enabled, mandatory;
};
const std::vector<UserPattern> &userPatterns();

}  // namespace popart::patterns
