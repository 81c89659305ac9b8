// Optimizers. Hyper-parameters are dictionaries of (value, is constant) tuples, checked here because the rules are
// Python's.
#include <popart/adam.hpp>
#include <popart/adaptive.hpp>
#include <popart/optim.hpp>
#include <popart/sgd.hpp>

#include "bindings.hpp"
#include "misfits.hpp"

namespace popart::python {
namespace {

using Values = std::map<std::string, std::pair<float, bool>>;

// Throws popart::error for a key that is no str or a value that is no (float, bool) tuple.
Values toValues(nb::handle given) {
  if (!PyDict_Check(given.ptr()))
    throw nb::type_error(
        "optimizer: the first argument must be a dict such as {'defaultLearningRate': (0.1, True)}. Optimizers with "
        "PyTorch's arguments are in popart.optim, such as popart.optim.Adam(lr=0.1)");
  Values values;
  for (auto [key, value] : nb::borrow<nb::dict>(given)) {
    if (!PyUnicode_Check(key.ptr()))
      throw error("optimizer: a key is not a string: got {}, expected for example 'defaultLearningRate'",
                  nb::cast<std::string>(nb::repr(key)));
    const auto name = nb::cast<std::string>(key);
    if (!PyTuple_Check(value.ptr()) || PyTuple_Size(value.ptr()) != 2)
      throw error("optimizer value '{}': got {}, expected a tuple (value, isConst)", name,
                  nb::cast<std::string>(nb::repr(value)));
    nb::object number = nb::steal(PyNumber_Float(PyTuple_GetItem(value.ptr(), 0)));
    const int isConst = PyObject_IsTrue(PyTuple_GetItem(value.ptr(), 1));
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
      m, "SGDAccumulatorAndMomentum", "One tensor for accumulated gradient and velocity, or two.",
      {{"Combined", SGDAccumulatorAndMomentum::Combined}, {"Separate", SGDAccumulatorAndMomentum::Separate}});
  nb::class_<SGD, Optimizer>(m, "SGD",
                             "Stochastic gradient descent with momentum. Formulas: docs/compat/optimizers.md.")
      .def(
          "__init__",
          [](SGD *self, nb::object pyd, std::vector<ClipNormSettings> clip, SGDAccumulatorAndMomentum mode,
             DataType accumType, DataType accl1Type,
             nb::object) { new (self) SGD(toSgdValues(pyd), clip, mode, accumType, accl1Type); },
          nb::arg("pyd"), nb::arg("clip_norm_settings") = std::vector<ClipNormSettings>{},
          nb::arg("accumulatorAndMomentum") = SGDAccumulatorAndMomentum::Combined,
          nb::arg("accumType") = DataType::UNDEFINED, nb::arg("accl1Type") = DataType::UNDEFINED,
          nb::arg("debugContext") = "sgd",
          "Make the optimizer.\n"
          "\n"
          "Args:\n"
          "    pyd: Dictionary of hyper-parameters. Each value is a tuple (value, isConst): a constant value is\n"
          "        part of the program, any other can be changed by updateOptimizerFromHost. All defaults are\n"
          "        constant. A plain number is a learning rate that can be changed.\n"
          "\n"
          "        - defaultLearningRate: 0.1 by default\n"
          "        - defaultWeightDecay: 0 by default\n"
          "        - defaultMomentum: 0 by default\n"
          "        - defaultDampening: 0 by default\n"
          "        - defaultVelocityScaling: 1 by default\n"
          "        - nesterov: 0 by default\n"
          "        - lossScaling: 1 by default\n"
          "\n"
          "    clip_norm_settings: Groups of weights whose gradients are clipped.\n"
          "    accumulatorAndMomentum: One tensor for accumulated gradient and velocity (Combined), or two "
          "(Separate).\n"
          "    accumType: Element type of accumulators; UNDEFINED: that of the weight.\n"
          "    accl1Type: Element type of velocities; UNDEFINED: that of the weight.\n"
          "    debugContext: Name.\n"
          "\n"
          "Raises:\n"
          "    popart_exception: An unknown key, a value that is not a tuple, or one out of range.")
      .def(
          "insertSpecific",
          [](SGD &sgd, const TensorId &id, nb::object values) { sgd.insertSpecific(id, toValues(values)); },
          nb::arg("weight"), nb::arg("values"),
          "Values for one weight; keys that are left out take the defaults of this optimizer.\n"
          "\n"
          "Args:\n"
          "    weight: Id of the weight.\n"
          "    values: Dictionary with learningRate, weightDecay, momentum, dampening, velocityScaling, nesterov,\n"
          "        each a tuple (value, isConst).\n"
          "\n"
          "Raises:\n"
          "    popart_exception: Another key, a bad value, or a second call for the weight.")
      .def("learningRates", &SGD::learningRates, "Learning rates, as OptimizerValueMap.")
      .def("weightDecays", &SGD::weightDecays, "Weight decays, as OptimizerValueMap.")
      .def("momentums", &SGD::momentums, "Momentums, as OptimizerValueMap.")
      .def("dampenings", &SGD::dampenings, "Dampenings, as OptimizerValueMap.")
      .def("velocityScalings", &SGD::velocityScalings, "Velocity scalings, as OptimizerValueMap.")
      .def("nesterov", &SGD::nesterov, "Whether Nesterov's form is used, as OptimizerValueMap.");
  nb::class_<ConstSGD, SGD>(m, "ConstSGD", "SGD without momentum whose values are all constant.")
      .def(nb::init<float, float, float, const std::vector<ClipNormSettings> &>(), nb::arg("learning_rate"),
           nb::arg("weight_decay") = 0.0f, nb::arg("loss_scaling") = 1.0f,
           nb::arg("clip_norm_settings") = std::vector<ClipNormSettings>{},
           "Make the optimizer.\n"
           "\n"
           "Args:\n"
           "    learning_rate: Above 0.\n"
           "    weight_decay: 0 or more.\n"
           "    loss_scaling: Factor of the loss, not 0.\n"
           "    clip_norm_settings: Groups of weights whose gradients are clipped.");
}

void bindAdam(nb::module_ &m) {
  bindEnum<AdamMode>(m, "AdamMode", "The optimizers of class Adam.",
                     {{"Adam", AdamMode::Adam},
                      {"AdamNoBias", AdamMode::AdamNoBias},
                      {"AdaMax", AdamMode::AdaMax},
                      {"Lamb", AdamMode::Lamb},
                      {"LambNoBias", AdamMode::LambNoBias}});
  nb::class_<Adam, Optimizer>(m, "Adam",
                              "Adam, AdamNoBias, AdaMax, Lamb and LambNoBias. Formulas: docs/compat/optimizers.md.")
      .def(
          "__init__",
          [](Adam *self, nb::object values, AdamMode mode, WeightDecayMode decay, DataType accum, DataType accl1,
             DataType accl2, std::vector<ClipNormSettings> clip, bool scaled,
             nb::object) { new (self) Adam(toValues(values), mode, decay, accum, accl1, accl2, clip, scaled); },
          nb::arg("values"), nb::arg("mode") = AdamMode::Adam, nb::arg("weight_decay_mode") = WeightDecayMode::Decay,
          nb::arg("accum_type") = DataType::UNDEFINED, nb::arg("accl1_type") = DataType::FLOAT,
          nb::arg("accl2_type") = DataType::FLOAT, nb::arg("clip_norm_settings") = std::vector<ClipNormSettings>{},
          nb::arg("scaled_optimizer_state") = false, nb::arg("debugContext") = "adam",
          "Make the optimizer.\n"
          "\n"
          "Args:\n"
          "    values: Dictionary of hyper-parameters. Each value is a tuple (value, isConst): a constant value is\n"
          "        part of the program, any other can be changed by updateOptimizerFromHost. All defaults are\n"
          "        constant.\n"
          "\n"
          "        - defaultLearningRate: 0.1 by default\n"
          "        - defaultWeightDecay: 0 by default\n"
          "        - defaultBeta1: 0.9 by default\n"
          "        - defaultBeta2: 0.999 by default\n"
          "        - defaultEps: 1e-6 by default\n"
          "        - defaultMaxWeightNorm: 10 by default, for Lamb\n"
          "        - lossScaling: 1 by default\n"
          "\n"
          "    mode: Which of the five.\n"
          "    weight_decay_mode: Decay of the weight, or L2 term of the gradient.\n"
          "    accum_type: Element type of accumulators; UNDEFINED: that of the weight.\n"
          "    accl1_type: Element type of the first state.\n"
          "    accl2_type: Element type of the second state.\n"
          "    clip_norm_settings: Groups of weights whose gradients are clipped.\n"
          "    scaled_optimizer_state: Whether the states keep the loss scale.\n"
          "    debugContext: Name.\n"
          "\n"
          "Raises:\n"
          "    popart_exception: An unknown key, a value that is not a tuple, or one out of range.")
      .def(
          "insertSpecific",
          [](Adam &adam, const TensorId &id, nb::object values) { adam.insertSpecific(id, toValues(values)); },
          nb::arg("weight"), nb::arg("values"),
          "Values for one weight; keys that are left out take the defaults of this optimizer.\n"
          "\n"
          "Args:\n"
          "    weight: Id of the weight.\n"
          "    values: Dictionary with learningRate, weightDecay, beta1, beta2, eps, maxWeightNorm, each a "
          "tuple (value, isConst).\n"
          "\n"
          "Raises:\n"
          "    popart_exception: Another key, a bad value, or a second call for the weight.")
      .def("learningRates", &Adam::learningRates, "Learning rates, as OptimizerValueMap.")
      .def("weightDecays", &Adam::weightDecays, "Weight decays, as OptimizerValueMap.")
      .def("beta1s", &Adam::beta1s, "Decays of the first moment, as OptimizerValueMap.")
      // compat: upstream's beta2s returns the values of beta1 (tests/python/popart/test_optimizers.py).
      .def("beta2s", &Adam::beta1s, "What beta1s returns, as PopART's method does, as OptimizerValueMap.")
      .def("epss", &Adam::epss, "Terms added to denominators, as OptimizerValueMap.")
      .def("maxWeightNorms", &Adam::maxWeightNorms, "Largest weight norms of Lamb, as OptimizerValueMap.");
}

void bindAdaptive(nb::module_ &m) {
  bindEnum<AdaptiveMode>(m, "AdaptiveMode", "The optimizers of class Adaptive.",
                         {{"AdaGrad", AdaptiveMode::AdaGrad},
                          {"RMSProp", AdaptiveMode::RMSProp},
                          {"CenteredRMSProp", AdaptiveMode::CenteredRMSProp},
                          {"AdaDelta", AdaptiveMode::AdaDelta}});
  nb::class_<Adaptive, Optimizer>(
      m, "Adaptive", "AdaGrad, RMSProp, CenteredRMSProp and AdaDelta. Formulas: docs/compat/optimizers.md.")
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
          nb::arg("debugContext") = "adaptive",
          "Make the optimizer.\n"
          "\n"
          "Args:\n"
          "    values: Dictionary of hyper-parameters. Each value is a tuple (value, isConst): a constant value is\n"
          "        part of the program, any other can be changed by updateOptimizerFromHost. All defaults are\n"
          "        constant.\n"
          "\n"
          "        - defaultLearningRate: 0.01 by default\n"
          "        - defaultWeightDecay: 0 by default\n"
          "        - defaultAlpha: 0.99 by default\n"
          "        - defaultMomentum: 0 by default\n"
          "        - defaultEps: 1e-6 by default\n"
          "        - lossScaling: 1 by default\n"
          "\n"
          "    mode: Which of the four.\n"
          "    weight_decay_mode: Decay of the weight, or L2 term of the gradient.\n"
          "    accum_type: Element type of accumulators; UNDEFINED: that of the weight.\n"
          "    accl1_type: Element type of the first state.\n"
          "    accl2_type: Element type of the second state; ignored: accl1_type is used for both, as in "
          "PopART.\n"
          "    accl3_type: Element type of the momentum; UNDEFINED: that of the weight.\n"
          "    rmsprop_tf_variant: TensorFlow's form, of the RMSProp modes only.\n"
          "    debugContext: Name.\n"
          "\n"
          "Raises:\n"
          "    popart_exception: An unknown key, a value that is not a tuple, or one out of range.")
      .def(
          "insertSpecific",
          [](Adaptive &adaptive, const TensorId &id, nb::object values) {
            adaptive.insertSpecific(id, toValues(values));
          },
          nb::arg("weight"), nb::arg("values"),
          "Values for one weight; keys that are left out take the defaults of this optimizer.\n"
          "\n"
          "Args:\n"
          "    weight: Id of the weight.\n"
          "    values: Dictionary with learningRate, weightDecay, alpha, momentum, eps, each a tuple (value, "
          "isConst).\n"
          "\n"
          "Raises:\n"
          "    popart_exception: Another key, a bad value, or a second call for the weight.")
      .def("learningRates", &Adaptive::learningRates, "Learning rates, as OptimizerValueMap.")
      .def("weightDecays", &Adaptive::weightDecays, "Weight decays, as OptimizerValueMap.")
      .def("alphas", &Adaptive::alphas, "Decays of the accumulators, as OptimizerValueMap.")
      .def("momentums", &Adaptive::momentums, "Momentums, as OptimizerValueMap.")
      .def("epss", &Adaptive::epss, "Terms added to denominators, as OptimizerValueMap.");
}

// popart.optim has the classes that programs use.
void bindPyTorchOptimizer(nb::module_ &m) {
  bindEnum<PyTorchMode>(m, "_PyTorchMode", "The optimizers of popart.optim.",
                        {{"SGD", PyTorchMode::SGD},
                         {"Adam", PyTorchMode::Adam},
                         {"AdamW", PyTorchMode::AdamW},
                         {"RMSprop", PyTorchMode::RMSprop},
                         {"Adagrad", PyTorchMode::Adagrad},
                         {"Adadelta", PyTorchMode::Adadelta},
                         {"Adamax", PyTorchMode::Adamax},
                         {"Lamb", PyTorchMode::Lamb}});
  using Group = std::pair<std::vector<std::string>, std::map<std::string, float>>;
  nb::class_<optim::Optimizer, Optimizer>(m, "_PyTorchOptimizer",
                                          "An optimizer by PyTorch's name. Formulas: docs/guides/optimizers.md.")
      .def(
          "__init__",
          [](optim::Optimizer *self, PyTorchMode mode, const std::map<std::string, float> &values,
             const std::map<std::string, bool> &flags, float clipNorm, float clipValue, bool maximize,
             std::pair<float, bool> lossScaling, const std::vector<Group> &groups) {
            const auto flag = [&](const char *name) { return flags.count(name) != 0 && flags.at(name); };
            std::vector<optim::ParameterGroup> all;
            for (const auto &[weights, own] : groups) all.push_back({weights, own});
            new (self) optim::Optimizer(mode, values, {flag("nesterov"), flag("centered"), flag("amsgrad")},
                                        {clipNorm, clipValue, maximize, lossScaling}, all);
          },
          nb::arg("mode"), nb::arg("values"), nb::arg("flags"), nb::arg("clip_norm"), nb::arg("clip_value"),
          nb::arg("maximize"), nb::arg("loss_scaling"), nb::arg("groups"),
          "Make the optimizer; see popart::optim::Optimizer.\n"
          "\n"
          "Args:\n"
          "    mode: Which of them.\n"
          "    values: Numbers by PyTorch's argument; betas as beta1 and beta2.\n"
          "    flags: nesterov, centered, amsgrad.\n"
          "    clip_norm: Largest joint norm of gradients; infinity: not clipped.\n"
          "    clip_value: Largest absolute value of gradients; infinity: not clipped.\n"
          "    maximize: Whether the loss grows.\n"
          "    loss_scaling: Factor of the loss, and whether it is constant.\n"
          "    groups: Names or globs of weights, and their numbers.\n"
          "\n"
          "Raises:\n"
          "    popart_exception: A number out of its range, or one that the optimizer does not have.")
      .def_prop_rw("lr", &optim::Optimizer::learningRate, &optim::Optimizer::setLearningRate,
                   "Learning rate of the weights that have none of their own.")
      .def_prop_rw("lr_factor", &optim::Optimizer::rateFactor, &optim::Optimizer::setRateFactor,
                   "Factor of all learning rates, those of groups too: what schedules set.")
      .def("_value", &optim::Optimizer::value, nb::arg("name"), nb::arg("group") = -1,
           "The number `name` of group `group`; of the weights without a group for -1.");
}

// Calls with PyTorch's arguments.
void explainConstructors() {
  const auto insteadOf = [](const std::string &rate, const std::string &pytorch) {
    return "a dictionary such as {'defaultLearningRate': (" + rate +
           ", True)}. With PyTorch's arguments: popart.optim." + pytorch;
  };
  explainMisfits<SGD>("__init__", insteadOf("0.1", "SGD(lr=0.1)"));
  explainMisfits<Adam>("__init__", insteadOf("0.001", "Adam(lr=0.001), AdamW, Adamax or Lamb"));
  explainMisfits<Adaptive>("__init__", insteadOf("0.01", "RMSprop(lr=0.01), Adagrad or Adadelta"));
  explainMisfits<ConstSGD>("__init__",
                           "a learning rate, and maybe weight_decay, loss_scaling and clip_norm_settings. "
                           "With PyTorch's arguments: popart.optim.SGD(lr=0.1)");
}

}  // namespace

void bindOptimizers(nb::module_ &m) {
  bindEnum<WeightDecayMode>(
      m, "WeightDecayMode", "Decay of the weight, or L2 term of the gradient.",
      {{"Decay", WeightDecayMode::Decay}, {"L2Regularization", WeightDecayMode::L2Regularization}});
  nb::class_<OptimizerValue>(m, "OptimizerValue", "A hyper-parameter and whether it is part of the program.")
      .def(nb::init<float, bool>(), nb::arg("val"), nb::arg("isConst"),
           "Make a value.\n"
           "\n"
           "Args:\n"
           "    val: The number.\n"
           "    isConst: Whether it stays for ever.")
      .def("val", &OptimizerValue::val, "The number.")
      .def("isConst", &OptimizerValue::isConst, "Whether it is part of the program.");
  nb::class_<OptimizerValueMap>(m, "OptimizerValueMap",
                                "A hyper-parameter of all weights: a default, and values of single weights.")
      .def("getDefault", &OptimizerValueMap::getDefault, "The default.");
  nb::class_<ClipNormSettings>(
      m, "ClipNormSettings",
      "Gradient clipping: a group of weights whose gradients are scaled down together when their norm is "
      "above a limit.")
      .def(nb::init<const std::vector<TensorId> &, float>(), nb::arg("weightIds"), nb::arg("maxNorm"),
           "A group of weights.\n"
           "\n"
           "Args:\n"
           "    weightIds: Ids of the weights.\n"
           "    maxNorm: Largest norm, above 0.")
      .def_static("clipWeights", &ClipNormSettings::clipWeights, nb::arg("weightIds"), nb::arg("maxNorm"),
                  "A group of weights.\n"
                  "\n"
                  "Args:\n"
                  "    weightIds: Ids of the weights.\n"
                  "    maxNorm: Largest norm, above 0.")
      .def_static("clipAllWeights", &ClipNormSettings::clipAllWeights, nb::arg("maxNorm"),
                  "One group of all weights.\n"
                  "\n"
                  "Args:\n"
                  "    maxNorm: Largest norm, above 0.")
      .def_rw("weightIds", &ClipNormSettings::weightIds)
      .def_rw("maxNorm", &ClipNormSettings::maxNorm);
  nb::class_<Optimizer>(m, "Optimizer", "What all optimizers share.")
      .def("getLossScalingVal", &Optimizer::getLossScalingVal, "The loss scale.");
  bindSgd(m);
  bindAdam(m);
  bindAdaptive(m);
  bindPyTorchOptimizer(m);
  explainConstructors();
}

}  // namespace popart::python
