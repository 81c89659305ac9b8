// Operators of ai.onnx that move or combine rows: ReverseSequence, CumProd, CenterCropPad, Col2Im, LpNormalization and
// MeanVarianceNormalization.
#include <algorithm>
#include <numeric>

#include <popart/error.hpp>

#include "onnx/compose.hpp"
#include "onnx/import/lengths.hpp"

namespace popart::onnx {
namespace {

using Ints = std::vector<int64_t>;

// Rows are gathered: step t of a sequence of length l is step l - 1 - t if t < l.
void importReverseSequence(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0);
  const auto time = n.attr<int64_t>("time_axis", 0), batch = n.attr<int64_t>("batch_axis", 1);
  n.require((time == 0 && batch == 1) || (time == 1 && batch == 0),
            "attributes time_axis and batch_axis must be 0 and 1 or 1 and 0: got {} and {}", time, batch);
  n.require(x.rank() >= 2 && n.info(1).shape() == Shape{x.shape()[batch]},
            "sequence_lens must have one length per sequence: got {} for {}", n.info(1), x.info());
  const auto along = [&](int64_t axis, const Value &list) {
    Shape shape = {1, 1};
    shape[axis] = x.shape()[axis];
    return list.reshape(shape);
  };
  const Value step = along(time, to.countUp(x.shape()[time]));
  const Value sample = along(batch, to.countUp(x.shape()[batch]));
  const Value length = along(batch, checkedLengths(to, 1, x.shape()[time]));
  const Value from = where(step.op("Less", {length}), length - 1.0 - step, step);
  const auto width = static_cast<double>(x.dim(1));
  Shape rows(x.shape().begin() + 1, x.shape().end());
  rows[0] *= x.dim(0);
  to.result(0, x.reshape(rows).gather(time == 0 ? from * width + sample : sample * width + from, 0));
}

// Products of 1, 2, 4, … neighbours: the number of steps is the number of binary digits of the length.
void importCumProd(NodeContext &n) {
  Composer to(n);
  Value x = to.input(0);
  const int64_t axis = n.axisOf(n.constantInt(1), x.rank()), length = x.shape()[axis];
  const bool reverse = n.attr<int64_t>("reverse", 0) != 0;
  // Moved by `steps` along the axis, with ones in the empty positions.
  const auto moved = [&](const Value &v, int64_t steps) {
    Shape ones = v.shape();
    ones[axis] = steps;
    const Value fill = v.number(1).expand(ones);
    return reverse ? concat({v.slice(axis, steps, length), fill}, axis)
                   : concat({fill, v.slice(axis, 0, length - steps)}, axis);
  };
  if (n.attr<int64_t>("exclusive", 0) != 0 && length > 0) x = moved(x, 1);
  for (int64_t steps = 1; steps < length; steps *= 2) x = x * moved(x, steps);
  to.result(0, x);
}

void importCenterCropPad(NodeContext &n) {
  Composer to(n);
  Value x = to.input(0);
  const int64_t rank = x.rank();
  Ints all(static_cast<size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  const Ints axes = n.attr<Ints>("axes", all), sizes = n.constantInts(1);
  n.require(axes.size() == sizes.size(), "shape must have a number for each of {} axes: got {}",
            static_cast<int64_t>(axes.size()), sizes);
  Ints pads(static_cast<size_t>(2 * rank), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = n.axisOf(axes[i], rank), size = x.shape()[axis], wanted = sizes[i];
    n.require(wanted >= 0, "shape must not be negative: got {}", sizes);
    if (wanted < size) x = x.slice(axis, (size - wanted) / 2, (size - wanted) / 2 + wanted);
    if (wanted <= size) continue;
    pads[axis] = (wanted - size) / 2;
    pads[rank + axis] = wanted - size - pads[axis];
  }
  const bool same = std::ranges::all_of(pads, [](int64_t p) { return p == 0; });
  to.result(0, same ? x : x.op("Pad", {}, {{"pads", pads}}));
}

// Blocks are added at their positions in the padded image, which is then cropped.
class Col2ImNode {
 public:
  explicit Col2ImNode(NodeContext &n)
      : n_(n), to_(n), image_(n.constantInts(1)), block_(n.constantInts(2)), spatial_(image_.size()) {
    n.require(block_.size() == spatial_ && spatial_ > 0,
              "image_shape and block_shape must have one length: got {} and {}", image_, block_);
    dilations_ = n.attr<Ints>("dilations", Ints(spatial_, 1));
    pads_ = n.attr<Ints>("pads", Ints(2 * spatial_, 0));
    strides_ = n.attr<Ints>("strides", Ints(spatial_, 1));
    n.require(dilations_.size() == spatial_ && strides_.size() == spatial_ && pads_.size() == 2 * spatial_,
              "dilations, strides and pads do not fit {} spatial dimensions: got {}, {} and {}",
              static_cast<int64_t>(spatial_), dilations_, strides_, pads_);
    constexpr int64_t kMost = int64_t{1} << 31;  // sums of products of two of them fit 64 bits
    for (const Ints *list : {&image_, &block_, &dilations_, &pads_, &strides_})
      n.require(std::ranges::all_of(*list, [](int64_t v) { return v >= 0 && v < kMost; }),
                "sizes, dilations, strides and pads must not be negative and less than {}: got {}", kMost, *list);
    for (size_t d = 0; d < spatial_; ++d) {
      n.require(block_[d] > 0 && dilations_[d] > 0 && strides_[d] > 0,
                "block_shape, dilations and strides must be greater than 0: got {}, {} and {}", block_, dilations_,
                strides_);
      padded_.push_back(image_[d] + pads_[d] + pads_[spatial_ + d]);
      const int64_t room = padded_[d] - dilations_[d] * (block_[d] - 1) - 1;
      n.require(room >= 0, "a block is larger than the padded image: got {} of {} in {}", block_, dilations_, padded_);
      counts_.push_back(room / strides_[d] + 1);
    }
  }

  void import() {
    const Value x = to_.input(0);
    const int64_t inBlock = elementCount(block_), blocks = elementCount(counts_), places = elementCount(padded_);
    n_.require(x.rank() == 3 && x.dim(1) % inBlock == 0 && x.dim(2) == blocks,
               "input must be (N, C times {}, {}): got {}", inBlock, blocks, x.info());
    const int64_t channels = x.dim(1) / inBlock, rows = x.dim(0) * channels;
    const Value columns = x.reshape({rows, inBlock * blocks}).transpose({1, 0});
    Value y = columns.op("ScatterReduce", {to_.ints(positions(inBlock, blocks))},
                         {{"axis", int64_t{0}}, {"axis_size", places}, {"reduction", std::string("Sum")}});
    Shape whole = {x.dim(0), channels};
    whole.insert(whole.end(), padded_.begin(), padded_.end());
    y = y.transpose({1, 0}).reshape(whole);
    for (size_t d = 0; d < spatial_; ++d) y = y.slice(static_cast<int64_t>(d) + 2, pads_[d], pads_[d] + image_[d]);
    to_.result(0, y);
  }

 private:
  // The position of element `e` of block `b` in the padded image, for all e, then b.
  Ints positions(int64_t inBlock, int64_t blocks) const {
    n_.importer().takeFromBudget(TensorInfo(DataType::INT64, {inBlock, blocks}).nbytes(), "The positions of Col2Im");
    Ints all;
    for (int64_t e = 0; e < inBlock; ++e)
      for (int64_t b = 0; b < blocks; ++b) {
        int64_t place = 0, stride = 1, restE = e, restB = b;
        for (size_t d = spatial_; d-- > 0;) {
          place += stride * (restB % counts_[d] * strides_[d] + restE % block_[d] * dilations_[d]);
          stride *= padded_[d], restE /= block_[d], restB /= counts_[d];
        }
        all.push_back(place);
      }
    return all;
  }

  NodeContext &n_;
  Composer to_;
  Ints image_, block_;
  size_t spatial_;
  Ints dilations_, pads_, strides_, padded_, counts_;
};

void importCol2Im(NodeContext &n) { Col2ImNode(n).import(); }

// Rows of zeros stay zeros; their gradients do too.
void importLpNormalization(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0);
  const auto p = n.attr<int64_t>("p", 2);
  n.require(p == 1 || p == 2, "attribute p: got {}, expected 1 or 2", p);
  const Ints axes = {n.axisOf(n.attr<int64_t>("axis", -1), x.rank())};
  const Value sum = (p == 1 ? x.op("Abs") : x * x).sum(axes, true);
  const Value safe = where(sum.op("Equal", {sum.number(0)}), sum.number(1), sum);
  to.result(0, x / (p == 1 ? safe : safe.op("Sqrt")));
}

void importMeanVarianceNormalization(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0);
  Ints axes = n.attr<Ints>("axes", {0, 2, 3});
  double count = 1;
  for (int64_t &axis : axes) axis = n.axisOf(axis, x.rank()), count *= static_cast<double>(x.shape()[axis]);
  const Value centred = x - x.sum(axes, true) / count;
  const Value deviation = ((centred * centred).sum(axes, true) / count).op("Sqrt");
  to.result(0, centred / (deviation + 1e-9));
}

}  // namespace

std::vector<ImportRule> sequenceRules() {
  return {{"ai.onnx", "ReverseSequence", importReverseSequence},
          {"ai.onnx", "CumProd", importCumProd},
          {"ai.onnx", "CenterCropPad", importCenterCropPad},
          {"ai.onnx", "Col2Im", importCol2Im},
          {"ai.onnx", "LpNormalization", importLpNormalization},
          {"ai.onnx", "MeanVarianceNormalization", importMeanVarianceNormalization}};
}

}  // namespace popart::onnx
