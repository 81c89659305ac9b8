// What a floating-point initializer is by the operands that read it, followed through views, transposes, casts,
// Identity, Q/DQ and computations of initializers alone.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <popart/tensordata.hpp>

#include "onnx/training/flat_model.hpp"

namespace popart::onnx {

// One reading of an initializer, or what several readings come to.
struct Verdict {
  // In ascending order of weight: of several readings the last counts.
  enum class Kind : uint8_t {
    Unread,
    Setting,    // exponent, bound, size …
    Stays,      // a plain operand that is no parameter
    Trains,     // a plain operand that is one
    Parameter,  // by an operand that holds parameters
    Statistic,
  };
  Kind kind = Kind::Unread;
  std::string reason = "no operator reads it";
  bool doubtful = false;
  bool isTable = false;  // rows of it are looked up
  bool isUsual = false;  // it stays because such operands seldom train: one number, a subtrahend or divisor
  bool trains() const { return kind == Kind::Trains || kind == Kind::Parameter; }
};

class SlotRule {
 public:
  // `valueOf`: the elements of an initializer. Both outlive the rule.
  using ValueOf = std::function<TensorData(const FlatInitializer &)>;
  SlotRule(const FlatModel &model, ValueOf valueOf);

  // What all readings of the initializer come to, without those through the outputs `apart` of Identity nodes.
  Verdict of(const FlatInitializer &initializer, const std::vector<int> &apart = {}) const;
  // What the readings of `value`, an output of an Identity of the initializer, come to.
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
  bool isScaledAgain(const FlatNode &norm) const;
  bool isBehindParameters(const FlatNode &node, int except) const;
  bool isNormalisationOfInput(const FlatNode &product, int except) const;
  bool isStaticNode(const FlatNode &node) const;
  bool isOfInput(const FlatNode &node, int except) const;
  bool keepsInput(const FlatUse &use) const;
  bool holdsParameters(const FlatNode &node, const std::vector<bool> &isChannels) const;
  bool keepsParametersInFront(const FlatNode &node) const;
  template <class GoesOn>
  std::vector<bool> reached(std::vector<int> open, const GoesOn &goesOn) const;

  const FlatModel &model_;
  ValueOf valueOf_;
  std::vector<int> tables_;  // by initializer: the node that reads it as data, -1: none
  // By value: it follows from initializers alone that are no such tables.
  std::vector<bool> isStatic_;
  // By value: it follows from initializers alone; operators with parameters come before it; it is an input of the
  // model, moved, joined, scaled by one number or with something added.
  std::vector<bool> ofInitializers_, behind_, ofInput_;
};

}  // namespace popart::onnx
