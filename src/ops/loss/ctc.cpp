// Connectionist temporal classification: the loss of sequences whose labels are not aligned with their steps, and the
// beam search for the most likely labels. log_probs (T, N, C), targets (N, S), lengths (N).
// The loss of a sample is minus the log of the probability that the steps give its targets, without blanks and
// repetitions; Mean divides it by the sample's number of targets (at least 1) and averages over the samples.
#include <algorithm>

#include "ops/catalog.hpp"
#include "ops/forward_op.hpp"
#include "ops/loss/reduction.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

constexpr TypeSet kLabels =
    typeBit(DataType::UINT32) | typeBit(DataType::INT32) | typeBit(DataType::INT64) | typeBit(DataType::UINT64);

void requireBlank(const InferContext &c) {
  const int64_t classes = c.shape(0)[2];
  c.require(c.attrInt("blank") >= 0 && c.attrInt("blank") < classes, "blank is not a class: got {}, expected 0 to {}",
            c.attrInt("blank"), classes - 1);
}

// Checks log_probs, targets, and the lengths of inputs and targets, from input `first` on.
void requireSequences(const InferContext &c) {
  c.require(c.in(0).rank() == 3, "log_probs must have the dimensions (T, N, C): got shape {}", c.shape(0));
  const int64_t batch = c.shape(0)[1];
  c.require(c.in(1).rank() == 2 && c.shape(1)[0] == batch,
            "targets must have the dimensions (N, S): got shape {} for log_probs {}", c.shape(1), c.shape(0));
  for (int i : {2, 3})
    c.require(c.shape(i) == Shape{batch}, "input {} must have one length for each sample: got shape {}, expected {}", i,
              c.shape(i), Shape{batch});
  requireBlank(c);
}

DataType lossType(const InferContext &c) {
  const std::string &name = c.attrString("outDataType");
  if (name == "UNDEFINED" || name.empty()) return c.type(0);
  const DataType type = dataTypeFromString(name);
  c.require((typeBit(type) & kFloats) != 0, "outDataType: got {}, expected a floating-point type or UNDEFINED", name);
  return type;
}

void inferCtc(InferContext &c) {
  requireSequences(c);
  const LossReduction reduction = inferLossReduction(c);
  c.out(0, lossType(c), reduction == LossReduction::None ? Shape{c.shape(0)[1]} : Shape{});
}

// Steps times states of the lattice, forward and backward.
void latticeCost(const Op &op, Cost &cost) {
  const Shape &x = op.inInfo(0).shape(), &targets = op.inInfo(1).shape();
  if (x.size() == 3 && targets.size() == 2)
    cost.flops = 16.0 * static_cast<double>(x[0]) * static_cast<double>(x[1]) * static_cast<double>(2 * targets[1] + 1);
}

OpDef ctcRow(const char *type, const char *output) {
  return OpDef("ai.graphcore", type, {1})
      .input("log_probs", kFloats)
      .input("targets", kLabels)
      .input("input_lengths", kLabels)
      .input("target_lengths", kLabels)
      .output(output)
      .attr("reduction", std::string("Mean"))
      .attr("blank", int64_t{0})
      .attr("outDataType", std::string("UNDEFINED"))
      .attr("zeroInfinity", int64_t{0})
      .attrOptional(kIgnoreOutOfRange, AttributeType::Int)
      .cost(latticeCost);
}

OpDef decoderRow() {
  return OpDef("ai.graphcore", "CtcBeamSearchDecoder", {1})
      .input("log_probs", kFloats)
      .input("lengths", kLabels)
      .output("label_probs")
      .output("label_lengths")
      .output("decoded_labels")
      .attr("blank", int64_t{0})
      .attr("beam_width", int64_t{100})
      .attr("top_paths", int64_t{1})
      .infer([](InferContext &c) {
        c.require(c.in(0).rank() == 3, "log_probs must have the dimensions (T, N, C): got shape {}", c.shape(0));
        const int64_t steps = c.shape(0)[0], batch = c.shape(0)[1], paths = c.attrInt("top_paths");
        c.require(c.shape(1) == Shape{batch}, "lengths must have one number for each sample: got shape {}, expected {}",
                  c.shape(1), Shape{batch});
        requireBlank(c);
        c.require(paths >= 1 && paths <= c.attrInt("beam_width"),
                  "top_paths must be between 1 and beam_width: got {} for a beam of {}", paths,
                  c.attrInt("beam_width"));
        c.out(0, c.type(0), {batch, paths});
        c.out(1, DataType::UINT32, {batch, paths});
        c.out(2, DataType::UINT32, {batch, paths, steps});
      })
      .cost([](const Op &op, Cost &cost) { cost.flops *= static_cast<double>(op.attrInt("beam_width")); })
      .stopsGrad()
      .doc("The most likely label sequences, by a search that keeps beam_width prefixes.");
}

}  // namespace

OpDefs ctcOps() {
  OpDefs rows;
  rows.push_back(ctcRow("Ctc", "loss")
                     .infer(inferCtc)
                     .traits(Trait::Loss)
                     .vjp([](VjpBuilder &b) {
                       b.grad(0, b.emit("CtcGrad", {b.in(0), b.in(1), b.in(2), b.in(3), b.gradOut(0)}, b.attrs()));
                     })
                     .doc("Connectionist temporal classification loss of log probabilities (T, N, C)."));
  rows.push_back(
      ctcRow("CtcGrad", "grad")
          .input("grad_out", kFloats)
          .infer([](InferContext &c) {
            ForwardOp(c, "Ctc", {c.in(0), c.in(1), c.in(2), c.in(3)}).gives(0, 4);
            c.out(0, c.in(0));
          })
          .traits(Trait::Gradient)
          .noGrad("second derivatives of the ctc loss are not built")
          .notOnnx()
          .doc("The negative expected number of times that a step emits a class, times the incoming gradient."));
  rows.push_back(decoderRow());
  return rows;
}

}  // namespace popart::ops
