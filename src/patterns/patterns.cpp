// The table of patterns, and the class that says which of them run. Names, defaults, mandatory marks and priorities are
// those of PopART. Rows without a rewrite are expansions that are decomposition rows of the operator catalog
// here.
#include <popart/patterns/patterns.hpp>

#include <algorithm>
#include <ostream>

#include <popart/error.hpp>

#include "base/nearest.hpp"
#include "ir/hints.hpp"
#include "patterns/pattern.hpp"

namespace popart {
namespace patterns {
namespace {

constexpr float kNoPriority = -1.0f;

constexpr PatternRow kRows[] = {
    // name, priority, default, mandatory, rewrite, expands, needed, hint
    {"Slice2SliceSubsample", 55, false, false, sliceToSubsample},
    {"ExpandCast", 54, true, false, castBeforeExpand},
    {"ConvFlipWeightsDoubleFlip", 53, true, false, nullptr},
    {"ConvFlipWeightsGradOp", 52, true, true, nullptr, " ConvWeightsGrad ", true, kOfTransposed},
    {"Atan2Arg0GradOp", 51, true, true, nullptr, " Atan2Arg0Grad ", true},
    {"Atan2Arg1GradOp", 50, true, true, nullptr, " Atan2Arg1Grad ", true},
    {"DecomposeBinaryConstScalar", 47, true, false, nullptr},
    {"Log1pGradOp", 45, true, true, nullptr, " Log1pGrad ", true},
    {"Expm1GradOp", 44, true, true, nullptr, " Expm1Grad ", true},
    {"RandomNormalLikeOpPattern", 43, true, true, normalLikeToShaped},
    {"RandomUniformLikeOpPattern", 42, true, true, uniformLikeToShaped},
    {"ZerosLikeOpPattern", 41, true, true, nullptr},
    {"FmodArg0GradOp", 39, true, true, nullptr, " FmodArg0Grad "},
    {"UpsampleToResize", 38, true, false, nullptr},
    {"InitAccumulate", 37, true, false, nullptr},
    {"PreUniRepl", 36, true, false, removeIdentity},
    {"PostNRepl", 35, true, false, removeIdentity},
    {"SoftmaxGradDirect", 34, true, false, fuseSoftmaxGrad},
    {"NlllWithSoftmaxGradDirect", 33, true, false, fuseNllWithSoftmaxGrad},
    {"OpToIdentity", 31, true, false, replaceByIdentity, " AddArg0Grad AddArg1Grad SubArg0Grad ReduceSumTo "},
    {"SubtractArg1GradOp", 30, true, true, nullptr, " SubArg1Grad ", true},
    {"MulArgGradOp", 29, true, true, nullptr, " MulArg0Grad MulArg1Grad "},
    {"ReciprocalGradOp", 28, true, true, nullptr, " ReciprocalGrad ", true},
    {"DivArg0GradOp", 27, true, true, nullptr, " DivArg0Grad "},
    {"DivArg1GradOp", 26, true, true, nullptr, " DivArg1Grad "},
    {"SinGradOp", 25, true, true, nullptr, " SinGrad "},
    {"CosGradOp", 24, true, true, nullptr, " CosGrad ", true},
    {"SqrtGradOp", 22, true, true, nullptr, " SqrtGrad ", true},
    {"ExpGradOp", 21, true, true, nullptr, " ExpGrad ", true},
    {"LogGradOp", 20, true, true, nullptr, " LogGrad "},
    {"CoshOp", 19, true, true, nullptr, " Cosh ", true},
    {"NegativeOneScale", 16, true, false, scaleToNeg},
    {"PadSum", 15, true, false, sumOfPadsToConcat},
    {"AbsGradOp", 14, true, true, nullptr, " AbsGrad "},
    {"SplitGather", 13, false, false, splitGather},
    {"ConvDataGrad", 12, true, true, nullptr},
    {"SumToAdd", 11, true, false, sumToAdd},
    {"SplitGradOpToConcat", 9, true, false, splitGradToConcat},
    {"SplitOp", 8, true, false, splitToSlices},
    {"PowArg0GradOp", 7, true, true, nullptr, " PowArg0Grad "},
    {"PowArg1GradOp", 6, true, true, nullptr, " PowArg1Grad "},
    {"MatMulOp", 4, true, true, nullptr},
    {"MatMulLhsGradOp", 3, true, true, nullptr, " MatMulLhsGrad "},
    {"MatMulRhsGradOp", 2, true, true, nullptr, " MatMulRhsGrad "},
    {"LSTMOp", 0, false, false, nullptr},
    {"AllReduceToIdentity", kNoPriority, true, true, nullptr},
    {"ConvTranspose", kNoPriority, true, true, nullptr},
    {"LambSerialisedWeight", kNoPriority, true, false, nullptr},
    {"LoopScanOut", kNoPriority, true, true, nullptr},
    {"PackedDataBlock", kNoPriority, true, false, nullptr},
    {"RemoveUnnecessaryLossGradCast", kNoPriority, true, false, nullptr},
    {"ScanToLoop", kNoPriority, true, true, nullptr},
    {"TiedGather", kNoPriority, false, false, nullptr},
    {"TiedGatherAccumulate", kNoPriority, false, false, nullptr},
    {"TransposeToIdentityOrReshapePattern", kNoPriority, true, false, transposeToReshape},
};

std::vector<UserPattern> &mutableUserPatterns() {
  static std::vector<UserPattern> patterns;
  return patterns;
}

}  // namespace

const std::vector<UserPattern> &userPatterns() { return mutableUserPatterns(); }

std::vector<PatternRow> allPatterns() {
  std::vector<PatternRow> rows(std::begin(kRows), std::end(kRows));
  for (const UserPattern &user : userPatterns())
    rows.push_back({user.name.c_str(), kNoPriority, user.enabled, user.mandatory, nullptr});
  return rows;
}

}  // namespace patterns

namespace {

constexpr const char *kInPlace = "InPlace";
constexpr const char *kInplacePriorities = "UpdateInplacePrioritiesForIpu";

[[noreturn]] void throwUnknown(const std::string &name) {
  std::vector<std::string> names = Patterns::getAllPreAliasPatternNames();
  names.insert(names.end(), {kInPlace, kInplacePriorities});
  throw error("Unknown pattern '{}'{}", name, nearestText(name, names));
}

}  // namespace

Patterns::Patterns(PatternsLevel level) {
  for (const auto &row : patterns::allPatterns()) {
    const bool on = level == PatternsLevel::All || (level == PatternsLevel::Default && row.enabled) ||
                    (level == PatternsLevel::Minimal && row.mandatory);
    enabled_[row.name] = on;
  }
  inplaceEnabled_ = level == PatternsLevel::Default || level == PatternsLevel::All;
}

Patterns::Patterns(const std::vector<std::string> &names) : Patterns(PatternsLevel::NoPatterns) {
  for (const std::string &name : names) enablePattern(name, true);
}

bool Patterns::isPatternEnabled(const std::string &name) const {
  if (name == kInPlace) return inplaceEnabled_;
  if (name == kInplacePriorities) return updateInplacePrioritiesForIpu_;
  if (const auto it = enabled_.find(name); it != enabled_.end()) return it->second;
  // A user pattern that was registered after this object was made has its own default.
  for (const auto &user : patterns::userPatterns())
    if (user.name == name) return user.enabled;
  throwUnknown(name);
}

Patterns &Patterns::enablePattern(const std::string &name, bool on) {
  if (name == kInPlace) return enableInPlace(on);
  if (name == kInplacePriorities) return enableUpdateInplacePrioritiesForIpu(on);
  static_cast<void>(isPatternEnabled(name));  // throws for an unknown name
  check(on || !runtimeAssertsOn_ || !isMandatory(name),
        "Pattern '{}': the pattern is mandatory and cannot be turned off. Call enableRuntimeAsserts(False) first to do "
        "without it",
        name);
  enabled_[name] = on;
  return *this;
}

bool Patterns::isMandatory(const std::string &name) {
  for (const auto &row : patterns::allPatterns())
    if (name == row.name) return row.mandatory;
  return false;
}

std::vector<std::string> Patterns::getAllPreAliasPatternNames() {
  std::vector<std::string> names;
  for (const auto &row : patterns::allPatterns()) names.emplace_back(row.name);
  return names;
}

void Patterns::checkMandatory() const {
  if (!runtimeAssertsOn_) return;
  std::vector<std::string> missing;
  for (const auto &row : patterns::allPatterns())
    if (row.mandatory && !isPatternEnabled(row.name)) missing.emplace_back(row.name);
  check(missing.empty(),
        "Patterns: mandatory patterns are off: got {}. Enable them, or call enableRuntimeAsserts(False)", missing);
}

std::vector<std::string> Patterns::enabledNames() const {
  std::vector<std::string> names;
  for (const auto &row : patterns::allPatterns())
    if (isPatternEnabled(row.name)) names.emplace_back(row.name);
  return names;
}

std::ostream &operator<<(std::ostream &os, const Patterns &patterns) {
  const char *separator = "";
  for (const std::string &name : patterns.enabledNames()) os << separator << name, separator = " ";
  return os;
}

Op *PreAliasPattern::makeReplacementOpInIr(const OperatorIdentifier &opid, Op *oldOp, const std::string &suffix) const {
  const OpDef *def = findOnnxOp(opid.domain, opid.type, opid.version);
  if (!def) def = findOpDef(opid.type);
  check(def != nullptr, "Pattern: cannot replace {}: operator {} is not known. Register it first", oldOp->debugName(),
        opid);
  return oldOp->getGraph().addOp(*def, {}, inheritSettings(*oldOp, oldOp->getGraph(), suffix));
}

void registerPattern(const std::string &name, std::shared_ptr<const PreAliasPattern> pattern, bool enabled,
                     bool mandatory) {
  for (const auto &row : patterns::allPatterns())
    check(name != row.name, "Pattern '{}': a pattern of this name exists already", name);
  patterns::mutableUserPatterns().push_back({name, std::move(pattern), enabled, mandatory});
}

}  // namespace popart

std::size_t std::hash<popart::Patterns>::operator()(const popart::Patterns &patterns) const {
  std::size_t seed = patterns.isInPlaceEnabled() * 2u + patterns.isUpdateInplacePrioritiesForIpuEnabled();
  for (const std::string &name : patterns.enabledNames()) seed = seed * 31u + std::hash<std::string>()(name);
  return seed;
}
