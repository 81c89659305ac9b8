// One pass over the ops in order: operands come into registers at their first use, every op becomes one or a few
// instructions on fresh temporaries, results are stored where the tensor's memory has another form than the register.
// Then temporaries that are results of the same form move into the output itself, and the rest share registers by their
// lifetimes.
//
// Invariant: a value of a 16-bit float type is rounded to that type before another op reads it, so that fusion changes
// no bit.
#include "backends/cpu/element_compile.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/element_table.hpp"

namespace popart::cpu {
namespace {

// A value in the pointer table. Temporaries are numbered from kTemporary on until registers are given out.
constexpr int kTemporary = 1000;
struct Value {
  DataType type = DataType::FLOAT;
  int pointer = -1;
  bool isOne = false;     // pointer to one value instead of a block
  bool isRounded = true;  // holds a value of `type` exactly
  RegisterForm form() const { return registerForm(type); }
};

class Compiler {
 public:
  Compiler(const ElementSource &source, const std::vector<ElementInput> &inputs, ElementProgram &program)
      : source_(source),
        inputs_(inputs),
        program_(program),
        outputBase_(static_cast<int>(inputs.size())),
        constantBase_(outputBase_ + static_cast<int>(source.outputs.size())) {}

  std::optional<int> run(std::string &reason) {
    for (const Op *op : source_.ops) {
      if (!compile(*op)) return reason = reason_, std::nullopt;
      if (fresh_ >= kTemporary * 8) return reason = "the computation is too long", std::nullopt;
    }
    if (!storeOutputs()) return reason = reason_, std::nullopt;
    assignRegisters();
    return cost_;
  }

 private:
  // ---- operands ---------------------------------------------------------------------------------
  bool fail(std::string why) {
    if (reason_.empty()) reason_ = std::move(why);
    return false;
  }

  int constant(const void *bytes, size_t size) {
    uint64_t value = 0;
    std::copy_n(static_cast<const char *>(bytes), size, reinterpret_cast<char *>(&value));
    program_.constants.push_back(value);
    return constantBase_ + static_cast<int>(program_.constants.size()) - 1;
  }
  Value number(float value) { return {DataType::FLOAT, constant(&value, sizeof value), true, true}; }

  bool isNative(DataType type) const {
    return type == DataType::FLOAT || type == DataType::INT64 || type == DataType::UINT64;
  }

  // The tensor's value; loads it at first use.
  std::optional<Value> read(TensorIndex t) {
    if (const auto it = values_.find(t); it != values_.end()) return rounded(t, it->second);
    const TensorInfo &info = source_.graph->info(t);
    const auto operand = std::find(source_.inputs.begin(), source_.inputs.end(), t);
    int pointer;
    bool isOne = true;
    if (operand != source_.inputs.end()) {
      pointer = static_cast<int>(operand - source_.inputs.begin());
      isOne = inputs_[pointer].isOne;
    } else if (source_.graph->tensor(t).hasTensorData() && info.nelms() == 1 && info.nbytes() <= 8) {
      pointer = constant(source_.graph->tensor(t).tensorData().data(), static_cast<size_t>(info.nbytes()));
    } else {
      return fail("an operand comes from outside"), std::nullopt;
    }
    Value v{info.dataType(), pointer, isOne, true};
    if (!isNative(v.type) || (isOne && v.type != DataType::FLOAT)) {
      ElementFn load = loadFunction(v.type, isOne ? LoadFrom::kOneElement : LoadFrom::kElements);
      if (!load) return fail("it has no form of " + toText(v.type)), std::nullopt;
      v = append(load, {v}, v.type);
    }
    return values_[t] = v;
  }
  Value rounded(TensorIndex t, Value v) {
    if (v.isRounded) return v;
    const ElementOp op = v.type == DataType::FLOAT16 ? ElementOp::kRoundHalf : ElementOp::kRoundBFloat16;
    return values_[t] = append(elementFunction(op, 0), {v}, v.type);
  }
  Value whole(Value v) {  // a block of the value
    if (!v.isOne) return v;
    return append(loadFunction(DataType::FLOAT, LoadFrom::kOneElement), {v}, v.type);
  }

  // The number an operand is known to be.
  std::optional<double> known(TensorIndex t) const {
    const Tensor &tensor = source_.graph->tensor(t);
    const TensorData *data =
        tensor.tensorType() == TensorType::Const && tensor.hasTensorData() ? &tensor.tensorData() : nullptr;
    if (const auto it = std::find(source_.inputs.begin(), source_.inputs.end(), t); it != source_.inputs.end())
      data = inputs_[it - source_.inputs.begin()].constant;
    if (!data || data->info().nelms() != 1 || data->info().dataType() == DataType::BOOL) return std::nullopt;
    return data->asDoubles()[0];
  }

  // ---- instructions -----------------------------------------------------------------------------
  Value append(ElementFn fn, std::initializer_list<Value> in, DataType type, std::array<float, 2> parameters = {0, 0}) {
    ElementInstruction c;
    c.fn = fn;
    int i = 0;
    for (const Value &v : in) c.in[i++] = static_cast<int16_t>(v.pointer);
    c.out = static_cast<int16_t>(kTemporary + fresh_++);
    c.parameters = parameters;
    program_.code.push_back(c);
    return {type, c.out, false, true};
  }
  Value apply(ElementOp op, Value a, DataType type, std::array<float, 2> parameters = {0, 0}) {
    cost_ += elementCost(op);
    return append(elementFunction(op, 0), {whole(a)}, type, parameters);
  }
  Value apply(ElementOp op, Value a, Value b, DataType type) {
    cost_ += elementCost(op);
    if (a.isOne && b.isOne) a = whole(a);
    const ScalarOperands scalars = (a.isOne ? 1u : 0u) | (b.isOne ? 2u : 0u);
    ElementFn fn = elementFunction(op, scalars);
    if (!fn) fn = elementFunction(op, 0), a = whole(a), b = whole(b);
    return append(fn, {a, b}, type);
  }
  // Wraps a result of 64-bit arithmetic to its type.
  Value narrowed(Value v) {
    ElementFn fn = narrowFunction(v.type);
    return fn ? append(fn, {v}, v.type) : v;
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
    if (from == RegisterForm::kFloat) v = apply(ElementOp::kFloatToInt, v, to);
    v.type = to;
    return narrowed(v);
  }

  // ---- ops --------------------------------------------------------------------------------------
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
    const std::string &type = op.def().base().type();
    if (type == "Cast" || type == "CastGrad") return compileCast(op);
    if (type == "Where") return compileWhere(op);
    if (type == "ScaledAdd") return compileScaledAdd(op);
    if (type == "Pow") return compilePow(op);
    const ElementRow *row = findElementRow(type);
    if (!row) return fail("there is no element-wise instruction for " + type);
    if (row->shape == ElementRow::Shape::Unary) return compileUnary(op, *row);
    return compileFold(op, *row);
  }

  // The instruction of `row` for operands of this type; kCount when there is none.
  ElementOp instruction(const Op &op, const ElementRow &row, DataType type) {
    const RegisterForm form = registerForm(type);
    const ElementOp found = form == RegisterForm::kFloat ? row.floats
                            : form == RegisterForm::kInt ? row.ints
                                                         : row.masks;
    if (found == ElementOp::kCount || (type == DataType::UINT64 && row.isSigned)) {
      fail("there is no instruction for " + op.opType() + " of " + toText(type));
      return ElementOp::kCount;
    }
    return found;
  }

  bool compileUnary(const Op &op, const ElementRow &row) {
    const auto x = read(op.inputs()[0]);
    if (!x) return false;
    const ElementOp code = instruction(op, row, x->type);
    if (code == ElementOp::kCount) return false;
    std::array<float, 2> parameters = {0, 0};
    for (size_t i = 0; i < 2 && row.parameters[i]; ++i) parameters[i] = parameter(op, row, static_cast<int>(i));
    const Value y = apply(code, *x, source_.graph->info(op.outputs()[0]).dataType(), parameters);
    return define(op, row.narrows ? narrowed(y) : y);
  }
  static float parameter(const Op &op, const ElementRow &row, int i) {
    const AttributeValue *value = op.attributes().find(row.parameters[i]);
    if (!value)
      return i == 0 ? -std::numeric_limits<float>::infinity()
                    : std::numeric_limits<float>::infinity();  // Clip without a bound
    if (const auto *integer = std::get_if<int64_t>(value)) return static_cast<float>(*integer);
    return std::get<float>(*value);
  }

  // Two operands, or any number from left to right.
  bool compileFold(const Op &op, const ElementRow &row) {
    auto total = read(op.inputs()[0]);
    if (!total) return false;
    const ElementOp code = instruction(op, row, total->type);
    if (code == ElementOp::kCount) return false;
    if (row.needsAlphaOne && op.hasAttr("alpha") && op.attrFloat("alpha") != 1.0f)
      return fail("it has a factor in its activation");
    const DataType type =
        row.shape == ElementRow::Shape::Compare ? DataType::BOOL : source_.graph->info(op.outputs()[0]).dataType();
    if (op.inputCount() == 1) return define(op, whole(copied(*total)));
    for (int i = 1; i < op.inputCount(); ++i) {
      const auto next = read(op.inputs()[i]);
      if (!next) return false;
      Value a = *total, b = *next;
      if (row.swaps) std::swap(a, b);
      check(op, elementCheck(code), a, b, type);
      if (code == ElementOp::kShiftLeft && op.attrString("direction") == "RIGHT") {
        total = shifted(ElementOp::kShiftRight, a, b, type);
      } else if (code == ElementOp::kShiftLeft) {
        total = shifted(code, a, b, type);
      } else {
        total = apply(code, a, b, type);
      }
    }
    Value y = *total;
    if (code == ElementOp::kXor && row.shape == ElementRow::Shape::Compare)
      y = apply(ElementOp::kNot, y, DataType::BOOL);
    if (op.def().base().type() == "BitwiseXnor") y = apply(ElementOp::kIntNot, y, type);
    if (op.def().base().type() == "Mean")
      y = apply(ElementOp::kDiv, y, number(static_cast<float>(op.inputCount())), type);
    return define(op, row.narrows ? narrowed(y) : y);
  }
  Value copied(Value v) {
    if (v.isOne) return v;
    const RegisterForm form = v.form();
    return apply(form == RegisterForm::kFloat  ? ElementOp::kCopy
                 : form == RegisterForm::kMask ? ElementOp::kMaskCopy
                                               : ElementOp::kIntCopy,
                 v, v.type);
  }
  Value shifted(ElementOp code, Value a, Value b, DataType type) {
    ++cost_;
    return append(elementFunction(code, 0), {a, b}, type, {static_cast<float>(8 * getDataTypeInfo(type).nbytes), 0});
  }

  // Operands the operator does not take are reported before it computes.
  void check(const Op &op, ElementCheck kind, Value a, Value b, DataType type) {
    if (kind == ElementCheck::None) return;
    ElementInstruction c;
    c.in = {static_cast<int16_t>(a.pointer), static_cast<int16_t>(b.pointer), -1};
    c.parameters = {static_cast<float>(8 * getDataTypeInfo(type).nbytes), 0};
    c.check = kind;
    c.type = op.def().base().type().c_str();
    program_.code.push_back(c);
  }

  bool compileCast(const Op &op) {
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
    const bool isInt = a->form() == RegisterForm::kInt;
    const Value x = whole(*a), y = whole(*b);
    return define(op,
                  append(elementFunction(isInt ? ElementOp::kIntWhere : ElementOp::kWhere, 0), {*m, x, y}, a->type));
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

  // ---- results ----------------------------------------------------------------------------------
  bool storeOutputs() {
    std::vector<int> moved;
    for (size_t o = 0; o < source_.outputs.size(); ++o) {
      const auto it = values_.find(source_.outputs[o]);
      const auto v = it != values_.end() ? std::optional<Value>(it->second) : read(source_.outputs[o]);
      if (!v) return false;
      const int target = outputBase_ + static_cast<int>(o);
      const bool isTemporary =
          v->pointer >= kTemporary && std::find(moved.begin(), moved.end(), v->pointer) == moved.end();
      if (isNative(v->type) && isTemporary && !v->isOne) {
        moved.push_back(v->pointer);
        rename_[v->pointer] = target;
        continue;
      }
      ElementInstruction c;
      c.fn = storeFunction(v->type);
      c.in[0] = static_cast<int16_t>(whole(*v).pointer);
      c.out = static_cast<int16_t>(target);
      program_.code.push_back(c);
    }
    return true;
  }

  void assignRegisters() {
    std::map<int, int> lastRead;
    for (size_t c = 0; c < program_.code.size(); ++c)
      for (int16_t &in : program_.code[c].in)
        if (in >= kTemporary) lastRead[in] = static_cast<int>(c);
    const int base = constantBase_ + static_cast<int>(program_.constants.size());
    std::map<int, int> place;
    std::vector<int> free;
    int used = 0;
    for (size_t c = 0; c < program_.code.size(); ++c) {
      ElementInstruction &code = program_.code[c];
      std::vector<int> released;
      for (int16_t &in : code.in) {
        if (in < kTemporary) continue;
        const int t = in;
        if (const auto it = rename_.find(t); it != rename_.end()) {
          in = static_cast<int16_t>(it->second);
          continue;
        }
        in = static_cast<int16_t>(base + place.at(t));
        if (lastRead[t] == static_cast<int>(c) &&
            std::find(released.begin(), released.end(), place.at(t)) == released.end())
          released.push_back(place.at(t));
      }
      if (code.out >= kTemporary) {
        const int t = code.out;
        if (const auto it = rename_.find(t); it != rename_.end()) {
          code.out = static_cast<int16_t>(it->second);
        } else {
          if (free.empty()) free.push_back(used++);
          place[t] = free.back();
          free.pop_back();
          code.out = static_cast<int16_t>(base + place[t]);
          if (!lastRead.count(t)) free.push_back(place[t]);
        }
      }
      free.insert(free.end(), released.begin(), released.end());
    }
    program_.temporaries = used;
  }

  const ElementSource &source_;
  const std::vector<ElementInput> &inputs_;
  ElementProgram &program_;
  const int outputBase_, constantBase_;
  std::map<TensorIndex, Value> values_;
  std::map<int, int> rename_;  // temporary -> output
  int fresh_ = 0, cost_ = 0;
  std::string reason_;
};

}  // namespace

ElementSource elementSource(const Graph &body) {
  ElementSource source{&body, {}, body.inputs(), body.outputs()};
  for (const Op *op : body.getOpSchedule()) source.ops.push_back(op);
  return source;
}

std::optional<int> compileElements(const ElementSource &source, const std::vector<ElementInput> &inputs,
                                   ElementProgram &program, std::string &reason) {
  return Compiler(source, inputs, program).run(reason);
}

}  // namespace popart::cpu
