// Patterns: which graph rewrites a session runs (docs/options.md). Rewrites themselves: src/patterns.
#pragma once
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace popart {

class Op;
class Tensor;
struct OperatorIdentifier;

// Every pattern of the library, by name.
// clang-format off
#define POPART_PATTERNS(X) \
  X(AbsGradOp) X(AllReduceToIdentity) X(Atan2Arg0GradOp) X(Atan2Arg1GradOp) X(ConvDataGrad) \
  X(ConvFlipWeightsDoubleFlip) X(ConvFlipWeightsGradOp) X(ConvTranspose) X(CosGradOp) X(CoshOp) \
  X(DecomposeBinaryConstScalar) X(DivArg0GradOp) X(DivArg1GradOp) X(ExpGradOp) X(ExpandCast) X(Expm1GradOp) \
  X(FmodArg0GradOp) X(InitAccumulate) X(LSTMOp) X(LambSerialisedWeight) X(Log1pGradOp) X(LogGradOp) X(LoopScanOut) \
  X(MatMulLhsGradOp) X(MatMulOp) X(MatMulRhsGradOp) X(MulArgGradOp) X(NegativeOneScale) \
  X(NlllWithSoftmaxGradDirect) X(OpToIdentity) X(PackedDataBlock) X(PadSum) X(PostNRepl) X(PowArg0GradOp) \
  X(PowArg1GradOp) X(PreUniRepl) X(RandomNormalLikeOpPattern) X(RandomUniformLikeOpPattern) X(ReciprocalGradOp) \
  X(RemoveUnnecessaryLossGradCast) X(ScanToLoop) X(SinGradOp) X(Slice2SliceSubsample) X(SoftmaxGradDirect) \
  X(SplitGather) X(SplitGradOpToConcat) X(SplitOp) X(SqrtGradOp) X(SubtractArg1GradOp) X(SumToAdd) X(TiedGather) \
  X(TiedGatherAccumulate) X(TransposeToIdentityOrReshapePattern) X(UpsampleToResize) X(ZerosLikeOpPattern)
// clang-format on

// NoPatterns: none; Minimal: the mandatory ones; Default: those that are on by default; All: all. Minimal also turns
// in-place sharing off.
enum class PatternsLevel { NoPatterns = 0, Minimal, Default, All };

// A switch for each registered pattern, and three switches of the in-place pass.
class Patterns {
 public:
  Patterns() : Patterns(PatternsLevel::Default) {}
  explicit Patterns(PatternsLevel level);  // the patterns of the level
  // Turns on exactly these patterns. Throws popart::error "Unknown pattern ..." with the nearest name.
  explicit Patterns(const std::vector<std::string> &names);
  static Patterns create(const std::vector<std::string> &names) { return Patterns(names); }

  // Throws popart::error for an unknown name.
  bool isPatternEnabled(const std::string &name) const;
  // Throws popart::error for an unknown name and, with runtime asserts on, for turning a mandatory pattern off.
  Patterns &enablePattern(const std::string &name, bool on);
  static bool isMandatory(const std::string &name);
// isPreUniReplEnabled(), enablePreUniRepl(on), … : the two above with the pattern in their names.
#define POPART_PATTERN_SWITCH(NAME)                                  \
  bool is##NAME##Enabled() const { return isPatternEnabled(#NAME); } \
  Patterns &enable##NAME(bool on) { return enablePattern(#NAME, on); }
  POPART_PATTERNS(POPART_PATTERN_SWITCH)
#undef POPART_PATTERN_SWITCH
  static std::vector<std::string> getAllPreAliasPatternNames();

  // Whether operators become in-place variants. compat: the planner shares memory of other operators by the same rule,
  // whatever this switch says; the same holds for the priorities below.
  Patterns &enableInPlace(bool on) {
    inplaceEnabled_ = on;
    return *this;
  }
  bool isInPlaceEnabled() const { return inplaceEnabled_; }
  Patterns &enableUpdateInplacePrioritiesForIpu(bool on) {
    updateInplacePrioritiesForIpu_ = on;
    return *this;
  }
  bool isUpdateInplacePrioritiesForIpuEnabled() const { return updateInplacePrioritiesForIpu_; }
  // Off: a session may be built even if mandatory patterns are off.
  Patterns &enableRuntimeAsserts(bool on) {
    runtimeAssertsOn_ = on;
    return *this;
  }
  bool runtimeAssertsOn() const { return runtimeAssertsOn_; }
  // Throws popart::error naming the mandatory patterns that are off, unless runtime asserts are off.
  void checkMandatory() const;

  // Names of the patterns that are on, in order of priority.
  std::vector<std::string> enabledNames() const;
  bool operator==(const Patterns &) const = default;

 private:
  std::map<std::string, bool> enabled_;  // every registered pattern
  bool inplaceEnabled_ = true;
  bool updateInplacePrioritiesForIpu_ = false;
  bool runtimeAssertsOn_ = true;
};

std::ostream &operator<<(std::ostream &os, const Patterns &patterns);  // the enabled names, blanks between them

// A rewrite written by users. `matches` examines an op; `apply` changes the graph around it and returns whether it did.
class PreAliasPattern {
 public:
  virtual ~PreAliasPattern() = default;
  virtual bool matches(Op *op) const = 0;  // called for every op; must not change anything
  // Tensors that `apply` may replace or remove; if one of them is anchored, the pattern is not applied.
  virtual std::vector<const Tensor *> touches(Op *op) const = 0;
  virtual bool apply(Op *op) const = 0;  // the graph must stay legal; true if it changed

 protected:
  // A new, unconnected op of `opid` in the graph of `oldOp`, with its settings; `suffix` is appended to the name. The
  // operator may be the library's or a user's; attributes have their defaults. Throws popart::error for an unknown
  // operator.
  Op *makeReplacementOpInIr(const OperatorIdentifier &opid, Op *oldOp, const std::string &suffix = "") const;
};

// Adds a user pattern; throws popart::error if the name is in use.
void registerPattern(const std::string &name, std::shared_ptr<const PreAliasPattern> pattern, bool enabled,
                     bool mandatory);

// Registers P at static initialisation.
template <class P>
class PatternCreator {
 public:
  // Throws popart::error if the name is in use.
  explicit PatternCreator(const std::string &name, bool enabled = true, bool mandatory = false) {
    registerPattern(name, std::make_shared<P>(), enabled, mandatory);
  }
};

}  // namespace popart

template <>
struct std::hash<popart::Patterns> {
  std::size_t operator()(const popart::Patterns &patterns) const;
};
