// Losses by name: the inputs that each adds, with types and shapes, and the output that it uses.
#include <algorithm>

#include <popart/logging.hpp>

#include "base/nearest.hpp"
#include "onnx/loss_nodes.hpp"
#include "onnx/losses.hpp"

namespace popart::onnx {
namespace {

using Dimensions = std::vector<std::pair<int64_t, std::string>>;  // as Model::Input

// The shape of an added input, from that of the output.
enum class Of {
  Output,     // the same
  Rows,       // without the class dimension: (N, d…) for (N, C, d…)
  Samples,    // dimension 0; a scalar for a vector
  Labelling,  // (N, S) for (T, N, C), S open
  Batch       // (N) for (T, N, C)
};
enum class Type { ClassNumber, Float, Length };

struct Role {
  const char *name;
  Of shape;
  Type type;
};

using Ids = std::vector<TensorId>;
struct LossRow {
  LossName name;
  std::vector<Role> roles;
  TensorId (*add)(ModelBuilder &, const TensorId &output, const Ids &inputs);
};

template <auto LOSS, class Settings>
TensorId ofOne(ModelBuilder &b, const TensorId &output, const Ids &inputs) {
  return LOSS(b, output, inputs[0], Settings());
}
template <auto LOSS, class Settings>
TensorId ofTwo(ModelBuilder &b, const TensorId &output, const Ids &inputs) {
  return LOSS(b, output, inputs[0], inputs[1], Settings());
}

const std::vector<LossRow> &rows() {
  static const Role kNumbers{"labels", Of::Rows, Type::ClassNumber}, kLike{"labels", Of::Output, Type::Float};
  static const std::vector<LossRow> table = {
      {{"cross_entropy", {"softmax_cross_entropy", "CrossEntropyLoss", "sparse_categorical_crossentropy"}},
       {kNumbers},
       ofOne<crossEntropyLoss, CrossEntropySettings>},
      {{"categorical_cross_entropy", {"categorical_crossentropy", "soft_cross_entropy"}},
       {kLike},
       ofOne<crossEntropyLoss, CrossEntropySettings>},
      {{"nll", {"negative_log_likelihood", "NLLLoss"}},
       {kNumbers},
       ofOne<negativeLogLikelihoodLoss, NegativeLogLikelihoodSettings>},
      {{"binary_cross_entropy", {"bce", "bce_with_logits", "binary_cross_entropy_with_logits", "BCEWithLogitsLoss"}},
       {kLike},
       ofOne<binaryCrossEntropyLoss, BinaryCrossEntropySettings>},
      {{"mse", {"mean_squared_error", "l2", "mse_loss", "MSELoss"}},
       {kLike},
       ofOne<meanSquaredErrorLoss, LossSettings>},
      {{"mae", {"mean_absolute_error", "l1", "l1_loss", "L1Loss"}},
       {kLike},
       ofOne<meanAbsoluteErrorLoss, LossSettings>},
      {{"huber", {"huber_loss", "HuberLoss"}}, {kLike}, ofOne<huberLoss, HuberSettings>},
      {{"smooth_l1", {"smooth_l1_loss", "SmoothL1Loss"}}, {kLike}, ofOne<smoothL1Loss, SmoothL1Settings>},
      {{"kl_divergence", {"kl_div", "kld", "KLDivLoss"}}, {kLike}, ofOne<klDivergenceLoss, KlDivergenceSettings>},
      {{"hinge", {}}, {kLike}, ofOne<hingeLoss, MarginSettings>},
      {{"hinge_embedding", {"HingeEmbeddingLoss"}}, {kLike}, ofOne<hingeEmbeddingLoss, MarginSettings>},
      {{"cosine_embedding", {"cosine", "CosineEmbeddingLoss"}},
       {{"other", Of::Output, Type::Float}, {"labels", Of::Samples, Type::Float}},
       ofTwo<cosineEmbeddingLoss, CosineEmbeddingSettings>},
      {{"triplet_margin", {"triplet", "TripletMarginLoss"}},
       {{"positive", Of::Output, Type::Float}, {"negative", Of::Output, Type::Float}},
       ofTwo<tripletMarginLoss, TripletMarginSettings>},
      {{"ctc", {"ctc_loss", "CTCLoss"}},
       {{"labels", Of::Labelling, Type::ClassNumber},
        {"input_lengths", Of::Batch, Type::Length},
        {"label_lengths", Of::Batch, Type::Length}},
       [](ModelBuilder &b, const TensorId &output, const Ids &inputs) {
         return ctcLoss(b, output, inputs[0], inputs[1], inputs[2], CtcSettings());
       }},
  };
  return table;
}

const LossRow &rowNamed(const std::string &given) {
  std::vector<std::string> known;
  for (const LossRow &row : rows()) {
    if (row.name.name == given || std::ranges::count(row.name.aliases, given) != 0) return row;
    known.push_back(row.name.name);
    known.insert(known.end(), row.name.aliases.begin(), row.name.aliases.end());
  }
  std::vector<std::string> names;
  for (const LossRow &row : rows()) names.push_back(row.name.name);
  throw error("Loss '{}': there is no loss of this name: expected one of {}{}", given, names,
              nearestText(given, known));
}

Dimensions shapeOf(const LossRow &row, Of rule, const Model::Input &output) {
  check(output.hasShape,
        "Loss {}: output '{}': the number of its dimensions is not known. Declare its shape in the "
        "model, or add the labels and call the loss's function",
        row.name.name, output.id);
  Dimensions shape = output.shape;
  const size_t rank = shape.size();
  const bool isSequence = rule == Of::Labelling || rule == Of::Batch;
  check(!isSequence || rank == 3, "Loss {}: output '{}': dimensions: got {}, expected (T, N, C)", row.name.name,
        output.id, rank);
  switch (rule) {
    case Of::Output:
      return shape;
    case Of::Rows:
      check(rank > 0, "Loss {}: output '{}': classes: got a scalar, expected one dimension or more", row.name.name,
            output.id);
      shape.erase(shape.begin() + (rank == 1 ? 0 : 1));
      return shape;
    case Of::Samples:
      return rank <= 1 ? Dimensions{} : Dimensions{shape[0]};
    case Of::Labelling:
      return {shape[1], {-1, "label_length"}};
    case Of::Batch:
      return {shape[1]};
  }
  return shape;
}

DataType typeOf(Type type, const Model::Input &output) {
  if (type != Type::Float) return DataType::INT32;
  return output.type == DataType::DOUBLE ? DataType::DOUBLE : DataType::FLOAT;
}

}  // namespace

LossInput lossInput(const ModelBuilder &b, const TensorId &id) {
  const Model::Input declared = b.declaredTensor(id);
  LossInput input{id, declared.type, {}};
  for (const auto &[size, symbol] : declared.shape) input.shape.push_back(size);
  return input;
}

const std::vector<LossName> &namedLosses() {
  static const std::vector<LossName> names = [] {
    std::vector<LossName> all;
    for (const LossRow &row : rows()) all.push_back(row.name);
    return all;
  }();
  return names;
}

const std::string &lossNamed(const std::string &given) { return rowNamed(given).name.name; }

TensorId lossOutput(const ModelBuilder &b) {
  const std::vector<TensorId> outputs = b.getOutputTensorIds();
  std::vector<TensorId> floats;
  for (const TensorId &id : outputs)
    if (const DataType type = b.declaredTensor(id).type; type == DataType::UNDEFINED || isFloatingPoint(type))
      floats.push_back(id);
  check(!floats.empty(), "Loss: the model has no output of floats: got {}. Name the tensor that the loss reads",
        outputs);
  if (floats.size() > 1)
    logging::builder::info("loss: of the outputs {} the first is taken: '{}'", toText(floats), floats.front());
  return floats.front();
}

std::vector<LossInput> addLossInputs(ModelBuilder &b, const std::string &loss, const TensorId &output, const Ids &ids) {
  const LossRow &row = rowNamed(loss);
  check(ids.size() <= row.roles.size(), "Loss {}: inputs: got {}, expected at most {}", row.name.name, ids.size(),
        row.roles.size());
  const Model::Input of = b.declaredTensor(output);
  std::vector<LossInput> inputs;
  for (size_t i = 0; i < row.roles.size(); ++i) {
    const Role &role = row.roles[i];
    const bool isGiven = i < ids.size() && !ids[i].empty();
    inputs.push_back(lossInput(
        b, isGiven ? ids[i] : b.addOpenInputTensor(typeOf(role.type, of), shapeOf(row, role.shape, of), role.name)));
  }
  return inputs;
}

AttachedLoss attachLoss(ModelBuilder &b, const std::string &loss, const TensorId &output) {
  const LossRow &row = rowNamed(loss);
  AttachedLoss attached;
  attached.output = output.empty() ? lossOutput(b) : output;
  attached.inputs = addLossInputs(b, loss, attached.output);
  Ids ids;
  for (const LossInput &input : attached.inputs) ids.push_back(input.id);
  attached.loss = row.add(b, attached.output, ids);
  return attached;
}

}  // namespace popart::onnx
