// Scan of ai.onnx: a loop over the slices of its inputs, whose results are stacked.
#include <popart/error.hpp>

#include "onnx/compose.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

using Ints = std::vector<int64_t>;

// Moves dimension `from` to position `to`.
Value moved(const Value &x, int64_t from, int64_t to) {
  Ints order;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != from) order.push_back(d);
  order.insert(order.begin() + to, from);
  return x.transpose(order);
}

Value withoutFirst(const Value &x) { return x.reshape(Shape(x.shape().begin() + 1, x.shape().end())); }

Value withFirst(const Value &x) {
  Shape shape = x.shape();
  shape.insert(shape.begin(), 1);
  return x.reshape(shape);
}

class ScanNode {
 public:
  explicit ScanNode(NodeContext &n) : n_(n), to_(n), first_(n.opset() < 9 ? 1 : 0) {
    scanned_ = n.attr<int64_t>("num_scan_inputs", 0);
    n.require(scanned_ >= 1 && scanned_ <= n.inputCount() - first_,
              "attribute num_scan_inputs: got {} for {} inputs, expected 1 or more", scanned_, n.inputCount());
    states_ = n.inputCount() - first_ - scanned_;
    results_ = n.graphAttribute("body").output_size() - states_;
    n.require(results_ >= 0 && n.outputCount() <= states_ + results_,
              "body must return {} states and the stacked values, one for each output: got {} outputs for {}", states_,
              n.graphAttribute("body").output_size(), n.outputCount());
    const bool older = first_ == 1;
    inDirections_ = list(older ? "directions" : "scan_input_directions", scanned_);
    outDirections_ = list("scan_output_directions", results_);
    inAxes_ = list("scan_input_axes", scanned_);
    outAxes_ = list("scan_output_axes", results_);
    for (const Ints *directions : {&inDirections_, &outDirections_})
      for (int64_t d : *directions)
        n.require(d == 0 || d == 1, "directions must be 0 (forward) or 1 (reverse): got {}", *directions);
  }

  void import() {
    std::vector<Value> inputs;
    for (int64_t i = first_; i < n_.inputCount(); ++i) inputs.push_back(to_.input(static_cast<int>(i)));
    give(first_ == 1 ? ofSamples(inputs) : ofOne(inputs));
  }

 private:
  Ints list(const char *attribute, int64_t length) const {
    Ints given = n_.attr<Ints>(attribute, {});
    if (given.empty()) given.assign(static_cast<size_t>(length), 0);
    n_.require(static_cast<int64_t>(given.size()) == length, "attribute {}: got {}, expected {} numbers", attribute,
               given, length);
    return given;
  }

  int64_t axis(int64_t given, int rank) const {
    n_.require(given >= -rank && given < rank, "axes: got {} for {} dimensions", given, rank);
    return given < 0 ? given + rank : given;
  }

  // Last states, then stacked results.
  std::vector<Value> ofOne(const std::vector<Value> &inputs) {
    std::vector<Value> rows;
    for (int64_t i = 0; i < scanned_; ++i) {
      const Value &x = inputs[states_ + i];
      n_.require(x.rank() >= 1, "input {} has no dimension to walk along", first_ + states_ + i);
      rows.push_back(moved(x, axis(inAxes_[i], x.rank()), 0));
      n_.require(rows[i].dim(0) == rows[0].dim(0), "scan inputs must have one length: got {} and {}", rows[i].dim(0),
                 rows[0].dim(0));
    }
    const int64_t trips = rows[0].dim(0);
    LoopWriter loop(to_, "body", trips);
    std::vector<Value> given, slices;
    for (int64_t i = 0; i < states_; ++i) given.push_back(loop.carry(inputs[i]));
    for (const Value &row : rows) slices.push_back(loop.bring(row));
    for (int64_t i = 0; i < scanned_; ++i) {
      const Value at = loop.iteration();
      given.push_back(slices[i].gather(inDirections_[i] == 1 ? static_cast<double>(trips - 1) - at : at, 0));
    }
    const std::vector<Value> out = loop.write(n_.graphAttribute("body"), given);
    std::vector<Value> results = loop.run({out.begin(), out.begin() + states_}, {out.begin() + states_, out.end()});
    for (int64_t i = 0; i < results_; ++i) {
      Value &y = results[states_ + i];
      if (outDirections_[i] == 1) y = y.reverse(0);
      y = moved(y, 0, axis(outAxes_[i], y.rank()));
    }
    return results;
  }

  // Version 8: the first dimension is that of samples, each of which has a length.
  std::vector<Value> ofSamples(const std::vector<Value> &inputs) {
    const Value &sequence = inputs[states_];
    n_.require(sequence.rank() >= 2, "scan inputs must be (batch, steps, …): got {}", sequence.info());
    const int64_t samples = sequence.dim(0), steps = sequence.dim(1);
    n_.importer().takeFromBudget(TensorInfo(DataType::INT64, {samples}).nbytes(), "The samples of Scan");
    Ints lengths(static_cast<size_t>(samples), steps);
    if (n_.hasIn(0)) lengths = n_.constantInts(0);
    n_.require(static_cast<int64_t>(lengths.size()) == samples && samples > 0,
               "sequence_lens must have a length for each of {} samples: got {}", samples, lengths);
    std::vector<std::vector<Value>> parts(static_cast<size_t>(states_ + results_));
    for (int64_t b = 0; b < samples; ++b) {
      n_.importer().countNode();
      n_.require(lengths[b] >= 0 && lengths[b] <= steps, "sequence_lens: got {}, expected 0 to {}", lengths, steps);
      std::vector<Value> own;
      for (const Value &x : inputs) {
        n_.require(x.rank() >= 1 && x.dim(0) == samples, "every input must have {} samples: got {}", samples, x.info());
        Value one = withoutFirst(x.slice(0, b, b + 1));
        if (static_cast<int64_t>(own.size()) >= states_) one = one.slice(0, 0, lengths[b]);
        own.push_back(one);
      }
      const std::vector<Value> results = ofOne(own);
      for (size_t i = 0; i < results.size(); ++i) {
        Value y = results[i];
        if (static_cast<int64_t>(i) >= states_ && lengths[b] < steps) {
          Shape rest = y.shape();
          rest[0] = steps - lengths[b];
          y = concat({y, to_.zeros(y.type(), rest)}, 0);
        }
        parts[i].push_back(withFirst(y));
      }
    }
    std::vector<Value> results;
    for (const std::vector<Value> &part : parts) results.push_back(concat(part, 0));
    return results;
  }

  void give(const std::vector<Value> &results) {
    for (int i = 0; i < n_.outputCount(); ++i)
      if (n_.hasOut(i)) to_.result(i, results[i]);
  }

  NodeContext &n_;
  Composer to_;
  int64_t first_, scanned_, states_, results_;
  Ints inDirections_, outDirections_, inAxes_, outAxes_;
};

void importScan(NodeContext &n) { ScanNode(n).import(); }

}  // namespace

std::vector<ImportRule> scanRules() { return {{"ai.onnx", "Scan", importScan}}; }

}  // namespace popart::onnx
