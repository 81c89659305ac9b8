// Classifies a floating-point initializer by the operands that read it, through views, transposes, casts, Identity,
// Q/DQ and computations on initializers alone.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <popart/tensordata.hpp>

#include "onnx/training/flat_model.hpp"

namespace popart::onnx {

// The result for one reading of an initializer, or for several together.
struct Verdict {
  // In ascending order: of several readings the last one in this list counts.
  enum class Kind : uint8_t {
    Unread,
    Setting,    // exponent, bound, size …
    Stays,      // an ordinary operand that is not a parameter
    Trains,     // an ordinary operand that is a parameter
    Parameter,  // an operand that holds parameters
    Statistic,
  };
  Kind kind = Kind::Unread;
  std::string reason = "no operator reads it";
  bool doubtful = false;
  bool isTable = false;  // rows of it are looked up
  bool isUsual = false;  // it stays because such operands seldom train: single numbers, subtrahends and divisors
  bool trains() const { return kind == Kind::Trains || kind == Kind::Parameter; }
};

class SlotRule {
 public:
  // `valueOf`: returns the elements of an initializer. It and the model outlive the rule.
  using ValueOf = std::function<TensorData(const FlatInitializer &)>;
  SlotRule(const FlatModel &model, ValueOf valueOf);

  // The combined result of all readings of the initializer, except those through the outputs `apart` of Identity nodes.
  Verdict of(const FlatInitializer &initializer, const std::vector<int> &apart = {}) const;
  // The combined result of the readings of `value`, an output of an Identity of the initializer.
  Verdict ofOutput(const FlatInitializer &initializer, int value) const;

 private:
  struct Walk;
  void follow(Walk &walk, int value) const;
  bool isConstantPart(const FlatNode &node, int input) const;
  bool isUniformValue(int value) const;
  Verdict dataVerdict(const FlatInitializer &initializer, int reader) const;
  Verdict read(const Walk &walk, const FlatUse &use) const;
  Verdict plain(const Walk &walk, const FlatUse &use) const;
  Verdict plainProduct(const Walk &walk, const FlatUse &use) const;
  Verdict plainOfInput(const Walk &walk, const FlatUse &use) const;
  std::string formulaOf(const Walk &walk, const FlatUse &use) const;
  enum class Next { Follow, Skip, Stop };
  template <class Visit>
  bool visitReaders(std::vector<int> open, const Visit &visit) const;
  bool isFactorTable(int node) const;
  bool isMaskOfInput(int value) const;
  bool isScaledAgain(const FlatNode &norm) const;
  bool followsParameters(const FlatNode &node, int except) const;
  bool isNormalisationOfInput(const FlatNode &product, int except) const;
  bool isStaticNode(const FlatNode &node) const;
  bool isOfInput(const FlatNode &node, int except) const;
  bool keepsInput(const FlatUse &use) const;
  bool holdsParameters(const FlatNode &node, const std::vector<bool> &isChannels) const;
  bool passesParametersOn(const FlatNode &node) const;
  template <class GoesOn>
  std::vector<bool> reached(std::vector<int> open, const GoesOn &goesOn) const;

  const FlatModel &model_;
  ValueOf valueOf_;
  std::vector<int> tables_;  // by initializer: the node that reads it as data, -1: none
  // By value: it depends only on initializers that are not such tables.
  std::vector<bool> isStatic_;
  // By value: it depends only on initializers; operators with parameters come before it; it is an input of the model
  // that was moved, joined, scaled by one number, or had something added.
  std::vector<bool> ofInitializers_, afterParameters_, ofInput_;
};

}  // namespace popart::onnx
