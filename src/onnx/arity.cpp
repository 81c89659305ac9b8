// How many inputs and outputs the operators of ai.onnx take, over all operator sets (from the operator schemas of
// onnx 1.23). Used for messages at the builder's door; -1: any number.
#include "onnx/arity.hpp"

#include <algorithm>
#include <iterator>

namespace popart::onnx {
namespace {

struct Row {
  std::string_view type;
  int minInputs, maxInputs, maxOutputs;
};

// Sorted by type.
constexpr Row kRows[] = {
    // clang-format off
    {"Abs", 1, 1, 1}, {"Acos", 1, 1, 1}, {"Acosh", 1, 1, 1}, {"Add", 2, 2, 1}, {"AffineGrid", 2, 2, 1}, {"And", 2, 2, 1},
    {"ArgMax", 1, 1, 1}, {"ArgMin", 1, 1, 1}, {"Asin", 1, 1, 1}, {"Asinh", 1, 1, 1}, {"Atan", 1, 1, 1}, {"Atanh", 1, 1, 1},
    {"Attention", 3, 7, 4}, {"AveragePool", 1, 1, 1}, {"BatchNormalization", 5, 5, 5}, {"Bernoulli", 1, 1, 1},
    {"BitCast", 1, 1, 1}, {"BitShift", 2, 2, 1}, {"BitwiseAnd", 2, 2, 1}, {"BitwiseNot", 1, 1, 1}, {"BitwiseOr", 2, 2, 1},
    {"BitwiseXor", 2, 2, 1}, {"BlackmanWindow", 1, 1, 1}, {"Cast", 1, 1, 1}, {"CastLike", 2, 2, 1},
    {"CausalConvWithState", 2, 4, 2}, {"Ceil", 1, 1, 1}, {"Celu", 1, 1, 1}, {"CenterCropPad", 2, 2, 1}, {"Clip", 1, 3, 1},
    {"Col2Im", 3, 3, 1}, {"Compress", 2, 2, 1}, {"Concat", 1, -1, 1}, {"ConcatFromSequence", 1, 1, 1},
    {"Constant", 0, 0, 1}, {"ConstantOfShape", 1, 1, 1}, {"Conv", 2, 3, 1}, {"ConvInteger", 2, 4, 1},
    {"ConvTranspose", 2, 3, 1}, {"Cos", 1, 1, 1}, {"Cosh", 1, 1, 1}, {"CumProd", 2, 2, 1}, {"CumSum", 2, 2, 1},
    {"DFT", 1, 3, 1}, {"DeformConv", 3, 5, 1}, {"DepthToSpace", 1, 1, 1}, {"DequantizeLinear", 2, 3, 1}, {"Det", 1, 1, 1},
    {"Div", 2, 2, 1}, {"Dropout", 1, 3, 2}, {"DynamicQuantizeLinear", 1, 1, 3}, {"Einsum", 1, -1, 1}, {"Elu", 1, 1, 1},
    {"Equal", 2, 2, 1}, {"Erf", 1, 1, 1}, {"Exp", 1, 1, 1}, {"Expand", 2, 2, 1}, {"EyeLike", 1, 1, 1},
    {"Flatten", 1, 1, 1}, {"Floor", 1, 1, 1}, {"GRU", 3, 6, 2}, {"Gather", 2, 2, 1}, {"GatherElements", 2, 2, 1},
    {"GatherND", 2, 2, 1}, {"Gelu", 1, 1, 1}, {"Gemm", 2, 3, 1}, {"GlobalAveragePool", 1, 1, 1}, {"GlobalLpPool", 1, 1, 1},
    {"GlobalMaxPool", 1, 1, 1}, {"Greater", 2, 2, 1}, {"GreaterOrEqual", 2, 2, 1}, {"GridSample", 2, 2, 1},
    {"GroupNormalization", 3, 3, 1}, {"HammingWindow", 1, 1, 1}, {"HannWindow", 1, 1, 1}, {"HardSigmoid", 1, 1, 1},
    {"HardSwish", 1, 1, 1}, {"Hardmax", 1, 1, 1}, {"Identity", 1, 1, 1}, {"If", 1, 1, -1}, {"ImageDecoder", 1, 1, 1},
    {"InstanceNormalization", 3, 3, 1}, {"IsInf", 1, 1, 1}, {"IsNaN", 1, 1, 1}, {"LRN", 1, 1, 1}, {"LSTM", 3, 8, 3},
    {"LayerNormalization", 2, 3, 3}, {"LeakyRelu", 1, 1, 1}, {"Less", 2, 2, 1}, {"LessOrEqual", 2, 2, 1},
    {"LinearAttention", 3, 6, 2}, {"Log", 1, 1, 1}, {"LogSoftmax", 1, 1, 1}, {"Loop", 2, -1, -1},
    {"LpNormalization", 1, 1, 1}, {"LpPool", 1, 1, 1}, {"MatMul", 2, 2, 1}, {"MatMulInteger", 2, 4, 1}, {"Max", 1, -1, 1},
    {"MaxPool", 1, 1, 2}, {"MaxRoiPool", 2, 2, 1}, {"MaxUnpool", 2, 3, 1}, {"Mean", 1, -1, 1},
    {"MeanVarianceNormalization", 1, 1, 1}, {"MelWeightMatrix", 5, 5, 1}, {"Min", 1, -1, 1}, {"Mish", 1, 1, 1},
    {"Mod", 2, 2, 1}, {"Mul", 2, 2, 1}, {"Multinomial", 1, 1, 1}, {"Neg", 1, 1, 1}, {"NegativeLogLikelihoodLoss", 2, 3, 1},
    {"NonMaxSuppression", 2, 5, 1}, {"NonZero", 1, 1, 1}, {"Not", 1, 1, 1}, {"OneHot", 3, 3, 1}, {"Optional", 0, 1, 1},
    {"OptionalGetElement", 1, 1, 1}, {"OptionalHasElement", 0, 1, 1}, {"Or", 2, 2, 1}, {"PRelu", 2, 2, 1},
    {"Pad", 1, 4, 1}, {"Pow", 2, 2, 1}, {"QLinearConv", 8, 9, 1}, {"QLinearMatMul", 8, 8, 1}, {"QuantizeLinear", 2, 3, 1},
    {"RMSNormalization", 2, 2, 1}, {"RNN", 3, 6, 2}, {"RandomNormal", 0, 0, 1}, {"RandomNormalLike", 1, 1, 1},
    {"RandomUniform", 0, 0, 1}, {"RandomUniformLike", 1, 1, 1}, {"Range", 3, 3, 1}, {"Reciprocal", 1, 1, 1},
    {"ReduceL1", 1, 2, 1}, {"ReduceL2", 1, 2, 1}, {"ReduceLogSum", 1, 2, 1}, {"ReduceLogSumExp", 1, 2, 1},
    {"ReduceMax", 1, 2, 1}, {"ReduceMean", 1, 2, 1}, {"ReduceMin", 1, 2, 1}, {"ReduceProd", 1, 2, 1},
    {"ReduceSum", 1, 2, 1}, {"ReduceSumSquare", 1, 2, 1}, {"RegexFullMatch", 1, 1, 1}, {"Relu", 1, 1, 1},
    {"Reshape", 1, 2, 1}, {"Resize", 1, 4, 1}, {"ReverseSequence", 2, 2, 1}, {"RoiAlign", 3, 3, 1},
    {"RotaryEmbedding", 3, 4, 1}, {"Round", 1, 1, 1}, {"STFT", 2, 4, 1}, {"Scan", 1, -1, -1}, {"Scatter", 3, 3, 1},
    {"ScatterElements", 3, 3, 1}, {"ScatterND", 3, 3, 1}, {"Selu", 1, 1, 1}, {"SequenceAt", 2, 2, 1},
    {"SequenceConstruct", 1, -1, 1}, {"SequenceEmpty", 0, 0, 1}, {"SequenceErase", 1, 2, 1}, {"SequenceInsert", 2, 3, 1},
    {"SequenceLength", 1, 1, 1}, {"SequenceMap", 1, -1, -1}, {"Shape", 1, 1, 1}, {"Shrink", 1, 1, 1}, {"Sigmoid", 1, 1, 1},
    {"Sign", 1, 1, 1}, {"Sin", 1, 1, 1}, {"Sinh", 1, 1, 1}, {"Size", 1, 1, 1}, {"Slice", 1, 5, 1}, {"Softmax", 1, 1, 1},
    {"SoftmaxCrossEntropyLoss", 2, 3, 2}, {"Softplus", 1, 1, 1}, {"Softsign", 1, 1, 1}, {"SpaceToDepth", 1, 1, 1},
    {"Split", 1, 2, -1}, {"SplitToSequence", 1, 2, 1}, {"Sqrt", 1, 1, 1}, {"Squeeze", 1, 2, 1}, {"StringConcat", 2, 2, 1},
    {"StringNormalizer", 1, 1, 1}, {"StringSplit", 1, 1, 2}, {"Sub", 2, 2, 1}, {"Sum", 1, -1, 1}, {"SwiGLU", 2, 2, 1},
    {"Swish", 1, 1, 1}, {"Tan", 1, 1, 1}, {"Tanh", 1, 1, 1}, {"TensorScatter", 2, 3, 1}, {"TfIdfVectorizer", 1, 1, 1},
    {"ThresholdedRelu", 1, 1, 1}, {"Tile", 2, 3, 1}, {"TopK", 1, 2, 2}, {"Transpose", 1, 1, 1}, {"Trilu", 1, 2, 1},
    {"Unique", 1, 1, 4}, {"Unsqueeze", 1, 2, 1}, {"Upsample", 1, 2, 1}, {"Where", 3, 3, 1}, {"Xor", 2, 2, 1},
    // clang-format on
};

}  // namespace

std::optional<OperatorArity> findArity(std::string_view type) {
  const Row *row = std::lower_bound(std::begin(kRows), std::end(kRows), type,
                                    [](const Row &r, std::string_view t) { return r.type < t; });
  if (row == std::end(kRows) || row->type != type) return std::nullopt;
  return OperatorArity{row->minInputs, row->maxInputs, row->maxOutputs};
}

}  // namespace popart::onnx
