// See spare_memory.hpp. Decisions are about memory: views count for the tensor that they view.
#include "transforms/spare_memory.hpp"

#include <algorithm>
#include <array>

#include "transforms/recompute.hpp"

namespace popart::transforms {
namespace {

class Lister {
 public:
  Lister(Graph &main, const OffChip &offChip, const SpareMemoryOptions &options)
      : main_(main), offChip_(offChip), options_(options), order_(main.getOpSchedule()), storage_(main.tensorSlots()) {
    for (uint32_t t = 0; t < storage_.size(); ++t) storage_[t] = t;
    for (const Op *op : order_)
      if (isViewOfFirst(*op)) storage_[op->outputs()[0].value] = storage_[op->inputs()[0].value];
  }

  std::vector<SpareMemory> run() {
    if (options_.firstGradient) listActivations();
    for (const Tensor *variable : main_.tensorsOfType(TensorType::Variable)) listVariable(*variable);
    for (const TensorId &id : options_.constants)
      if (const TensorIndex t = main_.find(id); t.valid()) listConstant(main_.tensor(t));
    return std::move(result_);
  }

 private:
  bool isForward(const Op &op) const {
    return op.place() < *options_.firstGradient && op.settings.recomputeType != RecomputeType::Recomputed;
  }

  // ---- activations

  void listActivations() {
    std::vector<std::vector<TensorIndex>> readBackward(storage_.size());  // by the tensor that they view
    std::vector<int> readers(storage_.size());                            // in the forward pass
    for (const Op *op : order_)
      for (const TensorIndex t : op->inputs()) {
        if (!t.valid()) continue;
        const uint32_t memory = storage_[t.value];
        if (isForward(*op)) {
          readers[memory] += !isViewOfFirst(*op);
        } else if (op->settings.recomputeType != RecomputeType::Recomputed &&
                   !std::ranges::count(readBackward[memory], t)) {
          readBackward[memory].push_back(t);
        }
      }
    std::vector<Cost> again(storage_.size());  // its cost, with ops before it that are not read backwards
    for (const Op *op : order_) {
      if (!isForward(*op) || isViewOfFirst(*op)) continue;
      Cost cost = costOf(*op);
      for (const TensorIndex t : op->inputs())
        if (t.valid() && readBackward[storage_[t.value]].empty()) cost += again[storage_[t.value]];
      listResults(*op, readBackward, cost);
      for (const TensorIndex t : op->outputs()) {
        if (!t.valid()) continue;
        const double share = 1.0 / std::max(1, readers[t.value]);  // each reader needs it, and it is made once
        again[t.value] = {cost.flops * share, cost.bytesRead * share, cost.bytesWritten * share};
      }
    }
  }

  void listResults(const Op &op, const std::vector<std::vector<TensorIndex>> &readBackward, const Cost &cost) {
    SpareMemory spare;
    if (&op == lossMaker()) return;
    for (const TensorIndex t : op.outputs()) {
      if (!t.valid() || readBackward[t.value].empty() || isAnchored(t)) continue;
      spare.bytes += main_.info(t).nbytes();
      spare.repeated.push_back(main_.tensor(t).id);
      for (const TensorIndex shown : readBackward[t.value]) {
        if (!mayMove(main_.tensor(shown)) || op.settings.tensorLocation) continue;
        spare.moved.push_back(main_.tensor(shown).id);
        spare.bytesPerMicroBatch += 2 * main_.info(shown).nbytes();  // stored once, loaded once
      }
    }
    if (spare.bytes == 0) return;
    spare.again = cost;
    if (!mayRepeat(op) || op.settings.recomputeType == RecomputeType::Recompute) spare.repeated.clear();
    if (!spare.repeated.empty() || !spare.moved.empty()) result_.push_back(std::move(spare));
  }

  const Op *lossMaker() const {
    const TensorIndex loss = main_.find(options_.loss);
    return loss.valid() ? main_.tensor(loss).getProducerUnsafe() : nullptr;
  }

  bool isAnchored(TensorIndex t) const { return options_.anchors.contains(main_.tensor(t).id); }

  // Whether no option says where it is stored.
  bool mayMove(const Tensor &t) const {
    return isFloatingPoint(t.info.dataType()) && !offChip_.byTensor.contains(t.id);
  }

  // ---- variables

  enum class Phase : uint8_t { Forward, Backward, Update };

  Phase phaseOf(const Op &op) const {
    if (options_.accumulates && op.settings.executionContext == ExecutionContext::AccumulateOuterFragment)
      return Phase::Update;
    return options_.firstGradient && op.place() >= *options_.firstGradient ? Phase::Backward : Phase::Forward;
  }

  void listVariable(const Tensor &variable) {
    if (!mayMove(variable) || variable.isRemote || offChip_.holds(variable) || isAnchored(variable.index())) return;
    std::array<bool, 3> reads{}, writes{};
    bool isShown = false;  // by a view, which could exist longer than a change
    for (const Use &use : variable.uses()) {
      const Op &op = main_.op(use.op);
      if (op.is(Role::HostStore)) continue;
      const auto phase = static_cast<size_t>(phaseOf(op));
      reads[phase] = true;
      writes[phase] = writes[phase] || op.modifiesInput(use.input);
      isShown = isShown || isViewOfFirst(op);
    }
    const auto changes = std::ranges::count(writes, true);
    if (std::ranges::count(reads, true) == 0 || (isShown && changes > 0)) return;
    const int64_t bytes = variable.info.nbytes();
    SpareMemory spare;
    spare.variable = OffChip::heldAs(variable);
    spare.bytes = bytes;
    spare.moved = {variable.id};
    for (size_t phase = 0; phase < reads.size(); ++phase)
      (static_cast<Phase>(phase) == Phase::Update ? spare.bytesPerUpdate : spare.bytesPerMicroBatch) +=
          bytes * (reads[phase] + writes[phase]);
    result_.push_back(std::move(spare));
  }

  // ---- constants

  bool productsAloneRead(const Tensor &t) const {
    return !t.uses().empty() && std::ranges::all_of(t.uses(), [&](const Use &use) {
      const Op &op = main_.op(use.op);
      return op.is(Role::MatMul) || (op.is(Role::Transpose) && productsAloneRead(main_.tensor(op.outputs()[0])));
    });
  }

  void listConstant(const Tensor &t) {
    if (t.tensorType() != TensorType::Const || !mayMove(t) || isAnchored(t.index()) || !productsAloneRead(t)) return;
    SpareMemory spare;
    spare.variable = OffChip::Held::Weight;
    spare.isConstant = true;
    spare.bytes = spare.bytesPerMicroBatch = t.info.nbytes();
    spare.moved = {t.id};
    result_.push_back(std::move(spare));
  }

  Graph &main_;
  const OffChip &offChip_;
  const SpareMemoryOptions &options_;
  const std::vector<Op *> order_;
  std::vector<uint32_t> storage_;  // by tensor: the one whose memory it shares
  std::vector<SpareMemory> result_;
};

}  // namespace

std::vector<SpareMemory> listSpareMemory(Ir &ir, const OffChip &offChip, const SpareMemoryOptions &options) {
  return Lister(ir.getMainGraph(), offChip, options).run();
}

}  // namespace popart::transforms
