// All trees of a forest are followed at once: each step of a loop reads the feature, the split and the children of the
// current node of every (sample, tree). Leaves are their own children, so after as many steps as the deepest tree has
// branches, all are at a leaf.
#include "onnx/import/machine_learning.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <popart/error.hpp>

namespace popart::onnx {
namespace {

using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;
using Strings = std::vector<std::string>;

constexpr std::array<const char *, 8> kModes = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                                "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
constexpr std::array<const char *, 4> kAggregates = {"AVERAGE", "SUM", "MIN", "MAX"};
constexpr int64_t kMember = 6, kLeaf = 7;

// Index of a name in a list of names.
template <class Names>
int64_t indexOf(const NodeContext &n, const char *attribute, const Names &names, const std::string &name) {
  const auto found = std::find(names.begin(), names.end(), name);
  n.require(found != names.end(), "attribute {}: '{}' does not exist", attribute, name);
  return found - names.begin();
}

// Nodes in lists; children are indices into them.
struct Forest {
  Ints mode, feature, yes, no, missing, roots;  // missing: 1 where NaN takes the branch `yes`
  Doubles split, weight;                        // weight: a row of `targets` for each node
  Ints setOf;                                   // number of the set of a node with BRANCH_MEMBER; 0: none
  std::vector<Doubles> sets;                    // the sets from number 1 on
  int64_t targets = 1, aggregate = 1;

  int64_t size() const { return static_cast<int64_t>(mode.size()); }

  void resize(int64_t nodes) {
    mode.resize(nodes, kLeaf);
    for (Ints *list : {&feature, &yes, &no, &missing}) list->resize(nodes, 0);
    split.resize(nodes, 0);
    for (int64_t i = 0; i < nodes; ++i) yes[i] = no[i] = i;
  }

  // The value that a node adds to a target that it does not name.
  double none() const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    return aggregate < 2 ? 0 : aggregate == 2 ? infinity : -infinity;
  }

  void addWeight(int64_t node, int64_t target, double value) {
    double &at = weight[node * targets + target];
    at = aggregate < 2 ? at + value : aggregate == 2 ? std::min(at, value) : std::max(at, value);
  }

  // The number of branches on the longest path. Throws popart::error for nodes with two parents or none.
  int64_t depth(const NodeContext &n) const {
    std::vector<bool> seen(mode.size());
    Ints level = roots;
    int64_t steps = -1;
    for (; !level.empty(); ++steps) {
      Ints below;
      for (int64_t node : level) {
        if (mode[node] == kLeaf) continue;
        n.require(!seen[node], "node {} of the forest is reached twice", node);
        seen[node] = true;
        below.insert(below.end(), {yes[node], no[node]});
      }
      level = std::move(below);
    }
    for (int64_t node = 0; node < size(); ++node)
      n.require(seen[node] || mode[node] == kLeaf, "node {} of the forest is never reached", node);
    return std::max<int64_t>(steps, 0);
  }
};

// Rows of a list of the nodes, in the loop's body.
struct Table {
  Value in;
  Value at(const Value &node) const { return in.gather(node, 0); }
};

class Walk {
 public:
  Walk(Composer &to, const Forest &forest, const Value &x)
      : to_(to), forest_(forest), loop_(to, "walk", forest.depth(to.node())), x_(x) {}

  // The last node of every (sample, tree).
  Value run() {
    const Shape all = {x_.dim(0), static_cast<int64_t>(forest_.roots.size())};
    const Value node = loop_.carry(to_.ints(forest_.roots).reshape({1, all[1]}).expand(all));
    const Value x = loop_.bring(x_).op("GatherElements", {ints(forest_.feature).at(node)}, {{"axis", int64_t{1}}});
    const Value split = numbers(forest_.split, {forest_.size()}).at(node);
    Value goes = comparison(0, x, split, node);
    if (std::any_of(forest_.missing.begin(), forest_.missing.end(), [](int64_t v) { return v != 0; }))
      goes = goes.op("Or", {x.op("IsNaN").op("And", {ints(forest_.missing).at(node).cast(DataType::BOOL)})});
    return loop_.run({where(goes, ints(forest_.yes).at(node), ints(forest_.no).at(node))}, {}).front();
  }

 private:
  Table ints(const Ints &values) { return {loop_.bring(to_.ints(values))}; }
  Table numbers(const Doubles &values, const Shape &shape) {
    return {loop_.bring(to_.constant(TensorData::fromDoubles(TensorInfo(x_.type(), shape), values)))};
  }
  Value is(const Ints &list, int64_t value, const Value &node) {
    const Value there = ints(list).at(node);
    return there.op("Equal", {there.number(static_cast<double>(value))});
  }

  // Whether x takes the branch `yes`, for the modes from `mode` on; modes that no node has are skipped.
  Value comparison(int64_t mode, const Value &x, const Value &split, const Value &node) {
    while (mode < kMember && std::find(forest_.mode.begin(), forest_.mode.end(), mode) == forest_.mode.end()) ++mode;
    if (mode == kMember) return forest_.setOf.empty() ? x.op("Equal", {split}) : isMember(x, node);
    constexpr std::array<const char *, 5> kTypes = {"LessOrEqual", "Less", "GreaterOrEqual", "Greater", "Equal"};
    const Value here = mode == 5 ? x.op("Equal", {split}).op("Not") : x.op(kTypes[mode], {split});
    const bool last = forest_.setOf.empty() && std::none_of(forest_.mode.begin(), forest_.mode.end(),
                                                            [&](int64_t m) { return m > mode && m < kMember; });
    return last ? here : where(is(forest_.mode, mode, node), here, comparison(mode + 1, x, split, node));
  }

  Value isMember(const Value &x, const Value &node) {
    const auto rows = static_cast<int64_t>(forest_.sets.size()) + 1;
    size_t longest = 1;
    for (const Doubles &set : forest_.sets) longest = std::max(longest, set.size());
    to_.node().importer().takeFromBudget(TensorInfo(DataType::DOUBLE, {rows, static_cast<int64_t>(longest)}).nbytes(),
                                         "sets of a forest");
    Doubles padded(longest, std::numeric_limits<double>::quiet_NaN());
    for (const Doubles &set : forest_.sets) {
      padded.insert(padded.end(), set.begin(), set.end());
      padded.resize(padded.size() + longest - set.size(), std::numeric_limits<double>::quiet_NaN());
    }
    const Value set = numbers(padded, {rows, static_cast<int64_t>(longest)}).at(ints(forest_.setOf).at(node));
    const Value same = x.reshape({x.dim(0), x.dim(1), 1}).op("Equal", {set}).cast(DataType::INT32);
    return same.op("ReduceMax", {}, {{"axes", Ints{2}}, {"keepdims", int64_t{0}}}).cast(DataType::BOOL);
  }

  Composer &to_;
  const Forest &forest_;
  LoopWriter loop_;
  Value x_;
};

// Throws popart::error when an index in the file is outside its list.
void check(const NodeContext &n, const Forest &forest, int64_t features) {
  const auto within = [&](const Ints &list, int64_t limit, const char *what) {
    for (int64_t v : list) n.require(v >= 0 && v < limit, "{}: got {}, expected less than {}", what, v, limit);
  };
  within(forest.roots, forest.size(), "root of a tree");
  within(forest.yes, forest.size(), "true branch");
  within(forest.no, forest.size(), "false branch");
  within(forest.feature, features, "feature of a node");
  n.require(!forest.roots.empty(), "a forest needs a tree");
}

Value tableOf(Composer &to, const Forest &forest, DataType type, const Doubles &weight) {
  return to.constant(TensorData::fromDoubles(TensorInfo(type, {forest.size(), forest.targets}), weight));
}

// The last node of every (sample, tree).
Value endsOf(Composer &to, const Forest &forest, const Value &x) {
  check(to.node(), forest, x.dim(1));
  return Walk(to, forest, x).run();
}

Value evaluated(Composer &to, const Forest &forest, const Value &x) {
  const Value ends = endsOf(to, forest, x), all = tableOf(to, forest, x.type(), forest.weight).gather(ends, 0);
  if (forest.aggregate < 2) {
    const Value sum = all.sum({1}, false);
    return forest.aggregate == 1 ? sum : sum / static_cast<double>(forest.roots.size());
  }
  const Value y =
      all.op(forest.aggregate == 2 ? "ReduceMin" : "ReduceMax", {}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}});
  return where(y.op("IsInf"), y.number(0), y);
}

TensorData tensorAttribute(const NodeContext &n, const std::string &name) {
  n.require(n.hasAttr(name), "needs attribute {}", name);
  return n.attr<TensorData>(name, {});
}

// Floats, or doubles from the corresponding tensor attribute.
Doubles numbersOf(const NodeContext &n, const std::string &name) {
  if (n.hasAttr(name + "_as_tensor")) return tensorAttribute(n, name + "_as_tensor").asDoubles();
  const auto floats = n.attr<std::vector<float>>(name, {});
  return Doubles(floats.begin(), floats.end());
}

int64_t bounded(const NodeContext &n, const char *what, int64_t value, int64_t limit) {
  n.require(value >= 0 && value < limit, "{}: got {}, expected 0 to {}", what, value, limit - 1);
  return value;
}

void reserveWeights(const NodeContext &n, Forest &forest, int64_t targets) {
  n.require(targets > 0 && targets <= (int64_t{1} << 31), "attribute n_targets: got {}, expected 1 to 2^31", targets);
  n.importer().takeFromBudget(TensorInfo(DataType::DOUBLE, {forest.size(), targets}).nbytes(), "weights of a forest");
  forest.targets = targets;
  forest.weight.assign(forest.size() * targets, forest.none());
}

// The values that leaves add to targets or classes.
struct LeafWeights {
  Ints nodes, targets;  // indices of the leaves in the forest
  Doubles weights;
};

// The lists nodes_*: nodes named by tree and number.
class TreesByNumber {
 public:
  explicit TreesByNumber(const NodeContext &n) : n_(n), trees_(n.attr<Ints>("nodes_treeids", {})) {
    const Ints ids = n.attr<Ints>("nodes_nodeids", {}), yes = n.attr<Ints>("nodes_truenodeids", {});
    const Ints no = n.attr<Ints>("nodes_falsenodeids", {});
    const Strings modes = n.attr<Strings>("nodes_modes", {});
    const auto count = static_cast<int64_t>(trees_.size());
    forest.resize(count);
    forest.feature = n.attr<Ints>("nodes_featureids", {});
    forest.split = numbersOf(n, "nodes_values");
    forest.missing = n.attr<Ints>("nodes_missing_value_tracks_true", Ints(count, 0));
    for (const size_t size : {ids.size(), yes.size(), no.size(), modes.size(), forest.feature.size(),
                              forest.split.size(), forest.missing.size()})
      n.require(static_cast<int64_t>(size) == count, "lists of nodes must be as long as nodes_treeids, {}: got {}",
                count, static_cast<int64_t>(size));
    for (int64_t i = 0; i < count; ++i)
      n.require(index_.emplace(std::pair(trees_[i], ids[i]), i).second, "node {} of tree {} is there twice", ids[i],
                trees_[i]);
    branch(modes, yes, no);
    findRoots(ids);
  }

  // The lists `of`_treeids, `of`_nodeids, `of`_ids and `of`_weights ("target", "class").
  LeafWeights leaves(const std::string &of) const {
    const Ints owners = n_.attr<Ints>(of + "_treeids", {}), nodes = n_.attr<Ints>(of + "_nodeids", {});
    LeafWeights leaves{{}, n_.attr<Ints>(of + "_ids", {}), numbersOf(n_, of + "_weights")};
    n_.require(nodes.size() == owners.size() && leaves.targets.size() == owners.size() &&
                   leaves.weights.size() == owners.size(),
               "lists {}_* must be as long as each other: got {} trees", of, static_cast<int64_t>(owners.size()));
    for (size_t i = 0; i < owners.size(); ++i) leaves.nodes.push_back(find(owners[i], nodes[i]));
    return leaves;
  }

  Forest forest;

 private:
  int64_t find(int64_t tree, int64_t id) const {
    const auto found = index_.find({tree, id});
    n_.require(found != index_.end(), "tree {} has no node {}", tree, id);
    return found->second;
  }

  void branch(const Strings &modes, const Ints &yes, const Ints &no) {
    for (int64_t i = 0; i < forest.size(); ++i) {
      forest.mode[i] = indexOf(n_, "nodes_modes", kModes, modes[i]);
      n_.require(forest.mode[i] != kMember, "attribute nodes_modes: 'BRANCH_MEMBER' belongs to TreeEnsemble");
      if (forest.mode[i] == kLeaf) {
        forest.feature[i] = 0;
        continue;
      }
      forest.yes[i] = find(trees_[i], yes[i]);
      forest.no[i] = find(trees_[i], no[i]);
    }
  }

  void findRoots(const Ints &ids) {
    std::vector<bool> isChild(trees_.size());
    for (int64_t i = 0; i < forest.size(); ++i)
      if (forest.mode[i] != kLeaf) isChild[forest.yes[i]] = isChild[forest.no[i]] = true;
    std::set<int64_t> withRoot;
    for (int64_t i = 0; i < forest.size(); ++i) {
      if (isChild[i]) continue;
      n_.require(withRoot.insert(trees_[i]).second, "tree {} has two nodes that no branch leads to, {} is the second",
                 trees_[i], ids[i]);
      forest.roots.push_back(i);
    }
    for (const int64_t tree : trees_)
      n_.require(withRoot.contains(tree), "tree {} has no root: branches lead to all nodes", tree);
  }

  const NodeContext &n_;
  Ints trees_;
  std::map<std::pair<int64_t, int64_t>, int64_t> index_;
};

Forest regressor(const NodeContext &n) {
  TreesByNumber trees(n);
  trees.forest.aggregate =
      indexOf(n, "aggregate_function", kAggregates, n.attr<std::string>("aggregate_function", "SUM"));
  reserveWeights(n, trees.forest, n.attr<int64_t>("n_targets", 1));
  const LeafWeights leaves = trees.leaves("target");
  for (size_t i = 0; i < leaves.nodes.size(); ++i)
    trees.forest.addWeight(leaves.nodes[i], bounded(n, "target_ids", leaves.targets[i], trees.forest.targets),
                           leaves.weights[i]);
  return std::move(trees.forest);
}

// Trees that vote for classes.
class ForestOfClasses {
 public:
  explicit ForestOfClasses(NodeContext &n)
      : n_(n),
        to_(n),
        labels_(classLabels(n, "classlabels_int64s")),
        transform_(n.attr<std::string>("post_transform", "NONE")),
        base_(numbersOf(n, "base_values")) {}

  void import() {
    TreesByNumber trees(n_);
    LeafWeights leaves = trees.leaves("class");
    const auto classes = static_cast<int64_t>(labels_.size());
    n_.require(classes > 0, "needs labels: attribute classlabels_int64s or classlabels_strings");
    for (const int64_t id : leaves.targets) bounded(n_, "class_ids", id, classes);
    n_.require(!leaves.targets.empty(), "needs weights of classes: class_ids is empty");
    const auto isFirst = [&](int64_t id) { return id == leaves.targets[0]; };
    const bool single = classes == 2 && base_.size() <= 1 && std::ranges::all_of(leaves.targets, isFirst);
    n_.require(single || base_.empty() || static_cast<int64_t>(base_.size()) == classes,
               "attribute base_values: got {} numbers, expected none or one for each of {} classes",
               static_cast<int64_t>(base_.size()), classes);
    positive_ = std::ranges::all_of(leaves.weights, [](double weight) { return weight >= 0; });
    const int64_t named = leaves.targets[0];
    if (single) std::ranges::fill(leaves.targets, 0);
    Forest &forest = trees.forest;
    reserveWeights(n_, forest, single ? 1 : classes);
    for (size_t i = 0; i < leaves.nodes.size(); ++i)
      forest.addWeight(leaves.nodes[i], leaves.targets[i], leaves.weights[i]);
    const Value x = featureRows(to_, 0, true), ends = endsOf(to_, forest, x);
    Value scores = tableOf(to_, forest, x.type(), forest.weight).gather(ends, 0).sum({1}, false);
    if (!base_.empty())
      scores = scores +
               to_.constant(TensorData::fromDoubles(TensorInfo(x.type(), {static_cast<int64_t>(base_.size())}), base_));
    single ? giveTwo(scores, named) : giveAll(forest, leaves, ends, scores);
  }

 private:
  // Scores (N, 1) of the only class that leaves name. They are scores of the second class, above a half, or above 0 if
  // weights may be negative. If leaves name only the first class, it gets the counterpart, otherwise 0.
  void giveTwo(const Value &scores, int64_t named) {
    const Value isSecond = scores.op("Greater", {scores.number(positive_ ? 0.5 : 0)});
    giveLabels(to_, isSecond.cast(DataType::INT64).reshape({scores.dim(0)}), labels_);
    if (!n_.hasOut(1)) return;
    const Value given = scores.cast(DataType::FLOAT);
    to_.result(1, named == 0
                      ? bothClasses(n_, given, transform_, positive_ ? Counterpart::Rest : Counterpart::Opposite)
                      : classScores(n_, concat({to_.zeros(DataType::FLOAT, given.shape()), given}, 1), transform_));
  }

  void giveAll(const Forest &forest, const LeafWeights &leaves, const Value &ends, const Value &scores) {
    Value eligible = scores;
    // A class that no leaf names for a sample is not its top class.
    if (!positive_ && base_.empty()) {
      Doubles isNamed(forest.weight.size(), 0);
      for (size_t i = 0; i < leaves.nodes.size(); ++i)
        isNamed[static_cast<size_t>(leaves.nodes[i] * forest.targets + leaves.targets[i])] = 1;
      const Value named = tableOf(to_, forest, scores.type(), isNamed).gather(ends, 0).sum({1}, false);
      eligible = where(named.op("Greater", {named.number(0)}), scores,
                       scores.number(-std::numeric_limits<double>::infinity()));
    }
    giveLabels(to_, topClass(eligible), labels_);
    if (n_.hasOut(1)) to_.result(1, classScores(n_, scores.cast(DataType::FLOAT), transform_));
  }

  NodeContext &n_;
  Composer to_;
  Ints labels_;
  std::string transform_;
  Doubles base_;
  bool positive_ = true;  // whether no weight is negative
};

Forest ensemble(const NodeContext &n) {
  const Doubles splits = tensorAttribute(n, "nodes_splits").asDoubles();
  const Doubles weights = tensorAttribute(n, "leaf_weights").asDoubles();
  const Ints modes = tensorAttribute(n, "nodes_modes").asInts(), targets = n.attr<Ints>("leaf_targetids", {});
  const auto count = static_cast<int64_t>(splits.size()), leaves = static_cast<int64_t>(weights.size());
  Forest forest;
  forest.resize(count + leaves);
  forest.aggregate = bounded(n, "aggregate_function", n.attr<int64_t>("aggregate_function", 1),
                             static_cast<int64_t>(kAggregates.size()));
  forest.roots = n.attr<Ints>("tree_roots", {});
  for (int64_t root : forest.roots) bounded(n, "tree_roots", root, count);
  const auto list = [&](const char *name, int64_t expected) {
    const Ints values = n.attr<Ints>(name, Ints(count, 0));
    n.require(static_cast<int64_t>(values.size()) == expected, "attribute {} must have {} entries: got {}", name,
              expected, static_cast<int64_t>(values.size()));
    return values;
  };
  n.require(static_cast<int64_t>(modes.size()) == count && static_cast<int64_t>(targets.size()) == leaves,
            "nodes_modes and nodes_splits, and leaf_targetids and leaf_weights must be as long as each other: got {}, "
            "{}, {}, {}",
            static_cast<int64_t>(modes.size()), count, static_cast<int64_t>(targets.size()), leaves);
  const Ints features = list("nodes_featureids", count), missing = list("nodes_missing_value_tracks_true", count);
  const Ints yes = list("nodes_truenodeids", count), no = list("nodes_falsenodeids", count);
  const Ints yesLeaf = list("nodes_trueleafs", count), noLeaf = list("nodes_falseleafs", count);
  const auto child = [&](int64_t id, bool leaf) {
    return leaf ? count + bounded(n, "leaf", id, leaves) : bounded(n, "node", id, count);
  };
  for (int64_t i = 0; i < count; ++i) {
    forest.mode[i] = bounded(n, "nodes_modes", modes[i], kLeaf);
    forest.feature[i] = features[i];
    forest.missing[i] = missing[i];
    forest.split[i] = splits[i];
    forest.yes[i] = child(yes[i], yesLeaf[i] != 0);
    forest.no[i] = child(no[i], noLeaf[i] != 0);
  }
  if (std::find(modes.begin(), modes.end(), kMember) != modes.end()) {
    const Doubles values = tensorAttribute(n, "membership_values").asDoubles();
    forest.setOf.resize(count + leaves, 0);
    auto at = values.begin();  // the sets, in the order of the nodes, each followed by a NaN
    for (int64_t i = 0; i < count; ++i) {
      if (modes[i] != kMember) continue;
      n.require(at != values.end(), "attribute membership_values ends before the set of node {}", i);
      Doubles &set = forest.sets.emplace_back();
      forest.setOf[i] = static_cast<int64_t>(forest.sets.size());
      for (; at != values.end() && !std::isnan(*at); ++at) set.push_back(*at);
      if (at != values.end()) ++at;
    }
  }
  reserveWeights(n, forest, n.attr<int64_t>("n_targets", 1));
  for (int64_t i = 0; i < leaves; ++i)
    forest.addWeight(count + i, bounded(n, "leaf_targetids", targets[i], forest.targets), weights[i]);
  return forest;
}

}  // namespace

void importTreeEnsembleRegressor(NodeContext &n) {
  Composer to(n);
  Value y = evaluated(to, regressor(n), featureRows(to, 0, true));
  const Doubles base = numbersOf(n, "base_values");
  if (!base.empty()) {
    n.require(static_cast<int64_t>(base.size()) == y.dim(1), "base_values must have {} numbers: got {}", y.dim(1),
              static_cast<int64_t>(base.size()));
    y = y + to.constant(TensorData::fromDoubles(TensorInfo(y.type(), {y.dim(1)}), base));
  }
  to.result(0, postTransformed(n, y.cast(DataType::FLOAT), n.attr<std::string>("post_transform", "NONE")));
}

void importTreeEnsembleClassifier(NodeContext &n) { ForestOfClasses(n).import(); }

void importTreeEnsemble(NodeContext &n) {
  Composer to(n);
  constexpr std::array<const char *, 5> kTransforms = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const int64_t transform =
      bounded(n, "post_transform", n.attr<int64_t>("post_transform", 0), int64_t{kTransforms.size()});
  const Value y = evaluated(to, ensemble(n), featureRows(to, 0, true));
  to.result(0, postTransformed(n, y, kTransforms[transform]).cast(n.info(0).dataType()));
}

}  // namespace popart::onnx
