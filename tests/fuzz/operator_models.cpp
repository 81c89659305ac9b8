// Small models of the operators that have import rules of their own, written as messages: builders do not make
// sequences, and a rule is to see every form of its node.
#include "operator_models.hpp"

#include <cmath>

#include "microsoft_models.hpp"

namespace popart::fuzz {
namespace {

using namespace draft;

std::string attentionModel() {
  Draft d;
  const std::string q = d.input({1, 2, 4, 4}), k = d.weights({1, 2, 4, 4}), v = d.weights({1, 2, 4, 4});
  d.keep("Attention", {q, k, v, d.weights({4, 4})}, {{"is_causal", int64_t{1}}, {"softcap", 2.0f}});
  d.keep("Attention", {q, k, v, "", k, v}, {{"qk_matmul_output_mode", int64_t{2}}, {"scale", 0.5f}}, 4);
  const std::string flat = d.input({1, 4, 8});
  d.keep("Attention", {flat, flat, flat, "", "", "", d.ints({3})},
         {{"q_num_heads", int64_t{2}}, {"kv_num_heads", int64_t{2}}, {"left_window_size", int64_t{1}}});
  NodeProto *flexible = d.node(kPreview, "FlexAttention", {q, k, v});
  addTo(d.body(flexible, "score_mod", {"s"}), "Tanh", {"s"}, "m", true);
  d.keep(flexible->output(0));
  d.keep("RotaryEmbedding",
         {q, d.weights({8, 2}), d.weights({8, 2}), d.constant(tensor<int64_t>(7, {1, 4}, {0, 2, 1, 7}))},
         {{"interleaved", int64_t{1}}});
  d.keep("SwiGLU", {d.add("Reshape", {q, d.ints({4, 8})}), d.weights({4, 8})}, {});
  d.keep("TensorScatter", {d.weights({1, 2, 8, 4}), q, d.ints({2})}, {{"mode", std::string("circular")}});
  d.keep("LinearAttention", {flat, flat, flat, "", d.weights({1, 4, 2}), d.weights({1, 4, 2})},
         {{"q_num_heads", int64_t{2}}, {"kv_num_heads", int64_t{2}}}, 2);
  d.keep("CausalConvWithState", {d.input({1, 2, 5}), d.weights({2, 1, 3}), d.weights({2}), d.weights({1, 2, 2})},
         {{"activation", std::string("silu")}}, 2);
  return d.serialised();
}

std::string signalModel() {
  Draft d;
  const std::string x = d.input({1, 12, 1});
  d.keep("DFT", {x, d.integer(8), d.integer(1)}, {{"onesided", int64_t{1}}});
  d.keep("DFT", {d.input({1, 6, 2})}, {{"inverse", int64_t{1}}});
  for (const char *type : {"HannWindow", "HammingWindow", "BlackmanWindow"})
    d.keep(type, {d.integer(4)}, {{"periodic", int64_t{0}}});
  d.keep("STFT", {x, d.integer(2), d.weights({4}), d.integer(4)}, {});
  d.keep("MelWeightMatrix", {d.integer(3), d.integer(16), d.integer(8000), d.number(100), d.number(4000)}, {});
  d.keep("Det", {d.input({2, 3, 3})}, {});
  d.keep("Einsum", {d.input({2, 3, 3}), d.weights({3, 4})}, {{"equation", std::string("bii,ij->bj")}});
  d.keep("Einsum", {d.input({2, 3}), d.weights({3, 4}), d.weights({4})}, {{"equation", std::string("...a,ab,b")}});
  return d.serialised();
}

std::string samplingModel() {
  Draft d;
  const std::string x = d.input({1, 2, 4, 4});
  d.keep("GridSample", {x, d.weights({1, 3, 3, 2})},
         {{"mode", std::string("cubic")}, {"padding_mode", std::string("reflection")}});
  d.keep("AffineGrid", {d.input({1, 2, 3}), d.ints({1, 2, 3, 3})}, {{"align_corners", int64_t{1}}});
  d.keep("DeformConv", {x, d.weights({2, 1, 2, 2}), d.weights({1, 8, 3, 3}), d.weights({2}), d.weights({1, 4, 3, 3})},
         {{"group", int64_t{2}}});
  const NodeProto *pool = d.node("", "MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}, 2);
  const std::string kept = pool->output(0), places = pool->output(1);
  d.keep("MaxUnpool", {kept, places, d.ints({1, 2, 5, 4})}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  d.keep("Resize", {x, d.constant(floats({4}, {0.1f, 0.2f, 0.9f, 0.8f})), d.constant(floats({2}, {1.5f, 2}))},
         {{"axes", Ints{2, 3}},
          {"mode", std::string("cubic")},
          {"coordinate_transformation_mode", std::string("tf_crop_and_resize")}});
  d.keep("Resize", {x, "", "", d.ints({3, 7})},
         {{"axes", Ints{3, 2}},
          {"mode", std::string("linear")},
          {"antialias", int64_t{1}},
          {"keep_aspect_ratio_policy", std::string("not_larger")}});
  d.keep("RoiAlign", {x, d.constant(floats({1, 4}, {0, 0, 3, 3})), d.ints({0})},
         {{"output_height", int64_t{2}}, {"sampling_ratio", int64_t{2}}});
  d.keep("MaxRoiPool", {x, d.constant(floats({1, 5}, {0, 0, 0, 3, 3}))},
         {{"pooled_shape", Ints{2, 3}}, {"spatial_scale", 0.5f}});
  d.keep("Multinomial", {d.input({2, 3})}, {{"sample_size", int64_t{3}}, {"seed", 2.0f}});
  d.keep("Col2Im", {d.input({1, 8, 4}), d.ints({3, 3}), d.ints({2, 2})}, {});
  d.keep("CenterCropPad", {x, d.ints({6, 3})}, {{"axes", Ints{2, 3}}});
  return d.serialised();
}

std::string recurrentModel() {
  Draft d;
  const std::string x = d.input({3, 2, 4}), lengths = d.words({2}, {3, 2});
  const auto layer = [&](const char *type, int64_t gates, const Names &more, const Attributes &attributes,
                         int outputs) {
    Names inputs = {x, d.weights({1, gates * 2, 4}), d.weights({1, gates * 2, 2}), d.weights({1, gates * 4}), lengths};
    inputs.insert(inputs.end(), more.begin(), more.end());
    Attributes all = {{"hidden_size", int64_t{2}}};
    all.insert(all.end(), attributes.begin(), attributes.end());
    d.keep(type, inputs, all, outputs);
  };
  layer("RNN", 1, {d.weights({1, 2, 2})}, {{"direction", std::string("reverse")}}, 2);
  layer("GRU", 3, {}, {{"linear_before_reset", int64_t{1}}, {"clip", 2.0f}}, 2);
  layer("LSTM", 4, {d.weights({1, 2, 2}), d.weights({1, 2, 2}), d.weights({1, 6})},
        {{"activations", Names{"Sigmoid", "Tanh", "Relu"}}, {"input_forget", int64_t{1}}}, 3);
  d.keepOf(kOwn, "LSTM", {x, d.weights({4, 6, 2}), d.weights({4, 2}), d.weights({2, 2, 2})}, {}, 2);
  NodeProto *scan = d.node("", "Scan", {d.weights({2}), d.input({3, 2})}, {{"num_scan_inputs", int64_t{1}}}, 2);
  GraphProto *body = d.body(scan, "body", {"state", "row"});
  addTo(body, "Add", {"state", "row"}, "next", true);
  addTo(body, "Neg", {"next"}, "made", true);
  d.keep(scan->output(0)), d.keep(scan->output(1));
  d.keep("ReverseSequence", {x, d.ints({2, 3})}, {{"time_axis", int64_t{0}}, {"batch_axis", int64_t{1}}});
  d.keep("CumProd", {x, d.integer(0)}, {{"exclusive", int64_t{1}}, {"reverse", int64_t{1}}});
  return d.serialised();
}

std::string quantisedModel() {
  Draft d;
  const std::string x = d.input({2, 4}), scale = d.number(0.1f), zero = d.bytes({}, {3});
  const std::string a = d.add("QuantizeLinear", {x, scale, zero}), b = d.bytes({4, 3}, std::vector<uint8_t>(12, 5));
  d.keep("DynamicQuantizeLinear", {x}, {}, 3);
  d.keep("MatMulInteger", {a, b, zero, d.bytes({3}, {1, 2, 3})}, {});
  d.keep("QLinearMatMul",
         {a, scale, zero, b, d.constant(floats({3}, {0.1f, 0.2f, 0.3f})), d.bytes({3}, {1, 2, 3}), scale, zero}, {});
  const std::string image = d.add("QuantizeLinear", {d.input({1, 2, 4, 4}), scale, zero});
  const std::string kernel = d.bytes({2, 2, 2, 2}, std::vector<uint8_t>(16, 4));
  d.keep("ConvInteger", {image, kernel, zero}, {{"pads", Ints{1, 0, 0, 1}}});
  d.keep("QLinearConv", {image, scale, zero, kernel, scale, zero, scale, zero, d.words({2}, {1, -1})},
         {{"strides", Ints{2, 1}}});
  d.keep("BitCast", {x}, {{"to", int64_t{TensorProto::INT32}}});
  d.keep("CastLike", {x, a}, {});
  d.keep("Mod", {a, zero}, {});
  d.keep("BitwiseXnor", {a, zero}, {}, 1, kOwn);
  d.keep("Size", {a}, {});
  d.keep("EyeLike", {x}, {{"k", int64_t{1}}});
  return d.serialised();
}

std::string normalsModel() {
  Draft d;
  const std::string x = d.input({2, 3, 2});
  d.keep("LpNormalization", {x}, {{"p", int64_t{1}}});
  d.keep("MeanVarianceNormalization", {x}, {{"axes", Ints{0, 2}}});
  d.keep("RMSNormalization", {x, d.weights({2})}, {{"epsilon", 0.1f}});
  d.keep("SimplifiedLayerNormalization", {x, d.weights({2})}, {{"axis", int64_t{-1}}, {"epsilon", 0.1f}}, 2);
  const std::string mean = d.weights({3}), variance = d.constant(floats({3}, {1, 2, 3}));
  d.keepOf(kOwn, "BatchNormalization", {x, d.weights({3}), d.weights({3}), mean, variance}, {{"epsilon", 0.1f}});
  d.keep("Gelu", {x}, {{"approximate", std::string("tanh")}});
  d.keep("Swish", {x}, {{"alpha", 0.5f}});
  d.keep("RandomNormal", {}, {{"shape", Ints{2, 2}}, {"seed", 1.0f}});
  d.keep("GroupNormalization", {x, d.weights({3}), d.weights({3})}, {{"num_groups", int64_t{3}}});
  const std::string rate = d.number(0.1f), count = d.integer(2), w = d.weights({3}), g = d.input({3});
  d.keepOf(kTraining, "Adagrad", {rate, count, w, g, d.weights({3})}, {{"norm_coefficient", 0.1f}}, 2);
  d.keepOf(kTraining, "Adam", {rate, count, w, g, w, d.constant(floats({3}, {1, 2, 3}))}, {{"alpha", 0.9f}}, 3);
  d.keepOf(kTraining, "Momentum", {rate, count, w, g, w},
           {{"alpha", 0.9f}, {"beta", 1.0f}, {"mode", std::string("nesterov")}, {"norm_coefficient", 0.0f}}, 2);
  return d.serialised();
}

std::string sequencesModel() {
  Draft d;
  const std::string x = d.input({4, 2}), one = d.integer(1);
  const std::string parts = d.add("SplitToSequence", {x, d.ints({1, 3})}, {{"axis", int64_t{0}}});
  const std::string made = d.add("SequenceConstruct", {x, d.weights({2, 2})});
  const std::string longer = d.add("SequenceInsert", {made, d.weights({1, 2}), one});
  d.keep(d.add("SequenceErase", {longer, d.integer(-1)}));
  d.keep("SequenceLength", {longer}, {});
  d.keep("ConcatFromSequence", {parts}, {{"axis", int64_t{0}}});
  d.keep("SequenceAt", {parts, one}, {});
  d.keep(d.add("SequenceInsert", {d.add("SequenceEmpty", {}, {{"dtype", int64_t{1}}}), x}));
  const std::string held = d.add("Optional", {x});
  d.keep("OptionalHasElement", {held}, {});
  d.keep("OptionalGetElement", {held}, {});
  NodeProto *map = d.node("", "SequenceMap", {longer});
  addTo(d.body(map, "body", {"e"}), "Exp", {"e"}, "r", true);
  d.keep(map->output(0));
  return d.serialised();
}

std::string selectionModel() {
  Draft d;
  const std::string x = d.input({3, 4});
  d.keep("Compress", {x, d.truth({1, 0, 1, 1})}, {{"axis", int64_t{1}}});
  d.keep("Compress", {x, d.input({3}, TensorProto::BOOL)}, {{"axis", int64_t{0}}});
  d.keep("NonZero", {x}, {});
  d.keep("Unique", {d.weights({4, 2})}, {{"axis", int64_t{0}}}, 4);
  d.keep("Unique", {d.ints({3, 1, 3, 2})}, {{"sorted", int64_t{0}}}, 2);
  d.keep("NonMaxSuppression",
         {d.constant(floats({1, 3, 4}, {0, 0, 1, 1, 0, 0, 1, 0.9f, 2, 2, 3, 3})),
          d.constant(floats({1, 1, 3}, {0.9f, 0.8f, 0.7f})), d.ints({2}), d.number(0.5f), d.number(0.1f)},
         {});
  d.keep("TfIdfVectorizer", {d.input({2, 5}, TensorProto::INT64)},
         {{"mode", std::string("TFIDF")},
          {"pool_int64s", Ints{1, 2, 1, 0, 0, 1}},
          {"ngram_counts", Ints{0, 2}},
          {"ngram_indexes", Ints{3, 0, 1, 2}},
          {"weights", Floats{1, 2, 0.5f, 1}},
          {"min_gram_length", int64_t{1}},
          {"max_gram_length", int64_t{2}},
          {"max_skip_count", int64_t{1}}});
  return d.serialised();
}

TensorProto bytesOf(const std::vector<uint8_t> &values) {
  return tensor(TensorProto::UINT8, {static_cast<int64_t>(values.size())}, values);
}
TensorProto listOf(const Floats &values) { return floats({static_cast<int64_t>(values.size())}, values); }

std::string learningModel() {
  Draft d;
  const std::string x = d.input({2, 3}), labels = d.input({4}, TensorProto::INT64);
  const auto keep = [&](const char *type, const Names &inputs, const Attributes &attributes) {
    d.keepOf(kLearning, type, inputs, attributes);
  };
  keep("ArrayFeatureExtractor", {x, d.ints({2, 0})}, {});
  keep("Binarizer", {x}, {{"threshold", 0.5f}});
  keep("Scaler", {x}, {{"offset", Floats{1, 2, 3}}, {"scale", Floats{2}}});
  keep("Normalizer", {x}, {{"norm", std::string("L2")}});
  keep("FeatureVectorizer", {x, d.weights({2, 2})}, {{"inputdimensions", Ints{3, 2}}});
  keep("Imputer", {x}, {{"imputed_value_floats", Floats{1, 2, 3}}, {"replaced_value_float", 0.5f}});
  keep("LabelEncoder", {labels},
       {{"keys_int64s", Ints{3, 1}}, {"values_floats", Floats{0.5f, 2}}, {"default_float", 9.0f}});
  keep("OneHotEncoder", {labels}, {{"cats_int64s", Ints{1, 2}}});
  keep("LinearRegressor", {x},
       {{"coefficients", Floats{1, 2, 3, 4, 5, 6}}, {"intercepts", Floats{1, 2}}, {"targets", int64_t{2}}});
  keep("TreeEnsembleRegressor", {x},
       {{"nodes_treeids", Ints{0, 0, 0}},
        {"nodes_nodeids", Ints{0, 1, 2}},
        {"nodes_featureids", Ints{1, 0, 0}},
        {"nodes_values", Floats{0.5f, 0, 0}},
        {"nodes_modes", Names{"BRANCH_LT", "LEAF", "LEAF"}},
        {"nodes_truenodeids", Ints{1, 0, 0}},
        {"nodes_falsenodeids", Ints{2, 0, 0}},
        {"target_treeids", Ints{0, 0}},
        {"target_nodeids", Ints{1, 2}},
        {"target_ids", Ints{0, 1}},
        {"target_weights", Floats{1, 2}},
        {"n_targets", int64_t{2}},
        {"aggregate_function", std::string("MAX")}});
  keep("TreeEnsemble", {x},
       {{"tree_roots", Ints{0}},
        {"nodes_featureids", Ints{0, 2}},
        {"nodes_splits", listOf({0.5f, 0.1f})},
        {"nodes_modes", bytesOf({6, 0})},
        {"nodes_truenodeids", Ints{1, 0}},
        {"nodes_falsenodeids", Ints{2, 1}},
        {"nodes_trueleafs", Ints{0, 1}},
        {"nodes_falseleafs", Ints{1, 1}},
        {"membership_values", listOf({0.25f, 0.5f, NAN})},
        {"leaf_targetids", Ints{0, 0, 1}},
        {"leaf_weights", listOf({1, 2, 3})},
        {"n_targets", int64_t{2}}});
  return d.serialised();
}

std::string classifierModel() {
  Draft d;
  const std::string x = d.input({2, 3});
  const auto keep = [&](const char *type, const Attributes &attributes, int outputs) {
    d.keepOf(kLearning, type, {x}, attributes, outputs);
  };
  keep("LinearClassifier",
       {{"coefficients", Floats{1, 2, 3, 4, 5, 6}},
        {"intercepts", Floats{1, 2}},
        {"classlabels_ints", Ints{4, 7}},
        {"post_transform", std::string("SOFTMAX")}},
       2);
  keep("SVMClassifier",
       {{"kernel_type", std::string("RBF")},
        {"kernel_params", Floats{0.5f, 0, 3}},
        {"vectors_per_class", Ints{1, 1}},
        {"support_vectors", Floats{1, 2, 3, 4, 5, 6}},
        {"coefficients", Floats{1, -1}},
        {"rho", Floats{0.1f}},
        {"prob_a", Floats{1}},
        {"prob_b", Floats{0}},
        {"classlabels_ints", Ints{0, 1}}},
       2);
  keep("SVMRegressor",
       {{"kernel_type", std::string("POLY")},
        {"kernel_params", Floats{0.5f, 1, 2}},
        {"n_supports", int64_t{2}},
        {"support_vectors", Floats{1, 2, 3, 4, 5, 6}},
        {"coefficients", Floats{1, -1}},
        {"rho", Floats{0.2f}}},
       1);
  keep("TreeEnsembleClassifier",
       {{"nodes_treeids", Ints{0, 0, 0}},
        {"nodes_nodeids", Ints{0, 1, 2}},
        {"nodes_featureids", Ints{1, 0, 0}},
        {"nodes_values", Floats{0.5f, 0, 0}},
        {"nodes_modes", Names{"BRANCH_LEQ", "LEAF", "LEAF"}},
        {"nodes_truenodeids", Ints{1, 0, 0}},
        {"nodes_falsenodeids", Ints{2, 0, 0}},
        {"class_treeids", Ints{0, 0}},
        {"class_nodeids", Ints{1, 2}},
        {"class_ids", Ints{0, 1}},
        {"class_weights", Floats{1, 2}},
        {"classlabels_int64s", Ints{3, 5}},
        {"post_transform", std::string("LOGISTIC")}},
       2);
  return d.serialised();
}

std::string graphcoreModel() {
  Draft d;
  const auto keep = [&](const char *type, const Names &inputs, const Attributes &attributes, int outputs = 1) {
    d.keepOf(kOwn, type, inputs, attributes, outputs);
  };
  const std::string x = d.input({4, 3}), index = d.words({4, 3}, {0, 1, 2, 0, 1, 1, 0, 0, 1, 2, 2, 0});
  keep("NormalizeImage", {x, d.weights({3}), d.weights({3})}, {{"scale", 0.5f}});
  keep("TensorRemap", {x}, {{"remap_type", int64_t{0}}});
  const NodeProto *spline =
      d.node(kOwn, "SplineBasis",
             {d.constant(floats({2, 2}, {0.1f, 0.2f, 0.7f, 0.9f})), d.words({2}, {3, 3}), d.bytes({2}, {1, 0})},
             {{"degree", int64_t{1}}}, 2);
  const std::string basis = spline->output(0), weight = spline->output(1);
  keep("SplineWeighting", {d.input({2, 3}), d.weights({9, 3, 2}), basis, weight}, {});
  const auto list = [&](int32_t a, int32_t b) { return d.words({2}, {a, b}); };
  keep("SequenceSlice", {x, d.weights({5, 3}), list(1, 2), list(0, 1), list(0, 3)}, {{"zeroUnused", int64_t{1}}});
  const std::string image = d.input({1, 2, 4, 4});
  keep("MultiConv", {image, d.weights({2, 2, 2, 2}), image, d.weights({2, 1, 3, 3}), d.weights({2})},
       {{"inputs_per_conv", Ints{2, 3}}, {"inDilations_0", Ints{2, 1}}, {"outPads_1", Ints{0, 0, 1, 0}}}, 2);
  keep("ScatterReduce", {x, index}, {{"axis_size", int64_t{5}}, {"axis", int64_t{0}}, {"reduction", int64_t{0}}});
  keep("GroupedScatterReduce", {d.input({1, 4, 3}), d.words({1, 4, 1}, {0, 1, 2, 2})},
       {{"axis_size", int64_t{3}},
        {"axis", int64_t{1}},
        {"group_size", int64_t{1}},
        {"reduction", int64_t{0}},
        {"enable_index_broadcast", int64_t{1}}});
  keep("GroupedGather", {d.input({1, 4, 3}), d.words({1, 2}, {3, 0})},
       {{"axis", int64_t{1}}, {"group_size", int64_t{1}}});
  keep("PrintTensor", {x}, {{"print_gradient", int64_t{0}}, {"title", std::string("x")}});
  keep("ShapedDropout", {x}, {{"shape", Ints{4, 1}}, {"ratio", 0.25f}});
  keep("ReplicatedAllReduce", {x}, {});
  keep("ReplicatedReduceScatter", {x}, {});
  keep("ReplicatedAllGather", {x}, {});
  keep("Bucketize", {x, d.constant(floats({3}, {-0.5f, 0, 0.5f}))}, {{"right", int64_t{1}}});
  keep("Sort", {x}, {{"axis", int64_t{1}}}, 2);
  keep("Remainder", {x, d.weights({3})}, {});
  keep("Detach", {x}, {});
  keep("Reshape", {x}, {{"shape", Ints{2, -1}}});
  keep("Nop", {x}, {});
  keep("Init", {}, {{"shape", Ints{2}}, {"dtype", int64_t{1}}, {"init_type", int64_t{1}}, {"batch_axis", int64_t{-1}}});
  const std::string at = d.constant(tensor<uint32_t>(TensorProto::UINT32, {1}, {1}));
  keep("DynamicAdd", {x, at, d.weights({2, 3})}, {{"axes", Ints{0}}, {"sizes", Ints{2}}});
  keep("DynamicZero", {x, at}, {{"axes", Ints{0}}, {"sizes", Ints{2}}});
  keep("IncrementMod", {x}, {{"increment", 1.0f}, {"modulus", 3.0f}});
  keep("Ctc",
       {d.add("LogSoftmax", {d.input({4, 1, 3})}), d.constant(tensor<uint32_t>(TensorProto::UINT32, {1, 2}, {1, 2})),
        d.constant(tensor<uint32_t>(TensorProto::UINT32, {1}, {4})),
        d.constant(tensor<uint32_t>(TensorProto::UINT32, {1}, {2}))},
       {{"reduction", int64_t{0}}, {"blank", int64_t{0}}});
  keep("CtcBeamSearchDecoder",
       {d.add("LogSoftmax", {d.input({4, 1, 3})}), d.constant(tensor<uint32_t>(TensorProto::UINT32, {1}, {4}))},
       {{"blank", int64_t{0}}, {"beam_width", int64_t{2}}, {"top_paths", int64_t{1}}}, 3);
  NodeProto *call = d.node(kOwn, "Call", {x});
  addTo(d.body(call, "callee", {"given"}), "Sin", {"given"}, "sine", true);
  d.keep(call->output(0));
  return d.serialised();
}

// Operators that newer operator sets do not have.
std::string olderModel() {
  Draft d(8);
  const std::string x = d.input({1, 1, 3, 3});
  d.keep("Upsample", {x}, {{"scales", Floats{1, 1, 2, 1.5f}}, {"mode", std::string("linear")}});
  d.keep("Add", {x, d.weights({3})}, {});
  d.keep("PRelu", {x, d.weights({1})}, {});
  Ints indices(9, 0);
  indices[4] = 2;
  d.keep("Softmax", {x}, {{"axis", int64_t{1}}});
  return d.serialised();
}

std::string oldResizeModel() {
  Draft d(10);
  const std::string x = d.input({1, 1, 3, 3});
  d.keep("Upsample", {x, d.constant(floats({4}, {1, 1, 2, 2}))}, {{"mode", std::string("nearest")}});
  d.keep("Resize", {x, d.constant(floats({4}, {1, 1, 2, 0.5f}))}, {{"mode", std::string("linear")}});
  d.keep("Scatter", {x, d.constant(tensor<int64_t>(TensorProto::INT64, {1, 1, 1, 2}, {0, 2})), d.weights({1, 1, 1, 2})},
         {{"axis", int64_t{3}}});
  return d.serialised();
}

}  // namespace

std::vector<SmallModel> operatorModels() {
  std::vector<SmallModel> models = {
      {"attention", attentionModel()},    {"signal", signalModel()},       {"sampling", samplingModel()},
      {"recurrent", recurrentModel()},    {"quantised", quantisedModel()}, {"normals", normalsModel()},
      {"sequences", sequencesModel()},    {"selection", selectionModel()}, {"learning", learningModel()},
      {"classifiers", classifierModel()}, {"graphcore", graphcoreModel()}, {"older", olderModel()},
      {"old resize", oldResizeModel()}};
  const std::vector<SmallModel> microsoft = microsoftModels();
  models.insert(models.end(), microsoft.begin(), microsoft.end());
  return models;
}

}  // namespace popart::fuzz
