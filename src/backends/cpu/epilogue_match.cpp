// A walk from the product through the terms that kernels add in registers:
//   product → ·alpha → +bias → +residual = value
// What follows reads the value: nothing, one instruction that runs in registers, or a program. Apart from that, the
// forms in which optimizers and programs write gradient descent.
#include "backends/cpu/epilogue_match.hpp"

#include <popart/ir.hpp>
#include <popart/opdef.hpp>

#include <algorithm>
#include <set>

#include "backends/cpu/element_table.hpp"

namespace popart::cpu {
namespace {

// The role of the body's tensors for the product.
class Body {
 public:
  explicit Body(const Graph &body) : body_(body), product_(body.inputs()[0]) {}

  bool isOfType(DataType type, std::string &reason) const {
    for (TensorIndex t : body_.inputs())
      if (body_.info(t).dataType() != type)
        return reason = "an epilogue operand is " + toText(body_.info(t).dataType()), false;
    return true;
  }

 protected:
  DataType type() const { return body_.info(product_).dataType(); }
  int operand(TensorIndex t) const {
    const auto it = std::find(body_.inputs().begin(), body_.inputs().end(), t);
    return it == body_.inputs().end() ? -1 : static_cast<int>(it - body_.inputs().begin()) - 1;
  }
  bool isFull(TensorIndex t) const { return operand(t) >= 0 && body_.info(t).shape() == body_.info(product_).shape(); }
  std::optional<ScalarSource> scalar(TensorIndex t) const {
    if (!t.valid() || body_.info(t).nelms() != 1) return std::nullopt;
    const Tensor &tensor = body_.tensor(t);
    if (tensor.tensorType() == TensorType::Const)
      return ScalarSource{static_cast<float>(tensor.tensorData().asDoubles()[0]), -1, 1};
    if (operand(t) >= 0 && type() == DataType::FLOAT) return ScalarSource{0, operand(t), 1};
    return std::nullopt;
  }

  const Graph &body_;
  TensorIndex product_;
};

class EpilogueMatcher : Body {
 public:
  EpilogueMatcher(const Graph &body, const EpilogueTarget &target) : Body(body), target_(target) {}

  std::optional<MatchedEpilogue> run(std::string &reason) {
    if (type() != DataType::FLOAT && !isHalf(type())) return reason = "its product is " + toText(type()), std::nullopt;
    result_.type = type();
    value_ = product_;
    matchTerms();
    for (const Op *op : body_.getOpSchedule())
      if (!terms_.contains(op)) rest_.push_back(op);
    if (isValueOnly() || isOneStep() || isSwish()) return result_;
    if (target_.form == EpilogueForm::kRegisters)
      return reason = "its element-wise part is not an instruction that runs in registers", std::nullopt;
    if (!compileRest(reason)) return std::nullopt;
    return result_;
  }

 private:
  bool isRow(TensorIndex t) const {
    const Shape &s = body_.info(t).shape();
    const size_t fromEnd = target_.axis == RowAxis::Last ? 1 : body_.info(product_).shape().size() - 1;
    return operand(t) >= 0 && s.size() >= fromEnd && s[s.size() - fromEnd] == target_.columns &&
           body_.info(t).nelms() == target_.columns;
  }
  int outputIndex(TensorIndex t) const {
    const auto it = std::find(body_.outputs().begin(), body_.outputs().end(), t);
    return it == body_.outputs().end() ? -1 : static_cast<int>(it - body_.outputs().begin());
  }
  static TensorIndex other(const Op &op, TensorIndex t) {
    return op.inputs()[0] == t ? op.inputs()[1] : op.inputs()[0];
  }
  static bool isPair(const Op &op) { return op.inputCount() == 2 && op.inputs()[0] != op.inputs()[1]; }

  // ---- alpha, bias, residual: as long as one op alone reads the value

  enum Stage { kProduct, kAlpha, kBias, kResidual };  // stages only increase

  void matchTerms() {
    Stage stage = target_.hasBias ? kBias : kProduct;
    while (outputIndex(value_) < 0) {
      const auto readers = body_.tensor(value_).consumerOps();
      if (readers.size() != 1 || !isTerm(*readers.front(), stage)) return;
      terms_.insert(readers.front());
      value_ = readers.front()->outputs()[0];
    }
  }
  bool isTerm(const Op &op, Stage &stage) {
    const auto advance = [&](Stage to) { return stage < to && (stage = to, true); };
    if (op.is(Role::Scale) && advance(kAlpha)) return result_.alpha = ScalarSource{op.attrFloat("scale"), -1, 1}, true;
    if (!isPair(op)) return false;
    const TensorIndex t = other(op, value_);
    if (op.is(Role::Mul) && stage < kAlpha) {
      result_.alpha = scalar(t);
      return result_.alpha && advance(kAlpha);
    }
    if (!op.is(Role::Add) || body_.info(t).dataType() != type()) return false;
    if (isRow(t) && !isFull(t) && advance(kBias)) return result_.bias = operand(t), true;
    return isFull(t) && advance(kResidual) && (result_.residual = operand(t), true);
  }

  // ---- ops after them

  bool isValueOnly() {
    result_.output = 0;
    return rest_.empty() && body_.outputs().size() == 1 && body_.outputs()[0] == value_;
  }
  // Whether the only results are `t` and, if stored, the value.
  bool storesOnly(TensorIndex t) {
    result_.output = outputIndex(t);
    result_.preActivationOutput = outputIndex(value_);
    const size_t results = result_.preActivationOutput < 0 ? 1 : 2;
    return result_.output >= 0 && body_.outputs().size() == results && body_.info(t).dataType() == type();
  }
  static bool isInstruction(const Op &op, ElementOp instruction) {
    const ElementRow *row = findElementRow(op.def().base().type(), RegisterForm::kFloat);
    return row && row->op == instruction && !op.isUserOp();
  }
  bool isOneStep() {
    if (rest_.size() != 1) return false;
    const Op &op = *rest_[0];
    const ElementRow *row = findElementRow(op.def().base().type(), RegisterForm::kFloat);
    if (!row || op.isUserOp() || op.outputCount() != 1 || !runsInRegisters(row->op)) return false;
    if (row->operands == 2) {
      const bool isFirst = isPair(op) && op.inputs()[0] == value_;
      const bool maySwap =
          isPair(op) && (op.is(Role::Add) || op.is(Role::Mul));  // not Max and Min: of two zeros they return one
      const TensorIndex t = isFirst || maySwap ? other(op, value_) : TensorIndex();
      if (!t.valid() || !isFull(t) || body_.info(t).dataType() != type()) return false;
      result_.other = operand(t);
    }
    result_.step = {row->op, elementParameters(*row, op)};
    return storesOnly(op.outputs()[0]);
  }
  // x · sigmoid(x), which has the same bits as Swish; in 16 bits, the sigmoid is rounded first.
  bool isSwish() {
    if (type() != DataType::FLOAT) return false;
    if (rest_.size() != 2 || !isInstruction(*rest_[0], ElementOp::kSigmoid) || !rest_[1]->is(Role::Mul)) return false;
    const Op &product = *rest_[1];
    const TensorIndex sigmoid = rest_[0]->outputs()[0];
    if (rest_[0]->inputs()[0] != value_ || !isPair(product) || outputIndex(sigmoid) >= 0) return false;
    const auto reads = [&](TensorIndex t) { return std::ranges::count(product.inputs(), t) == 1; };
    if (!reads(value_) || !reads(sigmoid)) return false;
    result_.step = {ElementOp::kSwish, {1.0f, 0.0f}};
    return storesOnly(product.outputs()[0]);
  }

  std::optional<CompiledEpilogue::Access> accessOf(TensorIndex t) const {
    using Access = CompiledEpilogue::Access;
    if (isFull(t)) return Access::kMatrix;
    if (body_.info(t).nelms() == 1) return Access::kOne;
    if (target_.rows == RowOperands::kByColumn && isRow(t)) return Access::kRow;
    return std::nullopt;
  }
  bool compileRest(std::string &reason) {
    result_.other = -1;
    result_.step = {};
    ElementSource source{&body_, rest_, {value_}, {}};
    std::vector<CompiledEpilogue::Operand> operands;
    for (TensorIndex t : body_.inputs()) {
      const auto readsIt = [&](const Op *op) { return std::ranges::count(op->inputs(), t) > 0; };
      if (t == value_ || std::ranges::none_of(rest_, readsIt)) continue;
      const auto access = accessOf(t);
      if (!access) return reason = "an operand of its epilogue is neither the product's shape nor a row", false;
      source.inputs.push_back(t);
      operands.push_back({operand(t), *access});
    }
    std::vector<int> results;
    result_.preActivationOutput = outputIndex(value_);
    for (TensorIndex t : body_.outputs()) {
      if (t == value_) continue;
      if (body_.info(t).shape() != body_.info(product_).shape())
        return reason = "a result of its epilogue has another shape than the product", false;
      results.push_back(outputIndex(t));
      source.outputs.push_back(t);
    }
    result_.output = results.empty() ? 0 : results.front();
    result_.program = CompiledEpilogue::compile(source, std::move(operands), std::move(results), reason);
    return result_.program != nullptr;
  }

  EpilogueTarget target_;
  MatchedEpilogue result_;
  TensorIndex value_;  // alpha · product + bias + residual
  std::set<const Op *> terms_;
  std::vector<const Op *> rest_;
};

class DescentMatcher : Body {
 public:
  using Body::Body;

  std::optional<MatchedDescent> run(std::string &reason) {
    if (!isOfType(DataType::FLOAT, reason)) return std::nullopt;
    if (match()) return result_;
    reason = "its reader is not a gradient descent update";
    return std::nullopt;
  }

 private:
  static ScalarSource negated(const ScalarSource &s) { return {-s.value, s.operand, -s.sign}; }

  bool match() {
    if (body_.outputs().size() != 1) return false;
    result_.decay = {1, -1, 1};
    Op *last = body_.tensor(body_.outputs()[0]).getProducerUnsafe();
    if (!last) return false;
    if (last->is(Role::ScaledAdd) && body_.opCount() == 1 && last->inputs()[1] == product_ &&
        isFull(last->inputs()[0])) {
      const auto scale = [&](int input, const char *attribute) {
        if (last->hasInput(input)) return scalar(last->inputs()[input]);
        return std::optional<ScalarSource>(ScalarSource{last->attrFloat(attribute), -1, 1});
      };
      const auto decay = scale(2, "scale0"), rate = scale(3, "scale1");
      if (!decay || !rate) return false;
      result_.parameter = operand(last->inputs()[0]);
      result_.decay = *decay;
      result_.rate = negated(*rate);
      return true;
    }
    if (last->is(Role::SGD0VarUpdate) && body_.opCount() == 1 && last->inputs()[1] == product_ &&
        isFull(last->inputs()[0]) && !last->hasInput(4)) {
      const auto rate = scalar(last->inputs()[2]), decay = scalar(last->inputs()[3]);
      if (!rate || !decay) return false;
      result_.parameter = operand(last->inputs()[0]);
      result_.rate = *rate;
      result_.decay = *decay;
      return true;
    }
    return (last->is(Role::Sub) || last->is(Role::Add)) && matchTerms(*last);
  }

  // A tensor, possibly multiplied by a number.
  struct Term {
    TensorIndex tensor;
    ScalarSource factor{1, -1, 1};
    size_t ops = 0;
  };
  std::optional<Term> term(TensorIndex t) const {
    const Op *scaled = body_.tensor(t).getProducerUnsafe();
    if (!scaled) return Term{t};
    if (!scaled->is(Role::Mul)) return std::nullopt;
    for (size_t i = 0; i < 2; ++i)
      if (const auto factor = scalar(scaled->inputs()[1 - i])) return Term{scaled->inputs()[i], *factor, 1};
    return std::nullopt;
  }

  // w − product or w + product, where each operand may be multiplied by a number.
  bool matchTerms(const Op &last) {
    std::optional<Term> parameter = term(last.inputs()[0]), step = term(last.inputs()[1]);
    if (!parameter || !step) return false;
    const bool isSum = last.is(Role::Add);
    if (isSum && parameter->tensor == product_) std::swap(parameter, step);
    if (step->tensor != product_ || !isFull(parameter->tensor)) return false;
    result_.parameter = operand(parameter->tensor);
    result_.decay = parameter->factor;
    result_.rate = isSum ? negated(step->factor) : step->factor;
    return body_.opCount() == 1 + parameter->ops + step->ops;
  }

  MatchedDescent result_;
};

}  // namespace

Epilogue MatchedEpilogue::terms(const void *const *extras, void *const *out) const {
  const auto array = [&](int i) { return i < 0 ? nullptr : extras[i]; };
  return {.bias = array(bias),
          .residual = array(residual),
          .preActivation = preActivationOutput < 0 ? nullptr : out[preActivationOutput],
          .other = array(other),
          .alpha = alpha ? alpha->read(extras) : 1.0f,
          .step = step,
          .type = type};
}

std::vector<int> MatchedEpilogue::matrices() const {
  std::vector<int> found = program ? program->matrices() : std::vector<int>();
  for (int operand : {residual, other})
    if (operand >= 0) found.push_back(operand);
  return found;
}

bool MatchedEpilogue::canOverwrite(int operand, int result) const {
  if (operand < 0) return false;
  const bool isTerm =
      operand == bias || operand == residual || operand == other || (alpha && alpha->operand == operand);
  if (program && program->reads(operand)) return !isTerm && program->canOverwrite(operand, result);
  if (program) return operand == residual && program->canOverwriteValue(result);
  return result == output && (operand == residual || operand == other);
}

std::optional<MatchedEpilogue> matchEpilogue(const Graph &body, const EpilogueTarget &target, std::string &reason) {
  return EpilogueMatcher(body, target).run(reason);
}

std::optional<MatchedDescent> matchDescent(const Graph &body, std::string &reason) {
  return DescentMatcher(body).run(reason);
}

}  // namespace popart::cpu
