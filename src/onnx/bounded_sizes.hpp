// Sizes that depend on data of the run (docs/decisions/0057-sizes-from-data.md). A tensor that has one along an axis
// has room for the most there can be; a count says how much of it is values. What lies behind them is anything that ops
// can compute with: whoever would let it matter masks it. Private to this room.
//
//   x (count, 4), room for 100 rows:  relu(x) keeps the count, sum(x, 0) reads zeros behind it, x[:, 1] keeps it.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <popart/attributes.hpp>
#include <popart/ids.hpp>
#include <popart/op.hpp>

namespace popart::onnx {

class Importer;

// A dimension whose size depends on data: `per` times the count.
struct Bound {
  TensorIndex count;  // INT64, one element, no dimensions
  int64_t axis = 0;
  int64_t per = 1;
};
using Bounds = std::vector<Bound>;  // at most one of each axis

// A number that says a size: known, or `per` times a count of the run.
struct Size {
  int64_t most = 0;  // the number where it is known, else the most it can be
  TensorIndex count = {};
  int64_t per = 1;
  bool isKnown() const { return !count.valid(); }
  bool sameAs(const Size &b) const { return count == b.count && (isKnown() ? most == b.most : per == b.per); }
};
using Sizes = std::vector<Size>;
std::vector<int64_t> mostOf(const Sizes &sizes);
// Of a tensor whose dimensions have these sizes.
Bounds boundsIn(const Sizes &sizes);

// Ops of a graph that say how sizes are computed and masked; their results have no bounds. An op that is there already
// is not made again, so that the same selection has the same count wherever it is made.
class PlainOps {
 public:
  // `base`: what ids of new tensors start with. `settings` of the op that they are made for.
  PlainOps(Importer &importer, Graph &graph, const TensorId &base, const Op::Settings &settings)
      : importer_(importer), graph_(graph), base_(base), settings_(settings) {}

  Graph &graph() const { return graph_; }
  const TensorInfo &info(TensorIndex t) const;
  Importer &importer() const { return importer_; }

  TensorIndex op(std::string_view type, const std::vector<TensorIndex> &inputs, Attributes attributes = {}) const;
  TensorIndex freshOp(std::string_view type, const std::vector<TensorIndex> &inputs, Attributes attributes = {}) const;
  TensorIndex number(DataType type, double value) const;  // no dimensions
  TensorIndex integer(int64_t value) const;               // INT64, no dimensions
  TensorIndex constant(const TensorData &value) const;
  TensorIndex upTo(int64_t size) const;  // 0, 1, …, size - 1 in INT64
  // These give the tensor itself where there is nothing to do.
  TensorIndex reshape(TensorIndex t, const Shape &shape) const;
  TensorIndex cast(TensorIndex t, DataType type) const;
  TensorIndex slice(TensorIndex t, int64_t axis, int64_t start, int64_t end) const;
  TensorIndex concat(const std::vector<TensorIndex> &parts, int64_t axis) const;

 private:
  Importer &importer_;
  Graph &graph_;
  TensorId base_;
  Op::Settings settings_;
};

// What is chosen of a list, in order: places, the first of them again behind the last, and how many they are.
struct Selection {
  TensorIndex places;  // INT64, as many as the list has elements
  TensorIndex count;
};

// Which tensors have such sizes, and which say them. Each graph has counts of its own: a body that reads a tensor with
// bounds from outside reads the counts as well.
class BoundedSizes {
 public:
  explicit BoundedSizes(Importer &importer) : importer_(importer) {}

  const Bounds &boundsOf(const Graph &graph, TensorIndex t) const;
  // Sizes of the dimensions.
  Sizes shapeOf(const Graph &graph, TensorIndex t) const;
  // Sizes of no elements at all are known.
  void setBounds(Graph &graph, TensorIndex t, const Bounds &bounds);
  // The elements of an integer tensor of at most one dimension; null where one is neither known nor a size.
  const Sizes *sizesIn(const Graph &graph, TensorIndex t) const;
  void setSizes(const Graph &graph, TensorIndex t, Sizes sizes);
  // A tensor of these numbers, with no dimensions or one.
  void writeSizes(Graph &graph, const TensorId &id, const Sizes &sizes, int rank, const Op::Settings &settings);

  // Whether an op that reads these tensors is a matter of addOp.
  bool concerns(const Graph &graph, const std::vector<TensorIndex> &inputs) const;
  // As Importer::addOp. Throws unknown_value for an op that says nothing of such sizes.
  void addOp(Graph &graph, std::string_view type, const std::vector<TensorIndex> &inputs,
             const std::vector<TensorId> &ids, Attributes attributes, const Op::Settings &settings);
  // Nothing is known of a graph that is removed.
  void forget(const Graph &graph) { graphs_.erase(&graph); }

  // The number of values along a bounded axis, INT64 without dimensions.
  static TensorIndex length(const PlainOps &to, const Bound &bound);
  // Whether the places of a dimension of `size` are values, BOOL of shape (size).
  static TensorIndex isValue(const PlainOps &to, const Bound &bound, int64_t size);
  // The same for all elements of `t`, in its shape.
  TensorIndex areValues(const PlainOps &to, TensorIndex t) const;
  // `t` with `fill` (no dimensions) where no values are along the axes of `bounds`; it has no bounds.
  static TensorIndex masked(const PlainOps &to, TensorIndex t, const Bounds &bounds, TensorIndex fill);
  // `t` as a tensor without bounds.
  TensorIndex plain(const PlainOps &to, TensorIndex t) const;
  // `t`, which has no bounds, as a tensor with these.
  TensorIndex rebound(const PlainOps &to, TensorIndex t, const Bounds &bounds);
  // `flags`: BOOL, one dimension, no bounds. Throws popart::error for more than 2^30 of them.
  static Selection select(const PlainOps &to, TensorIndex flags);

  struct Made {
    Attributes attributes;
    TensorIndex result;
  };
  // Of PlainOps: results by type and inputs.
  using MadeOps = std::map<std::pair<std::string, std::vector<TensorIndex>>, std::vector<Made>>;
  MadeOps &made(const Graph &graph) { return graphs_[&graph].made; }

 private:
  struct OfGraph {
    std::map<TensorIndex, Bounds> bounds;
    std::map<TensorIndex, Sizes> sizes;
    std::map<TensorIndex, Sizes> knownSizes;  // of constants that were asked for
    MadeOps made;
  };

  Importer &importer_;
  mutable std::map<const Graph *, OfGraph> graphs_;
};

// Whether the import rule of an ONNX operator takes tensors with bounds: it leaves them to the ops that it writes and
// reads no size of them as a number. Operators without a rule of their own do.
bool ruleTakesBounds(const std::string &domain, const std::string &type);

}  // namespace popart::onnx
