// Starts at the last instruction of a sequence and searches back for the others: from a store of clipped floats as
// integers for the value that is rounded, from a product for the load of integers, from a bound or a sum for the
// product that it reads.
#include <limits>
#include <utility>
#include <vector>

#include "backends/cpu/element_code.hpp"

namespace popart::cpu {
namespace {

class InstructionJoiner {
 public:
  InstructionJoiner(std::vector<ElementCode> &code, const ResultsOfTemporaries &results)
      : code_(code), gone_(code.size(), false) {
    for (size_t c = 0; c < code.size(); ++c) {
      if (code[c].out.isTemporary()) at(code[c].out).maker = static_cast<int>(c);
      for (const CodeOperand &in : code[c].in)
        if (in.isTemporary()) ++at(in).readers;
    }
    for (const auto &[temporary, output] : results) ++at({CodeOperand::Kind::kTemporary, temporary}).readers;
  }

  void run() {
    for (ElementCode &c : code_) {
      if (c.storesFloatsAs) joinStore(c);
      if (c.op == ElementOp::kMul) joinProduct(c);
    }
    for (ElementCode &c : code_)
      if (c.op == ElementOp::kRelu || c.op == ElementOp::kClip) joinBounds(c);
    for (size_t c = 0; c < code_.size(); ++c)
      if (!gone_[c] && code_[c].op == ElementOp::kAdd) joinSum(code_[c]);
    std::vector<ElementCode> kept;
    for (size_t c = 0; c < code_.size(); ++c)
      if (!gone_[c]) kept.push_back(code_[c]);
    code_ = std::move(kept);
  }

 private:
  struct Temporary {
    int maker = -1, readers = 0;
  };
  Temporary &at(const CodeOperand &o) {
    if (static_cast<size_t>(o.number) >= temporaries_.size()) temporaries_.resize(static_cast<size_t>(o.number) + 1);
    return temporaries_[static_cast<size_t>(o.number)];
  }
  // Index of the instruction that makes `o`, if nothing else reads `o`; else -1.
  int makerOf(const CodeOperand &o) { return o.isTemporary() && at(o).readers == 1 ? at(o).maker : -1; }
  int makerOf(const CodeOperand &o, ElementOp op) {
    const int maker = makerOf(o);
    return maker >= 0 && codeAt(maker).op == op ? maker : -1;
  }
  const ElementCode &codeAt(int c) const { return code_[static_cast<size_t>(c)]; }
  void erase(int c) { gone_[static_cast<size_t>(c)] = true; }
  static OperandForm formOf(const ElementCode &c, size_t operand) {
    return (c.scalars >> operand & 1u) != 0 ? OperandForm::kOne : OperandForm::kEach;
  }

  void joinStore(ElementCode &store) {
    const int clip = makerOf(store.in[0], ElementOp::kClip);
    if (clip < 0) return;
    CodeOperand sum = codeAt(clip).in[0], scale, zero;
    OperandForm scaleForm = OperandForm::kNone, zeroForm = OperandForm::kNone;
    const int add = makerOf(sum, ElementOp::kAdd);
    for (size_t i = 0; add >= 0 && i < 2 && zeroForm == OperandForm::kNone; ++i) {
      if (makerOf(codeAt(add).in[i], ElementOp::kNearbyInt) < 0) continue;
      sum = codeAt(add).in[i];
      zero = codeAt(add).in[1 - i], zeroForm = formOf(codeAt(add), 1 - i);
    }
    const int round = makerOf(sum, ElementOp::kNearbyInt);
    if (round < 0) return;
    CodeOperand x = codeAt(round).in[0];
    const int quotient = makerOf(x, ElementOp::kDiv);
    const bool divides = quotient >= 0 && formOf(codeAt(quotient), 0) == OperandForm::kEach;
    if (divides) {
      x = codeAt(quotient).in[0];
      scale = codeAt(quotient).in[1], scaleForm = formOf(codeAt(quotient), 1);
    }
    const ElementFn fn = quantiseFunction(*store.storesFloatsAs, scaleForm, zeroForm);
    if (!fn) return;
    store.fn = fn, store.in = {x, scale, zero}, store.parameters = codeAt(clip).parameters;
    erase(clip), erase(round);
    if (zeroForm != OperandForm::kNone) erase(add);
    if (divides) erase(quotient);
  }

  // For both orders of the factors.
  void joinProduct(ElementCode &product) {
    for (size_t i = 0; i < 2 && product.op; ++i) {
      CodeOperand f = product.in[i], zero;
      OperandForm zeroForm = OperandForm::kNone;
      const int difference = makerOf(f, ElementOp::kSub);
      if (difference >= 0) {
        f = codeAt(difference).in[0];
        zero = codeAt(difference).in[1], zeroForm = formOf(codeAt(difference), 1);
      }
      const int load = makerOf(f);
      if (load < 0 || !codeAt(load).loadsAsFloats) continue;
      const ElementFn fn = dequantiseFunction(*codeAt(load).loadsAsFloats, zeroForm, formOf(product, 1 - i));
      if (!fn) continue;
      product.fn = fn, product.in = {codeAt(load).in[0], zero, product.in[1 - i]}, product.op.reset();
      erase(load);
      if (difference >= 0) erase(difference);
    }
  }

  // x · scale + shift, without instructions that are absent.
  struct Scaled {
    CodeOperand x, scale, shift;
    OperandForm scaleForm = OperandForm::kNone, shiftForm = OperandForm::kNone;
    int product = -1, sum = -1;  // instructions
    void apply(ElementCode &last, ElementFn fn) const { last.fn = fn, last.in = {x, scale, shift}, last.op.reset(); }
  };
  // Of the operands of a product or a sum, one has a value for each element.
  static size_t blockOf(const ElementCode &c) { return formOf(c, 0) == OperandForm::kEach ? 0 : 1; }
  void takeProduct(Scaled &s, int product) const {
    const ElementCode &c = codeAt(product);
    const size_t block = blockOf(c);
    s.product = product;
    s.x = c.in[block], s.scale = c.in[1 - block], s.scaleForm = formOf(c, 1 - block);
  }
  void takeSum(Scaled &s, const ElementCode &c) {
    size_t block = blockOf(c);
    int product = -1;
    for (size_t i = 0; i < 2 && product < 0; ++i)
      if (product = makerOf(c.in[i], ElementOp::kMul); product >= 0) block = i;
    s.x = c.in[block], s.shift = c.in[1 - block], s.shiftForm = formOf(c, 1 - block);
    if (product >= 0) takeProduct(s, product);
  }

  void joinBounds(ElementCode &bound) {
    Scaled s;
    if (s.sum = makerOf(bound.in[0], ElementOp::kAdd); s.sum >= 0)
      takeSum(s, codeAt(s.sum));
    else if (const int product = makerOf(bound.in[0], ElementOp::kMul); product >= 0)
      takeProduct(s, product);
    else
      return;
    if (bound.op == ElementOp::kRelu) bound.parameters = {0, std::numeric_limits<float>::infinity()};
    s.apply(bound, scaledFunction(s.scaleForm, s.shiftForm, Bounds::kGiven));
    if (s.sum >= 0) erase(s.sum);
    if (s.product >= 0) erase(s.product);
  }
  void joinSum(ElementCode &sum) {
    Scaled s;
    takeSum(s, sum);
    if (s.product < 0) return;
    s.apply(sum, scaledFunction(s.scaleForm, s.shiftForm, Bounds::kNone));
    erase(s.product);
  }

  std::vector<ElementCode> &code_;
  std::vector<Temporary> temporaries_;
  std::vector<bool> gone_;
};

}  // namespace

void joinInstructions(std::vector<ElementCode> &code, const ResultsOfTemporaries &results) {
  InstructionJoiner(code, results).run();
}

}  // namespace popart::cpu
