// PackedDataBlock of ai.graphcore: sequences of several lengths, packed in one tensor, are padded and passed to a
// subgraph one batch at a time, and its results are packed again.
#include <algorithm>
#include <limits>

#include <popart/error.hpp>

#include "onnx/compose.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

using Ints = std::vector<int64_t>;

// Limits of rows and of sequences in a batch (positions are 32-bit numbers), and of elements of a batch.
constexpr int64_t kMostRows = std::numeric_limits<int32_t>::max(), kMostPaddedElements = int64_t{1} << 48;

Shape joined(const Shape &first, const Shape &rest) {
  Shape shape = first;
  shape.insert(shape.end(), rest.begin(), rest.end());
  return shape;
}

Shape rowShape(const Value &packed) { return {packed.shape().begin() + 1, packed.shape().end()}; }

// `mask` with a dimension of size 1 for each dimension of a row.
Value overRows(const Value &mask, const Shape &row) { return mask.reshape(joined(mask.shape(), Shape(row.size(), 1))); }

class PackedDataBlock {
 public:
  explicit PackedDataBlock(NodeContext &n) : n_(n), to_(n), longest_(n.attr<Ints>("maxSequenceLengths", {})) {
    rows_ = positiveAttribute("resultSize");
    batch_ = positiveAttribute("callbackBatchSize");
    n.require(n.inputCount() >= 5 && n.inputCount() % 3 == 2,
              "inputs must be data, offsets and lengths for each of one or more packed tensors, then offsets and "
              "lengths of the results: got {} inputs",
              n.inputCount());
    parts_ = n.inputCount() / 3;
    n.require(static_cast<int>(longest_.size()) == parts_, "attribute maxSequenceLengths: got {}, expected {} numbers",
              longest_, parts_);
    for (int64_t length : longest_)
      n.require(length >= 1 && length <= kMostRows, "attribute maxSequenceLengths: got {}, expected 1 to {}", longest_,
                kMostRows);
    const int formal = n.graphAttribute("callback").output_size();
    n.require(formal == 1, "the callback must give one tensor: got {} outputs", formal);
    n.require(n.info(1).rank() == 1, "offsets must be a list: got {}", n.info(1));
    sequences_ = n.info(1).shape()[0];
    n.require(sequences_ <= kMostRows, "has too many sequences: got {}, expected at most {}", sequences_, kMostRows);
    batches_ = sequences_ / batch_ + (sequences_ % batch_ == 0 ? 0 : 1);
  }

  void import() {
    for (int p = 0; p < parts_; ++p) checkPacked(p);
    LoopWriter loop(to_, "batches", batches_);
    std::vector<Value> batches;
    for (int p = 0; p < parts_; ++p) batches.push_back(unpacked(loop, p));
    const std::vector<Value> results = loop.write(n_.graphAttribute("callback"), batches);
    const Value &result = results.front();
    n_.require(result.rank() >= 2 && result.dim(0) == batch_,
               "the callback must give (callbackBatchSize, length, …): got {} for batches of {}", result.info(),
               batch_);
    requireBound(result.shape());
    to_.result(0, packed(loop.run({}, results).front()).op("Detach"));
  }

 private:
  int64_t positiveAttribute(const char *name) const {
    const auto value = n_.attr<int64_t>(name, 0);
    n_.require(value >= 1 && value <= kMostRows, "attribute {}: got {}, expected 1 to {}", name, value, kMostRows);
    return value;
  }

  // Refuses a batch that is too large for any machine, before anything is computed from its size.
  void requireBound(const Shape &batch) const {
    int64_t elements = 1;
    for (int64_t size : joined({batches_}, batch)) {
      n_.require(size == 0 || elements <= kMostPaddedElements / size,
                 "the padded sequences are too large: got {} batches of {}, expected at most 2^48 elements", batches_,
                 batch);
      elements *= size;
    }
  }

  void checkPacked(int part) const {
    const TensorInfo &data = n_.info(3 * part);
    n_.require(data.rank() >= 1, "packed data must have a dimension for its rows: got {} at input {}", data, 3 * part);
    requireBound(joined({batch_, longest_[part]}, {data.shape().begin() + 1, data.shape().end()}));
  }

  // Offsets or lengths as (batches, callbackBatchSize); empty sequences complete the last batch.
  Value list(int input) {
    const TensorInfo &info = n_.info(input);
    n_.require(info.dataType() == DataType::UINT32 || info.dataType() == DataType::INT32,
               "offsets and lengths must be UINT32 or INT32: got {} at input {}", info, input);
    n_.require(info.shape() == Shape{sequences_}, "offsets and lengths must be lists of one length: got {} and {}",
               n_.info(1), info);
    // A negative number becomes one that is out of range in all later checks.
    Value values = to_.input(input).cast(DataType::UINT32).cast(DataType::INT64);
    if (const int64_t missing = batches_ * batch_ - sequences_; missing > 0)
      values = concat({values, to_.zeros(DataType::INT64, {missing})}, 0);
    return values.reshape({batches_, batch_});
  }

  // The lengths; a run with a length above `most` ends.
  Value checkedLengths(int input, int64_t most) { return to_.countUp(most + 1).gather(list(input), 0); }

  // In the body of the loop: the sequences of its batch, followed by zeros.
  Value unpacked(LoopWriter &loop, int part) {
    Value data = to_.input(3 * part);
    const int64_t length = longest_[part], rows = data.dim(0);
    const Value lengths = loop.bring(checkedLengths(3 * part + 2, std::min(length, rows)));
    const Value offsets = loop.bring(list(3 * part + 1));
    if (rows == 0) data = to_.zeros(data.type(), joined({1}, rowShape(data)));  // all sequences are empty
    const Value source = loop.bring(data);
    const auto ofBatch = [&](const Value &all) { return all.gather(loop.iteration(), 0).reshape({batch_, 1}); };
    const Value position = loop.body().countUp(length);
    const Value isInside = position.op("Less", {ofBatch(lengths)});
    const Value taken = source.gather(where(isInside, position + ofBatch(offsets), position.number(0)), 0);
    return where(overRows(isInside, rowShape(data)), taken, taken.number(0));
  }

  // Stacked results (batches, callbackBatchSize, length, …) at their positions. Row 0 gets the elements after the ends.
  Value packed(const Value &stacked) {
    const int64_t length = stacked.dim(2), all = batches_ * batch_;
    const Shape row(stacked.shape().begin() + 3, stacked.shape().end());
    const Value offsets = list(3 * parts_).reshape({all, 1});
    const Value lengths = checkedLengths(3 * parts_ + 1, length).reshape({all, 1});
    const Value position = to_.countUp(length);
    const Value place = where(position.op("Less", {lengths}), position + offsets + 1.0, position.number(0));
    const Value rows = to_.zeros(stacked.type(), joined({rows_ + 1}, row));
    const Value written =
        rows.op("ScatterND", {place.reshape({all, length, 1}), stacked.reshape(joined({all, length}, row))});
    return written.slice(0, 1, rows_ + 1);
  }

  NodeContext &n_;
  Composer to_;
  Ints longest_;  // of each packed tensor's sequences
  int64_t rows_ = 0, batch_ = 0, sequences_ = 0, batches_ = 0;
  int parts_ = 0;
};

void importPackedDataBlock(NodeContext &n) { PackedDataBlock(n).import(); }

}  // namespace

std::vector<ImportRule> packedDataRules() {
  return {{"ai.graphcore",
           "PackedDataBlock",
           importPackedDataBlock,
           {"inputs", "output", "maxSequenceLengths resultSize callbackBatchSize callback"}}};
}

}  // namespace popart::onnx
