// SplitGather: divides a gather of very many positions into pieces, so that only one piece at a time needs memory.
//   y = Gather(x, i)   →   y = Concat(Gather(x, Slice(i)), Gather(x, Slice(i)), …)
#include <algorithm>

#include "ops/rules.hpp"
#include "patterns/pattern.hpp"

namespace popart::patterns {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kMostPositions = 65'535;  // of one piece

}  // namespace

bool splitGather(Op &op, const Rewriter &rewriter) {
  if (!op.is("Gather") || op.attrInt("group_size") > 1 || op.inInfo(1).nelms() <= kMostPositions) return false;
  Graph &graph = rewriter.graph();
  const Shape indices = op.inShape(1);
  const auto axis = std::ranges::find_if(indices, [](int64_t size) { return size > 1; }) - indices.begin();
  const int64_t size = indices[static_cast<size_t>(axis)], perStep = op.inInfo(1).nelms() / size;
  const int64_t step = std::max<int64_t>(kMostPositions / perStep, 1);
  const Op::Settings settings = inheritSettings(op, graph);
  const auto emit = [&](const char *type, const std::vector<TensorIndex> &inputs, const Attributes &attributes) {
    return graph.addConnectedOp(opDef(type), inputs, {graph.freeId(op.outId(0) + "/piece")}, attributes, settings)
        ->outputs()[0];
  };
  std::vector<TensorIndex> pieces;
  for (int64_t start = 0; start < size; start += step) {
    const TensorIndex part =
        emit("Slice", {op.inputs()[1]},
             {{"axes", Ints{axis}}, {"starts", Ints{start}}, {"ends", Ints{std::min(size, start + step)}}});
    pieces.push_back(emit("Gather", {op.inputs()[0], part}, op.attributes()));
  }
  rewriter.replaceOp(op, "Concat", pieces, {{"axis", ops::axisOf(op.attributes(), op.inRank(0)) + axis}});
  return true;
}

}  // namespace popart::patterns
