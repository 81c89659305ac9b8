// TfIdfVectorizer-9 over integers: how often each n-gram of a pool occurs in a row. An n-gram is found with one binary
// search for each of its words, from one node of the tree of all n-grams to the next. Text is converted to integers
// first (docs/decisions/0059-text-on-the-host.md).
#include <algorithm>
#include <map>

#include <popart/error.hpp>

#include "onnx/compose.hpp"

namespace popart::onnx {
namespace {

using Ints = std::vector<int64_t>;
constexpr int64_t kMostColumns = int64_t{1} << 40;

// The n-grams of one length as a tree whose levels are lists. An edge is its start node times the number of words, plus
// its word.
struct Tree {
  std::vector<Ints> edges;  // by level, ascending; the index of an edge is the number of the node it leads to
  Ints coordinates;         // of the nodes of the last level
};

class NgramCounts {
 public:
  explicit NgramCounts(NodeContext &n)
      : n_(n),
        to_(n),
        pool_(n.attr<Ints>("pool_int64s", {})),
        starts_(n.attr<Ints>("ngram_counts", {})),
        coordinates_(n.attr<Ints>("ngram_indexes", {})) {
    n.require(n.hasAttr("pool_int64s"), "attribute pool_int64s is missing");
    n.require(!coordinates_.empty() && std::ranges::min(coordinates_) >= 0,
              "attribute ngram_indexes must hold positions from 0 on, one for each n-gram: got {}", coordinates_);
    n.require(std::ranges::max(coordinates_) < kMostColumns,
              "attribute ngram_indexes must hold positions smaller than {}: got {}", kMostColumns,
              std::ranges::max(coordinates_));
    width_ = std::ranges::max(coordinates_) + 1;
    n.importer().takeFromBudget(TensorInfo(DataType::FLOAT, {width_}).nbytes(), "TfIdfVectorizer");
    words_ = pool_;
    std::ranges::sort(words_);
    words_.erase(std::unique(words_.begin(), words_.end()), words_.end());
  }

  void import() {
    const Value x = to_.input(0);
    n_.require(x.rank() == 1 || x.rank() == 2, "X must be (C) or (N, C): got {}", x.info());
    const int64_t rows = x.rank() == 1 ? 1 : x.dim(0), length = x.dim(-1);
    const int64_t shortest = n_.attr<int64_t>("min_gram_length", 1), longest = n_.attr<int64_t>("max_gram_length", 1);
    n_.require(shortest >= 1 && shortest <= longest && longest <= static_cast<int64_t>(starts_.size()),
               "n-gram lengths: got {} to {}, expected at least 1 and at most {} as ngram_counts has", shortest,
               longest, static_cast<int64_t>(starts_.size()));
    std::vector<Value> found;
    if (!words_.empty() && rows * length > 0) {
      ids_ = placeIn(x.reshape({rows, length}).cast(DataType::INT64), to_.ints(words_));
      for (int64_t size = 1; size <= longest; ++size) {
        const Tree tree = treeOf(size);
        if (size >= shortest && !tree.coordinates.empty()) findAll(tree, size, length, found);
      }
    }
    Value counts = to_.zeros(DataType::FLOAT, {rows, width_ + 1});  // the last column: n-grams that are not in the pool
    if (!found.empty()) {
      const Value at = concat(found, 1);
      const Value ones = to_.scalar(DataType::FLOAT, 1).expand(at.shape());
      counts = counts.op("ScatterElements", {at, ones}, {{"axis", int64_t{1}}, {"reduction", std::string("add")}});
    }
    counts = weighted(counts.slice(1, 0, width_));
    to_.result(0, x.rank() == 1 ? counts.reshape({width_}) : counts);
  }

 private:
  // The words of the n-grams of `size`, which follow each other in the pool.
  Tree treeOf(int64_t size) {
    const auto level = static_cast<size_t>(size - 1);
    const auto all = static_cast<int64_t>(pool_.size());
    const int64_t first = starts_[level], end = level + 1 < starts_.size() ? starts_[level + 1] : all;
    n_.require(
        first >= 0 && first <= end && end <= all && (end - first) % size == 0,
        "attribute ngram_counts: got {} to {} for n-grams of {} words, expected ascending starts of whole n-grams "
        "in {} words",
        first, end, size, all);
    const int64_t count = (end - first) / size;
    if (count == 0) return {};
    n_.require(grams_ + count <= static_cast<int64_t>(coordinates_.size()),
               "attribute ngram_indexes must have a position for each n-gram: got {}",
               static_cast<int64_t>(coordinates_.size()));
    Tree tree;
    Ints at(static_cast<size_t>(count), 0);
    for (int64_t k = 0; k < size; ++k) {
      Ints edges;
      for (int64_t g = 0; g < count; ++g) {
        const int64_t word = pool_[first + g * size + k];
        const auto id = std::ranges::lower_bound(words_, word) - words_.begin();
        edges.push_back(at[g] * static_cast<int64_t>(words_.size()) + id);
      }
      Ints different = edges;
      std::ranges::sort(different);
      different.erase(std::unique(different.begin(), different.end()), different.end());
      for (int64_t g = 0; g < count; ++g) at[g] = std::ranges::lower_bound(different, edges[g]) - different.begin();
      tree.edges.push_back(std::move(different));
    }
    tree.coordinates.resize(tree.edges.back().size());
    for (int64_t g = count; g-- > 0;) tree.coordinates[at[g]] = coordinates_[grams_ + g];
    grams_ += count;
    return tree;
  }

  // The coordinates of the n-grams at every start and with every skip; `width_` for n-grams that are not in the pool.
  void findAll(const Tree &tree, int64_t size, int64_t length, std::vector<Value> &found) {
    const int64_t given = n_.attr<int64_t>("max_skip_count", 0), skips = size == 1 ? 0 : given;
    n_.require(given >= 0, "attribute max_skip_count: got {}, expected 0 or more", given);
    for (int64_t skip = 0; skip <= skips; ++skip) {
      const int64_t starts = length - (size - 1) * (skip + 1);
      if (starts <= 0) break;
      Value node;
      for (int64_t k = 0; k < size; ++k) {
        n_.importer().countNode();
        const Value id = ids_.slice(1, k * (skip + 1), k * (skip + 1) + starts);
        Value edge = id;
        if (k > 0) {
          const Value lost = node.op("Less", {node.number(0)}).op("Or", {id.op("Less", {id.number(0)})});
          edge = where(lost, id.number(-1), node * static_cast<double>(words_.size()) + id);
        }
        node = placeIn(edge, to_.ints(tree.edges[k]));
      }
      Ints coordinates = tree.coordinates;
      coordinates.push_back(width_);
      const Value none = node.number(static_cast<double>(tree.coordinates.size()));
      const Value place = where(node.op("Less", {node.number(0)}), none, node);
      found.push_back(to_.ints(coordinates).gather(place, 0));
    }
  }

  Value weighted(const Value &counts) {
    const std::string mode = n_.attr<std::string>("mode", "");
    n_.require(mode == "TF" || mode == "IDF" || mode == "TFIDF", "attribute mode: got '{}', expected TF, IDF or TFIDF",
               mode);
    if (mode == "TF") return counts;
    const std::vector<float> given = n_.attr<std::vector<float>>("weights", {});
    std::vector<double> weights(static_cast<size_t>(width_), 1);
    n_.require(given.empty() || given.size() == coordinates_.size(),
               "attribute weights must have a number for each n-gram: got {}, expected {}",
               static_cast<int64_t>(given.size()), static_cast<int64_t>(coordinates_.size()));
    for (size_t g = 0; g < given.size(); ++g) weights[coordinates_[g]] = given[g];
    const Value factors = to_.constant(TensorData::fromDoubles(TensorInfo(DataType::FLOAT, {width_}), weights));
    return (mode == "IDF" ? counts.op("Min", {counts.number(1)}) : counts) * factors;
  }

  NodeContext &n_;
  Composer to_;
  Ints pool_, starts_, coordinates_, words_;
  Value ids_;  // of the words of X, -1 for one that no n-gram has
  int64_t width_ = 0, grams_ = 0;
};

void importTfIdfVectorizer(NodeContext &n) { NgramCounts(n).import(); }

}  // namespace

std::vector<ImportRule> ngramRules() { return {{"ai.onnx", "TfIdfVectorizer", importTfIdfVectorizer}}; }

}  // namespace popart::onnx
