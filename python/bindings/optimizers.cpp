// Optimizers. Hyper-parameters are dictionaries of (value, is constant) tuples, checked here because the rules are
// Python's.
#include <popart/adam.hpp>
#include <popart/adaptive.hpp>
#include <popart/sgd.hpp>

#include "bindings.hpp"

namespace popart::python {
namespace {

using Values = std::map<std::string, std::pair<float, bool>>;

// Throws popart::error for a key that is no str or a value that is no (float, bool) tuple.
Values toValues(nb::handle given) {
  if (!PyDict_Check(given.ptr()))
    throw nb::type_error("optimizer: the first argument must be a dict such as {'defaultLearningRate': (0.1, True)}");
  Values values;
  for (auto [key, value] : nb::borrow<nb::dict>(given)) {
    if (!PyUnicode_Check(key.ptr()))
      throw error("optimizer: a key is no string: got {}, expected for example 'defaultLearningRate'",
                  nb::cast<std::string>(nb::repr(key)));
    const auto name = nb::cast<std::string>(key);
    if (!PyTuple_Check(value.ptr()) || PyTuple_Size(value.ptr()) != 2)
      throw error("optimizer value '{}': got {}, expected a tuple (value, isConst)", name,
                  nb::cast<std::string>(nb::repr(value)));
    nb::object number = nb::steal(PyNumber_Float(PyTuple_GET_ITEM(value.ptr(), 0)));
    const int isConst = PyObject_IsTrue(PyTuple_GET_ITEM(value.ptr(), 1));
    if (!number.is_valid() || isConst < 0) {
      PyErr_Clear();
      throw error("optimizer value '{}': got {}, expected a tuple (value, isConst)", name,
                  nb::cast<std::string>(nb::repr(value)));
    }
    values[name] = {static_cast<float>(PyFloat_AsDouble(number.ptr())), isConst != 0};
  }
  return values;
}

// compat: documents in circulation write SGD(0.01): a non-constant learning rate
// (tests/python/popart/test_optimizers.py).
Values toSgdValues(nb::handle given) {
  if (PyFloat_Check(given.ptr()) || PyLong_Check(given.ptr()))
    return {{"defaultLearningRate", {static_cast<float>(PyFloat_AsDouble(given.ptr())), false}}};
  return toValues(given);
}

// Keyword names differ between the optimizers only in spelling, so each class lists its own.
void bindSgd(nb::module_ &m) {
  bindEnum<SGDAccumulatorAndMomentum>(
      m, "SGDAccumulatorAndMomentum",
      {{"Combined", SGDAccumulatorAndMomentum::Combined}, {"Separate", SGDAccumulatorAndMomentum::Separate}});
  nb::class_<SGD, Optimizer>(m, "SGD")
      .def(
          "__init__",
          [](SGD *self, nb::object pyd, std::vector<ClipNormSettings> clip, SGDAccumulatorAndMomentum mode,
             DataType accumType, DataType accl1Type,
             nb::object) { new (self) SGD(toSgdValues(pyd), clip, mode, accumType, accl1Type); },
          nb::arg("pyd"), nb::arg("clip_norm_settings") = std::vector<ClipNormSettings>{},
          nb::arg("accumulatorAndMomentum") = SGDAccumulatorAndMomentum::Combined,
          nb::arg("accumType") = DataType::UNDEFINED, nb::arg("accl1Type") = DataType::UNDEFINED,
          nb::arg("debugContext") = "sgd")
      .def(
          "insertSpecific",
          [](SGD &sgd, const TensorId &id, nb::object values) { sgd.insertSpecific(id, toValues(values)); },
          nb::arg("weight"), nb::arg("values"))
      .def("learningRates", &SGD::learningRates)
      .def("weightDecays", &SGD::weightDecays)
      .def("momentums", &SGD::momentums)
      .def("dampenings", &SGD::dampenings)
      .def("velocityScalings", &SGD::velocityScalings)
      .def("nesterov", &SGD::nesterov);
  nb::class_<ConstSGD, SGD>(m, "ConstSGD")
      .def(nb::init<float, float, float, const std::vector<ClipNormSettings> &>(), nb::arg("learning_rate"),
           nb::arg("weight_decay") = 0.0f, nb::arg("loss_scaling") = 1.0f,
           nb::arg("clip_norm_settings") = std::vector<ClipNormSettings>{});
}

void bindAdam(nb::module_ &m) {
  bindEnum<AdamMode>(m, "AdamMode",
                     {{"Adam", AdamMode::Adam},
                      {"AdamNoBias", AdamMode::AdamNoBias},
                      {"AdaMax", AdamMode::AdaMax},
                      {"Lamb", AdamMode::Lamb},
                      {"LambNoBias", AdamMode::LambNoBias}});
  nb::class_<Adam, Optimizer>(m, "Adam")
      .def(
          "__init__",
          [](Adam *self, nb::object values, AdamMode mode, WeightDecayMode decay, DataType accum, DataType accl1,
             DataType accl2, std::vector<ClipNormSettings> clip, bool scaled,
             nb::object) { new (self) Adam(toValues(values), mode, decay, accum, accl1, accl2, clip, scaled); },
          nb::arg("values"), nb::arg("mode") = AdamMode::Adam, nb::arg("weight_decay_mode") = WeightDecayMode::Decay,
          nb::arg("accum_type") = DataType::UNDEFINED, nb::arg("accl1_type") = DataType::FLOAT,
          nb::arg("accl2_type") = DataType::FLOAT, nb::arg("clip_norm_settings") = std::vector<ClipNormSettings>{},
          nb::arg("scaled_optimizer_state") = false, nb::arg("debugContext") = "adam")
      .def(
          "insertSpecific",
          [](Adam &adam, const TensorId &id, nb::object values) { adam.insertSpecific(id, toValues(values)); },
          nb::arg("weight"), nb::arg("values"))
      .def("learningRates", &Adam::learningRates)
      .def("weightDecays", &Adam::weightDecays)
      .def("beta1s", &Adam::beta1s)
      // compat: upstream's beta2s returns the values of beta1 (tests/python/popart/test_optimizers.py).
      .def("beta2s", &Adam::beta1s)
      .def("epss", &Adam::epss)
      .def("maxWeightNorms", &Adam::maxWeightNorms);
}

void bindAdaptive(nb::module_ &m) {
  bindEnum<AdaptiveMode>(m, "AdaptiveMode",
                         {{"AdaGrad", AdaptiveMode::AdaGrad},
                          {"RMSProp", AdaptiveMode::RMSProp},
                          {"CenteredRMSProp", AdaptiveMode::CenteredRMSProp},
                          {"AdaDelta", AdaptiveMode::AdaDelta}});
  nb::class_<Adaptive, Optimizer>(m, "Adaptive")
      .def(
          "__init__",
          // compat: accl2_type is ignored upstream, accl1_type serves both (tests/python/popart/test_optimizers.py).
          [](Adaptive *self, nb::object values, AdaptiveMode mode, WeightDecayMode decay, DataType accum,
             DataType accl1, DataType, DataType accl3, bool tfVariant,
             nb::object) { new (self) Adaptive(toValues(values), mode, decay, accum, accl1, accl1, accl3, tfVariant); },
          nb::arg("values"), nb::arg("mode") = AdaptiveMode::RMSProp,
          nb::arg("weight_decay_mode") = WeightDecayMode::Decay, nb::arg("accum_type") = DataType::UNDEFINED,
          nb::arg("accl1_type") = DataType::FLOAT, nb::arg("accl2_type") = DataType::FLOAT,
          nb::arg("accl3_type") = DataType::UNDEFINED, nb::arg("rmsprop_tf_variant") = false,
          nb::arg("debugContext") = "adaptive")
      .def(
          "insertSpecific",
          [](Adaptive &adaptive, const TensorId &id, nb::object values) {
            adaptive.insertSpecific(id, toValues(values));
          },
          nb::arg("weight"), nb::arg("values"))
      .def("learningRates", &Adaptive::learningRates)
      .def("weightDecays", &Adaptive::weightDecays)
      .def("alphas", &Adaptive::alphas)
      .def("momentums", &Adaptive::momentums)
      .def("epss", &Adaptive::epss);
}

}  // namespace

void bindOptimizers(nb::module_ &m) {
  bindEnum<WeightDecayMode>(
      m, "WeightDecayMode",
      {{"Decay", WeightDecayMode::Decay}, {"L2Regularization", WeightDecayMode::L2Regularization}});
  nb::class_<OptimizerValue>(m, "OptimizerValue")
      .def(nb::init<float, bool>(), nb::arg("val"), nb::arg("isConst"))
      .def("val", &OptimizerValue::val)
      .def("isConst", &OptimizerValue::isConst);
  nb::class_<OptimizerValueMap>(m, "OptimizerValueMap").def("getDefault", &OptimizerValueMap::getDefault);
  nb::class_<ClipNormSettings>(m, "ClipNormSettings")
      .def(nb::init<const std::vector<TensorId> &, float>(), nb::arg("weightIds"), nb::arg("maxNorm"))
      .def_static("clipWeights", &ClipNormSettings::clipWeights, nb::arg("weightIds"), nb::arg("maxNorm"))
      .def_static("clipAllWeights", &ClipNormSettings::clipAllWeights, nb::arg("maxNorm"))
      .def_rw("weightIds", &ClipNormSettings::weightIds)
      .def_rw("maxNorm", &ClipNormSettings::maxNorm);
  nb::class_<Optimizer>(m, "Optimizer").def("getLossScalingVal", &Optimizer::getLossScalingVal);
  bindSgd(m);
  bindAdam(m);
  bindAdaptive(m);
}

}  // namespace popart::python
