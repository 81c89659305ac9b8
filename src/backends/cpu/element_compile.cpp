// One pass over the ops in order: operands are loaded into registers at their first use, every op becomes one or a few
// instructions on new temporaries, and results are stored if the tensor's memory has another form than the register.
// Then results whose register has the form of memory are computed in the output itself, and the other temporaries share
// registers by a linear scan over their live ranges.
//
// Invariant: a value of a 16-bit float type is rounded to that type before another op reads it, so that fusion changes
// no bit.
#include "backends/cpu/element_compile.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <span>

#include "backends/cpu/element_code.hpp"
#include "backends/cpu/element_table.hpp"

namespace popart::cpu {
namespace {

using Operand = CodeOperand;
using Code = ElementCode;

struct Value {
  DataType type = DataType::FLOAT;
  Operand operand;
  bool isOne = false;     // one value for the whole block
  bool isRounded = true;  // a value of `type` exactly
  bool isFloat = false;   // of an integer type, as a float that is an integer in its range, or NaN
  bool isByte = false;    // of BOOL, as in memory
  RegisterForm form() const { return registerForm(type); }
};

// Register allocation: a temporary has a register from its definition to its last use. Temporaries in `results` use an
// output instead.
class Registers {
 public:
  Registers(const std::vector<Code> &code, const ResultsOfTemporaries &results, size_t inputs, size_t outputs,
            size_t constants)
      : results_(results),
        firstOutput_(static_cast<int>(inputs)),
        firstConstant_(firstOutput_ + static_cast<int>(outputs)),
        firstRegister_(firstConstant_ + static_cast<int>(constants)) {
    for (size_t c = 0; c < code.size(); ++c)
      for (const Operand &in : code[c].in)
        if (in.isTemporary()) lastReader_[in.number] = c;
  }

  // Must be called for the instructions in order; `c` is the index in `code`.
  ElementInstruction place(const Code &code, size_t c) {
    ElementInstruction placed;
    placed.fn = code.fn;
    placed.parameters = code.parameters;
    placed.check = code.check;
    placed.type = code.type;
    placed.checked = code.checked;
    std::set<int> released;
    for (size_t i = 0; i < code.in.size(); ++i) {
      placed.in[i] = position(code.in[i]);
      if (holdsRegister(code.in[i]) && lastReader_.at(code.in[i].number) == c) released.insert(code.in[i].number);
    }
    if (holdsRegister(code.out)) take(code.out.number);
    placed.out = position(code.out);
    if (holdsRegister(code.out) && !lastReader_.count(code.out.number)) released.insert(code.out.number);
    for (int temporary : released) free_.push_back(register_.at(temporary));
    return placed;
  }
  int count() const { return count_; }

 private:
  bool holdsRegister(const Operand &o) const { return o.isTemporary() && !results_.count(o.number); }
  void take(int temporary) {
    if (free_.empty()) free_.push_back(count_++);
    register_[temporary] = free_.back();
    free_.pop_back();
  }
  // Index in the program's table of pointers.
  int16_t position(const Operand &o) const {
    switch (o.kind) {
      case Operand::Kind::kNone:
        return -1;
      case Operand::Kind::kInput:
        return static_cast<int16_t>(o.number);
      case Operand::Kind::kOutput:
        return static_cast<int16_t>(firstOutput_ + o.number);
      case Operand::Kind::kConstant:
        return static_cast<int16_t>(firstConstant_ + o.number);
      case Operand::Kind::kTemporary:
        break;
    }
    if (const auto it = results_.find(o.number); it != results_.end())
      return static_cast<int16_t>(firstOutput_ + it->second);
    return static_cast<int16_t>(firstRegister_ + register_.at(o.number));
  }

  const ResultsOfTemporaries &results_;  // temporary -> output
  const int firstOutput_, firstConstant_, firstRegister_;
  std::map<int, size_t> lastReader_;
  std::map<int, int> register_;
  std::vector<int> free_;
  int count_ = 0;
};

class Compiler {
 public:
  Compiler(const ElementSource &source, const std::vector<ElementInput> &inputs, ElementProgram &program)
      : source_(source), inputs_(inputs), program_(program) {}

  std::optional<int> run(std::string &reason) {
    for (const Op *op : source_.ops)
      if (!compile(*op)) return reason = reason_, std::nullopt;
    if (!storeOutputs()) return reason = reason_, std::nullopt;
    assignRegisters();
    return cost_;
  }

  // Operators without a row in the element table, or without one for every form.
  using Special = bool (Compiler::*)(const Op &op);
  static std::span<const std::pair<const char *, Special>> specials() {
    static constexpr std::pair<const char *, Special> kTable[] = {
        {"Cast", &Compiler::compileCast},         {"CastGrad", &Compiler::compileCast},
        {"Where", &Compiler::compileWhere},       {"ScaledAdd", &Compiler::compileScaledAdd},
        {"Pow", &Compiler::compilePow},           {"Mean", &Compiler::compileMean},
        {"BitShift", &Compiler::compileBitShift},
    };
    return kTable;
  }

 private:
  // ---- operands

  bool fail(std::string why) {
    if (reason_.empty()) reason_ = std::move(why);
    return false;
  }

  Operand constant(const void *bytes, size_t size) {
    uint64_t value = 0;
    std::copy_n(static_cast<const char *>(bytes), size, reinterpret_cast<char *>(&value));
    program_.constants.push_back(value);
    return {Operand::Kind::kConstant, static_cast<int>(program_.constants.size()) - 1};
  }
  Value number(float value) { return {DataType::FLOAT, constant(&value, sizeof value), true, true}; }

  // Whether the type has the same form in memory and in a register.
  static bool isNative(DataType type) { return type == DataType::FLOAT || registerForm(type) == RegisterForm::kInt; }

  // The tensor's value; loads it at first use.
  std::optional<Value> read(TensorIndex t) {
    if (const auto it = values_.find(t); it != values_.end()) {
      if (it->second.isFloat) it->second = inIntegers(it->second);
      if (it->second.isByte)
        it->second = append(loadFunction(DataType::BOOL, LoadFrom::kElements), {it->second}, DataType::BOOL);
      return rounded(t, it->second);
    }
    const TensorInfo &info = source_.graph->info(t);
    const auto operand = std::find(source_.inputs.begin(), source_.inputs.end(), t);
    Value v{info.dataType(), {}, true, true};
    bool isNarrow = !isNative(v.type);
    if (operand != source_.inputs.end()) {
      const auto number = operand - source_.inputs.begin();
      v.operand = {Operand::Kind::kInput, static_cast<int>(number)};
      v.isOne = inputs_[static_cast<size_t>(number)].isOne;
      isNarrow &= inputs_[static_cast<size_t>(number)].type != DataType::FLOAT;
    } else if (source_.graph->tensor(t).hasTensorData() && info.nelms() == 1 && info.nbytes() <= 8) {
      v.operand = constant(source_.graph->tensor(t).tensorData().data(), static_cast<size_t>(info.nbytes()));
    } else {
      return fail("an operand is defined outside of the graph"), std::nullopt;
    }
    if (isNarrow || (v.isOne && v.type != DataType::FLOAT)) {
      ElementFn load = loadFunction(v.type, v.isOne ? LoadFrom::kOneElement : LoadFrom::kElements);
      if (!load) return fail("it has no register form for " + toText(v.type)), std::nullopt;
      v = append(load, {v}, v.type);
    }
    return values_[t] = v;
  }
  Value inIntegers(const Value &v) {
    return apply(ElementOp::kFloatToInt, Value{DataType::FLOAT, v.operand, v.isOne, true}, v.type);
  }
  Value rounded(TensorIndex t, Value v) {
    if (v.isRounded) return v;
    const ElementOp op = v.type == DataType::FLOAT16 ? ElementOp::kRoundHalf : ElementOp::kRoundBFloat16;
    return values_[t] = append(elementFunction(op, 0), {v}, v.type);
  }
  Value whole(Value v) {  // the value as a block
    if (!v.isOne) return v;
    return append(loadFunction(DataType::FLOAT, LoadFrom::kOneElement), {v}, v.type);
  }

  // The value of an operand if it is a known number.
  std::optional<double> known(TensorIndex t) const {
    const Tensor &tensor = source_.graph->tensor(t);
    const TensorData *data =
        tensor.tensorType() == TensorType::Const && tensor.hasTensorData() ? &tensor.tensorData() : nullptr;
    if (const auto it = std::find(source_.inputs.begin(), source_.inputs.end(), t); it != source_.inputs.end())
      data = inputs_[it - source_.inputs.begin()].constant;
    if (!data || data->info().nelms() != 1 || data->info().dataType() == DataType::BOOL) return std::nullopt;
    return data->asDoubles()[0];
  }

  // ---- instructions

  // Appends a call of `fn`, which gets operands in the form it requires, and returns its new temporary.
  Value append(ElementFn fn, std::initializer_list<Value> in, DataType type, std::array<float, 2> parameters = {0, 0}) {
    Code code{fn, {}, {Operand::Kind::kTemporary, temporaries_++}, parameters};
    std::transform(in.begin(), in.end(), code.in.begin(), [](const Value &v) { return v.operand; });
    code_.push_back(code);
    return {type, code.out, false, true};
  }
  // The function of `op` for operands of type `from` and results of type `to`.
  static ElementFn functionOf(ElementOp op, DataType from, DataType to) {
    const ElementFn fn = integerFunction(op, registerForm(from) == RegisterForm::kInt ? from : to);
    return fn ? fn : elementFunction(op, 0);
  }
  Value apply(ElementOp op, Value a, DataType type, std::array<float, 2> parameters = {0, 0}) {
    cost_ += elementCost(op);
    const Value y = append(functionOf(op, a.type, type), {whole(a)}, type, parameters);
    code_.back().op = op;
    return y;
  }
  Value apply(ElementOp op, Value a, Value b, DataType type, std::array<float, 2> parameters = {0, 0}) {
    cost_ += elementCost(op);
    if (a.isOne && b.isOne) a = whole(a);
    ScalarOperands scalars = (a.isOne ? 1u : 0u) | (b.isOne ? 2u : 0u);
    ElementFn fn = elementFunction(op, scalars);
    if (!fn) fn = functionOf(op, a.type, type), scalars = 0, a = whole(a), b = whole(b);
    const Value y = append(fn, {a, b}, type, parameters);
    code_.back().op = op, code_.back().scalars = scalars;
    return y;
  }

  std::optional<Value> convert(Value v, DataType to) {
    const RegisterForm from = v.form(), form = registerForm(to);
    if (v.type == to) return v;
    if (!storeFunction(to) || ((v.type == DataType::UINT64 || to == DataType::UINT64) &&
                               (from == RegisterForm::kFloat || form == RegisterForm::kFloat)))
      return fail("it does not convert " + toText(v.type) + " to " + toText(to)), std::nullopt;
    if (form == RegisterForm::kFloat) {
      if (from == RegisterForm::kInt) v = apply(ElementOp::kIntToFloat, v, to);
      if (from == RegisterForm::kMask) v = apply(ElementOp::kMaskToFloat, v, to);
      v.isRounded = to == DataType::FLOAT;
      v.type = to;
      return v;
    }
    if (form == RegisterForm::kMask)
      return apply(from == RegisterForm::kFloat ? ElementOp::kNotZero : ElementOp::kIntNotZero, v, to);
    if (from == RegisterForm::kMask) return apply(ElementOp::kMaskToInt, v, to);
    if (from == RegisterForm::kFloat) return apply(ElementOp::kFloatToInt, v, to);
    if (const ElementFn fn = integerConversion(v.type, to)) return ++cost_, append(fn, {v}, to);
    v.type = to;
    return v;
  }

  // ---- ops

  bool define(const Op &op, Value v) {
    const DataType type = source_.graph->info(op.outputs()[0]).dataType();
    v.type = type;
    v.isRounded = type != DataType::FLOAT16 && type != DataType::BFLOAT16;
    values_[op.outputs()[0]] = v;
    return true;
  }

  bool compile(const Op &op) {
    if (op.outputCount() != 1) return fail(op.opType() + " has several results");
    for (TensorIndex t : op.inputs())
      if (t.valid() && !loadFunction(source_.graph->info(t).dataType(), LoadFrom::kElements))
        return fail("it takes no " + toText(source_.graph->info(t).dataType()));
    if (!storeFunction(source_.graph->info(op.outputs()[0]).dataType()))
      return fail("it makes no " + toText(source_.graph->info(op.outputs()[0]).dataType()));
    for (const auto &[type, compileSpecial] : specials())
      if (op.def().base().type() == type) return (this->*compileSpecial)(op);
    if (compileBools(op)) return true;
    const auto first = read(op.inputs()[0]);
    if (!first) return false;
    std::string reason;
    const ElementRow *row = elementRowOf(op, first->type, reason);
    if (!row) return fail(reason);
    return row->operands == 1 ? compileUnary(op, *row, *first) : compileFold(op, *row, *first);
  }
  DataType resultType(const Op &op) const { return source_.graph->info(op.outputs()[0]).dataType(); }

  // Compiles logic of BOOL values in their form in memory. Returns whether the op is such an op.
  bool compileBools(const Op &op) {
    const ElementRow *row = findElementRow(op.def().base().type(), RegisterForm::kMask);
    const ElementFn fn = row ? boolFunction(row->op) : nullptr;
    if (!fn || op.inputCount() != row->operands) return false;
    std::array<Value, 2> in;
    for (int i = 0; i < op.inputCount(); ++i) {
      const TensorIndex t = op.inputs()[i];
      if (source_.graph->info(t).dataType() != DataType::BOOL) return false;
      const auto memory = unreadInput(t);
      if (const auto it = values_.find(t); it != values_.end() && it->second.isByte)
        in[i] = it->second;
      else if (memory)
        in[i] = {DataType::BOOL, *memory};
      else
        return false;
    }
    ++cost_;
    Value y = append(fn, {in[0], in[1]}, DataType::BOOL);
    y.isByte = true;
    return values_[op.outputs()[0]] = y, true;
  }

  bool compileUnary(const Op &op, const ElementRow &row, const Value &x) {
    const std::array<float, 2> parameters = elementParameters(row, op);
    const Value y = apply(row.op, x, resultType(op), parameters);
    if (row.op == ElementOp::kClip) ranges_[op.outputs()[0]] = {parameters[0], parameters[1]};
    return define(op, y);
  }

  // For two operands, or any number from left to right.
  bool compileFold(const Op &op, const ElementRow &row, Value total) {
    if (op.inputCount() == 1) return define(op, whole(copied(total)));
    for (int i = 1; i < op.inputCount(); ++i) {
      const auto next = read(op.inputs()[i]);
      if (!next) return false;
      check(op, elementCheck(row.op), total, *next);
      total = apply(row.op, total, *next, resultType(op), elementParameters(row, op));
    }
    return define(op, total);
  }
  Value copied(Value v) {
    if (v.isOne) return v;
    const RegisterForm form = v.form();
    return apply(form == RegisterForm::kFloat  ? ElementOp::kCopy
                 : form == RegisterForm::kMask ? ElementOp::kMaskCopy
                                               : ElementOp::kIntCopy,
                 v, v.type);
  }

  bool compileMean(const Op &op) {
    const auto first = read(op.inputs()[0]);
    if (!first || first->form() != RegisterForm::kFloat) return fail("it takes floating types only");
    if (!compileFold(op, *findElementRow("Sum", RegisterForm::kFloat), *first)) return false;
    if (op.inputCount() == 1) return true;
    const Value sum = values_.at(op.outputs()[0]), count = number(static_cast<float>(op.inputCount()));
    return define(op, apply(ElementOp::kDiv, sum, count, resultType(op)));
  }

  bool compileBitShift(const Op &op) {
    const auto a = read(op.inputs()[0]), b = read(op.inputs()[1]);
    if (!a || !b) return false;
    if (a->form() != RegisterForm::kInt) return fail("it takes integers only");
    const ElementOp code = op.attrString("direction") == "RIGHT" ? ElementOp::kShiftRight : ElementOp::kShiftLeft;
    return define(op, apply(code, *a, *b, resultType(op)));
  }

  // Reports operands outside the operator's domain before it computes.
  void check(const Op &op, ElementCheck kind, const Value &a, const Value &b) {
    if (kind == ElementCheck::None) return;
    code_.push_back({nullptr, {a.operand, b.operand}, {}, {0, 0}, kind, op.def().base().type().c_str(), a.type});
  }

  // The memory of an operand of the program, if it is not a single number and has not been loaded yet.
  std::optional<Operand> unreadInput(TensorIndex t) const {
    const auto operand = std::find(source_.inputs.begin(), source_.inputs.end(), t);
    if (operand == source_.inputs.end() || values_.count(t)) return std::nullopt;
    const auto number = static_cast<int>(operand - source_.inputs.begin());
    if (inputs_[static_cast<size_t>(number)].isOne) return std::nullopt;
    return Operand{Operand::Kind::kInput, number};
  }
  // Casts between floats and small integers in one instruction. Returns whether there is one for this Cast.
  bool compileShortCast(const Op &op, DataType to) {
    const TensorIndex x = op.inputs()[0];
    const DataType from = source_.graph->info(x).dataType();
    if (const auto it = values_.find(x); it != values_.end() && it->second.isFloat && to == DataType::FLOAT) {
      const Value held{DataType::FLOAT, it->second.operand, false, true};
      return values_[op.outputs()[0]] = apply(ElementOp::kWhole, held, to), true;
    }
    if (const auto memory = unreadInput(x); memory && to == DataType::FLOAT) {
      const ElementFn load = loadAsFloatFunction(from);
      if (!load) return false;
      ++cost_;
      values_[op.outputs()[0]] = append(load, {Value{from, *memory, false, true}}, to);
      code_.back().loadsAsFloats = from;
      return true;
    }
    const auto clipped = ranges_.find(x);
    if (clipped == ranges_.end() || !storeFloatAsFunction(to) || from != DataType::FLOAT) return false;
    const auto [least, most] = clipped->second;
    const bool isSigned = to == DataType::INT8 || to == DataType::INT16;
    const float span = to == DataType::INT8 || to == DataType::UINT8 ? 256.0f : 65536.0f;
    const float first = isSigned ? -span / 2 : 0.0f;
    if (!(least >= first && most <= first + span - 1)) return false;
    const auto v = read(x);
    if (!v || v->isOne) return false;
    return values_[op.outputs()[0]] = {to, v->operand, false, true, true}, true;
  }

  bool compileCast(const Op &op) {
    if (compileShortCast(op, source_.graph->info(op.outputs()[0]).dataType())) return true;
    auto x = read(op.inputs()[0]);
    if (!x) return false;
    *x = whole(*x);
    const DataType to = source_.graph->info(op.outputs()[0]).dataType();
    const auto y = convert(*x, to);
    if (!y) return false;
    values_[op.outputs()[0]] = *y;
    return true;
  }

  bool compileWhere(const Op &op) {
    const auto m = read(op.inputs()[0]), a = read(op.inputs()[1]), b = read(op.inputs()[2]);
    if (!m || !a || !b) return false;
    ++cost_;
    const ElementOp code = a->form() == RegisterForm::kInt ? ElementOp::kIntWhere : ElementOp::kWhere;
    return define(op, append(functionOf(code, a->type, a->type), {*m, whole(*a), whole(*b)}, a->type));
  }

  // scale · x; scale is an input, else an attribute.
  std::optional<Value> scaled(const Op &op, int x, int scale, const char *attribute) {
    const auto v = read(op.inputs()[x]);
    if (!v || v->form() != RegisterForm::kFloat) return fail("it takes floating types only"), std::nullopt;
    if (op.hasInput(scale)) {
      const auto s = read(op.inputs()[scale]);
      if (!s || s->form() != RegisterForm::kFloat) return std::nullopt;
      return apply(ElementOp::kMul, *v, *s, DataType::FLOAT);
    }
    if (op.attrFloat(attribute) == 1.0f) return v;
    return apply(ElementOp::kMul, *v, number(op.attrFloat(attribute)), DataType::FLOAT);
  }
  bool compileScaledAdd(const Op &op) {
    const auto a = scaled(op, 0, 2, "scale0"), b = scaled(op, 1, 3, "scale1");
    if (!a || !b) return false;
    return define(op, apply(ElementOp::kAdd, *a, *b, DataType::FLOAT));
  }

  bool compilePow(const Op &op) {
    const auto a = read(op.inputs()[0]);
    if (!a || a->form() != RegisterForm::kFloat) return fail("Pow takes a floating base only");
    const auto exponent = known(op.inputs()[1]);
    if (exponent == 2.0) return define(op, apply(ElementOp::kMul, whole(*a), whole(*a), a->type));
    if (exponent == 1.0) return define(op, whole(copied(*a)));
    if (exponent == -1.0) return define(op, apply(ElementOp::kReciprocal, *a, a->type));
    if (exponent == 3.0) {
      const Value x = whole(*a);
      return define(op, apply(ElementOp::kMul, apply(ElementOp::kMul, x, x, a->type), x, a->type));
    }
    auto b = read(op.inputs()[1]);
    if (b && b->form() != RegisterForm::kFloat) b = convert(*b, DataType::FLOAT);
    if (!b) return false;
    return define(op, apply(ElementOp::kPow, *a, *b, a->type));
  }

  // ---- results

  // A temporary in the form of the output's memory becomes the output; other temporaries are stored to it.
  bool storeOutputs() {
    for (size_t o = 0; o < source_.outputs.size(); ++o) {
      const auto it = values_.find(source_.outputs[o]);
      const auto v = it != values_.end() ? std::optional<Value>(it->second) : read(source_.outputs[o]);
      if (!v) return false;
      const ElementFn store = v->isFloat  ? storeFloatAsFunction(v->type)
                              : v->isByte ? storeFunction(DataType::UINT8)
                                          : storeFunction(v->type);
      const int output = static_cast<int>(o);
      const bool isAsInMemory = (isNative(v->type) && !v->isFloat) || v->isByte;
      if (isAsInMemory && v->operand.isTemporary() && results_.try_emplace(v->operand.number, output).second) continue;
      Code code{store, {whole(*v).operand}, {Operand::Kind::kOutput, output}};
      if (v->isFloat) code.storesFloatsAs = v->type;
      code_.push_back(code);
    }
    return true;
  }

  void assignRegisters() {
    joinInstructions(code_, results_);
    Registers registers(code_, results_, inputs_.size(), source_.outputs.size(), program_.constants.size());
    for (size_t c = 0; c < code_.size(); ++c) program_.code.push_back(registers.place(code_[c], c));
    program_.temporaries = registers.count();
  }

  const ElementSource &source_;
  const std::vector<ElementInput> &inputs_;
  ElementProgram &program_;
  std::vector<Code> code_;
  std::map<TensorIndex, Value> values_;
  std::map<TensorIndex, std::pair<float, float>> ranges_;  // of clipped values, unless NaN
  ResultsOfTemporaries results_;
  int temporaries_ = 0, cost_ = 0;
  std::string reason_;
};

}  // namespace

ElementSource elementSource(const Graph &body) {
  ElementSource source{&body, {}, body.inputs(), body.outputs()};
  for (const Op *op : body.getOpSchedule()) source.ops.push_back(op);
  const auto isView = [](const Op *op) { return ops::stridedView(*op).has_value(); };
  if (std::ranges::none_of(source.ops, isView)) return source;
  const auto views = std::stable_partition(source.ops.begin(), source.ops.end(), std::not_fn(isView));
  source.inputs.clear();
  for (size_t i = 0; i < body.inputs().size(); ++i) {
    const TensorIndex t = body.inputs()[i];
    const int operand = static_cast<int>(i);
    const auto readsIt = [&](const Op *op) { return std::ranges::count(op->inputs(), t) > 0; };
    if (std::any_of(source.ops.begin(), views, readsIt)) {
      source.inputs.push_back(t);
      source.places.push_back({operand, std::nullopt});
    }
    for (auto view = views; view != source.ops.end(); ++view)
      if ((*view)->inputs()[0] == t) {
        source.inputs.push_back((*view)->outputs()[0]);
        source.places.push_back({operand, ops::stridedView(**view)});
      }
  }
  source.ops.erase(views, source.ops.end());
  return source;
}

std::vector<const char *> elementTypes() {
  std::set<std::string_view> seen;
  std::vector<const char *> types;
  for (const auto &[type, compile] : Compiler::specials())
    if (seen.insert(type).second) types.push_back(type);
  for (const ElementRow &row : elementRows())
    if (seen.insert(row.type).second) types.push_back(row.type);
  return types;
}

std::optional<int> compileElements(const ElementSource &source, const std::vector<ElementInput> &inputs,
                                   ElementProgram &program, std::string &reason) {
  return Compiler(source, inputs, program).run(reason);
}

}  // namespace popart::cpu
