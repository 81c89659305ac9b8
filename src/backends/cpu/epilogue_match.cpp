// A walk from the product through the body: each op must continue the chain
//   product → ·alpha → +bias → +residual → instruction of one operand → instruction of two operands
// Apart from that, the forms in which optimizers and programs write gradient descent.
#include "backends/cpu/epilogue_match.hpp"

#include <popart/ir.hpp>
#include <popart/opdef.hpp>

#include <algorithm>

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

class ChainMatcher : Body {
 public:
  ChainMatcher(const Graph &body, int64_t columns, RowAxis axis) : Body(body), columns_(columns), axis_(axis) {}

  std::optional<MatchedEpilogue> run(std::string &reason) {
    if (type() != DataType::FLOAT && !isHalf(type())) return reason = "its product is " + toText(type()), std::nullopt;
    if (!isOfType(type(), reason)) return std::nullopt;
    result_.type = type();
    if (matchChain()) return result_;
    reason = "no register epilogue computes its element-wise part (stopped at " + stuck_ + ")";
    return std::nullopt;
  }

 private:
  enum Stage { kProduct, kAlpha, kBias, kResidual, kActivation, kLast };  // may only grow

  bool isRow(TensorIndex t) const {
    const Shape &s = body_.info(t).shape();
    const size_t fromEnd = axis_ == RowAxis::Last ? 1 : body_.info(product_).shape().size() - 1;
    return operand(t) >= 0 && s.size() >= fromEnd && s[s.size() - fromEnd] == columns_ &&
           body_.info(t).nelms() == columns_;
  }
  // The only consumer of t inside the body.
  Op *reader(TensorIndex t) const {
    const auto readers = body_.tensor(t).consumerOps();
    return readers.size() == 1 ? readers.front() : nullptr;
  }
  int outputIndex(TensorIndex t) const {
    const auto it = std::find(body_.outputs().begin(), body_.outputs().end(), t);
    return it == body_.outputs().end() ? -1 : static_cast<int>(it - body_.outputs().begin());
  }
  static TensorIndex other(const Op &op, TensorIndex t) {
    return op.inputs()[0] == t ? op.inputs()[1] : op.inputs()[0];
  }

  bool matchChain() {
    TensorIndex value = product_;
    int outputs = 0;
    Stage stage = kProduct;
    while (true) {
      if (const int o = outputIndex(value); o >= 0) {
        ++outputs;
        result_.output = o;
      }
      if (body_.tensor(value).uses().empty()) break;
      Op *op = reader(value);
      if (!op || op->outputCount() != 1) return stuck_ = "a value with several readers", false;
      stuck_ = op->opType();
      if (!step(*op, value, stage)) return false;
      if (outputIndex(value) >= 0) {
        if (stage != kActivation) return stuck_ = "a value that is also a result", false;
        result_.preActivationOutput = outputIndex(value);
      }
      value = op->outputs()[0];
      ++visited_;
    }
    const bool all = visited_ == body_.opCount() && outputs == static_cast<int>(body_.outputs().size());
    if (!all) stuck_ = "ops outside the chain";
    return all;
  }

  // Matches `op`, which reads `value`, as a later stage of the chain.
  bool step(const Op &op, TensorIndex value, Stage &stage) {
    auto advance = [&](Stage to) { return stage < to && (stage = to, true); };
    const bool isPair = op.inputCount() == 2 && op.inputs()[0] != op.inputs()[1];
    if (op.is(Role::Add) && isPair) {
      const TensorIndex t = other(op, value);
      if (isRow(t) && !isFull(t) && advance(kBias)) return result_.bias = operand(t), true;
      if (isFull(t) && advance(kResidual)) return result_.residual = operand(t), true;
    }
    if (op.is(Role::Mul) && isPair && stage < kAlpha) {
      result_.alpha = scalar(other(op, value));
      if (result_.alpha) return advance(kAlpha);
    }
    if (op.is(Role::Scale) && advance(kAlpha)) return result_.alpha = ScalarSource{op.attrFloat("scale"), -1, 1}, true;
    return instruction(op, value, isPair, stage);
  }
  bool instruction(const Op &op, TensorIndex value, bool isPair, Stage &stage) {
    const ElementRow *row = findElementRow(op.def().base().type(), RegisterForm::kFloat);
    if (!row || op.isUserOp() || body_.info(op.outputs()[0]).dataType() != type()) return false;
    const EpilogueStep step{row->op, elementParameters(*row, op)};
    if (row->operands == 1 && stage < kActivation) return stage = kActivation, result_.activation = step, true;
    if (row->operands == 1 || !isPair || stage == kLast || !isFull(other(op, value))) return false;
    if (op.inputs()[0] != value && !op.def().has(Trait::Commutative)) return false;
    result_.other = operand(other(op, value));
    return stage = kLast, result_.last = step, true;
  }

  int64_t columns_;
  RowAxis axis_;
  MatchedEpilogue result_;
  size_t visited_ = 0;
  std::string stuck_ = "the product";
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

  // A tensor times a number.
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

  // w − product or w + product, each operand alone or times a number.
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

Epilogue MatchedEpilogue::bind(const void *const *extras, void *const *out) const {
  const auto array = [&](int i) { return i < 0 ? nullptr : extras[i]; };
  return {.bias = array(bias),
          .residual = array(residual),
          .preActivation = preActivationOutput < 0 ? nullptr : out[preActivationOutput],
          .other = array(other),
          .alpha = alpha ? alpha->read(extras) : 1.0f,
          .activation = activation,
          .last = last,
          .type = type};
}

bool MatchedEpilogue::canOverwrite(int operand, int result) const {
  return result == output && operand >= 0 && (operand == residual || operand == other);
}

std::optional<MatchedEpilogue> matchEpilogue(const Graph &body, int64_t columns, std::string &reason, RowAxis axis) {
  return ChainMatcher(body, columns, axis).run(reason);
}

std::optional<MatchedDescent> matchDescent(const Graph &body, std::string &reason) {
  return DescentMatcher(body).run(reason);
}

}  // namespace popart::cpu
