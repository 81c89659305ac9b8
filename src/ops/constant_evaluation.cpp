// Evaluation of single ops on constants. Shape and Size are computed here from the infos, everything else by the
// evaluator in the argument, so this room needs no backend.
#include "ops/constant_evaluation.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include <popart/graph.hpp>

#include "base/byte_size.hpp"
#include "base/environment.hpp"

namespace popart {
namespace {

// Ops whose result does not depend on constants alone, or that mark a place in the program.
constexpr Trait kNeverFolded = Trait::SideEffect | Trait::Random | Trait::VarUpdate | Trait::HostIo | Trait::Call |
                               Trait::Loss | Trait::NeverFolded;

std::vector<TensorData> evaluateMetadata(const Op &op) {
  const Shape &shape = op.inShape(0);
  if (op.outRank(0) == 0) return {TensorData::scalar<int64_t>(elementCount(shape))};
  const auto rank = static_cast<int64_t>(shape.size());
  auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  const int64_t start = op.hasAttr("start") ? clamp(op.attrInt("start")) : 0;
  const int64_t end = op.hasAttr("end") ? clamp(op.attrInt("end")) : rank;
  std::vector<int64_t> dims;
  for (int64_t i = start; i < end; ++i) dims.push_back(shape[i]);
  return {TensorData::of<int64_t>({static_cast<int64_t>(dims.size())}, dims)};
}

bool inputsAreConstant(const Op &op) {
  for (TensorIndex t : op.inputs()) {
    if (!t.valid()) continue;
    const Tensor &tensor = op.getGraph().tensor(t);
    if (tensor.tensorType() != TensorType::Const || !tensor.hasTensorData()) return false;
  }
  return true;
}

int64_t outputBytes(const Op &op) {
  int64_t bytes = 0;
  for (TensorIndex t : op.outputs())
    if (t.valid()) bytes += op.getGraph().info(t).nbytes();
  return bytes;
}

bool isUnusedConstant(const Tensor &tensor) {
  return tensor.tensorType() == TensorType::Const && tensor.uses().empty() && !tensor.hasProducer() &&
         !tensor.isGraphInput() && !tensor.isGraphOutput();
}

int64_t allowanceBytes() {
  const std::optional<std::string> given = environment::maxFoldedBytes();
  return given ? byteSizeFromText(*given, "environment variable POPART_MAX_FOLDED_BYTES") : kFoldAllowanceBytes;
}

int64_t constantBytes(const Graph &graph) {
  int64_t bytes = 0;
  for (const Tensor *tensor : graph.tensorsOfType(TensorType::Const)) bytes += tensor->tensorData().nbytes();
  return bytes;
}

// Takes the bytes of a result from the budget, and returns them if the result is not made after all.
class Reservation {
 public:
  Reservation(FoldBudget &budget, int64_t bytes) : budget_(budget), bytes_(bytes), isHeld_(budget.take(bytes)) {}
  ~Reservation() {
    if (isHeld_) budget_.giveBack(bytes_);
  }
  Reservation(const Reservation &) = delete;
  Reservation &operator=(const Reservation &) = delete;
  bool isHeld() const { return isHeld_; }
  void keep() { isHeld_ = false; }

 private:
  FoldBudget &budget_;
  int64_t bytes_;
  bool isHeld_;
};

}  // namespace

bool isFoldable(const Op &op, FoldSize size) {
  if (op.isUserOp()) return false;
  if (op.has(Trait::Metadata)) return op.hasInput(0);
  if (op.has(kNeverFolded) || !inputsAreConstant(op)) return false;
  return size == FoldSize::Required || !op.is(Role::Transpose) || outputBytes(op) <= kFoldTransposeBytes;
}

FoldBudget::FoldBudget(int64_t givenBytes) : leftBytes_(allowanceBytes()) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / (2 * kFoldedPerGivenByte);
  leftBytes_ += kFoldedPerGivenByte * std::min(givenBytes, kMost);
}

FoldBudget::FoldBudget(const Graph &graph) : leftBytes_(std::max(allowanceBytes(), constantBytes(graph))) {}

bool FoldBudget::take(int64_t bytes) {
  if (bytes > leftBytes_) return false;
  leftBytes_ -= bytes;
  return true;
}

bool foldOp(Op &op, const EvaluateOp &evaluate, FoldBudget &budget, FoldSize size) {
  if (!isFoldable(op, size)) return false;
  Reservation reservation(budget, op.has(Trait::Metadata) ? 0 : outputBytes(op));
  if (!reservation.isHeld()) return false;
  Graph &graph = op.getGraph();
  std::vector<TensorData> values;
  if (op.has(Trait::Metadata)) {
    values = evaluateMetadata(op);
  } else {
    if (!evaluate) return false;
    std::vector<TensorData> inputs;
    for (TensorIndex t : op.inputs()) inputs.push_back(t.valid() ? graph.tensor(t).tensorData() : TensorData());
    try {
      values = evaluate(op, inputs);
    } catch (const internal_error &) {
      throw;
    } catch (const error &) {
      return false;  // it has no kernel: the op stays in the graph
    }
  }
  const OpIndex index = op.index();
  const std::vector<TensorIndex> outputs = op.outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].valid()) continue;
    if (i >= values.size() || values[i].empty() || values[i].info() != graph.info(outputs[i]))
      throw internal_error("{}: evaluation at compile time gave another output {} than its shape rule", op.debugName(),
                           i);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].valid()) continue;
    graph.disconnectOutput(index, static_cast<OutIndex>(i));
    graph.tensor(outputs[i]).setTensorType(TensorType::Const);
    graph.tensor(outputs[i]).setTensorData(std::move(values[i]));
  }
  graph.eraseOp(index);
  reservation.keep();
  return true;
}

int foldOps(Graph &graph, const EvaluateOp &evaluate, const FoldChoice &choose) {
  int count = 0;
  std::set<TensorIndex> folded;
  FoldBudget budget(graph);
  for (Op *op : graph.getOpSchedule()) {
    const std::vector<TensorIndex> inputs = op->inputs(), outputs = op->outputs();
    const std::optional<FoldSize> size = choose(*op, folded);
    if (!size || !foldOp(*op, evaluate, budget, *size)) continue;
    ++count;
    folded.insert(outputs.begin(), outputs.end());
    for (TensorIndex t : inputs) {
      if (!t.valid() || !graph.alive(t) || !isUnusedConstant(graph.tensor(t))) continue;
      budget.giveBack(graph.tensor(t).tensorData().nbytes());
      graph.eraseTensor(t);
    }
  }
  return count;
}

}  // namespace popart
