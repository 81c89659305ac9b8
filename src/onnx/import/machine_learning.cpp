// Operators of ai.onnx.ml over numbers; forests are in forest.cpp. Source: the operator pages of ai.onnx.ml, 1 to 5.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <popart/error.hpp>

#include "onnx/import/machine_learning.hpp"

namespace popart::onnx {
namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

Value list(Composer &to, DataType type, const Floats &values) {
  return to.constant(TensorData::fromDoubles(TensorInfo(type, {static_cast<int64_t>(values.size())}),
                                             std::vector<double>(values.begin(), values.end())));
}

// The numbers of a list attribute: there must be one, or one for each element of the last dimension of x.
Value perFeature(Composer &to, const Value &x, const char *attribute, const Value &numbers) {
  to.node().require(numbers.dim(0) == 1 || (x.rank() > 0 && numbers.dim(0) == x.dim(-1)),
                    "attribute {} must have one number, or one for each of {}: got {}", attribute, x.info(),
                    numbers.dim(0));
  return numbers;
}

Value floatPerFeature(Composer &to, const Value &x, const char *attribute, float fallback) {
  return perFeature(to, x, attribute, list(to, x.type(), to.node().attr<Floats>(attribute, {fallback})));
}

// Adds a dimension for comparing each element with a list.
Value asColumn(const Value &x) {
  Shape shape = x.shape();
  shape.push_back(1);
  return x.reshape(shape);
}

void importArrayFeatureExtractor(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0), at = to.input(1);
  n.require(x.rank() >= 1, "X must have a dimension: got {}", x.info());
  const Value y = x.gather(at.reshape({at.info().nelms()}), x.rank() - 1);
  to.result(0, x.rank() == 1 ? y.reshape({1, y.dim(0)}) : y);
}

void importBinarizer(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0);
  const double threshold = n.attr("threshold", 0.0f);  // an integer above it is above the integer below it
  to.result(0,
            x.op("Greater", {x.number(isFloatingPoint(x.type()) ? threshold : std::floor(threshold))}).cast(x.type()));
}

void importScaler(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0).cast(DataType::FLOAT);
  to.result(0, (x - floatPerFeature(to, x, "offset", 0)) * floatPerFeature(to, x, "scale", 1));
}

// Rows whose divisor is 0 do not change.
void importNormalizer(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0).cast(DataType::FLOAT);
  n.require(x.rank() == 1 || x.rank() == 2, "X must be (C) or (N, C): got {}", x.info());
  const Ints axes = {x.rank() - 1};
  const std::string norm = n.attr<std::string>("norm", "MAX");
  Value divisor;
  if (norm == "MAX")
    divisor = x.op("ReduceMax", {}, {{"axes", axes}, {"keepdims", int64_t{1}}});
  else if (norm == "L1")
    divisor = x.op("Abs").sum(axes, true);
  else if (norm == "L2")
    divisor = (x * x).sum(axes, true);
  else
    n.fail("attribute norm: got '{}', expected MAX, L1 or L2", norm);
  const Value safe = where(divisor.op("Equal", {divisor.number(0)}), divisor.number(1), divisor);
  to.result(0, x / (norm == "L2" ? safe.op("Sqrt") : safe));
}

void importFeatureVectorizer(NodeContext &n) {
  Composer to(n);
  const Ints sizes = n.attr<Ints>("inputdimensions", {});
  std::vector<Value> parts;
  for (int i = 0; i < n.inputCount(); ++i) {
    const Value x = featureRows(to, i);
    n.require(sizes.empty() || (i < static_cast<int>(sizes.size()) && sizes[i] == x.dim(1)),
              "input {} must have as many features as inputdimensions says: got {} and {}", i, x.info(), sizes);
    parts.push_back(x);
  }
  to.result(0, concat(parts, 1));
}

void importImputer(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0);
  const bool floats = isFloatingPoint(x.type());
  const char *attribute = floats ? "imputed_value_floats" : "imputed_value_int64s";
  n.require(n.hasAttr(attribute), "attribute {} is missing for {}", attribute, x.info());
  const Value values =
      floats ? list(to, x.type(), n.attr<Floats>(attribute, {})) : to.ints(n.attr<Ints>(attribute, {})).cast(x.type());
  const float number = n.attr("replaced_value_float", 0.0f);
  const Value replaced =
      floats ? x.number(number) : to.ints({n.attr<int64_t>("replaced_value_int64", 0)}).cast(x.type());
  const Value old = floats && std::isnan(number) ? x.op("IsNaN") : x.op("Equal", {replaced});
  to.result(0, where(old, perFeature(to, x, attribute, values), x));
}

// The list attribute of a dictionary: floats, integers or a tensor.
TensorData dictionaryList(const NodeContext &n, const char *floats, const char *ints, const char *tensor) {
  TensorData list;
  if (n.hasAttr(floats)) {
    const Floats given = n.attr<Floats>(floats, {});
    list = TensorData::of<float>({static_cast<int64_t>(given.size())}, given);
  } else if (n.hasAttr(ints)) {
    const Ints given = n.attr<Ints>(ints, {});
    list = TensorData::of<int64_t>({static_cast<int64_t>(given.size())}, given);
  } else {
    n.require(n.hasAttr(tensor), "needs attribute {}, {} or {}: text is the host's, run the model with popart.backend",
              floats, ints, tensor);
    list = n.attr<TensorData>(tensor, {});
  }
  n.require(list.info().rank() == 1 && list.info().nelms() > 0, "attribute {}: got {}, expected a list", tensor,
            list.info());
  return list;
}

// The positions of the keys in their list, ascending; of equal keys the last one, and none for NaN.
template <class T>
Ints ascending(const std::vector<T> &keys) {
  Ints order;
  for (size_t i = 0; i < keys.size(); ++i)
    if (keys[i] == keys[i]) order.push_back(static_cast<int64_t>(i));
  std::ranges::stable_sort(order, {}, [&](int64_t i) { return keys[i]; });
  Ints kept;
  for (size_t i = 0; i < order.size(); ++i)
    if (i + 1 == order.size() || keys[order[i]] != keys[order[i + 1]]) kept.push_back(order[i]);
  return kept;
}

// The value for an element that is not a key.
Value defaultOf(Composer &to, DataType type) {
  const NodeContext &n = to.node();
  if (n.hasAttr("default_tensor")) {
    const auto given = n.attr<TensorData>("default_tensor", {});
    n.require(given.info().nelms() == 1 && given.info().dataType() == type,
              "attribute default_tensor: got {}, expected one value of type {}", given.info(), type);
    return to.constant(given).reshape({1});
  }
  return isFloatingPoint(type) ? list(to, type, {n.attr("default_float", -0.0f)})
                               : to.ints({n.attr<int64_t>("default_int64", -1)}).cast(type);
}

// Searches the keys; their values follow in a table: those of the ascending keys, that of NaN, and the default.
void importLabelEncoder(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0);
  const TensorData keys = dictionaryList(n, "keys_floats", "keys_int64s", "keys_tensor");
  const TensorData values = dictionaryList(n, "values_floats", "values_int64s", "values_tensor");
  n.require(values.info().shape() == keys.info().shape() && keys.info().dataType() == x.type(),
            "keys of the type of X, and as many values: got {}, {} and {}", keys.info(), values.info(), x.info());
  const bool floats = isFloatingPoint(x.type());
  Ints order = floats ? ascending(keys.asDoubles()) : ascending(keys.asInts());
  const auto count = static_cast<int64_t>(order.size());
  const Value place = count == 0 ? to.ints({-1}).reshape({}).expand(x.shape())
                                 : placeIn(x, to.constant(keys).gather(to.ints(order), 0));
  int64_t missing = -1;
  if (floats)
    for (int64_t i = 0; const double key : keys.asDoubles()) {
      if (std::isnan(key)) missing = i;
      ++i;
    }
  if (missing >= 0) order.push_back(missing);
  const Value all = to.constant(values), table = concat({all.gather(to.ints(order), 0), defaultOf(to, all.type())}, 0);
  Value row = where(place.op("Less", {place.number(0)}), place.number(static_cast<double>(order.size())), place);
  if (missing >= 0) row = where(x.op("IsNaN"), row.number(static_cast<double>(count)), row);
  to.result(0, table.gather(row, 0));
}

void importOneHotEncoder(NodeContext &n) {
  Composer to(n);
  n.require(n.hasAttr("cats_int64s"), "needs attribute cats_int64s: strings are not supported");
  n.require(n.attr<int64_t>("zeros", 1) != 0, "zeros = 0 is not supported: unknown categories give zeros");
  const Value x = to.input(0).cast(DataType::INT64);
  to.result(0, asColumn(x).op("Equal", {to.ints(n.attr<Ints>("cats_int64s", {}))}).cast(DataType::FLOAT));
}

// X (N, C) times a row of coefficients for each result, plus an intercept.
Value linear(Composer &to, const Value &x, int64_t results) {
  const NodeContext &n = to.node();
  const Floats coefficients = n.attr<Floats>("coefficients", {}), intercepts = n.attr<Floats>("intercepts", {});
  const auto count = static_cast<int64_t>(coefficients.size());
  n.require(results > 0 && results <= count && count == results * x.dim(1),
            "attribute coefficients must be {} times the features of X: got {} for {}", results, count, x.info());
  Value y = matmul(x, list(to, DataType::FLOAT, coefficients).reshape({results, x.dim(1)}).transpose({1, 0}));
  n.require(intercepts.empty() || static_cast<int64_t>(intercepts.size()) == results,
            "attribute intercepts: got {} numbers, expected {}", static_cast<int64_t>(intercepts.size()), results);
  return intercepts.empty() ? y : y + list(to, DataType::FLOAT, intercepts);
}

void importLinearRegressor(NodeContext &n) {
  Composer to(n);
  const Value y = linear(to, featureRows(to, 0), n.attr<int64_t>("targets", 1));
  to.result(0, postTransformed(n, y, n.attr<std::string>("post_transform", "NONE")));
}

// A single score belongs to the second of two classes, which are 0 and 1 without labels.
void importLinearClassifier(NodeContext &n) {
  Composer to(n);
  const Value x = featureRows(to, 0);
  const Ints labels = classLabels(n, "classlabels_ints");
  const auto transform = n.attr<std::string>("post_transform", "NONE");
  const auto intercepts = static_cast<int64_t>(n.attr<Floats>("intercepts", {}).size());
  const auto coefficients = static_cast<int64_t>(n.attr<Floats>("coefficients", {}).size());
  const Value scores = linear(to, x, intercepts > 0 ? intercepts : coefficients / x.dim(1));
  const auto count = static_cast<int64_t>(labels.size());
  const bool single = scores.dim(1) == 1;
  n.require(single ? count == 0 || count == 2 : count >= scores.dim(1),
            "labels (classlabels_ints or classlabels_strings): got {} for {} scores, expected one for each, or two "
            "or none for a single score",
            count, scores.dim(1));
  if (single)
    giveLabels(to, scores.op("Greater", {scores.number(0)}).cast(DataType::INT64).reshape({scores.dim(0)}),
               labels.empty() ? Ints{0, 1} : labels);
  else
    giveLabels(to, topClass(scores), labels);
  if (!n.hasOut(1)) return;
  to.result(1, single && count == 2 ? bothClasses(n, scores, transform, Counterpart::Rest)
                                    : classScores(n, scores, transform));
}

}  // namespace

Value featureRows(Composer &to, int i, bool keepDoubles) {
  Value x = to.input(i);
  if (!keepDoubles || x.type() != DataType::DOUBLE) x = x.cast(DataType::FLOAT);
  if (x.rank() == 1) x = x.reshape({1, x.dim(0)});
  to.node().require(x.rank() == 2 && x.dim(1) > 0, "input {} must be (N, C) or (C): got {}", i, to.input(i).info());
  return x;
}

std::vector<ImportRule> machineLearningRules() {
  constexpr const char *kDomain = "ai.onnx.ml";
  return {
      {kDomain,
       "TreeEnsembleRegressor",
       importTreeEnsembleRegressor,
       {"X", "Y",
        "aggregate_function base_values base_values_as_tensor n_targets nodes_falsenodeids nodes_featureids "
        "nodes_hitrates nodes_hitrates_as_tensor nodes_missing_value_tracks_true nodes_modes nodes_nodeids "
        "nodes_treeids nodes_truenodeids nodes_values nodes_values_as_tensor post_transform target_ids target_nodeids "
        "target_treeids target_weights target_weights_as_tensor"},
       false,
       {1, 3}},
      {kDomain,
       "TreeEnsembleClassifier",
       importTreeEnsembleClassifier,
       {"X", "Y Z",
        "base_values base_values_as_tensor class_ids class_nodeids class_treeids class_weights class_weights_as_tensor "
        "classlabels_int64s classlabels_strings nodes_falsenodeids nodes_featureids nodes_hitrates "
        "nodes_hitrates_as_tensor nodes_missing_value_tracks_true nodes_modes nodes_nodeids nodes_treeids "
        "nodes_truenodeids nodes_values nodes_values_as_tensor post_transform"},
       false,
       {1, 3}},
      {kDomain,
       "TreeEnsemble",
       importTreeEnsemble,
       {"X", "Y",
        "aggregate_function leaf_targetids leaf_weights membership_values n_targets nodes_falseleafs "
        "nodes_falsenodeids nodes_featureids nodes_hitrates nodes_missing_value_tracks_true nodes_modes nodes_splits "
        "nodes_trueleafs nodes_truenodeids post_transform tree_roots"},
       false,
       {5}},
      {kDomain, "ArrayFeatureExtractor", importArrayFeatureExtractor, {"X Y", "Z", ""}},
      {kDomain, "Binarizer", importBinarizer, {"X", "Y", "threshold"}},
      {kDomain, "Scaler", importScaler, {"X", "Y", "offset scale"}},
      {kDomain, "Normalizer", importNormalizer, {"X", "Y", "norm"}},
      {kDomain, "FeatureVectorizer", importFeatureVectorizer, {"X", "Y", "inputdimensions"}},
      {kDomain,
       "Imputer",
       importImputer,
       {"X", "Y", "imputed_value_floats imputed_value_int64s replaced_value_float replaced_value_int64"}},
      {kDomain,
       "LabelEncoder",
       importLabelEncoder,
       {"X", "Y",
        "default_float default_int64 default_tensor keys_floats keys_int64s keys_tensor values_floats values_int64s "
        "values_tensor"},
       false,
       {2, 4}},
      {kDomain, "OneHotEncoder", importOneHotEncoder, {"X", "Y", "cats_int64s zeros"}},
      {kDomain, "LinearRegressor", importLinearRegressor, {"X", "Y", "coefficients intercepts post_transform targets"}},
      {kDomain,
       "LinearClassifier",
       importLinearClassifier,
       {"X", "Y Z", "classlabels_ints classlabels_strings coefficients intercepts multi_class post_transform"}}};
}

}  // namespace popart::onnx
