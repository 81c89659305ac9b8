// See fold_batch_norm.hpp. The new weights are computed in double and rounded once.
#include "lower/fold_batch_norm.hpp"

#include <algorithm>
#include <cmath>

#include "lower/try_replace.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

enum BatchNormInput { kX, kScale, kBias, kMean, kVar };

const Tensor *floatConstant(const Op &op, int input) {
  if (!op.hasInput(input)) return nullptr;
  const Tensor *t = op.inTensor(input);
  return t->tensorType() == TensorType::Const && t->hasTensorData() && t->info.dataType() == DataType::FLOAT ? t
                                                                                                             : nullptr;
}

// Inference with known parameters on float32.
bool isKnown(const Op &op) {
  if (!op.is(Role::BatchNormalization) || op.attrInt("training_mode") != 0 ||
      op.inInfo(kX).dataType() != DataType::FLOAT)
    return false;
  for (int i = kScale; i <= kVar; ++i)
    if (!floatConstant(op, i)) return false;
  return true;
}

// The convolution before `norm` that can absorb it, or nullptr.
Op *convolutionOf(const Graph &graph, const Op &norm) {
  const TensorIndex x = norm.inputs()[kX];
  Op *conv = graph.tensor(x).getProducerUnsafe();
  if (!conv || !conv->is(Role::Conv) || graph.tensor(x).uses().size() != 1) return nullptr;
  if (std::find(graph.outputs().begin(), graph.outputs().end(), x) != graph.outputs().end()) return nullptr;
  if (!floatConstant(*conv, 1) || (conv->hasInput(2) && !floatConstant(*conv, 2))) return nullptr;
  return conv;
}

std::vector<double> values(const Op &op, int input) { return op.inTensor(input)->tensorData().asDoubles(); }

TensorIndex addConstant(Graph &graph, const TensorId &id, const Shape &shape, const std::vector<float> &data) {
  return graph.addConstant(graph.freeId(id), TensorData::of<float>(shape, data));
}

// y = x scale[c] + shift[c]
struct Affine {
  explicit Affine(const Op &norm) : scale(values(norm, kScale)), shift(values(norm, kBias)) {
    const std::vector<double> mean = values(norm, kMean), var = values(norm, kVar);
    for (size_t c = 0; c < scale.size(); ++c) {
      scale[c] /= std::sqrt(var[c] + static_cast<double>(norm.attrFloat("epsilon")));
      shift[c] -= mean[c] * scale[c];
    }
  }
  std::vector<double> scale, shift;
};

// Replaces norm by an op of `def`.
void replace(Graph &graph, Op &norm, const OpDef &def, std::vector<TensorIndex> inputs, Attributes attributes) {
  tryReplace(graph, {def, std::move(inputs), std::move(attributes), inheritSettings(norm, graph), norm.outputs()},
             [](const Op &) { return true; });
  graph.eraseOpAndOutputs(norm.index());
}

// BN(x) → Add(Mul(x, scale), shift) with scale and shift of shape (C, 1…).
void spellOut(Graph &graph, Op &norm) {
  const Affine affine(norm);
  Shape shape(static_cast<size_t>(norm.inRank(kX)) - 1, 1);
  shape[0] = norm.inShape(kX)[1];
  const std::vector<float> scale(affine.scale.begin(), affine.scale.end()),
      shift(affine.shift.begin(), affine.shift.end());
  Op *mul = graph.addConnectedOp(opDef("Mul"),
                                 {norm.inputs()[kX], addConstant(graph, norm.inId(kScale) + "/folded", shape, scale)},
                                 {graph.freeId(norm.outId(0) + "/scaled")}, {}, inheritSettings(norm, graph));
  replace(graph, norm, opDef("Add"),
          {mul->outputs()[0], addConstant(graph, norm.inId(kBias) + "/folded", shape, shift)}, {});
}

void fold(Graph &graph, Op &conv, Op &norm) {
  const Affine affine(norm);
  const std::vector<double> weights = values(conv, 1);
  const size_t channels = affine.scale.size(), each = channels == 0 ? 0 : weights.size() / channels;
  const std::vector<double> oldBias = conv.hasInput(2) ? values(conv, 2) : std::vector<double>(channels, 0.0);
  std::vector<float> newWeights(weights.size()), newBias(channels);
  for (size_t c = 0; c < channels; ++c) {
    for (size_t i = 0; i < each; ++i)
      newWeights[c * each + i] = static_cast<float>(weights[c * each + i] * affine.scale[c]);
    newBias[c] = static_cast<float>(oldBias[c] * affine.scale[c] + affine.shift[c]);
  }
  const std::vector<TensorIndex> inputs = {
      conv.inputs()[0], addConstant(graph, conv.inId(1) + "/folded", conv.inShape(1), newWeights),
      addConstant(graph, norm.inId(kBias) + "/folded", {static_cast<int64_t>(channels)}, newBias)};
  replace(graph, norm, conv.def(), inputs, conv.attributes());
  graph.eraseOpAndOutputs(conv.index());
}

}  // namespace

void foldBatchNorms(Ir &flat) {
  for (Graph *graph : flat.getAllGraphs())
    for (OpIndex o : schedule::orderOps(*graph)) {
      if (!graph->alive(o) || !isKnown(graph->op(o))) continue;
      Op &norm = graph->op(o);
      if (Op *conv = convolutionOf(*graph, norm)) {
        fold(*graph, *conv, norm);
      } else {
        spellOut(*graph, norm);
      }
    }
}

}  // namespace popart::lower
