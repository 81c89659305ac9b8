// The losses of onnx/losses.hpp for popart.losses: keyword arguments in, the id of the loss out.
#include "losses.hpp"

#include "onnx/loss_join.hpp"
#include "onnx/losses.hpp"

namespace popart::python {
namespace {

using onnx::ModelBuilder;
using Ids = std::vector<TensorId>;

template <class Settings>
Settings common(ReductionType reduction, const std::string &name) {
  Settings settings;
  settings.reduction = reduction;
  settings.name = name;
  return settings;
}

template <auto LOSS>
TensorId plainLoss(ModelBuilder &b, const TensorId &x, const TensorId &y, ReductionType reduction,
                   const std::string &name) {
  return LOSS(b, x, y, common<LossSettings>(reduction, name));
}

template <auto LOSS, class Settings, auto FIELD>
TensorId widthLoss(ModelBuilder &b, const TensorId &x, const TensorId &y, float width, ReductionType reduction,
                   const std::string &name) {
  auto settings = common<Settings>(reduction, name);
  settings.*FIELD = width;
  return LOSS(b, x, y, settings);
}

void bindClassLosses(nb::module_ &m) {
  m.def("_crossEntropyLoss",
        [](ModelBuilder &b, const TensorId &x, const TensorId &y, const TensorId &weight, int64_t ignoreIndex,
           float smoothing, ReductionType reduction, const std::string &name) {
          auto settings = common<CrossEntropySettings>(reduction, name);
          settings.weight = weight, settings.ignoreIndex = ignoreIndex, settings.labelSmoothing = smoothing;
          return onnx::crossEntropyLoss(b, x, y, settings);
        });
  m.def("_nllLoss", [](ModelBuilder &b, const TensorId &x, const TensorId &y, const TensorId &weight,
                       int64_t ignoreIndex, ReductionType reduction, const std::string &name) {
    auto settings = common<NegativeLogLikelihoodSettings>(reduction, name);
    settings.weight = weight, settings.ignoreIndex = ignoreIndex;
    return onnx::negativeLogLikelihoodLoss(b, x, y, settings);
  });
  m.def("_binaryCrossEntropyLoss", [](ModelBuilder &b, const TensorId &x, const TensorId &y, const TensorId &weight,
                                      const TensorId &posWeight, ReductionType reduction, const std::string &name) {
    auto settings = common<BinaryCrossEntropySettings>(reduction, name);
    settings.weight = weight, settings.posWeight = posWeight;
    return onnx::binaryCrossEntropyLoss(b, x, y, settings);
  });
  m.def("_klDivergenceLoss", [](ModelBuilder &b, const TensorId &x, const TensorId &y, bool fromLogits, bool logTarget,
                                bool batchMean, ReductionType reduction, const std::string &name) {
    auto settings = common<KlDivergenceSettings>(reduction, name);
    settings.input = fromLogits ? InputForm::Logits : InputForm::LogProbabilities;
    settings.target = logTarget ? TargetForm::LogProbabilities : TargetForm::Probabilities;
    settings.batchMean = batchMean ? BatchMean::Yes : BatchMean::No;
    return onnx::klDivergenceLoss(b, x, y, settings);
  });
  m.def("_ctcLoss", [](ModelBuilder &b, const Ids &inputs, bool fromLogits, int64_t blank, bool zeroInfinity,
                       ReductionType reduction, const std::string &name) {
    auto settings = common<CtcSettings>(reduction, name);
    settings.input = fromLogits ? InputForm::Logits : InputForm::LogProbabilities;
    settings.blank = blank, settings.zeroInfinity = zeroInfinity;
    return onnx::ctcLoss(b, inputs.at(0), inputs.at(1), inputs.at(2), inputs.at(3), settings);
  });
}

void bindDistanceLosses(nb::module_ &m) {
  m.def("_meanSquaredErrorLoss", &plainLoss<&onnx::meanSquaredErrorLoss>);
  m.def("_meanAbsoluteErrorLoss", &plainLoss<&onnx::meanAbsoluteErrorLoss>);
  m.def("_huberLoss", &widthLoss<&onnx::huberLoss, HuberSettings, &HuberSettings::delta>);
  m.def("_smoothL1Loss", &widthLoss<&onnx::smoothL1Loss, SmoothL1Settings, &SmoothL1Settings::beta>);
  m.def("_hingeLoss", &widthLoss<&onnx::hingeLoss, MarginSettings, &MarginSettings::margin>);
  m.def("_hingeEmbeddingLoss", &widthLoss<&onnx::hingeEmbeddingLoss, MarginSettings, &MarginSettings::margin>);
  m.def("_cosineEmbeddingLoss",
        [](ModelBuilder &b, const Ids &inputs, float margin, ReductionType reduction, const std::string &name) {
          auto settings = common<CosineEmbeddingSettings>(reduction, name);
          settings.margin = margin;
          return onnx::cosineEmbeddingLoss(b, inputs.at(0), inputs.at(1), inputs.at(2), settings);
        });
  m.def("_tripletMarginLoss", [](ModelBuilder &b, const Ids &inputs, float margin, float p, float eps, bool swap,
                                 ReductionType reduction, const std::string &name) {
    auto settings = common<TripletMarginSettings>(reduction, name);
    settings.margin = margin, settings.p = p, settings.eps = eps;
    settings.swap = swap ? SwapDistances::Yes : SwapDistances::No;
    return onnx::tripletMarginLoss(b, inputs.at(0), inputs.at(1), inputs.at(2), settings);
  });
}

// (id, type, shape).
nb::tuple described(const LossInput &input) {
  return nb::make_tuple(input.id, getDataTypeInfo(input.type).name, input.shape);
}

}  // namespace

void bindLosses(nb::module_ &m) {
  bindClassLosses(m);
  bindDistanceLosses(m);
  m.def("_lossNames", [] {
    nb::list all;
    for (const onnx::LossName &loss : onnx::namedLosses()) all.append(nb::make_tuple(loss.name, loss.aliases));
    return all;
  });
  m.def("_lossNamed", [](const std::string &given) { return onnx::lossNamed(given); });
  m.def("_lossOutput", &onnx::lossOutput);
  m.def("_addLossInputs", [](ModelBuilder &b, const std::string &loss, const TensorId &output, const Ids &ids) {
    nb::list all;
    for (const LossInput &input : onnx::addLossInputs(b, loss, output, ids)) all.append(described(input));
    return all;
  });
  m.def("_declaredShape", [](const ModelBuilder &b, const TensorId &id) {
    nb::list shape;  // sizes, and names of open dimensions
    for (const auto &[size, name] : b.declaredTensor(id).shape) {
      if (size < 0)
        shape.append(name);
      else
        shape.append(size);
    }
    return shape;
  });
  // The kind of joining, and (labels, weight, number that is ignored or None) of each mean that counts its elements.
  m.def("_lossJoin", [](const ModelBuilder &b, const TensorId &loss) {
    const onnx::LossJoin join = onnx::lossJoin(onnx::Model::parse(b.getModelProto()), loss);
    constexpr const char *kKinds[] = {"mean", "sum", "counted", "mixed"};
    nb::list counted;
    for (const onnx::CountedMean &mean : join.counted)
      counted.append(nb::make_tuple(mean.labels, mean.weight, mean.ignores ? nb::cast(mean.ignoreIndex) : nb::none()));
    return nb::make_tuple(kKinds[static_cast<size_t>(join.kind)], counted);
  });
  m.def("_lossInput", [](const ModelBuilder &b, const TensorId &id) { return described(onnx::lossInput(b, id)); });
}

}  // namespace popart::python
