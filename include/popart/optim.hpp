// popart::optim: optimizers by PyTorch's names, arguments, defaults and formulas, and Lamb of You et al. 2020
// (docs/guides/optimizers.md). The learning rate may change between steps; every other number is part of the program.
//   Trainer trainer("model.onnx", spec, optim::AdamW({.lr = 1e-3f, .groups = {{{"*.bias"}, {{"weight_decay", 0}}}}}));
#pragma once
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <popart/optimizer.hpp>

namespace popart::optim {

constexpr float kUnlimited = std::numeric_limits<float>::infinity();  // no limit

// Weights with their own numbers.
struct ParameterGroup {
  std::vector<std::string> weights;  // names or globs of weights
  // By PyTorch's argument: "lr", "weight_decay", "momentum", "beta1" … A group with "lr" 0 is frozen: its weights have
  // no gradient and no state, and a replacement of the optimizer cannot set another learning rate.
  std::map<std::string, float> values;
};

// Operations on gradients before the formula, for all optimizers.
struct Gradients {
  float clipNorm = kUnlimited;        // largest joint L2 norm, as torch.nn.utils.clip_grad_norm_; above 0
  float clipValue = kUnlimited;       // largest absolute value, as torch.nn.utils.clip_grad_value_; not with clipNorm
  bool maximize = false;              // maximises the loss
  OptimizerValue lossScaling = 1.0f;  // factor of the loss in the backward pass, which updates divide out; not 0
};

// The arguments of torch.optim.SGD.
struct SGDArguments {
  float lr = 1e-3f, momentum = 0, dampening = 0, weightDecay = 0;  // as there, with its defaults
  bool nesterov = false;                                           // requires momentum, and no dampening
  Gradients gradients = {};                                        // see there
  std::vector<ParameterGroup> groups = {};                         // weights with their own numbers
};
// The arguments of torch.optim.Adam.
struct AdamArguments {
  float lr = 1e-3f, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, weightDecay = 0;  // as there
  bool amsgrad = false;                                                          // as there
  Gradients gradients = {};                                                      // see there
  std::vector<ParameterGroup> groups = {};                                       // weights with their own numbers
};
// The arguments of torch.optim.AdamW.
struct AdamWArguments {
  float lr = 1e-3f, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, weightDecay = 1e-2f;  // as there
  bool amsgrad = false;                                                              // as there
  Gradients gradients = {};                                                          // see there
  std::vector<ParameterGroup> groups = {};                                           // weights with their own numbers
};
// The arguments of torch.optim.RMSprop.
struct RMSpropArguments {
  float lr = 1e-2f, alpha = 0.99f, eps = 1e-8f, weightDecay = 0, momentum = 0;  // as there
  bool centered = false;                                                        // as there
  Gradients gradients = {};                                                     // see there
  std::vector<ParameterGroup> groups = {};                                      // weights with their own numbers
};
// The arguments of torch.optim.Adagrad.
struct AdagradArguments {
  float lr = 1e-2f, lrDecay = 0, weightDecay = 0, initialAccumulatorValue = 0, eps = 1e-10f;  // as there
  Gradients gradients = {};                                                                   // see there
  std::vector<ParameterGroup> groups = {};  // weights with their own numbers
};
// The arguments of torch.optim.Adadelta.
struct AdadeltaArguments {
  float lr = 1.0f, rho = 0.9f, eps = 1e-6f, weightDecay = 0;  // as there
  Gradients gradients = {};                                   // see there
  std::vector<ParameterGroup> groups = {};                    // weights with their own numbers
};
// The arguments of torch.optim.Adamax.
struct AdamaxArguments {
  float lr = 2e-3f, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, weightDecay = 0;  // as there
  Gradients gradients = {};                                                      // see there
  std::vector<ParameterGroup> groups = {};                                       // weights with their own numbers
};
// The arguments of Lamb.
struct LambArguments {
  float lr = 1e-3f, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-6f, weightDecay = 0;  // as AdamW's
  float maxWeightNorm = kUnlimited;                                              // upper bound of the weight's norm
  Gradients gradients = {};                                                      // see there
  std::vector<ParameterGroup> groups = {};                                       // weights with their own numbers
};

// One of these optimizers.
class Optimizer : public popart::Optimizer {
 public:
  // Options that are not numbers.
  struct Flags {
    // `nesterov` of SGD; `centered` of RMSprop; `amsgrad` of Adam and AdamW.
    bool nesterov = false, centered = false, amsgrad = false;
  };
  // `values`: every number of the optimizer, by PyTorch's argument; betas as "beta1", "beta2". Throws popart::error: a
  // number that the optimizer does not have or that is missing, one out of PyTorch's range, both kinds of clipping, a
  // flag of another optimizer, nesterov without momentum or with dampening.
  Optimizer(PyTorchMode mode, const std::map<std::string, float> &values, Flags flags, const Gradients &gradients,
            const std::vector<ParameterGroup> &groups);

  // The learning rate of weights without their own. Throws popart::error below 0.
  float learningRate() const { return values_.at("lr"); }
  void setLearningRate(float rate);
  // Factor of all learning rates, including those of groups; schedules set it. Throws popart::error below 0.
  float rateFactor() const { return rateFactor_; }
  void setRateFactor(float factor);
  // The number of a group; -1: of the weights without a group. Throws popart::error for unknown names and groups.
  float value(const std::string &name, int group = -1) const;
  const std::vector<ParameterGroup> &groups() const { return groups_; }
  PyTorchMode mode() const { return mode_; }

  OptimizerType type() const override { return OptimizerType::PyTorch; }
  std::string type_s() const override;
  std::unique_ptr<popart::Optimizer> clone() const override { return std::make_unique<Optimizer>(*this); }
  std::string replacementProblem(const popart::Optimizer &other) const override;
  // Whether the weight's group has a learning rate of 0: 0 times any factor stays 0.
  bool neverChanges(const TensorId &weight) const override;
  void resolveGroups(const std::vector<TensorId> &weights) override;
  std::vector<std::string> scalarNames(const TensorId &weight) const override;
  OptimizerScalar scalar(const std::string &name, const TensorId &weight) const override;
  const OptimizerValueMap &learningRates() const override { return rates_; }
  size_t hash() const override;

 private:
  UpdateRule updateForm(const TensorId &weight) const override;
  int groupOf(const TensorId &weight) const;  // -1: none
  void checkValues(const std::map<std::string, float> &values) const;

  PyTorchMode mode_;
  std::map<std::string, float> values_;
  Flags flags_;
  Gradients gradients_;
  std::vector<ParameterGroup> groups_;
  std::map<TensorId, int> groupOf_;  // set by resolveGroups
  OptimizerValueMap rates_;          // of the weights of groups, set by resolveGroups
  float rateFactor_ = 1.0f;
};

// Each throws in the cases of the constructor above.
Optimizer SGD(const SGDArguments &arguments = {});
Optimizer Adam(const AdamArguments &arguments = {});
Optimizer AdamW(const AdamWArguments &arguments = {});
Optimizer RMSprop(const RMSpropArguments &arguments = {});
Optimizer Adagrad(const AdagradArguments &arguments = {});
Optimizer Adadelta(const AdadeltaArguments &arguments = {});
Optimizer Adamax(const AdamaxArguments &arguments = {});
Optimizer Lamb(const LambArguments &arguments = {});

}  // namespace popart::optim
