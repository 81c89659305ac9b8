// Rewrite rows and their driver. A row looks at one op and, when it matches, changes the graph around it. Rewrites keep
// every value that is anchored or a graph output; rows are applied in order of priority until none matches any more.
#pragma once
#include <set>
#include <span>
#include <string>

#include <popart/graph.hpp>
#include <popart/patterns/patterns.hpp>

namespace popart::patterns {

// What a rewrite may ask and do besides editing the graph.
class Rewriter {
 public:
  Rewriter(Graph &graph, const std::set<TensorId> &anchors) : graph_(graph), anchors_(anchors) {}
  Graph &graph() const { return graph_; }
  // The tensor's value must stay available under its id: anchored, a graph output or a graph input.
  bool isKept(TensorIndex t) const;
  // Every use of `t` is by `op`, and its value need not stay.
  bool onlyFeeds(TensorIndex t, const Op &op) const;
  // Removes `op` (one used output), whose output 0 equals its input 0: the two tensors become one, under the id that
  // must stay (otherwise that of the output). False: nothing was done because both ids must stay or one tensor is
  // written to.
  bool mergeThrough(Op &op) const;
  // Puts a new op in the place of `op`: output i of the new one takes over the tensor of output i. Returns the new op.
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
  RewriteFn rewrite;  // null: the expansion is a decomposition row, done by lower() where a backend has no kernel
  // Types of the ops that the expansion is of, between blanks, where programs may see it done.
  const char *expands = "";
  // What it expands has no kernel in PopART: without the pattern a program that has such an op is refused.
  bool needed = false;
  const char *hint = "";  // that those ops have, where others share their type (ir/hints.hpp)
};

// Rows in order of priority, user patterns included.
std::vector<PatternRow> allPatterns();

// Applies the enabled patterns to one graph until nothing matches. Returns the number of rewrites.
int applyPatterns(Graph &graph, const Patterns &patterns, const std::set<TensorId> &anchors);

// The same for a graph that a program holds and goes on with: what patterns expand is expanded as well, and ops that
// mark a place (Trait::NeverFolded) stay. Returns the number of rewrites.
int applyInPlace(Graph &graph, const Patterns &patterns);

// Throws popart::error for the first op that PopART cannot run without a pattern that is off. Parts of operators that
// import rules compose (kComposed), and their gradients, run without patterns.
void requireExpansions(const Ir &ir, const Patterns &patterns);

// Throws popart::error, naming the op and the nearest names, where an op opts out of a pattern that there is not.
void checkExcluded(const Graph &graph, const Patterns &patterns);

// Replaces `op` by what its row's decomposition builds; its results stay the same tensors.
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
