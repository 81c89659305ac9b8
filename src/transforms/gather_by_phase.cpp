// See shard_state.hpp. One walk over the schedule: a gather is placed before its first reader in a phase.
#include <popart/ir.hpp>

#include "transforms/host_io.hpp"
#include "transforms/shard_state.hpp"

namespace popart::transforms {
namespace {

enum class PassOfStep : uint8_t { Forward, Backward };

class Gatherer {
 public:
  Gatherer(Graph &main, const Shardings &shardings, const TensorId &loss)
      : main_(main), shardings_(shardings), order_(main.getOpSchedule()) {
    const TensorIndex t = loss.empty() ? TensorIndex{} : main_.find(loss);
    const Op *last = t.valid() ? main_.tensor(t).getProducerUnsafe() : nullptr;
    PassOfStep phase = PassOfStep::Forward;
    for (const Op *op : order_) {
      phases_[op->index()] = phase;
      if (op == last) phase = PassOfStep::Backward;
      if (const TensorIndex t = gathered(*op); t.valid()) gathers_.push_back(op->index());
    }
  }

  void run() {
    for (Op *op : order_)
      for (InIndex i = 0; i < op->inputCount(); ++i)
        if (op->hasInput(i)) read(*op, i);
    for (const OpIndex gather : gathers_)
      if (main_.tensor(main_.op(gather).outputs()[0]).uses().empty()) main_.eraseOpAndOutputs(gather);
  }

 private:
  struct Copy {
    TensorIndex whole;
    PassOfStep phase = PassOfStep::Forward;
  };

  // The weight that the op gathers for the model; invalid for other ops.
  TensorIndex gathered(const Op &op) const {
    if (!op.is(Role::ReplicatedAllGather)) return {};
    if (op.settings.executionContext == ExecutionContext::AccumulateOuterFragment) return {};
    const TensorIndex t = op.inputs()[0];
    for (const Use &use : main_.tensor(op.outputs()[0]).uses())
      if (main_.op(use.op).is(Role::HostStore)) return {};  // it reads the updated weight
    return shardings_.count(main_.tensor(t).id) ? t : TensorIndex{};
  }

  void read(const Op &reader, InIndex i) {
    const Op *gather = main_.tensor(reader.inputs()[static_cast<size_t>(i)]).getProducerUnsafe();
    const TensorIndex weight = gather ? gathered(*gather) : TensorIndex{};
    if (!weight.valid()) return;
    const PassOfStep phase = phases_.at(reader.index());
    Copy &copy = copies_[weight];
    if (!copy.whole.valid() || (copy.phase != phase && last_ != weight)) {
      const auto known = phases_.find(gather->index());
      const bool fits = known == phases_.end() || known->second == phase;
      copy.whole = fits ? gather->outputs()[0] : gatherAgain(*gather, reader);
      last_ = weight;
    }
    copy.phase = phase;
    main_.connectInput(reader.index(), i, copy.whole);
  }

  TensorIndex gatherAgain(const Op &gather, const Op &reader) {
    Op::Settings settings = gather.settings;
    settings.sequence = reader.place();
    settings.recomputeType = RecomputeType::Recomputed;  // equal ops of both phases are not merged
    return main_
        .addConnectedOp(gather.def(), gather.inputs(),
                        {main_.freeId(main_.tensor(gather.inputs()[0]).id + "___gathered")}, gather.attributes(),
                        settings)
        ->outputs()[0];
  }

  Graph &main_;
  const Shardings &shardings_;
  const std::vector<Op *> order_;
  std::map<OpIndex, PassOfStep> phases_;  // phases of the original ops
  std::vector<OpIndex> gathers_;
  std::map<TensorIndex, Copy> copies_;  // by weight: the current copy
  TensorIndex last_;                    // the weight that was gathered last
};

}  // namespace

void storeWhole(Graph &main, const TensorId &variable, const Sharding &sharding, const std::string &stream,
                ExecutionContext context) {
  Op::Settings settings(main);
  settings.executionContext = context;
  const TensorIndex whole = gatherParts(main, main.getTensor(variable)->index(), sharding.domain,
                                        sharding.whole.shape(), variable + "___gathered", settings);
  storeAnchor(main, main.tensor(whole).id, stream, context);
}

void gatherByPhase(Graph &main, const Shardings &shardings, const TensorId &loss) {
  Gatherer(main, shardings, loss).run();
}

}  // namespace popart::transforms
