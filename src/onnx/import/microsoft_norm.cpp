// Normalisations of com.microsoft, and SimplifiedLayerNormalization, which ONNX Runtime writes into ai.onnx.
#include <popart/error.hpp>

#include "onnx/import/microsoft.hpp"

namespace popart::onnx::microsoft {
namespace {

using Ints = std::vector<int64_t>;
constexpr float kSkipEpsilon = 1e-12f, kPlainEpsilon = 1e-5f;

// 1 / sqrt(mean(x²) + epsilon) over the dimensions from `axis` on, in FLOAT for 16-bit types.
Value inverseRootMeanSquare(const Value &x, int64_t axis, double epsilon) {
  const Value wide = x.type() == DataType::DOUBLE ? x : x.cast(DataType::FLOAT);
  Ints axes;
  for (int64_t d = axis; d < x.rank(); ++d) axes.push_back(d);
  const Value mean = (wide * wide).op("ReduceMean", {}, {{"axes", axes}, {"keepdims", int64_t{1}}});
  return (mean + epsilon).op("Sqrt").op("Reciprocal");
}

// The result has the type of the scale.
void importSimplifiedLayerNormalization(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0), scale = to.input(1);
  const int64_t axis = n.axisOf(n.attr<int64_t>("axis", -1), x.rank());
  const float epsilon = n.attr("epsilon", kPlainEpsilon);
  to.result(0, x.op("RMSNormalization", {scale}, {{"axis", axis}, {"epsilon", epsilon}}).cast(scale.type()));
  if (n.hasOut(1)) to.result(1, inverseRootMeanSquare(x, axis, epsilon));
}

// Input 0 plus input 1 (skip), which may have no batch or one for all, plus the bias if there is one.
Value skipSum(Composer &to, int bias) {
  const NodeContext &n = to.node();
  const Value x = to.input(0);
  Value sum = x + to.input(1);
  if (n.hasIn(bias)) sum = sum + to.input(bias);
  n.require(sum.shape() == x.shape(), "skip and bias must broadcast to the input: got {} for {}", n.info(1), x.info());
  return sum;
}

// Outputs: the normalised sum, mean, 1 / deviation, the sum.
void importSkipLayerNormalization(NodeContext &n) {
  Composer to(n);
  const Value sum = skipSum(to, 4);
  const int outputs = n.hasOut(1) || n.hasOut(2) ? 3 : 1;
  const std::vector<Value> results = sum.ops("LayerNormalization", outputs, {to.input(2), to.optionalInput(3)},
                                             {{"axis", int64_t{-1}}, {"epsilon", n.attr("epsilon", kSkipEpsilon)}});
  for (int i = 0; i < outputs; ++i)
    if (n.hasOut(i)) to.result(i, results[static_cast<size_t>(i)]);
  if (n.hasOut(3)) to.result(3, sum);
}

void importSkipSimplifiedLayerNormalization(NodeContext &n) {
  Composer to(n);
  const Value sum = skipSum(to, 3);
  n.require(!n.hasOut(1), "this normalisation has no output 1 (mean). Leave it out");
  const float epsilon = n.attr("epsilon", kSkipEpsilon);
  to.result(0, sum.op("RMSNormalization", {to.input(2)}, {{"axis", int64_t{-1}}, {"epsilon", epsilon}}));
  if (n.hasOut(2)) to.result(2, inverseRootMeanSquare(sum, sum.rank() - 1, epsilon));
  if (n.hasOut(3)) to.result(3, sum);
}

// Looks up words, positions and segments, adds and normalises them; the mask index counts the ones of each row.
}  // namespace

void embedLayerNormalization(NodeContext &n, Composer &to, const Value &positionIds, const AsFloats &asFloats) {
  constexpr int kIds = 0, kSegmentIds = 1, kWords = 2, kPositions = 3, kSegments = 4, kGamma = 5, kBeta = 6, kMask = 7;
  const auto rows = [&](int table, const Value &places) { return asFloats(table, to.input(table).gather(places, 0)); };
  const auto whole = [&](int i) { return asFloats(i, to.input(i)); };
  const Value ids = to.input(kIds);
  n.require(ids.rank() == 2, "input_ids must be (batch, length): got {}", ids.info());
  n.require(n.hasIn(kSegmentIds) == n.hasIn(kSegments), "segment_ids and segment_embedding come together: got one");
  const Value positions = to.input(kPositions);
  n.require(positionIds.valid() || positions.dim(0) >= ids.dim(1), "position_embedding is too short: got {} for {}",
            positions.info(), ids.info());
  Value sum = rows(kWords, ids) + (positionIds.valid() ? rows(kPositions, positionIds)
                                                       : asFloats(kPositions, positions.slice(0, 0, ids.dim(1))));
  if (n.hasIn(kSegments)) sum = sum + rows(kSegments, to.input(kSegmentIds));
  to.result(0, sum.op("LayerNormalization", {whole(kGamma), whole(kBeta)},
                      {{"axis", int64_t{-1}}, {"epsilon", n.attr("epsilon", kSkipEpsilon)}}));
  if (n.hasOut(1)) {
    const Value mask = to.optionalInput(kMask);
    to.result(1, mask.valid() ? mask.op("Equal", {mask.number(1)}).cast(DataType::INT32).sum({1}, false)
                              : to.zeros(DataType::INT32, {ids.dim(0)}));
  }
  if (n.hasOut(2)) to.result(2, sum);
}

namespace {

void importEmbedLayerNormalization(NodeContext &n) {
  constexpr int kPositionIds = 8;
  Composer to(n);
  embedLayerNormalization(n, to, to.optionalInput(kPositionIds), [](int, const Value &x) { return x; });
}

// x (N, spatial…, C) or (N, C, spatial…), normalised in FLOAT with a scale and a shift for each channel.
Value groupNormalised(NodeContext &n, const Value &x, const Value &scale, const Value &shift) {
  const bool isLast = n.attr<int64_t>("channels_last", 1) != 0;
  const auto activation = n.attr<int64_t>("activation", 0);
  n.require(x.rank() >= 3, "the input must have at least three dimensions: got {}", x.info());
  n.require(activation == 0 || activation == 1, "attribute activation: got {}, expected 0 (none) or 1 (SiLU)",
            activation);
  const Value wide = (isLast ? channelsFirst(x) : x).cast(DataType::FLOAT);
  const auto groups = n.attr<int64_t>("groups", 0);
  n.require(groups > 0 && wide.dim(1) % groups == 0, "attribute groups must divide the channels: got {} for {}", groups,
            x.info());
  Value y = wide.op("GroupNormalization", {scale.cast(DataType::FLOAT), shift.cast(DataType::FLOAT)},
                    {{"num_groups", groups}, {"epsilon", n.attr("epsilon", kPlainEpsilon)}});
  if (activation == 1) y = y.op("Swish", {}, {{"alpha", 1.0f}});
  return (isLast ? channelsLast(y) : y).cast(x.type());
}

void importGroupNorm(NodeContext &n) {
  Composer to(n);
  to.result(0, groupNormalised(n, to.input(0), to.input(1), to.input(2)));
}

// skip has the input's shape, or (N, C) with dimensions of 1 between; bias has one number for each channel.
void importSkipGroupNorm(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0);
  Value skip = to.input(3);
  const bool isLast = n.attr<int64_t>("channels_last", 1) != 0;
  n.require(x.rank() >= 3, "the input must have at least three dimensions: got {}", x.info());
  Shape perChannel(static_cast<size_t>(x.rank()), 1);
  perChannel[isLast ? x.rank() - 1 : 1] = x.dim(isLast ? -1 : 1);
  if (n.hasIn(4)) skip = skip + to.input(4).reshape(skip.rank() == 2 ? Shape{x.dim(isLast ? -1 : 1)} : perChannel);
  perChannel[0] = x.dim(0);
  if (skip.rank() == 2) skip = skip.reshape(perChannel);
  const Value sum = x + skip;
  n.require(sum.shape() == x.shape(), "skip must broadcast to the input: got {} for {}", n.info(3), x.info());
  to.result(0, groupNormalised(n, sum, to.input(1), to.input(2)));
  if (n.hasOut(1)) to.result(1, sum);
}

// RMS normalisation of groups with as many elements as the scale, times silu(gate) or sigmoid(gate), in FLOAT.
void importGatedRmsNorm(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0), scale = to.input(1).cast(DataType::FLOAT), gate = to.input(2).cast(DataType::FLOAT);
  n.require(scale.rank() == 1 && scale.dim(0) > 0 && x.dim(-1) % scale.dim(0) == 0 && gate.shape() == x.shape(),
            "scale must be a list whose length divides the last dimension, and gate like the input: got {}, {} and {}",
            scale.info(), gate.info(), x.info());
  const std::string activation = n.attr<std::string>("activation", "silu");
  n.require(activation == "silu" || activation == "swish" || activation == "sigmoid",
            "attribute activation: got '{}', expected silu, swish or sigmoid", activation);
  Shape grouped = x.shape();
  grouped.back() /= scale.dim(0), grouped.push_back(scale.dim(0));
  const Value normal =
      x.cast(DataType::FLOAT)
          .reshape(grouped)
          .op("RMSNormalization", {scale}, {{"axis", int64_t{-1}}, {"epsilon", n.attr("epsilon", kPlainEpsilon)}})
          .reshape(x.shape());
  const Value factor = activation == "sigmoid" ? sigmoid(gate) : gate.op("Swish", {}, {{"alpha", 1.0f}});
  to.result(0, (normal * factor).cast(x.type()));
}

}  // namespace

std::vector<ImportRule> normRules() {
  return {
      {"ai.onnx",
       "SimplifiedLayerNormalization",
       importSimplifiedLayerNormalization,
       {"X scale", "Y inv_std_var", "axis epsilon stash_type"}},
      {kDomain,
       "SkipLayerNormalization",
       importSkipLayerNormalization,
       {"input skip gamma beta bias", "output mean inv_std_var input_skip_bias_sum", "epsilon"}},
      {kDomain,
       "SkipSimplifiedLayerNormalization",
       importSkipSimplifiedLayerNormalization,
       {"input skip gamma bias", "output mean inv_std_var input_skip_bias_sum", "epsilon"}},
      {kDomain,
       "EmbedLayerNormalization",
       importEmbedLayerNormalization,
       {"input_ids segment_ids word_embedding position_embedding segment_embedding gamma beta mask position_ids",
        "output mask_index embedding_sum", "epsilon mask_index_type"}},
      {kDomain, "GroupNorm", importGroupNorm, {"X gamma beta", "Y", "activation channels_last epsilon groups"}},
      {kDomain,
       "SkipGroupNorm",
       importSkipGroupNorm,
       {"X gamma beta skip bias", "Y S", "activation channels_last epsilon groups"}},
      {kDomain, "GatedRMSNorm", importGatedRmsNorm, {"X scale gate", "Y", "activation epsilon"}},
  };
}

}  // namespace popart::onnx::microsoft
