// Sizes that depend on data of the run (docs/decisions/0057-sizes-from-data.md). A tensor with such a size along an
// axis has room for the largest possible number of values; a count says how many values it holds. The elements after
// them are arbitrary numbers that ops can compute with: every op whose result they would change masks them. Private to
// this room.
//
//   x (count, 4), room for 100 rows:  relu(x) and x[:, 1] keep the count; sum(x, 0) reads zeros after the values.
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

// A number that states a size: known, or `per` times a count of the run.
struct Size {
  int64_t most = 0;  // the number if it is known, otherwise its upper limit
  TensorIndex count = {};
  int64_t per = 1;
  bool isKnown() const { return !count.valid(); }
  bool sameAs(const Size &b) const { return count == b.count && (isKnown() ? most == b.most : per == b.per); }
};
using Sizes = std::vector<Size>;
std::vector<int64_t> mostOf(const Sizes &sizes);
// The bounds of a tensor whose dimensions have these sizes.
Bounds boundsIn(const Sizes &sizes);

// Ops of a graph that compute sizes and masks; their results have no bounds. An op that exists already is not made
// again, so that the same selection has the same count wherever it is made.
class PlainOps {
 public:
  // `base`: prefix for ids of new tensors. `settings`: of the op that they are made for.
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
  // These return the tensor itself if there is nothing to do.
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

// The elements selected from a list, in order: their positions (then the first one again as filler), and their number.
struct Selection {
  TensorIndex places;  // INT64, as many as the list has elements
  TensorIndex count;
};

// Which tensors have such sizes, and which tensors state them. Each graph has separate counts: a body that reads a
// tensor with bounds from outside reads the counts as well.
class BoundedSizes {
 public:
  explicit BoundedSizes(Importer &importer) : importer_(importer) {}

  const Bounds &boundsOf(const Graph &graph, TensorIndex t) const;
  // The sizes of the dimensions.
  Sizes shapeOf(const Graph &graph, TensorIndex t) const;
  // Sizes of a tensor without elements are known.
  void setBounds(Graph &graph, TensorIndex t, const Bounds &bounds);
  // The elements of an integer tensor with at most one dimension; null if one is neither known nor a size.
  const Sizes *sizesIn(const Graph &graph, TensorIndex t) const;
  void setSizes(const Graph &graph, TensorIndex t, Sizes sizes);
  // Makes a tensor of these numbers, with no dimensions or one.
  void writeSizes(Graph &graph, const TensorId &id, const Sizes &sizes, int rank, const Op::Settings &settings);

  // Whether an op that reads these tensors must be added by addOp.
  bool concerns(const Graph &graph, const std::vector<TensorIndex> &inputs) const;
  // Like Importer::addOp. Throws unknown_value for an op without a rule for such sizes.
  void addOp(Graph &graph, std::string_view type, const std::vector<TensorIndex> &inputs,
             const std::vector<TensorId> &ids, Attributes attributes, const Op::Settings &settings);
  // Forgets everything about a graph that is removed.
  void forget(const Graph &graph) { graphs_.erase(&graph); }

  // The number of values along a bounded axis, INT64 without dimensions.
  static TensorIndex length(const PlainOps &to, const Bound &bound);
  // Which positions of a dimension of `size` hold values, BOOL of shape (size).
  static TensorIndex isValue(const PlainOps &to, const Bound &bound, int64_t size);
  // The same for all elements of `t`, in its shape.
  TensorIndex areValues(const PlainOps &to, TensorIndex t) const;
  // `t` with `fill` (no dimensions) where there are no values along the axes of `bounds`; the result has no bounds.
  static TensorIndex masked(const PlainOps &to, TensorIndex t, const Bounds &bounds, TensorIndex fill);
  // `t` without bounds.
  TensorIndex plain(const PlainOps &to, TensorIndex t) const;
  // `t`, which has no bounds, with these bounds.
  TensorIndex rebound(const PlainOps &to, TensorIndex t, const Bounds &bounds);
  // `flags`: BOOL, one dimension, no bounds. Throws popart::error for more than 2^30 flags.
  static Selection select(const PlainOps &to, TensorIndex flags);

  struct Made {
    Attributes attributes;
    TensorIndex result;
  };
  // For PlainOps: results by type and inputs.
  using MadeOps = std::map<std::pair<std::string, std::vector<TensorIndex>>, std::vector<Made>>;
  MadeOps &made(const Graph &graph) { return graphs_[&graph].made; }

 private:
  struct OfGraph {
    std::map<TensorIndex, Bounds> bounds;
    std::map<TensorIndex, Sizes> sizes;
    std::map<TensorIndex, Sizes> knownSizes;  // of constants that were needed
    MadeOps made;
  };

  Importer &importer_;
  mutable std::map<const Graph *, OfGraph> graphs_;
};

// Whether the import rule of an ONNX operator handles tensors with bounds: it passes them to the ops that it writes,
// and does not read their sizes as numbers. Operators without a rule do.
bool ruleTakesBounds(const std::string &domain, const std::string &type);

}  // namespace popart::onnx
