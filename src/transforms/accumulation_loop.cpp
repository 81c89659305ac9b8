// See accumulation_loop.hpp. The body keeps the ids of the tensors it takes over; variables, and what else the main
// graph makes, reach it as loop inputs, constants are copied. A tensor that is a variable's new value is read as that
// variable after the loop.
#include "transforms/accumulation_loop.hpp"

#include <map>
#include <set>

namespace popart::transforms {
namespace {

bool isOuter(const Op &op) { return op.settings.executionContext == ExecutionContext::AccumulateOuterFragment; }

class LoopMaker {
 public:
  LoopMaker(Ir &ir, int64_t count)
      : main_(ir.getMainGraph()), body_(ir.createGraph(ir.createUniqueSubgraphId("accumulation"))), count_(count) {
    iteration_ = body_.addInput("iteration", TensorInfo(DataType::INT64, {}));
    condition_ = body_.addInput("condition", TensorInfo(DataType::BOOL, {}));
  }

  void run() {
    const std::vector<Op *> ops = main_.getOpSchedule();
    placeStores(ops);
    for (Op *op : ops)
      if (inner(*op)) moved_.push_back(op);
    for (Op *op : moved_) copyIntoBody(*op);
    std::vector<Op *> outer;
    for (Op *op : main_.ops())
      if (!inner(*op)) outer.push_back(op);
    for (Op *op : outer) redirectInputs(*op);
    moveConstraints();
    Op *loop = addLoop();
    for (const auto &[carried, result] : results_) readAfterLoop(carried, result, *loop);
    eraseMoved();
    for (Op *op : outer) main_.addConstraint(loop->index(), op->index());
  }

 private:
  // A value made in the body that leaves it: its last one, or (true) the sum over the iterations.
  using Carried = std::pair<TensorIndex, bool>;
  static bool readsSum(const Op &op) { return op.is("HostStore") && op.attrString("return") == "sum"; }

  bool inner(const Op &op) const { return !isOuter(op); }
  bool madeInBody(TensorIndex t) const {
    return main_.tensor(t).hasProducer() && inner(*main_.tensor(t).getProducer());
  }

  // Stores that do not belong into the body join the outer part, as often as their anchor returns values.
  void placeStores(const std::vector<Op *> &ops) {
    for (Op *op : ops) {
      if (!op->is("HostStore")) continue;
      const std::string kind = op->attrString("return");
      const TensorIndex value = op->inputs()[0];
      const bool each = kind == "all" || kind == "everyn";
      if (madeInBody(value) && each) continue;
      op->settings.executionContext = ExecutionContext::AccumulateOuterFragment;
      if (each)
        for (int64_t i = 1; i < count_; ++i)
          main_.addConnectedOp(op->def(), op->inputs(), {}, op->attributes(), op->settings);
    }
  }

  // The variable whose new value `t` is; invalid when it is none.
  TensorIndex variableOf(TensorIndex t) const {
    while (main_.tensor(t).hasProducer()) {
      const Op &producer = *main_.tensor(t).getProducer();
      const OutIndex output = main_.tensor(t).producerOutput();
      TensorIndex source;
      for (const AliasDef &alias : producer.def().aliasRules())
        if (alias.modifies && alias.output == output && producer.hasInput(alias.input))
          source = producer.inputs()[alias.input];
      if (!source.valid()) return {};
      t = source;
    }
    return main_.tensor(t).tensorType() == TensorType::Variable ? t : TensorIndex{};
  }

  // ---- the body
  TensorIndex inBody(TensorIndex t) {
    if (const auto it = inBody_.find(t); it != inBody_.end()) return it->second;
    const Tensor &tensor = main_.tensor(t);
    if (tensor.hasProducer() && isOuter(*tensor.getProducer()))
      throw internal_error("Accumulation: '{}' is made after the loop that reads it.", tensor.id);
    if (tensor.tensorType() == TensorType::Const)
      return inBody_[t] = body_.addConstant(body_.freeId(tensor.id), tensor.tensorData());
    inputs_.push_back(t);
    return inBody_[t] = body_.addTensor(body_.freeId(tensor.id), tensor.info, TensorType::ActGrad);
  }

  void copyIntoBody(const Op &op) {
    std::vector<TensorIndex> inputs;
    for (TensorIndex t : op.inputs()) inputs.push_back(t.valid() ? inBody(t) : TensorIndex{});
    std::unique_ptr<Op> clone = op.clone();
    clone->settings.sequence = -1;  // the body is built in program order
    Op *copy = body_.addOp(std::move(clone));
    opInBody_[op.index()] = copy->index();
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].valid()) body_.connectInput(copy->index(), static_cast<InIndex>(i), inputs[i]);
    for (int o = 0; o < op.outputCount(); ++o) {
      if (!op.hasOutput(o)) continue;
      const TensorIndex made = body_.createOutput(copy->index(), o, body_.freeId(op.outId(o)));
      body_.tensor(made).info = op.outInfo(o);
      inBody_[op.outputs()[o]] = made;
    }
    for (InIndex i = 0; i < op.inputCount(); ++i) {
      if (!op.hasInput(i) || !op.modifiesInput(i)) continue;
      if (const TensorIndex variable = variableOf(op.inputs()[i]); variable.valid()) modified_.insert(variable);
    }
  }

  void moveConstraints() {
    for (const auto &[before, after] : main_.constraints())
      if (opInBody_.count(before) && opInBody_.count(after)) body_.addConstraint(opInBody_[before], opInBody_[after]);
  }

  // ---- values that leave the body
  void redirectInputs(Op &op) {
    for (InIndex i = 0; i < op.inputCount(); ++i) {
      if (!op.hasInput(i) || !madeInBody(op.inputs()[i])) continue;
      const TensorIndex value = op.inputs()[i];
      if (const TensorIndex variable = variableOf(value); variable.valid()) {
        main_.connectInput(op.index(), i, variable);
      } else if (const Carried carried{value, readsSum(op)}; !results_.count(carried)) {
        const TensorId id = main_.freeId(main_.tensor(value).id + "___afterLoop");
        results_[carried] = main_.addTensor(id, main_.info(value), TensorType::ActGrad);
      }
    }
  }

  // The body's output for a value: itself, or the sum so far.
  TensorIndex carriedValue(const Carried &carried, TensorIndex before) {
    const TensorIndex value = inBody_.at(carried.first);
    if (!carried.second) return value;
    const TensorId id = body_.freeId(main_.tensor(carried.first).id + "___sum");
    return body_.addConnectedOp(opDef("Add"), {before, value}, {id}, {}, Op::Settings(body_))->outputs()[0];
  }

  Op *addLoop() {
    std::vector<TensorIndex> loopInputs(2), bodyInputs{iteration_, condition_}, bodyOutputs{condition_};
    std::vector<TensorId> outputIds;
    for (const auto &[carried, result] : results_) {
      const TensorIndex value = carried.first;
      const TensorId id = main_.tensor(value).id;
      loopInputs.push_back(main_.addConstant(main_.freeId(id + "___beforeLoop"), TensorData(main_.info(value))));
      bodyInputs.push_back(body_.addTensor(body_.freeId(id + "___before"), main_.info(value), TensorType::ActGrad));
      bodyOutputs.push_back(carriedValue(carried, bodyInputs.back()));
    }
    std::vector<int64_t> modified;
    for (TensorIndex t : inputs_) {
      const bool writes = modified_.count(t) != 0;
      if (writes) modified.push_back(static_cast<int64_t>(loopInputs.size()));
      body_.tensor(inBody_.at(t)).byReference = writes;
      loopInputs.push_back(t);
      bodyInputs.push_back(inBody_.at(t));
    }
    body_.setInputs(bodyInputs);
    body_.setOutputs(bodyOutputs);
    Op::Settings settings(main_, "accumulation");
    settings.sequence = 0;
    Op *loop = main_.addOp(opDef("Loop"),
                           {{"body", GraphRef{body_.id}},
                            {"trip_count", count_},
                            {"carried", static_cast<int64_t>(results_.size())},
                            {"modified", modified}},
                           settings);
    for (size_t i = 2; i < loopInputs.size(); ++i)
      main_.connectInput(loop->index(), static_cast<InIndex>(i), loopInputs[i]);
    OutIndex output = 0;
    for (const auto &entry : results_) main_.connectOutput(loop->index(), output++, entry.second);
    loop->setup();
    return loop;
  }

  void readAfterLoop(const Carried &carried, TensorIndex result, const Op &loop) {
    const std::vector<Use> uses = main_.tensor(carried.first).uses();
    for (const Use &use : uses) {
      const Op &op = main_.op(use.op);
      if (use.op != loop.index() && isOuter(op) && readsSum(op) == carried.second) main_.replaceUse(use, result);
    }
  }

  void eraseMoved() {
    for (auto it = moved_.rbegin(); it != moved_.rend(); ++it) {
      const std::vector<TensorIndex> outputs = (*it)->outputs();
      main_.eraseOp((*it)->index());
      for (TensorIndex t : outputs)
        if (t.valid()) main_.eraseTensor(t);
    }
  }

  Graph &main_;
  Graph &body_;
  const int64_t count_;
  TensorIndex iteration_, condition_;
  std::vector<Op *> moved_;
  std::vector<TensorIndex> inputs_;            // of the main graph, in the order the body first reads them
  std::map<TensorIndex, TensorIndex> inBody_;  // main -> body
  std::map<OpIndex, OpIndex> opInBody_;
  std::set<TensorIndex> modified_;          // variables the body writes
  std::map<Carried, TensorIndex> results_;  // value made in the body, or its sum -> the loop's output
};

}  // namespace

void addAccumulationLoop(Ir &ir, int64_t count) {
  if (count > 1) LoopMaker(ir, count).run();
}

}  // namespace popart::transforms
