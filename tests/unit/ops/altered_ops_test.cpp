// Rows refuse what their kernels cannot take; gradient rows what cannot come from their forward op. Every op of the
// programs of gradient cases, and those that optimizers and views need, is taken out of its program and altered in one
// place: a dimension or the type of an input, an entry of an attribute. The altered op
// must be refused by its shape rule with an error of the user's kind, or run on both backends (under sanitizers:
// without touching memory outside its tensors).
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "../support/any_run.hpp"
#include "../support/gradient_cases.hpp"

namespace popart::testing {
namespace {

using Ints = std::vector<int64_t>;

// An op without its program.
struct BareOp {
  std::string type;
  Attributes attributes;
  std::vector<TensorInfo> inputs;  // an unset info: not connected
  int outputs = 1;

  std::string text() const {
    std::string words = type + "(";
    for (const TensorInfo &info : inputs) words += (info.isSet() ? info.str() : "_") + " ";
    words += ")";
    for (const auto &[name, value] : attributes.entries()) {
      if (const auto *ints = std::get_if<Ints>(&value)) words += " " + name + "=" + toText(*ints);
      if (const auto *number = std::get_if<int64_t>(&value)) words += " " + name + "=" + toText(*number);
    }
    return words;
  }
};

BareOp bare(const Op &op) {
  BareOp result{op.opType(), op.attributes(), {}, op.outputCount()};
  for (int i = 0; i < op.inputCount(); ++i) result.inputs.push_back(op.hasInput(i) ? op.inInfo(i) : TensorInfo());
  return result;
}

// Rows that the cases' programs do not hold.
std::vector<BareOp> otherOps() {
  const TensorInfo probs(DataType::FLOAT, {2, 3, 4}), labels(DataType::INT64, {2, 3}), scalar(DataType::FLOAT, {}),
      w(DataType::FLOAT, {3, 4}), rows(DataType::INT64, {2}), part(DataType::FLOAT, {2, 4}),
      losses(DataType::FLOAT, {2}), heads(DataType::FLOAT, {2, 3, 4, 6}), angles(DataType::FLOAT, {3, 3}),
      column(DataType::FLOAT, {4}), packed(DataType::UINT16, {2, 3, 4}), groups(DataType::FLOAT, {2, 3, 1});
  const Attributes float8{{"format", static_cast<int64_t>(DataType::FLOAT8_143)}};
  const Attributes mean{{"reduction", std::string("Mean")}};
  const auto kind = [](const char *name) { return Attributes{{"accumulation_type", std::string(name)}}; };
  const Attributes adam{{"mode", std::string("Adam")}, {"beta1", 0.9f}, {"beta2", 0.99f}, {"epsilon", 0.1f}};
  const Attributes eps{{"epsilon", 0.1f}};
  return {{"SoftmaxGradDirect", mean, {probs, labels, scalar}},
          {"NlllWithSoftmaxGradDirect", mean, {probs, labels, scalar}, 2},
          {"Accumulate", kind("MovingAverageSquare"), {w, w, scalar}},
          {"Accumulate", kind("Add"), {w, w}},
          {"PopartSparseAccumulate", {}, {w, part, rows, scalar}},
          {"AccumulatorScale", {{"factor", 0.5f}}, {w}},
          {"AdamUpdater", adam, {w, w, w, scalar}, 2},
          {"AdamVarUpdate", {{"lr", 0.1f}}, {w, w, scalar, scalar}},
          {"SGD0VarUpdate", {{"slr0", 0.1f}, {"wdsf0", 1.0f}}, {w, w}},
          {"SGD1AcclUpdate", {{"smm1", 0.1f}, {"swd1", 1.0f}}, {w, w}},
          {"SGD1VarUpdate", {{"slr1", 0.1f}}, {w, w}},
          {"SGD1Nesterov", {{"ils", 1.0f}, {"wd", 0.0f}, {"ngsf", 1.0f}, {"mm", 0.5f}}, {w, w, w}},
          {"RMSPropUpdater", eps, {w, w, w}},
          {"AdaDeltaUpdater", eps, {w, w, w}},
          {"ScaledVarUpdate", {{"lr", 0.1f}}, {w, w}},
          {"LambSquare", {}, {w}},
          {"CopyVarUpdate", {}, {w, w}},
          {"ScaledAdd", {}, {w, w, scalar, scalar}},
          {"Init", {{"shape", Ints{2, 3}}, {"dtype", int64_t{1}}}, {}},
          {"ReplicatedAllReduce", {}, {w}},
          {"ReplicatedReduceScatter", {}, {w}},
          {"ReplicatedAllGather", {{"shape", Ints{3, 4}}}, {w}},
          {"ReplicatedAllToAll", {}, {w}},
          {"ReplicatedBroadcast", {}, {w}},
          {"ReplicatedAllReduceTP", {}, {w}},
          {"CrossEntropySharded", {}, {part, rows}, 2},
          {"CrossEntropyShardedGrad", {}, {part, rows, losses}},
          {"CrossEntropyShardedWR", {}, {rows, part, part}, 2},
          {"CrossEntropyShardedGradWR", {{"classes", Ints{1, 3}}}, {part, rows, losses}, 2},
          {"ReplicatedReduceScatterStrided", {}, {w}},
          {"ReplicatedAllGatherStrided", {{"shape", Ints{3, 4}}}, {w}},
          {"LayerNormDistributed", {}, {part, column, column}, 3},
          {"LayerNormDistributedGrad", {}, {part, part, column, losses, losses}, 3},
          {"RotaryPosEmbed", {}, {heads, angles, angles}},
          {"RotaryPosEmbedGrad", {}, {heads, angles, angles}},
          {"GradReduceSquareAdd", {}, {w, scalar}},
          {"GroupQuantizeDecompress", {}, {packed, groups, groups}},
          {"SparseMatmul", {{"shape", Ints{4, 5}}}, {w, losses, rows}},
          {"Fp8Scale", float8, {w}},
          {"LinearLayout", {}, {w}},
          {"ArgMax", {}, {w}},
          {"SpaceToDepth", {{"blocksize", int64_t{2}}}, {TensorInfo(DataType::FLOAT, {1, 2, 4, 6})}}};
}

using OpsByType = std::map<std::string, std::vector<BareOp>>;

// Ops of every case by type, each once.
const OpsByType &ops() {
  static const OpsByType kOps = [] {
    OpsByType ops;
    std::set<std::string> seen;
    for (const test::GradientCase &c : test::gradientCases()) {
      std::unique_ptr<Ir> ir;
      try {
        ir = test::gradientProgram(c);
      } catch (const error &) {  // every_case_is_legal names it
        continue;
      }
      for (const Op *op : ir->getMainGraph().ops())
        if (seen.insert(bare(*op).text()).second) ops[op->opType()].push_back(bare(*op));
    }
    for (const BareOp &op : otherOps()) ops[op.type].push_back(op);
    return ops;
  }();
  return kOps;
}

enum class Rows { All, Gradients };

std::vector<std::string> types(Rows rows) {
  std::vector<std::string> types;
  for (const auto &entry : ops())
    if (rows == Rows::All || opDef(entry.first).has(Trait::Gradient)) types.push_back(entry.first);
  return types;
}

// ---- alterations

constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();

std::vector<int64_t> otherNumbers(int64_t n) {
  std::vector<int64_t> numbers;
  for (int64_t other : {n - 1, n + 1, int64_t{0}, int64_t{-1}, 2 * n, int64_t{1000}, int64_t{1} << 40, kMost, kLeast})
    if (other != n) numbers.push_back(other);
  return numbers;
}

std::vector<Ints> otherLists(const Ints &list) {
  std::vector<Ints> lists;
  for (size_t i = 0; i < list.size(); ++i)
    for (int64_t other : otherNumbers(list[i])) {
      lists.push_back(list);
      lists.back()[i] = other;
    }
  lists.push_back(list);
  lists.back().push_back(1);
  if (list.empty()) return lists;
  lists.emplace_back(list.begin() + 1, list.end());
  lists.emplace_back(list.begin(), list.end() - 1);
  return lists;
}

std::vector<BareOp> alteredInputs(const BareOp &op) {
  std::vector<BareOp> ops;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!op.inputs[i].isSet()) continue;
    const auto with = [&](const TensorInfo &info) {
      ops.push_back(op);
      ops.back().inputs[i] = info;
    };
    for (const Ints &shape : otherLists(op.inputs[i].shape())) try {
        with(TensorInfo(op.inputs[i].dataType(), shape));
      } catch (const error &) {  // no tensor has this shape
      }
    for (DataType type : {DataType::FLOAT, DataType::DOUBLE, DataType::FLOAT16, DataType::INT32, DataType::UINT8})
      if (type != op.inputs[i].dataType()) with(TensorInfo(type, op.inputs[i].shape()));
    with(TensorInfo());
  }
  return ops;
}

std::vector<BareOp> alteredAttributes(const BareOp &op) {
  std::vector<BareOp> ops;
  for (const auto &[name, value] : op.attributes.entries()) {
    const auto with = [&, attribute = name](const AttributeValue &other) {
      ops.push_back(op);
      ops.back().attributes.set(attribute, other);
    };
    if (const auto *number = std::get_if<int64_t>(&value))
      for (int64_t other : otherNumbers(*number)) with(other);
    if (const auto *list = std::get_if<Ints>(&value))
      for (const Ints &other : otherLists(*list)) with(other);
  }
  return ops;
}

// ---- what becomes of them

enum class Fate { Refused, TooLarge, Ran };

// Throws internal_error and others that are no refusal.
Fate fateOf(const BareOp &bareOp) {
  constexpr int64_t kMostElements = 20'000;
  Ir ir;
  Graph &graph = ir.getMainGraph();
  std::vector<TensorIndex> inputs;
  std::vector<TensorId> outputs;
  for (size_t i = 0; i < bareOp.inputs.size(); ++i)
    inputs.push_back(bareOp.inputs[i].isSet() ? graph.addStream("in" + std::to_string(i), bareOp.inputs[i])
                                              : TensorIndex{});
  for (int i = 0; i < bareOp.outputs; ++i) outputs.push_back("out" + std::to_string(i));
  const Op *op = nullptr;
  try {
    op = graph.addConnectedOp(opDef(bareOp.type), inputs, outputs, bareOp.attributes, Op::Settings(graph, "altered"));
  } catch (const internal_error &) {
    throw;
  } catch (const error &e) {
    EXPECT_NE(std::string(e.what()).find(bareOp.type), std::string::npos) << "the message does not name the op";
    return Fate::Refused;
  }
  int64_t elements = 0;
  for (const Tensor *tensor : graph.tensors()) elements = std::max(elements, tensor->info.nelms());
  if (elements > kMostElements) return Fate::TooLarge;
  test::addHostIo(graph, op->outputs());
  verify(ir);
  const bool readsIndices = std::any_of(bareOp.inputs.begin(), bareOp.inputs.end(), [](const TensorInfo &info) {
    return info.isSet() && !isFloatingPoint(info.dataType());
  });
  for (uint64_t seed = 1; seed <= (readsIndices ? 4 : 1); ++seed) test::runOnBothBackends(ir, seed);
  return Fate::Ran;
}

// Rows of one tensor that keep its shape or follow attributes alone: any tensor can be their gradient.
bool takesAnyShape(const BareOp &op) { return op.inputs.size() == 1 && !op.attributes.hasAttribute("fwd_shape"); }

class AnyRow : public ::testing::TestWithParam<std::string> {};
class GradientRow : public ::testing::TestWithParam<std::string> {};

TEST_P(AnyRow, altered_op_is_refused_or_runs) {
  for (const BareOp &op : ops().at(GetParam())) {
    SCOPED_TRACE(op.text());
    EXPECT_EQ(fateOf(op), Fate::Ran);
    for (const std::vector<BareOp> &altered : {alteredInputs(op), alteredAttributes(op)})
      for (const BareOp &other : altered) {
        SCOPED_TRACE("altered: " + other.text());
        EXPECT_NO_THROW(fateOf(other));
      }
  }
}

TEST_P(GradientRow, gradient_of_another_shape_is_refused) {
  for (const BareOp &op : ops().at(GetParam())) {
    if (takesAnyShape(op)) continue;
    SCOPED_TRACE(op.text());
    int64_t refused = 0;
    for (const BareOp &other : alteredInputs(op)) refused += fateOf(other) == Fate::Refused;
    EXPECT_GT(refused, 0);
    for (const char *hopeless : {"[-1]", "[2, 1099511627776, 1099511627776]"}) {
      if (!op.attributes.hasAttribute("fwd_shape")) continue;
      BareOp other = op;
      other.attributes.set("fwd_shape", hopeless[1] == '-' ? Ints{-1} : Ints{2, int64_t{1} << 40, int64_t{1} << 40});
      EXPECT_EQ(fateOf(other), Fate::Refused) << hopeless;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, AnyRow, ::testing::ValuesIn(types(Rows::All)),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Shapes, GradientRow, ::testing::ValuesIn(types(Rows::Gradients)),
                         [](const auto &info) { return info.param; });

TEST(GradientCases, every_case_is_legal) {
  for (const test::GradientCase &c : test::gradientCases()) EXPECT_NO_THROW(test::gradientProgram(c)) << c.type;
}

TEST(GradientCases, holds_every_gradient_row) {
  std::set<std::string> missing;
  for (const OpDef *row : allOpDefs())
    if (row->has(Trait::Gradient) && !ops().count(row->type())) missing.insert(row->type());
  EXPECT_TRUE(missing.empty()) << "no case in tests/unit/support/gradient_cases.cpp makes " << *missing.begin();
}

}  // namespace
}  // namespace popart::testing
