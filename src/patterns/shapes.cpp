// Rewrites of operators that split and join tensors, and of random operators that take a shape from a tensor.
//   SplitOp               a, b = Split(x)                          →  a = Slice(x); b = Slice(x)
//   SplitGradOpToConcat   SplitGrad(da, db)                        →  Concat(da, db)
//   PadSum                Sum(Pad(a), Pad(b)), the pads disjoint   →  Concat(a, b)      (SliceGrad counts as a Pad)
//   Slice2SliceSubsample  Slice{step 3}(x)                         →  Subsample{3}(Slice{step 1}(x))
//   RandomNormalLikeOpPattern, RandomUniformLikeOpPattern  RandomNormalLike(x, seed)  →  RandomNormal{shape}(seed)
#include <algorithm>
#include <cstdlib>
#include <optional>

#include "ops/rules.hpp"
#include "ops/shape/pad_index.hpp"
#include "ops/shape/slice_range.hpp"
#include "patterns/pattern.hpp"

namespace popart::patterns {
namespace {

using Ints = std::vector<int64_t>;

bool isConstrained(const Graph &graph, const Op &op) {
  return std::any_of(graph.constraints().begin(), graph.constraints().end(),
                     [&](const auto &c) { return c.first == op.index() || c.second == op.index(); });
}

// A tensor that is zero outside of one range of one axis.
struct PaddedPart {
  TensorIndex source;
  int64_t axis, start, length;
};

// The position of the operand of `op`, a Pad or SliceGrad, in its result: first index along each axis.
std::optional<Ints> placement(const Op &op) {
  const Shape &whole = op.outShape(0);
  Ints starts;
  if (op.is("Pad")) {
    if (op.attrString("mode") != "constant" || op.attrFloat("value") != 0.0f) return std::nullopt;
    const Ints pads = ops::fullPads(op.attributes(), op.inRank(0));
    if (std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p < 0; })) return std::nullopt;
    starts.assign(pads.begin(), pads.begin() + static_cast<int64_t>(whole.size()));
    return starts;
  }
  if (!op.is("SliceGrad")) return std::nullopt;
  for (const ops::SliceRange &range : ops::sliceRanges(op.attributes(), whole)) {
    if (range.step != 1) return std::nullopt;
    starts.push_back(range.start);
  }
  return starts;
}

std::optional<PaddedPart> paddedPart(const Graph &graph, TensorIndex t) {
  const Op *op = graph.tensor(t).getProducerUnsafe();
  if (!op) return std::nullopt;
  const auto starts = placement(*op);
  if (!starts) return std::nullopt;
  std::optional<PaddedPart> part;
  for (size_t d = 0; d < starts->size(); ++d) {
    if (op->inShape(0)[d] == op->outShape(0)[d]) continue;
    if (part) return std::nullopt;
    part = PaddedPart{op->inputs()[0], static_cast<int64_t>(d), (*starts)[d], op->inShape(0)[d]};
  }
  return part;
}

}  // namespace

bool splitToSlices(Op &op, const Rewriter &rewriter) {
  if (!op.is("Split") || isConstrained(rewriter.graph(), op)) return false;
  Graph &graph = rewriter.graph();
  const TensorIndex x = op.inputs()[0];
  const int64_t axis = ops::axisOf(op.attributes(), op.inRank(0));
  const std::vector<TensorIndex> outputs = op.outputs();
  const Ints sizes =
      ops::splitSizes(op.attributes(), op.inShape(0)[static_cast<size_t>(axis)], static_cast<int64_t>(outputs.size()));
  std::vector<Op *> slices;
  int64_t start = 0;
  for (const int64_t size : sizes) {
    const Attributes attributes{{"axes", Ints{axis}}, {"starts", Ints{start}}, {"ends", Ints{start + size}}};
    slices.push_back(graph.addOp(opDef("Slice"), attributes, inheritSettings(op, graph)));
    graph.connectInput(slices.back()->index(), 0, x);
    start += size;
  }
  graph.eraseOp(op.index());
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o].valid()) {
      graph.connectOutput(slices[o]->index(), 0, outputs[o]);
      slices[o]->setup();
    } else {
      graph.eraseOp(slices[o]->index());
    }
  }
  return true;
}

bool splitGradToConcat(Op &op, const Rewriter &rewriter) {
  if (!op.is("SplitGrad")) return false;
  const std::vector<TensorIndex> inputs = op.inputs();
  const int64_t axis = op.attrInt("axis");
  rewriter.replaceOp(op, "Concat", inputs, {{"axis", axis}});
  return true;
}

bool sumOfPadsToConcat(Op &op, const Rewriter &rewriter) {
  if ((!op.is("Sum") && !op.is("Add")) || op.inputCount() < 2) return false;
  Graph &graph = rewriter.graph();
  const std::vector<TensorIndex> padded = op.inputs();
  std::vector<PaddedPart> parts;
  for (TensorIndex t : padded) {
    if (!t.valid() || graph.info(t) != op.outInfo(0)) return false;
    const auto part = paddedPart(graph, t);
    if (!part) return false;
    parts.push_back(*part);
  }
  std::sort(parts.begin(), parts.end(), [](const auto &a, const auto &b) { return a.start < b.start; });
  int64_t end = 0;
  for (const PaddedPart &part : parts) {
    if (part.axis != parts[0].axis || part.start != end) return false;
    end += part.length;
  }
  if (end != op.outShape(0)[static_cast<size_t>(parts[0].axis)]) return false;
  std::vector<TensorIndex> sources;
  for (const PaddedPart &part : parts) sources.push_back(part.source);
  rewriter.replaceOp(op, "Concat", sources, {{"axis", parts[0].axis}});
  for (TensorIndex t : padded)
    if (graph.alive(t) && graph.tensor(t).uses().empty() && !rewriter.isKept(t)) {
      graph.eraseOp(graph.tensor(t).producerIndex());
      graph.eraseTensor(t);
    }
  return true;
}

bool sliceToSubsample(Op &op, const Rewriter &rewriter) {
  if (!op.is("Slice") || op.outInfo(0).nelms() == 0) return false;
  const auto ranges = ops::sliceRanges(op.attributes(), op.inShape(0));
  if (std::all_of(ranges.begin(), ranges.end(), [](const auto &r) { return std::abs(r.step) == 1; })) return false;
  Ints axes, starts, ends, steps, strides;
  for (size_t d = 0; d < ranges.size(); ++d) {
    const ops::SliceRange &r = ranges[d];
    const int64_t direction = r.step > 0 ? 1 : -1, last = r.start + (r.size - 1) * r.step, end = last + direction;
    axes.push_back(static_cast<int64_t>(d));
    starts.push_back(r.start);
    ends.push_back(end >= 0 ? end : -op.inShape(0)[d] - 1);
    steps.push_back(direction);
    strides.push_back(std::abs(r.step));
  }
  Graph &graph = rewriter.graph();
  const TensorId id = graph.freeId(op.outId(0) + "_dense");
  const Op *slice = graph.addConnectedOp(opDef("Slice"), {op.inputs()[0]}, {id},
                                         {{"axes", axes}, {"starts", starts}, {"ends", ends}, {"steps", steps}},
                                         inheritSettings(op, graph));
  rewriter.replaceOp(op, "Subsample", {slice->outputs()[0]}, {{"strides", strides}});
  return true;
}

namespace {

bool likeToShaped(Op &op, const Rewriter &rewriter, const char *like, const char *shaped,
                  std::initializer_list<const char *> parameters) {
  if (!op.is(like)) return false;
  Attributes attributes{{"shape", op.outShape(0)}, {"dtype", int64_t{toOnnxDataType(op.outInfo(0).dataType())}}};
  for (const char *name : parameters) attributes.set(name, op.attrFloat(name));
  rewriter.replaceOp(op, shaped, {op.inputs()[1]}, attributes);
  return true;
}

}  // namespace

bool normalLikeToShaped(Op &op, const Rewriter &rewriter) {
  return likeToShaped(op, rewriter, "RandomNormalLike", "RandomNormal", {"mean", "scale"});
}

bool uniformLikeToShaped(Op &op, const Rewriter &rewriter) {
  return likeToShaped(op, rewriter, "RandomUniformLike", "RandomUniform", {"low", "high"});
}

}  // namespace popart::patterns
