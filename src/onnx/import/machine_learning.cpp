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

// The numbers of a list attribute, which must be one, or one for each element of the last dimension of x.
Value perFeature(Composer &to, const Value &x, const char *attribute, const Value &numbers) {
  to.node().require(numbers.dim(0) == 1 || (x.rank() > 0 && numbers.dim(0) == x.dim(-1)),
                    "attribute {} must have one number, or one for each of {}: got {}", attribute, x.info(),
                    numbers.dim(0));
  return numbers;
}

Value floatPerFeature(Composer &to, const Value &x, const char *attribute, float fallback) {
  return perFeature(to, x, attribute, list(to, x.type(), to.node().attr<Floats>(attribute, {fallback})));
}

// Each element in a dimension of its own, to be compared with a list.
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

// Rows whose divisor is 0 stay as they are.
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

// Where each element stands in `keys` (the last of equal ones), or -1.
Value placeOf(Composer &to, const Value &x, const Value &keys) {
  Ints numbers(static_cast<size_t>(keys.dim(0)));
  std::iota(numbers.begin(), numbers.end(), 0);
  const Value one = asColumn(x);
  Value same = one.op("Equal", {keys});
  if (isFloatingPoint(x.type())) same = same.op("Or", {one.op("IsNaN").op("And", {keys.op("IsNaN")})});
  const Value place = to.ints(numbers);
  return where(same, place, place.number(-1)).op("ReduceMax", {}, {{"axes", Ints{x.rank()}}, {"keepdims", int64_t{0}}});
}

// The numbers of a list attribute of floats or integers as a constant; absent: none.
Value numbersOf(Composer &to, const char *floats, const char *ints, const char *tensor) {
  const NodeContext &n = to.node();
  if (n.hasAttr(floats)) return list(to, DataType::FLOAT, n.attr<Floats>(floats, {}));
  if (n.hasAttr(ints)) return to.ints(n.attr<Ints>(ints, {}));
  if (n.hasAttr(tensor)) return to.constant(n.attr<TensorData>(tensor, TensorData::scalar<float>(0)));
  n.fail("needs attribute {}, {} or {}: strings are not supported", floats, ints, tensor);
}

void importLabelEncoder(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0), keys = numbersOf(to, "keys_floats", "keys_int64s", "keys_tensor");
  const Value values = numbersOf(to, "values_floats", "values_int64s", "values_tensor");
  n.require(keys.rank() == 1 && values.shape() == keys.shape() && keys.dim(0) > 0 && keys.type() == x.type(),
            "keys of the type of X, and as many values: got {}, {} and {}", keys.info(), values.info(), x.info());
  Value other =
      values.number(isFloatingPoint(values.type()) ? n.attr("default_float", -0.0f)
                                                   : static_cast<double>(n.attr<int64_t>("default_int64", -1)));
  if (n.hasAttr("default_tensor"))
    other = to.constant(n.attr<TensorData>("default_tensor", TensorData::scalar<float>(0))).reshape({});
  const Value place = placeOf(to, x, keys), found = place.op("GreaterOrEqual", {place.number(0)});
  to.result(0, where(found, values.gather(where(found, place, place.number(0)), 0), other));
}

void importOneHotEncoder(NodeContext &n) {
  Composer to(n);
  n.require(n.hasAttr("cats_int64s"), "needs attribute cats_int64s: strings are not supported");
  n.require(n.attr<int64_t>("zeros", 1) != 0, "zeros = 0 is not supported: unknown categories give zeros");
  const Value x = to.input(0).cast(DataType::INT64);
  to.result(0, asColumn(x).op("Equal", {to.ints(n.attr<Ints>("cats_int64s", {}))}).cast(DataType::FLOAT));
}

// X (N, C) times a row of coefficients for each result, and an intercept.
Value linear(Composer &to, int64_t results) {
  const NodeContext &n = to.node();
  const Value x = featureRows(to, 0);
  const Floats coefficients = n.attr<Floats>("coefficients", {}), intercepts = n.attr<Floats>("intercepts", {});
  n.require(results > 0 && static_cast<int64_t>(coefficients.size()) == results * x.dim(1),
            "coefficients must be {} times the features of X: got {} for {}", results,
            static_cast<int64_t>(coefficients.size()), x.info());
  Value y = matmul(x, list(to, DataType::FLOAT, coefficients).reshape({results, x.dim(1)}).transpose({1, 0}));
  n.require(intercepts.empty() || static_cast<int64_t>(intercepts.size()) == results,
            "intercepts: got {} numbers, expected {}", static_cast<int64_t>(intercepts.size()), results);
  return intercepts.empty() ? y : y + list(to, DataType::FLOAT, intercepts);
}

void importLinearRegressor(NodeContext &n) {
  Composer to(n);
  to.result(
      0, postTransformed(n, linear(to, n.attr<int64_t>("targets", 1)), n.attr<std::string>("post_transform", "NONE")));
}

}  // namespace

Value featureRows(Composer &to, int i, bool keepDoubles) {
  Value x = to.input(i);
  if (!keepDoubles || x.type() != DataType::DOUBLE) x = x.cast(DataType::FLOAT);
  if (x.rank() == 1) x = x.reshape({1, x.dim(0)});
  to.node().require(x.rank() == 2 && x.dim(1) > 0, "input {} must be (N, C) or (C): got {}", i, to.input(i).info());
  return x;
}

Value postTransformed(const NodeContext &n, const Value &y, const std::string &transform) {
  if (transform == "NONE") return y;
  if (transform == "LOGISTIC") return sigmoid(y);
  if (transform == "SOFTMAX") return y.op("Softmax", {}, {{"axis", int64_t{y.rank() - 1}}});
  n.fail("attribute post_transform: got '{}', expected NONE, LOGISTIC or SOFTMAX", transform);
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
        "target_treeids target_weights target_weights_as_tensor"}},
      {kDomain,
       "TreeEnsemble",
       importTreeEnsemble,
       {"X", "Y",
        "aggregate_function leaf_targetids leaf_weights membership_values n_targets nodes_falseleafs "
        "nodes_falsenodeids nodes_featureids nodes_hitrates nodes_missing_value_tracks_true nodes_modes nodes_splits "
        "nodes_trueleafs nodes_truenodeids post_transform tree_roots"}},
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
        "values_tensor"}},
      {kDomain, "OneHotEncoder", importOneHotEncoder, {"X", "Y", "cats_int64s zeros"}},
      {kDomain,
       "LinearRegressor",
       importLinearRegressor,
       {"X", "Y", "coefficients intercepts post_transform targets"}}};
}

}  // namespace popart::onnx
